package testkit

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"
)

// Run runs a command of salvor as an operator at a shell does, with that environment and at most for within, and returns its exit code
// and what it printed.
func Run(tb testing.TB, within time.Duration, environ []string, args ...string) (code int, printed string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary(tb), args...)
	cmd.Env = environ
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		tb.Fatalf("salvor %v: %v", args, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}
