package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// LeaveEngine removes an engine that stops.
func (s *Store) LeaveEngine(ctx context.Context, name string) error {
	return s.run(ctx, "LeaveEngine", func(t *tx) error {
		delete(t.engines, name)
		return nil
	})
}

// EngineStates lists the engines seen within the last hour with what each holds.
func (s *Store) EngineStates(ctx context.Context) (states []ha.EngineState, err error) {
	err = s.run(ctx, "EngineStates", func(t *tx) error {
		states = []ha.EngineState{}
		held := map[string][]string{}
		for key, w := range t.active {
			held[w.Owner] = append(held[w.Owner], key)
		}
		for _, e := range t.engines {
			if t.now.Sub(e.seen) <= rules.EnginesWindow {
				slices.Sort(held[e.Name])
				states = append(states, ha.EngineState{Engine: e.Engine, Idle: t.now.Sub(e.seen), Units: held[e.Name]})
			}
		}
		slices.SortFunc(states, func(a, b ha.EngineState) int { return cmp.Compare(a.Name, b.Name) })
		states = states[:min(len(states), rules.EnginesLimit)]
		return nil
	})
	return states, err
}

// Pauses lists the pauses that stand, that of everything first, then by age.
func (s *Store) Pauses(ctx context.Context) (pauses []ha.Pause, err error) {
	err = s.run(ctx, "Pauses", func(t *tx) error {
		pauses = []ha.Pause{}
		for _, p := range t.pauses {
			if p.Active(t.now) {
				pauses = append(pauses, p)
			}
		}
		slices.SortFunc(pauses, func(a, b ha.Pause) int {
			return cmp.Or(cmp.Compare(min(len(a.Segment), 1), min(len(b.Segment), 1)), a.Since.Compare(b.Since), cmp.Compare(a.Segment, b.Segment))
		})
		pauses = pauses[:min(len(pauses), rules.PausesLimit)]
		return nil
	})
	return pauses, err
}

// SetPause writes a pause in place of one with its scope.
func (s *Store) SetPause(ctx context.Context, p ha.Pause) error {
	return s.run(ctx, "SetPause", func(t *tx) error {
		if p.Segment != "" {
			if _, err := t.segment(p.Segment); err != nil {
				return err
			}
		}
		p.Since = rules.Micro(t.now)
		if p.Until != nil {
			until := rules.Micro(*p.Until)
			p.Until = &until
		}
		putKey(t, t.pauses, p.Segment, p)
		t.signalScope(p.Segment)
		return nil
	})
}

// EndPause ends a pause; NotFoundError when none stands.
func (s *Store) EndPause(ctx context.Context, segment string) error {
	return s.run(ctx, "EndPause", func(t *tx) error {
		if _, set := t.pauses[segment]; !set {
			return &ha.NotFoundError{Kind: ha.KindPause, ID: segment}
		}
		delete(t.pauses, segment)
		t.signalScope(segment)
		return nil
	})
}

func (t *tx) signalScope(segment string) {
	for _, w := range t.active {
		if segment == "" || w.SegmentUUID == segment {
			w.Signal++
			w.nextLook = t.now
		}
	}
}

// pauseOf returns the pause that stands over a segment.
func (t *tx) pauseOf(segment string) *ha.Pause {
	for _, scope := range []string{"", segment} {
		if p, set := t.pauses[scope]; set && p.Active(t.now) {
			return &p
		}
	}
	return nil
}
