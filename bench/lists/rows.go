package main

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/store"
)

// rows are the tables, filled and asked beside salvor.
type rows struct {
	*sql.DB
	kind string // sqlite, mysql or postgresql
}

func open(tb testing.TB, url string) rows {
	tb.Helper()
	var plain driver.Connector
	s, err := store.Open(tb.Context(), store.Config{URL: url, Wrap: func(c driver.Connector) driver.Connector {
		if plain == nil {
			plain = c // the first is the writer's
		}
		return c
	}})
	if err != nil {
		tb.Fatal(err)
	}
	if err := s.Close(); err != nil {
		tb.Fatal(err)
	}
	kind, _, _ := strings.Cut(url, ":")
	kind, _, _ = strings.Cut(kind, "+")
	r := rows{sql.OpenDB(plain), kind}
	r.SetMaxOpenConns(1)
	tb.Cleanup(func() { _ = r.Close() })
	return r
}

func (r rows) exec(tb testing.TB, statement string) {
	tb.Helper()
	if _, err := r.ExecContext(tb.Context(), statement); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

// batch bounds the rows of one statement.
const batch = 50_000

// hosts have reported in turn.
const hosts = 3000

// fill makes n notifications, two each half minute, the last 20 of them open, and vmoves for each fifth: ten, and 500 more for
// the first. The database makes the rows up itself, which is fastest.
func (r rows) fill(tb testing.TB, n int) {
	tb.Helper()
	if r.kind == "sqlite" {
		r.exec(tb, "PRAGMA synchronous = OFF")
		r.exec(tb, "PRAGMA cache_size = -500000")
	}
	for from := 1; from <= n; from += batch {
		r.exec(tb, r.notifications(from, min(n, from+batch-1), n))
	}
	for from := 1; from <= 2*n; from += batch {
		r.exec(tb, r.vmoves(from, min(2*n, from+batch-1), "(i - 1) / 10 * 5 + 5"))
	}
	r.exec(tb, r.vmoves(2*n+1, 2*n+500, "5"))
	switch r.kind { // as these do by themselves; SQLite never does
	case "mysql":
		r.exec(tb, "ANALYZE TABLE notifications, vmoves")
	case "postgresql":
		r.exec(tb, "VACUUM ANALYZE notifications")
		r.exec(tb, "VACUUM ANALYZE vmoves")
	}
}

// series is a table s of the numbers i.
func (r rows) series(from, to int) string {
	switch r.kind {
	case "sqlite":
		return fmt.Sprintf("(WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT i FROM n) AS s", from, to)
	case "mysql":
		return fmt.Sprintf("(SELECT CAST(seq AS SIGNED) AS i FROM seq_%d_to_%d) AS s", from, to)
	default:
		return fmt.Sprintf("generate_series(CAST(%d AS BIGINT), %d) AS s(i)", from, to)
	}
}

// uuid makes one of a letter and a number.
func (r rows) uuid(letter, number string) string {
	if r.kind == "sqlite" {
		return fmt.Sprintf("printf('%s0000000-0000-4000-8000-%%012d', %s)", letter, r.whole(number))
	}
	return fmt.Sprintf("CONCAT('%s0000000-0000-4000-8000-', LPAD(CAST(%s AS CHAR(12)), 12, '0'))", letter, r.whole(number))
}

// whole divides without a rest on MariaDB too.
func (r rows) whole(number string) string {
	if r.kind == "mysql" {
		return strings.ReplaceAll(number, " / ", " DIV ")
	}
	return number
}

// at is a time so many seconds after the year's beginning.
func (r rows) at(seconds string) string {
	seconds = r.whole(seconds)
	switch r.kind {
	case "sqlite":
		return "strftime('%Y-%m-%d %H:%M:%S.000000', 1767225600 + " + seconds + ", 'unixepoch')"
	case "mysql":
		return "TIMESTAMPADD(SECOND, " + seconds + ", '2026-01-01 00:00:00')"
	default:
		return "TIMESTAMP '2026-01-01 00:00:00' + (" + seconds + ") * INTERVAL '1 second'"
	}
}

func (r rows) notifications(from, to, n int) string {
	host := r.uuid("b", fmt.Sprintf("i * 7919 %% %d", hosts))
	status := fmt.Sprintf("CASE WHEN i > %d THEN 'new' WHEN i * 31 %% 100 < 3 THEN 'failed' WHEN i * 31 %% 100 < 12 THEN 'ignored' ELSE 'finished' END", n-20)
	typ := "CASE WHEN i % 5 = 0 THEN 'COMPUTE_HOST' WHEN i % 10 = 1 THEN 'PROCESS' ELSE 'VM' END"
	payload := "CASE WHEN i % 5 = 0 THEN '{\"cluster_status\":\"OFFLINE\",\"event\":\"STOPPED\",\"host_status\":\"NORMAL\"}' " +
		"ELSE '{\"event\":\"LIFECYCLE\",\"instance_uuid\":\"e0000000-0000-4000-8000-000000000000\",\"vir_domain_event\":\"STOPPED_FAILED\"}' END"
	key := "CONCAT('host:', " + host + ")"
	if r.kind == "sqlite" {
		key = "'host:' || " + host
	}
	return fmt.Sprintf("INSERT INTO notifications (id, created_at, updated_at, notification_uuid, generated_time, source_host_uuid, type, "+
		"payload, status, failover_segment_uuid, unit_key, event) SELECT i, %s, CASE WHEN i > %d THEN NULL ELSE %s END, %s, %s, %s, %s, %s, %s, %s, %s, 'STOPPED' FROM %s",
		r.at("i / 2 * 30"), n-20, r.at("i / 2 * 30 + 60 + i % 7 * 40"), r.uuid("c", "i"), r.at("i / 2 * 30 - i % 3"), host, typ, payload, status,
		r.uuid("a", "i % 50"), key, r.series(from, to))
}

func (r rows) vmoves(from, to int, notification string) string {
	return fmt.Sprintf("INSERT INTO vmoves (id, created_at, uuid, notification_uuid, instance_uuid, instance_name, source_host, dest_host, start_time, end_time, "+
		"type, status) SELECT i, %s, %s, %s, %s, 'instance', 'host-1', 'host-2', %s, %s, 'evacuation', CASE WHEN i %% 20 = 0 THEN 'failed' ELSE 'succeeded' END FROM %s",
		r.at("i"), r.uuid("d", "i"), r.uuid("c", notification), r.uuid("e", "i"), r.at("i + i % 9"), r.at("i + 30"), r.series(from, to))
}
