package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// unnoticed is a world in which compute-1 is reported NORMAL while Nova still calls it up.
func unnoticed(t rapid.TB) *world {
	w := hostDeath(t)
	w.service(failedHost).Up = true
	w.instance("i1")
	return w
}

func (w *world) proof(p ha.Proof, has string) {
	w.t.Helper()
	if w.unit.Proof != p || !strings.Contains(w.unit.ProofText, has) {
		w.t.Errorf("proof %q %q, want %q %q\n%s", w.unit.Proof, w.unit.ProofText, p, has, w.story())
	}
}

func TestProofNovaDownGoesAtOnce(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.toEnd(time.Minute)
	w.proof(ha.ProofNovaDown, "Nova sees compute-1 down")
	if at := w.when("service"); at > time.Second {
		t.Errorf("PUT after %s", at)
	}
}

// Nova calls a host down that it hears: clocks apart, or a state that is read wrongly. Nothing is ordered; nor is a host fenced.
func TestProofNovaDownAgainstItsOwnRows(t *testing.T) {
	for _, status := range []string{ha.HostStatusNormal, "UNKNOWN"} {
		w := unnoticed(t)
		w.fencing = true
		w.unit.Notification.Payload[ha.KeyHostStatus] = status
		w.beating[failedHost] = true
		w.service(failedHost).Up, w.service(failedHost).UpdatedAt = false, born
		w.toEnd(3 * time.Minute)
		w.end(ha.StatusIgnored, "host still reports to Nova")
		w.acts()
	}
}

// A host that was moved to another cell leaves a row that nobody writes any more: it says nothing, wherever it stands.
func TestProofByTheRowThatIsHeard(t *testing.T) {
	w := unnoticed(t)
	w.beating[failedHost] = true
	w.service(failedHost).UpdatedAt = born
	stale := *w.service(failedHost)
	stale.ID, stale.Up, stale.UpdatedAt = "left", false, born.AddDate(-6, 0, 0)
	own := slices.IndexFunc(w.services, func(s ha.Service) bool { return s.Host == failedHost })
	w.services = slices.Insert(w.services, own+1, stale)
	w.toEnd(3 * time.Minute)
	w.end(ha.StatusIgnored, "host still reports to Nova")
	w.acts()
}

// Nova does not say when it heard the host: that is not silence.
func TestProofWithoutATime(t *testing.T) {
	w := unnoticed(t)
	w.service(failedHost).UpdatedAt = time.Time{}
	w.run(5 * time.Minute)
	w.waiting("waiting at gate proof: Nova still hears compute-1")
	w.acts()
}

// An operator's word goes at once when Nova does not hear the host either.
func TestProofConfirmedGoesAtOnce(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.unit.Notification.Payload[ha.KeyHostStatus] = "UNKNOWN"
	w.unit.Notification.Payload[ha.KeyConfirmedBy] = "alice: on site"
	w.toEnd(time.Minute)
	w.proof(ha.ProofConfirmed, "alice confirmed that compute-1 is off (\"on site\")")
	if at := w.when("service"); at > time.Second {
		t.Errorf("PUT after %s", at)
	}
}

// reported, while Nova says up: its updated_at must not have moved for 1.5 report intervals.
func TestProofReportedWaitsForSilence(t *testing.T) {
	w := unnoticed(t)
	w.run(14 * time.Second)
	w.waiting("waiting at gate proof: Nova still hears compute-1: waiting until it has been silent for 15s")
	w.acts()
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "")
	w.proof(ha.ProofReported, "has not been heard for 15")
	if at := w.when("service"); at < 15*time.Second || at > 17*time.Second {
		t.Errorf("PUT after %s, want 15 s of silence", at)
	}
}

// The silence begins with the last heartbeat that is seen.
func TestProofReportedSilenceBeginsAnewWithAHeartbeat(t *testing.T) {
	w := unnoticed(t)
	w.beating[failedHost] = true
	w.at(12*time.Second, func() { w.die(failedHost) }) // last beat after 10 s
	w.toEnd(time.Minute)
	if at := w.when("service"); at < 25*time.Second || at > 27*time.Second {
		t.Errorf("PUT after %s, want 10 s + 15 s", at)
	}
}

