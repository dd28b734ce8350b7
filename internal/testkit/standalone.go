package testkit

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// Alone runs f outside of go test, for benchmarks that are programs of their own: what f starts through tb ends with f, also
// when it fails or is interrupted. It returns why f was skipped, "" when it was not, and whether f did well.
func Alone(name string, f func(tb testing.TB)) (skipped string, ok bool) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &standalone{name: name, ctx: ctx}
	s.inGoroutine(func() { f(s) })
	for {
		s.mu.Lock()
		n := len(s.cleanups)
		if n == 0 {
			s.mu.Unlock()
			return s.skipped, !s.failed
		}
		last := s.cleanups[n-1]
		s.cleanups = s.cleanups[:n-1]
		s.mu.Unlock()
		s.inGoroutine(last)
	}
}

// standalone is the part of a testing.TB that this package and the benchmarks use; the rest is nil, and panics.
type standalone struct {
	testing.TB
	name string
	ctx  context.Context // ends with an interrupt

	mu       sync.Mutex
	cleanups []func()
	failed   bool
	skipped  string
}

// inGoroutine runs f where Fatal can end it without ending the program.
func (s *standalone) inGoroutine(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (s *standalone) say(text string) { fmt.Fprintf(os.Stderr, "%s: %s\n", s.name, text) }

func (s *standalone) Name() string             { return s.name }
func (s *standalone) Helper()                  {}
func (s *standalone) Context() context.Context { return s.ctx }
func (s *standalone) Log(args ...any)          { s.say(fmt.Sprint(args...)) }

func (s *standalone) Logf(format string, args ...any) { s.say(fmt.Sprintf(format, args...)) }

func (s *standalone) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

func (s *standalone) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

func (s *standalone) Error(args ...any) { s.Errorf("%s", fmt.Sprint(args...)) }

func (s *standalone) Errorf(format string, args ...any) {
	s.mu.Lock()
	s.failed = true
	s.mu.Unlock()
	s.say(fmt.Sprintf(format, args...))
}

func (s *standalone) Fatal(args ...any) { s.Fatalf("%s", fmt.Sprint(args...)) }

func (s *standalone) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

func (s *standalone) Skipf(format string, args ...any) {
	s.mu.Lock()
	s.skipped = fmt.Sprintf(format, args...)
	s.mu.Unlock()
	s.say(s.skipped)
	runtime.Goexit()
}

func (s *standalone) TempDir() string {
	dir, err := os.MkdirTemp("", "salvor-bench-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			s.Error(err)
		}
	})
	return dir
}
