package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

func metadata(pairs ...string) func(*ha.Server) {
	return func(s *ha.Server) {
		for i := 0; i < len(pairs); i += 2 {
			s.Metadata[pairs[i]] = pairs[i+1]
		}
	}
}

// Step 3: an empty list is believed if seen twice.
func TestStep3EmptyListSeenTwice(t *testing.T) {
	w := hostDeath(t)
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "")
	if n := w.looked["servers"]; n < 2 {
		t.Errorf("%d lists", n)
	}
	w.acts("service compute-1 down disable")
	if w.wrote(ha.EntryProgress, "Skipped host 'compute-1' recovery as no instances needs to be evacuated") != 1 {
		t.Errorf("no word of it\n%s", w.story())
	}
}

// The first list was empty by mistake: the second one counts.
func TestStep3EmptyOnceOnly(t *testing.T) {
	w := hostDeath(t)
	w.until("a list was asked for", func() bool { return w.looked["servers"] == 1 }, time.Minute)
	w.instance("i1")
	w.toEnd(time.Minute)
	w.moved("i1", ha.MoveSucceeded, "")
}

// A list from before the host was forced down proves nothing: what was scheduled onto it until then is found.
func TestStep3ListsAfterThePut(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActService {
			if w.looked["servers"] != 0 {
				t.Error("listed before the PUT")
			}
			w.instance("i2")
		}
		return nil
	}
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "2 of 2")
}

// Listed again before the verdict: an instance that appeared late is recovered too (I3), or named.
func TestStep3LateArrivals(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.at(time.Second, func() {
		w.instance("i2")
		w.instance("i3", metadata("HA_Enabled", "False"))
	})
	w.at(4*time.Second, func() { w.instance("i4") })
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "3 of 4 instances moved")
	w.moved("i2", ha.MoveSucceeded, "")
	w.moved("i3", ha.MoveIgnored, "opted out")
	w.moved("i4", ha.MoveSucceeded, "")
}

// Nova cannot list: the recovery waits.
func TestStep3NovaCannotList(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActService {
			w.away = broken()
		}
		return nil
	}
	w.at(20*time.Minute, func() { w.away = nil })
	w.run(19 * time.Minute)
	if w.ended || len(w.unit.Moves) != 0 {
		t.Fatalf("ended %v with moves %v", w.ended, w.unit.Moves)
	}
	w.toEnd(5 * time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
}

// Step 4: one vmove per instance, those not chosen with their reason.
func TestStep4Choice(t *testing.T) {
	all := func(w *world) {
		w.instance("in", metadata("HA_Enabled", "True"))
		w.instance("silent")
		w.instance("out", metadata("HA_Enabled", "false"))
		w.instance("broken", metadata("HA_Enabled", "True"), func(s *ha.Server) { s.VMState = ha.VMError })
	}
	for _, c := range []struct {
		name string
		set  func(*world)
		want map[string]ha.MoveStatus
	}{
		{"all but what says no", func(*world) {}, map[string]ha.MoveStatus{"in": "succeeded", "silent": "succeeded", "out": "ignored", "broken": "succeeded"}},
		{"HA-enabled only", func(w *world) { w.rules.EvacuateAll = false },
			map[string]ha.MoveStatus{"in": "succeeded", "silent": "ignored", "out": "ignored", "broken": "succeeded"}},
		{"error skipped", func(w *world) { w.rules.IgnoreError = true },
			map[string]ha.MoveStatus{"in": "succeeded", "silent": "succeeded", "out": "ignored", "broken": "ignored"}},
		{"by another key", func(w *world) { w.rules.MetadataKey, w.rules.EvacuateAll = "Protected", false },
			map[string]ha.MoveStatus{"in": "ignored", "silent": "ignored", "out": "ignored", "broken": "ignored"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := hostDeath(t)
			all(w)
			c.set(w)
			w.toEnd(10 * time.Minute)
			if n := w.unit.Notification; n.Status != ha.StatusFinished {
				t.Errorf("%s %q", n.Status, text(n.Message))
			}
			for id, s := range c.want {
				w.moved(id, s, "")
				if s == ha.MoveIgnored && (text(w.move(id).Message) == "" || w.count("lock "+id) != 0) {
					t.Errorf("%s is not left alone with a reason: %+v", id, w.move(id))
				}
			}
		})
	}
}

