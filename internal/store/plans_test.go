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

// TestQueryPlans: on tables of some thousand rows, every hot statement goes by an index on every database.
func TestQueryPlans(t *testing.T) {
	servers(t, func(t *testing.T, url string, open func(*testing.T, store.Config) *store.Store) {
		spy := &spy{}
		s := open(t, store.Config{URL: url, Wrap: spy.wrap})
		if err := s.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		pool := spy.pool()
		defer pool.Close()
		kind, _, _ := strings.Cut(url, "+")
		kind, _, _ = strings.Cut(kind, ":")
		d := seed(t, kind, pool)
		for _, hot := range hotPaths(t.Context(), s, d) {
			heard := spy.record(func() {
				if err := hot.run(); err != nil {
					t.Fatalf("%s: %v", hot.name, err)
				}
			})
			found := map[string]bool{}
			for _, query := range apart(t, kind, heard) {
				if !explainable(query) {
					continue
				}
				plan := explain(t, kind, pool, query)
				if scan := fullScan(kind, plan); scan != "" {
					t.Errorf("%s reads a whole table (%s):\n%s\n%s", hot.name, scan, query, plan)
				}
				if strings.HasSuffix(hot.name, "by marker") && strings.Contains(query, "ORDER BY") && kind == "mysql" && !strings.Contains(plan, "type=range") {
					t.Errorf("%s reads an index from its beginning:\n%s\n%s", hot.name, query, plan)
				}
				for _, index := range hot.indexes {
					for either := range strings.SplitSeq(index, "|") {
						found[index] = found[index] || strings.Contains(plan, either)
					}
				}
			}
			for _, index := range hot.indexes {
				if !found[index] {
					t.Errorf("%s does not use %s", hot.name, index)
				}
			}
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
func seed(t *testing.T, kind string, pool *sql.DB) seeded {
	t.Helper()
	const segments, hosts, notes = 50, 3000, 12000
	yes, no := "TRUE", "FALSE"
	u := func(kind byte, n int) string { return fmt.Sprintf("%c0000000-0000-4000-8000-%012d", kind, n) }
	rows := func(table, columns string, n int, row func(i int) string) {
		t.Helper()
		for from := 0; from < n; from += 1000 {
			var values []string
			for i := from; i < min(n, from+1000); i++ {
				values = append(values, "("+row(i)+")")
			}
			if _, err := pool.Exec("INSERT INTO " + table + " (" + columns + ") VALUES " + strings.Join(values, ", ")); err != nil {
				t.Fatal(err)
			}
		}
	}
	at := func(i int) string {
		return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Minute).Format("'2006-01-02 15:04:05.000000'")
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
	analyze(t, kind, pool)
	host := (notes - 1) % hosts
	return seeded{
		fresh: ha.Fresh{
			NotificationUUID: u('c', notes-1), Kind: ha.UnitHost, Key: ha.UnitHost.Key(u('b', host)), HostUUID: u('b', host), SegmentUUID: u('a', host%segments),
		},
		ended: u('c', 7), move: u('d', 7), host: "h7",
	}
}

func analyze(t *testing.T, kind string, pool *sql.DB) {
	t.Helper()
	var statements []string
	switch kind {
	case "postgresql":
		statements = []string{"ANALYZE"}
	case "mysql": // as it does by itself; SQLite never does
		for _, table := range []string{"hosts", "notifications", "vmoves", "work", "journal", "claims", "engines", "outbox", "outbox_shippers"} {
			statements = append(statements, "ANALYZE TABLE "+table)
		}
	}
	for _, s := range statements {
		if _, err := pool.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
}

// apart are the statements, each by itself: on MySQL several go in one round trip, of which only the first may write. On a Galera
// node a transaction may be gone before the second, which is then carried out all the same.
func apart(t *testing.T, kind string, heard []string) []string {
	t.Helper()
	if kind != "mysql" {
		return heard
	}
	var all []string
	for _, h := range heard {
		together := strings.Split(h, "; ")
		for _, follows := range together[1:] {
			if !strings.HasPrefix(follows, "SELECT ") {
				t.Errorf("not only reads follow in one round trip:\n%s", h)
			}
		}
		all = append(all, together...)
	}
	return all
}

func explainable(query string) bool {
	verb := strings.TrimLeft(strings.Fields(query)[0], "(")
	return (verb == "SELECT" || verb == "UPDATE" || verb == "DELETE") && strings.Contains(query, "WHERE")
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
	if scan := fullScan("growing", ask(t, pool, "EXPLAIN "+query)); scan != "" {
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

// fullScan returns the step of a plan that reads a whole table, "" when none does. Derived tables are bounded by what makes
// them; failover_segments is small.
func fullScan(kind, plan string) string {
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
			for _, table := range []string{"notifications", "vmoves", "work", "journal"} {
				bad = bad || strings.Contains(line, "Seq Scan on "+table+" ")
			}
		default:
			bad = strings.Contains(line, "Seq Scan on ")
		}
		if bad {
			return line
		}
	}
	return ""
}
