package engine

import (
	"context"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// beatsTogether is how long the first of several beats waits for the others. All that beat together are due together the next time.
const beatsTogether = 20 * time.Millisecond

// beats renews the leases of the units that have nothing to write, many in one statement: an engine that holds hundreds would
// otherwise spend more on being alive than on recoveries.
type beats struct {
	e *Engine

	mu   sync.Mutex
	next *round // not sent yet: who beats now goes along
}

// round is one statement and its answer, which may be read once done is closed.
type round struct {
	leases []ha.Lease
	done   chan struct{}
	sent   time.Time
	beats  map[int64]ha.Beat // empty after an error
}

// join beats together with others, and returns when the statement was sent; false when it cannot be known that this lease was renewed.
// The unit has no commit under way: what a commit left in doubt is told by the beat that it was to leave.
func (b *beats) join(ctx context.Context, l ha.Lease) (beat ha.Beat, sent time.Time, ok bool) {
	b.mu.Lock()
	r, leads := b.next, b.next == nil
	if leads {
		r = &round{done: make(chan struct{})}
		b.next = r
	}
	r.leases = append(r.leases, l)
	b.mu.Unlock()
	if leads {
		b.send(ctx, r)
	}
	select {
	case <-r.done:
		beat, ok = r.beats[l.WorkID]
		return beat, r.sent, ok
	case <-ctx.Done():
		return beat, sent, false
	}
}

// send waits for others and for its turn, and sends the round, whoever's context ends meanwhile: each in it can still beat by itself.
func (b *beats) send(ctx context.Context, r *round) {
	defer close(r.done)
	ctx, cancel := context.WithTimeout(ctx, 2*b.e.cfg.Tick)
	defer cancel()
	timer := time.NewTimer(beatsTogether)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	entered := b.e.beating.enter(ctx.Done(), nil)
	b.mu.Lock()
	b.next = nil
	b.mu.Unlock()
	if !entered {
		return
	}
	defer b.e.beating.leave()
	r.sent = time.Now()
	r.beats, _ = b.e.store.Beats(ctx, r.leases)
}

// beat renews the unit's lease and returns when that was sent. An engine that holds no other unit spares itself the wait for others.
func (u *unit) beat(ctx context.Context) (ha.Beat, time.Time, error) {
	if u.e.holding() > 1 {
		if beat, sent, ok := u.e.beats.join(ctx, u.lease); ok {
			u.lease.Beat = beat.Beat
			return beat, sent, nil
		}
	}
	if !u.e.beating.enter(ctx.Done(), nil) {
		return ha.Beat{}, time.Time{}, ctx.Err()
	}
	defer u.e.beating.leave()
	sent := time.Now()
	beat, err := u.e.store.Commit(ctx, &u.lease)
	return beat, sent, err
}