// Step 5: HA-enabled first, then priority, then age.
func TestStep5TheOrderOfOrders(t *testing.T) {
	w := hostDeath(t)
	w.rules.Threads = 1
	w.instance("plain-urgent", metadata("HA_Priority", "9"))
	w.instance("ha-old", metadata("HA_Enabled", "True"))
	w.instance("ha-young", metadata("HA_Enabled", "True"))
	w.instance("plain")
	w.instance("ha-urgent", metadata("HA_Enabled", "True", "HA_Priority", "5"))
	w.toEnd(5 * time.Minute)
	var got []string
	for _, s := range w.sent {
		if len(s) > 9 && s[:9] == "evacuate " {
			got = append(got, s[9:])
		}
	}
	if want := []string{"ha-urgent", "ha-old", "ha-young", "plain-urgent", "plain"}; !slices.Equal(got, want) {
		t.Errorf("ordered %v, want %v", got, want)
	}
}

// Without host_failure_recovery_threads evacuations under way are not limited; with it they are, per host.
func TestStep6Threads(t *testing.T) {
	for _, c := range []struct{ threads, want int }{{0, 9}, {1, 1}, {3, 3}} {
		w := hostDeath(t)
		w.rules.Threads = c.threads
		for i := range 9 {
			w.instance("i" + string(rune('1'+i)))
		}
		most := 0
		w.script = func(ha.Act) *reply {
			busy := 0
			for _, s := range w.servers {
				if s.TaskState == "rebuilding" || s.Locked {
					busy++
				}
			}
			most = max(most, busy)
			return nil
		}
		w.toEnd(10 * time.Minute)
		w.end(ha.StatusFinished, "9 of 9")
		if most != c.want {
			t.Errorf("threads %d: at most %d at once, want %d", c.threads, most, c.want)
		}
	}
}

// Calls in flight are limited by the process; what has no slot waits its turn, and the first in order go first.
func TestStep6Slots(t *testing.T) {
	w := hostDeath(t)
	w.slots = 2
	for i := range 9 {
		w.instance("i" + string(rune('1'+i)))
	}
	w.script = func(ha.Act) *reply {
		if len(w.flying) >= 2 {
			t.Errorf("%d acts in flight, 2 may be", len(w.flying)+1)
		}
		return nil
	}
	w.toEnd(10 * time.Minute)
	w.end(ha.StatusFinished, "9 of 9")
}

func TestStep7LockKeptWhenSomebodyElses(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1", func(s *ha.Server) { s.Locked = true })
	w.toEnd(time.Minute)
	w.acts("service compute-1 down disable", "evacuate i1")
	if !w.server("i1").Locked || !w.move("i1").WasLocked {
		t.Error("a user's lock was taken away")
	}
}

func TestStep7LockNamesSalvor(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActLock && a.Reason != "salvor recovery n1" {
			t.Errorf("lock reason %q", a.Reason)
		}
		return nil
	}
	w.toEnd(time.Minute)
}

// An instance that cannot be locked is moved all the same.
func TestStep7LockRefused(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActLock {
			return &reply{err: refused(403, "no")}
		}
		return nil
	}
	w.toEnd(time.Minute)
	w.acts("service compute-1 down disable", "lock i1", "evacuate i1")
	w.end(ha.StatusFinished, "1 of 1")
}

