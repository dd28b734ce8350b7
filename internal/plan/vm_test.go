package plan_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// crashed is a world in which the HA-enabled i1 crashed on compute-1 and Nova still shows it active.
func crashed(t rapid.TB) *world {
	w := newWorld(t, ha.UnitInstance)
	w.instance("i1", metadata("HA_Enabled", "True"))
	w.handles(w.report("n1", ha.TypeVM, ha.Payload{ha.KeyEvent: "LIFECYCLE", ha.KeyVirDomainEvent: "STOPPED_FAILED", ha.KeyInstanceUUID: "i1"}))
	return w
}

// Rule 1: three pairs are acted on, all else is ignored.
func TestVMRule1(t *testing.T) {
	for _, c := range []struct {
		event, detail string
		acts          bool
	}{
		{"LIFECYCLE", "STOPPED_FAILED", true}, {"IO_ERROR", "IO_ERROR_REPORT", true}, {"QEMU_GUEST_AGENT_ERROR", "STOPPED_FAILED", true},
		{"LIFECYCLE", "STOPPED_DESTROYED", false}, {"REBOOT", "UNKNOWN", false}, {"WATCHDOG", "WATCHDOG_NONE", false},
	} {
		w := crashed(t)
		w.unit.Notification.Payload[ha.KeyEvent], w.unit.Notification.Payload[ha.KeyVirDomainEvent] = c.event, c.detail
		w.toEnd(time.Minute)
		if c.acts {
			w.acts("stop i1", "start i1")
			w.end(ha.StatusFinished, "")
		} else {
			w.acts()
			w.end(ha.StatusIgnored, "event "+c.event+" / "+c.detail+" needs no recovery")
		}
	}
}

// Rule 2: it must exist and be on the reporting host.
func TestVMRule2(t *testing.T) {
	w := crashed(t)
	w.servers = nil
	w.toEnd(time.Minute)
	w.acts()
	w.end(ha.StatusIgnored, "instance i1 does not exist any more")

	w = crashed(t)
	w.server("i1").Host = "compute-2"
	w.toEnd(time.Minute)
	w.acts()
	w.end(ha.StatusIgnored, "instance i1 is on compute-2, not on compute-1")

	w = crashed(t) // it is moved away in the middle: not started elsewhere by us
	w.at(70*time.Millisecond, func() { w.server("i1").Host = "compute-2" })
	w.toEnd(time.Minute)
	w.end(ha.StatusIgnored, "is on compute-2")
	if w.count("start") != 0 {
		t.Errorf("sent %v", w.sent)
	}
}

// Rule 3: not HA-enabled and process_all_instances false: finished, nothing done; no spelling of no is stopped (F055).
func TestVMRule3(t *testing.T) {
	for _, c := range []struct {
		value string
		all   bool
		acts  bool
	}{
		{"True", false, true}, {"true", false, true}, {"1", false, true}, {"", false, false}, {"False", false, false}, {"perhaps", false, false},
		{"", true, true}, {"False", true, false}, {"True", true, true},
	} {
		w := crashed(t)
		w.rules.ProcessAll = c.all
		w.server("i1").Metadata = map[string]string{"HA_Enabled": c.value}
		if c.value == "" {
			w.server("i1").Metadata = nil
		}
		w.toEnd(time.Minute)
		if (len(w.sent) > 0) != c.acts {
			t.Errorf("%q, all %v: sent %v", c.value, c.all, w.sent)
		}
		if !c.acts {
			w.end(ha.StatusFinished, "not HA-enabled: nothing was done")
			if w.details() != "StopInstanceTask Skipping recovery for instance: i1 as it is not Ha_Enabled\nStopInstanceTask REVERTED" {
				t.Errorf("details %s", w.details())
			}
		}
	}
}

// Rule 4: paused and rescued are ignored; resized is reset to active first.
func TestVMRule4(t *testing.T) {
	for _, state := range []string{ha.VMPaused, ha.VMRescued} {
		w := crashed(t)
		w.server("i1").VMState = state
		w.toEnd(time.Minute)
		w.acts()
		w.end(ha.StatusIgnored, "instance i1 is "+state)
	}
	w := crashed(t)
	w.server("i1").VMState = ha.VMResized
	w.toEnd(time.Minute)
	w.acts("reset i1 active", "stop i1", "start i1")
	w.end(ha.StatusFinished, "")
}

