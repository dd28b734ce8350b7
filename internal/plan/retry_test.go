package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// faulty has the orders of these instances fail on their destination, the first n times each.
func (w *world) faulty(n int, ids ...string) {
	w.script = func(a ha.Act) *reply {
		for _, id := range ids {
			if a.Kind == ha.ActEvacuate && a.Instance == id && w.count("evacuate "+id) <= n {
				s, record := w.server(id), w.record(id, ha.MigrationEvacuation, "accepted", failedHost, "compute-2")
				w.at(time.Second, func() {
					w.setRecord(record, "failed", "compute-2")
					s.VMState, s.Fault = ha.VMError, "no disk for "+id
				})
				return &reply{}
			}
		}
		return nil
	}
}

// Step 8: the verdict is of the LATEST state of each instance; only what has not succeeded is tried again (S02).
func TestVerdictOfTheLatestState(t *testing.T) {
	w := hostDeath(t)
	for _, id := range []string{"i1", "i2", "i3"} {
		w.instance(id)
	}
	w.faulty(1, "i3")
	w.run(60 * time.Second)
	n := w.unit.Notification
	if n.Status != ha.StatusError || text(n.Message) != "attempt 1 of 3 failed, next in 2m0s: 1 of 3 instances were not moved" {
		t.Errorf("%s %q", n.Status, text(n.Message))
	}
	w.moved("i3", ha.MoveFailed, "no disk for i3")
	w.toEnd(10 * time.Minute)
	w.end(ha.StatusFinished, "3 of 3 instances moved")
	if m := w.move("i3"); m.Attempts != 2 || len(w.unit.Moves) != 3 {
		t.Errorf("one row, two attempts; got %+v of %d rows", m, len(w.unit.Moves))
	}
	if w.count("evacuate i1") != 1 || w.count("evacuate i2") != 1 {
		t.Errorf("sent %v", w.sent)
	}
}

// error is retried with back-off up to max_recovery_attempts, then failed: each remaining instance and its reason named.
func TestRetryToMaxAttempts(t *testing.T) {
	w := hostDeath(t)
	for _, id := range []string{"i1", "i2", "i3"} {
		w.instance(id)
	}
	w.faulty(99, "i1", "i3")
	w.toEnd(time.Hour)
	w.end(ha.StatusFailed, "2 of 3 instances were not moved; 1 moved, 2 not: i1: no disk for i1; i3: no disk for i3")
	var gaps []time.Duration
	var last time.Time
	for i, s := range w.sent {
		if s == "evacuate i1" {
			if !last.IsZero() {
				gaps = append(gaps, w.sentAt[i].Sub(last).Round(10*time.Second))
			}
			last = w.sentAt[i]
		}
	}
	if len(gaps) != 2 || gaps[0] != 120*time.Second || gaps[1] != 240*time.Second {
		t.Errorf("gaps %v, want 2m and 4m", gaps)
	}
	if m := w.move("i1"); m.Attempts != 3 {
		t.Errorf("%d attempts", m.Attempts)
	}
}

func TestRetryMaxAttemptsIsAnOption(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.rules.MaxAttempts = 1
	w.faulty(99, "i1")
	w.toEnd(time.Minute)
	w.end(ha.StatusFailed, "i1: no disk for i1")
}

// A final failure is not retried, but the others are.
func TestRetryNotWhatIsFinal(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.instance("i2")
	w.faulty(1, "i2")
	faulty := w.script
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActEvacuate && a.Instance == "i1" {
			return &reply{err: refused(403, "forbidden")}
		}
		return faulty(a)
	}
	w.toEnd(time.Hour)
	w.end(ha.StatusFailed, "1 moved, 1 not: i1: Nova refused the order: forbidden")
	if w.count("evacuate i1") != 1 || w.count("evacuate i2") != 2 {
		t.Errorf("sent %v", w.sent)
	}
}

// periodic_enable off: nothing is retried by itself; an operator's retry is.
func TestRetryOffWithoutPeriodicTasks(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.rules.NoPeriodic = true
	w.faulty(1, "i1")
	w.run(10 * time.Hour)
	if n := w.unit.Notification; n.Status != ha.StatusError || !strings.Contains(text(n.Message), "retry it by hand") {
		t.Errorf("%s %q", n.Status, text(n.Message))
	}
	w.comes(0, func() { w.unit.Wishes.Retries, w.unit.Wishes.RetryBy = 1, "op" })
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
}

