package app

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/doctor"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/telemetry"
)

const (
	// examineAfter lets an engine that starts get to its work first: what died meanwhile is more urgent.
	examineAfter = 10 * time.Second
	// examineFor is how long one examination of a running engine may take.
	examineFor = time.Minute
	// giveWay is how long it waits for host recoveries to end, and how often it looks whether they have.
	giveWay      = 10 * time.Minute
	giveWayPause = 10 * time.Second
)

// addDoctor examines now and then, from this machine, what a recovery will need. Several engines that do it do each other no harm.
func (b *builder) addDoctor(rows *store.Store) {
	if b.cfg.Salvor.DoctorInterval == 0 {
		return
	}
	p, done := patient(b.cfg)
	b.app.closing(func() error { done(); return nil })
	p.Store = func(context.Context) (doctor.Store, error) { return rows, nil }
	if b.fencing != nil {
		p.Fencing = rememberedFencing{b.rehearsals, liveFencing{b.fencing}}
	}
	e := &examinations{every: b.cfg.Salvor.DoctorInterval, log: b.log, metric: b.metrics.Doctor(), states: map[string]doctor.State{},
		engines: rows.EngineStates,
		examine: func(ctx context.Context) []doctor.Check { return doctor.Examine(ctx, p, questionTime) }}
	b.app.parts = append(b.app.parts, part{"doctor", func(ctx context.Context) error { e.run(ctx); return nil }})
}

// rememberedFencing knows hosts by the engine's own rehearsals, and rehearses the others.
type rememberedFencing struct {
	seen *rehearsals // nil: none are made
	live liveFencing
}

func (r rememberedFencing) Methods(ctx context.Context, host string) ([]doctor.Method, error) {
	if r.seen != nil {
		if tried, ok := r.seen.latest(host); ok {
			return methodsOf(tried), nil
		}
	}
	return r.live.Methods(ctx, host)
}

// examinations keeps what the latest one found: the log has what changed, the metric what is.
type examinations struct {
	examine func(context.Context) []doctor.Check
	engines engineStates
	every   time.Duration
	log     *slog.Logger
	metric  *telemetry.Doctor
	states  map[string]doctor.State // by Check.Key; nil value: never seen
	names   map[string]bool         // of all checks ever made
}

// engineStates tells who lives, and what each holds.
type engineStates func(context.Context) ([]ha.EngineState, error)

// quiet waits until no engine recovers a host, ten minutes at most: to examine a cloud asks as much of Nova as a recovery does, and a
// recovery is what Nova is for then.
func (engines engineStates) quiet(ctx context.Context) error {
	recovers := func(e ha.EngineState) bool {
		return slices.ContainsFunc(e.Units, func(key string) bool { return strings.HasPrefix(key, string(ha.UnitHost)+":") })
	}
	for end := time.Now().Add(giveWay); time.Now().Before(end); {
		states, err := engines(ctx)
		if err != nil || !slices.ContainsFunc(states, recovers) {
			break
		}
		if err := pause(ctx, giveWayPause); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (e *examinations) run(ctx context.Context) {
	for wait := min(examineAfter, e.every); pause(ctx, wait) == nil && e.engines.quiet(ctx) == nil; wait = e.every {
		within, cancel := context.WithTimeout(ctx, examineFor)
		found := e.examine(within)
		cancel()
		if ctx.Err() != nil { // what a stop cut short says nothing
			return
		}
		e.take(found)
	}
}

func (e *examinations) take(found []doctor.Check) {
	first := e.names == nil
	if first {
		e.names = map[string]bool{}
	}
	count, states := map[[2]string]int{}, map[string]doctor.State{}
	for _, c := range found {
		e.names[c.Name] = true
		count[[2]string{c.Name, string(c.State)}]++
		states[c.Key()] = c.State
		if before := e.states[c.Key()]; before != c.State {
			e.tell(c, before)
		}
	}
	for key, before := range e.states {
		if _, still := states[key]; !still && before != doctor.OK {
			e.log.Info("doctor: no longer found", "check", key)
		}
	}
	for name := range e.names { // a state that nothing is in any more is 0, not gone
		for _, s := range doctor.States {
			count[[2]string{name, string(s)}] += 0
		}
	}
	e.states = states
	e.metric.Found(count)
	if first {
		e.log.Info("doctor: examined", "found", len(found), "worst", string(doctor.Worst(found)))
	}
}

// tell logs a finding that was otherwise before, or was none.
func (e *examinations) tell(c doctor.Check, before doctor.State) {
	args := []any{"check", c.Name, "of", c.Subject, "saw", c.Text}
	switch {
	case c.State == doctor.Fail:
		e.log.Error("doctor: a recovery would fail", append(args, "do", c.Do)...)
	case c.State == doctor.Warn:
		e.log.Warn("doctor: to be looked at", append(args, "do", c.Do)...)
	case before != "":
		e.log.Info("doctor: well again", args...)
	}
}
