package demo

import (
	"bytes"
	"context"
	"errors"
	"testing"
)

// interrupting is an output at which somebody presses ctrl-c as soon as the host has died.
type interrupting struct {
	bytes.Buffer
	stop func()
}

func (i *interrupting) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("loses power")) {
		i.stop()
	}
	return i.Buffer.Write(p)
}

// TestInterrupted: what is not back when somebody ends the demonstration is not called a problem.
func TestInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &interrupting{stop: stop}
	if err := Once(ctx, Options{Hosts: 3, Instances: 3, Seed: 1}, out, false); !errors.Is(err, errInterrupted) || bytes.Contains(out.Bytes(), []byte("problem")) {
		t.Errorf("%v\n%s", err, out)
	}
}