// Unlocked until done (I5): the recovery does not end before.
func TestStep7UnlockRetriedUntilDone(t *testing.T) {
	for name, r := range map[string]reply{
		"busy": {err: busy()}, "lost": {err: inDoubt()}, "refused": {err: refused(409, "task")}, "broken": {err: broken()},
	} {
		t.Run(name, func(t *testing.T) {
			w := hostDeath(t)
			w.instance("i1")
			w.script = func(a ha.Act) *reply {
				if a.Kind == ha.ActUnlock && w.now.Sub(w.start) < 10*time.Minute {
					return &r
				}
				return nil
			}
			w.run(time.Minute)
			if name == "refused" { // said at once, with Nova's reason, by the recovery and by its move
				w.waiting("Nova refuses to unlock instance i1, locked by this recovery: task (409)")
				w.moved("i1", ha.MoveOngoing, "Nova refuses to unlock it: task (409)")
			}
			if name == "busy" || name == "broken" {
				w.waiting("waiting: Nova does not take what it is asked for instance i1, or does not answer")
			}
			w.run(9 * time.Minute)
			if w.ended {
				t.Fatalf("ended with the instance locked\n%s", w.story())
			}
			w.toEnd(2 * time.Minute)
			w.end(ha.StatusFinished, "1 of 1")
			if m := w.unit.Moves[0]; w.server("i1").Locked || m.Message != nil {
				t.Errorf("locked %v, message %q", w.server("i1").Locked, *m.Message)
			}
			if n := w.count("unlock"); n > 40 {
				t.Errorf("%d unlocks in ten minutes: no back-off", n)
			}
		})
	}
}

func TestStep7GoneCountsAsUnlocked(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActUnlock {
			w.servers = nil
		}
		return nil
	}
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
}

// A lock whose answer was lost: done or not, in time or late, the instance ends unlocked.
func TestStep7LockAnswersLost(t *testing.T) {
	for name, r := range map[string]reply{
		"done":            {err: inDoubt(), takes: true},
		"not done":        {err: inDoubt()},
		"done late":       {err: inDoubt(), takes: true, effect: 30 * time.Second},
		"done very late":  {err: inDoubt(), takes: true, effect: 58 * time.Second},
		"at the very end": {err: inDoubt(), takes: true, effect: 59900 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			w := hostDeath(t)
			w.instance("i1")
			w.script = func(a ha.Act) *reply {
				if a.Kind == ha.ActLock && w.count("lock") == 1 {
					return &r
				}
				return nil
			}
			w.toEnd(5 * time.Minute)
			w.end(ha.StatusFinished, "1 of 1")
			w.pass(5 * time.Minute)
			if w.server("i1").Locked {
				t.Errorf("locked\n%s", w.story())
			}
			if n := w.count("unlock"); n > 2 {
				t.Errorf("unlocked %d times", n)
			}
		})
	}
}

// Lost, then refused or busy: the first may have been done, and our lock is not forgotten.
func TestStep7LockLostThenBusy(t *testing.T) {
	for name, second := range map[string]error{"busy": busy(), "refused": refused(409, "no"), "not sent": &ha.CloudError{Class: ha.ClassNotSent}} {
		t.Run(name, func(t *testing.T) {
			w := hostDeath(t)
			w.instance("i1")
			w.takes = 80 * time.Second // longer than order_in_doubt
			w.script = func(a ha.Act) *reply {
				switch {
				case a.Kind == ha.ActLock && w.count("lock") == 1:
					return &reply{err: inDoubt(), takes: true, effect: 5 * time.Second}
				case a.Kind == ha.ActLock:
					return &reply{err: second}
				}
				return nil
			}
			w.toEnd(5 * time.Minute)
			w.end(ha.StatusFinished, "1 of 1")
			if w.server("i1").Locked {
				t.Errorf("locked\n%s", w.story())
			}
		})
	}
}

// The owner dies with the lock under way, which acts after the takeover.
func TestStep7LockOverATakeover(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActLock && w.count("lock") == 1 {
			return &reply{err: inDoubt(), takes: true, effect: 20 * time.Second, answer: time.Hour}
		}
		return nil
	}
	w.until("the lock is under way", func() bool { return w.count("lock") == 1 }, time.Minute)
	w.takeover()
	w.toEnd(5 * time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	w.pass(5 * time.Minute)
	if w.server("i1").Locked {
		t.Errorf("locked\n%s", w.story())
	}
}

