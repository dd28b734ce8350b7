package plan_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// What a PUT on a spare answers makes no other host's silence longer, nor a proof younger: it tells of that service alone.
func TestPutServiceTellsOfItsHostOnly(t *testing.T) {
	list := []ha.Service{{ID: "1", Host: failedHost}, {ID: "4", Host: "compute-4"}}
	for own, at := range map[bool]time.Time{true: born.Add(5 * time.Second), false: born} {
		f := plan.Facts{Services: plan.Seen[[]ha.Service]{Value: list, At: born}}
		put := ha.Service{ID: map[bool]string{true: "1", false: "4"}[own], Enabled: true}
		f.PutService(put, born.Add(5*time.Second), own)
		if i := slices.Index(f.Services.Value, put); i < 0 || list[i].Enabled || !f.Services.At.Equal(at) {
			t.Errorf("own %v: %+v, was %+v", own, f.Services, list)
		}
	}
}

// look answers a look 50 ms after it started, with what was so when it started; one kind of look at most once a second.
func (w *world) look(l plan.Look) {
	if w.pending[l] {
		return
	}
	w.pending[l] = true
	owner := w.owner
	begin := func() {
		if w.owner != owner {
			return
		}
		w.asked[l] = w.now
		w.looked[string(l.Kind)]++
		put := w.answer(l)
		takes := 50*time.Millisecond + w.slow
		if l.Kind == plan.LookServers || l.Kind == plan.LookMigrations {
			takes += w.slowLists
		}
		w.plan(takes, true, func() {
			if w.owner == owner {
				delete(w.pending, l)
				put()
			}
		})
	}
	if last, ok := w.asked[l]; ok && w.now.Sub(last) < time.Second {
		w.at(last.Add(time.Second).Sub(w.now), begin)
		return
	}
	begin()
}

// answer is what the cloud shows now, to be put into the facts when the answer comes.
func (w *world) answer(l plan.Look) func() {
	began, err := w.now, w.away
	f := &w.facts
	if err == nil && (l.Kind == plan.LookServers || l.Kind == plan.LookMigrations) {
		err = w.lists
	}
	switch l.Kind {
	case plan.LookServices:
		s := seen(slices.Clone(w.services), began, w.slow, err)
		return func() { f.Services = s(f.Services) }
	case plan.LookServers:
		s := seen(w.on(failedHost), began, w.slow, err)
		return func() {
			if f.Servers = s(f.Servers); err == nil {
				f.Lists++
			}
		}
	case plan.LookMigrations:
		s := seen(slices.Clone(w.migrations), began, w.slow, err)
		return func() { f.Migrations = s(f.Migrations) }
	case plan.LookAggregates:
		s := seen(slices.Clone(w.aggregates), began, w.slow, err)
		return func() { f.Aggregates = s(f.Aggregates) }
	case plan.LookServer:
		var one ha.Server
		if v := w.server(l.ID); v != nil && !w.denies {
			one = *v
		} else if err == nil {
			err = gone("Instance " + l.ID + " could not be found.")
		}
		s := seen(one, began, w.slow, err)
		return func() { f.Server = with(f.Server, l.ID, s) }
	case plan.LookActions:
		s := seen(slices.Clone(w.actions[l.ID]), began, w.slow, err)
		return func() { f.Actions = with(f.Actions, l.ID, s) }
	default:
		s := seen(slices.Clone(w.providers[l.ID]), began, w.slow, err)
		return func() { f.Providers = with(f.Providers, l.ID, s) }
	}
}

// seen makes a fact of an answer as the engine does: an error keeps the last good value, but "gone" is an answer
// about one object.
func seen[T any](value T, began time.Time, slow time.Duration, err error) func(plan.Seen[T]) plan.Seen[T] {
	return func(was plan.Seen[T]) plan.Seen[T] {
		switch {
		case began.Before(was.At):
			return was
		case err == nil || ha.ClassOf(err) == ha.ClassGone && isOne(value):
			return plan.Seen[T]{Value: value, At: began, Came: began.Add(slow), Err: err, Tried: began}
		}
		was.Err, was.Tried = err, began
		return was
	}
}

func with[T any](m map[string]plan.Seen[T], id string, s func(plan.Seen[T]) plan.Seen[T]) map[string]plan.Seen[T] {
	fresh := maps.Clone(m)
	if fresh == nil {
		fresh = map[string]plan.Seen[T]{}
	}
	fresh[id] = s(m[id])
	return fresh
}

// isOne reports whether the answer is about one object.
func isOne(value any) bool {
	switch value.(type) {
	case []ha.Service, []ha.Server, []ha.Migration, []ha.Aggregate:
		return false
	}
	return true
}
