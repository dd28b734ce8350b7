package app

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
	"github.com/salvor-ha/salvor/internal/service"
	"github.com/salvor-ha/salvor/internal/store"
)

// protectFor is how long a count of the instances without protection may take; coverPause is between two pages of it, so that a cloud that is
// at work does not notice: a page asks Nova for the servers of 25 hosts at most, and Placement about 64 needs at most, four questions at a time.
const (
	protectFor = 10 * time.Minute
	coverPause = time.Second
)

// addProtection counts now and then, with the doctor's interval, the instances that are to be protected and would not be recovered. Of all
// engines that live one does it.
func (b *builder) addProtection(rows *store.Store, engine string) {
	if b.cfg.Salvor.DoctorInterval == 0 {
		return
	}
	var now atomic.Pointer[plan.Rules]
	first := rules(b.cfg)
	now.Store(&first)
	take := b.app.setRules
	b.app.setRules = func(c *config.Config) {
		take(c)
		later := laterRules(c, b.cfg)
		now.Store(&later)
	}
	p := &protection{engine: engine, every: b.cfg.Salvor.DoctorInterval, engines: rows.EngineStates, tell: b.metrics.Unprotected, log: b.log,
		cover: func(ctx context.Context, marker string) ([]ha.HostProspect, string, error) {
			s := service.New(rows, b.cloud, service.Config{Log: b.log, Cloud: b.cloud, Rules: *now.Load(), Fenced: b.fenced})
			return s.Coverage(ctx, marker, 1000)
		}}
	b.app.parts = append(b.app.parts, part{"protection", func(ctx context.Context) error { p.run(ctx); return nil }})
}

// protection counts the instances without protection.
type protection struct {
	engine  string // this one
	every   time.Duration
	engines engineStates
	cover   func(ctx context.Context, marker string) ([]ha.HostProspect, string, error)
	tell    func(n int) // below 0: it is not known here
	log     *slog.Logger
}

func (p *protection) run(ctx context.Context) {
	for wait := min(2*examineAfter, p.every); pause(ctx, wait) == nil && p.engines.quiet(ctx) == nil; wait = p.every {
		within, cancel := context.WithTimeout(ctx, protectFor)
		n, err := p.count(within)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			p.log.Warn("the instances without protection could not be counted (salvor coverage)", "error", err)
			n = -1
		}
		p.tell(n)
	}
}

// count is -1 where another engine does it.
func (p *protection) count(ctx context.Context) (n int, err error) {
	states, err := p.engines(ctx)
	if err != nil {
		return -1, err
	}
	if slices.ContainsFunc(states, func(e ha.EngineState) bool { return !e.Silent() && e.Name < p.engine }) {
		return -1, nil
	}
	for marker := ""; ; {
		hosts, next, err := p.cover(ctx, marker)
		if err != nil {
			return -1, err
		}
		for _, h := range hosts {
			if h.Err != "" { // its instances are not known: what was counted says too little
				return -1, &ha.CloudError{Class: ha.ClassBroken, Op: "servers of " + h.Name, Text: h.Err}
			}
			n += h.Wanted() - h.Protected()
		}
		if marker = next; marker == "" {
			return n, nil
		}
		if err := pause(ctx, coverPause); err != nil {
			return -1, err
		}
	}
}
