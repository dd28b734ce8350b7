package store

import (
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// reportBlobs takes in what an agent says of its copies, transfers and orders. It is told once and may be told again: all of it is state
// to state. What it says of blobs that are not in the catalogue is not kept, and never a reason to delete bytes.
func (s *Store) reportBlobs(ctx context.Context, tx bun.Tx, now time.Time, r ha.AgentReport) error {
	if err := s.putDomain(ctx, tx, r); err != nil {
		return err
	}
	if len(r.Copies) == 0 && len(r.Transfers) == 0 {
		return nil
	}
	b := &blobReport{s: s, tx: tx, now: now, host: r.HostUUID, copies: map[string]ha.CopyReport{}}
	for _, c := range r.Copies {
		b.copies[c.BlobUUID] = c
	}
	if err := b.read(ctx, r); err != nil {
		return err
	}
	touched := map[string]bool{}
	for b.decide(r); ; b.decide(r) { // what changes is decided once more, behind the blobs' touched rows
		fresh := map[string]bool{}
		for uuid := range b.counts {
			if !touched[uuid] {
				fresh[uuid], touched[uuid] = true, true
			}
		}
		if len(fresh) == 0 {
			break
		}
		if err := s.wakeReplicator(ctx, tx); err != nil {
			return err
		}
		if err := touchBlobs(ctx, tx, sorted(fresh)); err != nil {
			return err
		}
		if err := b.read(ctx, r); err != nil {
			return err
		}
	}
	if err := b.write(ctx); err != nil {
		return err
	}
	return s.recount(ctx, tx, sorted(b.counts))
}

// putDomain keeps the failure domain that an agent has named.
func (s *Store) putDomain(ctx context.Context, tx bun.Tx, r ha.AgentReport) error {
	if r.Domain == "" {
		return nil
	}
	domain := rules.Name(r.Domain)
	n, err := changed(ctx, tx, "UPDATE blob_hosts SET domain = ? WHERE host_uuid = ?", domain, r.HostUUID)
	if err != nil || n > 0 {
		return err
	}
	_, err = changed(ctx, tx, "INSERT INTO blob_hosts (host_uuid, domain) VALUES (?, ?) ON ?", r.HostUUID, domain, bun.Safe(s.keepHost()))
	return err
}

// keepHost is keep for a table without an id.
func (s *Store) keepHost() string {
	if s.d.name == mysql {
		return "DUPLICATE KEY UPDATE host_uuid = host_uuid"
	}
	return s.d.keep("host_uuid")
}

func sorted(set map[string]bool) []string {
	list := make([]string, 0, len(set))
	for uuid := range set {
		list = append(list, uuid)
	}
	slices.Sort(list)
	return list
}

// blobReport is a report being taken in.
type blobReport struct {
	s      *Store
	tx     bun.Tx
	now    time.Time
	host   string
	failed bool
	copies map[string]ha.CopyReport

	blobs     map[string]ha.Blob
	locations map[string]ha.Location // by blob
	ordered   map[int64]ha.Location  // named by orders
	transfers map[string]ha.Transfer

	counts    map[string]bool // blobs to be counted again
	put       []ha.Location   // to be written; new ones have no id
	moved     []ha.Transfer
	told      []string
	refreshed []int64 // locations of which only the time of the hash is new
}

func (b *blobReport) read(ctx context.Context, r ha.AgentReport) error {
	b.blobs, b.locations, b.ordered, b.transfers = map[string]ha.Blob{}, map[string]ha.Location{}, map[int64]ha.Location{}, map[string]ha.Transfer{}
	hosts, _, err := blobHosts(ctx, b.tx, b.now, b.host)
	if err != nil {
		return err
	}
	b.failed = hosts[b.host].Failed
	uuids := make([]string, 0, len(b.copies))
	for uuid := range b.copies {
		uuids = append(uuids, uuid)
	}
	var ids []int64
	var names []string
	for _, t := range r.Transfers {
		if id, _, ok := rules.OrderedLocation(t.UUID); ok {
			ids = append(ids, id)
		} else {
			names = append(names, t.UUID)
		}
	}
	if len(uuids) > 0 {
		rows, err := rowsOf[blobRow](ctx, b.tx, len(uuids), "t.uuid IN (?)", bun.List(uuids))
		if err != nil {
			return err
		}
		for _, row := range rows {
			b.blobs[row.UUID] = row.blob()
		}
		found, err := rowsOf[locationRow](ctx, b.tx, len(uuids), "t.blob_uuid IN (?) AND t.host_uuid = ?", bun.List(uuids), b.host)
		if err != nil {
			return err
		}
		for _, row := range found {
			b.locations[row.BlobUUID] = row.location()
		}
	}
	if len(ids) > 0 {
		rows, err := rowsOf[locationRow](ctx, b.tx, len(ids), "t.id IN (?) AND t.host_uuid = ?", bun.List(ids), b.host)
		if err != nil {
			return err
		}
		for _, row := range rows {
			b.ordered[row.ID] = row.location()
		}
	}
	if len(names) > 0 {
		rows, err := rowsOf[transferRow](ctx, b.tx, len(names), "t.uuid IN (?) AND t.target_uuid = ?", bun.List(names), b.host)
		if err != nil {
			return err
		}
		for _, row := range rows {
			b.transfers[row.UUID] = row.transfer()
		}
	}
	return nil
}

func (b *blobReport) decide(r ha.AgentReport) {
	b.counts, b.put, b.moved, b.told, b.refreshed = map[string]bool{}, nil, nil, nil, nil
	said := make(map[string]bool, len(b.copies))
	for _, c := range r.Copies {
		blob, known := b.blobs[c.BlobUUID]
		if !known || said[c.BlobUUID] || b.copies[c.BlobUUID] != c { // the last word on a copy counts, and once
			continue
		}
		said[c.BlobUUID] = true
		var was *ha.Location
		if l, had := b.locations[c.BlobUUID]; had {
			was = &l
		}
		l, write, counts := rules.CopyFound(blob, was, b.host, c, b.failed, b.now)
		switch {
		case counts:
			b.put, b.counts[c.BlobUUID] = append(b.put, l), true
		case write:
			b.refreshed = append(b.refreshed, l.ID)
		}
	}
	for _, t := range r.Transfers {
		if id, version, ok := rules.OrderedLocation(t.UUID); ok {
			l, known := b.ordered[id]
			if _, also := b.copies[l.BlobUUID]; !known || also { // what it found says more
				continue
			}
			if next, write := rules.OrderFailed(l, version, t, b.now); write {
				b.put, b.counts[l.BlobUUID] = append(b.put, next), true
			}
			continue
		}
		was, known := b.transfers[t.UUID]
		if !known {
			continue
		}
		next, write, counts, told := rules.TransferTold(was, t, b.now)
		if write {
			b.moved = append(b.moved, next)
		}
		if counts {
			b.counts[was.BlobUUID] = true
		}
		if told {
			b.told = append(b.told, was.UUID)
		}
	}
}

func (b *blobReport) write(ctx context.Context) error {
	var fresh []locationRow
	for _, l := range b.put {
		row := rowOfLocation(l)
		if l.ID == 0 {
			fresh = append(fresh, row)
			continue
		}
		if _, err := b.tx.NewUpdate().Model(&row).Column("state", "episode_uuid", "why", "version", "since", "verified_at").WherePK().Exec(ctx); err != nil {
			return err
		}
	}
	if len(fresh) > 0 {
		if _, err := b.tx.NewInsert().Model(&fresh).ExcludeColumn("id").Returning("NULL").Exec(ctx); err != nil {
			return err
		}
	}
	if len(b.refreshed) > 0 {
		if _, err := changed(ctx, b.tx, "UPDATE blob_locations SET verified_at = ? WHERE id IN (?)", literal(b.now), bun.List(b.refreshed)); err != nil {
			return err
		}
	}
	if len(b.told) > 0 {
		if _, err := changed(ctx, b.tx, "UPDATE blob_transfers SET told = ? WHERE uuid IN (?)", true, bun.List(b.told)); err != nil {
			return err
		}
	}
	var done []int64 // all alike, and there may be hundreds
	for _, t := range b.moved {
		if t.State == ha.TransferDone {
			done = append(done, t.ID)
		}
	}
	if len(done) > 0 {
		if _, err := changed(ctx, b.tx, "UPDATE blob_transfers SET state = ?, bytes = size, why = '', moved_at = ?, ended = id, ended_at = ? WHERE id IN (?) AND ended = 0",
			ha.TransferDone, literal(b.now), literal(b.now), bun.List(done)); err != nil {
			return err
		}
	}
	for _, t := range b.moved {
		if t.State == ha.TransferDone {
			continue
		}
		ended, at := int64(0), bun.Safe("NULL")
		if t.EndedAt != nil {
			ended, at = t.ID, literal(*t.EndedAt)
		}
		if _, err := changed(ctx, b.tx, "UPDATE blob_transfers SET state = ?, bytes = ?, why = ?, moved_at = ?, ended = ?, ended_at = ? WHERE id = ? AND ended = 0",
			t.State, t.Bytes, t.Why, literal(t.MovedAt), ended, at, t.ID); err != nil {
			return err
		}
	}
	return nil
}
