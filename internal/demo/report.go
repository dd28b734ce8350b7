package demo

import (
	"fmt"
	"strings"
	"time"
)

// Report is the outcome of one death. Seconds are counted from the monitor's report.
type Report struct {
	OK         bool     `json:"ok"` // every instance of the host runs elsewhere, ordered exactly once, and the recovery has finished
	Host       string   `json:"host"`
	Status     string   `json:"status"` // of the notification
	Message    string   `json:"message"`
	FirstOrder float64  `json:"seconds_report_to_first_order"`
	Total      float64  `json:"seconds_total"` // until the last instance runs again
	Instances  []Moved  `json:"instances"`
	Problems   []string `json:"problems"`
}

// Moved is what became of one instance.
type Moved struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	From        string  `json:"from"`
	To          string  `json:"to"`      // "" if it does not run
	Seconds     float64 `json:"seconds"` // until it runs again
	Evacuations int     `json:"evacuations"`
}

// report sums an incident up.
func (s Scene) report(i Incident) Report {
	r := Report{Host: i.Host, Status: i.Recovery.Status, Instances: make([]Moved, len(i.Victims)), Problems: []string{}}
	if m := i.Recovery.Message; m != nil {
		r.Message = *m
	}
	wrong := func(format string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(format, args...)) }
	if r.Status != "finished" {
		wrong("the notification is %q, not finished: %s", r.Status, r.Message)
	}
	var first time.Time
	for k, v := range i.Victims {
		m := Moved{ID: v.ID, Name: v.Name, From: i.Host, To: v.To, Evacuations: v.Orders}
		if !v.BackAt.IsZero() {
			m.Seconds = round(v.BackAt.Sub(i.ReportedAt))
			r.Total = max(r.Total, m.Seconds)
		} else {
			wrong("%s does not run", v.Name)
		}
		if v.Orders != 1 {
			wrong("%s was ordered %d times", v.Name, v.Orders)
		}
		if v.Locked {
			wrong("%s is still locked", v.Name)
		}
		if !v.OrderedAt.IsZero() && (first.IsZero() || v.OrderedAt.Before(first)) {
			first = v.OrderedAt
		}
		r.Instances[k] = m
	}
	if !first.IsZero() {
		r.FirstOrder = round(first.Sub(i.ReportedAt))
	}
	if s.Double > 0 {
		wrong("%s ran, or was ordered, twice at a time", count(s.Double, "instance"))
	}
	r.OK = len(r.Problems) == 0
	return r
}

// round keeps milliseconds.
func round(d time.Duration) float64 { return float64(d.Round(time.Millisecond)) / float64(time.Second) }

// String is the summary for people.
func (r Report) String() string {
	back := 0
	for _, m := range r.Instances {
		if m.To != "" {
			back++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d of %d back", r.Host, back, len(r.Instances))
	if r.OK {
		b.WriteString(", each ordered exactly once")
	}
	fmt.Fprintf(&b, "; after the report: first order %.1f s, all back %.1f s\n", r.FirstOrder, r.Total)
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "problem: %s\n", p)
	}
	return b.String()
}