// The wait between attempts gives the lease up; the next owner goes on where it was.
func TestRetryParks(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.faulty(1, "i1")
	w.until("in error", func() bool { return w.unit.Notification.Status == ha.StatusError }, time.Minute)
	if w.last.Park < 119*time.Second || w.last.Park > 120*time.Second {
		t.Errorf("parks for %s", w.last.Park)
	}
	w.toEnd(5 * time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
}

// Expiry: orders in flight end, locks are released, the rest is named (never an abandoned order, S05).
func TestExpiry(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.instance("i2")
	w.rules.Threads, w.rules.Expiry = 1, 30*time.Second
	w.takes = 40 * time.Second
	w.run(35 * time.Second)
	if w.ended {
		t.Fatalf("ended with an order in flight\n%s", w.story())
	}
	w.toEnd(time.Minute)
	w.end(ha.StatusFailed, "expired: older than 30s")
	w.moved("i1", ha.MoveSucceeded, "")
	w.moved("i2", ha.MoveFailed, "expired: older than 30s")
	if w.server("i1").Locked || w.server("i2").Locked || w.count("evacuate") != 1 {
		t.Errorf("sent %v", w.sent)
	}
	if !strings.Contains(text(w.unit.Notification.Message), "1 not: i2") {
		t.Errorf("not named: %q", text(w.unit.Notification.Message))
	}
}

// What came to the host while it was recovered is named though the verdict, which would find it, is not reached (I3), by who takes over,
// too. While Nova does not answer, the recovery ends all the same.
func TestExpiryNamesLateArrivals(t *testing.T) {
	for name, then := range map[string]func(*world){
		"by its owner": func(*world) {}, "by who takes over": func(w *world) { w.takeover() }, "Nova is away": func(w *world) { w.away = broken(); w.takeover() },
	} {
		t.Run(name, func(t *testing.T) {
			w := hostDeath(t)
			w.instance("i1")
			w.rules.Expiry = 30 * time.Second
			w.script = func(a ha.Act) *reply {
				if a.Kind == ha.ActEvacuate {
					return &reply{err: busy()}
				}
				return nil
			}
			w.at(20*time.Second, func() { w.instance("late") })
			w.at(29*time.Second, func() { then(w) })
			w.toEnd(time.Minute)
			w.end(ha.StatusFailed, "expired: older than 30s; 0 moved, "+map[bool]string{true: "1 not: i1", false: "2 not: 2 instances (i1, late)"}[name == "Nova is away"])
			if name != "Nova is away" {
				w.moved("late", ha.MoveFailed, "expired: older than 30s")
			}
		})
	}
}

// Orders in flight are waited for at most wait_period_after_evacuation; then unlocked and named.
func TestExpiryWithAnOrderThatNeverEnds(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.rules.Expiry = 30 * time.Second
	w.takes = time.Hour
	w.toEnd(2 * time.Minute)
	w.end(ha.StatusFailed, "expired")
	w.moved("i1", ha.MoveFailed, "order still under way in Nova")
	if w.server("i1").Locked {
		t.Error("locked")
	}
}

// A long wait between attempts is cut short by expiry, also where the lease is given up meanwhile.
func TestExpiryWithinAWait(t *testing.T) {
	refuse := func(a ha.Act) *reply { return &reply{err: refused(403, "Policy doesn't allow it")} }
	for name, w := range map[string]*world{"host": hostDeath(t), "process": processReport(t, ha.EventStopped, ha.ProcessNovaCompute), "instance": crashed(t)} {
		t.Run(name, func(t *testing.T) {
			w.t, w.nova.t = t, t
			w.rules.RetryInterval, w.rules.Expiry, w.script = time.Hour, 20*time.Minute, refuse
			w.run(19 * time.Minute)
			if n := w.unit.Notification; n.Status != ha.StatusError {
				t.Fatalf("%s %q", n.Status, text(n.Message))
			}
			w.toEnd(2 * time.Minute)
			w.end(ha.StatusFailed, "expired: older than 20m0s")
		})
	}
}

// The age counts from receipt by the database's clock; the sender's clock does not matter (A7, S08).
func TestExpiryCountsFromReceipt(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.unit.Notification.GeneratedTime = w.now.Add(-25 * time.Hour)
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
}

// An operator may retry what has expired, at any later time (F075); the retry has as long as a new report.
func TestExpiryCountsAnewFromARetry(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.rules.Expiry = 10 * time.Minute
	w.away = broken()
	w.toEnd(11 * time.Minute)
	w.end(ha.StatusFailed, "expired: older than 10m0s")
	w.pass(time.Hour)
	w.again("op")
	w.run(9 * time.Minute)
	w.waiting("Nova does not answer")
	w.toEnd(2 * time.Minute)
	w.end(ha.StatusFailed, "expired: older than 10m0s")
	w.away = nil
	w.again("op")
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
}

// Held at a gate for too long: expired too, with nothing done.
func TestExpiryAtTheGates(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.rules.Expiry = 10 * time.Minute
	w.unit.Segment.Pause = &ha.Pause{By: "op"}
	w.toEnd(11 * time.Minute)
	w.acts()
	w.end(ha.StatusFailed, "expired: older than 10m0s")
}

// Cancel: no new orders, those in flight finish, unlocked, claims kept, failed, by whom.
func TestCancel(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.instance("i2")
	w.rules.Threads = 1
	w.takes = 20 * time.Second
	w.comes(10*time.Second, func() { w.unit.Wishes.CancelBy = "alice" })
	w.toEnd(time.Minute)
	w.end(ha.StatusFailed, "cancelled by alice")
	w.moved("i1", ha.MoveSucceeded, "")
	w.moved("i2", ha.MoveFailed, "cancelled by alice")
	if w.wrote(ha.EntryOperator, "cancelled by alice") != 1 {
		t.Error("the history does not name who cancelled")
	}
	if w.count("evacuate") != 1 || w.server("i1").Locked || !strings.Contains(w.claims(), "forced_down") {
		t.Errorf("sent %v, claims %s", w.sent, w.claims())
	}
}

func TestCancelAtAnyStep(t *testing.T) {
	for ms := 0; ms < 4000; ms += 50 {
		w := hostDeath(t)
		w.instance("i1", func(s *ha.Server) { s.VMState = ha.VMPaused })
		w.instance("i2")
		w.comes(time.Duration(ms)*time.Millisecond, func() { w.unit.Wishes.CancelBy = "alice" })
		w.toEnd(5 * time.Minute)
		for _, s := range w.servers {
			if s.Locked {
				t.Fatalf("cancelled after %d ms: %s stays locked\n%s", ms, s.ID, w.story())
			}
		}
	}
}

func TestCancelBetweenAttempts(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.faulty(99, "i1")
	w.until("in error", func() bool { return w.unit.Notification.Status == ha.StatusError }, time.Minute)
	w.comes(10*time.Second, func() { w.unit.Wishes.CancelBy = "alice" })
	w.toEnd(20 * time.Second)
	w.end(ha.StatusFailed, "cancelled by alice")
}

// Hold: no new orders, those in flight are confirmed; release goes on; a hold may end by itself.
func TestHoldInTheMiddle(t *testing.T) {
	for name, until := range map[string]time.Duration{"released": 0, "ends by itself": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := hostDeath(t)
			w.instance("i1")
			w.instance("i2")
			w.rules.Threads = 1
			w.comes(1*time.Second, func() {
				w.unit.Wishes.HoldBy, w.unit.Wishes.HoldReason = "op", "switch is being replaced"
				if until > 0 {
					end := w.now.Add(until)
					w.unit.Wishes.HoldUntil = &end
				}
			})
			w.run(4 * time.Minute)
			w.waiting("held by op: switch is being replaced")
			w.moved("i1", ha.MoveSucceeded, "")
			if w.count("evacuate") != 1 {
				t.Errorf("sent %v", w.sent)
			}
			if until == 0 {
				w.comes(0, func() { w.unit.Wishes = ha.Wishes{Releases: 1, ReleaseBy: "op"} })
			}
			w.toEnd(3 * time.Minute)
			w.end(ha.StatusFinished, "2 of 2")
		})
	}
}

