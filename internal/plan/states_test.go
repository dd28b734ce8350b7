package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// The table of RECOVERY section 2: before the first try, what is done first, what is wanted afterwards; for each power and task.
func TestTableOfInstances(t *testing.T) {
	const ignored = "ignored"
	for _, c := range []struct {
		before string
		on     bool
		tasks  []string
		acts   string // after the PUT; i1 left out
		ends   string // vm_state, or ignored
	}{
		{ha.VMActive, true, []string{"", "rebooting", "rebuilding", "powering-off", "deleting"}, "lock, evacuate, unlock", ha.VMActive},
		{ha.VMActive, false, []string{""}, "lock, evacuate, unlock", ha.VMActive},
		{ha.VMStopped, false, []string{"", "powering-on"}, "lock, evacuate, unlock", ha.VMStopped},
		{ha.VMStopped, true, []string{""}, "lock, evacuate, unlock", ha.VMStopped},
		{ha.VMError, true, []string{"", "rebuilding"}, "lock, evacuate, stop, reset error, unlock", ha.VMError},
		{ha.VMError, false, []string{""}, "lock, evacuate, stop, reset error, unlock", ha.VMError},
		{ha.VMResized, true, []string{""}, "lock, reset error, evacuate, unlock", ha.VMActive},
		{ha.VMResized, false, []string{""}, "lock, reset error, evacuate, stop, unlock", ha.VMStopped},
		{ha.VMPaused, true, []string{"", "unpausing"}, "lock, reset error, evacuate, stop, unlock", ha.VMStopped},
		{ha.VMSuspended, false, []string{""}, "lock, reset error, evacuate, stop, unlock", ha.VMStopped},
		{ha.VMRescued, true, []string{""}, "lock, reset error, evacuate, stop, unlock", ha.VMStopped},
		{"a state of a later Nova", true, []string{""}, "lock, reset error, evacuate, stop, unlock", ha.VMStopped},
		{ha.VMBuilding, false, []string{"", "spawning"}, "", ignored},
		{ha.VMShelved, false, []string{""}, "", ignored},
		{ha.VMShelvedOffloaded, false, []string{""}, "", ignored},
		{ha.VMDeleted, false, []string{""}, "", ignored},
		{ha.VMSoftDeleted, false, []string{""}, "", ignored},
	} {
		for _, task := range c.tasks {
			name := c.before + map[bool]string{true: " on", false: " off"}[c.on]
			if task != "" {
				name += " " + task
			}
			t.Run(name, func(t *testing.T) {
				w := hostDeath(t)
				w.instance("i1", func(s *ha.Server) { s.VMState, s.Running, s.TaskState = c.before, c.on, task })
				w.toEnd(5 * time.Minute)
				got := strings.ReplaceAll(strings.Join(w.sent[1:], ", "), " i1", "")
				if got != c.acts {
					t.Errorf("sent %q, want %q", got, c.acts)
				}
				if c.ends == ignored {
					w.moved("i1", ha.MoveIgnored, "")
					if text(w.move("i1").Message) == "" {
						t.Error("ignored without a reason")
					}
					return
				}
				w.end(ha.StatusFinished, "1 of 1")
				w.moved("i1", ha.MoveSucceeded, "")
				if s := w.server("i1"); s.VMState != c.ends || s.Host != "compute-2" || s.Locked {
					t.Errorf("ends %+v, want %s elsewhere", s, c.ends)
				}
			})
		}
	}
}

