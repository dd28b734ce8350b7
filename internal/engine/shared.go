package engine

import (
	"context"
	"sync"
	"time"
)

// shared spares the cloud a question that many units of one process ask at about the same time and whose answer is the same for all:
// one call at a time, every so often. Whoever asks gets the answer of a call that began after it asked, so it is as fresh as that of a
// call of its own.
type shared[T any] struct {
	every time.Duration // from the beginning of one call to that of the next, at least
	turn  chan struct{} // held by who makes a call
	last  time.Time     // when the latest began; of who holds the turn

	mu   sync.Mutex
	next *flight[T] // whose call has not begun: who asks now goes along
}

// flight is a call and its answer, which may be read once done is closed.
type flight[T any] struct {
	done  chan struct{}
	value T
	began time.Time
	err   error
	ended bool // its maker's own context did: that says nothing to the others
}

func newShared[T any](every time.Duration) *shared[T] {
	return &shared[T]{every: every, turn: make(chan struct{}, 1)}
}

// get returns an answer, and when its call began. Its error may be the call's, or that of ctx.
func (s *shared[T]) get(ctx context.Context, call func(context.Context) (T, error)) (value T, began time.Time, err error) {
	for {
		s.mu.Lock()
		f, leads := s.next, s.next == nil
		if leads {
			f = &flight[T]{done: make(chan struct{})}
			s.next = f
		}
		s.mu.Unlock()
		if leads {
			s.fly(ctx, f, call)
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return value, began, ctx.Err()
		}
		if !f.ended || leads {
			return f.value, f.began, f.err
		}
	}
}

// fly makes the call when its time has come.
func (s *shared[T]) fly(ctx context.Context, f *flight[T], call func(context.Context) (T, error)) {
	defer close(f.done)
	begin := func() {
		s.mu.Lock()
		s.next = nil
		s.mu.Unlock()
		f.began = time.Now()
	}
	defer func() { f.ended = ctx.Err() != nil }()
	if f.err = s.await(ctx); f.err != nil {
		begin()
		return
	}
	defer func() { <-s.turn }()
	begin()
	s.last = f.began
	f.value, f.err = call(ctx)
}

// await waits until the turn is held and the pause is over.
func (s *shared[T]) await(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	pause := time.NewTimer(time.Until(s.last.Add(s.every)))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		<-s.turn
		return ctx.Err()
	}
}