// Rule 5: stopped by a user: ignored; stopped by nova-compute's own clean-up: started.
func TestVMRule5(t *testing.T) {
	stopped := func(actions ...string) *world {
		w := crashed(t)
		w.server("i1").VMState, w.server("i1").Running = ha.VMStopped, false
		for _, a := range actions { // oldest first
			w.act("i1", a, "tenant")
		}
		return w
	}
	w := stopped("create", "stop")
	w.toEnd(time.Minute)
	w.acts()
	w.end(ha.StatusIgnored, "instance i1 was stopped by a user")

	for _, actions := range [][]string{{"create"}, {"create", "stop", "start"}, {"create", "stop", "start", "lock"}, {}} {
		w := stopped(actions...)
		w.toEnd(time.Minute)
		w.acts("start i1")
		w.end(ha.StatusFinished, "")
	}

	// Nova's power sync stopped it: a stop by nobody says nothing (F053).
	for asked, want := range map[string]ha.Status{"start": ha.StatusFinished, "stop": ha.StatusIgnored} {
		w := stopped("create", asked)
		w.act("i1", "stop", "")
		w.toEnd(time.Minute)
		w.end(want, "")
	}
}

// Rule 6: stop, wait, start, wait; each with its words.
func TestVMRule6(t *testing.T) {
	w := crashed(t)
	w.toEnd(time.Minute)
	w.acts("stop i1", "start i1")
	w.end(ha.StatusFinished, "")
	want := "StopInstanceTask Stopping instance: i1\nStopInstanceTask Stopped instance: 'i1'\nStopInstanceTask SUCCESS\n" +
		"StartInstanceTask Starting instance: 'i1'\nStartInstanceTask Instance started: 'i1'\nStartInstanceTask SUCCESS\n" +
		"ConfirmInstanceActiveTask Confirming instance 'i1' vm_state is ACTIVE\nConfirmInstanceActiveTask Confirmed instance 'i1' vm_state is ACTIVE\n" +
		"ConfirmInstanceActiveTask SUCCESS"
	if got := w.details(); got != want {
		t.Errorf("details:\n%s", got)
	}
}

// 409 is fine if it is stopped (F053).
func TestVMRule6StopConflicts(t *testing.T) {
	w := crashed(t)
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActStop { // Nova's periodic sync was faster
			w.server("i1").VMState = ha.VMStopped
		}
		return nil
	}
	w.toEnd(time.Minute)
	w.acts("stop i1", "start i1")
	w.end(ha.StatusFinished, "")
	if w.wrote(ha.EntryProgress, "Conflict when stopping instance: i1") != 1 {
		t.Error("no word of the conflict")
	}
}

// Not stopped, or not active, in time: error with the state, retried, then failed.
func TestVMRule6TimesOut(t *testing.T) {
	t.Run("stop", func(t *testing.T) {
		w := crashed(t)
		w.script = func(a ha.Act) *reply {
			if a.Kind == ha.ActStop {
				w.server("i1").TaskState = "powering-off"
				return &reply{}
			}
			return nil
		}
		w.run(185 * time.Second)
		if n := w.unit.Notification; n.Status != ha.StatusError || !strings.Contains(text(n.Message), "was not stopped within 3m0s: it is active powering-off") {
			t.Errorf("%s %q", n.Status, text(n.Message))
		}
		w.toEnd(time.Hour)
		w.end(ha.StatusFailed, "was not stopped within 3m0s")
		if w.wrote(ha.EntryProgress, "Failed to stop instance i1") != 3 {
			t.Error("want three attempts told")
		}
	})
	t.Run("start", func(t *testing.T) {
		w := crashed(t)
		w.script = func(a ha.Act) *reply {
			if a.Kind == ha.ActStart && w.count("start") == 1 {
				w.server("i1").TaskState = "powering-on"
				w.at(2*time.Minute, func() { w.server("i1").TaskState = "" })
				return &reply{}
			}
			return nil
		}
		w.run(65 * time.Second)
		if n := w.unit.Notification; n.Status != ha.StatusError || !strings.Contains(text(n.Message), "was not active within 1m0s: it is stopped powering-on") {
			t.Errorf("%s %q", n.Status, text(n.Message))
		}
		w.toEnd(10 * time.Minute)
		w.end(ha.StatusFinished, "")
	})
	t.Run("it becomes error", func(t *testing.T) {
		w := crashed(t)
		w.script = func(a ha.Act) *reply {
			if a.Kind == ha.ActStart {
				w.server("i1").VMState = ha.VMError
				return &reply{}
			}
			return nil
		}
		w.run(5 * time.Second)
		if n := w.unit.Notification; n.Status != ha.StatusError || !strings.Contains(text(n.Message), "became error instead of active") {
			t.Errorf("%s %q", n.Status, text(n.Message))
		}
	})
}

