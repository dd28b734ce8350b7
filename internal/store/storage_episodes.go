package store

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

type episodeRow struct {
	bun.BaseModel  `bun:"table:episodes,alias:t"`
	ID             int64  `bun:"id,pk,autoincrement"`
	UUID           string `bun:"uuid"`
	HostUUID       string `bun:"host_uuid"`
	SegmentUUID    string `bun:"segment_uuid"`
	Radius         string `bun:"radius"`
	Version        int    `bun:"version"`
	OpenedAt       stamp  `bun:"opened_at"`
	OpenedBy       string `bun:"opened_by"`
	Why            string `bun:"why"`
	HeldBy         string `bun:"held_by"`
	HeldWhy        string `bun:"held_why"`
	HeldSince      stamp  `bun:"held_since"`
	WaivedBy       string `bun:"waived_by"`
	ClearedAt      stamp  `bun:"cleared_at"`
	ClearedBy      string `bun:"cleared_by"`
	ClearReason    string `bun:"clear_reason"`
	ResetInstances bool   `bun:"reset_instances"`
	Cleared        int64  `bun:"cleared"` // 0 while open, else the row's id: one open episode per host
	Braked         string `bun:"braked"`
	Waiting        string `bun:"waiting"`
	Service        string `bun:"service"`
	EndedAt        stamp  `bun:"ended_at"`
	Ended          int64  `bun:"ended"` // 0 while something is left to do
	Touch          int64  `bun:"touch"`
}

func (r episodeRow) episode() ha.Episode {
	return ha.Episode{
		ID: r.ID, UUID: r.UUID, HostUUID: r.HostUUID, SegmentUUID: r.SegmentUUID, Radius: rules.SplitKinds(r.Radius), Version: r.Version,
		OpenedAt: r.OpenedAt.Time, OpenedBy: r.OpenedBy, Why: r.Why,
		Held: ha.Held{By: r.HeldBy, Why: r.HeldWhy, Since: r.HeldSince.Time}, WaivedBy: r.WaivedBy,
		ClearedAt: r.ClearedAt.ptr(), ClearedBy: r.ClearedBy, ClearReason: r.ClearReason, ResetInstances: r.ResetInstances,
		Braked: r.Braked, Waiting: r.Waiting, Service: ha.ServiceClaim(r.Service), EndedAt: r.EndedAt.ptr(),
	}
}

func rowOfEpisode(e ha.Episode) episodeRow {
	return episodeRow{
		ID: e.ID, UUID: e.UUID, HostUUID: e.HostUUID, SegmentUUID: e.SegmentUUID, Radius: rules.JoinKinds(e.Radius), Version: e.Version,
		OpenedAt: stamp{e.OpenedAt}, OpenedBy: e.OpenedBy, Why: e.Why, HeldBy: e.Held.By, HeldWhy: e.Held.Why, HeldSince: stamp{e.Held.Since},
		WaivedBy: e.WaivedBy, ClearedAt: stampOf(e.ClearedAt), ClearedBy: e.ClearedBy, ClearReason: e.ClearReason, ResetInstances: e.ResetInstances,
		Braked: e.Braked, Waiting: e.Waiting, Service: string(e.Service), EndedAt: stampOf(e.EndedAt),
	}
}

type runRow struct {
	bun.BaseModel `bun:"table:episode_runs,alias:t"`
	ID            int64  `bun:"id,pk,autoincrement"`
	EpisodeUUID   string `bun:"episode_uuid"`
	Version       int    `bun:"version"`
	Kind          string `bun:"kind"`
	State         string `bun:"state"`
	Cursor        string `bun:"run_cursor"`
	Done          int    `bun:"done"`
	Skipped       int    `bun:"skipped"`
	Failed        int    `bun:"failed"`
	Why           string `bun:"why"`
	UpdatedAt     stamp  `bun:"updated_at"`
}

func (r runRow) run() ha.Run {
	return ha.Run{EpisodeUUID: r.EpisodeUUID, Version: r.Version, Kind: ha.ObjectKind(r.Kind), State: ha.RunState(r.State), Cursor: r.Cursor, Done: r.Done,
		Skipped: r.Skipped, Failed: r.Failed, Why: r.Why, UpdatedAt: r.UpdatedAt.Time}
}

