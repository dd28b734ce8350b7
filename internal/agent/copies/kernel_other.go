//go:build !linux

package copies

import (
	"errors"
	"os"
	"syscall"
)

func lowPriority() {}

func dropCache(*os.File) {}

func readOnlyError(err error) bool { return errors.Is(err, syscall.EROFS) }
