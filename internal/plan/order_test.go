package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// lost scripts the first order: its answer is lost, and r says what became of it.
func (w *world) lost(r reply) {
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActEvacuate && w.count("evacuate "+a.Instance) == 1 {
			return &r
		}
		return nil
	}
}

// An order whose answer was lost is in doubt until ITS record shows; then it is followed, and never repeated.
func TestNeverTwoOrdersLostAnswerTaken(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.takes = 40 * time.Second
	w.lost(reply{err: inDoubt(), takes: true})
	w.toEnd(5 * time.Minute)
	w.acts("service compute-1 down disable", "lock i1", "evacuate i1", "unlock i1")
	w.end(ha.StatusFinished, "1 of 1")
	if m := w.move("i1"); m.Attempts != 1 {
		t.Errorf("%d attempts", m.Attempts)
	}
}

// The lost order acts late, up to order_in_doubt: still one order.
func TestNeverTwoOrdersLostAnswerActsLate(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.instance("i2")
	w.lost(reply{err: inDoubt(), takes: true, effect: 55 * time.Second})
	w.run(50 * time.Second)
	w.waiting("in doubt")
	w.toEnd(5 * time.Minute)
	if w.count("evacuate i1") != 1 {
		t.Errorf("sent %v", w.sent)
	}
	w.end(ha.StatusFinished, "2 of 2")
}

// That instance alone waits; the others go on.
func TestNeverTwoOrdersOthersGoOn(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.instance("i2")
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActEvacuate && a.Instance == "i1" && w.count("evacuate i1") == 1 {
			return &reply{err: inDoubt()}
		}
		return nil
	}
	w.run(30 * time.Second)
	w.moved("i2", ha.MoveSucceeded, "")
	w.moved("i1", ha.MoveOngoing, "in doubt")
}

// No record after order_in_doubt: Nova did not take it. A new order, and no attempt used up.
func TestNeverTwoOrdersLostAnswerNotTaken(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.lost(reply{err: inDoubt()})
	w.toEnd(5 * time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	if n := w.count("evacuate"); n != 2 {
		t.Errorf("%d orders", n)
	}
	if gap := w.sentAt[3].Sub(w.sentAt[2]); gap < 60*time.Second {
		t.Errorf("%s between the two", gap)
	}
	if m := w.move("i1"); m.Attempts != 1 {
		t.Errorf("%d attempts, want 1", m.Attempts)
	}
}

// Only a look that started after order_in_doubt tells that there is no record: Nova cannot be looked at, so nothing is ordered.
func TestNeverTwoOrdersNoLookNoOrder(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActEvacuate && w.count("evacuate") == 1 {
			w.away = broken()
			return &reply{err: inDoubt(), takes: true, effect: 50 * time.Second}
		}
		return nil
	}
	w.at(10*time.Minute, func() { w.away = nil })
	w.toEnd(20 * time.Minute)
	if w.count("evacuate") != 1 {
		t.Errorf("sent %v", w.sent)
	}
	w.end(ha.StatusFinished, "1 of 1")
}

// An unknown kind of failure of an order is not a "no": it may have been done.
func TestNeverTwoOrdersBrokenIsInDoubt(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.lost(reply{err: broken(), takes: true})
	w.toEnd(5 * time.Minute)
	if w.count("evacuate") != 1 {
		t.Errorf("sent %v\n%s", w.sent, w.story())
	}
	w.end(ha.StatusFinished, "1 of 1")
}

// A record that existed before the order is not this order's, whatever it says.
func TestNeverTwoOrdersAnOlderRecordIsNotIts(t *testing.T) {
	for _, status := range []string{"done", "completed", "error", "failed"} {
		t.Run(status, func(t *testing.T) {
			w := hostDeath(t)
			w.instance("i1")
			w.record("i1", ha.MigrationEvacuation, status, failedHost, "compute-3")
			w.takes = 30 * time.Second
			w.run(20 * time.Second)
			w.moved("i1", ha.MoveOngoing, "")
			if m := w.move("i1"); m.Order.Base != 100 || m.Order.Record != 101 {
				t.Errorf("order %+v, want base 100, record 101", m.Order)
			}
			w.toEnd(time.Minute)
			w.moved("i1", ha.MoveSucceeded, "")
		})
	}
}

// An evacuation that somebody else ordered is under way, before or in the middle of ours: it is followed, not doubled.
func TestNeverTwoOrdersSomebodyElsesIsFollowed(t *testing.T) {
	for name, at := range map[string]time.Duration{"before the recovery": 0, "while it is being locked": 170 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			w := hostDeath(t)
			s := w.instance("i1")
			w.takes = 30 * time.Second
			w.script = func(a ha.Act) *reply {
				if a.Kind == ha.ActLock {
					return &reply{takes: true, answer: 3 * time.Second}
				}
				return nil
			}
			w.at(at, func() {
				w.service(failedHost).Up = false
				if err := w.evacuate(s, ha.Act{Instance: "i1", Host: failedHost}); err != nil {
					t.Error(err)
				}
			})
			w.toEnd(5 * time.Minute)
			if w.count("evacuate") != 0 {
				t.Errorf("sent %v", w.sent)
			}
			w.end(ha.StatusFinished, "1 of 1")
		})
	}
}

