package store

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// purgeBatch bounds the rows of one transaction; what hangs on a notification goes with it, so it is small.
const purgeBatch = 50

// Purged counts what a purge removed.
type Purged = rules.Purged

// Purge removes for good what is older than ageDays (contract section 11): ended notifications by updated_at, with their
// vmoves, journal and units of work; deleted hosts, segments and vmoves by deleted_at; unshipped messages by their age. At most
// maxRows in all, -1 for no bound; what hangs on a notification is not counted. It works in small transactions and returns what it
// removed, also with an error.
func (s *Store) Purge(ctx context.Context, ageDays, maxRows int) (removed rules.Purged, err error) {
	var now time.Time
	if err := s.read(ctx, "reading the clock", func(ctx context.Context, db bun.IDB) (err error) {
		now, err = s.clock(ctx, db)
		return err
	}); err != nil {
		return removed, err
	}
	if err := rules.CheckPurge(ageDays, maxRows, now); err != nil {
		return removed, err
	}
	before := literal(now.AddDate(0, 0, -ageDays))
	for _, step := range []struct {
		counted bool
		batch   func(context.Context, bun.Tx, bun.Safe, int, *rules.Purged) (int, error)
	}{
		{true, purgeNotifications}, {true, purgeHosts}, {true, purgeSegments}, {true, purgeVMoves}, {false, purgeUnits}, {false, purgeOutbox},
	} {
		for {
			size := purgeBatch
			if maxRows > 0 && step.counted {
				size = min(size, maxRows-removed.Bounded)
			}
			if size == 0 {
				break
			}
			n, got := 0, rules.Purged{}
			err := s.write(ctx, "purging", func(ctx context.Context, tx bun.Tx) (err error) {
				got = rules.Purged{}
				n, err = step.batch(ctx, tx, before, size, &got)
				return err
			}, nil)
			if err != nil {
				return removed, err
			}
			if step.counted {
				got.Bounded = n
			}
			removed.Add(got)
			if n < size {
				break
			}
		}
	}
	return removed, nil
}

// named is a row to be removed.
type named struct {
	ID   int64  `bun:"id"`
	UUID string `bun:"uuid"`
}

func ids(rows []named) (ids []int64, uuids []string) {
	for _, r := range rows {
		ids, uuids = append(ids, r.ID), append(uuids, r.UUID)
	}
	return ids, uuids
}

// removal is a DELETE of the rows in a list, and what counts them.
type removal struct {
	query string
	list  any
	count *int
}

func remove(ctx context.Context, tx bun.Tx, removals ...removal) error {
	for _, r := range removals {
		n, err := changed(ctx, tx, r.query, bun.List(r.list))
		if err != nil {
			return err
		}
		*r.count += int(n)
	}
	return nil
}

func purgeNotifications(ctx context.Context, tx bun.Tx, before bun.Safe, size int, got *rules.Purged) (int, error) {
	var rows []named
	// What was updated before then was created before then: that part has an index.
	err := tx.NewRaw("SELECT n.id, n.notification_uuid AS uuid FROM notifications AS n WHERE n.deleted = 0 AND n.status IN (?) "+
		"AND n.created_at < ? AND n.updated_at < ? "+
		"AND NOT EXISTS (SELECT 1 FROM work AS w WHERE w.notification_uuid = n.notification_uuid AND w.ended = 0) LIMIT ?",
		bun.List([]ha.Status{ha.StatusFinished, ha.StatusFailed, ha.StatusIgnored}), before, before, size).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	ids, uuids := ids(rows)
	return len(rows), remove(ctx, tx,
		removal{"DELETE FROM vmoves WHERE notification_uuid IN (?)", uuids, &got.VMoves},
		removal{"DELETE FROM journal WHERE notification_uuid IN (?)", uuids, &got.Entries},
		removal{"DELETE FROM work WHERE notification_uuid IN (?)", uuids, &got.Units},
		removal{"DELETE FROM notifications WHERE id IN (?)", ids, &got.Notifications})
}

// purgeHosts leaves a deleted host that is still worked on: what salvor changed of it in Nova is yet to be taken back.
func purgeHosts(ctx context.Context, tx bun.Tx, before bun.Safe, size int, got *rules.Purged) (int, error) {
	var rows []named
	err := tx.NewRaw("SELECT h.id, h.uuid FROM hosts AS h WHERE h.deleted <> 0 AND h.deleted_at < ? "+
		"AND NOT EXISTS (SELECT 1 FROM work AS w WHERE w.host_uuid = h.uuid AND w.ended = 0) LIMIT ?", before, size).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	ids, uuids := ids(rows)
	return len(rows), remove(ctx, tx,
		removal{"DELETE FROM claims WHERE host_uuid IN (?)", uuids, &got.Claims},
		removal{"DELETE FROM hosts WHERE id IN (?)", ids, &got.Hosts})
}

func purgeSegments(ctx context.Context, tx bun.Tx, before bun.Safe, size int, got *rules.Purged) (int, error) {
	var rows []named
	err := tx.NewRaw("SELECT s.id, s.uuid FROM failover_segments AS s WHERE s.deleted <> 0 AND s.deleted_at < ? "+
		"AND NOT EXISTS (SELECT 1 FROM hosts AS h WHERE h.failover_segment_id = s.uuid) LIMIT ?", before, size).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	ids, _ := ids(rows)
	return len(rows), remove(ctx, tx, removal{"DELETE FROM failover_segments WHERE id IN (?)", ids, &got.Segments})
}

func purgeVMoves(ctx context.Context, tx bun.Tx, before bun.Safe, size int, got *rules.Purged) (int, error) {
	var rows []named
	err := tx.NewRaw("SELECT id, uuid FROM vmoves WHERE deleted <> 0 AND deleted_at < ? LIMIT ?", before, size).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	ids, _ := ids(rows)
	return len(rows), remove(ctx, tx, removal{"DELETE FROM vmoves WHERE id IN (?)", ids, &got.VMoves})
}

// purgeOutbox removes what still waits for a destination that nobody ships to any more: it was taken out of the configuration.
func purgeOutbox(ctx context.Context, tx bun.Tx, before bun.Safe, size int, got *rules.Purged) (int, error) {
	var ids []int64
	err := tx.NewRaw("SELECT id FROM outbox WHERE created_at < ? LIMIT ?", before, size).Scan(ctx, &ids)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	return len(ids), remove(ctx, tx, removal{"DELETE FROM outbox WHERE id IN (?)", ids, &got.Messages})
}

// purgeUnits removes ended take-backs, which have no notification to go with.
func purgeUnits(ctx context.Context, tx bun.Tx, before bun.Safe, size int, got *rules.Purged) (int, error) {
	var rows []named
	err := tx.NewRaw("SELECT id, unit_key AS uuid FROM work WHERE notification_uuid = '' AND ended <> 0 AND ended_at < ? LIMIT ?", before, size).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	ids, _ := ids(rows)
	return len(rows), remove(ctx, tx,
		removal{"DELETE FROM journal WHERE work_id IN (?)", ids, &got.Entries},
		removal{"DELETE FROM work WHERE id IN (?)", ids, &got.Units})
}
