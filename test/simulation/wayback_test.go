package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
	"github.com/salvor-ha/salvor/internal/sim"
)

// wayBack makes a world in which everything is done to a host that can be: beside deaths, processes and instances that fail, operators
// who cancel, hold, release, retry and confirm, and who change flags themselves. In the end every host comes back, and what salvor
// changed must be as it was before, exactly; what others changed must be as they left it (invariants I5 and I9).
type wayBack struct {
	rng      *rand.Rand
	auto     bool // auto_return
	prior    map[string]flags
	upkeep   map[string]bool // hosts on an operator's maintenance
	stopped  map[string]bool // hosts whose nova-compute is dead
	scrapped map[string]bool // hosts that are not registered any more
}

// flags are what Nova shows of a compute service, but for its heartbeats.
type flags struct {
	disabled bool
	reason   string
	forced   bool
}

func flagsOf(s sim.Service) flags { return flags{s.Disabled, s.DisabledReason, s.ForcedDown} }

// healthyDelay is healthy_delay in these worlds.
const healthyDelay = time.Minute

// startBack readies a world that build has made: spares are off, as Masakari's users keep them, and one host is an operator's.
func (w *world) startBack() {
	b := &wayBack{rng: rand.New(rand.NewPCG(w.seed, 7)), prior: map[string]flags{}, upkeep: map[string]bool{}, stopped: map[string]bool{}, scrapped: map[string]bool{}}
	b.auto = b.rng.IntN(2) == 0
	w.back = b
	for name, id := range w.hostID {
		h, err := w.store.Host(w.ctx, w.segment, id)
		if err != nil {
			w.t.Fatal(err)
		}
		if h.Reserved {
			w.operatorDisables(name, "spare")
		}
	}
	if b.rng.IntN(3) == 0 {
		w.operatorDisables("host-1", "operator: a bad disk")
	}
	for _, s := range w.cloud.Services(ha.BinaryCompute, "") {
		b.prior[s.Host] = flagsOf(s)
	}
	w.tell("every host is to come back as it was; auto_return %v", b.auto)
}

func (b *wayBack) rules(r plan.Rules) plan.Rules {
	r.AutoReturn, r.HealthyDelay = b.auto, healthyDelay
	r.RestartLimit, r.RestartWindow, r.ReturnLimit, r.ReturnWindow = 2, time.Hour, 2, time.Hour
	priority := 5
	r.Classes = []ha.InstanceClass{
		{Name: "odd", Action: ha.ClassError, Conditions: []ha.Condition{{Trait: ha.TraitImage, Values: []string{"odd"}}}},
		{Name: "first", Action: ha.ClassEvacuate, Priority: &priority, Waits: true, Wait: 3 * time.Second, Cap: 20 * time.Second,
			Conditions: []ha.Condition{{Trait: ha.TraitMetadata, Key: "HA_Enabled", Values: []string{"True"}}}},
	}
	return r
}

func (w *world) service(host string) sim.Service { return w.cloud.Services(ha.BinaryCompute, host)[0] }

func (w *world) operatorDisables(host, reason string) {
	yes := true
	if _, _, err := w.cloud.UpdateService(sim.Masakari(), w.service(host).ID, sim.ServicePatch{Disabled: &yes, Reason: &reason}); err != nil {
		w.t.Fatal(err)
	}
	w.tell("an operator disables %s: %s", host, reason)
}

// errand is one thing that happens beside what trouble does.
func (w *world) errand() {
	b := w.back
	host := hostName(b.rng.IntN(hosts))
	w.mu.Lock()
	_, dead := w.dead[host]
	w.mu.Unlock()
	switch kind := b.rng.IntN(14); {
	case kind < 3 && !dead && !b.scrapped[host]:
		w.processDies(host)
	case kind < 5:
		w.processReturns()
	case kind < 7:
		w.instanceFails()
	case kind < 10:
		w.operatorActs()
	case kind < 11:
		w.confirmOff(host)
	case kind < 13:
		w.scrap(host)
	case !dead && w.service(host) == w.unclaimed(host):
		w.operatorChanges(host)
	}
}

// unclaimed is the host's service if nothing of salvor's is on it.
func (w *world) unclaimed(host string) sim.Service {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.claims {
		if strings.HasPrefix(key, host+" ") {
			return sim.Service{}
		}
	}
	s := w.service(host)
	if s.Disabled {
		return sim.Service{}
	}
	return s
}

