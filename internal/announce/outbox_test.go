package announce

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// rows are an outbox in memory; package store's own suite says that the real ones behave like it.
type rows struct {
	mu       sync.Mutex
	last     int64
	waiting  map[string][]row
	shippers map[string]ha.Shipping
	away     bool // the database does not answer
}

type row struct {
	ha.Message
	at time.Time
}

func newRows() *rows { return &rows{waiting: map[string][]row{}, shippers: map[string]ha.Shipping{}} }

// write puts n messages into the outbox of each sink.
func (o *rows) write(n int, sinks ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for range n {
		for _, s := range sinks {
			o.last++
			o.waiting[s] = append(o.waiting[s], row{ha.Message{ID: o.last, UUID: fmt.Sprint("m", o.last), Type: "host.update.end", Body: "{}"}, time.Now()})
		}
	}
}

func (o *rows) left(sink string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting[sink])
}

func (o *rows) setAway(away bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away = away
}

// call is a statement: none after the context's end, none while the database is away.
func (o *rows) call(ctx context.Context, f func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ctx.Err() != nil || o.away {
		return &ha.UnavailableError{What: "database", Err: ctx.Err()}
	}
	return f()
}

func (o *rows) Waiting(ctx context.Context, sink string, most int) (m []ha.Message, err error) {
	err = o.call(ctx, func() error {
		for _, r := range o.waiting[sink][:min(most, len(o.waiting[sink]))] {
			r.Age = time.Since(r.at)
			m = append(m, r.Message)
		}
		return nil
	})
	return m, err
}

func (o *rows) Backlog(ctx context.Context, sink string) (b ha.Backlog, err error) {
	err = o.call(ctx, func() error {
		if b.Rows = len(o.waiting[sink]); b.Rows > 0 {
			b.Oldest = time.Since(o.waiting[sink][0].at)
		}
		return nil
	})
	return b, err
}

func (o *rows) fence(l ha.Shipping) error {
	now := o.shippers[l.Sink]
	if now.Owner != l.Owner || now.Epoch != l.Epoch {
		return ha.ErrFenced
	}
	now.Beat++
	o.shippers[l.Sink] = now
	return nil
}

func (o *rows) Shipped(ctx context.Context, l ha.Shipping, ids []int64) error {
	return o.call(ctx, func() error {
		if err := o.fence(l); err != nil {
			return err
		}
		o.waiting[l.Sink] = slices.DeleteFunc(o.waiting[l.Sink], func(r row) bool { return slices.Contains(ids, r.ID) })
		return nil
	})
}

func (o *rows) DropOldest(ctx context.Context, l ha.Shipping, n int) (int, error) {
	err := o.call(ctx, func() error {
		n = min(n, 10, len(o.waiting[l.Sink])) // a small bound: it must be asked again
		o.waiting[l.Sink] = o.waiting[l.Sink][n:]
		return o.fence(l)
	})
	return n, err
}

func (o *rows) Shipping(ctx context.Context, sink string) (l ha.Shipping, err error) {
	err = o.call(ctx, func() error { l = o.shippers[sink]; l.Sink = sink; return nil })
	return l, err
}

func (o *rows) ClaimShipping(ctx context.Context, seen ha.Shipping, owner string, ttl time.Duration) (l ha.Shipping, err error) {
	err = o.call(ctx, func() error {
		if now := o.shippers[seen.Sink]; now.Epoch != seen.Epoch || now.Beat != seen.Beat {
			return ha.ErrLost
		}
		l = ha.Shipping{Sink: seen.Sink, Owner: owner, Epoch: seen.Epoch + 1, Beat: seen.Beat + 1, TTL: ttl}
		o.shippers[seen.Sink] = l
		return nil
	})
	return l, err
}

func (o *rows) ReleaseShipping(ctx context.Context, l ha.Shipping) error {
	return o.call(ctx, func() error {
		if err := o.fence(l); err != nil {
			return err
		}
		now := o.shippers[l.Sink]
		now.Owner = ""
		o.shippers[l.Sink] = now
		return nil
	})
}
