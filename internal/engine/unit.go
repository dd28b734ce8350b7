package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/lease"
	"github.com/salvor-ha/salvor/internal/plan"
)

// unit is one unit of work in its owner's hands. Its loop alone reads and writes the fields above mu.
type unit struct {
	e      *Engine
	log    *slog.Logger
	key    string
	lease  ha.Lease
	guard  *lease.Guard
	rows   ha.Unit
	local  time.Time // when rows.Now was read, on this process's clock
	dbNow  time.Time
	memory plan.Memory
	facts  plan.Facts
	flying map[string]ha.ActKind
	ended  []ha.Outcome // acts that ended and are not yet committed
	sent   time.Time    // when the last commit that succeeded was sent
	wrote  time.Time    // when the last commit had succeeded
	reload bool
	took   string                  // that it was taken over, until that is written
	faults int                     // commits in a row that failed for no reason that passes by itself
	again  map[plan.Look]time.Time // when each fact may be looked for again
	begun  time.Time
	writes bool // it has its turn to write
	passes passes
	hurry  atomic.Bool
	signal atomic.Int64 // of the rows as they were loaded last

	acts  context.Context
	stop  context.CancelFunc
	group sync.WaitGroup // acts and looks in flight

	mu      sync.Mutex
	came    []ha.Outcome
	found   []func(*plan.Facts)
	looking bool
	slowest time.Duration // answer of the look under way
	rest    rest
	wake    chan struct{}
}

func newUnit(e *Engine, l ha.Lease, rows ha.Unit, guard *lease.Guard) *unit {
	u := &unit{
		e: e, key: rows.Key, lease: l, guard: guard, rows: rows, local: time.Now(), dbNow: rows.Now,
		log:    e.log.With("unit", rows.Key, "epoch", l.Epoch, "notification", rows.NotificationUUID),
		flying: map[string]ha.ActKind{}, again: map[plan.Look]time.Time{}, wake: make(chan struct{}, 1),
		sent: time.Now(), begun: time.Now(),
	}
	u.signal.Store(rows.Signal)
	return u
}

// now is the database's clock as this owner reckons it: read at the claim, carried on by its own monotonic clock.
func (u *unit) now() time.Time { return u.at(time.Now()) }

// at is a moment of this process's clock on the database's.
func (u *unit) at(local time.Time) time.Time { return u.dbNow.Add(local.Sub(u.local)) }

// run takes turns until the unit ends, is parked, is another's, or ctx (the guard's) ends.
func (u *unit) run(ctx context.Context) {
	if span := u.e.cfg.Observe.Unit; span != nil {
		var end func(string)
		ctx, end = span(ctx, u.rows.Work)
		defer func() { end(string(u.rows.Notification.Status)) }()
	}
	u.acts, u.stop = context.WithCancel(ctx)
	defer func() {
		if ctx.Err() != nil {
			u.log.Warn("the work ends here", "cause", context.Cause(ctx))
		}
		u.leaveWriting()
		u.e.limiter.forget(u)
		u.stop()
		u.group.Wait()
	}()
	for {
		u.collect()
		draining := u.draining()
		if draining && len(u.flying) > 0 { // let them end; only the lease is kept
			u.leaveWriting()
			if !u.keep(ctx) {
				return
			}
			u.wait(ctx, time.Time{})
			continue
		}
		decided := time.Now()
		d, err := u.decide(draining)
		if err != nil {
			u.broken(ctx, err)
			return
		}
		if draining && !d.Ended {
			d.Changes = append(d.Changes, ha.Park{})
		} else if d.Park > 0 && len(u.flying) == 0 && len(d.Acts) == 0 && !d.Ended {
			d.Changes = append(d.Changes, ha.Park{After: d.Park})
		}
		if len(d.Changes) > 0 || u.reload {
			if stale, ok := u.enterWriting(ctx); !ok {
				return
			} else if stale {
				continue
			}
		}
		d.Changes = u.withTakeover(d.Changes)
		loads := u.reload
		done, again := u.commit(ctx, d, draining)
		u.leaveWriting()
		switch {
		case done:
			return
		case again:
			continue
		}
		u.send(d.Acts, decided)
		if d.Starved {
			u.e.limiter.await(u)
		}
		if next := u.lookAt(d.Looks); next > 0 && (d.Wake.IsZero() || u.now().Add(next).Before(d.Wake)) {
			d.Wake = u.now().Add(next)
		}
		if d.Reload && (u.reload || !loads) { // what this turn has loaded, it asked for before it knew
			u.reload = true
		}
		u.wait(ctx, d.Wake)
		if ctx.Err() != nil {
			return
		}
	}
}

