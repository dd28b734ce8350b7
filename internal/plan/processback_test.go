package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// failedBeforeIt adds what a failure of nova-compute had claimed before the host died.
func (w *world) failedBeforeIt() {
	since := born.Add(-2 * time.Hour)
	w.unit.Claims = append(w.unit.Claims,
		ha.Claim{HostUUID: w.unit.HostUUID, What: ha.WhatMaintenance, Reason: ha.ReasonProcess, Prior: "false", Since: since},
		ha.Claim{HostUUID: w.unit.HostUUID, What: ha.WhatDisabled, Reason: ha.ReasonProcess, Prior: "enabled", Detail: w.rules.ProcessReason, Since: since})
}

// A host whose nova-compute had failed before it died comes back with all of its processes, and no monitor tells of that one: Nova does.
func TestProcessBackWithItsHost(t *testing.T) {
	t.Run("auto_return", func(t *testing.T) {
		w := away(t)
		w.rules.AutoReturn = true
		w.failedBeforeIt()
		w.live(failedHost)
		w.reportStarted()
		w.toEnd(time.Hour)
		w.acts("service compute-1 up", "service compute-1 enable")
		if at := w.when("service compute-1 enable"); at < 5*time.Minute || at > 5*time.Minute+10*time.Second {
			t.Errorf("enabled after %s", at)
		}
		if w.claims() != "" || w.unit.Host.OnMaintenance || !w.service(failedHost).Enabled {
			t.Errorf("claims %s, maintenance %v", w.claims(), w.unit.Host.OnMaintenance)
		}
	})
	t.Run("what the recovery holds stays for the operator", func(t *testing.T) {
		w := away(t)
		w.failedBeforeIt()
		w.live(failedHost)
		w.reportStarted()
		w.run(4 * time.Minute)
		if w.claims() == kept {
			t.Errorf("given back after %s", w.now.Sub(w.start))
		}
		w.run(10 * time.Minute)
		w.acts("service compute-1 up")
		if w.claims() != kept || !w.unit.Host.OnMaintenance {
			t.Errorf("claims %s, maintenance %v", w.claims(), w.unit.Host.OnMaintenance)
		}
	})
	t.Run("not while nova-compute is down", func(t *testing.T) {
		w := away(t)
		w.rules.AutoReturn = true
		w.failedBeforeIt()
		w.reportStarted() // the host is back, its nova-compute is not
		w.run(time.Hour)
		if w.count("service compute-1 enable") != 0 {
			t.Errorf("sent %v", w.sent)
		}
	})
	t.Run("an operator enables it by hand", func(t *testing.T) {
		w := away(t)
		w.failedBeforeIt()
		w.live(failedHost)
		w.reportStarted()
		w.comes(time.Minute, func() {
			w.service(failedHost).Enabled, w.service(failedHost).DisabledReason = true, ""
			w.unit.Host.OnMaintenance = false // as the store does it
			for _, r := range []ha.Reason{ha.ReasonRecovery, ha.ReasonProcess} {
				w.unit.Apply(ha.DropClaim{HostUUID: w.unit.HostUUID, What: ha.WhatMaintenance, Reason: r})
			}
		})
		w.toEnd(5 * time.Minute)
		if w.claims() != "" {
			t.Errorf("claims %s", w.claims())
		}
	})
	t.Run("its storage has failed", func(t *testing.T) {
		w := newWorld(t, ha.UnitTakeBack)
		w.stoppedBefore()
		w.unit.Claims = append(w.unit.Claims, ha.Claim{HostUUID: w.unit.HostUUID, What: ha.WhatDisabled, Reason: ha.ReasonStorage, Detail: "salvor: storage failed", Prior: "disabled"})
		w.toEnd(time.Hour)
		if svc := w.service(failedHost); svc.Enabled || svc.DisabledReason != "salvor: storage failed" || w.claims() != "compute-1 disabled storage disabled" {
			t.Errorf("%+v, claims %s", svc, w.claims())
		}
	})
}

// An operator who ends the maintenance of a host whose nova-compute had failed, or its own STARTED, has the failure over when Nova hears it.
func TestProcessBackByTheOperatorsWord(t *testing.T) {
	w := newWorld(t, ha.UnitTakeBack)
	w.stoppedBefore()
	w.die(failedHost)
	w.notice(failedHost)
	w.unit.Host.OnMaintenance = false
	w.unit.Apply(ha.DropClaim{HostUUID: w.unit.HostUUID, What: ha.WhatMaintenance, Reason: ha.ReasonProcess})
	w.run(10 * time.Minute)
	w.acts()
	w.live(failedHost)
	w.run(4 * time.Minute)
	w.acts()
	w.toEnd(10 * time.Minute)
	w.acts("service compute-1 enable")
	if w.claims() != "" || !w.service(failedHost).Enabled {
		t.Errorf("claims %s", w.claims())
	}
}

// leavesToTakeBack goes on as the take-back of the host, which the unit must have begun.
func (w *world) leavesToTakeBack() {
	w.t.Helper()
	if !slices.ContainsFunc(w.changes, func(c ha.Change) bool {
		s, is := c.(ha.StartUnit)
		return is && s.Kind == ha.UnitTakeBack
	}) {
		w.t.Fatal("no take-back was begun")
	}
	w.becomes(ha.UnitTakeBack)
}

