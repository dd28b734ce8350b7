package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// goal is how many times Masakari's rate salvor's must be, for each kind of request.
const goal = 20.0

func (v verb) ratios() []float64 {
	var all []float64
	for i := range v.salvor {
		all = append(all, v.salvor[i].rate/v.them[i].rate)
	}
	slices.Sort(all)
	return all
}

func median(all []float64) float64 { return (all[(len(all)-1)/2] + all[len(all)/2]) / 2 }

func rates(samples []sample) float64 {
	var all []float64
	for _, s := range samples {
		all = append(all, s.rate)
	}
	slices.Sort(all)
	return median(all)
}

func p99(samples []sample) time.Duration {
	var all []time.Duration
	for _, s := range samples {
		all = append(all, s.took...)
	}
	slices.Sort(all)
	return all[len(all)*99/100]
}

// report writes the table and the verdict, and reports whether the goal was met.
func report(w io.Writer, verbs []verb) bool {
	fmt.Fprintln(w, "Requests a second, medians; the ratio is of rounds next to each other, median (least–greatest).")
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "request\tratio\tsalvor/s\tMasakari/s\tsalvor p99\tMasakari p99")
	var misses []string
	for _, v := range verbs {
		all := v.ratios()
		m := median(all)
		fmt.Fprintf(t, "%s\t%.0f (%.0f–%.0f)\t%.0f\t%.0f\t%.1f ms\t%.1f ms\n", v.name, m, all[0], all[len(all)-1], rates(v.salvor), rates(v.them), ms(p99(v.salvor)), ms(p99(v.them)))
		if m < goal {
			misses = append(misses, fmt.Sprintf("%s: %.1f", v.name, m))
		}
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	if len(misses) > 0 {
		fmt.Fprintf(w, "MISSED: each ≥ %.0f × Masakari's rate: %s\n", goal, strings.Join(misses, "; "))
		return false
	}
	fmt.Fprintf(w, "MET: each ≥ %.0f × Masakari's rate\n", goal)
	return true
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