func rowOfRun(r ha.Run, now time.Time) runRow {
	return runRow{EpisodeUUID: r.EpisodeUUID, Version: r.Version, Kind: string(r.Kind), State: string(r.State), Cursor: r.Cursor, Done: r.Done,
		Skipped: r.Skipped, Failed: r.Failed, Why: rules.Text(r.Why, rules.MaxText), UpdatedAt: stamp{now}}
}

type itemRow struct {
	bun.BaseModel `bun:"table:episode_items,alias:t"`
	ID            int64  `bun:"id,pk,autoincrement"`
	EpisodeUUID   string `bun:"episode_uuid"`
	Version       int    `bun:"version"`
	Kind          string `bun:"kind"`
	ObjectID      string `bun:"object_id"`
	State         string `bun:"state"`
	Note          string `bun:"note"`
	ChangedAt     stamp  `bun:"changed_at"`
}

func (r itemRow) item() ha.Item {
	return ha.Item{EpisodeUUID: r.EpisodeUUID, Kind: ha.ObjectKind(r.Kind), ID: r.ObjectID, Version: r.Version, State: ha.ItemState(r.State), Text: r.Note,
		At: r.ChangedAt.Time}
}

func rowOfItem(i ha.Item, now time.Time) itemRow {
	return itemRow{EpisodeUUID: i.EpisodeUUID, Version: i.Version, Kind: string(i.Kind), ObjectID: i.ID, State: string(i.State),
		Note: rules.Text(i.Text, rules.MaxText), ChangedAt: stamp{now}}
}

// Episodes lists episodes, the newest first. The marker is the uuid of the last one seen; MarkerError when it names none.
func (s *Store) Episodes(ctx context.Context, f ha.EpisodeFilter, limit int, marker string) ([]ha.Episode, error) {
	var episodes []ha.Episode
	err := s.read(ctx, "listing episodes", func(ctx context.Context, db bun.IDB) error {
		var rows []episodeRow
		q := db.NewSelect().Model(&rows)
		equal(q, "host_uuid", f.HostUUID)
		switch {
		case f.Open == nil:
		case *f.Open:
			q.Where("cleared = 0")
		default:
			q.Where("cleared <> 0")
		}
		if marker != "" {
			m, err := one[episodeRow](ctx, db, "uuid = ?", marker)
			if err != nil {
				return err
			}
			if m == nil {
				return &ha.MarkerError{Marker: marker}
			}
			q.Where("id < ?", m.ID)
		}
		episodes = nil
		if limit <= 0 {
			return nil
		}
		if err := q.OrderExpr("id DESC").Limit(int64(min(limit, rules.EpisodesLimit))).Scan(ctx); err != nil {
			return err
		}
		for _, r := range rows {
			episodes = append(episodes, r.episode())
		}
		return nameHosts(ctx, db, episodes)
	})
	return episodes, err
}

// nameHosts fills in the names of the hosts, deleted ones too.
func nameHosts(ctx context.Context, db bun.IDB, episodes []ha.Episode) error {
	if len(episodes) == 0 {
		return nil
	}
	uuids := make([]string, len(episodes))
	for i, e := range episodes {
		uuids[i] = e.HostUUID
	}
	var rows []hostRow
	if err := db.NewSelect().Model(&rows).Column("uuid", "name").Where("uuid IN (?)", bun.List(uuids)).Scan(ctx); err != nil {
		return err
	}
	names := make(map[string]string, len(rows))
	for _, r := range rows {
		names[r.UUID] = r.Name
	}
	for i := range episodes {
		episodes[i].HostName = names[episodes[i].HostUUID]
	}
	return nil
}