// The report of the host's return wakes a take-back also where only a process's failure claims anything of it.
func TestStartedOfAHostWhoseProcessFailed(t *testing.T) {
	w := newWorld(t, ha.UnitHost)
	w.handles(w.report("n1", ha.TypeComputeHost, ha.Payload{ha.KeyEvent: ha.EventStarted, ha.KeyHostStatus: ha.HostStatusNormal}))
	w.unit.Host.OnMaintenance = true
	w.unit.Claims = append(w.unit.Claims, ha.Claim{HostUUID: w.unit.HostUUID, What: ha.WhatMaintenance, Reason: ha.ReasonProcess, Prior: "false"})
	w.toEnd(time.Minute)
	w.leavesToTakeBack()
	w.toEnd(10 * time.Minute)
	if w.claims() != "" || w.unit.Host.OnMaintenance {
		t.Errorf("claims %s, maintenance %v", w.claims(), w.unit.Host.OnMaintenance)
	}
}

// A process that fails anew is not back by what Nova heard before: it hears a dead one for a minute.
func TestProcessThatFailsAnew(t *testing.T) {
	w := processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
	w.stoppedBefore()
	w.toEnd(time.Minute)
	w.acts()
	w.becomes(ha.UnitTakeBack)
	since := w.now.Add(-time.Hour)
	w.unit.StartedAt = &since // heard all the time
	w.run(time.Minute)
	w.acts()
	if w.claims() == "" {
		t.Error("nothing is claimed any more")
	}
	w.toEnd(10 * time.Minute)
	w.acts("service compute-1 enable")
}

// A failure alone is over, too, when Nova has heard the process for long enough, counted from the last report: many monitors never say that.
func TestProcessBackUnreported(t *testing.T) {
	failed := func(t *testing.T) *world {
		w := processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
		w.toEnd(time.Minute)
		w.acts("service compute-1 disable")
		w.leavesToTakeBack()
		return w
	}
	const enabled = "service compute-1 enable"
	t.Run("it was started again at once", func(t *testing.T) {
		w := failed(t)
		w.toEnd(time.Hour)
		w.acts("service compute-1 disable", enabled)
		if at := w.when(enabled); at < 5*time.Minute || at > 7*time.Minute {
			t.Errorf("enabled after %s", at)
		}
		if w.claims() != "" || w.unit.Host.OnMaintenance {
			t.Errorf("claims %s, maintenance %v", w.claims(), w.unit.Host.OnMaintenance)
		}
	})
	t.Run("it stays dead", func(t *testing.T) {
		w := failed(t)
		w.die(failedHost)
		w.at(time.Minute, func() { w.notice(failedHost) })
		w.run(3 * time.Hour)
		w.acts("service compute-1 disable")
	})
	t.Run("it is reported anew each four minutes", func(t *testing.T) {
		w := failed(t)
		for i := range 10 {
			w.comes(time.Duration(i)*4*time.Minute, func() {
				for k := range w.unit.Claims {
					w.unit.Claims[k].Since = w.now
				}
			})
		}
		w.run(40 * time.Minute)
		w.acts("service compute-1 disable")
	})
	t.Run("it fails anew while it is enabled", func(t *testing.T) {
		w := failed(t)
		w.script = func(a ha.Act) *reply {
			if *a.Enable {
				return &reply{takes: true, answer: 10 * time.Second}
			}
			return nil
		}
		w.until("it is enabled", func() bool { return w.count(enabled) == 1 }, 10*time.Minute)
		w.script = nil
		for k := range w.unit.Claims { // its own unit has it disabled once more
			w.unit.Claims[k].Since = w.now
		}
		svc := w.service(failedHost)
		svc.Enabled, svc.DisabledReason = false, w.rules.ProcessReason
		w.run(2 * time.Minute)
		if w.claims() != "compute-1 disabled process enabled, compute-1 maintenance process false" || !w.unit.Host.OnMaintenance {
			t.Errorf("claims %q, maintenance %v: nobody would take the second disable back", w.claims(), w.unit.Host.OnMaintenance)
		}
		w.toEnd(time.Hour)
		if w.claims() != "" || !svc.Enabled {
			t.Errorf("claims %q, %+v", w.claims(), svc)
		}
	})
	t.Run("the disable is still on its way", func(t *testing.T) {
		w := processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
		w.becomes(ha.UnitTakeBack)
		w.stoppedBefore()
		for k := range w.unit.Claims {
			w.unit.Claims[k].Since = w.now
		}
		svc := w.service(failedHost)
		svc.Enabled, svc.DisabledReason = true, ""
		w.at(170*time.Second, func() { svc.Enabled, svc.DisabledReason = false, w.rules.ProcessReason })
		w.toEnd(time.Hour)
		w.acts(enabled)
	})
}

// A host that came back long ago is not back by that from a failure of its nova-compute since: orders lie in its queue still.
func TestProcessFailedOfAHostThatReturnedBefore(t *testing.T) {
	w := newWorld(t, ha.UnitTakeBack)
	w.stoppedBefore()
	w.die(failedHost)
	w.notice(failedHost)
	before := born.Add(-24 * time.Hour)
	w.unit.Host.StartedAt = &before
	w.unit.Claims = append(w.unit.Claims, ha.Claim{HostUUID: w.unit.HostUUID, What: ha.WhatOrder, Reason: ha.ReasonRecovery, Detail: "i1", Prior: "7", Since: born})
	w.run(10 * time.Minute)
	if !ha.Claimed(w.unit.Claims, ha.WhatOrder) || w.wrote(ha.EntryAlarm, "is coming back") != 0 {
		t.Errorf("claims %s\n%s", w.claims(), w.story())
	}
	w.live(failedHost)
	w.toEnd(20 * time.Minute)
	w.acts("service compute-1 enable")
	if w.claims() != "" {
		t.Errorf("claims %s", w.claims())
	}
}
