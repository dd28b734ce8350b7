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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/salvor-ha/salvor/bench/recovery/contest"
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
		if binary, err = contest.BuildSalvor(ctx, dir); err != nil {
			return nil, err
		}
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
		more, err := onCloud(ctx, o, c, binary)
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

func onCloud(ctx context.Context, o options, c contest.Cloud, binary string) ([]row, error) {
	entrants := []contest.Entrant{
		{Who: "salvor", Runs: o.runs, Make: func(ctx context.Context, c contest.Cloud) (contest.Contestant, error) {
			return contest.NewSalvor(ctx, c, binary, fmt.Sprintf("nova_concurrency_max = %d", o.concurrency))
		}},
		{Who: "bare", Runs: o.runs, Make: func(ctx context.Context, c contest.Cloud) (contest.Contestant, error) {
			return newBare(ctx, c, o.concurrency)
		}},
	}
	if c.Name() == "lab" && o.masakari {
		entrants = append(entrants, contest.Masakaris(o.runs, 1)...)
	}
	var rows []row
	for _, count := range o.instances {
		all, err := contest.Race(ctx, c, count, o.runs, o.traces, entrants...)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{cloud: c.Name(), count: count, salvor: all[0], bare: all[1], others: all[2:]})
	}
	return rows, nil
}