// Episode shows an episode with its runs and items. NotFoundError.
func (s *Store) Episode(ctx context.Context, uuid string) (ha.EpisodeDetails, error) {
	var d ha.EpisodeDetails
	err := s.read(ctx, "reading an episode", func(ctx context.Context, db bun.IDB) error {
		d = ha.EpisodeDetails{}
		row, err := one[episodeRow](ctx, db, "uuid = ?", uuid)
		if err != nil {
			return err
		}
		if row == nil {
			return &ha.NotFoundError{Kind: ha.KindEpisode, ID: uuid}
		}
		named := []ha.Episode{row.episode()}
		if err := nameHosts(ctx, db, named); err != nil {
			return err
		}
		d.Episode = named[0]
		var runs []runRow
		if err := db.NewSelect().Model(&runs).Where("episode_uuid = ?", uuid).OrderExpr("version, kind").Scan(ctx); err != nil {
			return err
		}
		for _, r := range runs {
			d.Runs = append(d.Runs, r.run())
		}
		var items []itemRow
		err = db.NewSelect().Model(&items).Where("episode_uuid = ?", uuid).
			OrderExpr("version DESC, kind DESC, object_id").Limit(ha.ItemsShown).Scan(ctx)
		for _, i := range items {
			d.Items = append(d.Items, i.item())
		}
		return err
	})
	return d, err
}

// HoldStorage holds an episode's cascade or a host's cascades, or lets them go on, and tells the owner. NotFoundError of either,
// ConflictError when it does not fit.
func (s *Store) HoldStorage(ctx context.Context, h ha.Hold) error {
	return s.write(ctx, "holding a cascade", func(ctx context.Context, tx bun.Tx) error {
		host := h.HostUUID
		if h.EpisodeUUID != "" {
			row, err := one[episodeRow](ctx, tx, "uuid = ?", h.EpisodeUUID)
			if err != nil {
				return err
			}
			if row == nil {
				return &ha.NotFoundError{Kind: ha.KindEpisode, ID: h.EpisodeUUID}
			}
			host = row.HostUUID
		}
		st, err := s.storageOf(ctx, tx, host)
		if err != nil {
			return err
		}
		if h.EpisodeUUID == "" {
			st.health.Held = rules.HostHold(st.health.Held, h, st.now)
			if err := s.putHealth(ctx, tx, st.health); err != nil || st.open == nil {
				return err
			}
		} else if st.open == nil || st.open.UUID != h.EpisodeUUID { // cleared, and another may be open
			row, err := one[episodeRow](ctx, tx, "uuid = ?", h.EpisodeUUID)
			if err != nil {
				return err
			}
			return rules.HoldRefused(row.episode(), h)
		}
		if err := rules.HoldRefused(*st.open, h); err != nil {
			if h.EpisodeUUID == "" {
				return nil // the host's switch is what was asked for
			}
			return err
		}
		rules.ApplyHold(st.open, h, st.now)
		row := rowOfEpisode(*st.open)
		if _, err := changed(ctx, tx, "UPDATE episodes SET held_by = ?, held_why = ?, held_since = ?, waived_by = ?, braked = ?, touch = touch + 1 WHERE uuid = ?",
			row.HeldBy, row.HeldWhy, literal(st.open.Held.Since), row.WaivedBy, row.Braked, row.UUID); err != nil {
			return err
		}
		return s.wakeStorage(ctx, tx, st.host)
	}, nil)
}

// ClearStorage clears the host's open episode: its runs stop, and its unit takes back what it claimed. NotFoundError of the host,
// ConflictError when there is no open episode, or the agent still reports failure and nobody forces it.
func (s *Store) ClearStorage(ctx context.Context, c ha.Clear) (ha.Episode, error) {
	var cleared ha.Episode
	err := s.write(ctx, "clearing an episode", func(ctx context.Context, tx bun.Tx) error {
		st, err := s.storageOf(ctx, tx, c.HostUUID)
		if err != nil {
			return err
		}
		if err := rules.ClearRefused(st.health, st.open, c, st.host.Name); err != nil {
			return err
		}
		e := *st.open
		e.ClearedAt, e.ClearedBy, e.ClearReason, e.ResetInstances = &st.now, rules.Name(c.By), rules.Text(c.Reason, rules.MaxText), c.ResetInstances
		if _, err := changed(ctx, tx, "UPDATE episodes SET cleared_at = ?, cleared_by = ?, clear_reason = ?, reset_instances = ?, cleared = id, waiting = '', "+
			"touch = touch + 1 WHERE uuid = ? AND cleared = 0", literal(st.now), e.ClearedBy, e.ClearReason, e.ResetInstances, e.UUID); err != nil {
			return err
		}
		if _, err := changed(ctx, tx, "UPDATE episode_runs SET state = ?, updated_at = ? WHERE episode_uuid = ? AND state IN ('open', 'held')",
			ha.RunStopped, literal(st.now), e.UUID); err != nil {
			return err
		}
		st.health.State = rules.StateOf(st.health, false)
		if err := s.putHealth(ctx, tx, st.health); err != nil {
			return err
		}
		e.HostName = st.host.Name
		cleared = e
		return s.wakeStorage(ctx, tx, st.host)
	}, nil)
	return cleared, err
}

