package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// chaos disturbs a world for a while: answers that are lost, late or refused, owners that die, Nova away, hosts that come and go,
// operators and users. Then all is well again, and the unit must end by itself.
type chaos struct {
	*world
	rng *rand.Rand
	on  bool
}

const (
	chaosTime = 4 * time.Minute
	late      = 18 * time.Second // the latest that a lost act acts; order_in_doubt is a little more
)

// disturbed speeds up what would take minutes, and sets the chaos going.
func disturbed(t *rapid.T, w *world) *chaos {
	seed := rapid.Uint64().Draw(t, "seed")
	c := &chaos{world: w, rng: rand.New(rand.NewPCG(seed, 7)), on: true}
	w.rules.WaitEvacuation, w.rules.OrderInDoubt, w.rules.RetryInterval = 30*time.Second, 20*time.Second, 20*time.Second
	w.rules.Expiry, w.rules.HealthyDelay = 20*time.Minute, 60*time.Second
	w.rules.WaitPowerOff, w.rules.WaitPowerOn = 40*time.Second, 40*time.Second
	w.script = c.act
	w.takes = time.Duration(1+c.rng.IntN(25)) * time.Second
	w.refuse = func([]ha.Change) bool { return c.on && c.rng.IntN(30) == 0 }
	for range rapid.IntRange(5, 40).Draw(t, "events") {
		what := rapid.SampledFrom(c.events()).Draw(t, "event")
		at := time.Duration(rapid.IntRange(0, int(chaosTime/time.Millisecond)).Draw(t, "at")) * time.Millisecond
		if rapid.Bool().Draw(t, "early") {
			at /= 8
		}
		w.comes(at, what.run)
	}
	return c
}

// act is what becomes of an act in bad times.
func (c *chaos) act(a ha.Act) *reply {
	if a.Kind == ha.ActEvacuate && c.beating[failedHost] && c.now.Sub(c.lives) > c.rules.ProofMaxAge {
		c.t.Errorf("I2: %s although the host has been back for %s\n%s", actText(a), c.now.Sub(c.lives), c.story())
	}
	if !c.on || c.rng.IntN(5) > 2 {
		return nil
	}
	soon := time.Duration(c.rng.IntN(int(late)))
	switch c.rng.IntN(7) {
	case 0:
		return &reply{err: inDoubt()}
	case 1:
		return &reply{err: inDoubt(), takes: true}
	case 2:
		return &reply{err: inDoubt(), takes: true, effect: soon, answer: time.Duration(c.rng.IntN(5)) * time.Second}
	case 3:
		return &reply{err: busy()}
	case 4:
		return &reply{err: &ha.CloudError{Class: ha.ClassNotSent}}
	case 5:
		return &reply{takes: true, answer: soon}
	}
	if a.Kind == ha.ActUnlock { // refused for ever would be locked for ever
		return nil
	}
	return &reply{err: refused(400+c.rng.IntN(10), "no")}
}

type event struct {
	name string
	run  func()
}

func (e event) String() string { return e.name }

func (c *chaos) events() []event {
	w := c.world
	any := func() *ha.Server {
		if len(w.servers) == 0 {
			return &ha.Server{}
		}
		return w.servers[c.rng.IntN(len(w.servers))]
	}
	other := func() string { return fmt.Sprintf("compute-%d", 2+c.rng.IntN(3)) }
	return []event{
		{"takeover", w.takeover},
		{"facts and memory are lost", func() { w.facts, w.memory = plan.Facts{}, plan.Memory{} }},
		{"drained, and taken over", func() { w.draining = true; w.comes(2*time.Second, func() { w.draining = false; w.takeover() }) }},
		{"nova away", func() { w.away = broken(); w.at(20*time.Second, func() { w.away = nil }) }},
		{"the host lives", func() { w.live(failedHost) }},
		{"the host dies", func() { w.die(failedHost) }},
		{"STARTED", func() { w.live(failedHost); w.queueNow(started(fmt.Sprint("s", w.turns))) }},
		{"forced_down is cleared", func() { s := w.service(failedHost); s.ForcedDown, s.Up = false, true; w.touch(failedHost) }},
		{"somebody's PUT", func() { w.touch(failedHost) }},
		{"a destination is forced down", func() { s := w.service(other()); s.ForcedDown, s.Up = true, false }},
		{"a destination is full", func() { s := w.service(other()); s.Enabled = !s.Enabled }},
		{"an instance is deleted", func() { w.servers = slices.DeleteFunc(w.servers, func(s *ha.Server) bool { return s == any() }) }},
		{"an instance is stopped by its user", func() { s := any(); _ = w.power(s, "stop", ha.VMActive, ha.VMStopped) }},
		{"held", func() { w.unit.Wishes.HoldBy = "op"; w.comes(20*time.Second, func() { w.unit.Wishes.HoldBy = "" }) }},
		{"released", func() { w.unit.Wishes.Releases++; w.unit.Wishes.ReleaseBy = "op" }},
		{"retried", func() { w.unit.Wishes.Retries++; w.unit.Wishes.RetryBy = "op" }},
		{"cancelled", func() { w.unit.Wishes.CancelBy = "op" }},
		{"orders take long", func() { w.takes = 50 * time.Second; w.at(30*time.Second, func() { w.takes = 2 * time.Second }) }},
		{"few slots", func() { w.slots = 1; w.at(20*time.Second, func() { w.slots = 32 }) }},
	}
}

