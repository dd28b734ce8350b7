// Recovery measures how fast salvor recovers a dead host's instances, against a bare loop with the same calls on the same Nova:
// a real one (test/openstack/lab) and a simulated one. See bench/README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/salvor-ha/salvor/test/openstack/lab"
)

type options struct {
	nova        string
	instances   []int
	runs        int
	masakari    bool
	concurrency int
	traces      string
	binary      string
}

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rows, err := benchmark(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "recovery:", err)
		os.Exit(1)
	}
	if !print(os.Stdout, rows) {
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("recovery", flag.ContinueOnError)
	f.StringVar(&o.nova, "nova", "both", "which Nova: sim, lab (a real one; root on Debian) or both")
	counts := f.String("instances", "5,20", "numbers of instances on the dead host")
	f.IntVar(&o.runs, "runs", 5, "recoveries of each contestant for each number")
	f.BoolVar(&o.masakari, "masakari", false, "also measure Debian's Masakari on the lab, with its defaults (5 minutes a run, once) and at its best")
	f.IntVar(&o.concurrency, "concurrency", 32, "the most calls to Nova at a time: salvor's nova_concurrency_max, and the bare loop's limit")
	f.StringVar(&o.traces, "traces", "", "a folder for a file per recovery, with every call that the cloud got")
	f.StringVar(&o.binary, "salvor", "", "a salvor that is built already, instead of one built of this tree")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.nova != "sim" && o.nova != "lab" && o.nova != "both" {
		return o, fmt.Errorf("--nova %s: sim, lab or both", o.nova)
	}
	for _, text := range strings.Split(*counts, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return o, fmt.Errorf("--instances %s: numbers from 1, with commas", *counts)
		}
		o.instances = append(o.instances, n)
	}
	if o.runs < 1 || o.concurrency < 1 {
		return o, errors.New("--runs and --concurrency are numbers from 1")
	}
	if o.traces != "" {
		return o, os.MkdirAll(o.traces, 0o700)
	}
	return o, nil
}

func benchmark(ctx context.Context, o options) (rows []row, err error) {
	dir, err := os.MkdirTemp("", "bench-recovery-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary := o.binary
	if binary == "" {
		if binary, err = buildSalvor(ctx, dir); err != nil {
			return nil, err
		}
	}
	kinds := map[string]func() (cloud, error){
		"sim": newSimCloud,
		"lab": func() (cloud, error) { return newRealCloud(ctx) },
	}
	for _, kind := range []string{"sim", "lab"} {
		if o.nova != kind && o.nova != "both" {
			continue
		}
		c, err := kinds[kind]()
		var unavailable *lab.UnavailableError
		if errors.As(err, &unavailable) && o.nova == "both" {
			fmt.Fprintln(os.Stderr, "SKIPPED:", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		more, err := onCloud(ctx, o, c, binary)
		rows = append(rows, more...)
		// The lab is left clean even when the benchmark is interrupted.
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
		err = errors.Join(err, c.close(clean))
		cancel()
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// entrant makes a contestant anew for a run.
type entrant struct {
	who  string
	runs int
	make func(ctx context.Context, c cloud) (contestant, error)
}

func onCloud(ctx context.Context, o options, c cloud, binary string) ([]row, error) {
	entrants := []entrant{
		{"salvor", o.runs, func(ctx context.Context, c cloud) (contestant, error) {
			return newSalvor(ctx, c, binary, o.concurrency)
		}},
		{"bare", o.runs, func(ctx context.Context, c cloud) (contestant, error) { return newBare(ctx, c, o.concurrency) }},
	}
	if real, ok := c.(*realCloud); ok && o.masakari {
		entrants = append(entrants, masakaris(real, o.runs)...)
	}
	var rows []row
	for _, count := range o.instances {
		all := make([]series, len(entrants))
		for i, e := range entrants {
			all[i].who = e.who
		}
		for n := range o.runs {
			// In turn, so that a drift of the machine is shared.
			for i, e := range entrants {
				if n >= e.runs {
					continue
				}
				s, err := once(ctx, o, c, count, n, e)
				if err != nil {
					return nil, fmt.Errorf("%s on %s, %d instances: %w", e.who, c.name(), count, err)
				}
				all[i].samples = append(all[i].samples, s)
				fmt.Fprintf(os.Stderr, "%s %s, %d instances, run %d: first order after %.2f s (own %.2f s), all moved %.2f s later, settled after %.2f s, %d calls\n",
					time.Now().Format(time.TimeOnly), e.who+" on "+c.name(), count, n+1, s.first.Seconds(), s.own.Seconds(), s.moved.Seconds(), s.settled.Seconds(), s.calls)
			}
		}
		rows = append(rows, row{cloud: c.name(), count: count, salvor: all[0], bare: all[1], others: all[2:]})
	}
	return rows, nil
}

func once(ctx context.Context, o options, c cloud, count, n int, e entrant) (sample, error) {
	if err := c.prepare(ctx, count); err != nil {
		return sample{}, err
	}
	who, err := e.make(ctx, c)
	if err != nil {
		return sample{}, err
	}
	trace := ""
	if o.traces != "" {
		trace = filepath.Join(o.traces, fmt.Sprintf("%s-%d-%s-%d", c.name(), count, strings.Fields(e.who)[0], n+1))
	}
	s, err := measure(ctx, c, count, who, trace)
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return s, errors.Join(err, who.close(clean))
}
