// Mass measures a mass failure in the simulated cloud: many hosts die within a minute, several engines over one MariaDB bring
// their instances back. See bench/README.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/bench/internal/gauge"
	"github.com/salvor-ha/salvor/internal/testkit"
)

type options struct {
	hosts      int
	instances  int
	rate       float64
	segmentOf  int
	engines    int
	apis       int
	within     time.Duration
	noticed    time.Duration
	grow       bool
	skipBrake  bool
	perfFolder string
}

func main() {
	o := parse()
	run := failure
	if o.grow {
		run = growth
	}
	if !run(o) {
		os.Exit(1)
	}
}

func parse() options {
	var o options
	f := flag.NewFlagSet("mass", flag.ContinueOnError)
	f.IntVar(&o.hosts, "hosts", 500, "hosts that die, of twice as many")
	f.IntVar(&o.instances, "instances", 50, "instances on each of them")
	f.Float64Var(&o.rate, "rate", 200, "evacuations a second that the cloud carries out")
	f.IntVar(&o.segmentOf, "segment", 100, "hosts of one segment")
	f.IntVar(&o.engines, "engines", 3, "engine processes")
	f.IntVar(&o.apis, "apis", 2, "api processes")
	f.DurationVar(&o.within, "within", 0, "time in which they die (default: half of the time that the cloud needs, at most a minute)")
	f.DurationVar(&o.noticed, "noticed", 5*time.Second, "how long after a death its monitor reports it")
	f.BoolVar(&o.grow, "grow", false, "instead: the same with 50, 100, 200 and 500 hosts, and what one instance costs")
	f.BoolVar(&o.skipBrake, "no-brake", false, "without the second failure, under the brake")
	f.StringVar(&o.perfFolder, "perf", "", "a folder for perf.data of the processes, one file for each run")
	gauge.Parse(f, func() error {
		if o.hosts < 2 || o.hosts > maxHosts || o.instances < 1 || o.rate <= 0 || o.segmentOf < 4 || o.engines < 1 || o.apis < 1 {
			return fmt.Errorf("numbers are positive, --hosts is from 2 to %d, --segment at least 4", maxHosts)
		}
		return nil
	})
	if o.within <= 0 {
		o.within = min(time.Minute, o.least()/2)
	}
	return o
}

// maxHosts is what one page of notifications shows.
const maxHosts = 1000

// least is how long the cloud needs for the instances, whoever orders.
func (o options) least() time.Duration {
	return time.Duration(float64(o.hosts*o.instances) / o.rate * float64(time.Second))
}

// failure lets the hosts die once with brake and rate off, and once with the brake on.
func failure(o options) bool {
	free := once("free", o, false)
	rows := []result{free}
	if !o.skipBrake && free.ok {
		rows = append(rows, once("brake", o, true))
	}
	return report(os.Stdout, o, rows)
}

// once is one failure in a world of its own.
func once(name string, o options, brake bool) result {
	r := result{name: name, brake: brake, hosts: o.hosts, instances: o.hosts * o.instances}
	r.skipped, r.ok = testkit.Alone(name, func(tb testing.TB) { newWorld(tb, o, brake).fail(&r) })
	return r
}
