package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// world drives one unit of work as an engine does, against a scripted cloud, on a clock of its own: decide, write the changes,
// send the acts, look, and again when something came or when the plan asked to be woken. It checks every turn (checks_test.go).
type world struct {
	*nova
	t     rapid.TB
	start time.Time
	now   time.Time
	rules plan.Rules
	unit  ha.Unit

	facts    plan.Facts
	memory   plan.Memory
	results  []ha.Outcome
	flying   map[string]ha.ActKind
	asked    map[plan.Look]time.Time
	pending  map[plan.Look]bool
	slots    int
	draining bool
	fencing  bool
	owner    int // counts takeovers: what came for a former owner is lost

	slow      time.Duration // how much longer than usual a look takes
	slowLists time.Duration // and one at servers or migrations besides

	agenda  []*item
	seq     int
	wake    time.Time
	ended   bool
	last    plan.Decision
	changes []ha.Change
	journal []ha.Entry
	open    []ha.Entry             // the rows' open intents
	refuse  func([]ha.Change) bool // true: this commit fails, and is planned anew
	reload  func()                 // what others have written, seen when the plan asks to load again
	turns   int
	told    bool
}

// item is something that happens at a moment. One that wakes leads to a turn.
type item struct {
	at    time.Time
	seq   int
	wakes bool
	run   func()
}

var born = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const failedHost = "compute-1"

func defaults() plan.Rules {
	return plan.Rules{
		MetadataKey: "HA_Enabled", EvacuateAll: true, DisableReason: "salvor: host failed", VMMetadataKey: "HA_Enabled",
		ProcessReason: "salvor: process failed", WaitService: 180 * time.Second, WaitEvacuation: 90 * time.Second,
		WaitPowerOff: 180 * time.Second, WaitPowerOn: 60 * time.Second, RetryInterval: 120 * time.Second, Expiry: 24 * time.Hour,
		ForceDown: true, ReportInterval: 10 * time.Second, ProofMaxAge: 60 * time.Second, OrderInDoubt: 60 * time.Second,
		NovaTimeout: 30 * time.Second, BrakePercent: 50, RecoveryRate: 10, MaxAttempts: 3, HealthyDelay: 300 * time.Second,
		VerifyInterval: time.Second, ProcessesOfNova: []string{ha.ProcessNovaCompute},
	}
}

// newWorld is a segment of compute-1 to compute-4, all well, and a unit of the given kind for compute-1.
func newWorld(t rapid.TB, kind ha.UnitKind) *world {
	w := &world{t: t, start: born, now: born, rules: defaults(), slots: 32}
	w.nova = &nova{t: t, w: w, beating: map[string]bool{}, actions: map[string][]ha.ServerAction{}, providers: map[string][]string{},
		takes: 2 * time.Second, looked: map[string]int{}}
	for _, b := range []string{"nova-scheduler", "nova-conductor"} {
		w.services = append(w.services, ha.Service{ID: b, Binary: b, Host: "controller", Enabled: true, Up: true, UpdatedAt: born})
	}
	w.unit = ha.Unit{
		Work:    ha.Work{ID: 1, Kind: kind, HostUUID: "uuid-" + failedHost, SegmentUUID: "segment", CreatedAt: born},
		Segment: ha.Segment{UUID: "segment", Name: "rack", Enabled: true, RecoveryMethod: ha.MethodAuto},
	}
	for i := range 4 {
		w.addHost(i + 1)
	}
	w.unit.Host = w.unit.Peers[0].Host
	w.forget()
	return w
}

// addHost adds compute-i to the segment and to Nova, alive.
func (w *world) addHost(i int) {
	name := fmt.Sprintf("compute-%d", i)
	w.unit.Peers = append(w.unit.Peers, ha.Peer{Host: ha.Host{ID: int64(i), UUID: "uuid-" + name, Name: name, SegmentUUID: "segment"}})
	w.services = append(w.services, ha.Service{ID: "id-" + name, Binary: ha.BinaryCompute, Host: name, Enabled: true, Up: true, UpdatedAt: born})
	w.beating[name] = true
	w.beat(name)
}

func (w *world) peer(name string) *ha.Peer {
	for i := range w.unit.Peers {
		if w.unit.Peers[i].Name == name {
			return &w.unit.Peers[i]
		}
	}
	w.t.Fatalf("no host %s", name)
	return nil
}

// report is the notification that the unit handles.
func (w *world) report(uuid string, typ ha.Type, p ha.Payload) ha.Notification {
	return ha.Notification{Stamps: ha.Stamps{CreatedAt: w.now}, ID: 1, UUID: uuid, Type: typ, SourceHostUUID: w.unit.HostUUID,
		Payload: p, Status: ha.StatusNew, GeneratedTime: w.now}
}

