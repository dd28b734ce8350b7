package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

func class(name string, action ha.ClassAction, conditions ...ha.Condition) ha.InstanceClass {
	return ha.InstanceClass{Name: name, Action: action, Conditions: conditions}
}

func flavorLike(v string) ha.Condition {
	return ha.Condition{Trait: ha.TraitFlavor, Values: []string{v}}
}

func flavor(name string) func(*ha.Server) { return func(s *ha.Server) { s.Flavor = name } }

// One host with instances of three classes: moved, left, set to error; each that was not moved names its class.
func TestClassesDecide(t *testing.T) {
	w := hostDeath(t)
	w.rules.EvacuateAll = false
	w.rules.Classes = []ha.InstanceClass{
		class("lb", ha.ClassLeave, ha.Condition{Trait: ha.TraitProject, Values: []string{"service"}}),
		class("gpu", ha.ClassError, ha.Condition{Trait: ha.TraitFlavor, Key: "pci", Values: []string{"*gpu*"}}),
		class("gold", ha.ClassEvacuate, flavorLike("gold.*")),
	}
	w.instance("gold", flavor("gold.large"))
	w.instance("lb", metadata("HA_Enabled", "True"), func(s *ha.Server) { s.Project = "service" })
	w.instance("gpu", func(s *ha.Server) { s.ExtraSpecs = map[string]string{"pci": "a-gpu-1"} })
	w.instance("other", flavor("silver.large"))
	w.instance("out", flavor("gold.large"), metadata("HA_Enabled", "False"))
	w.toEnd(5 * time.Minute)
	w.end(ha.StatusFinished, "1 of 5 instances moved")
	w.moved("gold", ha.MoveSucceeded, "")
	w.moved("lb", ha.MoveIgnored, "left where it is by instance class lb: project=service")
	w.moved("gpu", ha.MoveIgnored, "not moved, but set to error, by instance class gpu: flavor.pci=*gpu*")
	w.moved("other", ha.MoveIgnored, "not HA-enabled by metadata HA_Enabled")
	w.moved("out", ha.MoveIgnored, "opted out by metadata HA_Enabled")
	if w.server("gpu").VMState != ha.VMError || w.server("gpu").Host != failedHost || w.count("reset gpu error") != 1 {
		t.Errorf("gpu is %+v; sent %v", w.server("gpu"), w.sent)
	}
	if w.server("lb").VMState != ha.VMActive || w.count("lock lb")+w.count("lock gpu") != 0 {
		t.Errorf("sent %v", w.sent)
	}
}

// By aggregate: the classes ask for one more list, once; without it nothing is chosen.
func TestClassesByAggregate(t *testing.T) {
	w := hostDeath(t)
	w.rules.Classes = []ha.InstanceClass{class("edge", ha.ClassLeave, ha.Condition{Trait: ha.TraitAggregate, Values: []string{"edge"}})}
	w.aggregates = []ha.Aggregate{{ID: "1", Name: "core", Hosts: []string{"compute-2"}}, {ID: "2", Name: "edge", Hosts: []string{failedHost}}}
	w.instance("i1")
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "0 of 1")
	w.moved("i1", ha.MoveIgnored, "left where it is by instance class edge: aggregate=edge")
	if n := w.looked["aggregates"]; n < 1 || n > 2 {
		t.Errorf("%d looks at the aggregates", n)
	}
}

// An engine that knows of no class asks for nothing more than before.
func TestNoClassesNoLooks(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1", flavor("gold.large"))
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	if w.looked["aggregates"] != 0 {
		t.Errorf("looked %v", w.looked)
	}
}

