package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
)

// tables is a database whose statements are heard and explained.
type tables struct {
	*testing.T
	*store.Store
	kind string // sqlite, mysql, postgresql
	spy  *spy
	pool *sql.DB
}

// onTables runs a test on an empty database of each kind.
func onTables(t *testing.T, run func(d *tables)) {
	servers(t, func(t *testing.T, url string, open func(*testing.T, store.Config) *store.Store) {
		d := &tables{T: t, spy: &spy{}}
		d.Store = open(t, store.Config{URL: url, Wrap: d.spy.wrap})
		if err := d.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.pool = d.spy.pool()
		defer d.pool.Close()
		d.kind, _, _ = strings.Cut(url, ":")
		d.kind, _, _ = strings.Cut(d.kind, "+")
		run(d)
	})
}

// rowID is the uuid of a row of a kind.
func rowID(kind byte, n int) string { return fmt.Sprintf("%c0000000-0000-4000-8000-%012d", kind, n) }

// fill writes n rows.
func (d *tables) fill(table, columns string, n int, row func(i int) string) {
	d.Helper()
	for from := 0; from < n; from += 1000 {
		var values []string
		for i := from; i < min(n, from+1000); i++ {
			values = append(values, "("+row(i)+")")
		}
		if _, err := d.pool.Exec("INSERT INTO " + table + " (" + columns + ") VALUES " + strings.Join(values, ", ")); err != nil {
			d.Fatal(err)
		}
	}
}

// boolean is how a dialect writes one.
func (d *tables) boolean(b bool) string {
	switch {
	case d.kind == "postgresql":
		return strings.ToUpper(fmt.Sprint(b))
	case b:
		return "1"
	default:
		return "0"
	}
}

func sqlTime(t time.Time) string { return t.UTC().Format("'2006-01-02 15:04:05.000000'") }

// heard is a statement and how the database carries it out.
type heard struct{ query, plan string }

// explained runs something and explains each of its statements that goes by a condition. None may read a table whole, but for those that
// whole names by their aliases and names: they have a row or a few per host.
func (d *tables) explained(name string, run func() error, whole ...string) (all []heard, statements int) {
	d.Helper()
	queries := d.spy.record(func() {
		if err := run(); err != nil {
			d.Fatalf("%s: %v", name, err)
		}
	})
	for _, query := range apart(d.T, d.kind, queries) {
		if !explainable(query) {
			continue
		}
		plan := explain(d.T, d.kind, d.pool, query)
		for _, scan := range scans(d.kind, plan) {
			if !slices.ContainsFunc(whole, func(w string) bool { return strings.Contains(scan+" ", w+" ") }) {
				d.Errorf("%s reads a whole table (%s):\n%.900s\n%s", name, scan, query, plan)
			}
		}
		all = append(all, heard{query, plan})
	}
	return all, len(queries)
}

// uses checks that one of the statements goes by each of the indexes; of "a|b" either will do.
func (d *tables) uses(name string, all []heard, indexes ...string) {
	d.Helper()
	for _, index := range indexes {
		if !slices.ContainsFunc(all, func(h heard) bool {
			return slices.ContainsFunc(strings.Split(index, "|"), func(i string) bool { return strings.Contains(h.plan, i) })
		}) {
			d.Errorf("%s does not use %s", name, index)
		}
	}
}

// TestQueryPlans: on tables of some thousand rows, every hot statement goes by an index on every database.
func TestQueryPlans(t *testing.T) {
	onTables(t, func(d *tables) {
		for _, hot := range hotPaths(d.Context(), d.Store, d.seed()) {
			all, _ := d.explained(hot.name, hot.run)
			for _, h := range all {
				if strings.HasSuffix(hot.name, "by marker") && strings.Contains(h.query, "ORDER BY") && d.kind == "mysql" && !strings.Contains(h.plan, "type=range") {
					d.Errorf("%s reads an index from its beginning:\n%s\n%s", hot.name, h.query, h.plan)
				}
			}
			d.uses(hot.name, all, hot.indexes...)
		}
	})
}

