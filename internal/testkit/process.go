package testkit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long what takes a second may take where others build on the same cores.
const patience = 3 * time.Minute

var binary struct {
	once sync.Once
	path string
	err  error
}

// Binary builds the true binary, once for all tests of a package, and returns its path (SALVOR_TEST_BINARY: one that is built).
func Binary(tb testing.TB) string {
	tb.Helper()
	if built := os.Getenv("SALVOR_TEST_BINARY"); built != "" {
		return built
	}
	binary.once.Do(func() {
		dir, err := ownDir("salvor-test")
		if err != nil {
			binary.err = err
			return
		}
		binary.path = filepath.Join(dir, "salvor")
		cmd := exec.CommandContext(context.Background(), "go", "build", "-o", binary.path, "github.com/salvor-ha/salvor/cmd/salvor")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			binary.err = fmt.Errorf("build: %w\n%s", err, out)
		}
	})
	if binary.err != nil {
		tb.Fatal(binary.err)
	}
	return binary.path
}

// ownDir makes a directory for temporary files of this process's, and removes those of processes that have ended: nothing in a package's tests
// comes after the last of them.
func ownDir(kind string) (string, error) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), kind+"-*-*"))
	for _, dir := range left {
		pid, err := strconv.Atoi(strings.Split(strings.TrimPrefix(filepath.Base(dir), kind+"-"), "-")[0])
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}
	return os.MkdirTemp("", fmt.Sprintf("%s-%d-", kind, os.Getpid()))
}

// Process is a running program of a test.
type Process struct {
	Name string
	cmd  *exec.Cmd
	done chan struct{}

	mu    sync.Mutex
	lines []string
	gone  int           // lines before them that are kept no more
	more  chan struct{} // closed and renewed with every line
	err   error
}

// Start runs the binary with args. The process ends with the test, which shows its last lines when it fails; also with one that is killed.
func Start(tb testing.TB, name string, args ...string) *Process {
	tb.Helper()
	return StartProgram(tb, "", name, args...)
}

// StartProgram is Start with another binary, "" for the one of this source.
func StartProgram(tb testing.TB, program, name string, args ...string) *Process {
	tb.Helper()
	if program == "" {
		program = Binary(tb)
	}
	p := &Process{Name: name, cmd: exec.CommandContext(context.Background(), program, args...), done: make(chan struct{}), more: make(chan struct{})}
	out, w := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = w, w
	p.cmd.Env = append(os.Environ(), "TZ=UTC")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	began, read := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			p.add(lines.Text())
		}
	}()
	go func() {
		runtime.LockOSThread() // Pdeathsig means the thread that started it
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		if began <- err; err == nil {
			p.err = p.cmd.Wait()
		}
		_ = w.Close()
		<-read
		close(p.done)
	}()
	if err := <-began; err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.Signal(syscall.SIGCONT)
		p.Kill()
		if tb.Failed() {
			tb.Logf("last lines of %s:\n%s", name, strings.Join(p.Last(60), "\n"))
		}
	})
	return p
}

func (p *Process) add(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, line)
	if len(p.lines) > 5000 {
		p.lines, p.gone = p.lines[1000:], p.gone+1000
	}
	close(p.more)
	p.more = make(chan struct{})
}

// Last returns the last n lines of output.
func (p *Process) Last(n int) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines[max(0, len(p.lines)-n):]...)
}

// Await waits until a line of the output matches the expression and returns its first group, or the match.
func (p *Process) Await(tb testing.TB, expression string, within time.Duration) string {
	tb.Helper()
	re := regexp.MustCompile(expression)
	timer := time.NewTimer(within)
	defer timer.Stop()
	for seen := 0; ; {
		p.mu.Lock()
		lines, gone, more := p.lines, p.gone, p.more
		p.mu.Unlock()
		for seen = max(seen, gone); seen < gone+len(lines); seen++ {
			if m := re.FindStringSubmatch(lines[seen-gone]); m != nil {
				return m[len(m)-1]
			}
		}
		select {
		case <-more:
		case <-p.done:
			tb.Fatalf("%s ended (%v) before it said %q:\n%s", p.Name, p.err, expression, strings.Join(p.Last(40), "\n"))
		case <-timer.C:
			tb.Fatalf("%s did not say %q within %s:\n%s", p.Name, expression, within, strings.Join(p.Last(40), "\n"))
		}
	}
}

// URL waits for the line that tells where the process listens.
func (p *Process) URL(tb testing.TB) string {
	tb.Helper()
	return p.Await(tb, `listening on (http://[0-9.:]+)`, patience)
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal; a process that has ended gets none.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Kill ends the process at once (SIGKILL) and waits for its end.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Stop ends it cleanly (SIGTERM) and returns its exit code; the test fails when it takes longer than within.
func (p *Process) Stop(tb testing.TB, within time.Duration) int {
	tb.Helper()
	p.Signal(syscall.SIGTERM)
	return p.Ended(tb, within)
}

// Ended waits for the process's end and returns its exit code, -1 when a signal ended it; the test fails when it takes longer.
func (p *Process) Ended(tb testing.TB, within time.Duration) int {
	tb.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		tb.Fatalf("%s did not end within %s", p.Name, within)
		return -1
	}
}
