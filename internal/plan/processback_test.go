package plan_test

import (
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

// The report of the host's return wakes a take-back also where only a process's failure claims anything of it.
func TestStartedOfAHostWhoseProcessFailed(t *testing.T) {
	w := newWorld(t, ha.UnitHost)
	w.handles(w.report("n1", ha.TypeComputeHost, ha.Payload{ha.KeyEvent: ha.EventStarted, ha.KeyHostStatus: ha.HostStatusNormal}))
	w.unit.Host.OnMaintenance = true
	w.unit.Claims = append(w.unit.Claims, ha.Claim{HostUUID: w.unit.HostUUID, What: ha.WhatMaintenance, Reason: ha.ReasonProcess, Prior: "false"})
	w.toEnd(time.Minute)
	begun := false
	for _, c := range w.changes {
		s, is := c.(ha.StartUnit)
		begun = begun || is && s.Kind == ha.UnitTakeBack
	}
	if !begun {
		t.Error("no take-back was begun")
	}
	w.becomes(ha.UnitTakeBack)
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
