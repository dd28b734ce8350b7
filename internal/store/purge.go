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

// purgeItems bounds the items of an episode of one transaction: a host may have had as many copies of blobs as it likes.
const purgeItems = 1000

// purging is one small transaction's share of a purge.
type purging struct {
	now, before time.Time
	size        int          // at most so many rows that count
	after       int64        // the id of the last row seen, where many rows stay
	got         rules.Purged // what it removed
	more        bool         // there may be more
}

// Purge removes for good what is older than ageDays (contract section 11): ended notifications by updated_at, with their
// vmoves, journal and units of work; deleted notifications, hosts, segments and vmoves by deleted_at, with all that was known of them; cleared and ended episodes, with runs and items, and
// ended transfers by their end; unshipped messages by their age. At most maxRows in all, -1 for no bound; what hangs on a notification or an
// episode is not counted. It works in small transactions and returns what it removed, also with an error.
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
	for _, step := range []struct {
		counted bool
		batch   func(context.Context, bun.Tx, *purging) error
	}{
		{true, purgeNotifications}, {true, purgeDeletedNotifications}, {true, s.purgeHosts}, {false, s.purgeStrays}, {true, purgeSegments}, {true, purgeVMoves}, {true, purgeEpisodes}, {true, purgeTransfers},
		{false, purgeUnits}, {false, purgeOutbox},
	} {
		p := purging{now: now, before: now.AddDate(0, 0, -ageDays), more: true}
		for p.more {
			p.size = purgeBatch
			if maxRows > 0 && step.counted {
				p.size = min(p.size, maxRows-removed.Bounded)
			}
			if p.size == 0 {
				break
			}
			next := p
			err := s.write(ctx, "purging", func(ctx context.Context, tx bun.Tx) error {
				next = p
				next.got, next.more = rules.Purged{}, false
				return step.batch(ctx, tx, &next)
			}, nil)
			if err != nil {
				return removed, err
			}
			p = next
			if !step.counted {
				p.got.Bounded = 0
			}
			removed.Add(p.got)
		}
	}
	return removed, nil
}

// took counts the rows of a batch and returns them as columns.
func (p *purging) took(rows []named) (ids []int64, uuids []string) {
	for _, r := range rows {
		ids, uuids = append(ids, r.ID), append(uuids, r.UUID)
	}
	p.got.Bounded, p.more = len(rows), len(rows) == p.size
	return ids, uuids
}

// named is a row to be removed.
type named struct {
	ID   int64  `bun:"id"`
	UUID string `bun:"uuid"`
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

func purgeNotifications(ctx context.Context, tx bun.Tx, p *purging) error {
	var rows []named
	// What was updated before then was created before then: that part has an index.
	err := tx.NewRaw("SELECT n.id, n.notification_uuid AS uuid FROM notifications AS n WHERE n.deleted = 0 AND n.status IN (?) "+
		"AND n.created_at < ? AND n.updated_at < ? "+
		"AND NOT EXISTS (SELECT 1 FROM work AS w WHERE w.notification_uuid = n.notification_uuid AND w.ended = 0) LIMIT ?",
		bun.List([]ha.Status{ha.StatusFinished, ha.StatusFailed, ha.StatusIgnored}), literal(p.before), literal(p.before), p.size).Scan(ctx, &rows)
	if err != nil {
		return err
	}
	return removeNotifications(ctx, tx, p, rows)
}

// purgeDeletedNotifications removes those that an import brought along as deleted: salvor itself deletes none.
func purgeDeletedNotifications(ctx context.Context, tx bun.Tx, p *purging) error {
	var rows []named
	err := tx.NewRaw("SELECT id, notification_uuid AS uuid FROM notifications WHERE deleted > 0 AND deleted_at < ? LIMIT ?",
		literal(p.before), p.size).Scan(ctx, &rows)
	if err != nil {
		return err
	}
	return removeNotifications(ctx, tx, p, rows)
}

// removeNotifications removes notifications with what hangs on them.
func removeNotifications(ctx context.Context, tx bun.Tx, p *purging, rows []named) error {
	if len(rows) == 0 {
		return nil
	}
	ids, uuids := p.took(rows)
	return remove(ctx, tx,
		removal{"DELETE FROM vmoves WHERE notification_uuid IN (?)", uuids, &p.got.VMoves},
		removal{"DELETE FROM journal WHERE notification_uuid IN (?)", uuids, &p.got.Entries},
		removal{"DELETE FROM work WHERE notification_uuid IN (?)", uuids, &p.got.Units},
		removal{"DELETE FROM notifications WHERE id IN (?)", ids, &p.got.Notifications})
}

func purgeSegments(ctx context.Context, tx bun.Tx, p *purging) error {
	var rows []named
	err := tx.NewRaw("SELECT s.id, s.uuid FROM failover_segments AS s WHERE s.deleted <> 0 AND s.deleted_at < ? "+
		"AND NOT EXISTS (SELECT 1 FROM hosts AS h WHERE h.failover_segment_id = s.uuid) LIMIT ?", literal(p.before), p.size).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return err
	}
	ids, uuids := p.took(rows)
	along := 0
	return remove(ctx, tx,
		removal{"DELETE FROM storage_actions WHERE segment_uuid IN (?)", uuids, &along},
		removal{"DELETE FROM pauses WHERE scope IN (?)", uuids, &along},
		removal{"DELETE FROM failover_segments WHERE id IN (?)", ids, &p.got.Segments})
}

