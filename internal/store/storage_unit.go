package store

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// mostChecked bounds the checks that the brake counts.
const mostChecked = 100000

// loadStorage reads what the plan of a storage unit needs: the host's episodes that are not ended, and what the brakes count.
func (s *Store) loadStorage(ctx context.Context, tx bun.Tx, u *ha.Unit) error {
	if u.Kind != ha.UnitStorage {
		return nil
	}
	st := &ha.StorageUnit{}
	u.Storage = st
	var episodes []episodeRow
	if err := tx.NewSelect().Model(&episodes).Where("host_uuid = ? AND ended = 0", u.HostUUID).OrderExpr("id").Limit(rules.EpisodesLimit).Scan(ctx); err != nil {
		return err
	}
	var err error
	if st.Health, err = healthOf(ctx, tx, u.HostUUID); err != nil {
		return err
	}
	if len(episodes) == 0 {
		return nil
	}
	uuids := make([]string, len(episodes))
	for i, e := range episodes {
		st.Episodes = append(st.Episodes, e.episode())
		uuids[i] = e.UUID
	}
	var runs []runRow
	if err := tx.NewSelect().Model(&runs).Where("episode_uuid IN (?)", bun.List(uuids)).OrderExpr("id").Scan(ctx); err != nil {
		return err
	}
	for _, r := range runs {
		st.Runs = append(st.Runs, r.run())
	}
	var items []itemRow
	if err := tx.NewSelect().Model(&items).Where("episode_uuid IN (?) AND kind = ?", bun.List(uuids), ha.ObjectInstance).
		OrderExpr("id").Limit(rules.ItemsLimit).Scan(ctx); err != nil {
		return err
	}
	for _, i := range items {
		st.Items = append(st.Items, i.item())
	}
	if st.Action, err = actionOf(ctx, tx, u.SegmentUUID); err != nil {
		return err
	}
	last := st.Episodes[len(st.Episodes)-1]
	if !last.Open() {
		return nil
	}
	if err := s.loadSharers(ctx, tx, u.HostUUID, st); err != nil {
		return err
	}
	return s.loadTally(ctx, tx, last.OpenedAt, st)
}

// sharedQuery finds what other hosts said of the filesystems of a host's failed resources. Index: host_checks_filesystem_idx.
const sharedQuery = `SELECT o.host_uuid, h.name, o.resource, o.status, r.reported_at
FROM host_checks AS c JOIN host_checks AS o ON o.filesystem_id = c.filesystem_id AND o.host_uuid <> c.host_uuid
JOIN hosts AS h ON h.uuid = o.host_uuid AND h.deleted = 0 JOIN host_health AS r ON r.host_uuid = o.host_uuid
WHERE c.host_uuid = ? AND c.filesystem_id <> '' AND c.status NOT IN ('ok', 'full') ORDER BY o.host_uuid, o.resource LIMIT ?`

func (s *Store) loadSharers(ctx context.Context, tx bun.Tx, host string, st *ha.StorageUnit) error {
	var rows []struct {
		HostUUID   string `bun:"host_uuid"`
		Name       string `bun:"name"`
		Resource   string `bun:"resource"`
		Status     string `bun:"status"`
		ReportedAt stamp  `bun:"reported_at"`
	}
	err := tx.NewRaw(sharedQuery, host, rules.SharersLimit).Scan(ctx, &rows)
	for _, r := range rows {
		st.Sharers = append(st.Sharers, ha.Sharer{HostUUID: r.HostUUID, HostName: r.Name, Resource: r.Resource, Status: ha.CheckStatus(r.Status), ReportedAt: r.ReportedAt.Time})
	}
	return err
}

// talliedQuery counts what the second brake counts: which hosts have which resources, and which have an open episode, since when.
const talliedQuery = `SELECT DISTINCT c.host_uuid, c.kinds, e.opened_at FROM host_checks AS c JOIN hosts AS h ON h.uuid = c.host_uuid AND h.deleted = 0
LEFT JOIN episodes AS e ON e.host_uuid = c.host_uuid AND e.cleared = 0 LIMIT ?`

func (s *Store) loadTally(ctx context.Context, tx bun.Tx, at time.Time, st *ha.StorageUnit) error {
	var rows []struct {
		HostUUID string `bun:"host_uuid"`
		Kinds    string `bun:"kinds"`
		OpenedAt stamp  `bun:"opened_at"`
	}
	if err := tx.NewRaw(talliedQuery, mostChecked).Scan(ctx, &rows); err != nil {
		return err
	}
	checks, open := map[string][]ha.Check{}, map[string]time.Time{}
	for _, r := range rows {
		checks[r.HostUUID] = append(checks[r.HostUUID], ha.Check{Kinds: rules.SplitKinds(r.Kinds)})
		if !r.OpenedAt.IsZero() {
			open[r.HostUUID] = r.OpenedAt.Time
		}
	}
	st.Hosts, st.Failing = rules.Tally(checks, open, at)
	return nil
}

