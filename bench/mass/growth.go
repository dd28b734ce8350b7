package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// goalGrowth is how much more one instance of the largest failure may cost than one of the smallest.
const goalGrowth = 1.15

// sizes are the failures that are compared, in hosts.
var sizes = []int{50, 100, 200, 500}

// growth lets more and more hosts die, brake and rate off.
func growth(o options) bool {
	var rows []result
	for _, hosts := range sizes {
		if hosts > o.hosts {
			break
		}
		sized := o
		sized.hosts = hosts
		sized.within = min(o.within, sized.least()/2)
		r := once(fmt.Sprintf("%d hosts", hosts), sized, false)
		rows = append(rows, r)
		if r.skipped != "" || !r.ok {
			break
		}
	}
	return reportGrowth(os.Stdout, rows)
}

// cost is what one instance took of something. That of the engines and of the simulator is shown beside the goal: each look at Nova's
// services is as long as the cloud is large, and the simulator, whose work is the same for each instance, shows what the machine adds.
type cost struct {
	name   string
	judged bool
	of     func(result) float64
}

func (r result) each(d time.Duration) float64 { return d.Seconds() * 1000 / float64(r.instances) }

var costs = []cost{
	{"ms", true, func(r result) float64 { return r.each(r.moved) }},
	{"statements", true, func(r result) float64 { return float64(r.questions) / float64(r.instances) }},
	{"CPU ms engines", false, func(r result) float64 { return r.each(r.cpu["engines"]) }},
	{"CPU ms database", true, func(r result) float64 { return r.each(r.cpu["database"]) }},
	{"CPU ms sim", false, func(r result) float64 { return r.each(r.cpu["sim"]) }},
}

// reportGrowth writes the table and the verdict, and reports whether time and the database's load did not grow.
func reportGrowth(w io.Writer, rows []result) bool {
	fmt.Fprintln(w, "What one instance cost: time from the first report's 202 until the last instance was ACTIVE elsewhere, statements that the")
	fmt.Fprintln(w, "database was sent, and CPU time.")
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "hosts\tinstances")
	for _, c := range costs {
		fmt.Fprint(t, "\t"+c.name)
	}
	fmt.Fprintln(t)
	var misses []string
	for _, r := range rows {
		if r.skipped != "" || !r.ok {
			misses = append(misses, r.name+": could not be measured")
			continue
		}
		misses = append(misses, r.wrong...)
		fmt.Fprintf(t, "%d\t%d", r.hosts, r.instances)
		for _, c := range costs {
			fmt.Fprintf(t, "\t%.2f", c.of(r))
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	if len(misses) == 0 {
		for _, c := range costs {
			if growth := c.of(rows[len(rows)-1]) / c.of(rows[0]); c.judged && growth > goalGrowth {
				misses = append(misses, fmt.Sprintf("%s: %.2f times as much with %d hosts as with %d, goal %.2f",
					c.name, growth, rows[len(rows)-1].hosts, rows[0].hosts, goalGrowth))
			}
		}
	}
	if len(misses) > 0 {
		fmt.Fprintln(w, "MISSED: "+strings.Join(misses, "; "))
		return false
	}
	fmt.Fprintf(w, "MET: neither time nor the database's load grew to more than %.2f times\n", goalGrowth)
	return true
}
