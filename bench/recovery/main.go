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
	"syscall"
	"time"

	"github.com/salvor-ha/salvor/bench/internal/gauge"
	"github.com/salvor-ha/salvor/bench/recovery/contest"
	"github.com/salvor-ha/salvor/test/openstack/lab"
)

type options struct {
	contest.Options
	nova        string
	concurrency int
}

func main() {
	o := parse()
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

func parse() options {
	var o options
	f := flag.NewFlagSet("recovery", flag.ContinueOnError)
	o.Flags(f, 5)
	f.StringVar(&o.nova, "nova", "both", "which Nova: sim, lab (a real one; root on Debian) or both")
	f.IntVar(&o.concurrency, "concurrency", 32, "the most calls to Nova at a time: salvor's nova_concurrency_max, and the bare loop's limit")
	gauge.Parse(f, o.Check, func() error {
		if o.nova != "sim" && o.nova != "lab" && o.nova != "both" {
			return fmt.Errorf("--nova %s: sim, lab or both", o.nova)
		}
		if o.concurrency < 1 {
			return errors.New("--concurrency is a number from 1")
		}
		return nil
	})
	return o
}

func benchmark(ctx context.Context, o options) (rows []row, err error) {
	dir, err := os.MkdirTemp("", "bench-recovery-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := o.Build(ctx, dir); err != nil {
		return nil, err
	}
	kinds := map[string]func() (contest.Cloud, error){
		"sim": contest.NewSim,
		"lab": func() (contest.Cloud, error) { return contest.NewLab(ctx) },
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
		more, err := onCloud(ctx, o, c)
		rows = append(rows, more...)
		// The lab is left clean even when the benchmark is interrupted.
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
		err = errors.Join(err, c.Close(clean))
		cancel()
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func onCloud(ctx context.Context, o options, c contest.Cloud) ([]row, error) {
	entrants := []contest.Entrant{
		{Who: "salvor", Runs: o.Runs, Make: func(ctx context.Context, c contest.Cloud) (contest.Contestant, error) {
			return contest.NewSalvor(ctx, c, o.Binary, fmt.Sprintf("nova_concurrency_max = %d", o.concurrency))
		}},
		{Who: "bare", Runs: o.Runs, Make: func(ctx context.Context, c contest.Cloud) (contest.Contestant, error) {
			return newBare(ctx, c, o.concurrency)
		}},
	}
	var rows []row
	for _, count := range o.Instances {
		all, err := contest.Race(ctx, c, count, o.Options, entrants...)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{cloud: c.Name(), count: count, salvor: all[0], bare: all[1]})
	}
	return rows, nil
}
