package engine

import (
	"context"
	"slices"
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
	well    int // successes since the limit last changed
	halved  time.Time
	calls   queue // in flight
	listing queue // looks that many units may want at once: a unit's at its lists, and those at single instances
	coming  int   // acts that are sent, and not yet among the calls
	starved []*unit

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

// queue hands out slots, first come first served.
type queue struct {
	used    int
	waiting []chan struct{}
}

// hand gives out what is free of so many.
func (q *queue) hand(most int) {
	for q.used < most && len(q.waiting) > 0 {
		q.used++
		close(q.waiting[0])
		q.waiting = q.waiting[1:]
	}
}

// hand gives out what is free. Looks have half of the calls: while many hosts die, lists that take long, or looks at each of their instances,
// would keep all of them busy, and no order would ever find a slot free. What is left is told to as many of those who wait for it.
func (l *limiter) hand() {
	l.calls.hand(l.limit)
	l.listing.hand(max(1, l.limit/2))
	for n := l.left(); n > 0 && len(l.starved) > 0; n-- {
		l.starved[0].ring()
		l.starved = l.starved[1:]
	}
}

// left is how many acts could be sent at once.
func (l *limiter) left() int { return l.limit - l.calls.used - len(l.calls.waiting) - l.coming }

// await has the unit rung when a slot is free for its acts, in turn; forget ends that.
func (l *limiter) await(u *unit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.starved, u) {
		l.starved = append(l.starved, u)
	}
	l.hand()
}

func (l *limiter) forget(u *unit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starved = slices.DeleteFunc(l.starved, func(s *unit) bool { return s == u })
}

// promise counts n acts that are about to be sent, each of which then acquires as promised: nobody else decides on their slots meanwhile.
func (l *limiter) promise(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.coming += n
}

func (l *limiter) acquirePromised(ctx context.Context) error { return l.enter(ctx, &l.calls, 1) }

// acquire waits for a slot for a call; release gives it back.
func (l *limiter) acquire(ctx context.Context) error { return l.enter(ctx, &l.calls, 0) }

// beginLists waits for a unit's turn to ask for its lists, one after the other: what it decides by them must not have grown old by the
// time that the last of them comes. A look at one instance has such a turn, too. endLists ends the turn.
func (l *limiter) beginLists(ctx context.Context) error { return l.enter(ctx, &l.listing, 0) }

func (l *limiter) endLists() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listing.used--
	l.hand()
}

func (l *limiter) enter(ctx context.Context, q *queue, promised int) error {
	ready := make(chan struct{})
	l.mu.Lock()
	l.coming -= promised
	q.waiting = append(q.waiting, ready)
	l.hand()
	l.mu.Unlock()
	select {
	case <-ready:
		return nil
	default:
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(q.waiting, ready); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return ctx.Err()
	}
	q.used-- // it was handed over at the same moment
	l.hand()
	return ctx.Err()
}

// release gives the slot back and learns from how the call ended.
func (l *limiter) release(class ha.Class) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls.used--
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

// free is how many calls could be sent at once.
func (l *limiter) free() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, l.left())
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