// A takeover at any moment of an order: the intent is in the row, the answer is lost, it is one order.
func TestNeverTwoOrdersOverATakeover(t *testing.T) {
	for name, r := range map[string]*reply{
		"taken":             {takes: true, answer: time.Hour},
		"acts late":         {err: inDoubt(), takes: true, effect: 30 * time.Second, answer: time.Hour},
		"never sent":        {err: inDoubt(), answer: time.Hour},
		"fails for no host": {takes: true, answer: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := hostDeath(t)
			w.instance("i1")
			full(w, name == "fails for no host")
			w.lost(*r)
			w.until("ordered", func() bool { return w.count("evacuate") == 1 }, time.Minute)
			w.takeover()
			w.at(10*time.Second, func() { full(w, false) })
			w.toEnd(5 * time.Minute)
			w.end(ha.StatusFinished, "1 of 1")
			want := map[string]int{"never sent": 2, "fails for no host": 2}[name]
			if n := w.count("evacuate"); n != max(1, want) {
				t.Errorf("%d orders\n%s", n, w.story())
			}
		})
	}
}

// Confirmed only with the record, another host, and no task: for 250 ms an arrived instance is ACTIVE without a task on its old host.
func TestConfirmed(t *testing.T) {
	stage := func(t *testing.T, set func(w *world, s *ha.Server, record int64)) *world {
		w := hostDeath(t)
		s := w.instance("i1")
		w.takes = time.Hour // the script moves it
		w.until("ordered", func() bool { return len(w.migrations) == 1 }, time.Minute)
		w.at(time.Second, func() { set(w, s, w.migrations[0].ID) })
		w.run(20 * time.Second)
		return w
	}
	t.Run("ACTIVE without a task on the dead host, record accepted", func(t *testing.T) {
		w := stage(t, func(_ *world, s *ha.Server, _ int64) { s.TaskState = "" })
		w.moved("i1", ha.MoveOngoing, "")
	})
	t.Run("the same, record done", func(t *testing.T) {
		w := stage(t, func(w *world, s *ha.Server, r int64) { s.TaskState = ""; w.setRecord(r, "done", "compute-2") })
		w.moved("i1", ha.MoveOngoing, "")
	})
	t.Run("another host, record accepted (F037)", func(t *testing.T) {
		w := stage(t, func(_ *world, s *ha.Server, _ int64) { s.TaskState, s.Host = "", "compute-2" })
		w.moved("i1", ha.MoveOngoing, "")
	})
	t.Run("another host, record done, a task", func(t *testing.T) {
		w := stage(t, func(w *world, s *ha.Server, r int64) {
			s.TaskState, s.Host = "powering-off", "compute-2"
			w.setRecord(r, "done", "compute-2")
		})
		w.moved("i1", ha.MoveOngoing, "")
	})
	for _, status := range []string{"done", "completed"} {
		t.Run("another host, no task, record "+status, func(t *testing.T) {
			w := stage(t, func(w *world, s *ha.Server, r int64) {
				s.TaskState, s.Host = "", "compute-2"
				w.setRecord(r, status, "compute-2")
			})
			w.moved("i1", ha.MoveSucceeded, "")
		})
	}
}

// Failed: Nova's fault text goes into the vmove's message.
func TestFailedWithNovasWords(t *testing.T) {
	for _, status := range []string{"error", "failed"} {
		w := hostDeath(t)
		s := w.instance("i1")
		w.instance("i2")
		w.takes = 3 * time.Second
		w.at(2*time.Second, func() {
			w.setRecord(100, status, "compute-2")
			s.VMState, s.TaskState, s.Fault = ha.VMError, "", "Disk of instance is gone"
		})
		w.run(30 * time.Second)
		w.moved("i1", ha.MoveFailed, "Disk of instance is gone")
		if n := w.unit.Notification; n.Status != ha.StatusError || !strings.Contains(text(n.Message), "1 of 2 instances were not moved") {
			t.Errorf("%s %q", n.Status, text(n.Message))
		}
		if s.Locked {
			t.Error("locked")
		}
	}
}

