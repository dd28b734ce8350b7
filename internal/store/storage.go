package store

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

type healthRow struct {
	bun.BaseModel `bun:"table:host_health,alias:t"`
	HostUUID      string `bun:"host_uuid,pk"`
	State         string `bun:"state"`
	Epoch         int64  `bun:"epoch"`
	Seq           int64  `bun:"seq"`
	ReportedAt    stamp  `bun:"reported_at"`
	AgentURL      string `bun:"agent_url"`
	TotalBytes    int64  `bun:"total_bytes"`
	FreeBytes     int64  `bun:"free_bytes"`
	HeldBy        string `bun:"held_by"`
	HeldWhy       string `bun:"held_why"`
	HeldSince     stamp  `bun:"held_since"`
}

var healthColumns = []string{"state", "epoch", "seq", "reported_at", "agent_url", "total_bytes", "free_bytes", "held_by", "held_why", "held_since"}

func (r healthRow) health() ha.HostHealth {
	return ha.HostHealth{
		HostUUID: r.HostUUID, State: ha.HealthState(r.State), Epoch: r.Epoch, Seq: r.Seq, ReportedAt: r.ReportedAt.Time, AgentURL: r.AgentURL,
		TotalBytes: r.TotalBytes, FreeBytes: r.FreeBytes, Held: ha.Held{By: r.HeldBy, Why: r.HeldWhy, Since: r.HeldSince.Time},
	}
}

func rowOfHealth(h ha.HostHealth) healthRow {
	return healthRow{
		HostUUID: h.HostUUID, State: string(h.State), Epoch: h.Epoch, Seq: h.Seq, ReportedAt: stamp{h.ReportedAt}, AgentURL: h.AgentURL,
		TotalBytes: h.TotalBytes, FreeBytes: h.FreeBytes, HeldBy: h.Held.By, HeldWhy: h.Held.Why, HeldSince: stamp{h.Held.Since},
	}
}

type checkRow struct {
	bun.BaseModel `bun:"table:host_checks,alias:t"`
	ID            int64  `bun:"id,pk,autoincrement"`
	HostUUID      string `bun:"host_uuid"`
	Resource      string `bun:"resource"`
	Path          string `bun:"path"`
	Kinds         string `bun:"kinds"`
	Status        string `bun:"status"`
	Detail        string `bun:"detail"`
	FilesystemID  string `bun:"filesystem_id"`
	CheckedAt     stamp  `bun:"checked_at"`
}

func (r checkRow) check() ha.Check {
	return ha.Check{Resource: r.Resource, Path: r.Path, Kinds: rules.SplitKinds(r.Kinds), Status: ha.CheckStatus(r.Status), Detail: r.Detail,
		FilesystemID: r.FilesystemID, CheckedAt: r.CheckedAt.Time}
}

type agentRow struct {
	bun.BaseModel `bun:"table:agents,alias:t"`
	HostUUID      string `bun:"host_uuid,pk"`
	KeyHash       string `bun:"key_hash"`
	KeyBy         string `bun:"key_by"`
	KeyAt         stamp  `bun:"key_at"`
	UserID        string `bun:"user_id"`
	UserBy        string `bun:"user_by"`
	TicketKey     string `bun:"ticket_key"`
}

func (r agentRow) agent() ha.Agent {
	return ha.Agent{HostUUID: r.HostUUID, KeyHash: r.KeyHash, KeyBy: r.KeyBy, KeyAt: r.KeyAt.Time, UserID: r.UserID, UserBy: r.UserBy}
}

// ReportStorage decides about an agent's report and stores it, in one transaction whose first statement touches the host's row: whoever
// decides about the same host waits, or on another Galera node is refused and decides again. A failure is an episode, its runs, the unit
// that carries the cascade out and an entry of its journal, or none of them. NotFoundError of the host, StaleEpochError.
func (s *Store) ReportStorage(ctx context.Context, r ha.AgentReport) (ha.Accepted, error) {
	var accepted ha.Accepted
	err := s.write(ctx, "storing an agent's report", func(ctx context.Context, tx bun.Tx) error {
		accepted = ha.Accepted{}
		st, err := s.storageOf(ctx, tx, r.HostUUID)
		if err != nil {
			return err
		}
		agent, err := s.agentOf(ctx, tx, r.HostUUID, r.TicketKey)
		if err != nil {
			return err
		}
		done, err := rules.Report(st.health, st.open, r, st.host, st.now)
		if err != nil {
			return err
		}
		accepted.Health, accepted.Ignored = done.Health, done.Ignored
		if accepted.TicketKey, err = hex.DecodeString(agent.TicketKey); err != nil || done.Ignored {
			return err
		}
		if err := s.putHealth(ctx, tx, done.Health); err != nil {
			return err
		}
		if err := s.putChecks(ctx, tx, done.Health); err != nil {
			return err
		}
		if done.Episode != nil {
			accepted.Opened = done.Episode.UUID
		}
		if err := s.putReported(ctx, tx, st, done); err != nil {
			return err
		}
		return s.reportBlobs(ctx, tx, st.now, r)
	}, nil)
	return accepted, err
}

