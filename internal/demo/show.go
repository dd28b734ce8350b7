package demo

import (
	"context"
	"io"
)

func Show(ctx context.Context, o Options, in io.Reader, out io.Writer, environ []string) error {
	return Once(ctx, o, out, false)
}