// NoValidHost under the last method: waits for room without using an attempt, visibly, woken by a host that comes.
func TestNoValidHostWaitsForRoom(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	full(w, true)
	w.run(30 * time.Minute)
	w.waiting("waiting for room: No valid host was found")
	if m := w.move("i1"); m.Attempts != 0 || m.Status != ha.MoveOngoing || w.unit.Failures != 0 {
		t.Errorf("waiting used up an attempt: %+v, failures %d", m, w.unit.Failures)
	}
	if n := w.count("evacuate"); n < 5 || n > 12 {
		t.Errorf("%d orders in 30 minutes: want a growing wait", n)
	}
	came := w.now
	full(w, false)
	w.toEnd(2 * time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	if d := w.sentAt[len(w.sentAt)-2].Sub(came); d > 10*time.Second {
		t.Errorf("ordered %s after the host came", d)
	}
}

// Moved by somebody while it waits for room: nothing more to do.
func TestMovedBySomebodyElseWhileWaiting(t *testing.T) {
	w := hostDeath(t)
	s := w.instance("i1")
	full(w, true)
	w.at(10*time.Second, func() { s.Host, s.VMState, s.TaskState, s.Fault = "compute-4", ha.VMActive, "", "" })
	w.toEnd(5 * time.Minute)
	w.moved("i1", ha.MoveIgnored, "is on compute-4 already")
	if s.Locked || w.count("evacuate") != 1 {
		t.Errorf("sent %v", w.sent)
	}
	w.end(ha.StatusFinished, "")
}

// What Nova refuses, by status.
func TestRefusals(t *testing.T) {
	first := func(w *world, err error) {
		w.script = func(a ha.Act) *reply {
			if a.Kind == ha.ActEvacuate && w.count("evacuate") == 1 {
				return &reply{err: err}
			}
			return nil
		}
	}
	t.Run("400 still in use: proven and forced down anew, then ordered", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		w.script = func(a ha.Act) *reply {
			if a.Kind == ha.ActEvacuate && w.count("evacuate") == 1 { // somebody cleared forced_down a moment ago
				svc := w.service(failedHost)
				svc.ForcedDown, svc.Up = false, true
				w.touch(failedHost)
			}
			return nil
		}
		w.toEnd(5 * time.Minute)
		w.end(ha.StatusFinished, "1 of 1")
		if w.count("service compute-1 down") != 2 || w.count("evacuate") != 2 {
			t.Errorf("sent %v", w.sent)
		}
		if d := w.when("unlock"); d < 15*time.Second {
			t.Errorf("ordered again without silence: unlocked after %s", d)
		}
		if m := w.move("i1"); m.Attempts != 1 {
			t.Errorf("%d attempts", m.Attempts)
		}
	})
	t.Run("400 still in use: it has moved already", func(t *testing.T) {
		w := hostDeath(t)
		s := w.instance("i1")
		first(w, refused(400, "Compute service of compute-1 is still in use."))
		w.at(210*time.Millisecond, func() { s.Host = "compute-3" })
		w.toEnd(5 * time.Minute)
		w.moved("i1", ha.MoveIgnored, "is on compute-3 already")
	})
	t.Run("409: reset to error, then ordered", func(t *testing.T) {
		w := hostDeath(t)
		s := w.instance("i1")
		w.at(180*time.Millisecond, func() { s.VMState = ha.VMPaused }) // after it was listed
		w.toEnd(5 * time.Minute)
		w.acts("service compute-1 down disable", "lock i1", "evacuate i1", "reset i1 error", "evacuate i1", "unlock i1")
		w.end(ha.StatusFinished, "1 of 1")
	})
	t.Run("409 again and again: failed for good, the rest goes on", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		w.instance("i2")
		w.script = func(a ha.Act) *reply {
			if a.Kind == ha.ActEvacuate && a.Instance == "i1" {
				return &reply{err: refused(409, "server group was deleted")}
			}
			return nil
		}
		w.toEnd(time.Minute)
		w.end(ha.StatusFailed, "1 moved, 1 not: i1: Nova refused the order: server group was deleted")
		if w.server("i1").Locked || w.count("evacuate i1") != 2 {
			t.Errorf("sent %v", w.sent)
		}
	})
	t.Run("403: failed for good (F029)", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		first(w, refused(403, "Policy doesn't allow os_compute_api:os-evacuate"))
		w.toEnd(time.Minute)
		w.end(ha.StatusFailed, "i1: Nova refused the order: Policy doesn't allow os_compute_api:os-evacuate")
		w.acts("service compute-1 down disable", "lock i1", "evacuate i1", "unlock i1")
	})
	t.Run("403 for all: said once, with the status, who has it and what helps", func(t *testing.T) {
		w := hostDeath(t)
		for i := range 20 {
			w.instance(fmt.Sprintf("i%02d", i))
		}
		w.script = func(a ha.Act) *reply {
			if a.Kind == ha.ActEvacuate {
				return &reply{err: refused(403, "not allowed")}
			}
			return nil
		}
		w.toEnd(time.Minute)
		w.end(ha.StatusFailed, "0 moved, 20 not: 20 instances (i00, i01, i02, i03, i04 and 15 more): Nova refused the order: not allowed (403; salvor doctor says")
		if n := strings.Count(*w.unit.Notification.Message, "not allowed"); n != 1 {
			t.Errorf("said %d times", n)
		}
	})
	t.Run("404: it is gone, so ignored", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		w.script = func(a ha.Act) *reply {
			if a.Kind != ha.ActEvacuate {
				return nil
			}
			w.servers = nil
			return &reply{err: gone("Instance i1 could not be found.")}
		}
		w.toEnd(time.Minute)
		w.moved("i1", ha.MoveIgnored, "deleted")
		w.end(ha.StatusFinished, "")
	})
	t.Run("404, but the host's list still shows it: not gone, ordered again (I3)", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		first(w, gone("Instance i1 could not be found."))
		w.toEnd(time.Minute)
		w.end(ha.StatusFinished, "1 of 1")
	})
	for name, err := range map[string]error{"429": busy(), "not sent": &ha.CloudError{Class: ha.ClassNotSent, Text: "too late"}} {
		t.Run(name+": certainly not done, tried again, no attempt used up", func(t *testing.T) {
			w := hostDeath(t)
			w.instance("i1")
			first(w, err)
			w.toEnd(time.Minute)
			w.end(ha.StatusFinished, "1 of 1")
			if m := w.move("i1"); m.Attempts != 1 || w.count("evacuate") != 2 {
				t.Errorf("%d attempts, sent %v", m.Attempts, w.sent)
			}
		})
	}
}

