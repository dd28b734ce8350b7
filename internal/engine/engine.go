// Package engine carries recoveries out. One loop per unit of work looks, asks plan what follows, commits it behind the fence,
// and sends the acts; one loop per process finds work and claims it. An engine holds nothing that it could not lose: a takeover
// is the next turn of the loop, in another process (DESIGN section 3).
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/salvor-ha/salvor/internal/blob"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/lease"
	"github.com/salvor-ha/salvor/internal/plan"
)

// Config is what an engine needs to know. All durations are positive.
type Config struct {
	Name         string // new at each process start: no two processes ever share one
	Host         string
	Version      string
	TTL          time.Duration // lease_ttl
	Tick         time.Duration // lease_tick: how often a lease is renewed
	Poll         time.Duration // poll_interval
	DrainTimeout time.Duration
	CallTimeout  time.Duration // nova_timeout
	Concurrency  int           // nova_concurrency_max
	Rules        plan.Rules
	Blobs        blob.Rules
	Log          *slog.Logger
	Observe      Observer
}

// Observer is told what the engine does, for metrics and traces. Any field may be nil.
type Observer struct {
	Claimed func(kind ha.UnitKind, takeover bool)
	Ended   func(kind ha.UnitKind, status ha.Status, took time.Duration)
	Acted   func(kind ha.ActKind, class ha.Class, took time.Duration)
	Held    func(units, limit int)

	// Unit and Act begin a span of a trace: of an owner's work on a unit, and of one act within it. end takes how it ended.
	Unit func(ctx context.Context, w ha.Work) (_ context.Context, end func(status string))
	Act  func(ctx context.Context, a ha.Act) (_ context.Context, end func(class ha.Class))
}

// Engine claims units of work and carries them out until Run's context ends.
type Engine struct {
	cfg      Config
	store    Store
	cloud    Cloud
	fencer   Fencer // nil when no fencing is configured
	log      *slog.Logger
	limiter  *limiter
	services *shared[[]ha.Service]
	writing  *writing
	beating  *writing // of units
	beats    beats
	rules    atomic.Pointer[plan.Rules] // as they are now
	poke     chan struct{}
	started  time.Time // for people: it is compared with nothing
	unread   complaint // of the look for work

	mu     sync.Mutex
	units  map[int64]*unit // held
	claims map[string]bool // keys whose claim is under way
	group  sync.WaitGroup  // units and claims
	drain  chan struct{}   // closed when nothing new may be sent
	own    int64           // own beats that were committed
	others lease.Watch[int64]
	peers  lease.Watch[string]
	wanted map[string]time.Time // key -> since when it could be claimed, for the delay by rank
	alive  []string             // engines that beat, as of aliveAt
	alived time.Time
}

// New returns an engine; Run starts it. fencer is nil when no fencing is configured.
func New(cfg Config, store Store, cloud Cloud, fencer Fencer) *Engine {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{
		cfg: cfg, store: store, cloud: cloud, fencer: fencer, log: cfg.Log.With("engine", cfg.Name),
		limiter: newLimiter(max(1, cfg.Concurrency)), services: newShared[[]ha.Service](servicesEvery), writing: newWriting(writesAtOnce), beating: newWriting(beatsAtOnce),
		poke: make(chan struct{}, 1), started: time.Now().UTC(),
		units: map[int64]*unit{}, claims: map[string]bool{}, drain: make(chan struct{}), wanted: map[string]time.Time{},
	}
	e.beats.e = e
	e.unread = complaint{log: e.log, what: "could not look for work", ended: "looks for work again"}
	e.SetRules(cfg.Rules)
	return e
}

// SetRules has every turn from now on planned by r; what was decided stays decided. It may be called while the engine runs.
func (e *Engine) SetRules(r plan.Rules) { e.rules.Store(&r) }

// Poke makes the engine look for work at once. It never blocks.
func (e *Engine) Poke() {
	e.hurryUnits()
	select {
	case e.poke <- struct{}{}:
	default:
	}
}

// Run works until ctx ends, then drains: nothing new is sent, acts in flight end (for at most DrainTimeout), their outcomes are
// journaled, and the leases are given up at once.
func (e *Engine) Run(ctx context.Context) {
	hard, kill := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx by the drain
	defer kill()
	looks := time.NewTicker(e.cfg.Poll)
	defer looks.Stop()
	var beaten time.Time
	for ctx.Err() == nil {
		// Half a poll early rather than half a poll late: others count five of their own beats before they take over. An engine that
		// cannot look for work is of no use to them, so it does not beat.
		if now := time.Now(); e.look(ctx, hard) && now.Sub(beaten) >= e.cfg.Tick-e.cfg.Poll/2 {
			if e.beat(ctx) {
				beaten = now
			}
		}
		select {
		case <-looks.C:
		case <-e.poke:
		case <-ctx.Done():
		}
	}
	e.group.Go(func() { e.leave(hard) }) // before the leases: who ranks for them must not wait for this engine
	close(e.drain)
	ended := make(chan struct{})
	go func() {
		e.group.Wait()
		close(ended)
	}()
	patience := time.NewTimer(e.cfg.DrainTimeout)
	defer patience.Stop()
	select {
	case <-ended:
	case <-patience.C:
		e.stopActs()
		<-ended
	}
}