// What we stopped ourselves is not "stopped by a user": it is started in the next attempt, or by an operator's retry.
func TestVMOurOwnStopIsNoUsers(t *testing.T) {
	never := func(w *world) {
		w.script = func(a ha.Act) *reply {
			if a.Kind == ha.ActStart {
				return &reply{err: busy()}
			}
			return nil
		}
	}
	t.Run("next attempt", func(t *testing.T) {
		w := crashed(t)
		never(w)
		w.until("in error", func() bool { return w.unit.Notification.Status == ha.StatusError }, 2*time.Minute)
		w.script = nil
		w.toEnd(5 * time.Minute)
		w.end(ha.StatusFinished, "")
		if w.server("i1").VMState != ha.VMActive {
			t.Error("left stopped")
		}
	})
	t.Run("an operator's retry of what has failed", func(t *testing.T) {
		w := crashed(t)
		w.rules.MaxAttempts = 1
		never(w)
		w.toEnd(5 * time.Minute)
		w.end(ha.StatusFailed, "")
		w.script = nil
		w.again("op")
		w.toEnd(5 * time.Minute)
		w.end(ha.StatusFinished, "")
	})
	t.Run("a takeover after the stop", func(t *testing.T) {
		w := crashed(t)
		w.until("stopped", func() bool { return w.server("i1").VMState == ha.VMStopped }, time.Minute)
		w.takeover()
		w.toEnd(time.Minute)
		w.acts("stop i1", "start i1")
		w.end(ha.StatusFinished, "")
	})
}

func TestVMLostAnswers(t *testing.T) {
	for _, kind := range []ha.ActKind{ha.ActStop, ha.ActStart} {
		for name, r := range map[string]reply{
			"done": {err: inDoubt(), takes: true}, "not done": {err: inDoubt()}, "busy": {err: busy()}, "broken": {err: broken()},
		} {
			t.Run(string(kind)+" "+name, func(t *testing.T) {
				w := crashed(t)
				w.rules.WaitPowerOn = 2 * time.Minute
				w.script = func(a ha.Act) *reply {
					if a.Kind == kind && w.count(string(kind)) == 1 {
						return &r
					}
					return nil
				}
				w.toEnd(5 * time.Minute)
				w.end(ha.StatusFinished, "")
				if w.server("i1").VMState != ha.VMActive || w.unit.Failures != 0 {
					t.Errorf("ends %s, %d failures", w.server("i1").VMState, w.unit.Failures)
				}
			})
		}
	}
}

// Rule 7: a host recovery has precedence, at the start, in the middle, and by the guard of its commit.
func TestVMRule7(t *testing.T) {
	waits := func(w *world, acts ...string) {
		t.Helper()
		w.run(time.Minute)
		w.acts(acts...)
		w.waiting("a recovery of host compute-1 is at work")
		w.unit.HostUnit, w.refuse = 0, nil
		w.toEnd(time.Minute)
		w.end(ha.StatusIgnored, "host recovery took over")
	}
	w := crashed(t)
	w.unit.HostUnit = 7
	w.server("i1").Host = "compute-2"
	waits(w)

	w = crashed(t)
	w.unit.HostUnit = 7
	w.service(failedHost).ForcedDown = true // it could not be moved
	waits(w)

	w = crashed(t) // which has moved it already
	w.server("i1").Host = "compute-2"
	w.hostUnitUnseen()
	waits(w)

	w = overtaken(t)
	w.acts("stop i1")
	w.waiting("a recovery of host compute-1 is at work")
	if w.wrote(ha.EntryOutcome, "stop i1") != 1 {
		t.Error("its act in flight was not waited for")
	}
}

// overtaken is a crashed instance that was stopped to be started anew when a recovery of its host began.
func overtaken(t *testing.T) *world {
	w := crashed(t)
	w.comes(70*time.Millisecond, func() { w.unit.HostUnit = 7 })
	w.run(30 * time.Second)
	if w.ended || w.server("i1").VMState != ha.VMStopped {
		t.Fatalf("ended %v, %+v", w.ended, w.server("i1"))
	}
	return w
}