// A live migration that had not ended: it may run elsewhere. No order; an alarm; an operator's retry of it orders it.
func TestTableMigrating(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*world)
		says string
	}{
		"by its task": {func(w *world) { w.server("i1").TaskState = ha.TaskStateMigrating }, "may run on another host"},
		"by its record": {func(w *world) {
			w.record("i1", ha.MigrationLiveMigration, "running", failedHost, "compute-3")
		}, "may run on compute-3"},
	} {
		t.Run(name, func(t *testing.T) {
			w := hostDeath(t)
			w.instance("i1")
			w.instance("i2")
			w.takes = 30 * time.Second
			c.set(w)
			w.run(20 * time.Second)
			w.moved("i1", ha.MoveFailed, c.says)
			if w.count("lock i1")+w.count("evacuate i1") != 0 || w.wrote(ha.EntryAlarm, "was in a live migration") != 1 {
				t.Errorf("sent %v\n%s", w.sent, w.story())
			}
			w.comes(0, func() {
				w.unit.Moves[slices.IndexFunc(w.unit.Moves, func(m ha.VMove) bool { return m.InstanceUUID == "i1" })].RetryWish = 1
			})
			w.toEnd(5 * time.Minute)
			w.end(ha.StatusFinished, "2 of 2")
			w.moved("i1", ha.MoveSucceeded, "")
		})
	}
	t.Run("nobody retries it: failed at the verdict, named, not tried again", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		w.server("i1").TaskState = ha.TaskStateMigrating
		w.toEnd(time.Minute)
		w.end(ha.StatusFailed, "i1: may run on another host")
	})
	t.Run("the whole recovery is retried", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		w.server("i1").TaskState = ha.TaskStateMigrating
		w.toEnd(time.Minute)
		w.again("op")
		w.toEnd(time.Minute)
		w.end(ha.StatusFinished, "1 of 1")
	})
	t.Run("nor is one whose end Nova never wrote down, where the instance was moved since", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		w.record("i1", ha.MigrationLiveMigration, "running", failedHost, "compute-3")
		w.record("i1", ha.MigrationLiveMigration, "completed", failedHost, "compute-2")
		w.toEnd(time.Minute)
		w.end(ha.StatusFinished, "1 of 1")
	})
	t.Run("it is one where a later one only failed", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		w.record("i1", ha.MigrationLiveMigration, "running", failedHost, "compute-3")
		w.record("i1", ha.MigrationLiveMigration, "error", failedHost, "compute-2")
		w.toEnd(time.Minute)
		w.end(ha.StatusFailed, "i1: may run on compute-3")
	})
	t.Run("one that has ended is none", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		w.record("i1", ha.MigrationLiveMigration, "completed", "compute-3", failedHost)
		w.record("i1", ha.MigrationLiveMigration, "error", failedHost, "compute-3")
		w.toEnd(time.Minute)
		w.end(ha.StatusFinished, "1 of 1")
	})
}

// A deleted instance, at any moment: ignored, never failed.
func TestTableDeletedMeanwhile(t *testing.T) {
	for _, when := range []string{"lock", "evacuate", "reset", "unlock"} {
		t.Run("at "+when, func(t *testing.T) {
			w := hostDeath(t)
			w.instance("i1", func(s *ha.Server) { s.VMState = ha.VMPaused })
			w.script = func(a ha.Act) *reply {
				if strings.HasPrefix(actText(a), when) {
					w.servers = nil
				}
				return nil
			}
			w.toEnd(5 * time.Minute)
			if n := w.unit.Notification; n.Status != ha.StatusFinished {
				t.Errorf("%s %q\n%s", n.Status, text(n.Message), w.story())
			}
			if when != "unlock" {
				w.moved("i1", ha.MoveIgnored, "deleted")
			}
		})
	}
	t.Run("while it is under way", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		w.takes = 10 * time.Second
		w.at(5*time.Second, func() { w.servers = nil })
		w.toEnd(5 * time.Minute)
		w.moved("i1", ha.MoveIgnored, "deleted")
	})
}

// The state before the FIRST try decides: NoValidHost turns it to error, and a stopped one would then arrive active.
func TestTableTheFirstTryDecides(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1", func(s *ha.Server) { s.VMState, s.Running = ha.VMStopped, false })
	w.instance("i2")
	full(w, true)
	w.run(5 * time.Second)
	if w.server("i1").VMState != ha.VMError {
		t.Fatalf("the script is wrong: %+v", w.server("i1"))
	}
	full(w, false)
	w.toEnd(10 * time.Minute)
	w.end(ha.StatusFinished, "2 of 2")
	if w.server("i1").VMState != ha.VMStopped || w.server("i2").VMState != ha.VMActive {
		t.Errorf("i1 %s, i2 %s; want stopped, active", w.server("i1").VMState, w.server("i2").VMState)
	}
}

