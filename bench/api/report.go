package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/salvor-ha/salvor/bench/internal/gauge"
)

// goal is how many times the rate of the faster Masakari salvor's must be, for each kind of request.
const goal = 20.0

// ratio is salvor's rate to another contestant's in the same round: median, least, greatest.
func (r result) ratio(contestant int) (median, least, greatest float64) {
	return gauge.Spread(r.rounds, func(round []sample) float64 { return round[0].Rate / round[contestant].Rate })
}

// worst is the ratio to the fastest contestant.
func (r result) worst() float64 {
	worst, _, _ := r.ratio(1)
	for i := 2; i < len(r.names); i++ {
		median, _, _ := r.ratio(i)
		worst = min(worst, median)
	}
	return worst
}

// cpu is the median of the processor's time for one request.
func (r result) cpu(contestant, part int) float64 {
	return gauge.Median(r.rounds, func(round []sample) float64 { return float64(round[contestant].cpu[part].Nanoseconds()) / 1e6 })
}

// cpuRatio is how many times salvor's time another contestant takes, the database server and the client included: what two
// processors that do nothing else would show, whatever others do here.
func (r result) cpuRatio(contestant int) float64 {
	var ours, theirs float64
	for part := range 3 {
		ours += r.cpu(0, part)
		theirs += r.cpu(contestant, part)
	}
	return theirs / ours
}

func (r result) p99(contestant int) time.Duration {
	var all []time.Duration
	for _, round := range r.rounds {
		all = append(all, round[contestant].Took...)
	}
	return gauge.Quantile(all, 0.99)
}

// report writes the table and, if it may be judged, the verdict, and reports whether the goal was met.
func report(w io.Writer, results []result, judged bool) bool {
	fmt.Fprintln(w, "Medians; the ratio is salvor's rate to that one's in the same round, median (least–greatest). CPU time of one request in ms: api + database server + client.")
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "request\t\tratio\trequests/s\tp99\tCPU\tits ratio")
	var misses []string
	compared := false
	for _, r := range results {
		for i, name := range r.names {
			ratio, cpuRatio := "", ""
			if i > 0 {
				median, least, greatest := r.ratio(i)
				ratio, cpuRatio = fmt.Sprintf("%.3g (%.3g–%.3g)", median, least, greatest), fmt.Sprintf("%.3g", r.cpuRatio(i))
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%.0f\t%.1f ms\t%.3f + %.3f + %.3f\t%s\n", r.request, name, ratio,
				gauge.Median(r.rounds, func(round []sample) float64 { return round[i].Rate }), gauge.Millis(r.p99(i)), r.cpu(i, 0), r.cpu(i, 1), r.cpu(i, 2), cpuRatio)
		}
		if judged && len(r.names) > 1 {
			compared = true
			if worst := r.worst(); worst < goal {
				misses = append(misses, fmt.Sprintf("%s: %.1f", r.request, worst))
			}
		}
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	switch {
	case !compared:
		fmt.Fprintln(w, "nothing but salvor measured, or two of it: no verdict")
	case len(misses) > 0:
		fmt.Fprintf(w, "MISSED: each ≥ %.0f × the rate of the faster Masakari: %s\n", goal, strings.Join(misses, "; "))
	default:
		fmt.Fprintf(w, "MET: each ≥ %.0f × the rate of the faster Masakari\n", goal)
	}
	return compared && len(misses) == 0
}
