package demo

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/wire"
)

// Line is one thing that happened.
type Line struct {
	At   time.Time
	Text string
	Tone tone
}

type tone int

const (
	plain tone = iota
	bad
	busy
	good
)

// Story is what happened in a scene, in order.
func (s Scene) Story() []Line {
	lines := slices.Clone(s.Said)
	for _, i := range s.Incidents {
		lines = append(lines, i.story()...)
	}
	slices.SortStableFunc(lines, func(a, b Line) int { return a.At.Compare(b.At) })
	return lines
}

func (i Incident) story() []Line {
	lines := []Line{{i.DiedAt, fmt.Sprintf("%s loses power, and %s with it", i.Host, count(len(i.Victims), "instance")), bad}}
	if i.ReportedAt.IsZero() {
		return lines
	}
	said := Line{i.ReportedAt, "a monitor reports " + i.Host + " STOPPED", plain}
	if i.Refused != "" {
		said.Text, said.Tone = "a monitor reports "+i.Host+" STOPPED; refused: "+i.Refused, bad
	}
	lines = append(lines, said)
	lines = append(lines, i.journal()...)
	for _, v := range i.Victims {
		if !v.BackAt.IsZero() {
			lines = append(lines, Line{v.BackAt, fmt.Sprintf("%s runs again, on %s", v.Name, v.To), good})
		}
	}
	return lines
}

// journal tells of the recovery what a person wants to know: gates, what was done to the host, the orders, alarms, the end.
func (i Incident) journal() []Line {
	var lines []Line
	timeline := i.Recovery.Timeline
	for k := 0; k < len(timeline); k++ {
		e := timeline[k]
		switch {
		case e.Kind == "gate":
			n := same(timeline[k:], func(g wire.TimelineEntry) bool { return g.Kind == "gate" && g.At.Equal(e.At.Time) })
			lines = append(lines, i.gates(timeline[k:k+n], alarmed(timeline, e))...)
			k += n - 1
		case e.Kind == "alarm" && slices.ContainsFunc(timeline, func(g wire.TimelineEntry) bool { return g.Kind == "gate" && g.At.Equal(e.At.Time) }):
			// The gate's line tells it.
		case e.Kind == "outcome" && e.Act != nil && *e.Act == "service":
			lines = append(lines, Line{e.At.Time, serviceText(e.Text), plain})
		case e.Kind == "alarm" || e.Kind == "note" || e.Kind == "operator":
			t := plain
			if e.Kind == "alarm" {
				t = bad
			}
			lines = append(lines, Line{e.At.Time, i.named(e.Text), t})
		}
	}
	lines = append(lines, i.ordered()...)
	if i.Ended() && i.Recovery.Unit != nil && i.Recovery.Unit.EndedAt != nil {
		l := Line{i.Recovery.Unit.EndedAt.Time, i.Host + " " + i.Recovery.Status, good}
		if i.Recovery.Status != "finished" {
			l.Tone = bad
		}
		if m := i.Recovery.Message; m != nil && *m != "" {
			l.Text += ": " + i.named(*m)
		}
		lines = append(lines, l)
	}
	return lines
}

// same counts how many entries at the front are alike.
func same(entries []wire.TimelineEntry, alike func(wire.TimelineEntry) bool) int {
	n := 0
	for n < len(entries) && alike(entries[n]) {
		n++
	}
	return n
}

// alarmed reports whether an alarm was raised together with the entry.
func alarmed(timeline []wire.TimelineEntry, e wire.TimelineEntry) bool {
	return slices.ContainsFunc(timeline, func(a wire.TimelineEntry) bool { return a.Kind == "alarm" && a.At.Equal(e.At.Time) })
}

// gates tells of one look at the gates. A single answer is the one that the recovery waits at; all of them at once are passed.
func (i Incident) gates(answers []wire.TimelineEntry, alarm bool) []Line {
	if len(answers) == 1 {
		t := busy
		if alarm {
			t = bad
		}
		text := "waits at gate " + task(answers[0]) + ": " + now.ReplaceAllString(answers[0].Text, "")
		if !strings.Contains(text, i.Host) {
			text = i.Host + " " + text
		}
		return []Line{{answers[0].At.Time, text, t}}
	}
	var names []string
	proof := ""
	for _, a := range answers {
		if task(a) == "proof" {
			proof = a.Text
		} else if task(a) != "" {
			names = append(names, task(a))
		}
	}
	lines := []Line{{answers[0].At.Time, i.Host + " passes the gates " + strings.Join(names, ", "), plain}}
	if proof != "" {
		_, text, _ := strings.Cut(proof, ": ")
		lines = append(lines, Line{answers[0].At.Time, "proof of death: " + text, plain})
	}
	return lines
}

// now matches the part of a waiting gate's text that was true only when it was written.
var now = regexp.MustCompile(` \(now [^)]*\)$`)

func task(e wire.TimelineEntry) string {
	if e.Task == nil {
		return ""
	}
	return *e.Task
}

var serviceAct = regexp.MustCompile(`^compute service of (\S+): (.*)$`)

// serviceText words what was done to a compute service.
func serviceText(text string) string {
	m := serviceAct.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	words := strings.NewReplacer("forced_down true", "forced down", "forced_down false", "no longer forced down", " disable", " and disabled",
		" enable", " and enabled", ": done", ", in one call").Replace(m[2])
	return "in Nova, " + m[1] + " is " + strings.TrimPrefix(words, " and ")
}

// ordered tells of the evacuate orders as they reached Nova, those that came close together in one line.
func (i Incident) ordered() []Line {
	vs := slices.DeleteFunc(slices.Clone(i.Victims), func(v Victim) bool { return v.OrderedAt.IsZero() })
	slices.SortStableFunc(vs, func(a, b Victim) int { return a.OrderedAt.Compare(b.OrderedAt) })
	var lines []Line
	for len(vs) > 0 {
		n := 1
		for n < len(vs) && vs[n].OrderedAt.Sub(vs[0].OrderedAt) < 250*time.Millisecond {
			n++
		}
		group := slices.Clone(vs[:n])
		sortVictims(group)
		lines = append(lines, Line{vs[0].OrderedAt, "evacuation ordered: " + names(group), busy})
		vs = vs[n:]
	}
	return lines
}

// names lists victims, the first eight by name.
func names(vs []Victim) string {
	var all []string
	for k, v := range vs {
		if k == 8 {
			all = append(all, fmt.Sprintf("and %d more", len(vs)-k))
			break
		}
		all = append(all, v.Name)
	}
	return strings.Join(all, ", ")
}

// named puts names in the place of instances' uuids.
func (i Incident) named(text string) string {
	for _, v := range i.Victims {
		text = strings.ReplaceAll(text, v.ID, v.Name)
	}
	return text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
