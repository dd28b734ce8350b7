package fencing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/salvor-ha/salvor/internal/config"
)

// maxOutput is how much of a child's output, and of its errors, is kept; the rest is read and dropped.
const maxOutput = 64 << 10

// grace is how long a child that has ended may have its output held open by what it left behind, and how long one that is killed
// may take to die.
const grace = 500 * time.Millisecond

// child is a program that is run once. Secrets come to it by its standard input or its environment, which only its own user
// can read; never by its arguments, which everybody can.
type child struct {
	path  string
	args  []string
	env   []string // besides PATH and the language
	stdin string
	clean config.Cleaner
}

// ended is how a child ended by itself.
type ended struct {
	status int
	out    string // raw, bounded: to be read, not to be shown
	cut    bool   // there was more of it
	errs   string
}

// run runs the child to its end, in a session and process group of its own, without a terminal; the group is killed with ctx.
// An error: it could not be started, or did not end by itself.
func (c child) run(ctx context.Context) (ended, error) {
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C", "LC_ALL=C"}, c.env...)
	cmd.Stdin = strings.NewReader(c.stdin)
	var out, errs bounded
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = ofItsOwn()
	group := func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return nil
	}
	cmd.Cancel, cmd.WaitDelay = group, grace
	if err := cmd.Start(); err != nil {
		return ended{}, fmt.Errorf("%s cannot be run: %s: %w", c.path, c.clean.Line(err.Error()), ErrCannot)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		timer := time.NewTimer(2 * grace)
		defer timer.Stop()
		select {
		case err = <-done:
		case <-timer.C: // it hangs in the kernel, where no signal reaches it; it is waited for, but not here
			return ended{}, fmt.Errorf("%s does not end, even killed: %w", c.path, ctx.Err())
		}
	}
	_ = group() // whom the child left behind in its group; nobody is no error
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay), errors.As(err, &exit) && exit.Exited():
		return ended{status: cmd.ProcessState.ExitCode(), out: out.kept.String(), cut: out.cut, errs: errs.kept.String()}, nil
	case ctx.Err() != nil:
		return ended{}, fmt.Errorf("%s did not end in time and was killed: %w", c.path, ctx.Err())
	case exit != nil:
		return ended{}, fmt.Errorf("%s was ended by a signal (%s)", c.path, exit.ProcessState)
	}
	return ended{}, fmt.Errorf("%s: %s", c.path, c.clean.Line(err.Error()))
}

// said is what a child that failed said: the end of its errors, or else of its output.
func (c child) said(e ended) string {
	text := strings.TrimSpace(e.errs)
	if text == "" {
		text = strings.TrimSpace(e.out)
	}
	text = c.clean.Line(lastLines(text, 3))
	if text == "" {
		return fmt.Sprintf("exit status %d without a word", e.status)
	}
	return fmt.Sprintf("exit status %d: %s", e.status, text)
}

func lastLines(text string, n int) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], "")
}

// bounded keeps the first maxOutput bytes of what is written to it.
type bounded struct {
	kept bytes.Buffer
	cut  bool // more came
}

func (b *bounded) Write(p []byte) (int, error) {
	room := maxOutput - b.kept.Len()
	b.cut = b.cut || len(p) > room
	_, _ = b.kept.Write(p[:min(len(p), room)]) // a buffer takes everything
	return len(p), nil
}
