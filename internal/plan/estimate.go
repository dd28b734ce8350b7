package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Estimate says how long it would take to move n instances, from what past recoveries took: their moves, each from its start to its
// end. How it was reckoned is in the text. Known is false where nothing has been moved yet.
func Estimate(n int, past [][]ha.VMove) ha.Estimate {
	var took []time.Duration
	var spans time.Duration
	recoveries := 0
	for _, moves := range past {
		var first, last time.Time
		for _, m := range moves {
			if m.Status != ha.MoveSucceeded || m.StartTime == nil || m.EndTime == nil || m.EndTime.Before(*m.StartTime) {
				continue
			}
			took = append(took, m.EndTime.Sub(*m.StartTime))
			if first.IsZero() || m.StartTime.Before(first) {
				first = *m.StartTime
			}
			if m.EndTime.After(last) {
				last = *m.EndTime
			}
		}
		if !first.IsZero() {
			recoveries++
			spans += last.Sub(first)
		}
	}
	switch {
	case n == 0:
		return ha.Estimate{Known: true, Text: "nothing would be moved"}
	case len(took) == 0:
		return ha.Estimate{Text: "unknown: no host recovery in the rows has moved an instance yet"}
	}
	slices.Sort(took)
	one, each := took[len(took)/2], spans/time.Duration(len(took))
	e := ha.Estimate{Known: true, Moves: max(one, time.Duration(n)*each)}
	e.Text = fmt.Sprintf("reckoned from the last %d host recoveries that moved instances: %d in %s together, one every %s, and half of them took up to %s each",
		recoveries, len(took), round(spans), round(each), round(one))
	return e
}

func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