// storage applies the changes of a storage unit.
func (c *commit) storage(ctx context.Context, change ha.Change) error {
	switch ch := change.(type) {
	case ha.WhileOpen:
		return c.must(ctx, ha.ErrStale, "UPDATE episodes SET touch = touch + 1 WHERE uuid = ? AND cleared = 0 AND held_by = '' AND version = ?", ch.EpisodeUUID, ch.Version)
	case ha.SetEpisode:
		return c.setEpisode(ctx, ch)
	case ha.PutRun:
		r := rowOfRun(ch.Run, c.now)
		return c.must(ctx, ha.ErrStale, "UPDATE episode_runs SET state = ?, run_cursor = ?, done = ?, skipped = ?, failed = ?, why = ?, updated_at = ? "+
			"WHERE episode_uuid = ? AND version = ? AND kind = ? AND (state <> ? OR ? = ?)", r.State, r.Cursor, r.Done, r.Skipped, r.Failed, r.Why, literal(c.now),
			r.EpisodeUUID, r.Version, r.Kind, ha.RunStopped, r.State, ha.RunStopped)
	case ha.PutItem:
		return c.putItem(ctx, ch.Item)
	case ha.SuspectLocations:
		return c.suspect(ctx, ch)
	case ha.FileDeath:
		return c.fileDeath(ctx, ch)
	default:
		return c.guard(ctx, change)
	}
}

func (c *commit) setEpisode(ctx context.Context, ch ha.SetEpisode) error {
	row, err := one[episodeRow](ctx, c.tx, "uuid = ?", ch.UUID)
	if err != nil {
		return err
	}
	if row == nil {
		return &ha.NotFoundError{Kind: ha.KindEpisode, ID: ch.UUID}
	}
	e := row.episode()
	open := e.Open()
	rules.SetEpisode(&e, ch, c.now)
	// What the api writes is not written here; an operator's word about the brakes that came meanwhile stands.
	query := "UPDATE episodes SET waiting = ?, service = ?, braked = CASE WHEN waived_by = '' THEN ? ELSE braked END"
	args := []any{e.Waiting, e.Service, e.Braked}
	if ch.Ended {
		query, args = query+", ended_at = ?, ended = id", append(args, literal(c.now))
	}
	if open && !e.Open() {
		query, args = query+", cleared_at = ?, cleared_by = ?, cleared = id", append(args, literal(c.now), e.ClearedBy)
	}
	return c.exec(ctx, query+" WHERE uuid = ?", append(args, ch.UUID)...)
}

func (c *commit) putItem(ctx context.Context, i ha.Item) error {
	row := rowOfItem(i, c.now)
	n, err := changed(ctx, c.tx, "UPDATE episode_items SET state = ?, note = ?, changed_at = ? WHERE episode_uuid = ? AND version = ? AND kind = ? AND object_id = ?",
		row.State, row.Note, literal(c.now), row.EpisodeUUID, row.Version, row.Kind, row.ObjectID)
	if err != nil || n > 0 {
		return err
	}
	_, err = c.tx.NewInsert().Model(&row).ExcludeColumn("id").On(c.s.d.keep("episode_uuid, version, kind, object_id")).Returning("NULL").Exec(ctx)
	return err
}

// suspect carries out one batch of a blob run: the copies that turned suspect are items, and the run goes along.
func (c *commit) suspect(ctx context.Context, ch ha.SuspectLocations) error {
	row, err := one[runRow](ctx, c.tx, "episode_uuid = ? AND kind = ? AND state = 'open'", ch.EpisodeUUID, ha.ObjectBlob)
	if err != nil {
		return err
	}
	run := ha.Run{}
	if row != nil {
		run = row.run()
	}
	if row == nil || run.Cursor != rules.Cursor(ch.Cursor) {
		return ha.ErrStale
	}
	turned, err := c.s.suspectLocations(ctx, c.tx, c.now, ch)
	if err != nil {
		return err
	}
	run = rules.AfterBatch(run, turned, ch)
	rows := make([]itemRow, len(turned))
	for i, l := range turned {
		rows[i] = rowOfItem(rules.SuspectItem(run, l), c.now)
	}
	if len(rows) > 0 {
		if _, err := c.tx.NewInsert().Model(&rows).ExcludeColumn("id").On(c.s.d.keep("episode_uuid, version, kind, object_id")).Returning("NULL").Exec(ctx); err != nil {
			return err
		}
	}
	return c.storage(ctx, ha.PutRun{Run: run})
}

// fileDeath files the report of a host that was fenced for its storage. One that is open already is enough: its recovery is under way.
func (c *commit) fileDeath(ctx context.Context, ch ha.FileDeath) error {
	if err := c.exec(ctx, "UPDATE hosts SET touch = touch + 1 WHERE uuid = ?", ch.HostUUID); err != nil {
		return err
	}
	row, err := one[hostRow](ctx, c.tx, "uuid = ? AND deleted = 0", ch.HostUUID)
	if err != nil || row == nil {
		return err
	}
	h := row.host()
	open, err := one[notificationRow](ctx, c.tx, openStatus+" AND unit_key = ?", ha.UnitHost.Key(h.UUID))
	if err != nil {
		return err
	}
	if open == nil {
		n := rules.Admitted(rules.StorageDeath(ch, h, c.now), h, c.now)
		filed := rowOfNotification(n)
		if _, err := c.tx.NewInsert().Model(&filed).ExcludeColumn("id").Returning("NULL").Exec(ctx); err != nil {
			return err
		}
		n = filed.notification()
		c.events = append(c.events, rules.Around(ha.Event{Action: ha.ActionCreate, Notification: &n})...)
	}
	return c.s.signal(ctx, c.tx, ha.UnitHost.Key(h.UUID))
}
