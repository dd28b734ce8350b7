package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// unsure is a world in which compute-1 is dead, Nova has seen it, and its monitor was not sure. Fencing is configured.
func unsure(t *testing.T) *world {
	w := hostDeath(t)
	w.unit.Notification.Payload[ha.KeyHostStatus] = "UNKNOWN"
	w.fencing = true
	w.instance("i1")
	return w
}

// host_status UNKNOWN with fencing: the gates, then fenced, seen off, recovered, within seconds; what was seen is kept.
func TestFenceUnknown(t *testing.T) {
	w := unsure(t)
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	w.proof(ha.ProofFenced, "compute-1 was seen off: bmc saw it off twice")
	w.acts("fence compute-1", "service compute-1 down disable", "lock i1", "evacuate i1", "unlock i1")
	if n := w.wrote(ha.EntryNote, "power of compute-1 by bmc"); n != 2 {
		t.Errorf("%d sights are kept, want 2\n%s", n, w.story())
	}
	if at := w.when("evacuate"); at > 6*time.Second {
		t.Errorf("first order after %s", at)
	}
}

// A dark controller: nothing is evacuated until somebody gives their word; it is tried again and again meanwhile.
func TestFenceDark(t *testing.T) {
	w := unsure(t)
	w.dark = "bmc: no answer within 20s"
	w.run(5 * time.Minute)
	w.waiting("waiting at gate proof: compute-1 could not be fenced, and is tried again: bmc: no answer within 20s. If you know that it is off: salvor host confirm-off compute-1")
	if w.count("fence") < 5 || w.count("evacuate")+w.count("service") != 0 || w.wrote(ha.EntryAlarm, "could not be fenced") != 1 {
		t.Errorf("sent %v\n%s", w.sent, w.story())
	}
	t.Run("until confirm-off", func(t *testing.T) {
		word := w.report("n2", ha.TypeComputeHost, ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyHostStatus: ha.HostStatusNormal, ha.KeyConfirmedBy: "alice: pulled the plug"})
		w.comes(0, func() { w.unit.Queue = append(w.unit.Queue, word) })
		w.toEnd(time.Minute)
		w.end(ha.StatusFinished, "1 of 1")
		w.proof(ha.ProofConfirmed, "alice confirmed that compute-1 is off")
	})
}

