package memstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// letter is a row of the outbox.
type letter struct {
	ha.Message
	at time.Time
}

// tell writes what is to be told of a change, in its transaction.
func (t *tx) tell(events ...ha.Event) {
	if t.announce == nil {
		return
	}
	for _, m := range t.announce.Messages(t.now, events) {
		for _, sink := range t.announce.Sinks {
			m.ID = t.id()
			putKey(t, t.outbox, sink, append(t.outbox[sink], letter{m, t.now}))
		}
	}
}

// tellOfHost is tell for a host, with the segment that it is in.
func (t *tx) tellOfHost(a ha.Action, h ha.Host) {
	e := ha.Event{Action: a, Host: &h, Segment: &ha.Segment{UUID: h.SegmentUUID}}
	if seg := t.segments[h.SegmentUUID]; seg != nil {
		of := seg.Segment
		e.Segment = &of
	}
	t.tell(rules.Around(e)...)
}

// tellFailed tells of a change that was refused by name, and passes the refusal on.
func (s *Store) tellFailed(e ha.Event, err error) error {
	var exists *ha.ExistsError
	if s.announce == nil || !errors.As(err, &exists) {
		return err
	}
	_ = s.transact(func(t *tx) error {
		if e.Host != nil {
			seg := t.segments[e.Host.SegmentUUID].Segment
			e.Segment = &seg
		}
		t.tell(rules.Failed(e, err)...)
		return nil
	})
	return s.told(err)
}

// told wakes whoever ships.
func (s *Store) told(err error) error {
	if s.announce != nil && s.announce.Wake != nil {
		s.announce.Wake()
	}
	return err
}

// Waiting returns the first messages for a destination, at most most.
func (s *Store) Waiting(ctx context.Context, sink string, most int) (messages []ha.Message, err error) {
	err = s.run(ctx, "Waiting", func(t *tx) error {
		all := t.outbox[sink]
		for _, l := range all[:min(most, len(all))] {
			l.Age = t.now.Sub(l.at)
			messages = append(messages, l.Message)
		}
		return nil
	})
	return messages, err
}

// Backlog says how much waits for a destination.
func (s *Store) Backlog(ctx context.Context, sink string) (b ha.Backlog, err error) {
	err = s.run(ctx, "Backlog", func(t *tx) error {
		if b.Rows = len(t.outbox[sink]); b.Rows > 0 {
			b.Oldest = t.now.Sub(t.outbox[sink][0].at)
		}
		return nil
	})
	return b, err
}

// Shipped removes what the destination has confirmed, fenced, and is a beat.
func (s *Store) Shipped(ctx context.Context, l ha.Shipping, ids []int64) error {
	return s.run(ctx, "Shipped", func(t *tx) error {
		if err := t.fenceShipping(l); err != nil {
			return err
		}
		t.outbox[l.Sink] = slices.DeleteFunc(t.outbox[l.Sink], func(m letter) bool { return slices.Contains(ids, m.ID) })
		return nil
	})
}

// DropOldest removes the first n messages for a destination, fenced, at most rules.DropLimit, and returns how many.
func (s *Store) DropOldest(ctx context.Context, l ha.Shipping, n int) (dropped int, err error) {
	err = s.run(ctx, "DropOldest", func(t *tx) error {
		if err := t.fenceShipping(l); err != nil {
			return err
		}
		dropped = min(n, rules.DropLimit, len(t.outbox[l.Sink]))
		t.outbox[l.Sink] = slices.Clone(t.outbox[l.Sink][dropped:])
		return nil
	})
	return dropped, err
}

// Shipping shows who ships for a destination.
func (s *Store) Shipping(ctx context.Context, sink string) (l ha.Shipping, err error) {
	err = s.run(ctx, "Shipping", func(t *tx) error {
		l = t.shippers[sink]
		l.Sink = sink
		return nil
	})
	return l, err
}

// ClaimShipping makes owner the shipper by compare-and-set on what was seen.
func (s *Store) ClaimShipping(ctx context.Context, seen ha.Shipping, owner string, ttl time.Duration) (l ha.Shipping, err error) {
	err = s.run(ctx, "ClaimShipping", func(t *tx) error {
		if now := t.shippers[seen.Sink]; now.Epoch != seen.Epoch || now.Beat != seen.Beat {
			return ha.ErrLost
		}
		l = ha.Shipping{Sink: seen.Sink, Owner: owner, Epoch: seen.Epoch + 1, Beat: seen.Beat + 1, TTL: ttl.Truncate(time.Millisecond)}
		t.shippers[seen.Sink] = l
		return nil
	})
	return l, err
}

// ReleaseShipping gives the right up at once, if it still is the caller's.
func (s *Store) ReleaseShipping(ctx context.Context, l ha.Shipping) error {
	return s.run(ctx, "ReleaseShipping", func(t *tx) error {
		if t.fenceShipping(l) == nil {
			now := t.shippers[l.Sink]
			now.Owner = ""
			t.shippers[l.Sink] = now
		}
		return nil
	})
}

func (t *tx) fenceShipping(l ha.Shipping) error {
	now := t.shippers[l.Sink]
	if l.Owner == "" || now.Owner != l.Owner || now.Epoch != l.Epoch {
		return ha.ErrFenced
	}
	now.Beat++
	t.shippers[l.Sink] = now
	return nil
}
