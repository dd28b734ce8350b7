package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/salvor-ha/salvor/bench/internal/gauge"
)

// The goals (bench/README.md).
const (
	goalP99    = 20 * time.Millisecond
	goalMemory = 150.0 // MB
)

// result is what was measured on one database.
type result struct {
	database  string
	lists     []list
	latencies [][][]time.Duration // of each list, each round, each request
	memory    float64             // MB, when each list had been asked for
	// after four clients had paged through, a thousand rows at a time
	memoryAfter float64
	paged       int64
	skipped     string
	ok          bool
}

// p99 is the median of the rounds' 99th percentiles: the machine is shared, and another's burst is in one round.
func p99(rounds [][]time.Duration) time.Duration {
	var all []time.Duration
	for _, r := range rounds {
		all = append(all, gauge.Quantile(r, 0.99))
	}
	return gauge.Quantile(all, 0.5)
}

func p50(rounds [][]time.Duration) time.Duration {
	return gauge.Quantile(slices.Concat(rounds...), 0.5)
}

// report writes the table and the verdict, and reports whether the goals were met.
func report(w io.Writer, o options, results []result) bool {
	fmt.Fprintf(w, "%d notifications, %d vmoves, pages of %d; ms: p99 (median of %d rounds of %d requests), p50.\n\n", o.rows, 2*o.rows+500, pageSize, o.rounds, o.requests)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var misses, met, measured []string
	header := "list"
	var good []result
	for _, r := range results {
		switch {
		case r.skipped != "":
			fmt.Fprintf(w, "%s: SKIPPED: %s\n", r.database, r.skipped)
		case !r.ok:
			misses = append(misses, r.database+": could not be measured")
		default:
			good = append(good, r)
			header += "\t" + r.database
			measured = append(measured, r.database)
		}
	}
	fmt.Fprintln(t, header)
	if len(good) > 0 {
		for i, l := range good[0].lists {
			line := l.name
			for _, r := range good {
				p := p99(r.latencies[i])
				line += fmt.Sprintf("\t%.1f, %.1f", gauge.Millis(p), gauge.Millis(p50(r.latencies[i])))
				if p >= goalP99 {
					misses = append(misses, fmt.Sprintf("%s, %s: %.1f ms", r.database, l.name, gauge.Millis(p)))
				}
			}
			fmt.Fprintln(t, line)
		}
	}
	line := "memory of the api, MB: asked, paged through"
	for _, r := range good {
		line += fmt.Sprintf("\t%.0f, %.0f", r.memory, r.memoryAfter)
		if r.memoryAfter >= goalMemory {
			misses = append(misses, fmt.Sprintf("%s: %.0f MB", r.database, r.memoryAfter))
		}
		met = append(met, fmt.Sprintf("%s %d", r.database, r.paged))
	}
	fmt.Fprintln(t, line)
	_ = t.Flush()
	fmt.Fprintf(w, "\nRows paged through at the end: %s\n\n", strings.Join(met, ", "))
	switch {
	case len(misses) > 0:
		fmt.Fprintf(w, "MISSED: p99 < %s and < %.0f MB: %s\n", goalP99, goalMemory, strings.Join(misses, "; "))
	case len(measured) == 0:
		fmt.Fprintln(w, "SKIPPED: no database answers")
	default:
		fmt.Fprintf(w, "MET: each list p99 < %s, api < %.0f MB, with %d notifications on %s\n", goalP99, goalMemory, o.rows, strings.Join(measured, ", "))
		return true
	}
	return false
}