// full disables or enables all other hosts.
func full(w *world, is bool) {
	for i := range w.services {
		if s := &w.services[i]; s.Binary == ha.BinaryCompute && s.Host != failedHost {
			s.Enabled = !is
		}
	}
}

// A state that no evacuation gives is somebody's will: noted, left (F013).
func TestTableSomebodyElsesStateIsNoted(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.at(2*time.Second, func() { w.server("i1").VMState = ha.VMSuspended }) // just before it arrives
	w.toEnd(5 * time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	w.moved("i1", ha.MoveSucceeded, "it is suspended, wanted was active")
	if w.count("start") != 0 {
		t.Errorf("sent %v", w.sent)
	}
}

// An instance that was active and arrives stopped was stopped by a user, or by Nova, whose compute service found it not running when
// its host was back before the order was begun.
func TestTableStoppedOnItsWay(t *testing.T) {
	for user, want := range map[string]string{"alice": ha.VMStopped, "": ha.VMActive} {
		w := hostDeath(t)
		w.instance("i1")
		w.at(2*time.Second, func() {
			w.server("i1").VMState = ha.VMStopped
			w.nova.act("i1", "stop", user)
			w.nova.act("i1", "evacuate", "salvor")
		})
		w.toEnd(5 * time.Minute)
		w.end(ha.StatusFinished, "1 of 1")
		if got := w.server("i1"); got.VMState != want || got.Locked {
			t.Errorf("stopped by %q: %+v, want %s", user, got, want)
		}
	}
}

// Its state cannot be restored in time: it has moved all the same, and somebody is told.
func TestTableRestoreTimesOut(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1", func(s *ha.Server) { s.VMState = ha.VMPaused })
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActStop {
			return &reply{err: busy()}
		}
		return nil
	}
	w.toEnd(10 * time.Minute)
	w.moved("i1", ha.MoveSucceeded, "moved, but active and not stopped")
	if w.wrote(ha.EntryAlarm, "is active and not stopped after 3m0s") != 1 || w.server("i1").Locked {
		t.Error(w.story())
	}
}

// The reset's answer is lost: a reset that acts late would wreck the arrived instance.
func TestTableResetAnswersLost(t *testing.T) {
	for name, r := range map[string]reply{
		"done": {err: inDoubt(), takes: true}, "not done": {err: inDoubt()}, "done late": {err: inDoubt(), takes: true, effect: 40 * time.Second},
	} {
		for _, taken := range []bool{false, true} {
			if taken {
				name += ", over a takeover"
			}
			t.Run(name, func(t *testing.T) {
				w := hostDeath(t)
				w.instance("i1", func(s *ha.Server) { s.VMState = ha.VMPaused })
				ordered := time.Duration(0)
				w.script = func(a ha.Act) *reply {
					if a.Kind == ha.ActResetState && w.count("reset") == 1 {
						return &r
					}
					if a.Kind == ha.ActEvacuate {
						ordered = w.now.Sub(w.start)
					}
					return nil
				}
				w.until("reset", func() bool { return w.count("reset") == 1 }, time.Minute)
				if taken {
					w.takeover()
				}
				w.toEnd(10 * time.Minute)
				w.end(ha.StatusFinished, "1 of 1")
				if r.effect > 0 && ordered < r.effect {
					t.Errorf("ordered after %s, the reset came after %s", ordered, r.effect)
				}
				if s := w.server("i1"); s.VMState != ha.VMStopped {
					t.Errorf("ends %s", s.VMState)
				}
			})
		}
	}
}

// Nothing is reset on a host that is held: an instance of a host that turns out to be alive keeps its state.
func TestTableNoResetWhileHeld(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1", func(s *ha.Server) { s.VMState = ha.VMPaused })
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActLock {
			w.unit.Wishes.HoldBy = "op"
		}
		return nil
	}
	w.run(2 * time.Minute)
	w.acts("service compute-1 down disable", "lock i1")
}
