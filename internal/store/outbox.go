package store

import (
	"context"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// Announce says who is told of changes; see Config.
type Announce = rules.Announce

type outboxRow struct {
	bun.BaseModel `bun:"table:outbox,alias:t"`
	ID            int64  `bun:"id,pk,autoincrement"`
	Sink          string `bun:"sink"`
	MessageID     string `bun:"message_id"`
	EventType     string `bun:"event_type"`
	Body          string `bun:"body"`
	CreatedAt     stamp  `bun:"created_at"`
}

// tell writes what is to be told of a change, in its transaction. Whoever changes an object holds its row until the commit,
// so the ids of one object's messages have the order of its changes.
func (s *Store) tell(ctx context.Context, tx bun.Tx, now time.Time, events ...ha.Event) error {
	if s.announce == nil || len(events) == 0 {
		return nil
	}
	var rows []outboxRow
	for _, m := range s.announce.Messages(now, events) {
		for _, sink := range s.announce.Sinks {
			rows = append(rows, outboxRow{Sink: sink, MessageID: m.UUID, EventType: m.Type, Body: m.Body, CreatedAt: stamp{now}})
		}
	}
	_, err := tx.NewInsert().Model(&rows).ExcludeColumn("id").Returning("NULL").Exec(ctx)
	return err
}

// tellOfHost is tell for a host, with the segment that it is in.
func (s *Store) tellOfHost(ctx context.Context, tx bun.Tx, now time.Time, a ha.Action, h ha.Host) error {
	if s.announce == nil {
		return nil
	}
	row, err := one[segmentRow](ctx, tx, "uuid = ?", h.SegmentUUID)
	if err != nil {
		return err
	}
	seg := ha.Segment{UUID: h.SegmentUUID}
	if row != nil {
		seg = row.segment()
	}
	return s.tell(ctx, tx, now, rules.Around(ha.Event{Action: a, Host: &h, Segment: &seg})...)
}

// told wakes whoever ships, after a change that was told of.
func (s *Store) told(err error) error {
	if err == nil && s.announce != nil && s.announce.Wake != nil {
		s.announce.Wake()
	}
	return err
}

// tellFailed tells of a change that the database refused, and passes its error on: telling of it changes nothing about it
// (F073). While the database is away there is nowhere to write it.
func (s *Store) tellFailed(ctx context.Context, e ha.Event, why error) error {
	var exists *ha.ExistsError
	var fault *opError
	var away *ha.UnavailableError
	if s.announce == nil || errors.As(why, &away) || !errors.As(why, &exists) && !errors.As(why, &fault) {
		return why
	}
	if e.Host != nil && e.Host.UUID == "" || e.Segment != nil && e.Segment.UUID == "" { // failed before it was read
		return why
	}
	_ = s.told(s.write(ctx, "telling of a failure", func(ctx context.Context, tx bun.Tx) error {
		now, err := s.clock(ctx, tx)
		if err != nil {
			return err
		}
		if e.Host != nil {
			seg, err := one[segmentRow](ctx, tx, "uuid = ?", e.Host.SegmentUUID)
			if err != nil || seg == nil {
				return err
			}
			of := seg.segment()
			e.Segment = &of
		}
		return s.tell(ctx, tx, now, rules.Failed(e, why)...)
	}, nil))
	return why
}

// Waiting returns the first messages for a destination, at most most. Index: outbox_sink_idx.
func (s *Store) Waiting(ctx context.Context, sink string, most int) ([]ha.Message, error) {
	var rows []struct {
		outboxRow
		Now stamp `bun:"db_now"`
	}
	err := s.read(ctx, "reading the outbox", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().Model((*outboxRow)(nil)).ColumnExpr("t.*, ? AS db_now", s.d.now()).Where("sink = ?", sink).
			OrderExpr("id").Limit(int64(most)).Scan(ctx, &rows)
	})
	messages := make([]ha.Message, len(rows))
	for i, r := range rows {
		messages[i] = ha.Message{ID: r.ID, UUID: r.MessageID, Type: r.EventType, Body: r.Body, Age: r.Now.Sub(r.CreatedAt.Time)}
	}
	return messages, err
}

// Backlog says how much waits for a destination.
func (s *Store) Backlog(ctx context.Context, sink string) (ha.Backlog, error) {
	var b ha.Backlog
	if err := s.read(ctx, "counting the outbox", func(ctx context.Context, db bun.IDB) error {
		return db.NewRaw("SELECT COUNT(*) FROM outbox WHERE sink = ?", sink).Scan(ctx, &b.Rows)
	}); err != nil || b.Rows == 0 {
		return b, err
	}
	first, err := s.Waiting(ctx, sink, 1)
	if len(first) > 0 {
		b.Oldest = first[0].Age
	}
	return b, err
}

