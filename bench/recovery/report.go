package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// The goals (DESIGN section 6).
const (
	goalFirst = time.Second // from the 202 to the first order, beside the cloud's own answers
	goalRatio = 1.10        // salvor against the bare limit
)

// series are the samples of one contestant on one cloud with one number of instances.
type series struct {
	who     string
	samples []sample
}

// row is what was measured on one cloud with one number of instances.
type row struct {
	cloud        string
	count        int
	salvor, bare series
	others       []series // without a goal
}

func (r row) ratio() float64 {
	return r.salvor.median(moved).Seconds() / r.bare.median(moved).Seconds()
}

// verdict is nil for a row that meets the goals, else what it misses.
func (r row) verdict() []string {
	var misses []string
	if own := r.salvor.median(own); own > goalFirst {
		misses = append(misses, fmt.Sprintf("%s, %d: first order %.2f s + the cloud's answers, goal %s", r.cloud, r.count, own.Seconds(), goalFirst))
	}
	if ratio := r.ratio(); ratio > goalRatio {
		misses = append(misses, fmt.Sprintf("%s, %d: %.2f times the bare limit, goal %.2f", r.cloud, r.count, ratio, goalRatio))
	}
	return misses
}

func first(s sample) time.Duration   { return s.first }
func own(s sample) time.Duration     { return s.own }
func moved(s sample) time.Duration   { return s.moved }
func settled(s sample) time.Duration { return s.settled }

func (s series) sorted(of func(sample) time.Duration) []time.Duration {
	var all []time.Duration
	for _, sample := range s.samples {
		all = append(all, of(sample))
	}
	slices.Sort(all)
	return all
}

func (s series) median(of func(sample) time.Duration) time.Duration {
	all := s.sorted(of)
	if len(all) == 0 {
		return 0
	}
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// spread is the median with the least and the greatest, in seconds.
func (s series) spread(of func(sample) time.Duration) string {
	all := s.sorted(of)
	if len(all) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", s.median(of).Seconds(), all[0].Seconds(), all[len(all)-1].Seconds())
}

func (s series) calls() int {
	var all []int
	for _, sample := range s.samples {
		all = append(all, sample.calls)
	}
	slices.SortFunc(all, cmp.Compare)
	return all[len(all)/2]
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
		for _, s := range append([]series{r.salvor, r.bare}, r.others...) {
			ratio, ownTime := "", "-"
			if s.who != r.bare.who {
				ratio, ownTime = fmt.Sprintf("%.2f", s.median(moved).Seconds()/r.bare.median(moved).Seconds()), s.spread(own)
			}
			fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%d\n", r.cloud, r.count, s.who, len(s.samples),
				s.spread(first), ownTime, s.spread(moved), ratio, s.spread(settled), s.calls())
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