// processDies ends a nova-compute; its instances run on, so what runs twice is no verdict on salvor any more.
func (w *world) processDies(host string) {
	w.mu.Lock()
	w.back.stopped[host], w.revived = true, true
	delete(w.alive, host)
	w.mu.Unlock()
	_ = w.cloud.KillCompute(host)
	w.tell("nova-compute of %s dies", host)
	w.admit(ha.TypeProcess, host, ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyProcessName: ha.ProcessNovaCompute})
	if w.back.rng.IntN(4) == 0 { // the host goes with it
		w.pause(time.Duration(w.back.rng.IntN(8000)) * time.Millisecond)
		w.mu.Lock()
		w.dead[host] = time.Now()
		w.mu.Unlock()
		_ = w.cloud.Kill(host)
		w.tell("%s dies, too", host)
		w.report(host, ha.EventStopped, ha.HostStatusNormal, 1)
	}
}

func (w *world) processReturns() {
	for h := range hosts {
		host := hostName(h)
		w.mu.Lock()
		_, dead := w.dead[host]
		stopped := w.back.stopped[host]
		w.mu.Unlock()
		if stopped && !dead {
			w.starts(host)
			w.admit(ha.TypeProcess, host, ha.Payload{ha.KeyEvent: ha.EventStarted, ha.KeyProcessName: ha.ProcessNovaCompute})
			return
		}
	}
}

func (w *world) starts(host string) {
	w.mu.Lock()
	delete(w.back.stopped, host)
	delete(w.dead, host)
	delete(w.reports, host)
	w.alive[host] = time.Now()
	w.revived = true
	w.mu.Unlock()
	_ = w.cloud.Revive(host)
	w.tell("nova-compute of %s is back", host)
}

func (w *world) instanceFails() {
	list := w.instances()
	if len(list) == 0 {
		return
	}
	i := list[w.back.rng.IntN(len(list))]
	w.admit(ha.TypeVM, i.Host, ha.Payload{ha.KeyEvent: "LIFECYCLE", ha.KeyVirDomainEvent: "STOPPED_FAILED", ha.KeyInstanceUUID: i.ID})
}

func (w *world) admit(typ ha.Type, host string, p ha.Payload) {
	if host == "" {
		return
	}
	n, err := w.store.Admit(w.ctx, ha.Report{UUID: uuid.NewString(), Type: typ, Hostname: host, GeneratedTime: time.Now().UTC(), Payload: p}, 180*time.Second)
	w.tell("report: %s %s %v: %v", host, typ, p, err)
	if err == nil {
		w.mu.Lock()
		w.told[n.UUID] = true
		w.mu.Unlock()
	}
}

// confirmOff is an operator's word about a host: now and then about the wrong one.
func (w *world) confirmOff(host string) {
	if w.back.rng.IntN(4) > 0 {
		w.mu.Lock()
		for h := range hosts {
			if _, dead := w.dead[hostName(h)]; dead {
				host = hostName(h)
			}
		}
		w.mu.Unlock()
	}
	w.admit(ha.TypeComputeHost, host, ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyHostStatus: ha.HostStatusNormal, ha.KeyConfirmedBy: "op: it is off"})
}

// operatorActs gives an order about one of the open recoveries.
func (w *world) operatorActs() {
	open := w.unfinished()
	if len(open) == 0 {
		return
	}
	w.mu.Lock()
	var id string
	for told := range w.told {
		if strings.HasPrefix(told, open[0][:8]) {
			id = told
		}
	}
	w.mu.Unlock()
	until := time.Now().Add(time.Duration(5+w.back.rng.IntN(40)) * time.Second)
	wish := []ha.Wish{{Kind: ha.WishCancel, By: "op"}, {Kind: ha.WishHold, By: "op", Reason: "look", Until: &until}, {Kind: ha.WishRelease, By: "op"},
		{Kind: ha.WishRetry, By: "op"}}[w.back.rng.IntN(4)]
	if u, err := w.store.Recovery(w.ctx, id); err != nil || wish.Kind == ha.WishRelease && (u.HeldAt == ha.GateHeard || u.HeldAt == "") {
		return // who insists that a host is off which Nova hears takes it upon himself
	}
	w.tell("op: %s of %s: %v", wish.Kind, id, w.store.Wish(w.ctx, id, wish))
}