func TestProofReportedTrusted(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name    string
		option  bool
		segment *bool
		trusts  bool
	}{
		{"nobody trusts", false, nil, false}, {"the option", true, nil, true}, {"the segment", false, &yes, true}, {"the segment does not", true, &no, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := unnoticed(t)
			w.rules.TrustReports, w.unit.Segment.TrustReports = c.option, c.segment
			w.run(5 * time.Second)
			if (w.count("evacuate") == 1) != c.trusts {
				t.Errorf("sent %v, want trusted %v", w.sent, c.trusts)
			}
		})
	}
}

// A monitor that sends NORMAL without having checked: nothing is done, and somebody is told.
func TestProofStillMovingAfterAMinuteIsIgnored(t *testing.T) {
	w := unnoticed(t)
	w.beating[failedHost] = true
	w.run(59 * time.Second)
	w.waiting("gate proof")
	w.toEnd(15 * time.Second)
	w.acts()
	w.end(ha.StatusIgnored, "host still reports to Nova")
	if w.wrote(ha.EntryAlarm, "still reports to Nova") != 1 {
		t.Errorf("no alarm\n%s", w.story())
	}
	if c := w.claims(); c != "" {
		t.Errorf("claimed: %s", c)
	}
}

// A host that beat until just before the minute was over and then fell silent is dead: its report must not be lost.
func TestProofSilentAtTheMinuteIsAwaited(t *testing.T) {
	w := unnoticed(t)
	w.beating[failedHost] = true
	w.at(52*time.Second, func() { w.die(failedHost) }) // last beat after 50 s
	w.toEnd(2 * time.Minute)
	w.end(ha.StatusFinished, "")
	if at := w.when("service"); at < 65*time.Second {
		t.Errorf("PUT after %s, want 50 s + 15 s", at)
	}
}

// nova_down never rests on a forced_down of ours: of a claim that an earlier recovery left, only updated_at counts.
func TestProofNotOurOwnForcedDown(t *testing.T) {
	forced := func(t *testing.T, beats bool) *world {
		w := unnoticed(t)
		svc := w.service(failedHost)
		svc.ForcedDown, svc.Up, svc.Enabled, svc.DisabledReason = true, false, false, w.rules.DisableReason
		w.unit.Host.OnMaintenance = true
		for _, c := range []ha.Claim{{What: ha.WhatForcedDown, Prior: "false"}, {What: ha.WhatDisabled, Detail: w.rules.DisableReason, Prior: "enabled"},
			{What: ha.WhatMaintenance, Prior: "false"}} {
			c.HostUUID, c.Reason, c.WorkID, c.Since, c.Seen = w.unit.HostUUID, ha.ReasonRecovery, 99, born.Add(-time.Hour), svc.UpdatedAt
			w.unit.Claims = append(w.unit.Claims, c)
		}
		if w.beating[failedHost] = beats; beats { // and so it has since our PUT
			w.unit.Claims[0].Seen = born.Add(-time.Hour)
		}
		return w
	}
	t.Run("not heard since our PUT", func(t *testing.T) {
		w := forced(t, false)
		w.toEnd(time.Minute)
		w.proof(ha.ProofReported, "has not been heard since it was forced down")
		w.acts("lock i1", "evacuate i1", "unlock i1") // forced down and disabled it is
	})
	t.Run("heard once since", func(t *testing.T) {
		w := forced(t, false)
		w.touch(failedHost)
		w.service(failedHost).UpdatedAt = born.Add(time.Second)
		w.toEnd(time.Minute)
		w.proof(ha.ProofReported, "has not been heard for 15")
	})
	t.Run("heard again and again", func(t *testing.T) {
		w := forced(t, true)
		w.run(4 * time.Minute)
		w.acts()
		w.waiting("is heard again while forced down")
		if w.wrote(ha.EntryAlarm, "reports to Nova") != 1 {
			t.Errorf("want one alarm\n%s", w.story())
		}
		w.takeover()
		w.run(25 * time.Second) // the new owner has not seen two moves yet
		w.waiting("waiting at gate heartbeat")
		w.toEnd(2 * time.Minute)
		w.end(ha.StatusIgnored, "host returned")
		w.acts()
	})
}

