// Idle measures what an engine that has nothing to do costs: queries a second, as the database server counts them, and the
// process's own time, with empty tables and again with 100,000 finished notifications in them. See bench/README.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/bench/internal/gauge"
	"github.com/salvor-ha/salvor/internal/testkit"
)

// The goals (bench/README.md).
const (
	mostQueries = 5.0  // a second
	mostCPU     = 0.01 // of a core
	mostRatio   = 1.10 // of queries, with full tables against empty ones
)

type options struct {
	span     time.Duration
	finished int
	only     string
}

// row is what was measured on one database: [0] with empty tables, [1] with full ones.
type row struct {
	database string
	queries  [2]float64 // a second
	cpu      [2]float64 // of a core
	skipped  string
	ok       bool
}

func main() {
	var o options
	f := flag.NewFlagSet("idle", flag.ContinueOnError)
	f.DurationVar(&o.span, "span", time.Minute, "how long each measurement takes")
	f.IntVar(&o.finished, "finished", 100_000, "notifications in the full tables")
	f.StringVar(&o.only, "database", "", "only this one: MariaDB or PostgreSQL")
	gauge.Parse(f)
	var rows []row
	for _, s := range servers {
		if o.only != "" && !strings.EqualFold(o.only, s.name) {
			continue
		}
		r := row{database: s.name}
		r.skipped, r.ok = testkit.Alone(s.name, func(tb testing.TB) { measure(tb, o, s.open(tb), &r) })
		rows = append(rows, r)
	}
	if !report(rows, o) {
		os.Exit(1)
	}
}

// measure lets one engine idle over empty tables, then over full ones.
func measure(tb testing.TB, o options, s server, r *row) {
	cluster := testkit.NewCluster(tb, s.url, 1)
	example(tb, cluster)
	engine, _ := cluster.Engine("engine")
	for i := range 2 {
		if i == 1 {
			s.fill(tb, o.finished)
		}
		settle(tb, s)
		queries, used, began := s.queries(tb), gauge.CPU(tb, engine.PID()), time.Now()
		<-time.After(o.span) // what is measured is a time in which nothing happens
		took := time.Since(began).Seconds()
		r.queries[i] = float64(s.queries(tb)-queries-s.own) / took
		r.cpu[i] = (gauge.CPU(tb, engine.PID()) - used).Seconds() / took
		gauge.Say("%s: %.2f queries/s, %.2f %% of a core over %.0f s", r.database, r.queries[i], 100*r.cpu[i], took)
	}
}

// example makes one notification that is finished, which fill multiplies, with an engine and an api of its own.
func example(tb testing.TB, c *testkit.Cluster) {
	tb.Helper()
	api, url := c.API("api")
	engine, _ := c.Engine("engine of the example")
	testkit.Register(tb, url, "auto", "host-1")
	body := testkit.HostDown("host-1", time.Now())
	body["notification"].(map[string]any)["payload"] = map[string]any{"event": "STARTED", "cluster_status": "ONLINE", "host_status": "NORMAL"}
	answer := testkit.Must(tb, 202, "POST", url+"/v1/notifications", body)
	note := answer["notification"].(map[string]any)["notification_uuid"].(string)
	testkit.Eventually(tb, 30*time.Second, func() (bool, string) {
		n := testkit.Must(tb, 200, "GET", url+"/v1/notifications/"+note, nil)["notification"].(map[string]any)
		return n["status"] == "finished", fmt.Sprint(n["status"])
	})
	engine.Stop(tb, 15*time.Second)
	api.Stop(tb, 15*time.Second)
}

// report prints the table and, in its last line, the verdict.
func report(rows []row, o options) bool {
	fmt.Printf("%-12s %14s %14s %7s %12s %12s\n", "database", "queries/s", "with "+fmt.Sprint(o.finished), "ratio", "of a core", "with")
	good, measured := true, false
	for _, r := range rows {
		if r.skipped != "" {
			fmt.Printf("%-12s SKIPPED: %s\n", r.database, r.skipped)
			continue
		}
		ratio := r.queries[1] / r.queries[0]
		fmt.Printf("%-12s %14.2f %14.2f %7.2f %11.2f%% %11.2f%%\n", r.database, r.queries[0], r.queries[1], ratio, 100*r.cpu[0], 100*r.cpu[1])
		measured = true
		good = good && r.ok && max(r.queries[0], r.queries[1]) <= mostQueries && max(r.cpu[0], r.cpu[1]) < mostCPU && ratio <= mostRatio
	}
	verdict := "MET"
	switch {
	case !measured:
		verdict, good = "NOT MEASURED", false
	case !good:
		verdict = "MISSED"
	}
	fmt.Printf("goal: at most %.0f queries/s, below %.0f %% of a core, and no more than %.2f times as many queries with full tables: %s\n",
		mostQueries, 100*mostCPU, mostRatio, verdict)
	return good
}