// While Nova does not list what is under way, what was listed minutes ago allows no order: somebody may have ordered by hand since.
func TestNoOrderByOldLists(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.instance("i2")
	w.rules.Threads = 1
	w.comes(time.Second, func() { w.unit.Wishes.HoldBy, w.unit.Wishes.HoldReason = "op", "doing it by hand" })
	w.run(10 * time.Second)
	w.moved("i1", ha.MoveSucceeded, "")
	w.lists = broken()
	w.run(2 * time.Minute)
	w.takes = 4 * time.Minute
	if err := w.evacuate(w.server("i2"), ha.Act{Instance: "i2"}); err != nil {
		t.Fatal(err)
	}
	w.comes(time.Minute, func() { w.unit.Wishes = ha.Wishes{Releases: 1, ReleaseBy: "op"} })
	w.run(2 * time.Minute)
	w.waiting("Nova does not list what is on the host, or under way: no route to host")
	w.lists = nil
	w.rules.WaitEvacuation = 10 * time.Minute
	w.toEnd(10 * time.Minute)
	w.end(ha.StatusFinished, "2 of 2")
	if w.count("evacuate") != 1 {
		t.Errorf("sent %v", w.sent)
	}
}

// Lists that are only slow to come are said, too, and the orders go on with them.
func TestOldListsAreSaid(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.instance("i2")
	w.rules.Threads = 1
	w.comes(time.Second, func() { w.unit.Wishes.HoldBy, w.unit.Wishes.HoldReason = "op", "looking" })
	w.run(10 * time.Second)
	w.slowLists = 5 * time.Minute
	w.run(3 * time.Minute)
	w.comes(0, func() { w.unit.Wishes = ha.Wishes{Releases: 1, ReleaseBy: "op"} })
	w.run(time.Minute)
	w.waiting("Nova has not listed lately what is on the host")
	w.slowLists = 0
	w.toEnd(10 * time.Minute)
	w.end(ha.StatusFinished, "2 of 2")
}

// A reset of the state, like an order, goes by lists that are young: what an operator has moved by hand, or is moving, while Nova listed
// nothing is not reset.
func TestNoResetByOldLists(t *testing.T) {
	for name, under := range map[string]time.Duration{"moved": time.Second, "on its way": 9 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := hostDeath(t)
			w.rules.WaitEvacuation = 20 * time.Minute
			s := w.instance("i1", func(s *ha.Server) { s.VMState = ha.VMPaused })
			w.script = func(a ha.Act) *reply {
				if a.Kind != ha.ActLock {
					return nil
				}
				w.lists = broken()
				w.at(30*time.Second, func() { // an operator resets and orders it
					s.VMState = ha.VMError
					w.takes = under
					_ = w.evacuate(s, ha.Act{Instance: s.ID})
				})
				w.at(5*time.Minute, func() { w.lists = nil })
				return &reply{takes: true, answer: 4 * time.Minute}
			}
			w.toEnd(time.Hour)
			if w.count("reset") > 0 || w.count("evacuate") > 0 || s.VMState == ha.VMError {
				t.Errorf("sent %v, %s\n%s", w.sent, s.VMState, w.story())
			}
		})
	}
}
