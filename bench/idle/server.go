package main

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/bench/internal/gauge"
	"github.com/salvor-ha/salvor/internal/testkit"
)

// server is a database whose server counts queries.
type server struct {
	url     string
	counts  *sql.DB // where count is asked
	rows    *sql.DB // where the tables are
	count   string  // a query for the number of queries so far
	own     int64   // of those that are counted, how many each count itself adds
	numbers string  // a table of numbers n from 1 to %d
	unique  string  // an expression for a new uuid
}

var servers = []struct {
	name string
	open func(testing.TB) server
}{{"MariaDB", mariadb}, {"PostgreSQL", postgres}}

// mariadb starts a server of the measurement's own: MariaDB counts the questions of all its users together.
func mariadb(tb testing.TB) server {
	tb.Helper()
	s := gauge.MariaDB(tb, "--innodb-flush-log-at-trx-commit=2")
	return server{
		url: s.Create(tb, "salvor"), counts: s.DB, rows: gauge.Open(tb, "mysql", "root@tcp("+s.Address+")/salvor"), own: 1,
		count:   "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'QUESTIONS'",
		numbers: "(SELECT seq AS n FROM seq_1_to_%d) AS numbers", unique: "UUID()",
	}
}

// postgres is a database on the test server: PostgreSQL counts by database, each statement outside of a transaction as one.
func postgres(tb testing.TB) server {
	address := testkit.Postgres(tb)
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	counts := gauge.Open(tb, "pgx", "postgres://postgres@"+u.Host+"/postgres?sslmode=disable")
	return server{
		url: address, counts: counts, rows: gauge.Open(tb, "pgx", "postgres://postgres@"+u.Host+"/"+name+"?sslmode=disable"),
		count:   "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '" + name + "'",
		numbers: "generate_series(1, %d) AS numbers(n)", unique: "gen_random_uuid()::text",
	}
}

// queries is how many the server has carried out so far.
func (s server) queries(tb testing.TB) (n int64) {
	tb.Helper()
	if err := s.counts.QueryRowContext(tb.Context(), s.count).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// settle waits until no more is done in a second than an idle engine does.
func settle(tb testing.TB, s server) {
	tb.Helper()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for was := s.queries(tb); ; {
		<-tick.C
		now := s.queries(tb)
		if now-was <= 12 {
			return
		}
		was = now
	}
}

// fill multiplies the example's notification and its unit of work.
func (s server) fill(tb testing.TB, n int) {
	tb.Helper()
	for table, other := range map[string]map[string]string{
		"notifications": {"notification_uuid": s.unique},
		"work":          {"ended": "1000000 + n"},
	} {
		var names, values []string
		rows, err := s.rows.QueryContext(tb.Context(), "SELECT column_name FROM information_schema.columns WHERE table_name = '"+table+
			"' AND table_schema NOT IN ('information_schema', 'pg_catalog', 'mysql') AND column_name <> 'id'")
		if err != nil {
			tb.Fatal(err)
		}
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				tb.Fatal(err)
			}
			names = append(names, name)
			if o, is := other[name]; is {
				values = append(values, o)
			} else {
				values = append(values, "t."+name)
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			tb.Fatal(err)
		}
		where := " WHERE t.id = (SELECT MIN(id) FROM " + table + ")"
		if _, err := s.rows.ExecContext(tb.Context(), "INSERT INTO "+table+" ("+strings.Join(names, ", ")+") SELECT "+strings.Join(values, ", ")+
			" FROM "+table+" AS t, "+fmt.Sprintf(s.numbers, n)+where); err != nil {
			tb.Fatalf("%s: %v", table, err)
		}
		if _, err := s.rows.ExecContext(tb.Context(), map[bool]string{true: "ANALYZE TABLE ", false: "ANALYZE "}[strings.HasPrefix(s.url, "mysql")]+table); err != nil {
			tb.Fatal(err)
		}
	}
}
