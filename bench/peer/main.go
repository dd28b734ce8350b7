// Peer measures salvor beside Debian's Masakari on the same real OpenStack (test/openstack/lab): how long from the accepted report
// until all instances of the dead host are active elsewhere. See bench/README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/salvor-ha/salvor/bench/internal/gauge"
	"github.com/salvor-ha/salvor/bench/recovery/contest"
	"github.com/salvor-ha/salvor/test/openstack/lab"
)

type options struct {
	contest.Options
	defaults int
}

func main() {
	o := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rows, err := benchmark(ctx, o)
	var unavailable *lab.UnavailableError
	if errors.As(err, &unavailable) {
		fmt.Println("SKIPPED:", err)
		return
	}
	table(os.Stdout, rows) // also an incomplete one: it took long enough
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
	if !verdict(os.Stdout, rows) {
		os.Exit(1)
	}
}

func parse() options {
	var o options
	f := flag.NewFlagSet("peer", flag.ContinueOnError)
	o.Flags(f, 3)
	f.IntVar(&o.defaults, "defaults", 1, "of the runs, recoveries of Masakari with its defaults, which take 5 minutes each; 0 for none")
	gauge.Parse(f, o.Check, func() error {
		if o.defaults < 0 {
			return errors.New("--defaults is a number from 0")
		}
		return nil
	})
	return o
}

// row is what was measured with one number of instances.
type row struct {
	count  int
	salvor contest.Series
	peers  []contest.Series
}

func benchmark(ctx context.Context, o options) (rows []row, err error) {
	c, err := contest.NewLab(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { // left clean even when interrupted
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
		defer cancel()
		err = errors.Join(err, c.Close(clean))
	}()
	dir, err := os.MkdirTemp("", "bench-peer-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := o.Build(ctx, dir); err != nil {
		return nil, err
	}
	entrants := append([]contest.Entrant{{Who: "salvor, defaults", Runs: o.Runs,
		Make: func(ctx context.Context, c contest.Cloud) (contest.Contestant, error) {
			return contest.NewSalvor(ctx, c, o.Binary)
		}},
	}, contest.Masakaris(o.Runs, o.defaults)...)
	for _, count := range o.Instances {
		all, err := contest.Race(ctx, c, count, o.Options, entrants...)
		rows = append(rows, row{count: count, salvor: all[0], peers: all[1:]})
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// table writes what was measured.
func table(w io.Writer, rows []row) {
	fmt.Fprintln(w, "Seconds from the 202, median (least–greatest). first: to the first evacuate order; all: until the last instance was ACTIVE")
	fmt.Fprintln(w, "elsewhere; settled: to finished; times: all, by salvor's; calls: to the cloud until then; load: of the machine.")
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "instances\twho\truns\tfirst\tall\ttimes\tsettled\tcalls\tload")
	for _, r := range rows {
		for _, s := range append([]contest.Series{r.salvor}, r.peers...) {
			if s.Failed > 0 {
				fmt.Fprintf(t, "%d\t%s\t%d failed\n", r.count, s.Who, s.Failed)
			}
			if len(s.Samples) > 0 {
				fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%s\t%.1f\t%s\t%.0f\t%s\n", r.count, s.Who, len(s.Samples), s.Spread(contest.First), s.Spread(contest.All),
					s.Median(contest.All)/r.salvor.Median(contest.All), s.Spread(contest.Settled), s.Calls(), s.Loads())
			}
		}
	}
	_ = t.Flush()
	fmt.Fprintln(w)
}

// verdict writes, and reports, whether salvor was faster than each peer.
func verdict(w io.Writer, rows []row) bool {
	var misses []string
	for _, r := range rows {
		for _, s := range r.peers {
			if len(s.Samples) > 0 && s.Median(contest.All) <= r.salvor.Median(contest.All) {
				misses = append(misses, fmt.Sprintf("%d instances: %s was faster", r.count, s.Who))
			}
		}
	}
	if len(misses) > 0 {
		fmt.Fprintln(w, "MISSED: "+strings.Join(misses, "; "))
		return false
	}
	fmt.Fprintln(w, "MET: salvor was faster than Masakari with its defaults, and at its best")
	return true
}