// What is not set to error in time, or is refused, ends ignored with both words: tried again it would be moved.
func TestClassErrorRefusedAndCancelled(t *testing.T) {
	w := hostDeath(t)
	w.rules.Classes = []ha.InstanceClass{class("gpu", ha.ClassError, flavorLike("gpu"))}
	w.instance("i1", flavor("gpu"))
	w.instance("i2")
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActResetState || a.Kind == ha.ActEvacuate {
			return &reply{err: refused(403, "Policy does not allow it")}
		}
		return nil
	}
	w.toEnd(5 * time.Minute)
	w.end(ha.StatusFailed, "0 moved, 1 not: i2")
	w.moved("i1", ha.MoveIgnored, "by instance class gpu: flavor=gpu; Nova refused that: Policy does not allow it")
	w.again("op")
	w.script = nil
	w.toEnd(5 * time.Minute)
	w.end(ha.StatusFinished, "1 of 2")
	if w.count("evacuate i1") != 0 {
		t.Errorf("a retry moved it: %v", w.sent)
	}

	w = hostDeath(t)
	w.rules.Classes = []ha.InstanceClass{class("gpu", ha.ClassError)}
	w.instance("i1")
	w.unit.Wishes.HoldBy, w.unit.Wishes.HoldReason = "op", "look first"
	w.comes(time.Minute, func() { w.unit.Wishes.CancelBy = "op" })
	w.toEnd(5 * time.Minute)
	if len(w.unit.Moves) > 0 {
		w.moved("i1", ha.MoveIgnored, "it was not: cancelled by op")
	}
	if w.count("reset") != 0 {
		t.Errorf("sent %v", w.sent)
	}
}

// The answer is lost, or the engine dies: it is set to error all the same, and moved never.
func TestClassErrorOverATakeover(t *testing.T) {
	for _, takes := range []bool{true, false} {
		w := hostDeath(t)
		w.rules.Classes = []ha.InstanceClass{class("gpu", ha.ClassError)}
		w.instance("i1")
		w.script = func(a ha.Act) *reply {
			if a.Kind == ha.ActResetState && w.count("reset") == 1 {
				w.comes(time.Second, w.takeover)
				return &reply{err: inDoubt(), takes: takes, answer: time.Hour}
			}
			return nil
		}
		w.toEnd(5 * time.Minute)
		w.end(ha.StatusFinished, "0 of 1")
		w.moved("i1", ha.MoveIgnored, "set to error")
		if w.server("i1").VMState != ha.VMError || w.count("evacuate") != 0 {
			t.Errorf("takes %v: %+v, sent %v", takes, w.server("i1"), w.sent)
		}
	}
}

// tiers are classes by flavor, the higher ones waited for.
func tiers(wait, limit time.Duration) []ha.InstanceClass {
	var all []ha.InstanceClass
	for name, priority := range map[string]int{"gold": 100, "silver": 50} {
		c := class(name, ha.ClassEvacuate, flavorLike(name))
		c.Priority, c.Waits, c.Wait, c.Cap = &priority, true, wait, limit
		all = append(all, c)
	}
	return append(all, class("rest", ha.ClassEvacuate))
}

// orderedAt is when the instance was ordered, since the start.
func (w *world) orderedAt(id string) time.Duration { return w.when("evacuate " + id) }

// Groups start together; the next priority begins when the one before has arrived, and its time to come up has passed.
func TestPrioritiesWait(t *testing.T) {
	w := hostDeath(t)
	w.rules.Classes = tiers(30*time.Second, 10*time.Minute)
	for i := range 3 {
		w.instance(fmt.Sprint("rest", i))
		w.instance(fmt.Sprint("silver", i), flavor("silver"))
		w.instance(fmt.Sprint("gold", i), flavor("gold"))
	}
	w.until("gold is on its way, and the others say what they wait for", func() bool {
		return w.orderedAt("gold2") >= 0 && text(w.move("rest0").Message) == "waiting for the instances of priority 100 (class gold)"
	}, 20*time.Second)
	w.comes(20*time.Second, w.takeover) // in the middle of a wait: it waits no longer and no shorter
	w.toEnd(5 * time.Minute)
	w.end(ha.StatusFinished, "9 of 9")
	last := func(group string) (at time.Duration) {
		for i := range 3 {
			at = max(at, w.orderedAt(fmt.Sprint(group, i)))
		}
		return at
	}
	for _, g := range []string{"gold", "silver", "rest"} {
		if d := last(g) - w.orderedAt(g+"0"); d > 2*time.Second {
			t.Errorf("%s did not start together: %s between first and last", g, d)
		}
	}
	for _, pair := range [][2]string{{"gold", "silver"}, {"silver", "rest"}} { // an evacuation takes two seconds
		if d := w.orderedAt(pair[1]+"0") - last(pair[0]); d < 31*time.Second || d > 40*time.Second {
			t.Errorf("%s began %s after %s, want the move, and 30 s", pair[1], d, pair[0])
		}
	}
}