func (u *unit) draining() bool {
	select {
	case <-u.e.drain:
		return true
	default:
		return false
	}
}

// decide asks plan; a panic there is an error of that unit, not of the process.
func (u *unit) decide(draining bool) (d plan.Decision, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error in planning: %v", p)
			u.log.Error("internal error in planning", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	if u.rows.Kind == ha.UnitReplicator {
		return u.replicate(draining), nil
	}
	return plan.Decide(plan.View{
		Unit: u.rows, Now: u.now(), Facts: u.facts, Results: u.ended, InFlight: u.flying, Memory: u.memory,
		Rules: *u.e.rules.Load(), Slots: u.e.limiter.free(), Draining: draining,
		Fencing: u.e.fencer != nil && u.e.fencer.Configured(u.rows.Host.Name),
	}), nil
}

// commit writes a decision behind the fence and makes it this owner's view. done: the unit is over for this owner. again: plan
// anew before anything is sent.
func (u *unit) commit(ctx context.Context, d plan.Decision, draining bool) (done, again bool) {
	if len(d.Changes) == 0 && time.Since(u.sent) < u.e.cfg.Tick && !u.reload {
		u.memory, u.ended = d.Memory, nil
		return false, false
	}
	if u.reload && len(d.Changes) == 0 {
		u.memory, u.ended = d.Memory, nil // what was seen in this turn is not seen again
		return !u.load(ctx), false
	}
	var beat ha.Beat
	var err error
	sent := time.Now()
	if len(d.Changes) == 0 {
		beat, sent, err = u.beat(ctx)
	} else {
		beat, err = u.e.store.Commit(ctx, &u.lease, u.numbered(d.Changes)...)
	}
	switch {
	case err == nil:
	case errors.Is(err, ha.ErrFenced):
		u.log.Warn("another engine owns this unit now")
		return true, false
	case errors.Is(err, ha.ErrStale), errors.Is(err, ha.ErrTaken), errors.Is(err, ha.ErrSuperseded):
		return !u.load(ctx), true
	default:
		return u.refused(ctx, err)
	}
	u.faults = 0
	u.sent, u.wrote = sent, time.Now()
	u.guard.Renew(sent)
	u.rows.Apply(d.Changes...)
	if len(d.Changes) > 0 {
		u.took = ""
	}
	u.memory, u.ended = d.Memory, nil
	if d.Ended {
		u.log.Info("ended", "status", u.rows.Notification.Status, "message", message(u.rows.Notification))
		if u.e.cfg.Observe.Ended != nil {
			u.e.cfg.Observe.Ended(u.rows.Kind, u.rows.Notification.Status, u.now().Sub(u.rows.Notification.CreatedAt))
		}
		u.e.Poke() // what waited for this key may begin
		return true, false
	}
	if draining || parked(d.Changes) {
		return true, false
	}
	if movesBlobs(d.Changes) {
		u.e.hurryUnits()
	}
	if beat.Signal != u.rows.Signal && u.rows.Kind == ha.UnitReplicator {
		u.hurryUp() // its next pass loads all there is: nothing is loaded for the signal alone
		return false, false
	}
	if beat.Signal != u.rows.Signal {
		return !u.load(ctx), len(d.Acts) == 0
	}
	return false, false
}

func parked(changes []ha.Change) bool {
	return slices.ContainsFunc(changes, func(c ha.Change) bool { _, is := c.(ha.Park); return is })
}

func message(n ha.Notification) string {
	if n.Message == nil {
		return ""
	}
	return *n.Message
}

// withTakeover has the first commit after a takeover that writes anything begin with an entry that says so: the history would have a hole
// there. A turn that writes nothing stays one without a transaction; what has no notification has no history.
func (u *unit) withTakeover(changes []ha.Change) []ha.Change {
	if u.took == "" || len(changes) == 0 || u.rows.NotificationUUID == "" {
		return changes
	}
	return append([]ha.Change{ha.Write{Entry: ha.Entry{Kind: ha.EntryNote, Task: ha.TaskTakeover, Text: u.took}}}, changes...)
}

// numbered gives journal entries their numbers, unique in this epoch.
func (u *unit) numbered(changes []ha.Change) []ha.Change {
	out := slices.Clone(changes)
	for i, c := range out {
		if w, ok := c.(ha.Write); ok {
			u.rows.Seq++
			w.Entry.Seq = u.rows.Seq
			out[i] = w
		}
	}
	seq := u.rows.Seq
	for i, c := range changes {
		if r, ok := c.(ha.SetRecovery); ok { // the number is this owner's, whatever plan copied
			r.Recovery.Seq = seq
			changes[i], out[i] = r, r
		}
	}
	return out
}

// refused handles a commit that failed. What passes by itself is tried again as long as the lease lasts; what does not would
// fail for every owner, and ends the attempt.
func (u *unit) refused(ctx context.Context, err error) (done, again bool) {
	u.log.Warn("could not commit", "error", err)
	var away *ha.UnavailableError
	if !errors.As(err, &away) && ctx.Err() == nil {
		if u.faults++; u.faults >= 5 {
			u.broken(ctx, err)
			return true, false
		}
	}
	u.pause(ctx, u.e.cfg.Poll)
	// It may have been written all the same: only the rows tell what was intended.
	return !u.load(ctx), true
}

// broken ends a unit that cannot be planned or written: it gets the error's text, and nothing stays running without an owner
// (RECOVERY section 5).
func (u *unit) broken(ctx context.Context, cause error) {
	changes := []ha.Change{ha.Write{Entry: ha.Entry{Kind: ha.EntryAlarm, Task: string(ha.AlarmInternal), Text: cause.Error(), Seq: u.rows.Seq + 1}}}
	if n := u.rows.Notification; n.UUID != "" && n.Status.CanBecome(ha.StatusFailed) {
		changes = append(changes, ha.SetNotification{UUID: n.UUID, Status: ha.StatusFailed, Message: cause.Error()})
	}
	if u.rows.NotificationUUID == "" { // nobody would file it anew
		changes = append(changes, ha.Park{After: time.Minute})
	} else {
		changes = append(changes, ha.EndUnit{})
	}
	if _, err := u.e.store.Commit(ctx, &u.lease, changes...); err != nil {
		u.log.Error("could not even end the unit", "error", err, "cause", cause)
	}
}

// load reads the unit again; false when it is no longer this owner's or the work must end.
func (u *unit) load(ctx context.Context) bool {
	for ctx.Err() == nil {
		sent := time.Now()
		rows, err := u.e.store.Load(ctx, &u.lease)
		if errors.Is(err, ha.ErrFenced) {
			u.log.Warn("another engine owns this unit now")
			return false
		}
		if err == nil {
			u.sent, u.reload = sent, false
			u.guard.Renew(sent)
			seq := u.rows.Seq
			rows.Open = slices.DeleteFunc(rows.Open, func(e ha.Entry) bool { return e.Epoch == u.lease.Epoch })
			u.rows = rows
			u.rows.Seq = seq
			u.signal.Store(rows.Signal)
			return true
		}
		u.log.Warn("could not load", "error", err)
		u.pause(ctx, u.e.cfg.Poll)
	}
	return false
}

// keep renews the lease, without a turn.
func (u *unit) keep(ctx context.Context) bool {
	if time.Since(u.sent) < u.e.cfg.Tick {
		return true
	}
	_, sent, err := u.beat(ctx)
	if err == nil {
		u.sent = sent
		u.guard.Renew(sent)
	}
	return !errors.Is(err, ha.ErrFenced) && ctx.Err() == nil
}

// wait ends when something came, at the next beat, or at wake on the database's clock.
func (u *unit) wait(ctx context.Context, wake time.Time) {
	until := u.e.cfg.Tick - time.Since(u.sent)
	if !wake.IsZero() {
		until = min(until, wake.Sub(u.now()))
	}
	timer := time.NewTimer(max(until, time.Millisecond))
	defer timer.Stop()
	var drain <-chan struct{}
	if !u.draining() {
		drain = u.e.drain
	}
	select {
	case <-timer.C:
	case <-u.wake:
	case <-drain:
	case <-ctx.Done():
	}
}

func (u *unit) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
