package store

import (
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// AddBlob puts a blob into the catalogue, with copies that are said to be on these hosts and that their agents are to hash. One that is
// there already, with the same size and sha256, gets the new want_copies and in_use; ConflictError for another file of that uuid.
func (s *Store) AddBlob(ctx context.Context, b ha.Blob, hosts []string) (ha.Blob, error) {
	if err := rules.CheckBlob(b); err != nil {
		return ha.Blob{}, err
	}
	var added ha.Blob
	err := s.write(ctx, "adding a blob", func(ctx context.Context, tx bun.Tx) error {
		if err := s.wakeReplicator(ctx, tx); err != nil {
			return err
		}
		now, err := s.clock(ctx, tx)
		if err != nil {
			return err
		}
		row := blobRow{UUID: b.UUID, Size: b.Size, SHA256: b.SHA256, WantCopies: b.WantCopies, Unused: unused(b.InUse),
			Durability: string(ha.DurabilityAtRisk), Touch: 1, CreatedAt: stamp{now}}
		if _, err := tx.NewInsert().Model(&row).ExcludeColumn("id").On(s.d.keep("uuid")).Returning("NULL").Exec(ctx); err != nil {
			return err
		}
		if _, err := changed(ctx, tx, "UPDATE blobs SET touch = touch + 1, want_copies = ?, unused = ? WHERE uuid = ? AND size = ? AND sha256 = ?",
			b.WantCopies, unused(b.InUse), b.UUID, b.Size, b.SHA256); err != nil {
			return err
		}
		have, err := one[blobRow](ctx, tx, "uuid = ?", b.UUID)
		if err != nil {
			return err
		}
		if have == nil || have.Size != b.Size || have.SHA256 != b.SHA256 {
			return rules.OtherBlob(b)
		}
		if err := s.sayLocations(ctx, tx, now, b.UUID, hosts); err != nil {
			return err
		}
		if err := s.recount(ctx, tx, []string{b.UUID}); err != nil {
			return err
		}
		have, err = one[blobRow](ctx, tx, "uuid = ?", b.UUID)
		if err == nil {
			added = have.blob()
		}
		return err
	}, nil)
	return added, err
}

// sayLocations writes where copies are said to be. What an agent has said of one stands.
func (s *Store) sayLocations(ctx context.Context, tx bun.Tx, now time.Time, blob string, hosts []string) error {
	const why = "said to be there when the blob was added"
	for _, h := range hosts {
		row := rowOfLocation(ha.Location{BlobUUID: blob, HostUUID: h, State: ha.LocationVerifying, Why: why, Version: 1, Since: now})
		if _, err := tx.NewInsert().Model(&row).ExcludeColumn("id").On(s.d.keep("blob_uuid, host_uuid")).Returning("NULL").Exec(ctx); err != nil {
			return err
		}
		if _, err := changed(ctx, tx, "UPDATE blob_locations SET state = ?, why = ?, version = version + 1, since = ? WHERE blob_uuid = ? AND host_uuid = ? AND state = ?",
			ha.LocationVerifying, why, literal(now), blob, h, ha.LocationDropped); err != nil {
			return err
		}
	}
	return nil
}

// Blobs lists blobs, the oldest first, after the one whose uuid is the marker. MarkerError when it names none. Index: blobs_durability_idx,
// blob_locations_host_idx.
func (s *Store) Blobs(ctx context.Context, f ha.BlobFilter, limit int, marker string) ([]ha.Blob, error) {
	blobs := []ha.Blob{}
	err := s.read(ctx, "listing blobs", func(ctx context.Context, db bun.IDB) error {
		blobs = []ha.Blob{}
		var rows []blobRow
		q := db.NewSelect().Model(&rows)
		equal(q, "durability", f.Durability)
		if f.HostUUID != nil {
			q.Where("uuid IN (SELECT l.blob_uuid FROM blob_locations AS l WHERE l.host_uuid = ? AND l.state <> ?)", *f.HostUUID, ha.LocationDropped)
		}
		if marker != "" {
			m, err := marked[blobRow](ctx, db, marker)
			if err != nil {
				return err
			}
			if m == nil {
				return &ha.MarkerError{Marker: marker}
			}
			q.Where("id > ?", m.ID)
		}
		if limit <= 0 {
			return nil
		}
		if err := q.OrderExpr("id").Limit(int64(limit)).Scan(ctx); err != nil {
			return err
		}
		for _, r := range rows {
			blobs = append(blobs, r.blob())
		}
		return nil
	})
	return blobs, err
}

// marked is the row of a marker: an integer id, or a uuid.
func marked[R any](ctx context.Context, db bun.IDB, marker string) (*R, error) {
	if id, ok := rules.MarkerID(marker); ok {
		return one[R](ctx, db, "id = ?", id)
	}
	return one[R](ctx, db, "uuid = ?", marker)
}

// mostOfABlob bounds the locations and transfers shown of one blob.
const mostOfABlob = 100

// Blob shows one blob. NotFoundError.
func (s *Store) Blob(ctx context.Context, uuid string) (ha.BlobDetails, error) {
	var d ha.BlobDetails
	err := s.read(ctx, "reading a blob", func(ctx context.Context, db bun.IDB) error {
		row, err := one[blobRow](ctx, db, "uuid = ?", uuid)
		if err != nil {
			return err
		}
		if row == nil {
			return &ha.NotFoundError{Kind: ha.KindBlob, ID: uuid}
		}
		d = ha.BlobDetails{Blob: row.blob()}
		var ls []locationRow
		if err := db.NewSelect().Model(&ls).Where("blob_uuid = ?", uuid).OrderExpr("id").Limit(mostOfABlob).Scan(ctx); err != nil {
			return err
		}
		var hosts []string
		for _, l := range ls {
			d.Locations, hosts = append(d.Locations, l.location()), append(hosts, l.HostUUID)
		}
		var ts []transferRow
		if err := db.NewSelect().Model(&ts).Where("blob_uuid = ?", uuid).OrderExpr("id DESC").Limit(mostOfABlob).Scan(ctx); err != nil {
			return err
		}
		for _, t := range ts {
			d.Transfers, hosts = append(d.Transfers, t.transfer()), append(hosts, t.Source, t.Target)
		}
		d.Hosts, err = hostNames(ctx, db, hosts)
		return err
	})
	return d, err
}

// hostNames are the names of hosts, deleted ones too.
func hostNames(ctx context.Context, db bun.IDB, uuids []string) (map[string]string, error) {
	names := map[string]string{}
	if len(uuids) == 0 {
		return names, nil
	}
	slices.Sort(uuids)
	var rows []struct {
		UUID string `bun:"uuid"`
		Name string `bun:"name"`
	}
	err := db.NewRaw("SELECT uuid, name FROM hosts WHERE uuid IN (?)", bun.List(slices.Compact(uuids))).Scan(ctx, &rows)
	for _, r := range rows {
		names[r.UUID] = r.Name
	}
	return names, err
}

// Transfers lists transfers, the newest first, after the one whose uuid is the marker, with the names of their hosts. MarkerError.
func (s *Store) Transfers(ctx context.Context, f ha.TransferFilter, limit int, marker string) (list []ha.Transfer, names map[string]string, err error) {
	err = s.read(ctx, "listing transfers", func(ctx context.Context, db bun.IDB) error {
		list, names = []ha.Transfer{}, map[string]string{}
		var rows []transferRow
		q := db.NewSelect().Model(&rows)
		equal(q, "state", f.State)
		equal(q, "blob_uuid", f.BlobUUID)
		equal(q, "target_uuid", f.HostUUID)
		if marker != "" {
			m, err := marked[transferRow](ctx, db, marker)
			if err != nil {
				return err
			}
			if m == nil {
				return &ha.MarkerError{Marker: marker}
			}
			q.Where("id < ?", m.ID)
		}
		if limit <= 0 {
			return nil
		}
		if err := q.OrderExpr("id DESC").Limit(int64(limit)).Scan(ctx); err != nil {
			return err
		}
		var hosts []string
		for _, r := range rows {
			list, hosts = append(list, r.transfer()), append(hosts, r.Source, r.Target)
		}
		var err error
		names, err = hostNames(ctx, db, hosts)
		return err
	})
	return list, names, err
}

// RescueBlob has the replicator try again at once whatever may still give the blob: what was given up is wanted again, and what was set
// aside is hashed once more when nothing else is left. NotFoundError.
func (s *Store) RescueBlob(ctx context.Context, uuid string) error {
	return s.onBlob(ctx, "rescuing a blob", uuid, func(ctx context.Context, tx bun.Tx, b ha.Blob, now time.Time) error {
		if _, err := changed(ctx, tx, "UPDATE blobs SET lost_by = '' WHERE uuid = ?", uuid); err != nil {
			return err
		}
		// Failures of the past make nothing wait any more.
		if _, err := changed(ctx, tx, "UPDATE blob_transfers SET ended_at = ? WHERE blob_uuid = ? AND state = ?",
			literal(now.Add(-rules.FailedKept)), uuid, ha.TransferFailed); err != nil || b.Copies > 0 {
			return err
		}
		_, err := changed(ctx, tx, "UPDATE blob_locations SET why = ?, version = version + 1 WHERE blob_uuid = ? AND state = ?",
			ha.WhyRestore, uuid, ha.LocationQuarantined)
		return err
	})
}

// LoseBlob gives a blob up, by an operator's word. ConflictError while a copy is good; NotFoundError.
func (s *Store) LoseBlob(ctx context.Context, uuid, by string) error {
	return s.onBlob(ctx, "giving a blob up", uuid, func(ctx context.Context, tx bun.Tx, b ha.Blob, _ time.Time) error {
		if err := rules.LoseRefused(b); err != nil {
			return err
		}
		_, err := changed(ctx, tx, "UPDATE blobs SET lost_by = ? WHERE uuid = ?", rules.Name(by), uuid)
		return err
	})
}

// DropLocation has a copy dropped by an operator's order. One on a host whose agent is silent is taken off the catalogue at once: nobody
// would confirm it, and what comes back is found again. NotFoundError, ConflictError.
func (s *Store) DropLocation(ctx context.Context, d ha.DropLocation) error {
	return s.onBlob(ctx, "dropping a copy", d.BlobUUID, func(ctx context.Context, tx bun.Tx, b ha.Blob, now time.Time) error {
		row, err := one[locationRow](ctx, tx, "blob_uuid = ? AND host_uuid = ?", d.BlobUUID, d.HostUUID)
		if err != nil {
			return err
		}
		if row == nil {
			return &ha.NotFoundError{Kind: ha.KindLocation, ID: d.HostUUID, Under: d.BlobUUID}
		}
		sure, err := s.sureCopies(ctx, tx, now, []string{d.BlobUUID})
		if err != nil {
			return err
		}
		if err := rules.DropRefused(b, row.location(), sure.but(d.BlobUUID, row.ID, time.Time{}), d.Force); err != nil {
			return err
		}
		hosts, _, err := blobHosts(ctx, tx, now, d.HostUUID)
		if err != nil {
			return err
		}
		to := ha.LocationDropping
		if h, known := hosts[d.HostUUID]; !known || h.Silent < 0 || h.Silent > ha.AgentSilence {
			to = ha.LocationDropped
		}
		_, err = changed(ctx, tx, "UPDATE blob_locations SET state = ?, episode_uuid = '', why = ?, version = version + 1, since = ? WHERE id = ?",
			to, rules.Text(ha.WhyOrdered+d.By+": "+d.Reason, rules.MaxText), literal(now), row.ID)
		return err
	})
}

// onBlob changes one blob behind its touched row, counts it again and wakes the replicator.
func (s *Store) onBlob(ctx context.Context, op, uuid string, fn func(context.Context, bun.Tx, ha.Blob, time.Time) error) error {
	return s.write(ctx, op, func(ctx context.Context, tx bun.Tx) error {
		if err := s.wakeReplicator(ctx, tx); err != nil {
			return err
		}
		if err := touchBlobs(ctx, tx, []string{uuid}); err != nil {
			return err
		}
		row, err := one[blobRow](ctx, tx, "uuid = ?", uuid)
		if err != nil {
			return err
		}
		if row == nil {
			return &ha.NotFoundError{Kind: ha.KindBlob, ID: uuid}
		}
		now, err := s.clock(ctx, tx)
		if err != nil {
			return err
		}
		if err := fn(ctx, tx, row.blob(), now); err != nil {
			return err
		}
		return s.recount(ctx, tx, []string{uuid})
	}, nil)
}

// BlobCounts are for metrics: one index and one short table. Index: blobs_durability_idx, blob_transfers_ended_idx.
func (s *Store) BlobCounts(ctx context.Context) (ha.BlobCounts, error) {
	c := ha.BlobCounts{Blobs: map[ha.Durability]int64{}, Bytes: map[ha.Durability]int64{}}
	err := s.read(ctx, "counting blobs", func(ctx context.Context, db bun.IDB) error {
		var rows []struct {
			Durability string `bun:"durability"`
			Count      int64  `bun:"n"`
			Bytes      int64  `bun:"bytes"`
		}
		if err := db.NewRaw("SELECT durability, COUNT(*) AS n, CAST(SUM(size) AS "+s.d.bigint()+") AS bytes FROM blobs GROUP BY durability").Scan(ctx, &rows); err != nil {
			return err
		}
		for _, r := range rows {
			c.Blobs[ha.Durability(r.Durability)], c.Bytes[ha.Durability(r.Durability)] = r.Count, r.Bytes
		}
		var left struct {
			Count int64 `bun:"n"`
			Left  int64 `bun:"rest"`
		}
		err := db.NewRaw("SELECT COUNT(*) AS n, CAST(COALESCE(SUM(size - bytes), 0) AS "+s.d.bigint()+") AS rest FROM blob_transfers WHERE ended = 0").Scan(ctx, &left)
		c.Transfers, c.Left = left.Count, left.Left
		return err
	})
	return c, err
}

// bigint is what CAST calls a 64-bit number.
func (d dialect) bigint() string {
	if d.name == mysql {
		return "SIGNED"
	}
	return "BIGINT"
}
