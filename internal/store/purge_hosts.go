package store

import (
	"context"
	"slices"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/store/rules"
)

// purgeCopies bounds the copies of blobs whose rows one transaction removes: it holds their blobs' rows, which the replicator wants.
const purgeCopies = 200

// purgeHosts removes deleted hosts with what was known of them: claims, the health of their storage, who might speak for them, where they had
// copies of blobs. It leaves one that is still worked on, as what salvor changed of it in Nova is yet to be taken back, and one that may have
// the last copy of a blob: its name is all that is known of where to look. The copies go first, so that no transaction is long.
func (s *Store) purgeHosts(ctx context.Context, tx bun.Tx, p *purging) error {
	var rows []named
	err := tx.NewRaw("SELECT h.id, h.uuid FROM hosts AS h WHERE h.id > ? AND h.deleted <> 0 AND h.deleted_at < ? "+
		"AND NOT EXISTS (SELECT 1 FROM work AS w WHERE w.host_uuid = h.uuid AND w.ended = 0) ORDER BY h.id LIMIT ?", p.after, literal(p.before), p.size).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return err
	}
	after := rows[len(rows)-1].ID
	full := len(rows) == p.size
	_, uuids := p.took(rows)
	if p.more, err = s.purgeLocations(ctx, tx, p, uuids); err != nil || p.more {
		p.got.Bounded = 0 // the same hosts are next
		return err
	}
	var needed []string
	if err := tx.NewRaw("SELECT DISTINCT host_uuid FROM blob_locations WHERE host_uuid IN (?)", bun.List(uuids)).Scan(ctx, &needed); err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r named) bool { return slices.Contains(needed, r.UUID) })
	p.after, p.got.Kept = after, len(needed)
	ids, uuids := p.took(rows)
	p.more = full
	if len(rows) == 0 {
		return nil
	}
	if err := removeKnown(ctx, tx, uuids); err != nil {
		return err
	}
	return remove(ctx, tx,
		removal{"DELETE FROM claims WHERE host_uuid IN (?)", uuids, &p.got.Claims},
		removal{"DELETE FROM hosts WHERE id IN (?)", ids, &p.got.Hosts})
}

// spareLocation holds for copies (l) that nobody needs to look for: they are gone, their blob is given up or not in the catalogue, or a good
// copy is on a host that is registered and whose agent was heard since then.
const spareLocation = "(l.state = 'dropped' OR NOT EXISTS (SELECT 1 FROM blobs AS b WHERE b.uuid = l.blob_uuid AND b.lost_by = '') " +
	"OR EXISTS (SELECT 1 FROM blob_locations AS o JOIN hosts AS g ON g.uuid = o.host_uuid AND g.deleted = 0 " +
	"JOIN host_health AS k ON k.host_uuid = g.uuid AND k.reported_at > ? WHERE o.blob_uuid = l.blob_uuid AND o.state = 'present'))"

// purgeLocations removes the rows of some spare copies on those hosts; there may be more. Nothing is unlinked by that, and nothing counted on
// them: a deleted host's agent is not heard.
func (s *Store) purgeLocations(ctx context.Context, tx bun.Tx, p *purging, hosts []string) (more bool, err error) {
	heard := literal(p.now.Add(-rules.SpareHeard))
	var rows []named
	err = tx.NewRaw("SELECT l.id, l.blob_uuid AS uuid FROM blob_locations AS l WHERE l.host_uuid IN (?) AND "+spareLocation+" ORDER BY l.id LIMIT ?",
		bun.List(hosts), heard, purgeCopies).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	if err := s.wakeReplicator(ctx, tx); err != nil {
		return false, err
	}
	set := map[string]bool{}
	ids := make([]int64, len(rows))
	for i, r := range rows {
		ids[i], set[r.UUID] = r.ID, true
	}
	blobs := sorted(set)
	if err := touchBlobs(ctx, tx, blobs); err != nil {
		return false, err
	}
	// They were spare before their blobs were touched: are they still?
	var sure []int64
	if err := tx.NewRaw("SELECT l.id FROM blob_locations AS l WHERE l.id IN (?) AND "+spareLocation, bun.List(ids), heard).Scan(ctx, &sure); err != nil {
		return false, err
	}
	if len(sure) > 0 {
		if err := remove(ctx, tx, removal{"DELETE FROM blob_locations WHERE id IN (?)", sure, &p.got.Copies}); err != nil {
			return false, err
		}
	}
	return len(rows) == purgeCopies && len(sure) > 0, s.recount(ctx, tx, blobs)
}

// knownOfHosts are the tables with what agents said of hosts, and who they are.
var knownOfHosts = []string{"host_checks", "host_health", "agents", "blob_hosts", "agent_silences"}

func removeKnown(ctx context.Context, tx bun.Tx, hosts []string) error {
	for _, table := range knownOfHosts {
		if _, err := changed(ctx, tx, "DELETE FROM ? WHERE host_uuid IN (?)", bun.Ident(table), bun.List(hosts)); err != nil {
			return err
		}
	}
	return nil
}

// purgeStrays removes what is left of hosts whose rows are gone: a salvor before this one left it behind.
func (s *Store) purgeStrays(ctx context.Context, tx bun.Tx, p *purging) error {
	set, known := map[string]bool{}, false
	for _, table := range append([]string{"blob_locations"}, knownOfHosts...) {
		var hosts []string
		if err := tx.NewRaw("SELECT DISTINCT t.host_uuid FROM ? AS t WHERE NOT EXISTS (SELECT 1 FROM hosts AS h WHERE h.uuid = t.host_uuid) LIMIT ?",
			bun.Ident(table), p.size).Scan(ctx, &hosts); err != nil {
			return err
		}
		for _, h := range hosts {
			set[h] = true
		}
		known = known || len(hosts) > 0 && table != "blob_locations" // whose rows may have to stay
	}
	if len(set) == 0 {
		return nil
	}
	more, err := s.purgeLocations(ctx, tx, p, sorted(set))
	if err != nil {
		return err
	}
	p.more = more || known
	return removeKnown(ctx, tx, sorted(set))
}
