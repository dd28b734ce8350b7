package announce

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/lease"
)

const (
	// backlogEvery is how often the holder counts what waits.
	backlogEvery = 5 * time.Second
	// complainEvery is how often the log tells of a destination that stays away.
	complainEvery = time.Minute
	// releaseFor bounds the giving up of a lease at a stop.
	releaseFor = 2 * time.Second
)

// ErrRefused marks a message that its destination does not take, however often it is sent.
var ErrRefused = errors.New("refused")

// refusedTries is how often a refused message is sent all the same: the mistake may be the destination's, and short.
const refusedTries = 5

// route ships for one destination.
type route struct {
	Destination
	conf   Config
	outbox Outbox
	log    *slog.Logger
	wake   chan struct{}

	watch lease.Watch[string]
	looks int64 // answered looks at the database: the watcher's own beats

	confirmed  []int64 // by the destination, and still in the outbox
	failures   int     // in a row
	failing    int64   // the message that fails
	tries      int     // of it
	complained time.Time
	counted    time.Time
}

func (r *route) run(ctx context.Context) {
	defer r.Sink.Close()
	for ctx.Err() == nil {
		if l, sent, ok := r.claim(ctx); ok {
			r.hold(ctx, l, sent)
		} else {
			r.wait(ctx, r.conf.Tick)
		}
	}
}

// claim takes the lease when nobody has it, or its owner is dead, or the row bears this process's own name: then the answer
// to a claim of its own was lost.
func (r *route) claim(ctx context.Context) (l ha.Shipping, sent time.Time, ok bool) {
	seen, err := r.outbox.Shipping(ctx, r.ID)
	if err != nil {
		return l, sent, false
	}
	r.looks++
	sent = time.Now()
	others := seen.Owner != "" && seen.Owner != r.conf.Owner
	if still, beats := r.watch.See(r.ID, seen.Epoch, seen.Beat, sent, r.looks); others && !lease.Dead(still, beats, seen.TTL) {
		return l, sent, false
	}
	l, err = r.outbox.ClaimShipping(ctx, seen, r.conf.Owner, r.conf.TTL)
	if err == nil && others {
		r.log.Warn("the process that shipped notifications is gone, this one goes on", "was", seen.Owner)
	}
	return l, sent, err == nil
}

// hold ships under the lease until it or ctx ends.
func (r *route) hold(ctx context.Context, l ha.Shipping, sent time.Time) {
	held, guard := lease.NewGuard(ctx, sent, r.conf.TTL, r.conf.Tick)
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		r.beat(held, guard, l)
	}()
	r.confirmed, r.failures, r.counted = nil, 0, time.Time{}
	for held.Err() == nil {
		if pause := r.turn(held, l); pause > 0 {
			r.wait(held, pause)
		}
	}
	if ctx.Err() == nil {
		r.log.Warn("this process may not ship notifications any more", "why", context.Cause(held))
	}
	guard.End(nil)
	<-beating
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseFor)
	defer cancel()
	_ = r.outbox.ReleaseShipping(release, l) // else it is dead after its ttl
	r.conf.Observe.Backlog(r.Name, 0, 0)
}

// beat keeps the lease while the destination may take its time.
func (r *route) beat(held context.Context, guard *lease.Guard, l ha.Shipping) {
	ticker := time.NewTicker(r.conf.Tick)
	defer ticker.Stop()
	for {
		select {
		case <-held.Done():
			return
		case <-ticker.C:
		}
		sent := time.Now()
		switch err := r.outbox.Shipped(held, l, nil); {
		case err == nil:
			guard.Renew(sent)
		case errors.Is(err, ha.ErrFenced):
			guard.End(err)
		}
	}
}

