package contest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Options are those of each benchmark that holds a race.
type Options struct {
	Instances []int  // on the dead host, race by race
	Runs      int    // of each contestant in a race
	Traces    string // folder for a file per recovery, "" for none
	Binary    string // a salvor that is built already, "" for this tree's

	counts string
}

// Flags adds the options to a command line, with that many runs unless it says otherwise.
func (o *Options) Flags(f *flag.FlagSet, runs int) {
	f.StringVar(&o.counts, "instances", "5,20", "numbers of instances on the dead host")
	f.IntVar(&o.Runs, "runs", runs, "recoveries of each contestant for each number")
	f.StringVar(&o.Traces, "traces", "", "a folder for a file per recovery, with every call that the cloud got")
	f.StringVar(&o.Binary, "salvor", "", "a salvor that is built already, instead of one built of this tree")
}

// Check reads what the command line said, and makes the folder of traces.
func (o *Options) Check() error {
	for _, text := range strings.Split(o.counts, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return fmt.Errorf("--instances %s: numbers from 1, with commas", o.counts)
		}
		o.Instances = append(o.Instances, n)
	}
	if o.Runs < 1 {
		return errors.New("--runs is a number from 1")
	}
	if o.Traces != "" {
		return os.MkdirAll(o.Traces, 0o700)
	}
	return nil
}

// Build makes sure that there is a Binary; one of this tree is built into dir.
func (o *Options) Build(ctx context.Context, dir string) (err error) {
	if o.Binary == "" {
		o.Binary, err = buildSalvor(ctx, dir)
	}
	return err
}
