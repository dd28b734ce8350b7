package fencing

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/salvor-ha/salvor/internal/ha"
)

// flights are attempts under way, each shared by all who want it.
type flights struct {
	mu      sync.Mutex
	running map[string]*flight
}

type flight struct {
	callers int
	cancel  context.CancelFunc
	done    chan struct{}
	result  ha.FenceResult
	err     error
}

// share joins the attempt named key, or begins it. An attempt ends early when the last of those who want it has gone; that one
// waits for its end, so that nothing is done for nobody.
func (f *flights) share(ctx context.Context, key string, run func(context.Context) (ha.FenceResult, error)) (ha.FenceResult, error) {
	fl := f.join(ctx, key, run)
	select {
	case <-fl.done:
	case <-ctx.Done():
	}
	if last := f.leave(key, fl); !last {
		select {
		case <-fl.done:
		default:
			return ha.FenceResult{}, fmt.Errorf("%s: not waited for: %w", key, context.Cause(ctx))
		}
	}
	<-fl.done
	out := fl.result
	out.Sights = slices.Clone(out.Sights)
	return out, fl.err
}

func (f *flights) join(ctx context.Context, key string, run func(context.Context) (ha.FenceResult, error)) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.running[key]
	if fl == nil {
		var own context.Context // not ctx itself: the first to come may be the first to go
		fl = &flight{done: make(chan struct{})}
		own, fl.cancel = context.WithCancel(context.WithoutCancel(ctx))
		f.running[key] = fl
		go func() {
			defer close(fl.done)
			fl.result, fl.err = run(own)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.forget(key, fl)
		}()
	}
	fl.callers++
	return fl
}

// leave counts a caller out. With the last one the attempt ends, and nobody joins it any more.
func (f *flights) leave(key string, fl *flight) (last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl.callers--; fl.callers > 0 {
		return false
	}
	fl.cancel()
	f.forget(key, fl)
	return true
}

// forget is called with the lock held.
func (f *flights) forget(key string, fl *flight) {
	if f.running[key] == fl {
		delete(f.running, key)
	}
}
