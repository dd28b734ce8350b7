package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// lookEvery is the pace at which one fact is looked for again, from the beginning of one look to that of the next. Where an answer takes
// longer than half of that Nova has a rest after it, as long as it was late, up to lookEvery: none of its workers is busy for one unit all
// the time. No proof needs more looks than that: silence and heartbeats are told by what answers say, not by how many there are.
const lookEvery = time.Second

// rest is what a look that has ended leaves to the loop: none of its facts is looked for again before then.
type rest struct {
	looks []plan.Look
	until time.Time
}

// singlesAtOnce bounds the questions about single instances that one unit has under way.
const singlesAtOnce = 4

// lookAt starts a look for what plan wants to know, if none is under way and something is due. One look at a time: migrations
// before servers, so that a record that says done is followed by a list that shows where the instance is. It
// returns how long it is until the next one is due, 0 when none is awaited.
func (u *unit) lookAt(want []plan.Look) (next time.Duration) {
	u.mu.Lock()
	busy, rested := u.looking, u.rest
	u.rest = rest{}
	u.mu.Unlock()
	if busy {
		return 0 // its end rings
	}
	for _, l := range rested.looks {
		if rested.until.After(u.again[l]) {
			u.again[l] = rested.until
		}
	}
	now := time.Now()
	var due []plan.Look
	for _, l := range want {
		if left := u.again[l].Sub(now); left > 0 {
			if next == 0 || left < next {
				next = left
			}
			continue
		}
		u.again[l] = now.Add(lookEvery)
		due = append(due, l)
	}
	if len(u.again) > 4*len(want)+64 { // forget what is no longer asked for
		maps.DeleteFunc(u.again, func(_ plan.Look, at time.Time) bool { return now.After(at) })
	}
	if len(due) == 0 {
		return next
	}
	u.mu.Lock()
	u.looking, u.slowest = true, 0
	u.mu.Unlock()
	host := u.rows.Host.Name
	u.group.Go(func() {
		u.look(u.acts, host, due)
		u.mu.Lock()
		u.looking, u.rest = false, rest{due, time.Now().Add(min(u.slowest-lookEvery/2, lookEvery))}
		u.mu.Unlock()
		u.ring()
	})
	return 0
}

// look asks the cloud and hands each answer to the loop as it comes.
func (u *unit) look(ctx context.Context, host string, due []plan.Look) {
	wants := func(k plan.LookKind) bool {
		return slices.ContainsFunc(due, func(l plan.Look) bool { return l.Kind == k })
	}
	if wants(plan.LookServices) {
		u.lookAtServices(ctx)
	}
	if wants(plan.LookAggregates) {
		ask(ctx, u, free, u.e.cloud.Aggregates, func(f *plan.Facts, s seen[[]ha.Aggregate]) { f.Aggregates = s(f.Aggregates) })
	}
	if wants(plan.LookMigrations) || wants(plan.LookServers) {
		u.lists(ctx, host, wants)
	}
	var group errgroup.Group
	group.SetLimit(singlesAtOnce)
	for _, l := range due {
		group.Go(func() error { u.single(ctx, l); return nil })
	}
	_ = group.Wait() // answers and errors go to the facts
}

// lists asks for what all instances of the host share.
func (u *unit) lists(ctx context.Context, host string, wants func(plan.LookKind) bool) {
	if u.e.limiter.beginLists(ctx) != nil {
		return
	}
	defer u.e.limiter.endLists()
	if wants(plan.LookMigrations) {
		ask(ctx, u, paced, func(ctx context.Context) ([]ha.Migration, error) { return u.e.cloud.Migrations(ctx, host) },
			func(f *plan.Facts, s seen[[]ha.Migration]) { f.Migrations = s(f.Migrations) })
	}
	if wants(plan.LookServers) {
		ask(ctx, u, paced, func(ctx context.Context) ([]ha.Server, error) { return u.e.cloud.Servers(ctx, host) },
			func(f *plan.Facts, s seen[[]ha.Server]) {
				before := f.Servers.At
				if f.Servers = s(f.Servers); !f.Servers.At.Equal(before) {
					f.Lists++
				}
			})
	}
}

