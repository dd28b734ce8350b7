package fencing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Controller is one way to a host's power: a BMC, a power strip, a command.
type Controller interface {
	// Look reads the power state, and says what it saw. An error: no state was read; Power is then PowerUnknown.
	Look(ctx context.Context) (ha.Power, string, error)
	// Off orders the power off at once, and says what that was answered. Neither answer nor error proves anything.
	Off(ctx context.Context) (string, error)
	// Check reads the power state as Look does, and besides, as far as can be told without an order, that an order would be
	// taken: a rehearsal that harms nobody.
	Check(ctx context.Context) (ha.Power, string, error)
}

// Method is a controller of one host with its limits.
type Method struct {
	Name       string
	Deadline   time.Duration // for all of it: looks, orders, pauses
	Pause      time.Duration // between two looks
	Controller Controller
}

var (
	// ErrNotConfigured: no method stands in the file for that host.
	ErrNotConfigured = errors.New("no fencing is configured")
	// ErrLogin: the controller refuses the account. It is not tried again, so that it is not locked.
	ErrLogin = errors.New("login refused")
	// ErrCannot: the controller, or the way to it, will never do what is asked of it.
	ErrCannot = errors.New("cannot be done")
)

// Fencer fences hosts. It may be used by many goroutines; what two want of one host at once is done once.
type Fencer struct {
	methods func(host string) ([]Method, error)
	flights flights
}

// New makes a Fencer. methods finds a host's methods in their order, at least one: ErrNotConfigured (wrapped) when there are none.
func New(methods func(host string) ([]Method, error)) *Fencer {
	return &Fencer{methods: methods, flights: flights{running: map[string]*flight{}}}
}

// Configured reports whether there is a method for the host. Where the file cannot be applied to the host, there is one, and
// Fence says what is wrong.
func (f *Fencer) Configured(host string) bool {
	_, err := f.methods(host)
	return !errors.Is(err, ErrNotConfigured)
}

// Fence powers a host off and sees it off, by one method after the other until one has. A host that is off already is a
// success without an order, so it may be called again at any time. An error: nothing could be tried, because nothing is
// configured or ctx has ended. When ctx ends on the way, the result is what was seen until then.
func (f *Fencer) Fence(ctx context.Context, host string) (ha.FenceResult, error) {
	return f.each(ctx, "fence", host, (*attempt).fence)
}

// Power only looks, twice where a host is off: for a proof that has aged. A host that any method sees on is not off; whether
// it is on or just not seen is in the last sight. Errors as Fence.
func (f *Fencer) Power(ctx context.Context, host string) (ha.FenceResult, error) {
	return f.each(ctx, "power", host, (*attempt).look)
}

// each runs one after the other until step says that this is the answer.
func (f *Fencer) each(ctx context.Context, verb, host string, step func(*attempt, context.Context, *trial) (done bool)) (ha.FenceResult, error) {
	if err := ctx.Err(); err != nil {
		return ha.FenceResult{}, fmt.Errorf("%s of %s: nothing was tried: %w", verb, host, err)
	}
	methods, err := f.methods(host)
	if err != nil {
		return ha.FenceResult{}, fmt.Errorf("%s of %s: %w", verb, host, err)
	}
	return f.flights.share(ctx, verb+" "+host, func(ctx context.Context) (ha.FenceResult, error) {
		a := &attempt{}
		for _, m := range methods {
			t := &trial{m: m}
			a.trials = append(a.trials, t)
			if step(a, ctx, t) || ctx.Err() != nil {
				break
			}
		}
		result := a.result(ctx)
		if len(result.Sights) == 0 {
			return result, fmt.Errorf("%s of %s: nothing was tried: %w", verb, host, context.Cause(ctx))
		}
		return result, nil
	})
}

// attempt is one go at a host, method after method.
type attempt struct {
	trials []*trial
	off    bool
}

func (a *attempt) fence(ctx context.Context, t *trial) bool {
	a.off = t.fence(ctx) && !a.contradicted(ctx, t)
	return a.off
}

func (a *attempt) look(ctx context.Context, t *trial) bool {
	a.off = t.watch(ctx)
	return a.off || t.shows() == ha.PowerOn
}

// contradicted looks again by the earlier methods that saw the host on. One that still does refutes an off: the power strip's
// outlet is not, or not alone, the host's. Dark is no contradiction: a BMC loses its power with its host.
func (a *attempt) contradicted(ctx context.Context, by *trial) bool {
	for _, t := range a.trials {
		if t == by || t.shows() != ha.PowerOn {
			continue
		}
		if t.look(ctx) == ha.PowerOn {
			by.refuted = t.m.Name
			return true
		}
	}
	return ctx.Err() != nil
}

// result is what the trials came to. The sights of the last one, which proves an off, stand last.
func (a *attempt) result(ctx context.Context) ha.FenceResult {
	r := ha.FenceResult{Off: a.off}
	var said []string
	for _, t := range a.trials {
		r.Sights = append(r.Sights, t.sights...)
		if text := t.told(); text != "" {
			said = append(said, t.m.Name+": "+text)
		}
	}
	if !a.off && ctx.Err() != nil {
		said = append(said, "stopped before it was done")
	}
	r.Text = strings.Join(said, "; ")
	r.Sights = slices.Clip(r.Sights)
	return r
}
