package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// spare makes a host a reserved one, disabled as Masakari's users keep them.
func (w *world) spare(name string) *ha.Peer {
	p := w.peer(name)
	p.Reserved = true
	s := w.service(name)
	s.Enabled, s.DisabledReason = false, "spare"
	return p
}

func reservedWorld(t rapid.TB, m ha.Method, spares ...string) *world {
	w := hostDeath(t)
	w.unit.Segment.RecoveryMethod = m
	for _, s := range spares {
		w.spare(s)
	}
	w.instance("i1")
	return w
}

// orders are the evacuate orders, in order.
func (w *world) orders() string {
	var list []string
	for _, s := range w.sent {
		if o, is := strings.CutPrefix(s, "evacuate "); is {
			list = append(list, o)
		}
	}
	return strings.Join(list, ", ")
}

// The oldest spare is claimed, enabled and targeted; used, it is no longer reserved and stays enabled.
func TestReservedHostUsed(t *testing.T) {
	w := reservedWorld(t, ha.MethodReservedHost, "compute-3", "compute-4")
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	w.acts("service compute-1 down disable", "lock i1", "service compute-3 enable", "evacuate i1 > compute-3", "unlock i1")
	if n := w.wrote(ha.EntryNote, "reserved host compute-3 is in use, and no longer reserved"); n != 1 {
		t.Errorf("told %d times\n%s", n, w.story())
	}
	p := w.peer("compute-3")
	if p.Reserved || p.ReservedFor != 0 || !w.service("compute-3").Enabled {
		t.Errorf("used: %+v", p)
	}
	if !strings.Contains(w.claims(), "compute-3 enabled recovery spare, compute-3 reserved recovery true") {
		t.Errorf("claims %s", w.claims())
	}
	if q := w.peer("compute-4"); !q.Reserved || q.ReservedFor != 0 || w.service("compute-4").Enabled {
		t.Errorf("not used: %+v", q)
	}
}

// It is claimed in the same commit before anything is done with it (I8).
func TestReservedHostClaimedFirst(t *testing.T) {
	w := reservedWorld(t, ha.MethodReservedHost, "compute-3")
	w.script = func(a ha.Act) *reply {
		if a.Host == "compute-3" && w.peer("compute-3").ReservedFor != w.unit.ID {
			t.Error("touched before it was claimed")
		}
		return nil
	}
	w.toEnd(time.Minute)
}

// Another recovery was faster: planned anew, with the next one.
func TestReservedHostTaken(t *testing.T) {
	w := reservedWorld(t, ha.MethodReservedHost, "compute-3", "compute-4")
	w.refuse = func(changes []ha.Change) bool {
		for _, c := range changes {
			if r, is := c.(ha.Reserve); is && r.HostUUID == "uuid-compute-3" {
				w.peer("compute-3").ReservedFor = 99
				return true
			}
		}
		return false
	}
	w.toEnd(time.Minute)
	if w.orders() != "i1 > compute-4" {
		t.Errorf("ordered %s", w.orders())
	}
}