// forced_down by somebody else is Nova's word: we had not touched the host.
func TestProofForcedDownBySomebodyElse(t *testing.T) {
	w := unnoticed(t)
	svc := w.service(failedHost)
	svc.ForcedDown, svc.Up = true, false
	w.toEnd(time.Minute)
	w.proof(ha.ProofNovaDown, "")
	w.end(ha.StatusFinished, "")
}

func TestProofNotNormal(t *testing.T) {
	for _, status := range []string{"UNKNOWN", "", "normal"} {
		w := hostDeath(t)
		w.instance("i1")
		w.unit.Notification.Payload[ha.KeyHostStatus] = status
		w.toEnd(time.Minute)
		w.acts()
		w.end(ha.StatusIgnored, "not NORMAL: the death of compute-1 is not certain and no fencing is configured")
		if !strings.Contains(text(w.unit.Notification.Message), "confirm-off compute-1") {
			t.Errorf("the way on is not named: %s", text(w.unit.Notification.Message))
		}
	}
}

func TestProofNovaHasNoSuchService(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.unit.Host.Name = "compute-1.example"
	w.run(5 * time.Second)
	if n := w.unit.Notification; n.Status != ha.StatusRunning {
		t.Errorf("%s after five seconds of lists without it", n.Status)
	}
	w.run(15 * time.Second)
	if n := w.unit.Notification; n.Status != ha.StatusError || !strings.Contains(text(n.Message), "Nova has no compute service named compute-1.example") {
		t.Errorf("%s %q", n.Status, text(n.Message))
	}
	w.acts()
}

// After a hold of more than proof_max_age the proof is taken again: a host that came back meanwhile is not forced down.
func TestProofAgesBeforeThePut(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.unit.InFlight = 1 // an instance unit's act on this host is awaited, until an operator's hold comes
	w.comes(time.Second, func() { w.unit.Wishes.HoldBy, w.unit.Wishes.HoldReason = "op", "wait" })
	w.at(5*time.Minute, func() { w.live(failedHost) })
	w.comes(10*time.Minute, func() { w.unit.Wishes.HoldBy, w.unit.InFlight = "", 0 })
	w.toEnd(11*time.Minute + 30*time.Second)
	w.acts()
	w.end(ha.StatusIgnored, "host returned")
	if now := w.now.Sub(w.start); now < 11*time.Minute {
		t.Errorf("given up after %s: one look after ten minutes is no minute of heartbeats", now)
	}
}

func TestProofAgesBeforeTheOrders(t *testing.T) {
	held := func(t *testing.T, at time.Duration, meanwhile func(*world)) *world {
		w := hostDeath(t)
		w.instance("i1")
		w.script = func(a ha.Act) *reply { // the hold comes while the lock is under way
			if a.Kind == ha.ActLock {
				w.unit.Wishes.HoldBy, w.unit.Wishes.HoldReason = "op", "wait"
			}
			return nil
		}
		w.at(at, func() { meanwhile(w) })
		w.comes(10*time.Minute, func() { w.unit.Wishes.HoldBy = "" })
		w.run(10*time.Minute - time.Second)
		w.waiting("held by op: wait")
		w.acts("service compute-1 down disable", "lock i1")
		return w
	}
	t.Run("not heard since: at once", func(t *testing.T) {
		w := held(t, 0, func(*world) {})
		w.toEnd(time.Minute)
		w.end(ha.StatusFinished, "")
		if at := w.when("evacuate"); at > 10*time.Minute+3*time.Second {
			t.Errorf("ordered after %s", at)
		}
	})
	t.Run("it came back: no order", func(t *testing.T) {
		w := held(t, 9*time.Minute, func(w *world) { w.live(failedHost) })
		w.run(2 * time.Minute)
		w.waiting("is heard again while forced down")
		w.acts("service compute-1 down disable", "lock i1")
	})
	t.Run("heard once only: silence is awaited", func(t *testing.T) {
		w := held(t, 10*time.Minute-12*time.Second, func(w *world) { w.touch(failedHost) })
		w.toEnd(time.Minute)
		w.end(ha.StatusFinished, "")
		if at := w.when("evacuate"); at < 10*time.Minute+3*time.Second {
			t.Errorf("ordered after %s, want 15 s of silence first", at)
		}
	})
}

