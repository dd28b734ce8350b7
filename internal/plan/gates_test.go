package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// gatesAsked lists the gates in the journal, in order, each with its answer.
func (w *world) gatesAsked() (gates []string, answers []string) {
	for _, e := range w.journal {
		if e.Kind == ha.EntryGate {
			gates, answers = append(gates, e.Task), append(answers, e.Text)
		}
	}
	return gates, answers
}

func TestGatesInTheirOrderWithTheirNumbers(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.unit.RecentStarts = 3
	w.toEnd(time.Minute)
	gates, answers := w.gatesAsked()
	if want := []string{"segment", "nova", "brake", "rate", "proof"}; !slices.Equal(gates, want) {
		t.Errorf("asked %v, want %v", gates, want)
	}
	for i, part := range []string{
		"segment rack is enabled", "Nova's API, a scheduler and a conductor answer",
		"1 of 4 hosts of the segment are down, brake at more than 50 %", "3 host recoveries started in this segment in the last minute, limit 10",
		"nova_down: Nova sees compute-1 down",
	} {
		if i >= len(answers) || !strings.Contains(answers[i], part) {
			t.Errorf("answer %d: %q lacks %q", i, answers, part)
		}
	}
}

func TestGateSegment(t *testing.T) {
	t.Run("disabled: ignored", func(t *testing.T) {
		w := hostDeath(t)
		w.unit.Segment.Enabled = false
		w.toEnd(time.Minute)
		w.acts()
		w.end(ha.StatusIgnored, plan.SegmentDisabled)
	})
	t.Run("disabled while it waits: ignored", func(t *testing.T) {
		w := hostDeath(t)
		w.unit.Segment.Pause = &ha.Pause{By: "op", Reason: "power work"}
		w.comes(10*time.Second, func() { w.unit.Segment.Enabled = false })
		w.toEnd(time.Minute)
		w.acts()
		w.end(ha.StatusIgnored, plan.SegmentDisabled)
	})
	t.Run("paused: held, with owner and reason, until the pause ends", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		until := w.now.Add(5 * time.Minute)
		w.unit.Segment.Pause = &ha.Pause{Segment: "segment", By: "op", Reason: "power work", Since: w.now, Until: &until}
		w.run(4 * time.Minute)
		w.waiting("segment rack is paused by op since 2026-03-01 12:00:00: power work")
		w.acts()
		w.toEnd(2 * time.Minute)
		w.end(ha.StatusFinished, "")
	})
	t.Run("everything paused in the middle: what is under way ends, nothing new begins", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		w.instance("i2")
		w.rules.Threads = 1
		w.takes = 20 * time.Second
		w.comes(10*time.Second, func() { w.unit.Segment.Pause = &ha.Pause{By: "op", Reason: "look first"} })
		w.run(time.Minute)
		w.waiting("all recoveries are paused by op")
		w.moved("i1", ha.MoveSucceeded, "")
		if w.count("evacuate") != 1 || w.server("i1").Locked {
			t.Errorf("sent %v", w.sent)
		}
		w.comes(0, func() { w.unit.Segment.Pause = nil })
		w.toEnd(time.Minute)
		w.end(ha.StatusFinished, "2 of 2")
	})
	t.Run("paused: an operator lets this one pass", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		w.unit.Segment.Pause = &ha.Pause{By: "op", Reason: "power work"}
		w.comes(time.Minute, func() { w.unit.Wishes.Releases, w.unit.Wishes.ReleaseBy = 1, "boss" })
		w.toEnd(2 * time.Minute)
		w.end(ha.StatusFinished, "")
		if w.wrote(ha.EntryOperator, "boss released gate segment") != 1 {
			t.Errorf("no audit\n%s", w.story())
		}
	})
}

// Nova away, or without a scheduler or a conductor: the recovery waits however long it takes, and no attempt is used up.
func TestGateNovaWaits(t *testing.T) {
	down := func(binary string) func(*world, bool) {
		return func(w *world, up bool) {
			for i := range w.services {
				if w.services[i].Binary == binary {
					w.services[i].Up = up
				}
			}
		}
	}
	for name, set := range map[string]func(*world, bool){
		"Nova does not answer: no route to host": func(w *world, up bool) {
			w.away = nil
			if !up {
				w.away = broken()
			}
		},
		"no nova-scheduler is up": down("nova-scheduler"),
		"no nova-conductor is up": down("nova-conductor"),
	} {
		t.Run(name, func(t *testing.T) {
			w := hostDeath(t)
			w.instance("i1")
			set(w, false)
			w.run(30 * time.Minute)
			w.waiting(name)
			w.acts()
			if w.unit.Failures != 0 || w.unit.Attempt != 1 {
				t.Errorf("waiting used up an attempt: %+v", w.unit.Recovery)
			}
			set(w, true)
			w.toEnd(time.Minute)
			w.end(ha.StatusFinished, "")
		})
	}
}

