// Admission measures how many reports a second salvor's api makes durable, against raw transactions with the very statements
// that it issues, over the same driver and as many connections, on each database. See bench/README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/bench/internal/gauge"
	"github.com/salvor-ha/salvor/internal/testkit"
)

type options struct {
	rounds  int
	clients int
	round   time.Duration
	only    string
}

func main() {
	var o options
	f := flag.NewFlagSet("admission", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 7, "rounds of each contestant on each database")
	f.IntVar(&o.clients, "clients", 8, "clients at a time, and connections of the raw transactions")
	f.DurationVar(&o.round, "round", 2*time.Second, "how long each round takes")
	f.StringVar(&o.only, "database", "", "only this one: SQLite, MariaDB or PostgreSQL")
	gauge.Parse(f)
	var rows []row
	for _, d := range gauge.Databases(o.only) {
		r := row{database: d.Name}
		r.skipped, r.ok = testkit.Alone(d.Name, func(tb testing.TB) { measure(tb, o, d.URL(tb), &r) })
		rows = append(rows, r)
	}
	if !report(os.Stdout, rows) {
		os.Exit(1)
	}
}

// measure lets the contestants take turns on one database.
func measure(tb testing.TB, o options, url string, r *row) {
	// Its log goes to a file, as a service's: through a pipe, this process would have to read it on the same cores.
	cluster := testkit.NewCluster(tb, url, o.clients, "[DEFAULT]", "log_file = "+tb.TempDir()+"/salvor.log", "use_stderr = false")
	_, api := cluster.API("api")
	hosts := make([]string, o.clients)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("host-%d", i+1)
	}
	testkit.Register(tb, api, "auto", hosts...)
	contestants := newContestants(tb, api, url, hosts)
	r.statements = contestants.statements
	rate := func(clients []func(context.Context) error) float64 {
		return gauge.Run(tb, len(clients), o.round, func(client int) error { return clients[client](tb.Context()) }).Rate
	}
	asked := func() float64 { // a second thread of mere clients would have little to do but to wake and be woken
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		return rate(contestants.api)
	}
	for round := range o.rounds + 1 { // the first one warms up
		s := sample{api: asked(), raw: rate(contestants.raw), store: rate(contestants.store)}
		if round == 0 {
			continue
		}
		r.samples = append(r.samples, s)
		gauge.Say("%s, round %d: api %.0f/s, store %.0f/s, raw %.0f/s", r.database, round, s.api, s.store, s.raw)
	}
}
