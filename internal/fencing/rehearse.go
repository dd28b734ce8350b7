package fencing

import (
	"context"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Rehearsal is what one method of a host came to when it was tried without an order.
type Rehearsal struct {
	Method string
	OK     bool // it showed on or off, and would take an order as far as can be told
	Power  ha.Power
	Text   string // what was seen, or what is wrong
	At     time.Time
	Took   time.Duration
}

// Rehearse tries every method of a host, one after the other, as far as that harms nobody: login, a look at the power state,
// for Redfish whether ForceOff is allowed. ErrNotConfigured when there are none.
func (f *Fencer) Rehearse(ctx context.Context, host string) ([]Rehearsal, error) {
	methods, err := f.methods(host)
	if err != nil {
		return nil, err
	}
	out := make([]Rehearsal, 0, len(methods))
	for _, m := range methods {
		began := time.Now()
		within, cancel := context.WithTimeout(ctx, m.Deadline/lookShare)
		power, text, err := m.Controller.Check(within)
		if late := within.Err() != nil; err != nil {
			power, text = ha.PowerUnknown, err.Error()
			if late {
				text = noAnswer(m)
			}
		}
		cancel()
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		out = append(out, Rehearsal{Method: m.Name, OK: err == nil, Power: power, Text: text, At: time.Now(), Took: time.Since(began)})
	}
	return out, nil
}