// TestStoragePlans: what a turn of a storage unit, an agent's report, the look for silent agents and the metrics read of thousands of hosts goes by indexes. The checks and
// the health, a few rows per host, are read whole where all hosts are counted; past episodes never are.
func TestStoragePlans(t *testing.T) {
	onTables(t, func(d *tables) {
		const segments, hosts, episodes = 50, 3000, 12000
		at := sqlTime(time.Now().Add(-time.Hour))
		d.fill("failover_segments", "created_at, uuid, name, name_key, service_type, recovery_method, enabled", segments, func(i int) string {
			return fmt.Sprintf("%s, '%s', 's%d', 'S%[3]d', 'C', 'auto', %[4]s", at, rowID('a', i), i, d.boolean(true))
		})
		d.fill("hosts", "created_at, uuid, name, name_key, reserved, type, control_attributes, failover_segment_id, on_maintenance", hosts, func(i int) string {
			return fmt.Sprintf("%s, '%s', 'h%d', 'H%[3]d', %[4]s, 'C', 'x', '%[5]s', %[4]s", at, rowID('b', i), i, d.boolean(false), rowID('a', i%segments))
		})
		d.fill("host_health", "host_uuid, state, epoch, seq, reported_at, agent_url, total_bytes, free_bytes, held_by, held_why", hosts, func(i int) string {
			return fmt.Sprintf("'%s', 'ok', 1, 1, %s, '', 0, 0, '', ''", rowID('b', i), at)
		})
		d.fill("host_checks", "host_uuid, resource, path, kinds, status, detail, filesystem_id, checked_at", 2*hosts, func(i int) string {
			return fmt.Sprintf("'%s', 'r%d', '/', 'instance', 'ok', '', 'f%d', %s", rowID('b', i/2), i%2, i/4, at)
		})
		d.fill("episodes", "uuid, host_uuid, segment_uuid, radius, version, opened_at, opened_by, why, held_by, held_why, waived_by, cleared_at, cleared_by, clear_reason, "+
			"reset_instances, cleared, braked, waiting, service, ended_at, ended, touch", episodes, func(i int) string {
			return fmt.Sprintf("'%s', '%s', '%s', 'instance', 1, %s, 'agent', '', '', '', '', %[4]s, 'op', '', %[5]s, %[6]d, '', '', '', %[4]s, %[6]d, 0",
				rowID('c', i), rowID('b', i%hosts), rowID('a', 0), at, d.boolean(false), i+1)
		})
		d.fill("claims", "host_uuid, what, reason, detail, work_id, since", hosts, func(i int) string {
			return fmt.Sprintf("'%s', 'disabled', 'recovery', 'x', %d, %s", rowID('b', i), i+1, at)
		})
		const silent = 3
		d.fill("agent_silences", "host_uuid, told_of", hosts-silent, func(i int) string { return fmt.Sprintf("'%s', %s", rowID('b', silent+i), at) })
		analyze(t, d.kind, d.pool, "claims", "host_health", "host_checks", "episodes", "hosts", "agent_silences")
		report := func(status ha.CheckStatus, seq int64) func() error {
			return func() error {
				_, err := d.ReportStorage(d.Context(), ha.AgentReport{HostUUID: rowID('b', 7), EpisodeUUID: uuid.NewString(), TicketKey: []byte("k"), Epoch: 1, Seq: seq,
					Checks: []ha.Check{{Resource: "r0", Path: "/", Kinds: []ha.ObjectKind{ha.ObjectInstance}, Status: status, FilesystemID: "f3", CheckedAt: time.Now()}}})
				return err
			}
		}
		all, _ := d.explained("a report", report(ha.CheckOK, 2))
		d.uses("a report", all, "host_checks_filesystem_idx")
		if err := report(ha.CheckIOError, 3)(); err != nil {
			t.Fatal(err)
		}
		poll, err := d.Poll(d.Context(), "me")
		if err != nil || len(poll.Units) != 1 {
			t.Fatalf("%v: %+v", err, poll)
		}
		seen := poll.Units[0]
		lease, _, err := d.Claim(d.Context(), ha.ClaimRequest{Owner: "me", TTL: time.Minute, WorkID: seen.WorkID, Epoch: seen.Epoch, Beat: seen.Beat})
		if err != nil {
			t.Fatal(err)
		}
		var u ha.Unit
		all, _ = d.explained("a turn", func() (err error) {
			u, err = d.Load(d.Context(), &lease)
			return err
		}, "SCAN c", "table=c", "Seq Scan on host_checks c", "SCAN h", "table=h", "Seq Scan on hosts h")
		d.uses("a turn", all, "host_checks_filesystem_idx", "uniq_episodes0host_uuid0cleared|episodes_open_idx")
		if st := u.Storage; st == nil || len(st.Sharers) != 2 || st.Hosts[ha.ObjectInstance] != hosts || st.Failing[ha.ObjectInstance] != 1 {
			t.Errorf("the turn sees %+v", st)
		}
		var fallen []string
		all, _ = d.explained("looking for silent agents", func() (err error) {
			fallen, err = d.FallenSilent(d.Context())
			return err
		}, "SCAN r", "table=r", "Seq Scan on host_health r", "table=h") // MariaDB may begin with either
		d.uses("looking for silent agents", all, "sqlite_autoindex_agent_silences_1|table=s type=eq_ref|agent_silences_pkey")
		if len(fallen) != silent {
			t.Errorf("%q have fallen silent, not %d agents", fallen, silent)
		}
		var c ha.StorageCounts
		d.explained("the metrics", func() (err error) {
			c, err = d.StorageCounts(d.Context())
			return err
		}, "SCAN r", "table=r", "Seq Scan on host_health r", "SCAN h", "table=h", "Seq Scan on hosts h")
		if c.Open != 1 || c.Hosts[ha.HealthMissing] != hosts-1 {
			t.Errorf("the metrics are %d open, %v", c.Open, c.Hosts)
		}
	})
}

