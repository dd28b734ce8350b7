package engine

import (
	"context"
	"sync/atomic"
	"time"
)

// writesAtOnce bounds the transactions that one engine has under way. More of them make each slower, until leases run out in the
// middle of commits and takeovers make more work than recoveries. Beats, one statement each, have room of their own, so that no
// transaction makes them wait; it too is bounded, because a database bounds its connections.
const (
	writesAtOnce = 8
	beatsAtOnce  = 8
)

// staleAfter is how old a decision may be when its turn to be written comes: an order's intent tells when it is sent.
const staleAfter = 500 * time.Millisecond

// writing is the right to have a transaction under way.
type writing struct {
	slots   chan struct{}
	waiting atomic.Int32
}

func newWriting(atOnce int) *writing { return &writing{slots: make(chan struct{}, atOnce)} }

// enter waits for a turn until it has come, done is closed, or patience fires. True when it has come: leave must follow.
func (w *writing) enter(done <-chan struct{}, patience <-chan time.Time) bool {
	select {
	case w.slots <- struct{}{}:
		return true
	default:
	}
	w.waiting.Add(1)
	defer w.waiting.Add(-1)
	select {
	case w.slots <- struct{}{}:
		return true
	case <-done:
	case <-patience:
	}
	return false
}

func (w *writing) leave() { <-w.slots }

// crowded reports whether so much waits to be written that nothing new should be begun.
func (w *writing) crowded() bool { return int(w.waiting.Load()) > cap(w.slots) }

// enterWriting waits for the unit's turn to write, renewing its lease meanwhile. stale: that took so long that what was decided must
// be decided anew; the turn is kept. ok is false when the unit is over for this owner.
func (u *unit) enterWriting(ctx context.Context) (stale, ok bool) {
	if u.writes {
		return false, true
	}
	began := time.Now()
	for {
		timer := time.NewTimer(max(u.e.cfg.Tick-time.Since(u.sent), time.Millisecond))
		u.writes = u.e.writing.enter(ctx.Done(), timer.C)
		timer.Stop()
		switch {
		case u.writes:
			return time.Since(began) > staleAfter, true
		case !u.keep(ctx):
			return false, false
		}
	}
}

// leaveWriting gives the turn back, if the unit has it.
func (u *unit) leaveWriting() {
	if u.writes {
		u.writes = false
		u.e.writing.leave()
	}
}