// retry: the next attempt begins at once, also for what had failed for good.
func TestRetryByAnOperator(t *testing.T) {
	t.Run("while it waits for the next attempt", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		w.faulty(1, "i1")
		w.until("in error", func() bool { return w.unit.Notification.Status == ha.StatusError }, time.Minute)
		w.comes(time.Second, func() { w.unit.Wishes.Retries, w.unit.Wishes.RetryBy = 1, "op: Nova is well again" })
		w.toEnd(30 * time.Second)
		w.end(ha.StatusFinished, "1 of 1")
		if w.wrote(ha.EntryOperator, `op asked for a retry ("Nova is well again")`) != 1 {
			t.Error("no audit")
		}
	})
	for name, attempts := range map[string]int{"in the turn of a failure": 3, "in the turn of the last failure": 1} {
		t.Run(name, func(t *testing.T) {
			w := hostDeath(t)
			w.rules.MaxAttempts = attempts
			w.instance("i1")
			w.faulty(1, "i1")
			asked := false
			w.refuse = func(changes []ha.Change) bool { // the commit that would fail the attempt finds the wish
				if w.unit.Wishes.Retries > 0 || !slices.ContainsFunc(changes, func(c ha.Change) bool {
					n, is := c.(ha.SetNotification)
					return is && (n.Status == ha.StatusError || n.Status == ha.StatusFailed)
				}) {
					return false
				}
				w.unit.Wishes.Retries, w.unit.Wishes.RetryBy, asked = 1, "op: Nova is well again", true
				return true
			}
			w.toEnd(time.Minute)
			w.end(ha.StatusFinished, "1 of 1")
			if !asked || w.count("evacuate") != 2 {
				t.Errorf("asked %v, sent %v", asked, w.sent)
			}
		})
	}
	t.Run("after it has failed (F075)", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		w.instance("i2")
		w.script = func(a ha.Act) *reply {
			if a.Kind == ha.ActEvacuate && a.Instance == "i1" {
				return &reply{err: refused(403, "forbidden")}
			}
			return nil
		}
		w.toEnd(time.Minute)
		w.end(ha.StatusFailed, "forbidden")
		w.script = nil
		w.again("op")
		w.toEnd(time.Minute)
		w.end(ha.StatusFinished, "2 of 2")
		if w.count("evacuate i2") != 1 || w.count("evacuate i1") != 2 || w.count("service") != 1 {
			t.Errorf("sent %v", w.sent)
		}
	})
	t.Run("one vmove", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		w.instance("i2")
		w.takes = 60 * time.Second
		w.faulty(1, "i1")
		w.run(20 * time.Second)
		w.moved("i1", ha.MoveFailed, "no disk")
		w.comes(0, func() { w.unit.Moves[0].RetryWish = 1 })
		w.run(2 * time.Second)
		w.moved("i1", ha.MoveOngoing, "")
		w.toEnd(5 * time.Minute)
		w.end(ha.StatusFinished, "2 of 2")
		if m := w.move("i1"); m.RetryDone != 1 || w.unit.Failures != 0 {
			t.Errorf("%+v, %d failures", m, w.unit.Failures)
		}
	})
	t.Run("one vmove that waits for room", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		full(w, true)
		w.run(5 * time.Minute)
		before := w.count("evacuate")
		w.comes(0, func() { w.unit.Moves[0].RetryWish = 1 })
		w.run(time.Second)
		if w.count("evacuate") != before+1 {
			t.Errorf("%d orders, %d before", w.count("evacuate"), before)
		}
	})
}