// An unlock that is refused for good is tried on, seldom, and told of; who unlocks the instance by hand ends the recovery.
func TestStep7UnlockRefusedForGood(t *testing.T) {
	for name, err := range map[string]error{"404": gone("Instance i1 could not be found."), "403": refused(403, "Policy does not allow it")} {
		t.Run(name, func(t *testing.T) {
			w := hostDeath(t)
			w.instance("i1")
			w.script = func(a ha.Act) *reply {
				if a.Kind == ha.ActUnlock {
					return &reply{err: err}
				}
				return nil
			}
			w.run(time.Hour)
			if n := w.count("unlock"); w.ended || n < 60 || n > 150 || w.wrote(ha.EntryAlarm, "openstack server unlock i1") != 1 {
				t.Fatalf("ended %v, %d unlocks, %d alarms\n%s", w.ended, n, w.wrote(ha.EntryAlarm, ""), w.story())
			}
			w.server("i1").Locked = false
			w.toEnd(2 * time.Minute)
			w.end(ha.StatusFinished, "1 of 1")
		})
	}
}

// A 404 that is not true leaves no lock behind: neither one whose answer was lost, nor one whose unlock was called needless.
func TestStep7NotFoundThatLies(t *testing.T) {
	for name, script := range map[string]func(w *world, a ha.Act) *reply{
		"looks, while a lock comes late": func(w *world, a ha.Act) *reply {
			if a.Kind == ha.ActLock && w.count("lock") == 1 {
				w.denies = true
				w.at(70*time.Second, func() { w.denies = false })
				return &reply{err: inDoubt(), takes: true, effect: 30 * time.Second}
			}
			return nil
		},
		"a lock that was sent again": func(w *world, a ha.Act) *reply {
			switch {
			case a.Kind == ha.ActLock && w.count("lock") == 1:
				return &reply{err: inDoubt(), takes: true, effect: 5 * time.Second}
			case a.Kind == ha.ActLock && w.count("lock") == 2:
				return &reply{err: gone("Instance i1 could not be found.")}
			}
			return nil
		},
		"looks and the unlock, when it arrives": func(w *world, a ha.Act) *reply {
			switch {
			case a.Kind == ha.ActEvacuate:
				w.denies = true
				w.at(8*time.Second, func() { w.denies = false })
			case a.Kind == ha.ActUnlock && w.denies:
				return &reply{err: gone("Instance i1 could not be found.")}
			}
			return nil
		},
		"the unlock": func(w *world, a ha.Act) *reply {
			if a.Kind == ha.ActUnlock && w.count("unlock") <= 2 {
				return &reply{err: gone("Instance i1 could not be found.")}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := hostDeath(t)
			w.instance("i1")
			w.script = func(a ha.Act) *reply { return script(w, a) }
			w.toEnd(10 * time.Minute)
			w.pass(5 * time.Minute)
			w.end(ha.StatusFinished, map[bool]string{true: "", false: "1 of 1"}[name == "looks, while a lock comes late"])
			if w.server("i1").Locked {
				t.Errorf("locked\n%s", w.story())
			}
		})
	}
}

// Pages of a list may overlap: an instance that is listed twice is one, and is unlocked at the end.
func TestStep3ListedTwice(t *testing.T) {
	w := hostDeath(t)
	w.servers = append(w.servers, w.instance("i1"))
	w.toEnd(time.Minute)
	w.acts("service compute-1 down disable", "lock i1", "evacuate i1", "unlock i1")
	w.end(ha.StatusFinished, "1 of 1 instances moved")
	if w.server("i1").Locked || len(w.unit.Moves) != 1 {
		t.Errorf("locked %v, %d moves", w.server("i1").Locked, len(w.unit.Moves))
	}
}
