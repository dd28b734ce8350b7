package store

import (
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// blobs applies the replicator's changes.
func (c *commit) blobs(ctx context.Context, change ha.Change) error {
	switch ch := change.(type) {
	case ha.PlanBlob:
		c.plans = append(c.plans, ch)
		return nil
	case ha.WakeBlobs:
		if len(ch.UUIDs) == 0 {
			return nil
		}
		return c.exec(ctx, "UPDATE blobs SET due = 1, retry_at = NULL WHERE uuid IN (?)", bun.List(ch.UUIDs))
	case ha.SetSweep:
		n, err := changed(ctx, c.tx, "UPDATE blob_sweep SET sweep_cursor = ? WHERE id = 1", ch.Cursor)
		if err != nil || n > 0 {
			return err
		}
		return c.exec(ctx, "INSERT INTO blob_sweep (id, sweep_cursor) VALUES (1, ?) ON ?", ch.Cursor, bun.Safe(c.s.d.keep("id")))
	case ha.VerifyLocations:
		_, err := c.s.turnLocations(ctx, c.tx, c.now, turn{ch.HostUUID, ch.EpisodeUUID, ch.Cursor, ch.Limit,
			[]ha.LocationState{ha.LocationSuspect}, ha.LocationVerifying, "its host's storage is well again"})
		return err
	default:
		return c.storage(ctx, change)
	}
}

// suspectLocations makes a batch of a host's copies suspect and returns them, by their ids in order.
func (s *Store) suspectLocations(ctx context.Context, tx bun.Tx, now time.Time, ch ha.SuspectLocations) ([]ha.Location, error) {
	return s.turnLocations(ctx, tx, now, turn{ch.HostUUID, ch.EpisodeUUID, ch.Cursor, ch.Limit,
		[]ha.LocationState{ha.LocationPresent, ha.LocationVerifying}, ha.LocationSuspect, "the storage of its host is in error"})
}

// turn is a change of state of a batch of a host's copies.
type turn struct {
	host    string
	episode string
	cursor  int64
	limit   int
	from    []ha.LocationState
	to      ha.LocationState
	why     string
}

// turnLocations changes the state of the first copies above the cursor, behind their blobs' touched rows. ErrStale when one changed
// meanwhile. Index: blob_locations_host_idx.
func (s *Store) turnLocations(ctx context.Context, tx bun.Tx, now time.Time, t turn) ([]ha.Location, error) {
	find := func() (rows []locationRow, uuids []string, ids []int64, err error) {
		q := tx.NewSelect().Model(&rows).Where("host_uuid = ? AND state IN (?) AND id > ?", t.host, bun.List(t.from), t.cursor)
		if t.to == ha.LocationVerifying {
			q.Where("episode_uuid = ?", t.episode)
		}
		err = q.OrderExpr("id").Limit(int64(t.limit)).Scan(ctx)
		for _, r := range rows {
			uuids, ids = append(uuids, r.BlobUUID), append(ids, r.ID)
		}
		return rows, uuids, ids, err
	}
	_, uuids, before, err := find()
	if err != nil || len(before) == 0 {
		return nil, err
	}
	if err := s.wakeReplicator(ctx, tx); err != nil {
		return nil, err
	}
	if err := touchBlobs(ctx, tx, uuids); err != nil {
		return nil, err
	}
	rows, uuids, ids, err := find()
	if err != nil {
		return nil, err
	}
	if !slices.Equal(before, ids) {
		return nil, ha.ErrStale
	}
	episode := t.episode
	if t.to != ha.LocationSuspect {
		episode = ""
	}
	if _, err := changed(ctx, tx, "UPDATE blob_locations SET state = ?, episode_uuid = ?, why = ?, version = version + 1, since = ? WHERE id IN (?)",
		t.to, episode, t.why, literal(now), bun.List(ids)); err != nil {
		return nil, err
	}
	turned := make([]ha.Location, len(rows))
	for i, r := range rows {
		turned[i] = r.location()
		turned[i].State, turned[i].EpisodeUUID, turned[i].Why, turned[i].Since = t.to, episode, t.why, now
		turned[i].Version++
	}
	return turned, s.recount(ctx, tx, uuids)
}

// flushPlans writes what was decided about blobs that still are as they were seen: in a handful of statements, however many there are.
func (c *commit) flushPlans(ctx context.Context) error {
	if len(c.plans) == 0 {
		return nil
	}
	plans := c.plans
	c.plans = nil
	uuids := make([]string, len(plans))
	for i, p := range plans {
		uuids[i] = p.BlobUUID
	}
	slices.Sort(uuids)
	if err := touchBlobs(ctx, c.tx, uuids); err != nil {
		return err
	}
	var rows []blobRow
	if err := c.tx.NewSelect().Model(&rows).Where("uuid IN (?)", bun.List(uuids)).Scan(ctx); err != nil {
		return err
	}
	blobs := make(map[string]ha.Blob, len(rows))
	for _, r := range rows {
		blobs[r.UUID] = r.blob()
	}
	plans = slices.DeleteFunc(plans, func(p ha.PlanBlob) bool {
		b, there := blobs[p.BlobUUID]
		return !there || b.Touch != p.Seen+1
	})
	refused, err := c.moveLocations(ctx, plans, blobs)
	if err != nil {
		return err
	}
	if err := c.moveTransfers(ctx, plans, blobs); err != nil {
		return err
	}
	return c.writeBlobs(ctx, plans, blobs, refused)
}

// moveLocations changes states. What is to be dropped is counted here, on what the rows say now.
func (c *commit) moveLocations(ctx context.Context, plans []ha.PlanBlob, blobs map[string]ha.Blob) (refused map[string]bool, err error) {
	type change struct {
		to  ha.LocationState
		why string
	}
	var uuids []string
	for _, p := range plans {
		if slices.ContainsFunc(p.Move, func(m ha.MoveLocation) bool { return m.To == ha.LocationDropping }) {
			uuids = append(uuids, p.BlobUUID)
		}
	}
	sure, err := c.s.sureCopies(ctx, c.tx, c.now, uuids)
	if err != nil {
		return nil, err
	}
	refused = map[string]bool{}
	groups := map[change][]int64{}
	for _, p := range plans {
		for _, m := range p.Move {
			if m.To == ha.LocationDropping && !sure.giveUp(blobs[p.BlobUUID], ha.Location{ID: m.ID, Why: m.Why}, c.now) {
				refused[p.BlobUUID] = true
				continue
			}
			k := change{m.To, rules.Text(m.Why, rules.MaxText)}
			groups[k] = append(groups[k], m.ID)
		}
	}
	for k, ids := range groups {
		set := "state = ?, episode_uuid = '', why = ?, version = version + 1, since = ?"
		if k.to == ha.LocationPresent {
			set += ", verified_at = NULL"
		}
		if err := c.exec(ctx, "UPDATE blob_locations SET "+set+" WHERE id IN (?)",
			k.to, k.why, literal(c.now), bun.List(ids)); err != nil {
			return nil, err
		}
	}
	return refused, nil
}

// sureCopies are, by blob, the copies that may be counted when another is given up: present, hashed, on hosts that are well and were heard
// lately.
type sureCopies map[string][]ha.Location

func (s *Store) sureCopies(ctx context.Context, db bun.IDB, now time.Time, uuids []string) (sureCopies, error) {
	sure := sureCopies{}
	if len(uuids) == 0 {
		return sure, nil
	}
	var rows []locationRow
	if err := db.NewSelect().Model(&rows).Where("blob_uuid IN (?) AND state = ? AND verified_at IS NOT NULL", bun.List(uuids), ha.LocationPresent).Scan(ctx); err != nil || len(rows) == 0 {
		return sure, err
	}
	var at []string
	for _, r := range rows {
		at = append(at, r.HostUUID)
	}
	slices.Sort(at)
	hosts, _, err := blobHosts(ctx, db, now, slices.Compact(at)...)
	for _, r := range rows {
		if h, known := hosts[r.HostUUID]; !known || h.Errored || h.Failed || h.Silent < 0 || h.Silent > ha.AgentSilence {
			continue
		}
		sure[r.BlobUUID] = append(sure[r.BlobUUID], r.location())
	}
	return sure, err
}

// but counts the others that were hashed since then.
func (s sureCopies) but(blob string, location int64, since time.Time) (n int) {
	for _, l := range s[blob] {
		if l.ID != location && l.HashedSince(since) {
			n++
		}
	}
	return n
}

// spares reports whether a copy may be dropped.
func (s sureCopies) spares(b ha.Blob, l ha.Location, now time.Time) bool {
	return s.but(b.UUID, l.ID, l.DropHashed(now)) >= l.DropNeeds(b)
}

// giveUp is spares, and counts the copy no more.
func (s sureCopies) giveUp(b ha.Blob, l ha.Location, now time.Time) bool {
	if !s.spares(b, l, now) {
		return false
	}
	s[b.UUID] = slices.DeleteFunc(s[b.UUID], func(have ha.Location) bool { return have.ID == l.ID })
	return true
}

func (c *commit) moveTransfers(ctx context.Context, plans []ha.PlanBlob, blobs map[string]ha.Blob) error {
	var started []transferRow
	cancelled := map[string][]string{} // by reason
	for _, p := range plans {
		for _, t := range p.Start {
			started = append(started, transferRow{UUID: t.UUID, BlobUUID: p.BlobUUID, Source: t.From, Target: t.To, State: string(ha.TransferRunning),
				Rescue: t.Rescue, Size: blobs[p.BlobUUID].Size, StartedAt: stamp{c.now}, MovedAt: stamp{c.now}})
		}
		for _, t := range p.Cancel {
			why := rules.Text(t.Why, rules.MaxText)
			cancelled[why] = append(cancelled[why], t.UUID)
		}
		for _, t := range p.Replace {
			if err := c.exec(ctx, "UPDATE blob_transfers SET source_uuid = ?, rescue = ? WHERE uuid = ? AND ended = 0", t.From, t.Rescue, t.UUID); err != nil {
				return err
			}
		}
	}
	for why, uuids := range cancelled {
		if err := c.exec(ctx, "UPDATE blob_transfers SET state = ?, why = ?, ended = id, ended_at = ? WHERE uuid IN (?) AND ended = 0",
			ha.TransferCancelled, why, literal(c.now), bun.List(uuids)); err != nil {
			return err
		}
	}
	if len(started) == 0 {
		return nil
	}
	_, err := c.tx.NewInsert().Model(&started).ExcludeColumn("id").On(c.s.d.keep("blob_uuid, target_uuid, ended")).Returning("NULL").Exec(ctx)
	return err
}

// writeBlobs writes what was counted. A blob whose plan could not be carried out whole stays due.
func (c *commit) writeBlobs(ctx context.Context, plans []ha.PlanBlob, blobs map[string]ha.Blob, refused map[string]bool) error {
	type counted struct {
		copies     int
		durability ha.Durability
		why        string
		again      time.Duration
		due        int
	}
	groups := map[counted][]string{}
	for _, p := range plans {
		b := blobs[p.BlobUUID]
		k := counted{p.Copies, ha.DurabilityOf(b.WantCopies, p.Copies, b.LostBy), rules.Text(p.Why, rules.MaxText), p.Again, 0}
		if refused[p.BlobUUID] {
			k.due = 1
		}
		groups[k] = append(groups[k], p.BlobUUID)
	}
	for k, uuids := range groups {
		retry := bun.Safe("NULL")
		if k.again > 0 {
			retry = literal(c.now.Add(k.again))
		}
		if err := c.exec(ctx, "UPDATE blobs SET copies = ?, durability = ?, why = ?, due = ?, retry_at = ?, updated_at = ? WHERE uuid IN (?)",
			k.copies, k.durability, k.why, k.due, retry, literal(c.now), bun.List(uuids)); err != nil {
			return err
		}
	}
	return nil
}