// leave takes this engine out of the list of those that others count with.
func (e *Engine) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Tick*2)
	defer cancel()
	if err := e.store.LeaveEngine(ctx, e.cfg.Name); err != nil {
		e.warn(ctx, "could not leave the list of engines", err)
	}
}

// beat writes that this engine is alive. Only the loop that finds work beats: an engine whose loop stands still is not alive.
func (e *Engine) beat(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Tick*2)
	defer cancel()
	err := e.store.BeatEngine(ctx, ha.Engine{Name: e.cfg.Name, Host: e.cfg.Host, Version: e.cfg.Version, StartedAt: e.started, Beat: e.own + 1})
	if err != nil {
		e.warn(ctx, "could not beat", err)
		return false
	}
	e.own++
	if e.cfg.Observe.Held != nil {
		e.cfg.Observe.Held(e.holding(), e.limiter.size())
	}
	return true
}

// candidate is a unit that this engine may claim when its turn has come.
type candidate struct {
	key     string
	request ha.ClaimRequest
	dead    string        // its owner, where that is
	still   time.Duration // for how long that owner was seen to stand still
}

// takeover tells the history that another owner goes on, and why; "" where nobody's work was taken over.
func (c candidate) takeover(by string) string {
	if c.dead == "" {
		return ""
	}
	return fmt.Sprintf("%s took over from %s, which it had seen silent for %.1f s", by, c.dead, c.still.Seconds())
}

// look finds what could be claimed and claims what it should: fresh notifications, units whose owner is dead, units whose next
// look has come, and those that bear its name though it does not hold them (a claim whose answer was lost). False when the rows
// could not be read.
func (e *Engine) look(ctx, hard context.Context) bool {
	seen, cancel := context.WithTimeout(ctx, e.cfg.TTL)
	defer cancel()
	poll, err := e.store.Poll(seen, e.cfg.Name)
	if err != nil {
		if ctx.Err() == nil {
			e.unread.failed(err)
		}
		return false
	}
	e.unread.well()
	now := time.Now()
	candidates := e.candidates(poll, now)
	// Who else is there is watched while there is work, and asked anew before a claim: one that has just left must not count.
	if since := time.Since(e.alived); since >= 2*e.cfg.Tick && len(poll.Fresh)+len(poll.Units) > 0 || since >= e.cfg.Poll/2 && len(candidates) > 0 {
		e.seeEngines(seen)
	}
	keys := map[string]bool{}
	for _, c := range candidates {
		keys[c.key] = true
		if e.myTurn(c, now) {
			e.claim(hard, c)
		}
	}
	for k := range e.wanted {
		if !keys[k] {
			delete(e.wanted, k)
		}
	}
	for _, s := range poll.Mine {
		e.mu.Lock()
		u, held := e.units[s.WorkID]
		e.mu.Unlock()
		switch {
		case !held:
			e.claim(hard, candidate{key: s.Key, request: ha.ClaimRequest{WorkID: s.WorkID, Epoch: s.Epoch, Beat: s.Beat}})
		case s.Signal != u.signal.Load():
			u.hurryUp()
		}
	}
	return true
}

// candidates sorts out of what was seen that which nobody alive holds.
func (e *Engine) candidates(poll ha.Poll, now time.Time) []candidate {
	var list []candidate
	for _, f := range poll.Fresh {
		list = append(list, candidate{key: f.Key, request: ha.ClaimRequest{Fresh: f}})
	}
	ids := map[int64]bool{}
	for _, s := range poll.Units {
		ids[s.WorkID] = true
		still, beats := e.others.See(s.WorkID, s.Epoch, s.Beat, now, e.own)
		c := candidate{key: s.Key, request: ha.ClaimRequest{WorkID: s.WorkID, Epoch: s.Epoch, Beat: s.Beat}}
		if s.Owner != "" && lease.Dead(still, beats, s.TTL) {
			c.dead, c.still = s.Owner, still
		}
		if c.dead != "" || s.Owner == "" && s.Due {
			list = append(list, c)
		}
	}
	e.others.Keep(func(id int64) bool { return ids[id] })
	return list
}