func TestFenceAnswersAgain(t *testing.T) {
	w := unsure(t)
	w.dark = "bmc: no answer"
	w.at(2*time.Minute, func() { w.dark = "" })
	w.toEnd(5 * time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	w.proof(ha.ProofFenced, "seen off")
}

// Never fence while Nova hears the host, nor while Nova cannot be reached.
func TestFenceNotWhileHeard(t *testing.T) {
	t.Run("it beats: ignored", func(t *testing.T) {
		w := unsure(t)
		w.live(failedHost)
		w.toEnd(5 * time.Minute)
		w.end(ha.StatusIgnored, "host still reports to Nova")
		w.acts()
	})
	t.Run("it is silent from then on: fenced after 1.5 intervals", func(t *testing.T) {
		w := unsure(t)
		w.live(failedHost)
		w.die(failedHost)
		w.toEnd(time.Minute)
		w.end(ha.StatusFinished, "1 of 1")
		if at := w.when("fence"); at < 15*time.Second || at > 17*time.Second {
			t.Errorf("fenced after %s", at)
		}
	})
	t.Run("Nova is away", func(t *testing.T) {
		w := unsure(t)
		w.away = broken()
		w.run(10 * time.Minute)
		w.waiting("Nova does not answer")
		w.acts()
	})
}

// What the proof waits for is kept anew when it changes, and not with each number: a host is heard no more, and fencing comes to nothing.
func TestFenceAnswersAreKept(t *testing.T) {
	w := unsure(t)
	w.live(failedHost)
	w.die(failedHost)
	w.dark = "bmc: no answer"
	w.run(30 * time.Minute)
	for _, has := range []string{"Nova still hears compute-1", "fencing compute-1", "compute-1 could not be fenced"} {
		if n := w.wrote(ha.EntryGate, has); n != 1 {
			t.Errorf("%q is kept %d times\n%s", has, n, w.story())
		}
	}
}

// A slow Nova does not keep a host from being fenced, unless so slow that the host may be back by the time it has answered.
func TestFenceBySlowNova(t *testing.T) {
	for _, slow := range []time.Duration{4 * time.Second, 12 * time.Second} {
		t.Run(fmt.Sprintf("answers take %s", slow), func(t *testing.T) {
			w := unsure(t)
			w.slow = slow
			w.toEnd(10 * time.Minute)
			w.end(ha.StatusFinished, "1 of 1")
			w.proof(ha.ProofFenced, "seen off")
		})
	}
	t.Run("answers take 16 s", func(t *testing.T) {
		w := unsure(t)
		w.slow = 16 * time.Second
		w.run(3 * time.Minute)
		w.waiting("Nova took 16s to list its services, so compute-1 may have come back meanwhile")
		w.acts()
		w.slow = time.Second
		w.toEnd(3 * time.Minute)
		w.end(ha.StatusFinished, "1 of 1")
	})
}

// Nobody is fenced past the brake, and two hosts are never fenced on the same numbers.
func TestFenceBehindTheBrake(t *testing.T) {
	w := unsure(t)
	w.peer("compute-2").OpenIncident, w.peer("compute-3").OpenIncident = true, true
	w.run(time.Minute)
	w.waiting("3 of 4 hosts of the segment are down")
	w.acts()
	w.comes(0, func() { w.unit.Wishes.Releases, w.unit.Wishes.ReleaseBy = 1, "boss" })
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	touched := slices.Contains(w.changes, ha.Change(ha.TouchSegment{UUID: "segment", Seen: 0}))
	if w.count("fence") != 1 || !touched {
		t.Errorf("sent %v, segment touched %v", w.sent, touched)
	}
	// Kept: the numbers on which the host lost its power, and those of both looks after it.
	if n := w.wrote(ha.EntryGate, "3 of 4 hosts of the segment are down, brake at more than 50 %; released by an operator"); n != 3 {
		t.Errorf("the brake's answer is kept %d times:\n%s", n, w.story())
	}
}

// A sure monitor's report: dead for Nova needs no fencing; silence alone is made sure by it, and stands where no controller answers.
func TestFenceNormal(t *testing.T) {
	t.Run("Nova has seen it down", func(t *testing.T) {
		w := hostDeath(t)
		w.fencing = true
		w.instance("i1")
		w.toEnd(time.Minute)
		w.proof(ha.ProofNovaDown, "")
		if w.count("fence") != 0 {
			t.Errorf("sent %v", w.sent)
		}
	})
	for dark, want := range map[string]ha.Proof{"": ha.ProofFenced, "bmc: no answer": ha.ProofReported} {
		t.Run(fmt.Sprintf("silent, %q", dark), func(t *testing.T) {
			w := unnoticed(t)
			w.fencing, w.dark = true, dark
			w.toEnd(2 * time.Minute)
			w.end(ha.StatusFinished, "1 of 1")
			w.proof(want, "")
			if w.count("fence") != 1 {
				t.Errorf("sent %v", w.sent)
			}
		})
	}
}

// A crash with a fence pending (field finding F081): the next owner fences again, which does no harm, and goes on.
func TestFenceTakenOver(t *testing.T) {
	w := unsure(t)
	w.at(2*time.Second, w.takeover)
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	if w.count("fence") != 2 || w.wrote(ha.EntryOutcome, "fence compute-1: its owner ended without an answer; looking") != 1 {
		t.Errorf("sent %v\n%s", w.sent, w.story())
	}
	t.Run("by one without fencing: it says so", func(t *testing.T) {
		w := unsure(t)
		w.at(2*time.Second, func() { w.fencing = false; w.takeover() })
		w.run(time.Minute)
		w.waiting("none is configured for compute-1 on the engine that holds it")
		if w.count("fence") != 1 {
			t.Errorf("sent %v", w.sent)
		}
	})
}

// The proof ages: held by an operator for longer than proof_max_age, the power is looked at again before the first order.
func TestFenceAges(t *testing.T) {
	w := unsure(t)
	w.comes(3*time.Second, func() { w.unit.Wishes.HoldBy, w.unit.Wishes.HoldReason = "op", "look" })
	w.comes(10*time.Minute, func() { w.unit.Wishes.HoldBy = "" })
	w.toEnd(15 * time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	if w.count("fence") != 2 {
		t.Errorf("sent %v\n%s", w.sent, w.story())
	}
}

// Cancelled in the middle: the fence ends, nothing is ordered.
func TestFenceCancelled(t *testing.T) {
	w := unsure(t)
	w.comes(time.Second, func() { w.unit.Wishes.CancelBy = "alice" })
	w.toEnd(time.Minute)
	w.end(ha.StatusFailed, "cancelled by alice")
	w.acts("fence compute-1")
}
