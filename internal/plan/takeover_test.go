package plan_test

import (
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// mixed is a host with instances of every kind, and a spare.
func mixed(t *testing.T) *world {
	w := hostDeath(t)
	w.unit.Segment.RecoveryMethod = ha.MethodRHPriority
	w.rules.AddToAggregate = true
	w.aggregates = []ha.Aggregate{{ID: "1", Name: "a", Hosts: []string{failedHost}}}
	w.spare("compute-4")
	w.instance("active")
	w.instance("paused", func(s *ha.Server) { s.VMState = ha.VMPaused })
	w.instance("error", func(s *ha.Server) { s.VMState = ha.VMError })
	w.instance("locked", func(s *ha.Server) { s.Locked = true })
	return w
}

// A takeover at any moment of a recovery goes on from where it was: one order each, all moved, nothing left behind (F076, S05, I10).
func TestTakeoverAtAnyMoment(t *testing.T) {
	for at := time.Duration(0); ; at += 25 * time.Millisecond {
		w := mixed(t)
		w.run(at)
		if w.ended {
			return
		}
		w.takeover()
		w.toEnd(10 * time.Minute)
		took := w.now.Sub(w.start)
		w.pass(5 * time.Minute)
		for _, s := range w.servers {
			if n := w.count("evacuate " + s.ID); n != 1 {
				t.Fatalf("taken over after %s: %d orders of %s\n%s", at, n, s.ID, w.story())
			}
			if s.Locked != (s.ID == "locked") || w.move(s.ID).Status != ha.MoveSucceeded {
				t.Fatalf("taken over after %s: %s locked %v, %+v\n%s", at, s.ID, s.Locked, w.move(s.ID), w.story())
			}
		}
		if took > 100*time.Second {
			t.Fatalf("taken over after %s: took %s, want order_in_doubt more at most\n%s", at, took, w.story())
		}
		if p := w.peer("compute-4"); p.ReservedFor != 0 || p.Reserved {
			t.Fatalf("taken over after %s: the spare is %+v", at, p)
		}
	}
}

// The same, with the nth act of the former owner under way and never done.
func TestTakeoverWithAnActThatNeverLeft(t *testing.T) {
	for n := 1; ; n++ {
		w := mixed(t)
		lost := false
		w.script = func(ha.Act) *reply {
			if len(w.sent) != n {
				return nil
			}
			lost = true
			w.comes(time.Millisecond, w.takeover)
			return &reply{err: inDoubt(), answer: time.Hour}
		}
		w.toEnd(10 * time.Minute)
		for _, s := range w.servers {
			if s.Locked != (s.ID == "locked") || w.move(s.ID).Status != ha.MoveSucceeded {
				t.Fatalf("act %d lost: %s locked %v, %+v\n%s", n, s.ID, s.Locked, w.move(s.ID), w.story())
			}
		}
		if !lost {
			return
		}
	}
}

// A commit that fails with what it rested on is planned anew, at any moment, and sends nothing twice.
func TestCommitRefusedAtAnyMoment(t *testing.T) {
	for n := 1; ; n++ {
		w := mixed(t)
		commits := 0
		w.refuse = func([]ha.Change) bool { commits++; return commits == n }
		w.toEnd(10 * time.Minute)
		w.end(ha.StatusFinished, "4 of 4")
		for _, s := range w.servers {
			if k := w.count("evacuate " + s.ID); k != 1 {
				t.Fatalf("commit %d refused: %d orders of %s\n%s", n, k, s.ID, w.story())
			}
		}
		if commits < n {
			return
		}
	}
}

// jump sets the database's clock ahead, or back, as another owner reads it at its claim: what is on its way comes no sooner for that.
func (w *world) jump(d time.Duration) {
	w.now = w.now.Add(d)
	for _, it := range w.agenda {
		it.at = it.at.Add(d)
	}
	w.takeover()
}

// A clock that is set while the unit changes hands ends no wait for an order of the former owner, nor for a reset.
func TestTakeoverByAnotherClock(t *testing.T) {
	for name, d := range map[string]time.Duration{"ahead": time.Hour, "ahead a little": 50 * time.Second, "back": -time.Hour, "back a little": -30 * time.Second} {
		for _, kind := range []ha.ActKind{ha.ActEvacuate, ha.ActResetState} {
			t.Run(name+" "+string(kind), func(t *testing.T) {
				w := hostDeath(t)
				w.rules.Expiry = 24 * time.Hour
				w.takes = 20 * time.Second
				w.instance("i1", func(s *ha.Server) { s.VMState = ha.VMPaused })
				first := true
				w.script = func(a ha.Act) *reply {
					if a.Kind != kind || !first {
						return nil
					}
					first = false
					w.comes(8*time.Second, func() { w.jump(d) })
					return &reply{err: inDoubt(), takes: true, effect: 55 * time.Second, answer: 3 * time.Hour}
				}
				w.toEnd(3 * time.Hour)
				w.end(ha.StatusFinished, "1 of 1")
				if s := w.server("i1"); w.count("evacuate") != 1 || s.VMState != ha.VMStopped || s.Locked {
					t.Errorf("%+v\n%s", s, w.story())
				}
			})
		}
	}
}