// hostDeath is a world in which compute-1 died, Nova has seen it, and it is reported NORMAL.
func hostDeath(t rapid.TB) *world {
	w := newWorld(t, ha.UnitHost)
	w.handles(w.report("n1", ha.TypeComputeHost, ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyHostStatus: ha.HostStatusNormal}))
	w.die(failedHost)
	w.notice(failedHost)
	return w
}

func (w *world) handles(n ha.Notification) { w.unit.Notification, w.unit.NotificationUUID = n, n.UUID }

// instance puts an active instance on compute-1; with changes it.
func (w *world) instance(id string, with ...func(*ha.Server)) *ha.Server {
	s := &ha.Server{ID: id, Name: "name-" + id, Host: failedHost, VMState: ha.VMActive, Running: true, Metadata: map[string]string{},
		CreatedAt: born.Add(time.Duration(len(w.servers)) * time.Minute)}
	for _, f := range with {
		f(s)
	}
	w.servers = append(w.servers, s)
	return s
}

// forget is what a takeover loses.
func (w *world) forget() {
	w.unit.Now = w.now // a claim loads
	w.facts, w.memory, w.results = plan.Facts{}, plan.Memory{}, nil
	w.flying, w.asked, w.pending = map[string]ha.ActKind{}, map[plan.Look]time.Time{}, map[plan.Look]bool{}
	w.owner++
}

// takeover hands the unit to another engine at once: acts in flight may still be done, their answers are lost.
func (w *world) takeover() {
	w.forget()
	w.unit.Open = slices.Clone(w.open)
	w.wake = w.now
}

// again is an operator's retry of a recovery that has ended: a new unit of the same work (section 5).
func (w *world) again(by string) {
	old := w.unit.Work
	w.unit.Work = ha.Work{ID: old.ID + 1, CreatedAt: w.now, Kind: old.Kind, HostUUID: old.HostUUID, SegmentUUID: old.SegmentUUID, NotificationUUID: old.NotificationUUID,
		Wishes: ha.Wishes{RetryBy: by, Retries: old.Wishes.Retries + 1}, Recovery: ha.Recovery{Retried: old.Wishes.Retries}}
	w.ended = false
	w.open = nil
	w.takeover()
}

// becomes is the next unit of the host: what is claimed stays.
func (w *world) becomes(kind ha.UnitKind) {
	w.unit.Work = ha.Work{ID: w.unit.ID + 1, CreatedAt: w.now, Kind: kind, HostUUID: w.unit.HostUUID, SegmentUUID: w.unit.SegmentUUID}
	w.unit.Notification, w.unit.Moves = ha.Notification{}, nil
	w.ended, w.open = false, nil
	w.takeover()
}

// at has something happen after d, without waking the plan.
func (w *world) at(d time.Duration, f func()) { w.plan(d, false, f) }

// comes has something happen after d that the owner is told of.
func (w *world) comes(d time.Duration, f func()) {
	w.plan(d, true, func() { f(); w.wake = w.now })
}

func (w *world) plan(d time.Duration, wakes bool, f func()) {
	w.seq++
	w.agenda = append(w.agenda, &item{at: w.now.Add(d), seq: w.seq, wakes: wakes, run: f})
}

// next takes the first item due at or before limit off the agenda.
func (w *world) next(limit time.Time) *item {
	first := -1
	for i, it := range w.agenda {
		if !it.at.After(limit) && (first < 0 || it.at.Before(w.agenda[first].at) || it.at.Equal(w.agenda[first].at) && it.seq < w.agenda[first].seq) {
			first = i
		}
	}
	if first < 0 {
		return nil
	}
	it := w.agenda[first]
	w.agenda = slices.Delete(w.agenda, first, first+1)
	return it
}

// run lets d pass, or the unit end.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	end := w.now.Add(d)
	if w.turns == 0 {
		w.turn()
	}
	for !w.ended {
		until := end
		if !w.wake.IsZero() && w.wake.Before(until) {
			until = w.wake
		}
		it := w.next(until)
		switch {
		case it != nil:
			w.now = maxTime(w.now, it.at)
			it.run()
			if it.wakes {
				w.turn()
			}
		case !w.wake.IsZero() && !w.wake.After(end):
			w.now = maxTime(w.now, w.wake)
			w.turn()
		default:
			w.now = end
			return
		}
		if w.turns > 200000 {
			w.t.Fatalf("the plan spins: %d turns by %s", w.turns, w.now.Sub(w.start))
		}
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// until runs until something is so, at most for d.
func (w *world) until(what string, is func() bool, d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); !is(); {
		if w.ended || !w.now.Before(end) {
			w.t.Fatalf("not so after %s: %s\n%s", d, what, w.story())
		}
		w.run(100 * time.Millisecond)
	}
}

