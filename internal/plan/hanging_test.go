package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/salvor-ha/salvor/internal/ha"
)

// hanging is a world in which the order of i1 never ends: its destination died.
func hanging(t rapid.TB, dest string) *world {
	w := hostDeath(t)
	w.instance("i1")
	w.takes = 100 * time.Hour
	w.until("ordered", func() bool { return len(w.migrations) == 1 }, time.Minute)
	w.migrations[0].Dest = dest
	return w
}

// Past wait_period_after_evacuation: failed, "order still under way in Nova", unlocked, and no new order (I4, I5).
func TestHangingFailsAfterItsWait(t *testing.T) {
	w := hanging(t, "")
	w.run(85 * time.Second)
	w.moved("i1", ha.MoveOngoing, "")
	w.run(15 * time.Second)
	w.moved("i1", ha.MoveFailed, "order still under way in Nova")
	if w.server("i1").Locked {
		t.Error("locked")
	}
	if n := w.unit.Notification; n.Status != ha.StatusError || !strings.Contains(text(n.Message), "1 of 1 instances were not moved") {
		t.Errorf("%s %q", n.Status, text(n.Message))
	}
}

// While its record is accepted and its destination is not known to be off, it waits visibly; expiry ends it, named.
func TestHangingWaitsVisiblyUntilExpiry(t *testing.T) {
	w := hanging(t, "")
	w.rules.Expiry = 30 * time.Minute
	w.run(10 * time.Minute)
	w.waiting("order still under way in Nova, to an unknown host: waiting until it ends, or that host is forced down, or an operator retries this instance")
	w.toEnd(30 * time.Minute)
	w.end(ha.StatusFailed, "expired: older than 30m0s")
	w.moved("i1", ha.MoveFailed, "order still under way in Nova")
	if w.count("evacuate") != 1 {
		t.Errorf("sent %v", w.sent)
	}
}

// A new order once its destination is proven off and forced down: by the record, or by Placement's allocations.
func TestHangingDestinationForcedDown(t *testing.T) {
	for name, c := range map[string]struct {
		record    string
		providers []string
	}{
		"by the record's dest_compute": {"compute-2", nil},
		"by Placement's allocations":   {"", []string{failedHost, "compute-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := hanging(t, c.record)
			w.providers["i1"] = c.providers
			w.die("compute-2")
			w.at(200*time.Second, func() { w.notice("compute-2") }) // down by silence: it may come back and carry the order out
			w.run(10 * time.Minute)
			w.waiting("order still under way in Nova, to compute-2")
			w.service("compute-2").ForcedDown = true
			w.takes = 2 * time.Second
			w.script = func(a ha.Act) *reply {
				if a.Kind == ha.ActEvacuate { // the fake would call two orders under way; here it is meant
					w.migrations[0].InstanceID = "moved aside"
				}
				return nil
			}
			w.toEnd(5 * time.Minute)
			w.end(ha.StatusFinished, "1 of 1")
			if m := w.move("i1"); m.Attempts != 2 || text(m.DestHost) != "compute-3" {
				t.Errorf("%+v", m)
			}
		})
	}
	t.Run("one that is forced down and heard carries the order out", func(t *testing.T) {
		w := hanging(t, "compute-2")
		s := w.service("compute-2")
		s.ForcedDown, s.Up = true, false
		for at := time.Duration(0); at < 10*time.Minute; at += 10 * time.Second {
			w.at(at, func() { s.UpdatedAt = s.UpdatedAt.Add(10 * time.Second) })
		}
		w.run(10 * time.Minute)
		w.waiting("order still under way in Nova, to compute-2")
		if w.count("evacuate") != 1 {
			t.Errorf("sent %v", w.sent)
		}
	})
	for name, record := range map[string]string{"the record names it": "compute-2", "only Placement knows it": ""} {
		t.Run("one that comes back while the instance is locked again; "+name, func(t *testing.T) {
			w := hanging(t, record)
			w.providers["i1"] = []string{failedHost, "compute-2"}
			w.die("compute-2")
			w.service("compute-2").ForcedDown, w.service("compute-2").Up = true, false
			locks := 0
			w.script = func(a ha.Act) *reply {
				if a.Kind != ha.ActLock {
					return nil
				}
				if locks++; locks > 1 {
					return nil
				}
				s := w.service("compute-2") // by now it is silent no more
				for at := time.Duration(0); at < 20*time.Minute; at += 5 * time.Second {
					w.at(at, func() { s.UpdatedAt = s.UpdatedAt.Add(10 * time.Second) })
				}
				return &reply{takes: true, answer: 20 * time.Second}
			}
			w.run(10 * time.Minute)
			w.waiting("order still under way in Nova, to compute-2: waiting until it ends, or that host is silent")
			if locks == 0 || w.count("evacuate") != 1 {
				t.Errorf("%d locks, sent %v", locks, w.sent)
			}
		})
	}
	t.Run("one that comes back between two looks", func(t *testing.T) {
		w := hanging(t, "compute-2")
		w.die("compute-2")
		w.service("compute-2").ForcedDown, w.service("compute-2").Up = true, false
		w.script = func(a ha.Act) *reply {
			if a.Kind == ha.ActLock && w.count("lock") == 2 { // it is heard just before the lock is answered
				w.at(28*time.Second, func() { w.live("compute-2") })
				return &reply{takes: true, answer: 30 * time.Second}
			}
			return nil
		}
		w.run(10 * time.Minute)
		if w.count("evacuate") != 1 {
			t.Errorf("sent %v", w.sent)
		}
	})
	t.Run("a PUT on the dead host is no look at the destination", func(t *testing.T) {
		w := hanging(t, "compute-2")
		w.die("compute-2")
		w.service("compute-2").ForcedDown, w.service("compute-2").Up = true, false
		w.script = func(a ha.Act) *reply {
			if a.Kind == ha.ActLock && w.count("lock") == 2 { // Nova is away from then on, but for a PUT: forced_down was gone
				w.live("compute-2")
				w.away = broken()
				w.comes(20*time.Second, func() { w.facts.PutService(*w.service(failedHost), w.now, true) })
				return &reply{takes: true, answer: 20 * time.Second}
			}
			return nil
		}
		w.run(5 * time.Minute)
		if w.count("lock") != 2 || w.count("evacuate") != 1 {
			t.Errorf("sent %v", w.sent)
		}
	})
	t.Run("two other providers: which one is not known", func(t *testing.T) {
		w := hanging(t, "")
		w.providers["i1"] = []string{failedHost, "compute-2", "compute-3"}
		w.service("compute-2").ForcedDown, w.service("compute-2").Up = true, false
		w.run(10 * time.Minute)
		w.waiting("to an unknown host")
	})
}

