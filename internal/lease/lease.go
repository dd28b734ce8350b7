// Package lease holds the two local halves of a database lease: believing that another owner is dead, and ending one's
// own work in time. It knows nothing of HA and of SQL; the shared half is the store's compare-and-set and its fence.
package lease

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"sync"
	"time"
)

// DeadBeats is how many beats of its own a watcher must have committed while another's did not move: a database that
// stands still is not a dead owner.
const DeadBeats = 5

// ErrExpired is the cause of a guard's end when its lease was not renewed in time.
var ErrExpired = errors.New("the lease was not renewed in time: the database is away or too slow for lease_ttl, or this process stood still")

// Watch remembers when the (epoch, beat) of each lease was last seen to move, on this process's own monotonic clock. No two
// machines' clocks are compared. It is not safe for concurrent use.
type Watch[K comparable] struct {
	seen map[K]sight
}

type sight struct {
	epoch, beat int64
	at          time.Time
	own         int64
}

// See records a sighting at now, own being the number of beats that the watcher has committed so far, and reports for how
// long and over how many own beats the lease has not moved.
func (w *Watch[K]) See(k K, epoch, beat int64, now time.Time, own int64) (still time.Duration, beats int64) {
	if w.seen == nil {
		w.seen = map[K]sight{}
	}
	s, known := w.seen[k]
	if !known || s.epoch != epoch || s.beat != beat {
		s = sight{epoch: epoch, beat: beat, at: now, own: own}
	}
	w.seen[k] = s
	return now.Sub(s.at), own - s.own
}

// Dead reports whether a lease that has stood still so long, over so many of the watcher's own beats, has lost its owner.
func Dead(still time.Duration, beats int64, ttl time.Duration) bool {
	return still >= ttl && beats >= DeadBeats
}

// Keep forgets every lease for which keep is false, so that the memory stays as large as what is watched.
func (w *Watch[K]) Keep(keep func(K) bool) {
	for k := range w.seen {
		if !keep(k) {
			delete(w.seen, k)
		}
	}
}

// Rank is the place of me among all for key by rendezvous hashing: 0 should claim at once, the others later by rank. Every
// engine computes the same order; a death moves only the dead one's keys. Len(all) when me is not among them.
func Rank(key, me string, all []string) int {
	mine, rank := score(key, me), 0
	if !slices.Contains(all, me) {
		return len(all)
	}
	for _, other := range all {
		if s := score(key, other); other != me && (s > mine || s == mine && other > me) {
			rank++
		}
	}
	return rank
}

func score(key, engine string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(engine))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(key))
	x := h.Sum64()
	// FNV leaves the high bits of similar short strings alike; a finalizer spreads them.
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Guard ends the work done under a lease before anybody else may think its owner dead: margin before ttl has passed since the
// last successful beat was SENT.
type Guard struct {
	mu       sync.Mutex
	hold     time.Duration // ttl - margin
	deadline time.Time
	timer    *time.Timer
	end      context.CancelCauseFunc
}

// NewGuard returns a context that ends with ErrExpired unless renewed, or with its parent. sent is when the claim was sent.
// End must be called.
func NewGuard(parent context.Context, sent time.Time, ttl, margin time.Duration) (context.Context, *Guard) {
	ctx, cancel := context.WithCancelCause(parent)
	g := &Guard{hold: ttl - margin, end: cancel}
	g.deadline = sent.Add(g.hold)
	g.timer = time.AfterFunc(time.Until(g.deadline), g.expire)
	return ctx, g
}

func (g *Guard) expire() {
	if time.Until(g.Deadline()) <= 0 { // else it was renewed while the timer fired, which is set anew
		g.end(ErrExpired)
	}
}

// Renew moves the deadline after a beat that was sent at sent and committed.
func (g *Guard) Renew(sent time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d := sent.Add(g.hold); d.After(g.deadline) {
		g.deadline = d
		g.timer.Reset(time.Until(d))
	}
}

// Deadline is the last moment at which an act may leave under this lease.
func (g *Guard) Deadline() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.deadline
}

// End ends the context with cause and frees the timer.
func (g *Guard) End(cause error) {
	g.mu.Lock()
	g.timer.Stop()
	g.mu.Unlock()
	g.end(cause)
}