func (w *world) queueNow(n ha.Notification) { w.unit.Queue = append(w.unit.Queue, n) }

// calm ends the chaos: everything works again.
func (c *chaos) calm() {
	c.on, c.away, c.draining, c.takes, c.slots = false, nil, false, 2*time.Second, 32
	c.unit.Wishes.HoldBy = ""
	for i := range c.services {
		if s := &c.services[i]; s.Host != failedHost {
			s.ForcedDown, s.Up, s.Enabled = false, true, true
		}
	}
	c.wake = c.now
}

// A host recovery in bad times: every turn is checked (checks_test.go) and Nova never gets two orders (nova_test.go); in the end
// nothing is locked by us, every instance is moved or named, and the notification has ended.
func TestRandomHostRecovery(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := hostDeath(t)
		w.unit.Segment.RecoveryMethod = rapid.SampledFrom(ha.Methods).Draw(t, "method")
		if w.unit.Segment.RecoveryMethod != ha.MethodAuto {
			w.spare("compute-4")
		}
		w.rules.Threads = rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "threads")
		states := []string{ha.VMActive, ha.VMActive, ha.VMStopped, ha.VMError, ha.VMPaused, ha.VMResized, ha.VMBuilding}
		for i := range rapid.IntRange(0, 4).Draw(t, "instances") {
			w.instance(fmt.Sprint("i", i+1), func(s *ha.Server) {
				s.VMState = rapid.SampledFrom(states).Draw(t, "state")
				s.Locked = rapid.IntRange(0, 5).Draw(t, "locked by its user") == 0
				s.Metadata["HA_Enabled"] = rapid.SampledFrom([]string{"True", "", "False"}).Draw(t, "ha")
			})
		}
		locked := map[string]bool{}
		for _, s := range w.servers {
			locked[s.ID] = s.Locked
		}
		c := disturbed(t, w)
		w.run(chaosTime)
		c.calm()
		w.toEnd(30 * time.Minute)
		w.pass(time.Minute)
		for _, s := range w.servers {
			if s.Locked != locked[s.ID] {
				t.Fatalf("I5: %s is locked %v, was %v\n%s", s.ID, s.Locked, locked[s.ID], w.story())
			}
			m := w.move(s.ID)
			if w.unit.Notification.Status == ha.StatusFinished && s.Host == failedHost && !m.Status.Ended() {
				t.Fatalf("I3: %s is not named: %s\n%s", s.ID, m.Status, w.story())
			}
			if m.Status == ha.MoveSucceeded && s.Host == failedHost {
				t.Fatalf("%s is said to have moved\n%s", s.ID, w.story())
			}
		}
		for _, m := range w.unit.Moves {
			if !m.Status.Ended() || m.Status != ha.MoveSucceeded && text(m.Message) == "" {
				t.Fatalf("I3: %s ends %s %q\n%s", m.InstanceUUID, m.Status, text(m.Message), w.story())
			}
		}
		for _, p := range w.unit.Peers {
			if p.ReservedFor != 0 {
				t.Fatalf("I8: %s stays claimed\n%s", p.Name, w.story())
			}
		}
	})
}

// The other units in bad times: they end, or watch, and what they claim they know.
func TestRandomOtherUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w *world
		switch rapid.IntRange(0, 3).Draw(t, "unit") {
		case 0:
			w = crashed(t)
			w.server("i1").VMState = rapid.SampledFrom([]string{ha.VMActive, ha.VMStopped, ha.VMResized, ha.VMError}).Draw(t, "state")
		case 1:
			w = processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
		case 2:
			w = processReport(t, ha.EventStarted, ha.ProcessNovaCompute)
			w.stoppedBefore()
		default:
			w = away(t)
			w.rules.AutoReturn = rapid.Bool().Draw(t, "auto return")
		}
		c := disturbed(t, w)
		if rapid.Bool().Draw(t, "a host recovery comes") {
			w.comes(time.Minute, func() { w.unit.HostUnit = 7 })
			w.comes(2*time.Minute, func() { w.unit.HostUnit = 0 })
		}
		w.run(chaosTime)
		c.calm()
		if w.unit.Kind != ha.UnitTakeBack {
			w.toEnd(30 * time.Minute)
			return
		}
		w.live(failedHost)
		w.reportStarted()
		w.wake = w.now
		w.run(30 * time.Minute)
		if w.service(failedHost).ForcedDown {
			t.Fatalf("forced_down was not taken back\n%s", w.story())
		}
		if w.rules.AutoReturn && w.claims() != "" {
			t.Fatalf("claims %s\n%s", w.claims(), w.story())
		}
	})
}
