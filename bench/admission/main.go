// Admission measures how many reports a second salvor's api makes durable, against raw transactions with the very statements
// that it issues, over the same driver and as many connections, on each database. See bench/README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

type options struct {
	rounds  int
	clients int
	round   time.Duration
	only    string
}

// databases make one for the run and return its URL, or skip.
var databases = []struct {
	name string
	url  func(testing.TB) string
}{
	{"SQLite", func(tb testing.TB) string { return "sqlite:///" + tb.TempDir() + "/salvor.sqlite" }},
	{"MariaDB", testkit.MariaDB},
	{"PostgreSQL", testkit.Postgres},
}

func main() {
	var o options
	f := flag.NewFlagSet("admission", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 7, "rounds of each contestant on each database")
	f.IntVar(&o.clients, "clients", 8, "clients at a time, and connections of the raw transactions")
	f.DurationVar(&o.round, "round", 2*time.Second, "how long each round takes")
	f.StringVar(&o.only, "database", "", "only this one: SQLite, MariaDB or PostgreSQL")
	if err := f.Parse(os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			os.Exit(0)
		}
		os.Exit(2)
	}
	var rows []row
	for _, d := range databases {
		if o.only != "" && !strings.EqualFold(o.only, d.name) {
			continue
		}
		r := row{database: d.name}
		r.skipped, r.ok = testkit.Alone(d.name, func(tb testing.TB) { measure(tb, o, d.url(tb), &r) })
		rows = append(rows, r)
	}
	if !report(os.Stdout, rows) {
		os.Exit(1)
	}
}

// measure lets the contestants take turns on one database.
func measure(tb testing.TB, o options, url string, r *row) {
	cluster := testkit.NewCluster(tb, url, o.clients)
	_, api := cluster.API("api")
	hosts := make([]string, o.clients)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("host-%d", i+1)
	}
	testkit.Register(tb, api, "auto", hosts...)
	contestants := newContestants(tb, api, url, hosts)
	r.statements = contestants.statements
	for round := range o.rounds + 1 { // the first one warms up
		s := sample{
			api: rate(tb, o, contestants.api), raw: rate(tb, o, contestants.raw), store: rate(tb, o, contestants.store),
		}
		if round == 0 {
			continue
		}
		r.samples = append(r.samples, s)
		fmt.Fprintf(os.Stderr, "%s %s, round %d: api %.0f/s, store %.0f/s, raw %.0f/s\n",
			time.Now().Format(time.TimeOnly), r.database, round, s.api, s.store, s.raw)
	}
}