// hotPath is what runs often, and the indexes that it must use.
type hotPath struct {
	name    string
	indexes []string
	run     func() error
}

func hotPaths(ctx context.Context, s *store.Store, d seeded) []hotPath {
	newest := []ha.Sort{{Field: ha.FieldCreatedAt, Desc: true}, {Field: ha.FieldID, Desc: true}}
	first := ha.Page{Limit: 100, Sort: newest}
	next := ha.Page{Limit: 100, Sort: newest, Marker: "5000"}
	sorted := func(by ha.Field, p ha.Page) ha.Page {
		p.Sort = append([]ha.Sort{{Field: by, Desc: true}}, newest...)
		return p
	}
	list := func(f ha.NotificationFilter, p ha.Page) func() error {
		return func() error { _, err := s.Notifications(ctx, f, p); return err }
	}
	status, typ, kind, lately := "finished", "VM", "COMPUTE_HOST", time.Date(2026, 1, 9, 0, 0, 0, 0, time.UTC)
	var lease ha.Lease
	return []hotPath{
		{"looking for work", []string{"notifications_status_idx", "work_look_idx"}, func() error { _, err := s.Poll(ctx, "me"); return err }},
		{"claiming and loading", []string{
			"notifications_unit_idx|notifications_twin_idx|notifications_pkey", "hosts_list_idx", "uniq_claims0what", "claims_work_idx", "journal_open_idx", "vmoves_list_idx", "work_rate_idx", "work_host_idx",
		}, func() (err error) {
			lease, _, err = s.Claim(ctx, ha.ClaimRequest{Owner: "me", TTL: time.Second, Fresh: d.fresh})
			return err
		}},
		{"claiming an instance's unit", []string{"uniq_work0unit_key0ended"}, func() error {
			n, err := s.Admit(ctx, ha.Report{
				UUID: uuid.NewString(), Type: ha.TypeVM, Hostname: d.host, GeneratedTime: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC),
				Payload: ha.Payload{ha.KeyEvent: "LIFECYCLE", ha.KeyInstanceUUID: uuid.NewString(), ha.KeyVirDomainEvent: "STOPPED_FAILED"},
			}, 3*time.Minute)
			if err == nil {
				_, key := n.UnitKey()
				_, _, err = s.Claim(ctx, ha.ClaimRequest{Owner: "me", TTL: time.Second, Fresh: ha.Fresh{
					NotificationUUID: n.UUID, Kind: ha.UnitInstance, Key: key, HostUUID: n.SourceHostUUID, SegmentUUID: d.fresh.SegmentUUID}})
			}
			return err
		}},
		{"looking a segment over", []string{"hosts_list_idx", "uniq_claims0what", "work_rate_idx"}, func() error { _, err := s.Outlook(ctx, d.fresh.SegmentUUID); return err }},
		{"loading again", []string{"notifications_unit_idx|notifications_twin_idx|notifications_pkey"}, func() error { _, err := s.Load(ctx, &lease); return err }},
		{"beating", nil, func() error { _, err := s.Commit(ctx, &lease); return err }},
		{"beating together", nil, func() error {
			got, err := s.Beats(ctx, []ha.Lease{lease, {WorkID: lease.WorkID + 1, Owner: lease.Owner, Epoch: 2}})
			if err == nil && len(got) != 1 {
				err = fmt.Errorf("%d leases were renewed, not 1", len(got))
			}
			return err
		}},
		{"committing", []string{"uniq_notification0uuid", "journal_open_idx", "uniq_work0unit_key0ended", "uniq_claims0what"}, func() error {
			_, err := s.Commit(ctx, &lease, ha.GiveWay{HostUUID: d.fresh.HostUUID},
				ha.SetNotification{UUID: d.fresh.NotificationUUID, Status: ha.StatusRunning},
				ha.PutMove{Move: ha.VMove{UUID: uuid.NewString(), InstanceUUID: uuid.NewString()}},
				ha.SetRecovery{}, ha.SetHost{UUID: d.fresh.HostUUID, Started: true},
				ha.PutClaim{Claim: ha.Claim{HostUUID: d.fresh.HostUUID, What: ha.WhatDisabled, Reason: ha.ReasonRecovery}},
				ha.DropClaim{HostUUID: d.fresh.HostUUID, What: ha.WhatDisabled, Reason: ha.ReasonRecovery},
				ha.CloseIntent{Key: "k"}, ha.Signal{Key: "x"}, ha.TouchSegment{UUID: d.fresh.SegmentUUID, Seen: 0})
			return err
		}},
		{"ending a unit", []string{"hosts_reserved_for_idx"}, func() error { _, err := s.Commit(ctx, &lease, ha.EndUnit{}); return err }},
		{"admitting", []string{"uniq_host0name_key0deleted", "notifications_unit_idx|notifications_twin_idx", "uniq_work0unit_key0ended"}, func() error {
			_, err := s.Admit(ctx, ha.Report{
				UUID: uuid.NewString(), Type: ha.TypeComputeHost, Hostname: d.host, GeneratedTime: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC),
				Payload: ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyHostStatus: ha.HostStatusNormal},
			}, 3*time.Minute)
			return err
		}},
		{"the first page", []string{"notifications_list_idx"}, list(ha.NotificationFilter{}, first)},
		{"a page by marker", []string{"notifications_list_idx"}, list(ha.NotificationFilter{}, next)},
		{"the first page of a status", []string{"notifications_status_idx"}, list(ha.NotificationFilter{Status: &status}, first)},
		{"a page of a status by marker", []string{"notifications_status_idx"}, list(ha.NotificationFilter{Status: &status}, next)},
		{"the first page of a type", []string{"notifications_type_idx"}, list(ha.NotificationFilter{Type: &typ}, first)},
		{"the first page of a type and a status", []string{"notifications_type_status_idx"}, list(ha.NotificationFilter{Type: &kind, Status: &status}, first)},
		{"a page of a type and a status by marker", []string{"notifications_type_status_idx"}, list(ha.NotificationFilter{Type: &kind, Status: &status}, next)},
		{"the first page of a host", []string{"notifications_host_idx"}, list(ha.NotificationFilter{SourceHostUUID: &d.fresh.HostUUID}, first)},
		{"what was generated lately", []string{"notifications_generated_idx|notifications_made_idx|notifications_list_idx"}, list(ha.NotificationFilter{GeneratedSince: &lately}, next)},
		{"by the time of the report", []string{"notifications_made_idx|notifications_generated_idx"}, list(ha.NotificationFilter{}, sorted(ha.FieldGeneratedTime, first))},
		{"by the time of the report, by marker", []string{"notifications_made_idx"}, list(ha.NotificationFilter{}, sorted(ha.FieldGeneratedTime, next))},
		{"what changed last", []string{"notifications_updated_idx"}, list(ha.NotificationFilter{}, sorted(ha.FieldUpdatedAt, first))},
		{"what changed last, by marker", []string{"notifications_updated_idx"}, list(ha.NotificationFilter{}, sorted(ha.FieldUpdatedAt, next))},
		{"by status, by marker", []string{"notifications_status_idx"}, list(ha.NotificationFilter{}, sorted(ha.FieldStatus, next))},
		{"by type, by marker", []string{"notifications_type_idx"}, list(ha.NotificationFilter{}, sorted(ha.FieldType, next))},
		{"by host, by marker", []string{"notifications_host_idx"}, list(ha.NotificationFilter{}, sorted(ha.FieldSourceHostUUID, next))},
		{"by id, by marker", nil, list(ha.NotificationFilter{}, sorted(ha.FieldID, next))},
		{"by uuid, by marker", []string{"uniq_notification0uuid"}, list(ha.NotificationFilter{}, sorted(ha.FieldUUID, next))},
		{"a page of hosts", []string{"hosts_list_idx"}, func() error {
			_, err := s.Hosts(ctx, ha.HostFilter{SegmentUUID: d.fresh.SegmentUUID}, first)
			return err
		}},
		{"a page of vmoves", []string{"vmoves_list_idx"}, func() error {
			_, err := s.VMoves(ctx, ha.VMoveFilter{NotificationUUID: d.ended}, first)
			return err
		}},
		{"one of each", []string{"uniq_notification0uuid", "uniq_host0name_key0deleted", "uniq_vmove0uuid", "work_notification_idx", "journal_notification_idx"}, func() error {
			if _, err := s.HostByName(ctx, d.host); err != nil {
				return err
			}
			if _, err := s.Notification(ctx, d.ended); err != nil {
				return err
			}
			if _, err := s.VMove(ctx, d.ended, d.move); err != nil {
				return err
			}
			if _, err := s.Recovery(ctx, d.ended); err != nil {
				return err
			}
			_, err := s.Journal(ctx, d.ended, 0, 100)
			return err
		}},
		{"beating as an engine", []string{"uniq_engines0name"}, func() error {
			return s.BeatEngine(ctx, ha.Engine{Name: "engine-1", StartedAt: time.Now()})
		}},
		{"reading and counting the outbox", []string{"outbox_sink_idx"}, func() error {
			if _, err := s.Waiting(ctx, "bus", 200); err != nil {
				return err
			}
			_, err := s.Backlog(ctx, "bus")
			return err
		}},
		{"emptying the outbox", []string{"uniq_outbox_shippers0sink"}, func() error {
			l, err := s.ClaimShipping(ctx, ha.Shipping{Sink: "bus", Epoch: 1, Beat: 1}, "me", time.Second)
			if err != nil {
				return err
			}
			if err := s.Shipped(ctx, l, []int64{1, 2, 3}); err != nil {
				return err
			}
			_, err = s.DropOldest(ctx, l, 5)
			return err
		}},
	}
}