// n hosts of the segment, k of them down, this one included.
func TestGateBrakeSmallSegments(t *testing.T) {
	for _, c := range []struct {
		down, n int
		goes    bool
	}{
		{1, 1, true}, {1, 2, true}, {1, 3, true}, {2, 4, true}, {2, 5, true}, {3, 6, true},
		{2, 2, false}, {2, 3, false}, {3, 4, false}, {3, 5, false}, {4, 6, false},
	} {
		t.Run(fmt.Sprintf("%d of %d", c.down, c.n), func(t *testing.T) {
			w := hostDeath(t)
			w.instance("i1")
			w.unit.Peers = w.unit.Peers[:min(c.n, 4)]
			for i := 5; i <= c.n; i++ {
				w.addHost(i)
			}
			for i := 2; i <= c.down; i++ {
				w.die(fmt.Sprintf("compute-%d", i))
				w.notice(fmt.Sprintf("compute-%d", i))
			}
			w.run(20 * time.Second)
			if c.goes != (w.count("evacuate") > 0) {
				t.Errorf("ordered %v, want goes %v\n%s", w.sent, c.goes, w.story())
			}
			if !c.goes {
				w.waiting(fmt.Sprintf("waiting at gate brake: %d of %d hosts of the segment are down, brake at more than 50 %%", c.down, c.n))
				w.acts()
				if w.wrote(ha.EntryAlarm, "held by the brake") != 1 {
					t.Errorf("want one alarm\n%s", w.story())
				}
			}
		})
	}
}

// A host is down for any of three reasons, and counts once (F117); one on an operator's maintenance does not count at all.
func TestGateBrakeCountsByUnion(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(w *world, p *ha.Peer)
		text string
	}{
		{"open incident", func(_ *world, p *ha.Peer) { p.OpenIncident = true }, "2 of 4"},
		{"claimed and not returned", func(_ *world, p *ha.Peer) { p.Claimed = true }, "2 of 4"},
		{"down for Nova", func(w *world, p *ha.Peer) { w.notice(p.Name) }, "2 of 4"},
		{"all three", func(w *world, p *ha.Peer) { p.OpenIncident, p.Claimed = true, true; w.notice(p.Name) }, "2 of 4"},
		{"operator's maintenance", func(w *world, p *ha.Peer) {
			p.Operator, p.OpenIncident, p.OnMaintenance = true, true, true
			w.notice(p.Name)
		}, "1 of 3"},
		{"salvor's maintenance", func(_ *world, p *ha.Peer) { p.OnMaintenance = true }, "1 of 4"},
		{"none", func(*world, *ha.Peer) {}, "1 of 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := hostDeath(t)
			c.set(w, w.peer("compute-3"))
			w.run(20 * time.Second)
			if w.wrote(ha.EntryGate, c.text+" hosts of the segment are down") == 0 {
				t.Errorf("want %s\n%s", c.text, w.story())
			}
		})
	}
}

func TestGateBrakeEndsByItself(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	for _, h := range []string{"compute-2", "compute-3"} {
		w.peer(h).OpenIncident = true
		w.die(h)
	}
	w.run(10 * time.Minute)
	w.waiting("3 of 4")
	w.at(0, func() { w.reload = func() { w.peer("compute-3").OpenIncident = false } })
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "")
}

// A host that Nova hears again for healthy_delay does not count, whether its monitor reports its return or not.
func TestGateBrakeDoesNotCountWhoIsHeardAgain(t *testing.T) {
	after := func(t *testing.T, set func(*world)) time.Duration {
		w := hostDeath(t)
		w.instance("i1")
		for _, h := range []string{"compute-2", "compute-3"} {
			w.peer(h).OpenIncident = true
			w.die(h)
			w.notice(h)
		}
		w.at(10*time.Minute, func() { w.live("compute-2"); w.live("compute-3") })
		set(w)
		w.run(30 * time.Minute)
		if w.ended {
			w.end(ha.StatusFinished, "1 of 1")
			return w.when("evacuate")
		}
		return 0
	}
	for _, c := range []struct {
		name     string
		set      func(*world)
		from, to time.Duration // when the instance is ordered; 0: never
	}{
		{"held at the same time", func(*world) {}, 15 * time.Minute, 16 * time.Minute},
		{"forced down by its recovery", func(w *world) {
			for _, h := range []string{"compute-2", "compute-3"} {
				w.peer(h).Claimed, w.peer(h).OpenIncident, w.service(h).ForcedDown = true, false, true
			}
		}, 15 * time.Minute, 16 * time.Minute},
		{"forced down by somebody else", func(w *world) {
			for _, h := range []string{"compute-2", "compute-3"} {
				w.peer(h).OpenIncident, w.service(h).ForcedDown = false, true
			}
		}, 0, 0},
		{"it goes again in between", func(w *world) {
			w.at(14*time.Minute, func() { w.die("compute-2"); w.die("compute-3") })
			w.at(16*time.Minute, func() { w.live("compute-2"); w.live("compute-3") })
		}, 21 * time.Minute, 22 * time.Minute},
		{"reports are trusted against Nova's word", func(w *world) { w.rules.TrustReports = true }, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if at := after(t, c.set); at < c.from || at > c.to {
				t.Errorf("ordered after %s, want %s to %s", at, c.from, c.to)
			}
		})
	}
}