// What a host's recovery moved while it was stopped for its restart arrives stopped, and is started there; what it did not move is
// restarted where it is, if its host is there.
func TestVMAfterTheHostsRecovery(t *testing.T) {
	moved := func(w *world) *ha.Server {
		w.unit.HostUnit = 0
		s := w.server("i1")
		s.Host = "compute-2"
		w.nova.act("i1", "evacuate", "salvor")
		return s
	}
	ends := func(t *testing.T, w *world, has string, acts ...string) {
		t.Helper()
		w.toEnd(10 * time.Minute)
		w.acts(append([]string{"stop i1"}, acts...)...)
		if has == "" {
			w.end(ha.StatusFinished, "")
			return
		}
		w.end(ha.StatusIgnored, has)
	}
	t.Run("it is started", func(t *testing.T) {
		w := overtaken(t)
		moved(w)
		ends(t, w, "host recovery took over", "start i1")
		if w.server("i1").VMState != ha.VMActive {
			t.Errorf("%+v", w.server("i1"))
		}
	})
	t.Run("by another engine", func(t *testing.T) {
		w := overtaken(t)
		w.takeover()
		w.run(time.Minute)
		moved(w)
		ends(t, w, "host recovery took over", "start i1")
	})
	t.Run("between two attempts", func(t *testing.T) {
		w := crashed(t)
		w.script = func(a ha.Act) *reply { return &reply{err: refused(403, "no")} }
		w.until("in error", func() bool { return w.unit.Notification.Status == ha.StatusError }, time.Minute)
		w.script = nil
		w.server("i1").VMState = ha.VMStopped
		moved(w)
		ends(t, w, "instance i1 is on compute-2, not on compute-1", "start i1")
	})
	t.Run("it runs", func(t *testing.T) {
		w := overtaken(t)
		moved(w).VMState = ha.VMActive
		ends(t, w, "host recovery took over")
	})
	t.Run("a user stopped it there", func(t *testing.T) {
		w := overtaken(t)
		moved(w)
		w.nova.act("i1", "stop", "alice")
		ends(t, w, "was stopped by a user")
	})
	t.Run("it is deleted", func(t *testing.T) {
		w := overtaken(t)
		moved(w)
		w.servers = nil
		ends(t, w, "does not exist any more")
	})
	t.Run("it cannot be started", func(t *testing.T) {
		w := overtaken(t)
		moved(w)
		w.script = func(ha.Act) *reply { return &reply{err: refused(409, "not now")} }
		w.toEnd(10 * time.Minute)
		w.end(ha.StatusFailed, "was not active on compute-2")
		if w.wrote(ha.EntryAlarm, "could not be started there") != 1 {
			t.Error("nobody is told")
		}
	})
	t.Run("it had crashed, and its report was not looked into", func(t *testing.T) {
		for user, started := range map[string][]string{"": {"start i1"}, "alice": nil} {
			w := crashed(t)
			w.unit.HostUnit = 7
			w.server("i1").VMState = ha.VMStopped
			w.nova.act("i1", "stop", user)
			w.run(time.Minute)
			moved(w)
			w.toEnd(10 * time.Minute)
			w.acts(started...)
			if s := w.server("i1"); (s.VMState == ha.VMActive) != (started != nil) || w.unit.Notification.Status != ha.StatusIgnored {
				t.Errorf("stopped by %q: %+v, %s", user, s, w.unit.Notification.Status)
			}
		}
	})
	t.Run("the report of its host's death was false", func(t *testing.T) {
		w := crashed(t)
		w.unit.HostUnit = 7
		w.run(time.Minute)
		w.unit.HostUnit = 0
		w.toEnd(time.Minute)
		w.acts("stop i1", "start i1")
		w.end(ha.StatusFinished, "")
	})
	t.Run("its host was alive", func(t *testing.T) {
		w := overtaken(t)
		w.unit.HostUnit = 0
		w.toEnd(time.Minute)
		w.acts("stop i1", "start i1")
		w.end(ha.StatusFinished, "")
	})
	t.Run("its host was alive, and it had been started", func(t *testing.T) {
		w := crashed(t)
		w.until("started", func() bool { return w.count("start") == 1 && w.server("i1").VMState == ha.VMActive }, time.Minute)
		w.comes(0, func() { w.unit.HostUnit = 7 })
		w.run(30 * time.Second)
		w.unit.HostUnit = 0
		ends(t, w, "", "start i1")
	})
	t.Run("its new host has died", func(t *testing.T) {
		w := overtaken(t)
		moved(w)
		w.service("compute-2").Up = false
		w.at(30*time.Second, func() { w.server("i1").Host = "compute-3" }) // by the recovery of that one
		w.run(25 * time.Second)
		w.acts("stop i1")
		ends(t, w, "host recovery took over", "start i1")
	})
	t.Run("its host is away, and it could not be moved", func(t *testing.T) {
		w := overtaken(t)
		w.unit.HostUnit = 0
		w.service(failedHost).ForcedDown = true
		ends(t, w, "host recovery took over")
	})
}

