// Lists measures pages of 100 through salvor's api over tables with a million notifications and two million vmoves, on each
// database. See bench/README.md.
package main

import (
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/bench/internal/gauge"
	"github.com/salvor-ha/salvor/internal/testkit"
)

type options struct {
	rows     int
	rounds   int
	requests int
	paging   time.Duration
	only     string
}

func main() {
	var o options
	f := flag.NewFlagSet("lists", flag.ContinueOnError)
	f.IntVar(&o.rows, "rows", 1_000_000, "notifications, at least 10000; vmoves are twice as many")
	f.IntVar(&o.rounds, "rounds", 5, "rounds through all lists")
	f.IntVar(&o.requests, "requests", 100, "requests of each list in a round")
	f.DurationVar(&o.paging, "paging", 10*time.Second, "how long four clients page through the lists at the end, 1000 at a time, for the memory")
	f.StringVar(&o.only, "database", "", "only this one: SQLite, MariaDB or PostgreSQL")
	gauge.Parse(f, func() error {
		if o.rows < 10_000 {
			return errors.New("--rows is a number from 10000")
		}
		return nil
	})
	var results []result
	for _, d := range gauge.Databases(o.only) {
		r := result{database: d.Name}
		r.skipped, r.ok = testkit.Alone(d.Name, func(tb testing.TB) { measure(tb, o, d.URL(tb), &r) })
		results = append(results, r)
	}
	if !report(os.Stdout, o, results) {
		os.Exit(1)
	}
}

// measure fills one database, then asks for its lists in turn.
func measure(tb testing.TB, o options, url string, r *result) {
	cluster := testkit.NewCluster(tb, url, 1)
	began := time.Now()
	rows := open(tb, url)
	rows.fill(tb, o.rows)
	gauge.Say("%s: filled in %.0f s", r.database, time.Since(began).Seconds())
	process, api := cluster.API("api")
	lists := rows.lists(tb, o.rows)
	caller := testkit.NewCaller(api)
	defer caller.Close()
	for _, l := range lists {
		l.check(tb, caller) // and warm up
	}
	r.latencies = make([][][]time.Duration, len(lists))
	for range o.rounds {
		for i, l := range lists {
			r.latencies[i] = append(r.latencies[i], ask(tb, caller, l.path, o.requests))
		}
	}
	r.lists = lists
	r.memory = gauge.PeakMemory(tb, process.PID())
	r.paged = pageThrough(tb, api, o.paging)
	r.memoryAfter = gauge.PeakMemory(tb, process.PID())
}