// seeEngines learns which engines beat. One that was never seen before counts as alive until it has stood still for a ttl.
func (e *Engine) seeEngines(ctx context.Context) {
	list, err := e.store.Engines(ctx)
	if err != nil {
		e.warn(ctx, "could not list the engines", err)
		return
	}
	now := time.Now()
	alive, names := []string{e.cfg.Name}, map[string]bool{}
	for _, p := range list {
		names[p.Name] = true
		if p.Name == e.cfg.Name {
			continue
		}
		if still, beats := e.peers.See(p.Name, 0, p.Beat, now, e.own); !lease.Dead(still, beats, e.cfg.TTL) {
			alive = append(alive, p.Name)
		}
	}
	e.peers.Keep(func(n string) bool { return names[n] })
	e.alive, e.alived = alive, now
}

// myTurn spreads claims by rank: the first in rank at once, each further one half a tick later, so that work is shared evenly. What
// a dead engine held is waited for half as long: that others of those ranked before are dead, too, must not make it late
// (invariant I10).
func (e *Engine) myTurn(c candidate, now time.Time) bool {
	since, ok := e.wanted[c.key]
	if !ok {
		since = now
		e.wanted[c.key] = since
	}
	step := e.cfg.Tick / 2
	if c.dead != "" {
		step /= 2
	}
	return now.Sub(since) >= time.Duration(lease.Rank(c.key, e.cfg.Name, e.alive))*step
}

// maxClaims bounds the claims under way, each of which loads a whole unit: the poll finds the others again.
const maxClaims = 8

// claim takes a unit and starts its loop. It runs beside the look, one per key.
func (e *Engine) claim(hard context.Context, c candidate) {
	e.mu.Lock()
	if e.claims[c.key] || len(e.claims) >= maxClaims || e.writing.crowded() {
		e.mu.Unlock()
		return
	}
	e.claims[c.key] = true
	e.mu.Unlock()
	c.request.Owner, c.request.TTL = e.cfg.Name, e.cfg.TTL
	e.group.Go(func() {
		u, ctx, guard := e.claimed(hard, c)
		if u == nil {
			return
		}
		defer guard.End(nil)
		u.run(ctx)
		e.mu.Lock()
		delete(e.units, u.lease.WorkID)
		e.mu.Unlock()
	})
}

func (e *Engine) claimed(hard context.Context, c candidate) (*unit, context.Context, *lease.Guard) {
	if !e.writing.enter(hard.Done(), nil) {
		e.mu.Lock()
		delete(e.claims, c.key)
		e.mu.Unlock()
		return nil, nil, nil
	}
	sent := time.Now()
	l, rows, err := e.take(hard, c.request)
	e.writing.leave()
	if err == nil && time.Since(sent) > e.cfg.Tick { // a slow database: the lease counts from a beat, not from before the claim
		sent = time.Now()
		_, err = e.store.Commit(hard, &l)
	}
	ctx, guard := lease.NewGuard(hard, sent, e.cfg.TTL, e.cfg.Tick)
	e.mu.Lock()
	delete(e.claims, c.key)
	var u *unit
	if err == nil {
		u = newUnit(e, l, rows, guard)
		u.took = c.takeover(e.cfg.Name)
		e.units[l.WorkID] = u
	}
	e.mu.Unlock()
	if err != nil {
		guard.End(err)
		if !errors.Is(err, ha.ErrLost) && !errors.Is(err, ha.ErrFenced) {
			e.warn(hard, "could not claim "+c.key, err)
		}
		return nil, nil, nil
	}
	e.log.Info("claimed", "unit", c.key, "epoch", l.Epoch, "takeover", c.dead != "", "notification", rows.NotificationUUID)
	if e.cfg.Observe.Claimed != nil {
		e.cfg.Observe.Claimed(rows.Kind, c.dead != "")
	}
	return u, ctx, guard
}

// take claims and loads a unit. That is many statements: a slow database gets the time that it needs, and what a claim that came
// too late has taken is taken over by whoever watches.
func (e *Engine) take(hard context.Context, r ha.ClaimRequest) (ha.Lease, ha.Unit, error) {
	ctx, cancel := context.WithTimeout(hard, claimWithin*e.cfg.TTL)
	defer cancel()
	return e.store.Claim(ctx, r)
}

// claimWithin is how many ttls a claim may take.
const claimWithin = 6

// stopActs ends the acts in flight of all units, when a drain takes too long.
func (e *Engine) stopActs() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, u := range e.units {
		u.stopActs()
	}
}

// holding is how many units this engine holds.
func (e *Engine) holding() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.units)
}

// Held returns the keys of the units that this engine holds.
func (e *Engine) Held() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	keys := make([]string, 0, len(e.units))
	for _, u := range e.units {
		keys = append(keys, u.key)
	}
	return keys
}

func (e *Engine) warn(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		e.log.Warn(what, "error", err)
	}
}