// Shipped removes what the destination has confirmed, fenced, and is a beat; ErrFenced when another ships by now.
func (s *Store) Shipped(ctx context.Context, l ha.Shipping, ids []int64) error {
	return s.write(ctx, "emptying the outbox", func(ctx context.Context, tx bun.Tx) error {
		if err := fenceShipping(ctx, tx, l); err != nil || len(ids) == 0 {
			return err
		}
		_, err := changed(ctx, tx, "DELETE FROM outbox WHERE id IN (?)", bun.List(ids))
		return err
	}, nil)
}

// DropOldest removes the first n messages for a destination, fenced, at most rules.DropLimit, and returns how many.
func (s *Store) DropOldest(ctx context.Context, l ha.Shipping, n int) (int, error) {
	var ids []int64
	err := s.write(ctx, "dropping from the outbox", func(ctx context.Context, tx bun.Tx) error {
		ids = nil
		if err := fenceShipping(ctx, tx, l); err != nil {
			return err
		}
		if err := tx.NewRaw("SELECT id FROM outbox WHERE sink = ? ORDER BY id LIMIT ?", l.Sink, min(n, rules.DropLimit)).Scan(ctx, &ids); err != nil || len(ids) == 0 {
			return err
		}
		_, err := changed(ctx, tx, "DELETE FROM outbox WHERE id IN (?)", bun.List(ids))
		return err
	}, nil)
	return len(ids), err
}

type shipperRow struct {
	bun.BaseModel `bun:"table:outbox_shippers,alias:t"`
	ID            int64  `bun:"id,pk,autoincrement"`
	Sink          string `bun:"sink"`
	Owner         string `bun:"owner"`
	Epoch         int64  `bun:"epoch"`
	Beat          int64  `bun:"beat"`
	TTL           int64  `bun:"ttl_ms"`
}

// Shipping shows who ships for a destination; the zero epoch when nobody ever did.
func (s *Store) Shipping(ctx context.Context, sink string) (ha.Shipping, error) {
	var row *shipperRow
	err := s.read(ctx, "looking for the shipper", func(ctx context.Context, db bun.IDB) (err error) {
		row, err = one[shipperRow](ctx, db, "sink = ?", sink)
		return err
	})
	if err != nil || row == nil {
		return ha.Shipping{Sink: sink}, err
	}
	return ha.Shipping{Sink: sink, Owner: row.Owner, Epoch: row.Epoch, Beat: row.Beat, TTL: time.Duration(row.TTL) * time.Millisecond}, nil
}

// ClaimShipping makes owner the shipper by compare-and-set on what was seen; ErrLost when another was first. A claim whose
// answer was lost is seen as owner's own by the next look.
func (s *Store) ClaimShipping(ctx context.Context, seen ha.Shipping, owner string, ttl time.Duration) (ha.Shipping, error) {
	next := ha.Shipping{Sink: seen.Sink, Owner: owner, Epoch: seen.Epoch + 1, Beat: seen.Beat + 1, TTL: ttl}
	err := s.write(ctx, "claiming the outbox", func(ctx context.Context, tx bun.Tx) error {
		if seen.Epoch == 0 {
			row := shipperRow{Sink: next.Sink, Owner: owner, Epoch: next.Epoch, Beat: next.Beat, TTL: ttl.Milliseconds()}
			_, err := tx.NewInsert().Model(&row).ExcludeColumn("id").Returning("NULL").Exec(ctx)
			return err
		}
		n, err := changed(ctx, tx, "UPDATE outbox_shippers SET owner = ?, epoch = epoch + 1, beat = beat + 1, ttl_ms = ? "+
			"WHERE sink = ? AND epoch = ? AND beat = ?", owner, ttl.Milliseconds(), seen.Sink, seen.Epoch, seen.Beat)
		if err == nil && n == 0 {
			return ha.ErrLost
		}
		return err
	}, nil)
	if s.duplicate(err) {
		err = ha.ErrLost
	}
	if err != nil {
		return ha.Shipping{}, err
	}
	return next, nil
}

// ReleaseShipping gives the right up at once, if it still is the caller's.
func (s *Store) ReleaseShipping(ctx context.Context, l ha.Shipping) error {
	return s.repeat(ctx, "releasing the outbox", func(ctx context.Context) error {
		_, err := changed(ctx, s.db, "UPDATE outbox_shippers SET owner = '', beat = beat + 1 WHERE sink = ? AND epoch = ? AND owner = ?", l.Sink, l.Epoch, l.Owner)
		return err
	})
}

func fenceShipping(ctx context.Context, tx bun.Tx, l ha.Shipping) error {
	n, err := changed(ctx, tx, "UPDATE outbox_shippers SET beat = beat + 1 WHERE sink = ? AND epoch = ? AND owner = ?", l.Sink, l.Epoch, l.Owner)
	if err == nil && n == 0 {
		return ha.ErrFenced
	}
	return err
}