func TestGateBrakeEndsByAnOperator(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	for _, h := range []string{"compute-2", "compute-3"} {
		w.peer(h).OpenIncident = true
	}
	w.comes(time.Minute, func() { w.unit.Wishes.Releases, w.unit.Wishes.ReleaseBy = 1, "boss: it burns" })
	w.toEnd(5 * time.Minute)
	w.end(ha.StatusFinished, "")
	if w.wrote(ha.EntryOperator, `boss released gate brake ("it burns")`) != 1 || w.wrote(ha.EntryGate, "released by an operator") == 0 {
		t.Errorf("no audit\n%s", w.story())
	}
}

func TestGateBrakeOff(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.rules.BrakePercent = 0
	for _, h := range []string{"compute-3", "compute-4"} {
		w.notice(h)
	}
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "")
}

// A look comes every second, and what others have written is read every other: a load costs more than the look.
func TestGateReloadsAtItsOwnPace(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.service(failedHost).Up = true // Nova has not noticed: 15 s of silence are awaited
	loads := 0
	w.reload = func() { loads++; w.unit.Now = w.now }
	w.run(14 * time.Second)
	w.waiting("gate proof")
	if loads < 4 || loads > 8 {
		t.Errorf("loaded %d times in 14 s\n%s", loads, w.story())
	}
}

// The wait for a proof took time: the brake is asked again after it.
func TestGateBrakeAgainAfterTheProof(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.service(failedHost).Up = true // Nova has not noticed: 15 s of silence are awaited
	w.at(5*time.Second, func() { w.notice("compute-3"); w.notice("compute-4") })
	w.run(time.Minute)
	w.waiting("gate brake: 3 of 4")
	w.acts()
}

// What it counts then is of now, though nothing has asked for the rows since the fence was begun: those who died meanwhile are counted.
func TestGateBrakeCountsYoungRows(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.service(failedHost).Up = true // Nova has not noticed: 15 s of silence are awaited
	var died bool
	w.at(14900*time.Millisecond, func() { died = true })
	w.reload = func() { // others' deaths are seen only in rows that are loaded
		if died {
			w.unit.Peers[2].OpenIncident, w.unit.Peers[3].OpenIncident = true, true
			w.die("compute-3")
			w.die("compute-4")
		}
	}
	w.run(time.Minute)
	w.waiting("gate brake: 3 of 4")
	w.acts()
}

func TestGateRate(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.unit.RecentStarts = 10
	w.run(30 * time.Second)
	w.waiting("waiting at gate rate: 10 host recoveries started in this segment in the last minute, limit 10")
	w.acts()
	w.reload = func() { w.unit.RecentStarts = 9 }
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "")
}

func TestGateRateOff(t *testing.T) {
	w := hostDeath(t)
	w.rules.RecoveryRate = 0
	w.unit.RecentStarts = 1000
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "")
}

// Passing is a decision for the segment: two recoveries cannot pass on the same numbers.
func TestGatesPassedTouchTheSegmentOnce(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.unit.Segment.Touch = 7
	stale := true
	w.refuse = func(changes []ha.Change) bool {
		for _, c := range changes {
			if g, is := c.(ha.TouchSegment); is && stale {
				if g.Seen != 7 || g.UUID != "segment" {
					t.Errorf("guard %+v", g)
				}
				stale = false
				w.unit.Segment.Touch = 8 // another recovery passed meanwhile
				w.unit.RecentStarts = 10
				return true
			}
		}
		return false
	}
	w.run(10 * time.Second)
	w.waiting("gate rate")
	w.acts()
}

// What passed once passes again on a retry or after a takeover: its own start does not hold it.
func TestGatesPassedStayPassed(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActService && w.count("service") == 1 {
			return &reply{err: refused(400, "no")}
		}
		return nil
	}
	w.until("in error", func() bool { return w.unit.Notification.Status == ha.StatusError }, time.Minute)
	w.unit.RecentStarts = 10
	w.notice("compute-3")
	w.notice("compute-4")
	w.rules.WaitEvacuation = 10 * time.Second
	w.toEnd(10 * time.Minute)
	w.end(ha.StatusFinished, "")
}

// An operator's hold stops a recovery at the gates too: nothing is claimed (RECOVERY section 5).
func TestHoldAtTheGates(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.unit.Wishes.HoldBy, w.unit.Wishes.HoldReason = "op", "looking at it"
	w.run(10 * time.Minute)
	w.waiting("held by op: looking at it")
	w.acts()
	if c := w.claims(); c != "" {
		t.Errorf("claimed while held: %s", c)
	}
	w.comes(0, func() { w.unit.Wishes = ha.Wishes{Releases: 1, ReleaseBy: "op"} })
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "")
}
