package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

func started(uuid string) ha.Notification {
	return ha.Notification{ID: 2, UUID: uuid, Type: ha.TypeComputeHost, SourceHostUUID: "uuid-" + failedHost, Status: ha.StatusNew,
		Payload: ha.Payload{ha.KeyEvent: ha.EventStarted, ha.KeyHostStatus: ha.HostStatusNormal}}
}

// queue lets a later report of the host come.
func (w *world) queue(d time.Duration, n ha.Notification) {
	w.comes(d, func() { w.unit.Queue = append(w.unit.Queue, n) })
}

// said is what became of a queued notification.
func (w *world) said(uuid string) (ha.Status, string) {
	s, m := ha.StatusNew, ""
	for _, c := range w.changes {
		if n, is := c.(ha.SetNotification); is && n.UUID == uuid {
			s, m = n.Status, n.Message
		}
	}
	return s, m
}

func (w *world) startsTakeBack() bool {
	return slices.ContainsFunc(w.changes, func(c ha.Change) bool { s, is := c.(ha.StartUnit); return is && s.Kind == ha.UnitTakeBack })
}

// STARTED, no open recovery of that host: finished; its take-back is woken.
func TestStartedAlone(t *testing.T) {
	w := newWorld(t, ha.UnitHost)
	w.handles(started("n1"))
	w.toEnd(time.Minute)
	w.acts()
	w.end(ha.StatusFinished, "")
	if w.unit.Host.StartedAt == nil || !slices.Contains(w.changes, ha.Change(ha.Signal{Key: "takeback:uuid-compute-1"})) {
		t.Error("its take-back does not learn of it")
	}
}

func TestStartedWithClaimsStartsTheTakeBack(t *testing.T) {
	w := newWorld(t, ha.UnitHost)
	w.unit.Claims = []ha.Claim{{HostUUID: w.unit.HostUUID, What: ha.WhatForcedDown, Reason: ha.ReasonRecovery}}
	w.handles(started("n1"))
	w.toEnd(time.Minute)
	if !w.startsTakeBack() {
		t.Error("nobody takes forced_down back")
	}
}

func TestStartedIsIgnored(t *testing.T) {
	for name, set := range map[string]func(*world){
		"in a disabled segment":  func(w *world) { w.unit.Segment.Enabled = false },
		"when it is not certain": func(w *world) { w.unit.Notification.Payload[ha.KeyHostStatus] = "UNKNOWN" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, ha.UnitHost)
			w.handles(started("n1"))
			set(w)
			w.toEnd(time.Minute)
			if n := w.unit.Notification; n.Status != ha.StatusIgnored || w.unit.Host.StartedAt != nil {
				t.Errorf("%s, returned at %v", n.Status, w.unit.Host.StartedAt)
			}
		})
	}
}

// In the middle of its recovery: no new orders, those in flight finish, the rest is ignored, "host returned"; then take back.
func TestStartedInTheMiddle(t *testing.T) {
	w := hostDeath(t)
	for _, id := range []string{"i1", "i2", "i3"} {
		w.instance(id)
	}
	w.rules.Threads = 1
	w.takes = 20 * time.Second
	w.queue(10*time.Second, started("n2"))
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "host returned")
	w.moved("i1", ha.MoveSucceeded, "")
	w.moved("i2", ha.MoveIgnored, "host returned")
	w.moved("i3", ha.MoveIgnored, "host returned")
	if s, _ := w.said("n2"); s != ha.StatusFinished || !w.startsTakeBack() || w.unit.Host.StartedAt == nil {
		t.Errorf("n2 %s, take-back %v", s, w.startsTakeBack())
	}
	if w.count("evacuate") != 1 || w.server("i1").Locked {
		t.Errorf("sent %v", w.sent)
	}
}

// At any moment: nothing stays locked, every instance is named, the unit ends.
func TestStartedAtAnyMoment(t *testing.T) {
	for ms := 0; ms < 4500; ms += 50 {
		w := hostDeath(t)
		w.instance("i1", func(s *ha.Server) { s.VMState = ha.VMPaused })
		w.instance("i2")
		w.queue(time.Duration(ms)*time.Millisecond, started("n2"))
		w.toEnd(5 * time.Minute)
		for _, s := range w.servers {
			if m := w.move(s.ID); s.Locked || w.unit.StartedAt != nil && !m.Status.Ended() {
				t.Fatalf("after %d ms: %s locked %v, vmove %s\n%s", ms, s.ID, s.Locked, m.Status, w.story())
			}
		}
	}
}

