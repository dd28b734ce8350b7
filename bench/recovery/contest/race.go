package contest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Entrant makes a contestant anew for a run.
type Entrant struct {
	Who  string
	Runs int
	Make func(ctx context.Context, c Cloud) (Contestant, error)
	// MayFail: that it does not recover all is counted, not an error of the race.
	MayFail bool
}

// Race lets the entrants recover the same number of instances, at most runs times each, in turn, so that a drift of the machine
// is shared. Each recovery's calls go to a file in the folder traces, unless that is "". With an error come the samples up to it.
func Race(ctx context.Context, c Cloud, count, runs int, traces string, entrants ...Entrant) ([]Series, error) {
	all := make([]Series, len(entrants))
	for i, e := range entrants {
		all[i].Who = e.Who
	}
	for n := range runs {
		for i, e := range entrants {
			if n >= e.Runs {
				continue
			}
			s, err := once(ctx, c, count, n, traces, e)
			if err != nil && e.MayFail && ctx.Err() == nil {
				all[i].Failed++
				fmt.Fprintf(os.Stderr, "%s %s on %s, %d instances, run %d: failed: %v\n", time.Now().Format(time.TimeOnly), e.Who, c.Name(), count, n+1, err)
				continue
			}
			if err != nil {
				return all, fmt.Errorf("%s on %s, %d instances: %w", e.Who, c.Name(), count, err)
			}
			all[i].Samples = append(all[i].Samples, s)
			fmt.Fprintf(os.Stderr, "%s %s, %d instances, run %d: first order after %.2f s (own %.2f s), all moved %.2f s later, settled after %.2f s, %d calls, load %.0f\n",
				time.Now().Format(time.TimeOnly), e.Who+" on "+c.Name(), count, n+1, s.First.Seconds(), s.Own.Seconds(), s.Moved.Seconds(), s.Settled.Seconds(), s.Calls, s.Load)
		}
	}
	return all, nil
}

func once(ctx context.Context, c Cloud, count, n int, traces string, e Entrant) (Sample, error) {
	if err := c.prepare(ctx, count); err != nil {
		return Sample{}, err
	}
	who, err := e.Make(ctx, c)
	if err != nil {
		return Sample{}, err
	}
	trace := ""
	if traces != "" {
		trace = filepath.Join(traces, fmt.Sprintf("%s-%d-%s-%d", c.Name(), count, strings.NewReplacer(",", "", " ", "-").Replace(e.Who), n+1))
	}
	s, err := measure(ctx, c, count, who, trace)
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return s, errors.Join(err, who.Close(clean))
}

// Series are the samples of one contestant on one cloud with one number of instances.
type Series struct {
	Who     string
	Samples []Sample
	Failed  int // recoveries, not among the samples
}

func (s Series) sorted(of func(Sample) time.Duration) []time.Duration {
	var all []time.Duration
	for _, sample := range s.Samples {
		all = append(all, of(sample))
	}
	slices.Sort(all)
	return all
}

// Median of what of takes from each sample; 0 without any.
func (s Series) Median(of func(Sample) time.Duration) time.Duration {
	all := s.sorted(of)
	if len(all) == 0 {
		return 0
	}
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// Spread is the median with the least and the greatest, in seconds.
func (s Series) Spread(of func(Sample) time.Duration) string {
	all := s.sorted(of)
	if len(all) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", s.Median(of).Seconds(), all[0].Seconds(), all[len(all)-1].Seconds())
}

// Loads are the least and the greatest load of the machine.
func (s Series) Loads() string {
	var all []float64
	for _, sample := range s.Samples {
		all = append(all, sample.Load)
	}
	return fmt.Sprintf("%.0f–%.0f", slices.Min(all), slices.Max(all))
}

// Calls is the median of the calls that the cloud got.
func (s Series) Calls() int {
	var all []int
	for _, sample := range s.Samples {
		all = append(all, sample.Calls)
	}
	slices.SortFunc(all, cmp.Compare)
	return all[len(all)/2]
}
