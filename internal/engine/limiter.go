package engine

import (
	"context"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// limiter bounds the calls to Nova in flight, for all units of a process together. It is halved when Nova is busy or broken and
// grows by one while all is well (RECOVERY section 2 step 6). Lists have a pace of their own besides.
type limiter struct {
	mu      sync.Mutex
	max     int
	limit   int
	used    int
	well    int // successes since the limit last changed
	halved  time.Time
	waiting []chan struct{}

	listEvery time.Duration
	nextList  time.Time
}

// listsPerSecond is the most server and migration lists that a process asks for.
const listsPerSecond = 20

// servicesEvery is the pace of the lists of services, of which a process needs but one at a time.
const servicesEvery = time.Second / 4

func newLimiter(limit int) *limiter {
	return &limiter{max: limit, limit: limit, listEvery: time.Second / listsPerSecond}
}

// acquire waits for a slot, first come first served.
func (l *limiter) acquire(ctx context.Context) error {
	l.mu.Lock()
	if l.used < l.limit && len(l.waiting) == 0 {
		l.used++
		l.mu.Unlock()
		return nil
	}
	ready := make(chan struct{})
	l.waiting = append(l.waiting, ready)
	l.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range l.waiting {
		if w == ready {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return ctx.Err()
		}
	}
	l.used-- // it was handed over at the same moment
	l.hand()
	return ctx.Err()
}

// release gives the slot back and learns from how the call ended.
func (l *limiter) release(class ha.Class) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used--
	switch class {
	case ha.ClassBusy, ha.ClassBroken, ha.ClassInDoubt:
		// One bad moment fails many calls at once: it halves once.
		if now := time.Now(); now.Sub(l.halved) > time.Second {
			l.halved = now
			l.limit = max(1, l.limit/2)
			l.well = 0
		}
	case ha.ClassNotSent:
	default:
		if l.well++; l.well >= l.limit && l.limit < l.max {
			l.limit++
			l.well = 0
		}
	}
	l.hand()
}

func (l *limiter) hand() {
	for l.used < l.limit && len(l.waiting) > 0 {
		l.used++
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
	}
}

// free is how many calls could be sent at once.
func (l *limiter) free() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, l.limit-l.used-len(l.waiting))
}

// size is the present limit, for the metrics.
func (l *limiter) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit
}

// list waits for this process's turn to ask for a list.
func (l *limiter) list(ctx context.Context) error {
	l.mu.Lock()
	now := time.Now()
	at := l.nextList
	if at.Before(now) {
		at = now
	}
	l.nextList = at.Add(l.listEvery)
	l.mu.Unlock()
	if wait := at.Sub(now); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}
