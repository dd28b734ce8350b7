package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Claim takes a unit and loads it, in one transaction: a fresh one by the unique key of active units, a sighted one by
// compare-and-set on (epoch, beat).
func (s *Store) Claim(ctx context.Context, r ha.ClaimRequest) (ha.Lease, ha.Unit, error) {
	var unit ha.Unit
	err := s.write(ctx, "claiming a unit of work", func(ctx context.Context, tx bun.Tx) error {
		id := r.WorkID
		var err error
		if id == 0 {
			id, err = s.claimFresh(ctx, tx, r)
		} else {
			err = s.claimSighted(ctx, tx, r)
		}
		if err != nil {
			return err
		}
		unit, err = s.load(ctx, tx, id)
		return err
	}, func(ctx context.Context) (bool, error) {
		return s.settleClaim(ctx, r, &unit)
	})
	if s.duplicate(err) {
		err = ha.ErrLost
	}
	if err != nil {
		return ha.Lease{}, ha.Unit{}, err
	}
	return ha.Lease{WorkID: unit.ID, Owner: unit.Owner, Epoch: unit.Epoch, Beat: unit.Beat}, unit, nil
}

func (s *Store) claimFresh(ctx context.Context, tx bun.Tx, r ha.ClaimRequest) (int64, error) {
	f := r.Fresh
	if err := s.touchForHostUnit(ctx, tx, f.Kind, f.HostUUID); err != nil {
		return 0, err
	}
	now, err := s.clock(ctx, tx)
	if err != nil {
		return 0, err
	}
	row := newWork(ha.Work{
		Kind: f.Kind, Key: f.Key, HostUUID: f.HostUUID, SegmentUUID: f.SegmentUUID, NotificationUUID: f.NotificationUUID,
		Owner: r.Owner, Epoch: 1, Beat: 1, TTL: r.TTL,
	}, now)
	if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
		return 0, err
	}
	// The key is ours now, so nobody else can end the notification: whether it still is new is decided.
	still, err := one[notificationRow](ctx, tx, "notification_uuid = ? AND status = ? AND deleted = 0", f.NotificationUUID, string(ha.StatusNew))
	if err != nil {
		return 0, err
	}
	if still == nil {
		return 0, ha.ErrLost
	}
	return row.ID, nil
}

func (s *Store) claimSighted(ctx context.Context, tx bun.Tx, r ha.ClaimRequest) error {
	n, err := changed(ctx, tx, "UPDATE work SET owner = ?, epoch = epoch + 1, beat = beat + 1, ttl_ms = ?, seen_signals = signals, "+
		"next_look_at = ? WHERE id = ? AND epoch = ? AND beat = ? AND ended = 0",
		r.Owner, r.TTL.Milliseconds(), s.d.now(), r.WorkID, r.Epoch, r.Beat)
	if err == nil && n == 0 {
		return ha.ErrLost
	}
	return err
}

// settleClaim finds out whether a claim whose answer was lost was applied: an engine's name is its own, so a row that bears
// it at the epoch asked for was claimed by this call. unit then is what that call loaded.
func (s *Store) settleClaim(ctx context.Context, r ha.ClaimRequest, unit *ha.Unit) (ours bool, err error) {
	lease := ha.Lease{WorkID: unit.ID, Owner: r.Owner, Epoch: unit.Epoch}
	err = s.write(ctx, "looking for a claim", func(ctx context.Context, tx bun.Tx) error {
		row, _, err := s.fence(ctx, tx, lease)
		unit.Beat = row.Beat
		return err
	}, nil)
	if errors.Is(err, ha.ErrFenced) {
		return false, nil
	}
	return err == nil, err
}

// fence is what every write of an owner begins with: it moves the beat where id, owner and epoch still are the lease's,
// else nothing may be written. It returns the row as it is then, which stays locked, and the database's clock.
func (s *Store) fence(ctx context.Context, tx bun.Tx, l ha.Lease) (workRow, time.Time, error) {
	if l.Owner == "" { // nobody's is nobody's to write
		return workRow{}, time.Time{}, ha.ErrFenced
	}
	n, err := changed(ctx, tx, "UPDATE work SET beat = beat + 1, next_look_at = ? WHERE id = ? AND epoch = ? AND owner = ?",
		s.d.now(), l.WorkID, l.Epoch, l.Owner)
	if err != nil {
		return workRow{}, time.Time{}, err
	}
	if n == 0 {
		return workRow{}, time.Time{}, ha.ErrFenced
	}
	return s.workNow(ctx, tx, "t.id = ?", l.WorkID)
}