// single asks about one instance.
func (u *unit) single(ctx context.Context, l plan.Look) {
	if !slices.Contains([]plan.LookKind{plan.LookServer, plan.LookActions, plan.LookProviders}, l.Kind) || u.e.limiter.beginLists(ctx) != nil {
		return
	}
	defer u.e.limiter.endLists()
	c := u.e.cloud
	switch l.Kind {
	case plan.LookServer:
		ask(ctx, u, single, func(ctx context.Context) (ha.Server, error) { return c.Server(ctx, l.ID) },
			func(f *plan.Facts, s seen[ha.Server]) { f.Server = with(f.Server, l.ID, s) })
	case plan.LookActions:
		ask(ctx, u, single, func(ctx context.Context) ([]ha.ServerAction, error) { return c.Actions(ctx, l.ID) },
			func(f *plan.Facts, s seen[[]ha.ServerAction]) { f.Actions = with(f.Actions, l.ID, s) })
	case plan.LookProviders:
		ask(ctx, u, single, func(ctx context.Context) ([]string, error) { return c.Providers(ctx, l.ID) },
			func(f *plan.Facts, s seen[[]string]) { f.Providers = with(f.Providers, l.ID, s) })
	}
}

// seen makes the fact as it is known after an answer out of the fact as it was.
type seen[T any] func(was plan.Seen[T]) plan.Seen[T]

// with sets one fact of a map in a copy: a view that plan was handed never changes.
func with[T any](m map[string]plan.Seen[T], id string, s seen[T]) map[string]plan.Seen[T] {
	fresh := make(map[string]plan.Seen[T], len(m)+1)
	maps.Copy(fresh, m)
	fresh[id] = s(m[id])
	return fresh
}

// question is a kind of look.
type question int

const (
	single question = iota // about one object
	paced                  // a list that costs Nova much
	free                   // a list that costs little
)

// ask makes one call under the process's limits and hands the answer to the loop, with the time at which the call STARTED: what
// happened later it cannot know. An answer older than what is known is dropped; an error keeps the last good value. "Gone" is an
// answer about one object; of a list it is a lie, or a proxy's word.
func ask[T any](ctx context.Context, u *unit, kind question, call func(context.Context) (T, error), put func(*plan.Facts, seen[T])) {
	if kind == paced && u.e.limiter.list(ctx) != nil || u.e.limiter.acquire(ctx) != nil {
		return
	}
	began := time.Now()
	value, err := called(ctx, u.e, call)
	tell(u, began, value, err, kind, put)
}

// called makes one call, for which a slot of the limiter is held, and gives the slot back.
func called[T any](ctx context.Context, e *Engine, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.CallTimeout)
	defer cancel()
	value, err := call(ctx)
	e.limiter.release(ha.ClassOf(err))
	return value, err
}

// tell hands the answer of a call that began then to the loop.
func tell[T any](u *unit, began time.Time, value T, err error, kind question, put func(*plan.Facts, seen[T])) {
	at := u.at(began)
	answer := func(was plan.Seen[T]) plan.Seen[T] {
		switch {
		case at.Before(was.At):
			return was
		case err == nil || ha.ClassOf(err) == ha.ClassGone && kind == single:
			return plan.Seen[T]{Value: value, At: at, Came: u.now(), Err: err, Tried: at}
		}
		was.Err, was.Tried = err, at
		return was
	}
	u.mu.Lock()
	u.slowest = max(u.slowest, time.Since(began))
	u.found = append(u.found, func(f *plan.Facts) { put(f, answer) })
	u.mu.Unlock()
	u.ring()
}

// lookAtServices asks for all services, together with the other units of this process: a large cloud has thousands, and while many of
// its hosts die each of their units asks once a second.
func (u *unit) lookAtServices(ctx context.Context) {
	value, began, err := u.e.services.get(ctx, func(ctx context.Context) ([]ha.Service, error) {
		if err := u.e.limiter.acquire(ctx); err != nil {
			return nil, err
		}
		return called(ctx, u.e, u.e.cloud.Services)
	})
	if ctx.Err() != nil {
		return
	}
	tell(u, began, value, err, free, func(f *plan.Facts, s seen[[]ha.Service]) { f.Services = s(f.Services) })
}