// Agent returns who may speak for a host; its zero value when nobody may yet.
func (s *Store) Agent(ctx context.Context, host string) (a ha.Agent, err error) {
	err = s.read(ctx, "reading an agent", func(ctx context.Context, db bun.IDB) error {
		row, err := one[agentRow](ctx, db, "host_uuid = ?", host)
		if err == nil && row != nil {
			a = row.agent()
		}
		return err
	})
	return a, err
}

// SetAgentKey keeps the hash of a host's key; the former key is void at once. Its agent's epochs begin anew: one that has counted from a clock
// that was ahead would else be refused until that time comes. ticketKey is for a host that has none. NotFoundError.
func (s *Store) SetAgentKey(ctx context.Context, host, hash, by string, ticketKey []byte) error {
	return s.setAgent(ctx, host, ticketKey, func(tx bun.Tx, now time.Time) (int64, error) {
		if _, err := changed(ctx, tx, "UPDATE host_health SET epoch = 0, seq = 0 WHERE host_uuid = ?", host); err != nil {
			return 0, err
		}
		return changed(ctx, tx, "UPDATE agents SET key_hash = ?, key_by = ?, key_at = ? WHERE host_uuid = ?", hash, rules.Name(by), literal(now), host)
	})
}

// SetAgentUser binds a Keystone user to a host, "" to unbind. NotFoundError.
func (s *Store) SetAgentUser(ctx context.Context, host, user, by string, ticketKey []byte) error {
	return s.setAgent(ctx, host, ticketKey, func(tx bun.Tx, _ time.Time) (int64, error) {
		return changed(ctx, tx, "UPDATE agents SET user_id = ?, user_by = ? WHERE host_uuid = ?", rules.Name(user), rules.Name(by), host)
	})
}

func (s *Store) setAgent(ctx context.Context, host string, ticketKey []byte, set func(bun.Tx, time.Time) (int64, error)) error {
	return s.write(ctx, "binding an agent", func(ctx context.Context, tx bun.Tx) error {
		st, err := s.storageOf(ctx, tx, host)
		if err != nil {
			return err
		}
		if _, err := s.agentOf(ctx, tx, host, ticketKey); err != nil {
			return err
		}
		_, err = set(tx, st.now)
		return err
	}, nil)
}

// SetStorageAction has a segment's instances treated otherwise than the option storage_failure_action says; "" as it says. NotFoundError.
func (s *Store) SetStorageAction(ctx context.Context, segment, action string) error {
	return s.write(ctx, "setting a segment's storage_failure_action", func(ctx context.Context, tx bun.Tx) error {
		n, err := changed(ctx, tx, "UPDATE failover_segments SET touch = touch + 1 WHERE uuid = ? AND deleted = 0", segment)
		if err != nil {
			return err
		}
		if n == 0 {
			return &ha.NotFoundError{Kind: ha.KindSegment, ID: segment}
		}
		if _, err := changed(ctx, tx, "DELETE FROM storage_actions WHERE segment_uuid = ?", segment); err != nil || action == "" {
			return err
		}
		_, err = changed(ctx, tx, "INSERT INTO storage_actions (segment_uuid, failure_action) VALUES (?, ?)", segment, action)
		return err
	}, nil)
}