// turn ships a batch and returns how long to wait before the next; what wakes the route ends a wait that is no pause after
// a failure.
func (r *route) turn(held context.Context, l ha.Shipping) time.Duration {
	if err := r.settle(held, l); err != nil {
		return r.conf.Poll
	}
	r.count(held, l)
	batch, err := r.outbox.Waiting(held, r.ID, r.Batch)
	if err != nil || len(batch) == 0 {
		return r.conf.Poll
	}
	if r.MaxAge > 0 && batch[0].Age > r.MaxAge {
		r.giveUp(held, l, batch[0], "too old", nil)
		return 0
	}
	n, err := r.Sink.Deliver(held, batch)
	for _, m := range batch[:n] {
		r.confirmed = append(r.confirmed, m.ID)
	}
	if n > 0 {
		r.conf.Observe.Shipped(r.Name, n)
		r.recovered()
	}
	if err == nil || held.Err() != nil || r.settle(held, l) != nil {
		return 0
	}
	return r.failed(held, l, batch[n], err)
}

// settle removes what the destination has confirmed. Nothing is sent before that: it would be sent twice.
func (r *route) settle(held context.Context, l ha.Shipping) error {
	if len(r.confirmed) == 0 {
		return nil
	}
	err := r.outbox.Shipped(held, l, r.confirmed)
	if err == nil {
		r.confirmed = nil
	}
	return err
}

func (r *route) recovered() {
	if r.failures > 0 {
		r.log.Info("notifications are delivered again")
	}
	r.failures, r.tries = 0, 0
}

// failed counts a failure, gives the message up when it has been tried often enough, and returns the pause.
func (r *route) failed(held context.Context, l ha.Shipping, m ha.Message, err error) time.Duration {
	r.conf.Observe.Failed(r.Name)
	if m.ID != r.failing {
		r.failing, r.tries = m.ID, 0
	}
	r.failures++
	r.tries++
	pause := r.Pause(r.failures)
	if r.failures == 1 || time.Since(r.complained) >= complainEvery {
		r.complained = time.Now()
		r.log.Warn("notifications cannot be delivered, they wait in the outbox", "error", err, "event", m.Type, "message", m.UUID,
			"tries", r.failures, "next in", pause)
	}
	most := r.Tries
	if errors.Is(err, ErrRefused) && (most == 0 || most > refusedTries) {
		most = refusedTries
	}
	if most > 0 && r.tries >= most {
		r.giveUp(held, l, m, "tried often enough", err)
	}
	return pause
}

// giveUp drops one message.
func (r *route) giveUp(held context.Context, l ha.Shipping, m ha.Message, why string, err error) {
	if r.outbox.Shipped(held, l, []int64{m.ID}) != nil {
		return
	}
	r.dropped(why, 1, "event", m.Type, "message", m.UUID, "age", m.Age.Round(time.Second), "error", err)
}

func (r *route) dropped(why string, n int, about ...any) {
	r.conf.Observe.Dropped(r.Name, why, n)
	r.log.Error("notifications were DROPPED", append([]any{"why", why, "number", n}, about...)...)
}

// count measures what waits, and drops the oldest beyond the bound: a destination that never comes back must not fill the
// database that recoveries need.
func (r *route) count(held context.Context, l ha.Shipping) {
	if time.Since(r.counted) < backlogEvery {
		return
	}
	b, err := r.outbox.Backlog(held, r.ID)
	if err != nil {
		return
	}
	r.counted = time.Now()
	total := 0
	for b.Rows > r.conf.MaxRows {
		n, err := r.outbox.DropOldest(held, l, b.Rows-r.conf.MaxRows)
		if err != nil || n == 0 {
			break
		}
		b.Rows -= n
		total += n
	}
	if total > 0 {
		r.dropped("too many wait", total, "most", r.conf.MaxRows, "oldest", b.Oldest.Round(time.Second))
	}
	r.conf.Observe.Backlog(r.Name, b.Rows, b.Oldest)
}

// wait waits for d, or until there is something to ship; a pause after a failure is waited for whole.
func (r *route) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	wake := r.wake
	if r.failures > 0 {
		wake = nil
	}
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
	}
}
