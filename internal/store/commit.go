package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// Commit is the fence (DESIGN section 3): in one transaction it moves the beat where id, epoch and owner still are the
// lease's, then applies the changes in order. Without changes it is a beat.
//
// A unit that was signalled since its owner loaded it is not ended: ErrStale, so that neither a wish nor a wake is lost.
func (s *Store) Commit(ctx context.Context, l *ha.Lease, changes ...ha.Change) (ha.Beat, error) {
	if len(changes) == 0 {
		return s.beat(ctx, l)
	}
	var beat ha.Beat
	told := false
	err := s.write(ctx, "committing", func(ctx context.Context, tx bun.Tx) error {
		row, now, err := s.fence(ctx, tx, *l)
		if err != nil {
			return err
		}
		beat = ha.Beat{Beat: row.Beat, Signal: row.Signals, Now: now}
		c := &commit{s: s, tx: tx, lease: *l, row: row, now: now, instances: instancesIn(changes)}
		for _, change := range changes {
			if err := c.apply(ctx, change); err != nil {
				return err
			}
		}
		if err := c.flush(ctx); err != nil {
			return err
		}
		if err := c.flushPlans(ctx); err != nil {
			return err
		}
		told = len(c.events) > 0
		return s.tell(ctx, tx, now, c.events...)
	}, func(ctx context.Context) (bool, error) {
		return s.settleCommit(ctx, *l, beat.Beat)
	})
	if err != nil {
		return ha.Beat{}, err
	}
	l.Beat = beat.Beat
	if told {
		_ = s.told(nil)
	}
	return beat, nil
}

// settleCommit finds out whether the commit that was to leave the row at beat was applied. Only the owner moves the beat
// within an epoch, so a row of that epoch that has come so far was written by it. The row is fenced first: that waits for a
// commit still under way.
func (s *Store) settleCommit(ctx context.Context, l ha.Lease, beat int64) (applied bool, err error) {
	err = s.write(ctx, "looking for a commit", func(ctx context.Context, tx bun.Tx) error {
		row, _, err := s.fence(ctx, tx, l)
		if errors.Is(err, ha.ErrFenced) { // given up by that very commit, or another's by now
			row, _, err = s.workNow(ctx, tx, "t.id = ?", l.WorkID)
			applied = err == nil && row.Epoch == l.Epoch && row.Beat >= beat
			return err
		}
		applied = row.Beat > beat // the fence itself moved it by one
		return err
	}, nil)
	return applied, err
}

// commit is a commit under way, behind its fence.
type commit struct {
	s         *Store
	tx        bun.Tx
	lease     ha.Lease
	row       workRow // the unit's
	now       time.Time
	instances []string                        // whose moves it writes
	entries   []ha.Entry                      // journal entries not written yet
	closed    []string                        // keys of intents to be ended, before those entries
	moves     map[string]map[string]*vmoveRow // by notification and instance
	puts      []*vmoveRow                     // those not written yet, each once
	events    []ha.Event                      // to be told
	plans     []ha.PlanBlob                   // of blobs, not written yet
}

func (c *commit) apply(ctx context.Context, change ha.Change) error {
	switch ch := change.(type) {
	case ha.SetNotification:
		return c.setNotification(ctx, ch)
	case ha.PutMove:
		return c.putMove(ctx, ch.Move)
	case ha.SetRecovery:
		c.row.setRecovery(ch.Recovery)
		_, err := c.tx.NewUpdate().Model(&c.row).Column(recoveryColumns...).WherePK().Exec(ctx)
		return err
	case ha.SetHost:
		return c.setHost(ctx, ch)
	case ha.PutClaim:
		claim := ch.Claim
		claim.WorkID = c.row.ID
		return c.s.putClaim(ctx, c.tx, claim, c.now)
	case ha.DropClaim:
		return dropClaim(ctx, c.tx, ch)
	case ha.Write:
		c.entries = append(c.entries, rules.FillEntry(ch.Entry, c.lease, c.row.work(c.now), c.now))
		return nil
	case ha.CloseIntent:
		c.closeIntent(ch.Key)
		return nil
	case ha.StartUnit:
		return c.s.startUnit(ctx, c.tx, ha.Work{Kind: ch.Kind, Key: ch.Kind.Key(ch.HostUUID), HostUUID: ch.HostUUID, SegmentUUID: ch.SegmentUUID})
	case ha.Signal:
		if ch.Key == c.row.UnitKey {
			c.row.Signals++
		}
		return c.s.signal(ctx, c.tx, ch.Key)
	case ha.Adopt:
		return c.adopt(ctx, ch)
	case ha.EndUnit:
		return c.end(ctx)
	case ha.Park:
		return c.park(ctx, ch)
	default:
		return c.blobs(ctx, change)
	}
}

