package contest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/bench/internal/gauge"
)

// Entrant makes a contestant anew for a run.
type Entrant struct {
	Who  string
	Runs int
	Make func(ctx context.Context, c Cloud) (Contestant, error)
	// MayFail: that it does not recover all is counted, not an error of the race.
	MayFail bool
}

// Race lets the entrants recover the same number of instances, at most o.Runs times each, in turn, so that a drift of the machine
// is shared. With an error come the samples up to it.
func Race(ctx context.Context, c Cloud, count int, o Options, entrants ...Entrant) ([]Series, error) {
	all := make([]Series, len(entrants))
	for i, e := range entrants {
		all[i].Who = e.Who
	}
	for n := range o.Runs {
		for i, e := range entrants {
			if n >= e.Runs {
				continue
			}
			what := fmt.Sprintf("%s on %s, %d instances, run %d", e.Who, c.Name(), count, n+1)
			s, err := once(ctx, c, count, n, o.Traces, e)
			if err != nil && e.MayFail && ctx.Err() == nil {
				all[i].Failed++
				gauge.Say("%s: failed: %v", what, err)
				continue
			}
			if err != nil {
				return all, fmt.Errorf("%s: %w", what, err)
			}
			all[i].Samples = append(all[i].Samples, s)
			gauge.Say("%s: first order after %.2f s (own %.2f s), all moved %.2f s later, settled after %.2f s, %d calls, load %.0f",
				what, s.First.Seconds(), s.Own.Seconds(), s.Moved.Seconds(), s.Settled.Seconds(), s.Calls, s.Load)
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

// Median of a time of each sample, in seconds; 0 without any.
func (s Series) Median(of func(Sample) time.Duration) float64 {
	if len(s.Samples) == 0 {
		return 0
	}
	return gauge.Median(s.Samples, func(sample Sample) float64 { return of(sample).Seconds() })
}

// Spread is the median with the least and the greatest, in seconds; of a single sample, that.
func (s Series) Spread(of func(Sample) time.Duration) string {
	if len(s.Samples) == 0 {
		return "-"
	}
	median, least, greatest := gauge.Spread(s.Samples, func(sample Sample) float64 { return of(sample).Seconds() })
	if len(s.Samples) == 1 {
		return fmt.Sprintf("%.2f", median)
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", median, least, greatest)
}

// Loads are the least and the greatest load of the machine.
func (s Series) Loads() string {
	if len(s.Samples) == 0 {
		return "-"
	}
	_, least, greatest := gauge.Spread(s.Samples, func(sample Sample) float64 { return sample.Load })
	return fmt.Sprintf("%.0f–%.0f", least, greatest)
}

// Calls is the median of the calls that the cloud got.
func (s Series) Calls() float64 {
	if len(s.Samples) == 0 {
		return 0
	}
	return gauge.Median(s.Samples, func(sample Sample) float64 { return float64(sample.Calls) })
}