// The cap ends a wait for what does not come up.
func TestPrioritiesWaitAtMostTheCap(t *testing.T) {
	w := hostDeath(t)
	w.rules.Classes = tiers(30*time.Second, 70*time.Second)
	w.instance("gold", flavor("gold"))
	w.instance("rest")
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActEvacuate && a.Instance == "gold" {
			return &reply{takes: true, effect: 10 * time.Minute}
		}
		return nil
	}
	w.until("the rest is ordered", func() bool { return w.orderedAt("rest") >= 0 }, 3*time.Minute)
	if d := w.orderedAt("rest") - w.orderedAt("gold"); d < 69*time.Second || d > 75*time.Second {
		t.Errorf("the rest began %s after gold, want the cap of 70 s", d)
	}
}

// A group that is not on this host, or that is left, is waited for by nobody.
func TestPrioritiesNobodyOfThem(t *testing.T) {
	w := hostDeath(t)
	w.rules.Classes = tiers(time.Minute, 10*time.Minute)
	w.instance("gold", flavor("gold"), func(s *ha.Server) { s.VMState = ha.VMShelved })
	w.instance("rest")
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "1 of 2")
}

// A VM report: a class says whether it restarts, an owner's no before it.
func TestClassRestart(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name    string
		opt     string
		all     bool
		restart *bool
		acts    bool
		says    string
	}{
		{"no opinion, HA-enabled", "True", false, nil, true, ""},
		{"no opinion, silent", "", false, nil, false, "not HA-enabled"},
		{"yes, silent", "", false, &yes, true, ""},
		{"yes, opted out", "False", true, &yes, false, "not HA-enabled"},
		{"no, HA-enabled", "True", true, &no, false, "is of instance class c (flavor=lb), which is not restarted: nothing was done"},
	} {
		w := crashed(t)
		w.rules.ProcessAll = c.all
		rule := class("c", ha.ClassLeave, flavorLike("lb"))
		rule.Restart = c.restart
		w.rules.Classes = []ha.InstanceClass{rule}
		w.server("i1").Flavor, w.server("i1").Metadata = "lb", map[string]string{"HA_Enabled": c.opt}
		w.toEnd(time.Minute)
		w.end(ha.StatusFinished, c.says)
		if (len(w.sent) > 0) != c.acts {
			t.Errorf("%s: sent %v", c.name, w.sent)
		}
	}
}

// The crash-loop limit: the report after the last restart that the window allows is ignored, with an alarm; one restart less, or an
// older one, is none.
func TestCrashLoop(t *testing.T) {
	for _, c := range []struct {
		limit   int
		ago     []time.Duration
		ignored bool
	}{
		{3, []time.Duration{time.Minute, 10 * time.Minute, 59 * time.Minute}, true},
		{3, []time.Duration{time.Minute, 10 * time.Minute, 61 * time.Minute}, false},
		{3, []time.Duration{time.Minute, 10 * time.Minute}, false},
		{3, []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute}, true},
		{0, []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute}, false},
	} {
		w := crashed(t)
		w.rules.RestartLimit, w.rules.RestartWindow = c.limit, time.Hour
		for _, ago := range c.ago {
			w.unit.Earlier = append(w.unit.Earlier, born.Add(-ago))
		}
		w.toEnd(time.Minute)
		if !c.ignored {
			w.acts("stop i1", "start i1")
			w.end(ha.StatusFinished, "")
			continue
		}
		w.acts()
		w.end(ha.StatusIgnored, fmt.Sprintf("instance i1 was restarted %d times within 1h0m0s, limit %d", len(c.ago), c.limit))
		if w.wrote(ha.EntryAlarm, "restarted") != 1 {
			t.Errorf("no alarm\n%s", w.story())
		}
	}

	// Its own second attempt, and an operator's retry, are no new crash.
	w := crashed(t)
	w.rules.RestartLimit, w.rules.RestartWindow = 1, time.Hour
	w.unit.Earlier = []time.Time{born.Add(-time.Minute)}
	w.unit.Wishes.Retries = 1
	w.toEnd(time.Minute)
	w.acts("stop i1", "start i1")
}
