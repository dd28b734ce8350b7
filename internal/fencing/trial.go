package fencing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

const (
	// inRow: so many sights of off in a row, each a pause after the one before it, are a proof.
	inRow = 2
	// maxMisses: so many looks in a row without a state, before anything was ordered, and the next method is tried.
	maxMisses = 3
	// A look may take a third of the deadline, an order a half: neither uses up the time of what must follow it.
	lookShare  = 3
	orderShare = 2
	// settle is how long an order that was taken is given, while the host is still seen on, before it is given again.
	settle = 15 * time.Second
)

// trial is one method at work.
type trial struct {
	m      Method
	sights []ha.PowerSight
	last   string // what the last look saw
	fault  error  // of the last look

	orders  int
	ordered time.Time
	answer  string // to the last order
	failed  bool   // the last order was refused or not answered
	lied    bool   // it showed off, then on
	proven  bool
	refuted string // the method that saw the host on all the same
}

// fence sees the host off, ordering it where it is not. It ends with the method's deadline.
func (t *trial) fence(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, t.m.Deadline)
	defer cancel()
	offs, misses := 0, 0
	for ctx.Err() == nil {
		switch t.look(ctx) {
		case ha.PowerOff:
			offs, misses = offs+1, 0
			if offs == inRow {
				t.proven = true
				return true
			}
		case ha.PowerOn:
			t.lied = t.lied || offs > 0
			if !t.order(ctx, offs > 0) {
				return false
			}
			offs, misses = 0, 0
		default:
			offs, misses = 0, misses+1
			if t.orders == 0 && (misses == maxMisses || hopeless(t.fault)) {
				return false
			}
		}
		t.pause(ctx)
	}
	return false
}

// watch looks, and looks again where the host is off.
func (t *trial) watch(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, t.m.Deadline)
	defer cancel()
	for offs, misses := 0, 0; ctx.Err() == nil; t.pause(ctx) {
		switch t.look(ctx) {
		case ha.PowerOff:
			offs, misses = offs+1, 0
			if offs == inRow {
				t.proven = true
				return true
			}
		case ha.PowerOn:
			t.lied = t.lied || offs > 0
			return false
		default:
			offs, misses = 0, misses+1
			if misses == maxMisses || hopeless(t.fault) {
				return false
			}
		}
	}
	return false
}

// hopeless: a look that used up its time, or whose account is refused, is not repeated.
func hopeless(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrLogin) || errors.Is(err, ErrCannot)
}

// look reads the state and keeps what it saw.
func (t *trial) look(ctx context.Context) ha.Power {
	within, cancel := context.WithTimeout(ctx, t.m.Deadline/lookShare)
	defer cancel()
	power, text, err := t.m.Controller.Look(within)
	if err != nil && ctx.Err() != nil && (len(t.sights) > 0 || errors.Is(ctx.Err(), context.Canceled)) {
		return ha.PowerUnknown // cut short: that is no sight
	}
	t.fault = err
	if err != nil {
		power, text = ha.PowerUnknown, err.Error()
		if within.Err() != nil {
			t.fault, text = context.DeadlineExceeded, noAnswer(t.m)
		}
	}
	t.last = text
	if t.orders > 0 {
		text = fmt.Sprintf("%s (order %d: %s)", text, t.orders, t.answer)
	}
	t.keep(ha.PowerSight{Method: t.m.Name, Power: power, At: time.Now(), Text: text})
	return power
}

func noAnswer(m Method) string {
	return "no answer within " + (m.Deadline / lookShare).Round(time.Millisecond).String()
}

// keep adds a sight; of a run of equal ones, the first and the last.
func (t *trial) keep(s ha.PowerSight) {
	if n := len(t.sights); n >= 2 && t.sights[n-1].Power == s.Power && t.sights[n-2].Power == s.Power {
		t.sights[n-1] = s
		return
	}
	t.sights = append(t.sights, s)
}

// shows is the latest state that was read.
func (t *trial) shows() ha.Power {
	for i := len(t.sights) - 1; i >= 0; i-- {
		if p := t.sights[i].Power; p != ha.PowerUnknown {
			return p
		}
	}
	return ha.PowerUnknown
}

// order orders the power off, unless the last order has not had its time; one that was refused is given again with growing
// gaps, and one whose off turned out false at once. false: it is of no use to go on.
func (t *trial) order(ctx context.Context, atOnce bool) bool {
	gap := settle
	if t.failed {
		gap = min(settle, t.m.Pause<<min(t.orders, 8))
	}
	if ctx.Err() != nil || t.orders > 0 && !atOnce && time.Since(t.ordered) < gap {
		return true
	}
	within, cancel := context.WithTimeout(ctx, t.m.Deadline/orderShare)
	defer cancel()
	answer, err := t.m.Controller.Off(within)
	t.orders++
	t.ordered = time.Now()
	t.failed = err != nil
	switch {
	case err == nil:
		t.answer = answer
		return true
	case within.Err() == nil:
		t.answer = err.Error()
	case ctx.Err() == nil || t.answer == "":
		t.answer = "not answered in time"
	}
	return !errors.Is(err, ErrLogin) && !errors.Is(err, ErrCannot)
}

func (t *trial) pause(ctx context.Context) {
	timer := time.NewTimer(t.m.Pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// told is what came of it, for people.
func (t *trial) told() string {
	if len(t.sights) == 0 {
		return ""
	}
	last := t.sights[len(t.sights)-1]
	switch {
	case t.proven && t.refuted != "":
		return "shows off, but " + t.refuted + " still sees the host on: not believed; does this method power all of the host?"
	case t.proven:
		first := t.sights[len(t.sights)-inRow]
		how := "nothing was ordered"
		if t.orders > 0 {
			how = fmt.Sprintf("ordered %s, answered: %s", times(t.orders), t.answer)
		}
		return fmt.Sprintf("off, seen at %s and %s; %s", clock(first.At), clock(last.At), how)
	case t.lied && last.Power == ha.PowerOn && t.orders == 0:
		return "showed off, then on: not believed"
	case t.orders == 0 && last.Power == ha.PowerOn:
		return "on, seen at " + clock(last.At)
	case t.orders == 0 && last.Power == ha.PowerOff:
		return "seen off only once"
	case t.orders == 0:
		return "not seen: " + t.last
	case t.lied:
		return fmt.Sprintf("showed off, then on: not believed; ordered off %s, at the end: %s", times(t.orders), t.last)
	default:
		return fmt.Sprintf("ordered off %s (answered: %s), but not seen off; at the end: %s", times(t.orders), t.answer, t.last)
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.0Z") }