// Nova, a cell or a proxy may be wrong for a moment: that an instance is gone is believed after ten seconds of it.
func TestVMGoneForAMoment(t *testing.T) {
	w := crashed(t)
	servers := w.servers
	w.servers = nil
	w.comes(5*time.Second, func() { w.servers = servers })
	w.toEnd(time.Minute)
	w.acts("stop i1", "start i1")
	w.end(ha.StatusFinished, "")
}

func TestVMGates(t *testing.T) {
	w := crashed(t)
	w.unit.Segment.Enabled = false
	w.toEnd(time.Minute)
	w.acts()
	w.end(ha.StatusIgnored, plan.SegmentDisabled)

	w = crashed(t)
	until := w.now.Add(5 * time.Minute)
	w.unit.Segment.Pause = &ha.Pause{By: "op", Until: &until}
	w.run(4 * time.Minute)
	w.waiting("paused by op")
	w.acts()
	w.toEnd(2 * time.Minute)
	w.end(ha.StatusFinished, "")

	w = crashed(t) // in a live migration: it may run on the destination (F037)
	w.server("i1").TaskState = ha.TaskStateMigrating
	w.run(5 * time.Minute)
	w.waiting("instance i1 is migrating")
	w.acts()
	w.server("i1").TaskState = ""
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "")
}

func TestVMWishes(t *testing.T) {
	w := crashed(t)
	w.unit.Wishes.HoldBy, w.unit.Wishes.HoldReason = "op", "wait"
	w.run(5 * time.Minute)
	w.waiting("held by op: wait")
	w.acts()
	w.comes(0, func() { w.unit.Wishes = ha.Wishes{Releases: 1, ReleaseBy: "op"} })
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "")

	w = crashed(t)
	w.comes(70*time.Millisecond, func() { w.unit.Wishes.CancelBy = "alice" })
	w.toEnd(time.Minute)
	w.end(ha.StatusFailed, "cancelled by alice")

	w = crashed(t)
	w.rules.Expiry = 10 * time.Minute
	w.away = broken()
	w.toEnd(11 * time.Minute)
	w.end(ha.StatusFailed, "expired: older than 10m0s")
}

func TestVMNovaAwayWaits(t *testing.T) {
	w := crashed(t)
	w.away = broken()
	w.run(20 * time.Minute)
	w.waiting("Nova does not answer")
	w.away = nil
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "")
	if w.unit.Failures != 0 {
		t.Errorf("%d failures", w.unit.Failures)
	}
}

func TestVMForbidden(t *testing.T) {
	w := crashed(t)
	w.script = func(ha.Act) *reply { return &reply{err: refused(403, "Policy doesn't allow it")} }
	w.toEnd(time.Hour)
	w.end(ha.StatusFailed, "Policy doesn't allow it")
}

func TestVMTakeoverAtAnyMoment(t *testing.T) {
	for ms := 0; ms < 5000; ms += 50 {
		w := crashed(t)
		w.run(time.Duration(ms) * time.Millisecond)
		if w.ended {
			break
		}
		w.takeover()
		w.toEnd(10 * time.Minute)
		if w.server("i1").VMState != ha.VMActive || w.unit.Notification.Status != ha.StatusFinished {
			t.Fatalf("taken over after %d ms: %s, %s\n%s", ms, w.server("i1").VMState, w.unit.Notification.Status, w.story())
		}
	}
}

// A release lets a restart pass its segment's pause, as it does a host's recovery.
func TestReleaseOfAPause(t *testing.T) {
	for name, w := range map[string]*world{"instance": crashed(t), "process": processReport(t, ha.EventStopped, ha.ProcessNovaCompute)} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			w.nova.t = t
			w.unit.Segment.Pause = &ha.Pause{Segment: "segment", By: "op", Reason: "power work", Since: born}
			w.run(5 * time.Minute)
			w.waiting("paused by op")
			w.acts()
			w.comes(0, func() { w.unit.Wishes = ha.Wishes{Releases: 1, ReleaseBy: "bob: it may go on"} })
			w.toEnd(time.Minute)
			w.end(ha.StatusFinished, "")
			if w.wrote(ha.EntryOperator, "bob released gate segment") != 1 {
				t.Error("the release is not in the journal")
			}
		})
	}
}

// Nova that refuses to reset a resized instance is told of, and asked again by the rules of retries only.
func TestVMResetRefused(t *testing.T) {
	w := crashed(t)
	w.server("i1").VMState = ha.VMResized
	w.script = func(ha.Act) *reply { return &reply{err: refused(409, "Cannot reset it now")} }
	w.toEnd(time.Hour)
	w.end(ha.StatusFailed, "Cannot reset it now")
	w.acts("reset i1 active", "reset i1 active", "reset i1 active")
}