// The order that is given up still lies in the queue of its destination: somebody is told, and the destination's row knows it.
func TestHangingLeavesAnOrderInAQueue(t *testing.T) {
	given := func(t *testing.T, dest string) *world {
		w := hanging(t, dest)
		w.die("compute-2")
		w.service("compute-2").ForcedDown, w.service("compute-2").Up = true, false
		w.takes = 2 * time.Second
		w.script = func(a ha.Act) *reply {
			if a.Kind == ha.ActEvacuate { // the fake would call two orders under way; here it is meant
				w.migrations[0].InstanceID = "moved aside"
			}
			return nil
		}
		return w
	}
	const told = "host compute-2 died with evacuate orders in its queue, which Nova carries out when nova-compute starts there: purge it before (rabbitmqctl purge_queue -p VHOST compute.compute-2)"
	t.Run("its destination is off", func(t *testing.T) {
		w := given(t, "compute-2")
		w.toEnd(10 * time.Minute)
		w.end(ha.StatusFinished, "1 of 1")
		if w.wrote(ha.EntryAlarm, told) != 1 || !strings.Contains(w.claims(), "compute-2 order recovery 100") {
			t.Errorf("claims %s\n%s", w.claims(), w.story())
		}
	})
	t.Run("an operator overrides it", func(t *testing.T) {
		w := given(t, "compute-2")
		w.run(150 * time.Second)
		w.comes(0, func() { w.unit.Moves[0].RetryWish = 1 })
		w.toEnd(5 * time.Minute)
		if w.wrote(ha.EntryAlarm, told) != 1 || !strings.Contains(w.claims(), "compute-2 order recovery 100") {
			t.Errorf("claims %s\n%s", w.claims(), w.story())
		}
	})
	t.Run("in no segment of salvor's", func(t *testing.T) {
		w := given(t, "compute-2")
		w.unit.Peers = slices.DeleteFunc(w.unit.Peers, func(p ha.Peer) bool { return p.Name == "compute-2" })
		w.toEnd(10 * time.Minute)
		if w.wrote(ha.EntryAlarm, told) != 1 || strings.Contains(w.claims(), "order") {
			t.Errorf("claims %s\n%s", w.claims(), w.story())
		}
	})
	t.Run("it ends instead", func(t *testing.T) {
		w := hanging(t, "compute-2")
		w.at(120*time.Second, func() { w.arrive(w.server("i1"), 100, "compute-2") })
		w.toEnd(10 * time.Minute)
		if w.wrote(ha.EntryAlarm, "") != 0 || strings.Contains(w.claims(), "order") {
			t.Errorf("claims %s\n%s", w.claims(), w.story())
		}
	})
}

