package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestShared: whoever asks while a call is under way shares the next one, which begins after they asked.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared[int](time.Second)
		calls := 0
		call := func(context.Context) (int, error) {
			calls++
			n := calls
			time.Sleep(300 * time.Millisecond)
			return n, nil
		}
		var wg sync.WaitGroup
		begin := time.Now()
		ask := func(after time.Duration, want int, began time.Duration) {
			wg.Go(func() {
				time.Sleep(after)
				got, at, err := s.get(t.Context(), call)
				if got != want || at.Sub(begin) != began || err != nil {
					t.Errorf("asked after %s: answer %d of a call begun after %s, %v; want %d, %s", after, got, at.Sub(begin), err, want, began)
				}
			})
		}
		ask(0, 1, 0)
		for i := range 10 {
			ask(time.Duration(1+i)*50*time.Millisecond, 2, time.Second)
		}
		ask(1001*time.Millisecond, 3, 2*time.Second)
		wg.Wait()
		if calls != 3 {
			t.Errorf("%d calls, want 3", calls)
		}
	})
}

// TestSharedLeaderEnds: the end of the context of who makes the call, before or in it, is nobody else's answer.
func TestSharedLeaderEnds(t *testing.T) {
	for _, after := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := newShared[int](time.Second)
			call := func(ctx context.Context) (int, error) {
				select {
				case <-time.After(900 * time.Millisecond):
					return 7, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, _, err := s.get(t.Context(), call); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() { // makes the second call, a second after the first
				time.Sleep(time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				if _, _, err := s.get(ctx, call); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("its own end: %v", err)
				}
			})
			wg.Go(func() {
				time.Sleep(2 * time.Millisecond)
				if got, _, err := s.get(t.Context(), call); got != 7 || err != nil {
					t.Errorf("the other's: %d, %v", got, err)
				}
			})
			wg.Wait()
		})
	}
}