// FailStorage is an operator's word that a host's storage is broken. NotFoundError of the host.
func (s *Store) FailStorage(ctx context.Context, f ha.Fail) (ha.Episode, error) {
	var e ha.Episode
	err := s.write(ctx, "opening an episode", func(ctx context.Context, tx bun.Tx) error {
		st, err := s.storageOf(ctx, tx, f.HostUUID)
		if err != nil {
			return err
		}
		done := rules.Fail(st.health, st.open, f, st.host, st.now)
		if err := s.putHealth(ctx, tx, done.Health); err != nil {
			return err
		}
		switch {
		case done.Episode != nil:
			e = *done.Episode
		case st.open != nil:
			e = *st.open
		}
		e.HostName = st.host.Name
		return s.putReported(ctx, tx, st, done)
	}, nil)
	return e, err
}

// storageState is what a decision about a host's storage rests on, read behind the host's touched row.
type storageState struct {
	host   ha.Host
	health ha.HostHealth
	open   *ha.Episode
	now    time.Time
}

func (s *Store) storageOf(ctx context.Context, tx bun.Tx, host string) (storageState, error) {
	var st storageState
	missing := &ha.NotFoundError{Kind: ha.KindHost, ID: host}
	n, err := changed(ctx, tx, "UPDATE hosts SET touch = touch + 1 WHERE uuid = ? AND deleted = 0", host)
	if err != nil {
		return st, err
	}
	if n == 0 {
		return st, missing
	}
	row, err := one[hostRow](ctx, tx, "uuid = ? AND deleted = 0", host)
	if err != nil {
		return st, err
	}
	if row == nil {
		return st, missing
	}
	st.host = row.host()
	if st.now, err = s.clock(ctx, tx); err != nil {
		return st, err
	}
	if st.health, err = healthOf(ctx, tx, host); err != nil {
		return st, err
	}
	open, err := one[episodeRow](ctx, tx, "host_uuid = ? AND cleared = 0", host)
	if err == nil && open != nil {
		e := open.episode()
		st.open = &e
	}
	return st, err
}

// healthOf reads a host's health with its checks, as stored; its zero value when no agent has reported.
func healthOf(ctx context.Context, db bun.IDB, host string) (ha.HostHealth, error) {
	h := ha.HostHealth{HostUUID: host, State: ha.HealthUnknown}
	row, err := one[healthRow](ctx, db, "host_uuid = ?", host)
	if err != nil {
		return h, err
	}
	if row != nil {
		h = row.health()
	}
	var checks []checkRow
	err = db.NewSelect().Model(&checks).Where("host_uuid = ?", host).OrderExpr("resource").Scan(ctx)
	for _, c := range checks {
		h.Checks = append(h.Checks, c.check())
	}
	return h, err
}

// agentOf reads who may speak for a host, and gives it the key for tickets if it has none.
func (s *Store) agentOf(ctx context.Context, tx bun.Tx, host string, key []byte) (*agentRow, error) {
	row, err := one[agentRow](ctx, tx, "host_uuid = ?", host)
	switch {
	case err != nil || row != nil && row.TicketKey != "":
		return row, err
	case row == nil:
		row = &agentRow{HostUUID: host, TicketKey: hex.EncodeToString(key)}
		_, err = tx.NewInsert().Model(row).Returning("NULL").Exec(ctx)
	default:
		row.TicketKey = hex.EncodeToString(key)
		_, err = changed(ctx, tx, "UPDATE agents SET ticket_key = ? WHERE host_uuid = ?", row.TicketKey, host)
	}
	return row, err
}

func (s *Store) putHealth(ctx context.Context, tx bun.Tx, h ha.HostHealth) error {
	row := rowOfHealth(h)
	n, err := tx.NewUpdate().Model(&row).Column(healthColumns...).WherePK().Exec(ctx)
	if err != nil {
		return err
	}
	if found, err := n.RowsAffected(); err != nil || found > 0 {
		return err
	}
	_, err = tx.NewInsert().Model(&row).Returning("NULL").Exec(ctx)
	return err
}