// guard applies the changes that make the whole commit fail when what they rest on is no longer so.
func (c *commit) guard(ctx context.Context, change ha.Change) error {
	switch ch := change.(type) {
	case ha.TouchSegment:
		return c.must(ctx, ha.ErrStale, "UPDATE failover_segments SET touch = touch + 1 WHERE uuid = ? AND touch = ?", ch.UUID, ch.Seen)
	case ha.GiveWay:
		if err := c.exec(ctx, "UPDATE hosts SET touch = touch + 1 WHERE uuid = ?", ch.HostUUID); err != nil {
			return err
		}
		unit, err := one[workRow](ctx, c.tx, "unit_key = ? AND ended = 0", ha.UnitHost.Key(ch.HostUUID))
		switch {
		case err != nil:
			return err
		case unit != nil && unit.ID != c.row.ID:
			return ha.ErrSuperseded
		case c.row.Signals > c.row.SeenSignals:
			return ha.ErrStale
		}
		return nil
	case ha.Reserve:
		if err := c.must(ctx, ha.ErrTaken, "UPDATE hosts SET reserved_for = ?, touch = touch + 1 WHERE uuid = ? AND deleted = 0 "+
			"AND reserved = ? AND on_maintenance = ? AND reserved_for IN (0, ?)", c.row.ID, ch.HostUUID, true, false, c.row.ID); err != nil {
			return err
		}
		return c.exec(ctx, "DELETE FROM claims WHERE host_uuid = ? AND reason = ? AND what IN (?) AND work_id <> ?",
			ch.HostUUID, ha.ReasonRecovery, bun.List(ha.UsesOfSpare), c.row.ID)
	case ha.Free:
		return c.exec(ctx, "UPDATE hosts SET reserved_for = 0 WHERE uuid = ? AND reserved_for = ?", ch.HostUUID, c.row.ID)
	default:
		return fmt.Errorf("the store knows no change %T: nothing was written", change)
	}
}

func (c *commit) exec(ctx context.Context, query string, args ...any) error {
	_, err := changed(ctx, c.tx, query, args...)
	return err
}

// must runs a conditional write that has to find its row.
func (c *commit) must(ctx context.Context, otherwise error, query string, args ...any) error {
	n, err := changed(ctx, c.tx, query, args...)
	if err == nil && n == 0 {
		return otherwise
	}
	return err
}

func (c *commit) setNotification(ctx context.Context, ch ha.SetNotification) error {
	row, err := one[notificationRow](ctx, c.tx, "notification_uuid = ?", ch.UUID)
	if err != nil {
		return err
	}
	if row == nil {
		return &ha.NotFoundError{Kind: ha.KindNotification, ID: ch.UUID}
	}
	n := row.notification()
	if err := rules.CheckSet(n, c.row.UnitKey, ch); err != nil {
		return err
	}
	message := rules.Text(ch.Message, rules.MaxText)
	if n.Status == ch.Status && n.Message != nil && *n.Message == message {
		return nil
	}
	c.events = append(c.events, rules.Processed(n, ch.Status, message)...)
	return c.exec(ctx, "UPDATE notifications SET status = ?, message = ?, updated_at = ? WHERE id = ?",
		ch.Status, message, literal(rules.Second(c.now)), row.ID)
}

