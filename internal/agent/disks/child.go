package disks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// ErrHanging says that a probe has not ended within its deadline, or that an earlier one of the resource still has not.
var ErrHanging = errors.New("the filesystem does not answer")

// ErrStarved says that a probe has not ended within its deadline because it got no CPU: that is this host's load, and no word about a disk.
var ErrStarved = errors.New("the probe could run and got no CPU")

// Children run probes in child processes. Locks is a directory of this agent's own: a child holds its resource's lock file there as long as
// it lives, so that also an agent that was started anew never has two probes of one path.
type Children struct {
	Program []string // what answers: this binary, and the words that make it a probe
	Env     []string // besides PATH
	Locks   string
}

// reaped is how long a child that was killed may take to die before it is left behind.
const reaped = 200 * time.Millisecond

// lockLook is between two looks whether another probe has ended.
const lockLook = 100 * time.Millisecond

// Probe asks a child, until ctx ends; then the child is killed, and left behind if it does not die. ErrHanging: nothing answered. done is
// closed when the child has ended; until then no other may be started for the resource, and none can be. ErrStarved: it was still running, so
// nothing is known.
func (c Children) Probe(ctx context.Context, name string, q Question) (f Finding, done <-chan struct{}, err error) {
	ended := make(chan struct{})
	lock, err := os.OpenFile(filepath.Join(c.Locks, "probe-"+name), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		close(ended)
		return Finding{}, ended, fmt.Errorf("the lock of a probe: %w", err)
	}
	defer lock.Close() // the child has its own
	if err := Hold(ctx, lock); err != nil {
		close(ended)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return Finding{}, ended, fmt.Errorf("%w: a probe of it that was started earlier still hangs", ErrHanging)
		}
		return Finding{}, ended, fmt.Errorf("the lock of a probe: %w", err)
	}
	question, err := json.Marshal(q)
	if err != nil {
		close(ended)
		return Finding{}, ended, err
	}
	// Not the caller's context: a child that hangs is left behind, and waited for in the background.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), c.Program[0], c.Program[1:]...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C", "LC_ALL=C"}, c.Env...)
	cmd.Stdin = bytes.NewReader(question)
	var out, errs limited
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = ofItsOwn()
	if err := cmd.Start(); err != nil {
		close(ended)
		return Finding{}, ended, fmt.Errorf("a probe cannot be started: %w", err)
	}
	var exit error
	go func() { // ends with the child; there is at most one per resource
		exit = cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		late := ErrHanging
		if runnable(cmd.Process.Pid, ended) {
			late = ErrStarved
		}
		_ = cmd.Process.Kill() // of a child in uninterruptible sleep nothing is seen
		timer := time.NewTimer(reaped)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
		}
		return Finding{}, ended, late
	}
	if exit != nil {
		return Finding{}, ended, fmt.Errorf("a probe failed: %w: %s", exit, bytes.TrimSpace(errs.kept.Bytes()))
	}
	f, err = readFinding(out.kept.Bytes())
	return f, ended, err
}

// Hold takes a lock file's lock, which ends with the last process that has it open. Until ctx ends it is waited for: a child between fork
// and exec has it for a moment, and that is no disk that hangs. Then it is EWOULDBLOCK.
func Hold(ctx context.Context, lock *os.File) error {
	looks := time.NewTicker(lockLook)
	defer looks.Stop()
	for {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		select {
		case <-looks.C:
		case <-ctx.Done():
			return syscall.EWOULDBLOCK
		}
	}
}

// limited keeps the first maxAnswer bytes.
type limited struct{ kept bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	_, _ = l.kept.Write(p[:min(len(p), maxAnswer-l.kept.Len())])
	return len(p), nil
}