// Held at the gates, nothing was done: ignored.
func TestStartedBeforeTheGatesPassed(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.unit.RecentStarts = 10
	w.queue(10*time.Second, started("n2"))
	w.toEnd(time.Minute)
	w.acts()
	w.end(ha.StatusIgnored, "host returned")
}

func TestStartedNotNormalIsNoReturn(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.takes = 20 * time.Second
	n := started("n2")
	n.Payload[ha.KeyHostStatus] = "UNKNOWN"
	w.queue(5*time.Second, n)
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	if s, _ := w.said("n2"); s != ha.StatusIgnored {
		t.Errorf("n2 %s", s)
	}
}

// The order in flight never ends: waited for at most wait_period_after_evacuation, then failed, named.
func TestStartedWithAnOrderThatNeverEnds(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.takes = time.Hour
	w.queue(10*time.Second, started("n2"))
	w.toEnd(3 * time.Minute)
	w.moved("i1", ha.MoveFailed, "order still under way in Nova")
	w.end(ha.StatusFailed, "i1: order still under way in Nova")
}

// An HA instance that Nova shows stopped without a user's stop is started where it is.
func TestStartedStartsWhatTheCrashStopped(t *testing.T) {
	ha1 := metadata("HA_Enabled", "True")
	left := func(t *testing.T, set func(w *world, s *ha.Server)) *world {
		w := hostDeath(t)
		w.instance("i0", ha1)
		s := w.instance("i1", ha1)
		w.rules.Threads = 1
		w.takes = 20 * time.Second
		w.at(9*time.Second, func() { s.VMState, s.Running = ha.VMStopped, false; set(w, s) })
		w.queue(10*time.Second, started("n2"))
		return w
	}
	t.Run("stopped by nova-compute's clean-up", func(t *testing.T) {
		w := left(t, func(*world, *ha.Server) {})
		w.toEnd(2 * time.Minute)
		w.pass(10 * time.Second)
		if w.count("start i1") != 1 || w.server("i1").VMState != ha.VMActive {
			t.Errorf("sent %v, ends %s", w.sent, w.server("i1").VMState)
		}
		w.moved("i1", ha.MoveIgnored, "host returned")
	})
	for name, set := range map[string]func(*world, *ha.Server){
		"stopped by a user":      func(w *world, _ *ha.Server) { w.act("i1", "stop", "tenant") },
		"still active":           func(_ *world, s *ha.Server) { s.VMState = ha.VMActive },
		"not HA":                 func(_ *world, s *ha.Server) { s.Metadata = map[string]string{} },
		"deleted":                func(w *world, _ *ha.Server) { w.servers = w.servers[:1] },
		"moved by somebody else": func(_ *world, s *ha.Server) { s.Host = "compute-3" },
	} {
		t.Run(name+": left alone", func(t *testing.T) {
			w := left(t, set)
			if name == "not HA" {
				w.server("i1").Metadata = map[string]string{}
			}
			w.toEnd(2 * time.Minute)
			if w.count("start") != 0 {
				t.Errorf("sent %v", w.sent)
			}
		})
	}
	t.Run("stopped before the failure: left alone", func(t *testing.T) {
		w := left(t, func(*world, *ha.Server) {})
		w.server("i1").VMState = ha.VMStopped
		w.toEnd(2 * time.Minute)
		if w.count("start") != 0 {
			t.Errorf("sent %v", w.sent)
		}
	})
	t.Run("the start is tried until Nova takes it", func(t *testing.T) {
		w := left(t, func(*world, *ha.Server) {})
		w.script = func(a ha.Act) *reply {
			if a.Kind == ha.ActStart && w.count("start") <= 2 {
				return &reply{err: busy()}
			}
			return nil
		}
		w.toEnd(2 * time.Minute)
		w.pass(10 * time.Second)
		if w.server("i1").VMState != ha.VMActive {
			t.Errorf("sent %v, ends %s", w.sent, w.server("i1").VMState)
		}
	})
	t.Run("the host dies again under the start: it ends, and says so (I6)", func(t *testing.T) {
		w := left(t, func(*world, *ha.Server) {})
		w.script = func(a ha.Act) *reply {
			if a.Kind == ha.ActStart {
				w.server("i1").TaskState = "powering-on"
				return &reply{err: busy()}
			}
			return nil
		}
		w.toEnd(5 * time.Minute)
		w.moved("i1", ha.MoveIgnored, "could not be started there")
		if w.wrote(ha.EntryAlarm, "could not be started there") != 1 {
			t.Error("nobody is told")
		}
	})
}