// setHost changes flags. A STARTED that was acted upon is what a take-back of the host waits for.
func (c *commit) setHost(ctx context.Context, ch ha.SetHost) error {
	at := literal(rules.Second(c.now))
	var written int64
	for _, flag := range []struct {
		value *bool
		query string
	}{
		{ch.OnMaintenance, "UPDATE hosts SET on_maintenance = ?, updated_at = ? WHERE uuid = ? AND on_maintenance <> ?"},
		{ch.Reserved, "UPDATE hosts SET reserved = ?, updated_at = ? WHERE uuid = ? AND reserved <> ?"},
	} {
		if flag.value == nil {
			continue
		}
		n, err := changed(ctx, c.tx, flag.query, *flag.value, at, ch.UUID, *flag.value)
		if err != nil {
			return err
		}
		written += n
	}
	if written > 0 {
		if err := c.tellOfHost(ctx, ch.UUID); err != nil {
			return err
		}
	}
	if !ch.Started {
		return nil
	}
	if err := c.exec(ctx, "UPDATE hosts SET last_started_at = ? WHERE uuid = ?", literal(c.now), ch.UUID); err != nil {
		return err
	}
	return c.apply(ctx, ha.Signal{Key: ha.UnitTakeBack.Key(ch.UUID)})
}

// tellOfHost is told with the rest of the commit, as the host is now.
func (c *commit) tellOfHost(ctx context.Context, uuid string) error {
	if c.s.announce == nil {
		return nil
	}
	row, err := one[hostRow](ctx, c.tx, "uuid = ?", uuid)
	if err != nil || row == nil {
		return err
	}
	h := row.host()
	seg, err := one[segmentRow](ctx, c.tx, "uuid = ?", h.SegmentUUID)
	if err != nil || seg == nil {
		return err
	}
	of := seg.segment()
	c.events = append(c.events, rules.Around(ha.Event{Action: ha.ActionUpdate, Host: &h, Segment: &of})...)
	return nil
}

// adopt makes a queued notification the unit's own. What the recovery has written so far goes along.
func (c *commit) adopt(ctx context.Context, ch ha.Adopt) error {
	if err := c.flush(ctx); err != nil {
		return err
	}
	row, err := one[notificationRow](ctx, c.tx, "notification_uuid = ?", ch.NotificationUUID)
	if err != nil {
		return err
	}
	if row == nil || row.UnitKey != c.row.UnitKey {
		return fmt.Errorf("notification %s is not in the queue of unit %s: nothing was written", ch.NotificationUUID, c.row.UnitKey)
	}
	old := c.row.NotificationUUID
	if old == ch.NotificationUUID {
		return nil
	}
	if err := c.exec(ctx, "UPDATE vmoves SET notification_uuid = ? WHERE notification_uuid = ?", ch.NotificationUUID, old); err != nil {
		return err
	}
	if err := c.exec(ctx, "UPDATE journal SET notification_uuid = ? WHERE work_id = ? AND notification_uuid = ?", ch.NotificationUUID, c.row.ID, old); err != nil {
		return err
	}
	if err := c.exec(ctx, "UPDATE work SET notification_uuid = ? WHERE id = ?", ch.NotificationUUID, c.row.ID); err != nil {
		return err
	}
	c.row.NotificationUUID, c.moves = ch.NotificationUUID, nil
	return nil
}

// end ends the unit: its key is free again, and no reserved host is held for it any more.
func (c *commit) end(ctx context.Context) error {
	if c.row.Signals > c.row.SeenSignals {
		return ha.ErrStale
	}
	if err := c.exec(ctx, "UPDATE hosts SET reserved_for = 0 WHERE reserved_for = ?", c.row.ID); err != nil {
		return err
	}
	return c.exec(ctx, "UPDATE work SET ended = id, ended_at = ?, owner = '' WHERE id = ?", literal(c.now), c.row.ID)
}

// park gives the lease up. What was signalled since the owner loaded the unit makes it due at once.
func (c *commit) park(ctx context.Context, ch ha.Park) error {
	after := ch.After
	if c.row.Signals > c.row.SeenSignals {
		after = 0
	}
	return c.exec(ctx, "UPDATE work SET owner = '', next_look_at = ? WHERE id = ?", literal(c.now.Add(after)), c.row.ID)
}

// noRows says ErrFenced where a conditional write returned no row.
func noRows(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ha.ErrFenced
	}
	return err
}