// Nova is away for half an hour in the middle: all moved, no attempt used up (F069).
func TestNovaAwayInTheMiddle(t *testing.T) {
	w := hostDeath(t)
	for _, id := range []string{"i1", "i2", "i3"} {
		w.instance(id)
	}
	w.rules.Threads = 1
	w.takes = 10 * time.Second
	away := false
	w.script = func(ha.Act) *reply {
		if away {
			return &reply{err: inDoubt()}
		}
		return nil
	}
	w.at(15*time.Second, func() { away, w.away = true, broken() })
	w.at(30*time.Minute, func() { away, w.away = false, nil })
	w.toEnd(40 * time.Minute)
	w.end(ha.StatusFinished, "3 of 3")
	if w.unit.Failures != 0 {
		t.Errorf("%d failures", w.unit.Failures)
	}
}

// A drain sends nothing, and digests what comes.
func TestDraining(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.instance("i2")
	w.rules.Threads = 1
	w.comes(210*time.Millisecond, func() { w.draining = true })
	w.run(time.Second)
	w.moved("i1", ha.MoveOngoing, "")
	if m := w.move("i1"); !m.Order.Answered {
		t.Errorf("the outcome was not kept: %+v", m.Order)
	}
	w.draining = false
	w.takeover()
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "2 of 2")
	if w.count("evacuate") != 2 {
		t.Errorf("sent %v", w.sent)
	}
}