// StorageAction returns a segment's own storage_failure_action, "" when the option decides.
func (s *Store) StorageAction(ctx context.Context, segment string) (action string, err error) {
	err = s.read(ctx, "reading a segment's storage_failure_action", func(ctx context.Context, db bun.IDB) error {
		action, err = actionOf(ctx, db, segment)
		return err
	})
	return action, err
}

// storageActionsQuery finds the segments that there are with an action of their own.
const storageActionsQuery = "SELECT a.segment_uuid AS segment_uuid, a.failure_action AS action FROM storage_actions AS a " +
	"JOIN failover_segments AS s ON s.uuid = a.segment_uuid AND s.deleted = 0 WHERE a.segment_uuid > ? ORDER BY a.segment_uuid LIMIT ?"

// StorageActions returns the segments with a storage_failure_action of their own, at most limit, by uuid and behind the one that is named.
func (s *Store) StorageActions(ctx context.Context, after string, limit int) ([]ha.StorageAction, error) {
	var rows []struct {
		SegmentUUID string `bun:"segment_uuid"`
		Action      string `bun:"action"`
	}
	err := s.read(ctx, "listing the segments' storage_failure_action", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewRaw(storageActionsQuery, after, limit).Scan(ctx, &rows)
	})
	found := make([]ha.StorageAction, len(rows))
	for i, r := range rows {
		found[i] = ha.StorageAction{SegmentUUID: r.SegmentUUID, Action: r.Action}
	}
	return found, err
}

func actionOf(ctx context.Context, db bun.IDB, segment string) (string, error) {
	var actions []string
	err := db.NewRaw("SELECT failure_action FROM storage_actions WHERE segment_uuid = ?", segment).Scan(ctx, &actions)
	if err != nil || len(actions) == 0 {
		return "", err
	}
	return actions[0], nil
}

// HostByUUID returns the live host of that uuid, whatever its segment. NotFoundError.
func (s *Store) HostByUUID(ctx context.Context, uuid string) (ha.Host, error) {
	return s.findHost(ctx, &ha.NotFoundError{Kind: ha.KindHost, ID: uuid}, "uuid = ? AND deleted = 0", uuid)
}

// StorageCounts are for metrics.
func (s *Store) StorageCounts(ctx context.Context) (ha.StorageCounts, error) {
	var c ha.StorageCounts
	err := s.read(ctx, "counting storage", func(ctx context.Context, db bun.IDB) error {
		c = ha.StorageCounts{Hosts: map[ha.HealthState]int{}}
		now, err := s.clock(ctx, db)
		if err != nil {
			return err
		}
		since := literal(now.Add(-ha.AgentSilence))
		var states []struct {
			State string `bun:"state"`
			Old   int    `bun:"old"`
			N     int    `bun:"n"`
		}
		if err := db.NewRaw("SELECT r.state, CASE WHEN r.reported_at < ? THEN 1 ELSE 0 END AS old, COUNT(*) AS n FROM host_health AS r "+
			"JOIN hosts AS h ON h.uuid = r.host_uuid AND h.deleted = 0 WHERE r.reported_at IS NOT NULL GROUP BY 1, 2", since).Scan(ctx, &states); err != nil {
			return err
		}
		for _, st := range states {
			state := ha.HealthState(st.State)
			if st.Old == 1 && state == ha.HealthOK {
				state = ha.HealthMissing
			}
			c.Hosts[state] += st.N
		}
		var n struct {
			Open   int `bun:"n"`
			Held   int `bun:"held"`
			Braked int `bun:"braked"`
		}
		err = db.NewRaw("SELECT COUNT(*) AS n, COALESCE(SUM(CASE WHEN held_by <> '' THEN 1 ELSE 0 END), 0) AS held, "+
			"COALESCE(SUM(CASE WHEN braked <> '' THEN 1 ELSE 0 END), 0) AS braked FROM episodes WHERE cleared = 0").Scan(ctx, &n)
		c.Open, c.Held, c.Braked = n.Open, n.Held, n.Braked
		return err
	})
	return c, err
}