// seeded names some of the rows.
type seeded struct {
	fresh ha.Fresh // a new notification
	ended string   // an ended notification, with a move and a journal
	move  string
	host  string // the name of a host without an open notification
}

// seed fills the tables with some thousand rows each, most of them of the past.
func (d *tables) seed() seeded {
	d.Helper()
	const segments, hosts, notes = 50, 3000, 12000
	yes, no, u, rows := d.boolean(true), d.boolean(false), rowID, d.fill
	at := func(i int) string {
		return sqlTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Minute))
	}
	rows("failover_segments", "created_at, uuid, name, name_key, service_type, recovery_method, enabled", segments, func(i int) string {
		return fmt.Sprintf("%s, '%s', 's%d', 'S%[3]d', 'C', 'auto', %[4]s", at(i), u('a', i), i, yes)
	})
	rows("hosts", "created_at, uuid, name, name_key, reserved, type, control_attributes, failover_segment_id, on_maintenance", hosts, func(i int) string {
		return fmt.Sprintf("%s, '%s', 'h%d', 'H%[3]d', %[4]s, 'C', 'x', '%[5]s', %[4]s", at(i), u('b', i), i, no, u('a', i%segments))
	})
	status := func(i int) string {
		if i >= notes-20 {
			return "new"
		}
		return []string{"finished", "failed", "ignored"}[i%3]
	}
	rows("notifications", "created_at, updated_at, notification_uuid, generated_time, source_host_uuid, type, payload, status, failover_segment_uuid, unit_key, event", notes, func(i int) string {
		host := i % hosts
		return fmt.Sprintf("%s, %[1]s, '%[2]s', %[1]s, '%[3]s', '%[6]s', '{}', '%[4]s', '%[5]s', 'host:%[3]s', 'STOPPED'",
			at(i), u('c', i), u('b', host), status(i), u('a', host%segments), []string{"VM", "PROCESS", "COMPUTE_HOST"}[i%3])
	})
	rows("vmoves", "created_at, uuid, notification_uuid, instance_uuid, instance_name, source_host, type, status", notes, func(i int) string {
		return fmt.Sprintf("%s, '%s', '%s', '%s', 'i', 'h', 'evacuation', 'succeeded'", at(i), u('d', i), u('c', i%(notes-20)), u('e', i))
	})
	rows("work", "kind, unit_key, host_uuid, segment_uuid, notification_uuid, owner, epoch, beat, ttl_ms, created_at, ended_at, ended, next_look_at, signals, seen_signals, "+
		"cancel_by, hold_by, release_by, releases, retry_by, retries, step, attempt, started_at, proof, prepared, held_at, listed, failures, released, retried, waived, returned",
		notes-20, func(i int) string {
			host := i % hosts
			return fmt.Sprintf("'host', 'host:%s', '%[1]s', '%[2]s', '%[3]s', '', 1, 1, 5000, %[4]s, %[4]s, %[5]d, %[4]s, 0, 0, "+
				"'', '', '', 0, '', 0, '', 1, %[4]s, '', %[6]s, '', %[6]s, 0, 0, 0, '', %[6]s", u('b', host), u('a', host%segments), u('c', i), at(i), i+1, no)
		})
	rows("work", "kind, unit_key, host_uuid, segment_uuid, notification_uuid, owner, epoch, beat, ttl_ms, created_at, next_look_at, signals, seen_signals, "+
		"cancel_by, hold_by, release_by, releases, retry_by, retries, step, attempt, started_at, proof, prepared, held_at, listed, failures, released, retried, waived, returned",
		2000, func(i int) string {
			return fmt.Sprintf("'instance', 'instance:%s', '%s', '%s', '', 'other', 1, 1, 5000, %s, %[4]s, 0, 0, "+
				"'', '', '', 0, '', 0, '', 1, %[4]s, '', %[5]s, '', %[5]s, 0, 0, 0, '', %[5]s", u('e', i), u('b', i), u('a', i%segments), at(i), no)
		})
	rows("journal", "work_id, epoch, seq, logged_at, notification_uuid, host_uuid, instance_uuid, kind, act_key, act, task, state, progress, is_open", notes, func(i int) string {
		return fmt.Sprintf("%d, 1, 1, %s, '%s', '%s', '', 'note', '', '', '', '', 0, %s", i+1, at(i), u('c', i), u('b', i%hosts), no)
	})
	rows("claims", "host_uuid, what, reason, detail, work_id, since", hosts, func(i int) string {
		return fmt.Sprintf("'%s', 'disabled', 'recovery', 'x', %d, %s", u('b', i), i+1, at(i))
	})
	rows("engines", "name, host, version, started_at, beat, seen_at", 2000, func(i int) string {
		return fmt.Sprintf("'engine-%d', 'h', 'v', %s, 1, %[2]s", i, at(i))
	})
	rows("outbox", "sink, message_id, event_type, body, created_at", notes, func(i int) string {
		return fmt.Sprintf("'%s', '%s', 'host.update.end', '{}', %s", []string{"bus", "webhook-1", "webhook-2"}[i%3], u('f', i), at(i))
	})
	rows("outbox_shippers", "sink, owner, epoch, beat, ttl_ms", 2000, func(i int) string {
		sink := "bus"
		if i > 0 {
			sink = fmt.Sprint("webhook-", i)
		}
		return fmt.Sprintf("'%s', 'other', 1, 1, 5000", sink)
	})
	analyze(d.T, d.kind, d.pool, "hosts", "notifications", "vmoves", "work", "journal", "claims", "engines", "outbox", "outbox_shippers")
	host := (notes - 1) % hosts
	return seeded{
		fresh: ha.Fresh{
			NotificationUUID: u('c', notes-1), Kind: ha.UnitHost, Key: ha.UnitHost.Key(u('b', host)), HostUUID: u('b', host), SegmentUUID: u('a', host%segments),
		},
		ended: u('c', 7), move: u('d', 7), host: "h7",
	}
}