// pass lets d pass after the unit has ended: what was sent may still act.
func (w *world) pass(d time.Duration) {
	end := w.now.Add(d)
	for it := w.next(end); it != nil; it = w.next(end) {
		w.now = maxTime(w.now, it.at)
		it.run()
	}
	w.now = end
}

// toEnd runs until the unit has ended, at most for d.
func (w *world) toEnd(d time.Duration) {
	w.t.Helper()
	w.run(d)
	if !w.ended {
		w.t.Fatalf("has not ended after %s\n%s", d, w.story())
	}
}

// turn is one turn of the engine's loop.
func (w *world) turn() {
	w.t.Helper()
	w.turns++
	w.wake = time.Time{}
	v := plan.View{Unit: w.unit, Now: w.now, Facts: w.facts, Results: w.results, InFlight: maps.Clone(w.flying), Memory: w.memory,
		Rules: w.rules, Slots: w.slots - len(w.flying), Draining: w.draining, Fencing: w.fencing}
	d := decide(w.t, v)
	w.last = d
	w.check(v, d)
	if w.refuse != nil && w.refuse(d.Changes) {
		w.wake = w.now.Add(10 * time.Millisecond)
		return
	}
	w.commit(d)
	if w.ended {
		return
	}
	for _, a := range d.Acts {
		w.send(a)
	}
	for _, l := range d.Looks {
		w.look(l)
	}
	if d.Reload {
		w.unit.Now = w.now
		if w.reload != nil {
			w.reload()
		}
	}
	if d.Park > 0 && len(w.flying) == 0 {
		w.forget()
		w.unit.Open = slices.Clone(w.open)
		w.wake = w.now.Add(d.Park)
		return
	}
	if w.wake.IsZero() || !d.Wake.IsZero() && d.Wake.Before(w.wake) {
		w.wake = d.Wake
	}
}

// commit writes the changes, as a store does.
func (w *world) commit(d plan.Decision) {
	w.changes = append(w.changes, d.Changes...)
	w.unit.Apply(d.Changes...)
	w.memory, w.results, w.ended = d.Memory, nil, d.Ended
	for _, c := range d.Changes {
		switch c := c.(type) {
		case ha.Write:
			c.Entry.At = w.now
			w.journal = append(w.journal, c.Entry)
			if c.Entry.Open {
				w.open = append(w.open, c.Entry)
			}
		case ha.CloseIntent:
			w.open = slices.DeleteFunc(w.open, func(e ha.Entry) bool { return e.Key == c.Key })
		case ha.SetHost:
			if c.Started {
				now := w.now
				w.unit.Host.StartedAt = &now
			}
		}
	}
}

// send does an act and hands the outcome to whoever owns the unit then, if it still is the sender.
func (w *world) send(a ha.Act) {
	o, late := w.do(a)
	w.flying[a.Key] = a.Kind
	owner := w.owner
	w.plan(late, true, func() {
		if w.owner != owner {
			return
		}
		o.At = w.now
		delete(w.flying, a.Key)
		if o.Service != nil {
			w.facts.PutService(*o.Service, o.At, o.Service.Host == w.unit.Host.Name)
		}
		w.results = append(w.results, o)
	})
}

// story tells what happened, for a test that failed.
func (w *world) story() string {
	if w.told { // once is enough
		return ""
	}
	w.told = true
	var b strings.Builder
	n := w.unit.Notification
	fmt.Fprintf(&b, "after %s: step %q, notification %s %q\n", w.now.Sub(w.start), w.unit.Step, n.Status, text(n.Message))
	for _, m := range w.unit.Moves {
		fmt.Fprintf(&b, "  %s: %s, stage %s, attempts %d, %q\n", m.InstanceUUID, m.Status, m.Stage, m.Attempts, text(m.Message))
	}
	for _, e := range w.journal {
		fmt.Fprintf(&b, "  %9.3f %-8s %s %s %s\n", e.At.Sub(w.start).Seconds(), e.Kind, e.Task, e.State, e.Text)
	}
	return b.String()
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// hostUnitUnseen has a unit of the host become active that the rows at hand do not tell of until a commit gives way to it.
func (w *world) hostUnitUnseen() {
	w.refuse = func(changes []ha.Change) bool {
		if w.unit.HostUnit == 0 && slices.ContainsFunc(changes, func(c ha.Change) bool { _, is := c.(ha.GiveWay); return is }) {
			w.unit.HostUnit = 7
			return true
		}
		return false
	}
}