// An owner that died for more than proof_max_age: the next one takes the proof again.
func TestProofAgesOverATakeover(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.refuse = func([]ha.Change) bool { return w.count("lock") == 1 } // it dies with the lock under way
	w.until("locked", func() bool { return w.count("lock") == 1 }, time.Minute)
	w.forget() // and nobody comes for five minutes
	w.wake, w.refuse = time.Time{}, nil
	w.live(failedHost)
	w.run(5 * time.Minute)
	w.takeover()
	w.run(time.Minute)
	if w.count("evacuate") != 0 {
		t.Errorf("sent %v\n%s", w.sent, w.story())
	}
	w.waiting("is heard again while forced down")
}

// Any PUT moves updated_at once: that is no heartbeat.
func TestHeartbeatOneMoveIsNone(t *testing.T) {
	for name, put := range map[string]func(*world){
		"a PUT that changes nothing":     func(w *world) { w.touch(failedHost) },
		"a PUT of another reason":        func(w *world) { w.touch(failedHost); w.service(failedHost).DisabledReason = "kernel" },
		"a PUT, and a minute later more": func(w *world) { w.touch(failedHost); w.at(time.Minute, func() { w.touch(failedHost) }) },
	} {
		t.Run(name, func(t *testing.T) {
			w := hostDeath(t)
			w.takes = 80 * time.Second
			w.rules.Threads = 1
			w.instance("i1")
			w.instance("i2")
			w.at(5*time.Second, func() { put(w) })
			w.toEnd(10 * time.Minute)
			w.end(ha.StatusFinished, "2 of 2")
			if w.wrote(ha.EntryAlarm, "") != 0 {
				t.Errorf("alarm\n%s", w.story())
			}
		})
	}
}

// Two moves in a row without a change are a heartbeat: no new orders, hold, alarm; silent again, it goes on.
func TestHeartbeatWhileForcedDownHolds(t *testing.T) {
	w := hostDeath(t)
	w.takes = 60 * time.Second
	w.rules.Threads = 1
	w.instance("i1")
	w.instance("i2")
	w.at(20*time.Second, func() { w.live(failedHost) })
	w.run(2 * time.Minute)
	w.waiting("waiting at gate heartbeat: host compute-1 is heard again while forced down: no new orders")
	if w.count("evacuate") != 1 || w.wrote(ha.EntryAlarm, "reports to Nova") != 1 {
		t.Errorf("sent %v\n%s", w.sent, w.story())
	}
	w.die(failedHost)
	w.toEnd(5 * time.Minute)
	w.end(ha.StatusFinished, "2 of 2")
}

// Still moving after healthy_delay: as STARTED. Silence does not count as moving.
func TestHeartbeatForHealthyDelayIsAReturn(t *testing.T) {
	w := hostDeath(t)
	w.takes = 60 * time.Second
	w.rules.Threads = 1
	w.instance("i1")
	w.instance("i2")
	w.at(20*time.Second, func() { w.live(failedHost) })
	w.run(5 * time.Minute)
	w.waiting("is heard again")
	w.toEnd(2 * time.Minute)
	w.end(ha.StatusFinished, "host returned")
	w.moved("i1", ha.MoveSucceeded, "")
	w.moved("i2", ha.MoveIgnored, "host returned")
	if w.unit.Host.StartedAt == nil {
		t.Error("its take-back does not learn that it has returned")
	}
}

// A takeover does not count anew: since when the host is heard is in the row.
func TestHeartbeatCountsOnOverATakeover(t *testing.T) {
	w := hostDeath(t)
	w.takes = 60 * time.Second
	w.rules.Threads = 1
	w.instance("i1")
	w.instance("i2")
	w.at(20*time.Second, func() { w.live(failedHost) })
	for _, at := range []time.Duration{2 * time.Minute, 4 * time.Minute, 5 * time.Minute} {
		w.comes(at, w.takeover)
	}
	w.toEnd(6*time.Minute + 30*time.Second)
	w.end(ha.StatusFinished, "host returned")
	if now := w.now.Sub(w.start); now < 5*time.Minute+20*time.Second {
		t.Errorf("counted as returned after %s", now)
	}
}