// What is loaded in the turn in which the last attempt fails is not lost with it: a report behind it gets a unit of its own, an operator's
// retry is honoured.
func TestLastAttemptFailsAsSomethingComes(t *testing.T) {
	last := func(t *testing.T, meanwhile func(*world)) *world {
		w := hostDeath(t)
		w.rules.MaxAttempts = 1
		w.unit.Notification.Payload[ha.KeyHostStatus] = "UNKNOWN"
		w.fencing = true
		w.script = func(ha.Act) *reply {
			w.at(10*time.Millisecond, func() { meanwhile(w) })
			return &reply{err: refused(403, "Policy doesn't allow it")}
		}
		return w
	}
	t.Run("a report with a proof", func(t *testing.T) {
		w := last(t, func(w *world) {
			w.unit.Queue = append(w.unit.Queue, w.report("n2", ha.TypeComputeHost, ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyHostStatus: ha.HostStatusNormal}))
		})
		w.toEnd(time.Minute)
		w.end(ha.StatusFailed, "Nova refused")
		if w.unit.Notification.UUID != "n1" || len(w.unit.Queue) != 1 || w.unit.Queue[0].Status != ha.StatusNew {
			t.Errorf("ended under %s, queue %+v", w.unit.Notification.UUID, w.unit.Queue)
		}
	})
	t.Run("a retry", func(t *testing.T) {
		w := last(t, func(w *world) { w.unit.Wishes = ha.Wishes{Retries: 1, RetryBy: "op"} })
		w.rules.MaxAttempts, w.unit.Failures = 2, 1
		w.toEnd(10 * time.Second) // of the attempt that it has begun
		if n := w.count("service"); n != 2 {
			t.Errorf("%d attempts\n%s", n, w.story())
		}
	})
}

// A retry of what had failed may be over in its first turn: no illegal transition, which no commit would take.
func TestRetryOverInItsFirstTurn(t *testing.T) {
	for name, c := range map[string]struct {
		kind   ha.UnitKind
		typ    ha.Type
		p      ha.Payload
		now    func(*world)
		status ha.Status
	}{
		"the segment was disabled": {ha.UnitHost, ha.TypeComputeHost, ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyHostStatus: ha.HostStatusNormal},
			func(w *world) { w.unit.Segment.Enabled = false }, ha.StatusIgnored},
		"no fencing any more": {ha.UnitHost, ha.TypeComputeHost, ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyHostStatus: "UNKNOWN"}, func(*world) {}, ha.StatusIgnored},
		"the host died, of an instance": {ha.UnitInstance, ha.TypeVM, ha.Payload{ha.KeyEvent: "LIFECYCLE", ha.KeyVirDomainEvent: "STOPPED_FAILED", ha.KeyInstanceUUID: "i1"},
			func(w *world) { w.unit.HostUnit = 7; w.comes(10*time.Second, func() { w.unit.HostUnit = 0 }) }, ha.StatusIgnored},
		"the host died, of a process": {ha.UnitProcess, ha.TypeProcess, ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyProcessName: ha.ProcessNovaCompute},
			func(w *world) { w.unit.HostUnit = 7 }, ha.StatusFinished},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.kind)
			n := w.report("n1", c.typ, c.p)
			n.Status = ha.StatusFailed
			w.handles(n)
			w.unit.Wishes = ha.Wishes{Retries: 1, RetryBy: "op"}
			c.now(w)
			w.toEnd(time.Minute)
			w.end(c.status, "")
		})
	}
}