func analyze(t *testing.T, kind string, pool *sql.DB, tables ...string) {
	t.Helper()
	var statements []string
	switch kind {
	case "postgresql":
		statements = []string{"ANALYZE"}
	case "mysql": // as it does by itself; SQLite never does
		for _, table := range tables {
			statements = append(statements, "ANALYZE TABLE "+table)
		}
	}
	for _, s := range statements {
		if _, err := pool.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
}

// apart are the statements, each by itself: on MySQL several go in one round trip, but not of a transaction, which a Galera node may
// lose between two, and carry out the second. Only a beat has none.
func apart(t *testing.T, kind string, heard []string) []string {
	t.Helper()
	if kind != "mysql" {
		return heard
	}
	var all []string
	for _, h := range heard {
		together := strings.Split(strings.TrimPrefix(h, "START TRANSACTION; "), "; ")
		if len(together) > 1 && !strings.HasPrefix(h, "UPDATE work SET beat") {
			t.Errorf("not a round trip of its own for each statement:\n%s", h)
		}
		all = append(all, together...)
	}
	return all
}

func explainable(query string) bool {
	verb := strings.TrimLeft(strings.Fields(query)[0], "(")
	return (verb == "SELECT" || verb == "UPDATE" || verb == "DELETE") && (strings.Contains(query, "WHERE") || strings.Contains(query, "JOIN "))
}

// explain returns the plan of a statement as text, a step per line. PostgreSQL is asked twice: small tables it rightly reads
// whole, so the second time it must show that an index would serve.
func explain(t *testing.T, kind string, pool *sql.DB, query string) string {
	t.Helper()
	switch kind {
	case "sqlite":
		return ask(t, pool, "EXPLAIN QUERY PLAN "+query)
	case "mysql":
		return ask(t, pool, "EXPLAIN "+query)
	}
	for _, scan := range scans("growing", ask(t, pool, "EXPLAIN "+query)) {
		t.Errorf("a table that grows for ever is read whole (%s):\n%s", scan, query)
	}
	return ask(t, pool, "SET enable_seqscan = off; EXPLAIN "+query)
}

func ask(t *testing.T, pool *sql.DB, query string) string {
	t.Helper()
	rows, err := pool.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	for rows.Next() {
		cells, dest := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range cells {
			dest[i] = &cells[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		for i, c := range cells {
			fmt.Fprintf(&plan, "%s=%s ", columns[i], c.String)
		}
		plan.WriteString("\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}

// scans are the steps of a plan that read a whole table. Derived tables are bounded by what makes
// them; failover_segments is small.
func scans(kind, plan string) (found []string) {
	for line := range strings.Lines(plan) {
		line = strings.TrimSpace(line)
		bad := false
		switch kind {
		case "sqlite":
			_, what, scans := strings.Cut(line, "SCAN ")
			named := slices.Contains([]string{"a", "b", "fresh", "units", "page", "CONSTANT ROW"}, what) // what sub-queries found
			bad = scans && !named && !strings.Contains(what, "USING")
		case "mysql":
			bad = strings.Contains(line, " type=ALL ") && !strings.Contains(line, "table=<")
		case "growing":
			for _, table := range []string{"notifications", "vmoves", "work", "journal", "episodes", "episode_items", "blob_transfers"} {
				bad = bad || strings.Contains(line, "Seq Scan on "+table+" ")
			}
		default:
			bad = strings.Contains(line, "Seq Scan on ")
		}
		if bad {
			found = append(found, line)
		}
	}
	return found
}