// Which reserved hosts are passed over, and why: it is said when none is left (F047).
func TestReservedHostsPassedOver(t *testing.T) {
	w := reservedWorld(t, ha.MethodReservedHost, "compute-2", "compute-3", "compute-4")
	w.addHost(5)
	w.spare("compute-5").ReservedFor = 99
	w.peer("compute-2").OnMaintenance = true
	w.notice("compute-3")
	w.service("compute-4").ForcedDown, w.service("compute-4").Up = true, false
	w.addHost(7)
	w.spare("compute-7").StorageError = true
	for i, reason := range []string{plan.StorageReason, w.rules.ProcessReason} { // not in the rows yet
		w.addHost(8 + i)
		svc := w.service(w.spare(fmt.Sprintf("compute-%d", 8+i)).Name)
		svc.Enabled, svc.DisabledReason = false, reason
	}
	w.addHost(6)
	w.peer("compute-6").OnMaintenance = true // no spare at all: not named
	w.rules.BrakePercent = 0
	w.run(10 * time.Minute)
	w.waiting("waiting for room: no reserved host is left: compute-2 on maintenance, compute-3 down, compute-4 down, compute-5 used by another recovery, compute-7 with failed storage, compute-8 with failed storage, compute-9 with a failed process")
	if strings.Contains(text(w.unit.Notification.Message), "compute-6") {
		t.Error("a host that is no spare is named")
	}
	if w.count("evacuate") != 0 || w.unit.Failures != 0 {
		t.Errorf("sent %v, failures %d", w.sent, w.unit.Failures)
	}
	// One becomes free: used within seconds.
	w.reload = func() { w.peer("compute-5").ReservedFor = 0 }
	w.toEnd(6 * time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	if w.orders() != "i1 > compute-5" {
		t.Errorf("ordered %s", w.orders())
	}
}

// The failed host itself is never its own target.
func TestReservedHostNotTheFailedOne(t *testing.T) {
	w := reservedWorld(t, ha.MethodReservedHost)
	w.peer(failedHost).Reserved, w.unit.Host.Reserved = true, true
	w.run(time.Minute)
	w.waiting("no reserved host is left")
}

// What one refuses goes to the next: refusals at once and NoValidHost later.
func TestReservedHostRefusesGoesToTheNext(t *testing.T) {
	for name, script := range map[string]func(*world) func(ha.Act) *reply{
		"400 at once": func(*world) func(ha.Act) *reply {
			return func(a ha.Act) *reply {
				if a.Target == "compute-3" {
					return &reply{err: refused(400, "host is full")}
				}
				return nil
			}
		},
		"404 unknown to Nova": func(*world) func(ha.Act) *reply {
			return func(a ha.Act) *reply {
				if a.Target == "compute-3" {
					return &reply{err: gone("Compute host compute-3 not found.")}
				}
				return nil
			}
		},
		"NoValidHost": func(w *world) func(ha.Act) *reply {
			return func(a ha.Act) *reply {
				if a.Target == "compute-3" {
					w.service("compute-3").Enabled = false // its scheduler refuses
				}
				return nil
			}
		},
		"cannot be enabled": func(*world) func(ha.Act) *reply {
			return func(a ha.Act) *reply {
				if a.Kind == ha.ActService && a.Host == "compute-3" && *a.Enable {
					return &reply{err: refused(403, "no")}
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := reservedWorld(t, ha.MethodReservedHost, "compute-3", "compute-4")
			w.script = script(w)
			w.toEnd(2 * time.Minute)
			w.end(ha.StatusFinished, "1 of 1")
			if !strings.HasSuffix(w.orders(), "i1 > compute-4") {
				t.Errorf("ordered %s", w.orders())
			}
			if m := w.move("i1"); m.Attempts != 1 {
				t.Errorf("%d attempts", m.Attempts)
			}
			p := w.peer("compute-3")
			if !p.Reserved || p.ReservedFor != 0 || w.service("compute-3").Enabled || strings.Contains(w.claims(), "compute-3") {
				t.Errorf("the unused one is not as it was: %+v, %+v, claims %s", p, w.service("compute-3"), w.claims())
			}
		})
	}
}

// Unused after all, it stays reserved and is as it was: disabled with its reason, in no new aggregate.
func TestReservedHostUnusedIsGivenBack(t *testing.T) {
	w := reservedWorld(t, ha.MethodReservedHost, "compute-3")
	w.rules.AddToAggregate = true
	w.aggregates = []ha.Aggregate{{ID: "7", Name: "ssd", Hosts: []string{failedHost}}}
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActEvacuate {
			return &reply{err: refused(403, "no")}
		}
		return nil
	}
	w.toEnd(5 * time.Minute)
	w.end(ha.StatusFailed, "no")
	p, s := w.peer("compute-3"), w.service("compute-3")
	if !p.Reserved || p.ReservedFor != 0 || s.Enabled || s.DisabledReason != "spare" || len(w.aggregates[0].Hosts) != 1 {
		t.Errorf("%+v, %+v, %+v", p, s, w.aggregates)
	}
	if strings.Contains(w.claims(), "compute-3") {
		t.Errorf("claims %s", w.claims())
	}
	if n := w.wrote(ha.EntryProgress, "Evacuation process completed!"); n != 1 {
		t.Errorf("the verdict is told %d times", n)
	}
}

// It cannot be given back: the claims stay, an alarm says so, and the recovery ends.
func TestReservedHostCannotBeGivenBack(t *testing.T) {
	w := reservedWorld(t, ha.MethodReservedHost, "compute-3")
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActEvacuate || a.Kind == ha.ActService && a.Host == "compute-3" && !*a.Enable {
			return &reply{err: refused(403, "no")}
		}
		return nil
	}
	w.toEnd(10 * time.Minute)
	w.end(ha.StatusFailed, "no")
	if w.wrote(ha.EntryAlarm, "compute-3 was not used and could not be given back as it was") != 1 || !strings.Contains(w.claims(), "compute-3 enabled") {
		t.Errorf("claims %s\n%s", w.claims(), w.story())
	}
}

