package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// The goals (bench/README.md).
const (
	goalTime   = 1.15  // times the time that the cloud itself needs
	goalMemory = 300.0 // of every engine, MB
	goalLeast  = 0.25  // of the recoveries, for each of three engines
	goalMost   = 0.42
)

// verdict is what a failure misses.
func (r result) verdict(o options) []string {
	if r.skipped != "" || !r.ok {
		return []string{r.name + ": could not be measured"}
	}
	var misses []string
	miss := func(format string, args ...any) { misses = append(misses, r.name+": "+fmt.Sprintf(format, args...)) }
	for i, text := range r.wrong {
		if i == 3 {
			miss("and %d more", len(r.wrong)-i)
			break
		}
		miss("%s", text)
	}
	sum := 0
	for i, e := range r.engines {
		sum += e.recoveries
		if e.peak >= goalMemory {
			miss("engine %d took %.0f MB, goal %.0f", i+1, e.peak, goalMemory)
		}
	}
	if least, most := share(goalLeast, o.engines), share(goalMost, o.engines); r.hosts >= fairFrom {
		for i, e := range r.engines {
			if part := float64(e.recoveries) / float64(max(1, sum)); part < least || part > most {
				miss("engine %d had %.0f %% of the recoveries, goal %.0f to %.0f", i+1, 100*part, 100*least, 100*most)
			}
		}
	}
	if r.brake {
		if r.held == 0 || r.held != r.released {
			miss("%d held by the brake, %d released", r.held, r.released)
		}
	} else if ratio := r.ratio(o); ratio > goalTime {
		miss("%.2f times the cloud's own time, goal %.2f", ratio, goalTime)
	}
	return misses
}

// fairFrom is how many recoveries it takes until a hash's shares mean something.
const fairFrom = 100

// share scales a share of three engines to n.
func share(of3 float64, n int) float64 { return min(1, of3*3/float64(n)) }

// ratio is the time from the first 202 until all had moved, by what the cloud needs at its rate.
func (r result) ratio(o options) float64 { return r.moved.Seconds() / (float64(r.instances) / o.rate) }

// report writes the tables and the verdict, and reports whether all goals were met.
func report(w io.Writer, o options, rows []result) bool {
	fmt.Fprintf(w, "%d of %d hosts with %d instances each die within %.0f s, each reported %.0f s later; the cloud evacuates %g a second, so %d take\n",
		o.hosts, 2*o.hosts, o.instances, o.within.Seconds(), o.noticed.Seconds(), o.rate, o.hosts*o.instances)
	fmt.Fprintf(w, "%.1f s at least. Seconds from the first report's 202: to the last 202, the last order, the last instance ACTIVE elsewhere, the last\n", o.least().Seconds())
	fmt.Fprintln(w, "notification's end. ratio: moved to what the cloud needs. CPU: seconds of all processes of a role.")
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "run\treported\tordered\tmoved\tratio\tsettled\trefused\theld\tnamed\tCPU engines\tdatabase\tapis\tsim\tstatements\ta second")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%.2f\t%.1f\t%d\t%d\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t%.0f\n", r.name, r.reported.Seconds(),
			r.ordered.Seconds(), r.moved.Seconds(), r.ratio(o), r.settled.Seconds(), r.refused, r.held, r.named, r.cpu["engines"].Seconds(),
			r.cpu["database"].Seconds(), r.cpu["api"].Seconds(), r.cpu["sim"].Seconds(), r.questions, float64(r.questions)/max(1, r.settled.Seconds()))
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "run\tengine\trecoveries\tshare\ttakeovers\tpeak MB\tCPU")
	for _, r := range rows {
		for i, e := range r.engines {
			fmt.Fprintf(t, "%s\t%d\t%d\t%.0f %%\t%d\t%.0f\t%.1f\n", r.name, i+1, e.recoveries, 100*float64(e.recoveries)/float64(max(1, r.hosts)), e.takeovers, e.peak, e.cpu.Seconds())
		}
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	var misses []string
	for _, r := range rows {
		if r.heldSays != "" {
			fmt.Fprintf(w, "held, for example: %s\n", r.heldSays)
		}
		misses = append(misses, r.verdict(o)...)
	}
	if len(misses) > 0 {
		fmt.Fprintln(w, "MISSED: "+strings.Join(misses, "; "))
		return false
	}
	fmt.Fprintf(w, "MET: all moved or named, one order each; at most %.2f times the cloud's own time; each engine below %.0f MB\n", goalTime, goalMemory)
	return true
}