// It ends after all, between the attempts or in the next one.
func TestHangingEndsAfterAll(t *testing.T) {
	for name, at := range map[string]time.Duration{"between the attempts": 120 * time.Second, "in the next attempt": 300 * time.Second} {
		t.Run(name, func(t *testing.T) {
			w := hanging(t, "compute-2")
			w.at(at, func() { w.arrive(w.server("i1"), 100, "compute-2") })
			w.toEnd(10 * time.Minute)
			w.end(ha.StatusFinished, "1 of 1")
			if w.count("evacuate") != 1 {
				t.Errorf("sent %v", w.sent)
			}
		})
	}
	t.Run("with an error: ordered again", func(t *testing.T) {
		w := hanging(t, "compute-2")
		w.at(300*time.Second, func() {
			w.takes = 2 * time.Second
			w.setRecord(100, "error", "compute-2")
			s := w.server("i1")
			s.VMState, s.TaskState, s.Fault = ha.VMError, "", "timed out"
		})
		w.toEnd(10 * time.Minute)
		w.end(ha.StatusFinished, "1 of 1")
		if s := w.server("i1"); w.count("evacuate") != 2 || s.VMState != ha.VMActive {
			t.Errorf("sent %v, ends %s", w.sent, s.VMState)
		}
	})
}

// In the last attempt, too: the verdict is by the latest state of each instance.
func TestHangingEndsBeforeTheLastVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		ends   func(*world)
		status ha.Status
		text   string
	}{
		"it arrives": {func(w *world) { w.arrive(w.server("i1"), 100, "compute-2") }, ha.StatusFinished, "2 of 2"},
		"it fails": {func(w *world) {
			w.setRecord(100, "error", "compute-2")
			s := w.server("i1")
			s.VMState, s.TaskState, s.Fault = ha.VMError, "", "no disk"
		}, ha.StatusFailed, "1 moved, 1 not: i1: no disk"},
		"its record is closed by a restart of the source": {func(w *world) { w.setRecord(100, "completed", "compute-2") }, ha.StatusFailed, "i1: order still under way in Nova"},
	} {
		t.Run(name, func(t *testing.T) {
			w := hostDeath(t)
			w.rules.MaxAttempts = 1
			w.instance("i1")
			s := w.instance("i2")
			w.takes = 100 * time.Hour
			w.until("ordered", func() bool { return len(w.migrations) == 2 }, time.Minute)
			w.at(10*time.Second, func() { // its order ends, and the next one takes its time
				w.setRecord(101, "error", "")
				s.VMState, s.TaskState, s.Fault = ha.VMError, "", "No valid host was found."
				w.takes = 80 * time.Second
			})
			w.at(95*time.Second, func() { c.ends(w) })
			w.toEnd(5 * time.Minute)
			w.end(c.status, c.text)
			w.moved("i2", ha.MoveSucceeded, "")
			goesOn := w.wrote(ha.EntryNote, "its order has ended after all")
			if left := w.server("i1").Host == failedHost; w.count("evacuate i1") != 1 || goesOn == 0 && !left {
				t.Errorf("sent %v, gone on with %d times", w.sent, goesOn)
			}
			if name == "its record is closed by a restart of the source" && goesOn != 0 {
				t.Error("it waits for what does not come")
			}
		})
	}
}

// Unknown destination: an operator's retry of that vmove orders it, whatever became of the first order.
func TestHangingAnOperatorRetriesIt(t *testing.T) {
	for name, at := range map[string]time.Duration{"while it has failed": 150 * time.Second, "while it waits": 20 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := hanging(t, "")
			w.run(at)
			w.migrations[0].InstanceID = "moved aside"
			w.takes = 2 * time.Second
			w.comes(0, func() { w.unit.Moves[0].RetryWish = 1 })
			w.toEnd(5 * time.Minute)
			w.end(ha.StatusFinished, "1 of 1")
			if w.count("evacuate") != 2 || w.wrote(ha.EntryOperator, "a retry of this instance was asked for") != 1 {
				t.Errorf("sent %v\n%s", w.sent, w.story())
			}
		})
	}
}

// While Nova cannot be looked at, an order is not given up: waiting is not failing (section 5).
func TestHangingIsNotWhileNovaIsAway(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActEvacuate {
			w.away = broken()
		}
		return nil
	}
	w.at(30*time.Minute, func() { w.away = nil })
	w.toEnd(40 * time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	if w.unit.Failures != 0 || w.count("evacuate") != 1 {
		t.Errorf("%d failures, sent %v", w.unit.Failures, w.sent)
	}
}

// An instance that waits for its own order does not hold the verdict of the others' attempts: they are tried again meanwhile.
func TestHangingDoesNotStopTheOthers(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	s := w.instance("i2")
	w.takes = 100 * time.Hour
	w.until("ordered", func() bool { return len(w.migrations) == 2 }, time.Minute)
	w.setRecord(101, "failed", "compute-2")
	s.VMState, s.TaskState, s.Fault = ha.VMError, "", "no disk"
	w.takes = 2 * time.Second
	w.run(10 * time.Minute)
	w.moved("i2", ha.MoveSucceeded, "")
	w.waiting("order still under way in Nova")
}