// workNow reads a unit's row and the database's clock.
func (s *Store) workNow(ctx context.Context, db bun.IDB, where string, args ...any) (workRow, time.Time, error) {
	var row struct {
		workRow
		Now stamp `bun:"db_now"`
	}
	err := db.NewSelect().Model(&row.workRow).ColumnExpr("t.*, ? AS db_now", s.d.now()).Where(where, args...).
		OrderExpr("t.id DESC").Limit(1).Scan(ctx, &row)
	return row.workRow, row.Now.Time, err
}

// beat is a commit without changes: one round trip, without a transaction. Repeated after a lost answer it is another beat.
func (s *Store) beat(ctx context.Context, l *ha.Lease) (ha.Beat, error) {
	var got struct {
		Beat    int64 `bun:"beat"`
		Signals int64 `bun:"signals"`
		Now     stamp `bun:"db_now"`
	}
	if l.Owner == "" {
		return ha.Beat{}, ha.ErrFenced
	}
	err := s.repeat(ctx, "beating", func(ctx context.Context) error {
		const update = "UPDATE work SET beat = beat + 1, next_look_at = ? WHERE id = ? AND epoch = ? AND owner = ?"
		now := s.d.now()
		if s.d.returning {
			return noRows(s.db.NewRaw(update+" RETURNING beat, signals, ? AS db_now", now, l.WorkID, l.Epoch, l.Owner, now).Scan(ctx, &got))
		}
		return noRows(s.db.NewRaw(update+together+"SELECT beat, signals, ? AS db_now FROM work WHERE id = ? AND epoch = ? AND owner = ?",
			now, l.WorkID, l.Epoch, l.Owner, now, l.WorkID, l.Epoch, l.Owner).Scan(ctx, &got))
	})
	if err != nil {
		return ha.Beat{}, err
	}
	l.Beat = got.Beat
	return ha.Beat{Beat: got.Beat, Signal: got.Signals, Now: got.Now.Time}, nil
}

// Beats renews leases of one owner in one statement: commits without changes of units that have no commit under way. It returns the
// beats of those that still are the owner's, by WorkID; about any other, and after an error about all, Commit tells.
func (s *Store) Beats(ctx context.Context, leases []ha.Lease) (map[int64]ha.Beat, error) {
	owner, ids, byEpoch := "", []int64{}, map[int64][]int64{}
	for _, l := range leases {
		if l.Owner == "" || owner != "" && l.Owner != owner {
			return nil, fmt.Errorf("beating: the leases are not of one owner: %q, %q", owner, l.Owner)
		}
		owner, ids = l.Owner, append(ids, l.WorkID)
		byEpoch[l.Epoch] = append(byEpoch[l.Epoch], l.WorkID)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	var rows []struct {
		ID      int64 `bun:"id"`
		Beat    int64 `bun:"beat"`
		Signals int64 `bun:"signals"`
		Now     stamp `bun:"db_now"`
	}
	err := s.repeat(ctx, "beating", func(ctx context.Context) error {
		now := s.d.now()
		where, args := " WHERE id IN (?) AND owner = ? AND (", []any{bun.List(ids), owner}
		for epoch, of := range byEpoch {
			where += "epoch = ? AND id IN (?) OR "
			args = append(args, epoch, bun.List(of))
		}
		where = strings.TrimSuffix(where, " OR ") + ")"
		query := "UPDATE work SET beat = beat + 1, next_look_at = ?" + where
		all := append([]any{now}, args...)
		if s.d.returning {
			query += " RETURNING id, beat, signals, ? AS db_now"
			all = append(all, now)
		} else {
			query += together + "SELECT id, beat, signals, ? AS db_now FROM work" + where
			all = append(append(all, now), args...)
		}
		rows = nil
		return s.db.NewRaw(query, all...).Scan(ctx, &rows)
	})
	if err != nil {
		return nil, err
	}
	beats := make(map[int64]ha.Beat, len(rows))
	for _, r := range rows {
		beats[r.ID] = ha.Beat{Beat: r.Beat, Signal: r.Signals, Now: r.Now.Time}
	}
	return beats, nil
}

// Load reads the unit again, fenced; what was signalled until now is seen.
func (s *Store) Load(ctx context.Context, l *ha.Lease) (ha.Unit, error) {
	var unit ha.Unit
	err := s.write(ctx, "loading a unit of work", func(ctx context.Context, tx bun.Tx) error {
		if _, _, err := s.fence(ctx, tx, *l); err != nil {
			return err
		}
		if _, err := changed(ctx, tx, "UPDATE work SET seen_signals = signals WHERE id = ? AND seen_signals <> signals", l.WorkID); err != nil {
			return err
		}
		var err error
		unit, err = s.load(ctx, tx, l.WorkID)
		return err
	}, nil)
	if err != nil {
		return ha.Unit{}, err
	}
	l.Beat = unit.Beat
	return unit, nil
}
