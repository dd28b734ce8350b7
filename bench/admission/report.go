package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/salvor-ha/salvor/bench/internal/gauge"
)

// goal is how many times the raw transactions' rate the api must reach (bench/README.md).
const goal = 0.7

// sample is one round: durable things a second.
type sample struct{ api, store, raw float64 }

// row is what was measured on one database.
type row struct {
	database   string
	statements int
	samples    []sample
	skipped    string
	ok         bool
}

func (r row) ratio() (median, least, greatest float64) {
	return gauge.Spread(r.samples, func(s sample) float64 { return s.api / s.raw })
}

// report writes the table and the verdict, and reports whether the goal was met.
func report(w io.Writer, rows []row) bool {
	fmt.Fprintln(w, "Admitted a second, medians; ratios to raw transactions in the same round, median (least–greatest).")
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "database\tstatements\tratio\tapi\traw\tstore alone\tits ratio")
	var misses, met []string
	for _, r := range rows {
		switch {
		case r.skipped != "":
			fmt.Fprintf(t, "%s\t\t%s\t\t\t\t\n", r.database, "SKIPPED")
		case !r.ok || len(r.samples) == 0:
			misses = append(misses, r.database+": could not be measured")
		default:
			ratio, least, greatest := r.ratio()
			fmt.Fprintf(t, "%s\t%d\t%.2f (%.2f–%.2f)\t%.0f\t%.0f\t%.0f\t%.2f\n", r.database, r.statements, ratio, least, greatest,
				gauge.Median(r.samples, func(s sample) float64 { return s.api }), gauge.Median(r.samples, func(s sample) float64 { return s.raw }),
				gauge.Median(r.samples, func(s sample) float64 { return s.store }), gauge.Median(r.samples, func(s sample) float64 { return s.store / s.raw }))
			if ratio < goal {
				misses = append(misses, fmt.Sprintf("%s: %.2f", r.database, ratio))
			} else {
				met = append(met, r.database)
			}
		}
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	switch {
	case len(misses) > 0:
		fmt.Fprintf(w, "MISSED: admission through the api ≥ %.1f × raw transactions: %s\n", goal, strings.Join(misses, "; "))
	case len(met) == 0:
		fmt.Fprintln(w, "SKIPPED: no database answers")
	default:
		fmt.Fprintf(w, "MET: admission through the api ≥ %.1f × raw transactions with the same statements on %s\n", goal, strings.Join(met, ", "))
		return true
	}
	return false
}