// operatorChanges is an operator's own change on a host that salvor has nothing on: it must outlast whatever follows.
func (w *world) operatorChanges(host string) {
	if w.back.rng.IntN(2) == 0 {
		w.operatorDisables(host, "operator: on site")
		w.back.prior[host] = flagsOf(w.service(host))
		return
	}
	h, err := w.store.Host(w.ctx, w.segment, w.hostID[host])
	if err != nil || h.OnMaintenance {
		return
	}
	yes := true
	if _, err := w.store.UpdateHost(w.ctx, w.segment, h.UUID, ha.HostPatch{OnMaintenance: &yes}); err == nil {
		w.back.upkeep[host] = true
		w.tell("an operator puts %s on maintenance", host)
	}
}

// comeBack brings every host back, waits, and judges.
func (w *world) comeBack() {
	w.scrapSome()
	for h := range hosts { // Nova cleans up what was evacuated only when nova-compute starts
		_ = w.cloud.KillCompute(hostName(h))
		w.starts(hostName(h))
	}
	w.pause(5 * time.Second)
	for h := range hosts {
		w.report(hostName(h), ha.EventStarted, ha.HostStatusNormal, 1)
		w.admit(ha.TypeProcess, hostName(h), ha.Payload{ha.KeyEvent: ha.EventStarted, ha.KeyProcessName: ha.ProcessNovaCompute})
	}
	up := func(s sim.Service) bool { return !s.ForcedDown }
	w.awaitFlags(3*time.Minute, up)
	// An order that waited for a dead destination has ended since, or an instance was moved away twice (Nova completes one record of an
	// instance at each start): Nova refuses, and the alarm old_copies says what to do.
	for range 4 {
		for h := range hosts {
			if host := hostName(h); w.service(host).ForcedDown {
				w.resetHanging(host)
				_ = w.cloud.KillCompute(host)
				w.starts(host)
			}
		}
		w.awaitFlags(2*time.Minute, up)
	}
	for h := range hosts {
		if s := w.service(hostName(h)); s.ForcedDown {
			w.violated("I9", "%s has been back for minutes and is still forced down", s.Host)
		}
	}
	w.pause(61 * time.Second) // of whose forced_down is gone, the rest is told within a minute
	for h := range hosts {    // an operator gives back what auto_return does not
		host := hostName(h)
		no := false
		if w.back.scrapped[host] {
			w.toldOfLeft(host)
			if s := w.service(host); s.Disabled && strings.HasPrefix(s.DisabledReason, "salvor") {
				_, _, _ = w.cloud.UpdateService(sim.Masakari(), s.ID, sim.ServicePatch{Disabled: &no})
			}
			continue
		}
		row, err := w.store.Host(w.ctx, w.segment, w.hostID[host])
		if err != nil {
			w.t.Fatal(err)
		}
		if w.back.upkeep[host] && !row.OnMaintenance {
			w.violated("I9", "the maintenance that an operator had put on %s is gone", host)
		}
		if row.OnMaintenance && !w.back.upkeep[host] {
			if _, err := w.store.UpdateHost(w.ctx, w.segment, row.UUID, ha.HostPatch{OnMaintenance: &no}); err != nil {
				w.violated("I9", "nobody can end the maintenance of %s: %v", host, err)
			}
		}
		if s := w.service(host); !w.back.auto && s.Disabled && strings.HasPrefix(s.DisabledReason, "salvor") {
			_, _, _ = w.cloud.UpdateService(sim.Masakari(), s.ID, sim.ServicePatch{Disabled: &no})
		}
	}
	w.awaitFlags(5*time.Minute, func(s sim.Service) bool { return flagsOf(s) == w.expected(s.Host) && !w.holds(s.Host) })
	w.asBefore()
}

// resetHanging is what the alarm old_copies asks for: an instance that left the host and has a task that does not end, such as another
// evacuation that hangs, keeps Nova from cleaning up after it.
func (w *world) resetHanging(host string) {
	left, _, err := w.cloud.Migrations(sim.MigrationQuery{Source: host, Type: ha.MigrationEvacuation, Status: "done"})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, m := range left {
		if i, _ := w.cloud.Instance(m.InstanceID); i.TaskState != "" {
			err := w.cloud.Act(sim.Masakari(), i.ID, sim.ServerAction{Name: "os-resetState", State: ha.VMError})
			w.tell("an operator resets %s, which is %s: %v", i.ID, i.TaskState, err)
		}
	}
}

func (w *world) awaitFlags(most time.Duration, is func(sim.Service) bool) {
	for end := time.Now().Add(most); time.Now().Before(end); w.pause(5 * time.Second) {
		all := len(w.unfinished()) == 0
		for h := range hosts {
			all = all && is(w.service(hostName(h)))
		}
		if all {
			return
		}
	}
}

