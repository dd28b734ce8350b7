package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/salvor-ha/salvor/bench/recovery/contest"
)

// The goals (bench/README.md).
const (
	goalFirst = time.Second // from the 202 to the first order, beside the cloud's own answers
	goalRatio = 1.10        // salvor against the bare limit
)

// row is what was measured on one cloud with one number of instances.
type row struct {
	cloud        string
	count        int
	salvor, bare contest.Series
}

func (r row) ratio() float64 {
	return r.salvor.Median(contest.Moved) / r.bare.Median(contest.Moved)
}

// verdict is nil for a row that meets the goals, else what it misses.
func (r row) verdict() []string {
	var misses []string
	if own := r.salvor.Median(contest.Own); own > goalFirst.Seconds() {
		misses = append(misses, fmt.Sprintf("%s, %d: first order %.2f s + the cloud's answers, goal %s", r.cloud, r.count, own, goalFirst))
	}
	if ratio := r.ratio(); ratio > goalRatio {
		misses = append(misses, fmt.Sprintf("%s, %d: %.2f times the bare limit, goal %.2f", r.cloud, r.count, ratio, goalRatio))
	}
	return misses
}

// print writes the table and the verdict, and reports whether all goals were met.
func print(w io.Writer, rows []row) bool {
	fmt.Fprintln(w, "Seconds, median (least–greatest). first: 202 to first evacuate order; own: of that, beside the cloud's own answers;")
	fmt.Fprintln(w, "moved: first order to the last instance ACTIVE elsewhere; settled: 202 to finished; calls: to the cloud, until moved.")
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "Nova\tinstances\twho\truns\tfirst\town\tmoved\tratio\tsettled\tcalls")
	var misses []string
	for _, r := range rows {
		misses = append(misses, r.verdict()...)
		for _, s := range []contest.Series{r.salvor, r.bare} {
			ratio, ownTime := "", "-"
			if s.Who != r.bare.Who {
				ratio, ownTime = fmt.Sprintf("%.2f", r.ratio()), s.Spread(contest.Own)
			}
			fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%.0f\n", r.cloud, r.count, s.Who, len(s.Samples),
				s.Spread(contest.First), ownTime, s.Spread(contest.Moved), ratio, s.Spread(contest.Settled), s.Calls())
		}
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	if len(misses) > 0 {
		fmt.Fprintln(w, "MISSED: "+strings.Join(misses, "; "))
		return false
	}
	fmt.Fprintf(w, "MET: first order ≤ %s + the cloud's answers, recovery ≤ %.2f × the bare limit\n", goalFirst, goalRatio)
	return true
}
