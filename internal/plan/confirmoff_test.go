package plan_test

import (
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// confirmed is a world in which an operator has confirmed that compute-1 is off, and it lives.
func confirmed(t *testing.T) *world {
	w := unnoticed(t)
	w.beating[failedHost] = true
	w.unit.Notification.Payload[ha.KeyConfirmedBy] = "alice: rack 7"
	return w
}

// A confirm-off of the wrong host: Nova hears it, so nothing is touched; it waits, named, however long that is.
func TestConfirmOffOfALivingHostTouchesNothing(t *testing.T) {
	w := confirmed(t)
	w.run(time.Hour)
	w.acts()
	w.waiting("waiting at gate heard: host still reports to Nova: alice confirmed that compute-1 is off (\"rack 7\"), and Nova counts it as up")
	if w.unit.HeldAt != ha.GateHeard || w.unit.Proof != ha.ProofNone {
		t.Errorf("held at %q, proof %q", w.unit.HeldAt, w.unit.Proof)
	}
}

// It goes on by itself once the host is silent, and a takeover in between changes nothing but the time.
func TestConfirmOffGoesOnWithSilence(t *testing.T) {
	w := confirmed(t)
	w.at(95*time.Second, func() { w.die(failedHost) })
	w.comes(100*time.Second, w.takeover)
	w.toEnd(10 * time.Minute)
	w.proof(ha.ProofConfirmed, "alice confirmed that compute-1 is off (\"rack 7\")")
	w.end(ha.StatusFinished, "1 of 1")
	if at := w.when("service"); at < 105*time.Second || at > 120*time.Second {
		t.Errorf("PUT after %s, want 15 s after the last sign of life", at)
	}
}

// An operator who knows better releases it: the audit has both names. A host that then beats while it is forced down is still not
// emptied (I2).
func TestConfirmOffReleased(t *testing.T) {
	release := func(w *world) { w.unit.Wishes.Releases, w.unit.Wishes.ReleaseBy = 1, "bob" }
	w := confirmed(t)
	w.at(50*time.Second, func() { w.die(failedHost); w.touch(failedHost) })
	w.comes(51*time.Second, func() { release(w) })
	w.toEnd(5 * time.Minute)
	w.proof(ha.ProofConfirmed, "alice confirmed that compute-1 is off (\"rack 7\"); bob released it though Nova still heard it")
	w.end(ha.StatusFinished, "1 of 1")
	if at := w.when("service"); at > 52*time.Second || w.wrote(ha.EntryOperator, "bob released gate heard") != 1 {
		t.Errorf("PUT after %s\n%s", at, w.story())
	}

	w = confirmed(t)
	w.takes, w.rules.Threads = 40*time.Second, 1
	w.instance("i2")
	w.comes(50*time.Second, func() { release(w) })
	w.run(4 * time.Minute)
	w.waiting("is heard again while forced down: no new orders")
	if n := w.count("evacuate"); n > 1 {
		t.Errorf("%d orders away from a host that lives", n)
	}
}

// A release of another gate is no release of this one.
func TestConfirmOffIsNotReleasedBeforehand(t *testing.T) {
	w := unnoticed(t)
	w.beating[failedHost] = true
	w.fencing = true
	w.dark = "no answer"
	w.unit.Notification.Payload[ha.KeyHostStatus] = "UNKNOWN"
	w.comes(20*time.Second, func() { w.unit.Wishes.Releases, w.unit.Wishes.ReleaseBy = 1, "op" })
	w.queue(40*time.Second, ha.Notification{Stamps: ha.Stamps{CreatedAt: w.now}, ID: 2, UUID: "n2", Type: ha.TypeComputeHost, Status: ha.StatusNew,
		Payload: ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyHostStatus: ha.HostStatusNormal, ha.KeyConfirmedBy: "alice: rack 7"}})
	w.run(2 * time.Minute)
	w.acts()
	w.waiting("host still reports to Nova")
}