// What was given up with its order under way, and arrived while the host was heard, is no failure.
func TestHeartbeatAndAnOrderThatEndsLate(t *testing.T) {
	w := hostDeath(t)
	w.takes = 200 * time.Second
	w.rules.Threads = 1
	w.instance("i1")
	w.instance("i2")
	w.at(20*time.Second, func() { w.live(failedHost) })
	w.toEnd(7 * time.Minute)
	w.end(ha.StatusFinished, "host returned")
	w.moved("i1", ha.MoveSucceeded, "")
	w.moved("i2", ha.MoveIgnored, "host returned")
	if w.server("i1").Locked || w.wrote(ha.EntryNote, "order still under way in Nova after") != 1 {
		t.Error(w.story())
	}
}

// An operator's release does not order away from a host that is heard: only a host that is proven off is evacuated (I2).
func TestHeartbeatCannotBeReleased(t *testing.T) {
	w := hostDeath(t)
	w.takes = 60 * time.Second
	w.rules.Threads = 1
	w.instance("i1")
	w.instance("i2")
	w.at(20*time.Second, func() { w.live(failedHost) })
	w.comes(100*time.Second, func() { w.unit.Wishes.Releases, w.unit.Wishes.ReleaseBy = 1, "op" })
	w.run(4 * time.Minute)
	w.waiting("is heard again while forced down")
	if w.count("evacuate") != 1 {
		t.Errorf("sent %v", w.sent)
	}
}

// forced_down is put again whenever a look shows it gone, and nothing is ordered before silence has shown that the host is off.
func TestForcedDownGoneIsPutAgain(t *testing.T) {
	w := hostDeath(t)
	w.takes = 20 * time.Second
	w.rules.Threads = 1
	w.instance("i1")
	w.instance("i2")
	w.at(5*time.Second, func() {
		svc := w.service(failedHost)
		svc.ForcedDown, svc.Up = false, true
		w.touch(failedHost)
	})
	w.toEnd(5 * time.Minute)
	w.end(ha.StatusFinished, "2 of 2")
	if w.count("service compute-1 down") != 2 || w.wrote(ha.EntryGate, "forced_down of compute-1 is gone: putting it again") != 1 {
		t.Errorf("sent %v\n%s", w.sent, w.story())
	}
}

// Nova refuses it: the instances under way end, the others wait, visibly, and somebody is told.
func TestForcedDownGoneAndRefused(t *testing.T) {
	w := hostDeath(t)
	w.takes = 20 * time.Second
	w.rules.Threads = 1
	w.instance("i1")
	w.instance("i2")
	w.at(5*time.Second, func() {
		w.service(failedHost).ForcedDown, w.service(failedHost).Up = false, true
		w.touch(failedHost)
		w.script = func(a ha.Act) *reply {
			if a.Kind == ha.ActService {
				return &reply{err: refused(403, "no")}
			}
			return nil
		}
	})
	w.run(5 * time.Minute)
	w.waiting("forced_down of compute-1 is gone: putting it again")
	w.moved("i1", ha.MoveSucceeded, "")
	if w.wrote(ha.EntryAlarm, "Nova refuses to force compute-1 down again") != 1 || w.server("i1").Locked || w.unit.Failures != 0 {
		t.Error(w.story())
	}
	w.script = nil
	w.toEnd(2 * time.Minute)
	w.end(ha.StatusFinished, "2 of 2")
}

// The same, but the host is alive: an operator enabled it because it is back. It must not be evacuated.
func TestForcedDownGoneBecauseTheHostIsBack(t *testing.T) {
	w := hostDeath(t)
	w.takes = 20 * time.Second
	w.rules.Threads = 1
	w.instance("i1")
	w.instance("i2")
	w.at(19*time.Second, func() {
		svc := w.service(failedHost)
		svc.ForcedDown, svc.Up = false, true
		w.live(failedHost)
	})
	w.run(2 * time.Minute)
	if w.count("evacuate") != 1 {
		t.Errorf("sent %v\n%s", w.sent, w.story())
	}
	w.waiting("is heard again")
}