// Enabled by its operator already: nothing of ours, nothing to take back.
func TestReservedHostEnabledAlready(t *testing.T) {
	w := reservedWorld(t, ha.MethodReservedHost, "compute-3")
	w.service("compute-3").Enabled = true
	w.toEnd(time.Minute)
	w.acts("service compute-1 down disable", "lock i1", "evacuate i1 > compute-3", "unlock i1")
	if strings.Contains(w.claims(), "compute-3 enabled") {
		t.Errorf("claims %s", w.claims())
	}
	if w.wrote(ha.EntryProgress, "Enabling reserved host: 'compute-3'") != 1 {
		t.Error("the details do not name the spare")
	}
}

// The move names the hypervisor, as in Masakari; that the spare is in use goes by its compute service all the same.
func TestReservedHostOfAnotherHypervisorsName(t *testing.T) {
	w := reservedWorld(t, ha.MethodReservedHost, "compute-3")
	w.servers[0].Hypervisor = "compute-3.example.com" // as it will be shown there
	w.toEnd(time.Minute)
	w.moved("i1", ha.MoveSucceeded, "")
	if m := w.move("i1"); text(m.DestHost) != "compute-3.example.com" {
		t.Errorf("dest_host %q", text(m.DestHost))
	}
	if !w.service("compute-3").Enabled {
		t.Errorf("taken out of service with the instance on it\n%s", w.story())
	}
}

// Into all aggregates of the failed host; the two that we added are claimed, the one it was in is not (F049).
func TestReservedHostIntoAllAggregates(t *testing.T) {
	w := reservedWorld(t, ha.MethodReservedHost, "compute-3")
	w.rules.AddToAggregate = true
	w.aggregates = []ha.Aggregate{
		{ID: "1", Name: "a", Hosts: []string{failedHost}}, {ID: "2", Name: "b", Hosts: []string{failedHost, "compute-3"}},
		{ID: "3", Name: "c", Hosts: []string{"compute-2"}}, {ID: "4", Name: "d", Hosts: []string{failedHost, "compute-2"}},
	}
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	if w.count("aggregate-add") != 2 || w.count("aggregate-add 1 compute-3") != 1 || w.count("aggregate-add 4 compute-3") != 1 {
		t.Errorf("sent %v", w.sent)
	}
	if strings.Count(w.claims(), "compute-3 aggregate recovery false") != 2 {
		t.Errorf("claims %s", w.claims())
	}
	for _, part := range []string{"Enabling reserved host: 'compute-3'", "Add host compute-3 to aggregate a", "Added host compute-3 to aggregate a"} {
		if w.wrote(ha.EntryProgress, part) == 0 {
			t.Errorf("no word of %q", part)
		}
	}
}

// An aggregate that refuses it does not hold the recovery for ever, and is not claimed: it is not ours to leave.
func TestReservedHostAggregateRefuses(t *testing.T) {
	for _, status := range []int{403, 409} {
		w := reservedWorld(t, ha.MethodReservedHost, "compute-3")
		w.rules.AddToAggregate = true
		w.aggregates = []ha.Aggregate{{ID: "1", Name: "a", Hosts: []string{failedHost}}}
		w.script = func(a ha.Act) *reply {
			if a.Kind == ha.ActAggregateAdd {
				return &reply{err: refused(status, "another availability zone")}
			}
			return nil
		}
		w.toEnd(5 * time.Minute)
		w.end(ha.StatusFinished, "1 of 1")
		if w.wrote(ha.EntryAlarm, "reserved host compute-3 could not be added to aggregate a") != 1 || strings.Contains(w.claims(), "aggregate") {
			t.Errorf("%d: claims %s\n%s", status, w.claims(), w.story())
		}
	}
}