// expected is how a host's service must be in the end: as before, but for a spare that is in use.
func (w *world) expected(host string) flags {
	f := w.back.prior[host]
	if w.back.scrapped[host] {
		return f
	}
	row, err := w.store.Host(w.ctx, w.segment, w.hostID[host])
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	_, used := w.claims[host+" enabled recovery"]
	w.mu.Unlock()
	if used && !row.Reserved && f.reason == "spare" {
		return flags{}
	}
	return f
}

// holds reports whether salvor still claims something on the host that is to be taken back. What is left disabled of one that was deleted
// is claimed for the case that it is registered again.
func (w *world) holds(host string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.back.scrapped[host] {
		_, has := w.claims[host+" forced_down recovery"]
		return has
	}
	for _, what := range []string{"forced_down recovery", "disabled recovery", "disabled process"} {
		if _, has := w.claims[host+" "+what]; has {
			return true
		}
	}
	return false
}

// asBefore is the verdict: flags, maintenance, claims and locks.
func (w *world) asBefore() {
	for h := range hosts {
		host := hostName(h)
		if got, want := flagsOf(w.service(host)), w.expected(host); got != want {
			w.violated("I9", "in the end the service of %s is %+v, and was %+v", host, got, want)
		}
		if w.holds(host) {
			w.violated("I9", "in the end salvor still claims something on %s", host)
		}
		if w.back.scrapped[host] {
			continue
		}
		row, err := w.store.Host(w.ctx, w.segment, w.hostID[host])
		if err != nil {
			w.t.Fatal(err)
		}
		if row.OnMaintenance != w.back.upkeep[host] || row.ReservedFor != 0 {
			w.violated("I9", "in the end %s is on maintenance: %v, an operator's: %v; reserved for unit %d", host, row.OnMaintenance, w.back.upkeep[host], row.ReservedFor)
		}
	}
	for _, open := range w.unfinished() {
		w.violated("I6", "in the end notification %s", open)
	}
	for _, i := range w.instances() {
		if before, known := w.before[i.ID]; known && i.Locked != before.Locked {
			w.violated("I5", "in the end instance %s is locked: %v (%s)", i.ID, i.Locked, i.LockedReason)
		}
	}
}

func runBack(t *testing.T, seed uint64, p plant) (broken []string, story string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, p)
		ctx, cancel := context.WithCancel(context.Background())
		w.ctx = ctx
		w.build()
		w.startBack()
		for range engines {
			w.startEngine()
		}
		w.chaos()
		for len(w.unfinished()) > 0 && time.Since(w.start) < horizon {
			w.pause(time.Second)
		}
		w.pause(time.Minute) // what was sent late acts late
		w.judge()
		w.comeBack()
		broken, story = w.broken, w.timeline()
		w.close(cancel)
	})
	return broken, story
}

// TestEverythingComesBack: no path leaves an instance locked, a service disabled or a host forced down without a record of it and a way
// back, and the way back leads exactly to what was before.
func TestEverythingComesBack(t *testing.T) {
	if one := os.Getenv("SEED"); one != "" {
		seed, err := strconv.ParseUint(one, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		broken, story := runBack(t, seed, plant(os.Getenv("PLANT")))
		t.Logf("seed %d:\n%s", seed, story)
		for _, b := range broken {
			t.Error(b)
		}
		return
	}
	for s := range seeds(t, 200) / 16 {
		t.Run(fmt.Sprintf("seed=%d", s), func(t *testing.T) {
			t.Parallel()
			broken, _ := runBack(t, uint64(s), plantNone)
			for _, b := range broken {
				t.Errorf("%s; again: SEED=%d go test ./test/simulation -run TestEverythingComesBack -v", b, s)
			}
		})
	}
}

// TestPlantedBugsOnTheWayBack: the verdict can fail.
func TestPlantedBugsOnTheWayBack(t *testing.T) {
	for p, says := range map[plant]string{
		plantNoTakeBack: "forced down", plantNoEnable: "in the end the service of", plantNoUnlock: "is locked",
	} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			for s := range 50 {
				broken, _ := runBack(t, uint64(s), p)
				for _, b := range broken {
					if strings.Contains(b, says) {
						t.Logf("found with seed %d: %s", s, b)
						return
					}
				}
			}
			t.Errorf("no seed found it")
		})
	}
}
