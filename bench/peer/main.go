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
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/salvor-ha/salvor/bench/recovery/contest"
	"github.com/salvor-ha/salvor/test/openstack/lab"
)

type options struct {
	instances []int
	runs      int
	defaults  int
	traces    string
	binary    string
}

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			os.Exit(0)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
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

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("peer", flag.ContinueOnError)
	counts := f.String("instances", "5,20", "numbers of instances on the dead host")
	f.IntVar(&o.runs, "runs", 3, "recoveries of each contestant for each number")
	f.IntVar(&o.defaults, "defaults", 1, "of these, recoveries of Masakari with its defaults, which take 5 minutes each; 0 for none")
	f.StringVar(&o.traces, "traces", "", "a folder for a file per recovery, with every call that the cloud got")
	f.StringVar(&o.binary, "salvor", "", "a salvor that is built already, instead of one built of this tree")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	for _, text := range strings.Split(*counts, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return o, fmt.Errorf("--instances %s: numbers from 1, with commas", *counts)
		}
		o.instances = append(o.instances, n)
	}
	if o.runs < 1 || o.defaults < 0 {
		return o, errors.New("--runs is a number from 1, --defaults from 0")
	}
	if o.traces != "" {
		return o, os.MkdirAll(o.traces, 0o700)
	}
	return o, nil
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
	binary := o.binary
	if binary == "" {
		if binary, err = contest.BuildSalvor(ctx, dir); err != nil {
			return nil, err
		}
	}
	entrants := append([]contest.Entrant{{Who: "salvor, defaults", Runs: o.runs,
		Make: func(ctx context.Context, c contest.Cloud) (contest.Contestant, error) {
			return contest.NewSalvor(ctx, c, binary)
		}},
	}, contest.Masakaris(o.runs, o.defaults)...)
	for _, count := range o.instances {
		all, err := contest.Race(ctx, c, count, o.runs, o.traces, entrants...)
		rows = append(rows, row{count: count, salvor: all[0], peers: all[1:]})
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

func first(s contest.Sample) time.Duration   { return s.First }
func all(s contest.Sample) time.Duration     { return s.First + s.Moved }
func settled(s contest.Sample) time.Duration { return s.Settled }

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
				fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%s\t%.1f\t%s\t%d\t%s\n", r.count, s.Who, len(s.Samples), s.Spread(first), s.Spread(all),
					s.Median(all).Seconds()/r.salvor.Median(all).Seconds(), s.Spread(settled), s.Calls(), s.Loads())
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
			if len(s.Samples) > 0 && s.Median(all) <= r.salvor.Median(all) {
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