// auto_priority: auto, then reserved hosts for what failed, at once; rh_priority the other way round.
func TestMethodsWithASuccessor(t *testing.T) {
	t.Run("auto_priority", func(t *testing.T) {
		w := reservedWorld(t, ha.MethodAutoPriority, "compute-3")
		w.service("compute-2").Enabled, w.service("compute-4").Enabled = false, false
		w.toEnd(30 * time.Second)
		w.end(ha.StatusFinished, "1 of 1")
		if w.orders() != "i1, i1 > compute-3" || w.move("i1").Attempts != 1 {
			t.Errorf("ordered %s, %d attempts", w.orders(), w.move("i1").Attempts)
		}
	})
	t.Run("rh_priority", func(t *testing.T) {
		w := reservedWorld(t, ha.MethodRHPriority, "compute-3")
		w.peer("compute-3").OnMaintenance = true
		w.toEnd(30 * time.Second)
		w.end(ha.StatusFinished, "1 of 1")
		if w.orders() != "i1" {
			t.Errorf("ordered %s", w.orders())
		}
	})
	t.Run("rh_priority, refused by its spare", func(t *testing.T) {
		w := reservedWorld(t, ha.MethodRHPriority, "compute-3")
		w.script = func(a ha.Act) *reply {
			if a.Target == "compute-3" {
				w.service("compute-3").Enabled = false
			}
			return nil
		}
		w.toEnd(time.Minute)
		w.end(ha.StatusFinished, "1 of 1")
		if w.orders() != "i1 > compute-3, i1" {
			t.Errorf("ordered %s", w.orders())
		}
	})
	t.Run("only after the last method it waits", func(t *testing.T) {
		w := reservedWorld(t, ha.MethodAutoPriority)
		full(w, true)
		w.run(5 * time.Minute)
		w.waiting("waiting for room: no reserved host is left")
		if w.unit.Failures != 0 {
			t.Errorf("%d failures", w.unit.Failures)
		}
	})
	t.Run("only what failed is tried again", func(t *testing.T) {
		w := reservedWorld(t, ha.MethodAutoPriority, "compute-3")
		w.instance("i2")
		w.script = func(a ha.Act) *reply { // no room for i2
			if a.Kind == ha.ActEvacuate && a.Instance == "i2" && a.Target == "" {
				full(w, true)
				w.at(2500*time.Millisecond, func() { full(w, false) })
			}
			return nil
		}
		w.takes = 2 * time.Second
		w.toEnd(5 * time.Minute)
		w.end(ha.StatusFinished, "2 of 2")
		if strings.Count(w.orders(), "i2 > compute-3") != 1 {
			t.Errorf("ordered %s", w.orders())
		}
	})
}

// A spare that serves a recovery serves all its instances.
func TestReservedHostServesAllInstances(t *testing.T) {
	w := reservedWorld(t, ha.MethodReservedHost, "compute-3", "compute-4")
	w.instance("i2")
	w.instance("i3")
	w.toEnd(2 * time.Minute)
	w.end(ha.StatusFinished, "3 of 3")
	if strings.Count(w.orders(), "> compute-3") != 3 || w.peer("compute-4").ReservedFor != 0 {
		t.Errorf("ordered %s", w.orders())
	}
}

// Somebody else added it a moment before: no alarm, and not ours to take out again.
func TestReservedHostAggregateBySomebodyElse(t *testing.T) {
	w := reservedWorld(t, ha.MethodReservedHost, "compute-3")
	w.rules.AddToAggregate = true
	w.aggregates = []ha.Aggregate{{ID: "1", Name: "a", Hosts: []string{failedHost}}}
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActAggregateAdd {
			w.aggregates[0].Hosts = []string{failedHost, "compute-3"}
		}
		return nil
	}
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	if w.wrote(ha.EntryAlarm, "") != 0 || strings.Contains(w.claims(), "aggregate") {
		t.Errorf("claims %s\n%s", w.claims(), w.story())
	}
}