// putChecks replaces the checks: each report has all resources of the agent.
func (s *Store) putChecks(ctx context.Context, tx bun.Tx, h ha.HostHealth) error {
	if _, err := changed(ctx, tx, "DELETE FROM host_checks WHERE host_uuid = ?", h.HostUUID); err != nil || len(h.Checks) == 0 {
		return err
	}
	rows := make([]checkRow, len(h.Checks))
	for i, c := range h.Checks {
		rows[i] = checkRow{HostUUID: h.HostUUID, Resource: c.Resource, Path: c.Path, Kinds: rules.JoinKinds(c.Kinds), Status: string(c.Status),
			Detail: c.Detail, FilesystemID: c.FilesystemID, CheckedAt: stamp{c.CheckedAt}}
	}
	_, err := tx.NewInsert().Model(&rows).ExcludeColumn("id").Returning("NULL").Exec(ctx)
	return err
}

// putReported writes the episode and its new runs, and has its unit look.
func (s *Store) putReported(ctx context.Context, tx bun.Tx, st storageState, done rules.Reported) error {
	key := ha.UnitStorage.Key(st.host.UUID)
	if done.Episode == nil {
		return s.wakeSharers(ctx, tx, st.host.UUID)
	}
	row := rowOfEpisode(*done.Episode)
	var err error
	if st.open == nil {
		_, err = tx.NewInsert().Model(&row).ExcludeColumn("id").Returning("NULL").Exec(ctx)
	} else {
		_, err = changed(ctx, tx, "UPDATE episodes SET radius = ?, version = ?, touch = touch + 1 WHERE uuid = ?", row.Radius, row.Version, row.UUID)
	}
	if err != nil {
		return err
	}
	if len(done.Runs) > 0 {
		runs := make([]runRow, len(done.Runs))
		for i, r := range done.Runs {
			runs[i] = rowOfRun(r, st.now)
		}
		if _, err := tx.NewInsert().Model(&runs).ExcludeColumn("id").Returning("NULL").Exec(ctx); err != nil {
			return err
		}
	}
	if err := s.wakeStorage(ctx, tx, st.host); err != nil {
		return err
	}
	unit, err := one[workRow](ctx, tx, "unit_key = ? AND ended = 0", key)
	if err != nil || unit == nil {
		return err
	}
	e := *done.Episode
	if err := s.append(ctx, tx, []ha.Entry{rules.EpisodeEntry(e, st.open == nil, unit.ID, st.now)}); err != nil {
		return err
	}
	return s.wakeSharers(ctx, tx, st.host.UUID)
}

// wakeStorage has a host's storage looked at: by the unit that there is, or by a new one.
func (s *Store) wakeStorage(ctx context.Context, tx bun.Tx, h ha.Host) error {
	key := ha.UnitStorage.Key(h.UUID)
	if err := s.startUnit(ctx, tx, ha.Work{Kind: ha.UnitStorage, Key: key, HostUUID: h.UUID, SegmentUUID: h.SegmentUUID}); err != nil {
		return err
	}
	return s.signal(ctx, tx, key)
}

// sharersQuery finds the storage units of hosts with an open episode whose failed resources this host has reported the filesystem of: the
// brake waits for its report.
const sharersQuery = `SELECT DISTINCT e.host_uuid FROM host_checks AS c JOIN host_checks AS o ON o.filesystem_id = c.filesystem_id
JOIN episodes AS e ON e.host_uuid = o.host_uuid AND e.cleared = 0
WHERE c.host_uuid = ? AND c.filesystem_id <> '' AND o.host_uuid <> c.host_uuid LIMIT ?`

func (s *Store) wakeSharers(ctx context.Context, tx bun.Tx, host string) error {
	var hosts []string
	if err := tx.NewRaw(sharersQuery, host, rules.SharersLimit).Scan(ctx, &hosts); err != nil || len(hosts) == 0 {
		return err
	}
	keys := make([]string, len(hosts))
	for i, h := range hosts {
		keys[i] = ha.UnitStorage.Key(h)
	}
	return s.signal(ctx, tx, keys...)
}

// StorageHealth shows what is known of a host's storage, and its open episode. Its zero value when no agent has reported.
func (s *Store) StorageHealth(ctx context.Context, host string) (h ha.HostHealth, open *ha.Episode, err error) {
	err = s.read(ctx, "reading a host's storage health", func(ctx context.Context, db bun.IDB) error {
		if h, err = healthOf(ctx, db, host); err != nil {
			return err
		}
		now, err := s.clock(ctx, db)
		if err != nil {
			return err
		}
		h = rules.Aged(h, now)
		row, err := one[episodeRow](ctx, db, "host_uuid = ? AND cleared = 0", host)
		open = nil
		if err == nil && row != nil {
			e := row.episode()
			open = &e
		}
		return err
	})
	return h, open, err
}