// It came before the list was taken: the instances are listed all the same, named, and started (I3).
func TestStartedBeforeTheList(t *testing.T) {
	w := hostDeath(t)
	s := w.instance("i1", metadata("HA_Enabled", "True"))
	w.unit.InFlight = 1 // it waits for another unit's act
	w.at(9*time.Second, func() { s.VMState, s.Running = ha.VMStopped, false })
	w.queue(10*time.Second, started("n2"))
	w.toEnd(time.Minute)
	w.moved("i1", ha.MoveIgnored, "host returned")
}

// A death after the return is a recovery of its own: it stays queued, and this one ends first (A2).
func TestADeathAfterTheReturnStaysQueued(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.takes = 20 * time.Second
	w.queue(5*time.Second, started("n2"))
	death := ha.Notification{ID: 3, UUID: "n3", Type: ha.TypeComputeHost, Status: ha.StatusNew,
		Payload: ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyHostStatus: ha.HostStatusNormal}}
	w.queue(6*time.Second, death)
	w.toEnd(2 * time.Minute)
	if s, _ := w.said("n3"); s != ha.StatusNew || len(w.unit.Queue) != 1 {
		t.Errorf("n3 %s, queue %v", s, w.unit.Queue)
	}
}

// A NORMAL for one that lacked it is adopted into the same recovery; the old one ends as ignored (A2).
func TestNormalIsAdopted(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.fencing = true // so that a report without NORMAL is not ignored at once
	w.unit.Notification.Payload[ha.KeyHostStatus] = "UNKNOWN"
	w.unit.RecentStarts = 10
	normal := ha.Notification{Stamps: ha.Stamps{CreatedAt: w.now.Add(10 * time.Second)}, ID: 2, UUID: "n2", Type: ha.TypeComputeHost, Status: ha.StatusNew,
		Payload: ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyHostStatus: ha.HostStatusNormal}}
	w.queue(10*time.Second, normal)
	w.run(20 * time.Second)
	w.waiting("gate rate")
	if w.unit.Notification.UUID != "n2" {
		t.Fatalf("not adopted: %s", w.unit.Notification.UUID)
	}
	if s, m := w.said("n1"); s != ha.StatusIgnored || !strings.Contains(m, "n2 brought the proof") {
		t.Errorf("n1 %s %q", s, m)
	}
	w.reload = func() { w.unit.RecentStarts = 0 }
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	if m := w.move("i1"); m.NotificationUUID != "n2" {
		t.Errorf("the vmove is of %s", m.NotificationUUID)
	}
}

// An operator's confirm-off while Nova still counts the host as up: adopted, and it goes on when the host has been silent.
func TestConfirmOffIsAdopted(t *testing.T) {
	w := unnoticed(t)
	w.beating[failedHost] = true
	confirm := ha.Notification{Stamps: ha.Stamps{CreatedAt: w.now}, ID: 2, UUID: "n2", Type: ha.TypeComputeHost, Status: ha.StatusNew,
		Payload: ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyHostStatus: ha.HostStatusNormal, ha.KeyConfirmedBy: "alice: pulled the plug"}}
	w.at(8*time.Second, func() { w.die(failedHost) })
	w.queue(9*time.Second, confirm)
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	w.proof(ha.ProofConfirmed, "alice confirmed that compute-1 is off")
	if at := w.when("evacuate"); at < 15*time.Second || at > 18*time.Second {
		t.Errorf("ordered after %s, want when it has been silent for 15 s", at)
	}
}

// Looks that fail for most of a minute hide a host that came back: the one heartbeat that the next look shows is enough to wait for its
// silence, before any order (I2).
func TestStep4AHeartbeatAfterAGap(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.comes(160*time.Millisecond, func() { w.unit.Wishes.HoldBy, w.unit.Wishes.HoldReason, w.away = "op", "look first", broken() })
	w.at(10*time.Second, func() { w.live(failedHost) })
	w.at(50*time.Second, func() { w.away = nil })
	w.comes(52*time.Second, func() { w.unit.Wishes.HoldBy = "" })
	w.run(3 * time.Minute)
	if n := w.count("evacuate"); n != 0 {
		t.Errorf("ordered away from a host that lives\n%s", w.story())
	}
}