// A cell that Nova cannot reach hides what is in it: nothing is known of its hosts, and nothing is given up over it.
func TestCellAway(t *testing.T) {
	hide := func(w *world) (back func()) {
		truth := w.services
		w.services = nil
		for _, s := range truth {
			if s.Host != failedHost {
				w.services = append(w.services, s)
			}
		}
		w.services = append(w.services, ha.Service{Host: failedHost, CellAway: true})
		return func() { w.services = truth }
	}
	t.Run("a recovery waits", func(t *testing.T) {
		w := hostDeath(t)
		w.instance("i1")
		back := hide(w)
		w.services = append(w.services, ha.Service{ID: "old", Binary: ha.BinaryCompute, Host: failedHost, UpdatedAt: born.Add(-time.Hour)}) // of the cell it was in before
		w.run(20 * time.Minute)
		w.acts()
		if n := w.unit.Notification; n.Status != ha.StatusRunning || !strings.Contains(text(n.Message), "cannot reach the cell of compute-1") {
			t.Fatalf("%s %q", n.Status, text(n.Message))
		}
		back()
		w.toEnd(time.Minute)
		w.end(ha.StatusFinished, "1 of 1 instances moved")
	})
	t.Run("a take-back keeps its claims", func(t *testing.T) {
		w := away(t)
		before := w.claims()
		back := hide(w)
		w.run(20 * time.Minute)
		if w.ended || w.claims() != before {
			t.Fatalf("ended %v, claims %s, before %s", w.ended, w.claims(), before)
		}
		back()
		w.live(failedHost)
		w.comes(0, w.reportStarted)
		w.run(2 * time.Minute)
		if w.service(failedHost).ForcedDown {
			t.Error("still forced down")
		}
	})
	t.Run("a process waits", func(t *testing.T) {
		w := processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
		w.die(failedHost)
		back := hide(w)
		w.run(20 * time.Minute)
		if n := w.unit.Notification; n.Status != ha.StatusRunning || !strings.Contains(text(n.Message), "cannot reach the cell of compute-1") {
			t.Fatalf("%s %q", n.Status, text(n.Message))
		}
		back()
		w.toEnd(time.Minute)
		w.end(ha.StatusFinished, "")
	})
}

// Of a host that was moved to another cell the row that is left there counts for no brake, nor does one of a cell that is away.
func TestDownOfTwoRows(t *testing.T) {
	peers := []ha.Peer{{Host: ha.Host{UUID: "a", Name: "a"}}, {Host: ha.Host{UUID: "b", Name: "b"}}}
	old := ha.Service{Binary: ha.BinaryCompute, Host: "b", UpdatedAt: born.Add(-time.Hour)}
	for name, now := range map[string]ha.Service{
		"moved": {Binary: ha.BinaryCompute, Host: "b", Up: true, UpdatedAt: born},
		"away":  {Host: "b", CellAway: true},
	} {
		for _, list := range [][]ha.Service{{old, now}, {now, old}} {
			if n, down := plan.Down(peers, list, "a", nil); n != 2 || !slices.Equal(down, []string{"a"}) {
				t.Errorf("%s: %v of %d are down", name, down, n)
			}
		}
	}
}

// A database whose clock is put back makes no proof young: the next owner takes it anew.
func TestProofOfATimeToCome(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.instance("i2")
	w.rules.Threads = 1
	w.comes(time.Second, func() { w.unit.Wishes.HoldBy = "op" })
	w.run(5 * time.Minute)
	w.live(failedHost)
	w.unit.ProofAt = w.now.Add(time.Hour)
	w.unit.Wishes.HoldBy = ""
	w.takeover()
	w.run(time.Minute)
	if w.count("evacuate") != 1 {
		t.Errorf("sent %v", w.sent)
	}
	w.waiting("compute-1 is heard again while forced down: no new orders")
}