func purgeVMoves(ctx context.Context, tx bun.Tx, p *purging) error {
	var rows []named
	err := tx.NewRaw("SELECT id, uuid FROM vmoves WHERE deleted <> 0 AND deleted_at < ? LIMIT ?", literal(p.before), p.size).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return err
	}
	ids, _ := p.took(rows)
	return remove(ctx, tx, removal{"DELETE FROM vmoves WHERE id IN (?)", ids, &p.got.VMoves})
}

// purgeOutbox removes what still waits for a destination that nobody ships to any more: it was taken out of the configuration.
func purgeOutbox(ctx context.Context, tx bun.Tx, p *purging) error {
	var rows []named
	err := tx.NewRaw("SELECT id FROM outbox WHERE created_at < ? LIMIT ?", literal(p.before), p.size).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return err
	}
	ids, _ := p.took(rows)
	return remove(ctx, tx, removal{"DELETE FROM outbox WHERE id IN (?)", ids, &p.got.Messages})
}

// purgeUnits removes ended take-backs, which have no notification to go with.
func purgeUnits(ctx context.Context, tx bun.Tx, p *purging) error {
	var rows []named
	err := tx.NewRaw("SELECT id, unit_key AS uuid FROM work WHERE notification_uuid = '' AND ended <> 0 AND ended_at < ? LIMIT ?", literal(p.before), p.size).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return err
	}
	ids, _ := p.took(rows)
	return remove(ctx, tx,
		removal{"DELETE FROM journal WHERE work_id IN (?)", ids, &p.got.Entries},
		removal{"DELETE FROM work WHERE id IN (?)", ids, &p.got.Units})
}

// purgeEpisodes removes episodes that were cleared and whose unit is done with them. Their items go first, so that no transaction is long.
func purgeEpisodes(ctx context.Context, tx bun.Tx, p *purging) error {
	var rows []named
	err := tx.NewRaw("SELECT id, uuid FROM episodes WHERE cleared <> 0 AND ended <> 0 AND ended_at < ? ORDER BY id LIMIT ?", literal(p.before), p.size).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return err
	}
	ids, uuids := p.took(rows)
	var items []int64
	if err := tx.NewRaw("SELECT id FROM episode_items WHERE episode_uuid IN (?) LIMIT ?", bun.List(uuids), purgeItems).Scan(ctx, &items); err != nil {
		return err
	}
	if len(items) > 0 {
		if err := remove(ctx, tx, removal{"DELETE FROM episode_items WHERE id IN (?)", items, &p.got.Items}); err != nil {
			return err
		}
	}
	if len(items) == purgeItems {
		p.got.Bounded, p.more = 0, true
		return nil
	}
	return remove(ctx, tx,
		removal{"DELETE FROM episode_runs WHERE episode_uuid IN (?)", uuids, &p.got.Runs},
		removal{"DELETE FROM episodes WHERE id IN (?)", ids, &p.got.Episodes})
}

// purgeTransfers removes ended transfers, but for the last one of each blob that there is: it says how its copies came about. What an agent is
// still to be told that it was cancelled stays.
func purgeTransfers(ctx context.Context, tx bun.Tx, p *purging) error {
	var rows []named
	err := tx.NewRaw("SELECT t.id, t.uuid FROM blob_transfers AS t WHERE t.id > ? AND t.ended <> 0 AND t.ended_at < ? "+
		"AND (t.state <> ? OR t.told = ? OR t.ended_at < ?) "+
		"AND (EXISTS (SELECT 1 FROM blob_transfers AS n WHERE n.blob_uuid = t.blob_uuid AND n.id > t.id) "+
		"OR NOT EXISTS (SELECT 1 FROM blobs AS b WHERE b.uuid = t.blob_uuid)) ORDER BY t.id LIMIT ?",
		p.after, literal(p.before), ha.TransferCancelled, true, literal(p.now.Add(-rules.CancelKept)), p.size).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return err
	}
	ids, _ := p.took(rows)
	p.after = ids[len(ids)-1]
	return remove(ctx, tx, removal{"DELETE FROM blob_transfers WHERE id IN (?)", ids, &p.got.Transfers})
}
