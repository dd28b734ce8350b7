package plan_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

func processReport(t rapid.TB, event, name string) *world {
	w := newWorld(t, ha.UnitProcess)
	w.handles(w.report("n1", ha.TypeProcess, ha.Payload{ha.KeyEvent: event, ha.KeyProcessName: name}))
	return w
}

// stoppedBefore leaves what an earlier failure of nova-compute claimed.
func (w *world) stoppedBefore() {
	svc := w.service(failedHost)
	svc.Enabled, svc.DisabledReason = false, w.rules.ProcessReason
	w.unit.Host.OnMaintenance = true
	since := born.Add(-time.Hour)
	w.unit.Claims = append(w.unit.Claims,
		ha.Claim{HostUUID: w.unit.HostUUID, What: ha.WhatMaintenance, Reason: ha.ReasonProcess, Prior: "false", Since: since},
		ha.Claim{HostUUID: w.unit.HostUUID, What: ha.WhatDisabled, Reason: ha.ReasonProcess, Prior: "enabled", Detail: w.rules.ProcessReason, Since: since})
}

func (w *world) details() string {
	var list []string
	for _, e := range w.journal {
		if e.Kind == ha.EntryProgress || e.Kind == ha.EntryTask {
			list = append(list, strings.TrimSpace(e.Task+" "+e.State+e.Text))
		}
	}
	return strings.Join(list, "\n")
}

// STOPPED, nova-compute: maintenance claimed, disabled with the process's reason, seen disabled, finished.
func TestProcessStopped(t *testing.T) {
	w := processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
	w.toEnd(time.Minute)
	w.acts("service compute-1 disable")
	w.end(ha.StatusFinished, "")
	if svc := w.service(failedHost); svc.DisabledReason != w.rules.ProcessReason || svc.ForcedDown || !w.unit.Host.OnMaintenance {
		t.Errorf("%+v, maintenance %v", svc, w.unit.Host.OnMaintenance)
	}
	if w.claims() != "compute-1 disabled process enabled, compute-1 maintenance process false" {
		t.Errorf("claims %s", w.claims())
	}
	want := "DisableComputeNodeTask Disabling compute service on host: 'compute-1'\n" +
		"DisableComputeNodeTask Disabled compute service on host: 'compute-1'\nDisableComputeNodeTask SUCCESS\n" +
		"ConfirmComputeNodeDisabledTask Confirming compute service is disabled on host: 'compute-1'\n" +
		"ConfirmComputeNodeDisabledTask Confirmed compute service is disabled on host: 'compute-1'\nConfirmComputeNodeDisabledTask SUCCESS"
	if got := w.details(); got != want {
		t.Errorf("details:\n%s\nwant:\n%s", got, want)
	}
}

// Nova writes first and then waits up to 60 s for the dead process: the PUT's timeout is no failure, what is seen decides.
func TestProcessStoppedTimeoutIsNoFailure(t *testing.T) {
	w := processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
	w.script = func(ha.Act) *reply { return &reply{err: inDoubt(), takes: true, answer: 30 * time.Second} }
	w.toEnd(2 * time.Minute)
	w.acts("service compute-1 disable")
	w.end(ha.StatusFinished, "")
	if w.unit.Failures != 0 {
		t.Errorf("%d failures", w.unit.Failures)
	}
}

func TestProcessStoppedNeverSeenDisabled(t *testing.T) {
	w := processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
	w.script = func(ha.Act) *reply { return &reply{err: inDoubt()} }
	w.run(175 * time.Second)
	if s := w.unit.Notification.Status; s != ha.StatusRunning {
		t.Errorf("%s before wait_period_after_service_update", s)
	}
	w.run(10 * time.Second)
	if n := w.unit.Notification; n.Status != ha.StatusError || !strings.Contains(text(n.Message), "Nova still shows the compute service of compute-1 enabled after 3m0s") {
		t.Errorf("%s %q", n.Status, text(n.Message))
	}
	w.script = nil
	w.toEnd(10 * time.Minute)
	w.end(ha.StatusFinished, "")
}

func TestProcessStoppedRefused(t *testing.T) {
	w := processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
	w.script = func(ha.Act) *reply { return &reply{err: refused(403, "no")} }
	w.toEnd(time.Hour)
	w.end(ha.StatusFailed, "Nova refused to change the compute service: no")
	if len(w.sent) != 3 {
		t.Errorf("sent %v, want 3 attempts", w.sent)
	}
}

func TestProcessStoppedDisabledAlready(t *testing.T) {
	w := processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
	w.service(failedHost).Enabled, w.service(failedHost).DisabledReason = false, "kernel"
	w.toEnd(time.Minute)
	w.acts()
	w.end(ha.StatusFinished, "disabled already")
	if strings.Contains(w.claims(), "disabled") {
		t.Errorf("claims %s", w.claims())
	}
}

// Any other process: finished, host as it was.
func TestProcessOther(t *testing.T) {
	for _, event := range []string{ha.EventStopped, ha.EventStarted} {
		w := processReport(t, event, "libvirtd")
		w.toEnd(time.Minute)
		w.acts()
		w.end(ha.StatusFinished, "")
		if w.unit.Host.OnMaintenance || w.claims() != "" {
			t.Errorf("%s: maintenance %v, claims %s", event, w.unit.Host.OnMaintenance, w.claims())
		}
	}
}

// Packaged under another name (F065).
func TestProcessByItsAlias(t *testing.T) {
	w := processReport(t, ha.EventStopped, "openstack-nova-compute")
	w.rules.ProcessesOfNova = append(w.rules.ProcessesOfNova, "openstack-nova-compute")
	w.toEnd(time.Minute)
	w.acts("service compute-1 disable")
}

// STARTED: what the failure claimed goes, exactly (S11).
func TestProcessStarted(t *testing.T) {
	w := processReport(t, ha.EventStarted, ha.ProcessNovaCompute)
	w.stoppedBefore()
	w.toEnd(time.Minute)
	w.acts("service compute-1 enable")
	w.end(ha.StatusFinished, "")
	if w.claims() != "" || w.unit.Host.OnMaintenance || !w.service(failedHost).Enabled {
		t.Errorf("claims %s, maintenance %v", w.claims(), w.unit.Host.OnMaintenance)
	}
}

func TestProcessStartedTakesOnlyItsOwn(t *testing.T) {
	t.Run("somebody else disabled it since", func(t *testing.T) {
		w := processReport(t, ha.EventStarted, ha.ProcessNovaCompute)
		w.stoppedBefore()
		w.service(failedHost).DisabledReason = "kernel"
		w.toEnd(time.Minute)
		w.acts()
		w.end(ha.StatusFinished, "")
		if w.claims() != "" || w.service(failedHost).Enabled {
			t.Errorf("claims %s", w.claims())
		}
	})
	t.Run("an operator's maintenance stays", func(t *testing.T) {
		w := processReport(t, ha.EventStarted, ha.ProcessNovaCompute)
		w.stoppedBefore()
		w.unit.Claims = append(w.unit.Claims, ha.Claim{HostUUID: w.unit.HostUUID, What: ha.WhatMaintenance, Reason: ha.ReasonOperator})
		w.toEnd(time.Minute)
		if !w.unit.Host.OnMaintenance {
			t.Error("maintenance was taken away")
		}
	})
	t.Run("a host recovery's disable stays", func(t *testing.T) {
		w := processReport(t, ha.EventStarted, ha.ProcessNovaCompute)
		w.stoppedBefore()
		svc := w.service(failedHost)
		svc.DisabledReason, svc.ForcedDown = w.rules.DisableReason, true
		w.unit.Claims = append(w.unit.Claims,
			ha.Claim{HostUUID: w.unit.HostUUID, What: ha.WhatDisabled, Reason: ha.ReasonRecovery, Detail: w.rules.DisableReason},
			ha.Claim{HostUUID: w.unit.HostUUID, What: ha.WhatMaintenance, Reason: ha.ReasonRecovery})
		w.toEnd(time.Minute)
		w.acts()
		if !w.unit.Host.OnMaintenance || w.claims() != "compute-1 disabled recovery, compute-1 maintenance recovery" {
			t.Errorf("claims %s", w.claims())
		}
	})
	t.Run("nothing was claimed", func(t *testing.T) {
		w := processReport(t, ha.EventStarted, ha.ProcessNovaCompute)
		w.unit.Host.OnMaintenance = true // imported: the operator's
		w.toEnd(time.Minute)
		w.acts()
		if !w.unit.Host.OnMaintenance {
			t.Error("maintenance was taken away")
		}
	})
}

func TestProcessStartedLostAnswers(t *testing.T) {
	for name, r := range map[string]reply{"done": {err: inDoubt(), takes: true}, "not done": {err: inDoubt()}, "busy": {err: busy()}} {
		t.Run(name, func(t *testing.T) {
			w := processReport(t, ha.EventStarted, ha.ProcessNovaCompute)
			w.stoppedBefore()
			w.script = func(ha.Act) *reply {
				if len(w.sent) == 1 {
					return &r
				}
				return nil
			}
			w.toEnd(2 * time.Minute)
			w.end(ha.StatusFinished, "")
			if w.claims() != "" || !w.service(failedHost).Enabled {
				t.Errorf("claims %s", w.claims())
			}
		})
	}
}

// The disable's answer was lost and it comes after the process is back: it is seen and taken back.
func TestProcessStartedBeforeALateDisable(t *testing.T) {
	w := processReport(t, ha.EventStarted, ha.ProcessNovaCompute)
	w.stoppedBefore()
	svc := w.service(failedHost)
	svc.Enabled, svc.DisabledReason = true, ""
	for i := range w.unit.Claims {
		w.unit.Claims[i].Since = w.now.Add(-5 * time.Second)
	}
	w.at(20*time.Second, func() { svc.Enabled, svc.DisabledReason = false, w.rules.ProcessReason })
	w.toEnd(2 * time.Minute)
	w.acts("service compute-1 enable")
	if w.claims() != "" || !svc.Enabled {
		t.Errorf("claims %s, enabled %v", w.claims(), svc.Enabled)
	}
}

// A host recovery took over: finished, at the start or in the middle, and no act once the rows say so (section 4).
func TestProcessGivesWay(t *testing.T) {
	w := processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
	w.unit.HostUnit = 7
	w.toEnd(time.Minute)
	w.acts()
	w.end(ha.StatusFinished, "host recovery took over")

	w = processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
	w.hostUnitUnseen()
	w.toEnd(time.Minute)
	w.acts()
	w.end(ha.StatusFinished, "host recovery took over")
}

// The disable that Nova shows may be the host recovery's own, which began since the rows were loaded.
func TestProcessDisabledByTheHostUnit(t *testing.T) {
	w := processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
	w.service(failedHost).Enabled, w.service(failedHost).DisabledReason = false, w.rules.DisableReason
	w.hostUnitUnseen()
	w.toEnd(time.Minute)
	w.acts()
	w.end(ha.StatusFinished, "host recovery took over")
}

// A STARTED that comes while the host's unit is at work, such as the host's own STARTED, waits for its end: else nobody would take the
// disable back.
func TestProcessStartedWaitsForTheHostUnit(t *testing.T) {
	w := processReport(t, ha.EventStarted, ha.ProcessNovaCompute)
	w.stoppedBefore()
	w.unit.HostUnit = 7
	w.run(time.Minute)
	w.acts()
	w.waiting("a recovery of host compute-1 is at work")
	w.unit.HostUnit = 0
	w.toEnd(time.Minute)
	w.acts("service compute-1 enable")
	w.end(ha.StatusFinished, "")
	if w.claims() != "" {
		t.Errorf("claims %s", w.claims())
	}
}

func TestProcessDisabledSegment(t *testing.T) {
	w := processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
	w.unit.Segment.Enabled = false
	w.toEnd(time.Minute)
	w.acts()
	w.end(ha.StatusIgnored, plan.SegmentDisabled)
	if w.claims() != "" {
		t.Errorf("claims %s", w.claims())
	}
}

func TestProcessNovaAwayWaits(t *testing.T) {
	w := processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
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

func TestProcessCancelledAndExpired(t *testing.T) {
	w := processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
	w.away = broken()
	w.comes(time.Minute, func() { w.unit.Wishes.CancelBy = "alice" })
	w.toEnd(2 * time.Minute)
	w.end(ha.StatusFailed, "cancelled by alice")

	w = processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
	w.rules.Expiry = 10 * time.Minute
	w.away = broken()
	w.toEnd(11 * time.Minute)
	w.end(ha.StatusFailed, "expired: older than 10m0s")
}

// The process is back while its failure waits for another attempt: it must not be disabled then.
func TestProcessBackBeforeTheNextAttempt(t *testing.T) {
	w := processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
	w.script = func(ha.Act) *reply { return &reply{err: refused(500, "no")} }
	w.until("in error", func() bool { return w.unit.Notification.Status == ha.StatusError }, time.Minute)
	w.script = nil
	w.queue(time.Second, ha.Notification{ID: 2, UUID: "n2", Type: ha.TypeProcess, Status: ha.StatusNew,
		Payload: ha.Payload{ha.KeyEvent: ha.EventStarted, ha.KeyProcessName: ha.ProcessNovaCompute}})
	w.toEnd(10 * time.Second)
	if len(w.sent) != 1 || len(w.unit.Queue) != 1 {
		t.Errorf("sent %v, queue %v", w.sent, w.unit.Queue)
	}
}

func TestProcessTakeover(t *testing.T) {
	w := processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
	w.script = func(ha.Act) *reply { return &reply{err: inDoubt(), takes: true, answer: time.Hour} }
	w.until("sent", func() bool { return len(w.sent) == 1 }, time.Minute)
	w.takeover()
	w.toEnd(time.Minute)
	w.acts("service compute-1 disable")
	w.end(ha.StatusFinished, "")
}

// A return that Nova refuses to take back is tried again after the interval, not at once: three refusals in two seconds would leave
// the host disabled for good, since no monitor tells of a return twice.
func TestProcessStartedRefusedIsTriedAgainLater(t *testing.T) {
	w := processReport(t, ha.EventStarted, ha.ProcessNovaCompute)
	w.stoppedBefore()
	w.script = func(ha.Act) *reply { return &reply{err: refused(403, "Policy doesn't allow it")} }
	w.run(w.rules.RetryInterval - time.Second)
	w.acts("service compute-1 enable")
	if n := w.unit.Notification; n.Status != ha.StatusError || !strings.Contains(text(n.Message), "Policy doesn't allow it") {
		t.Errorf("%s %q", n.Status, text(n.Message))
	}
	w.script = nil
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "")
	if w.claims() != "" || !w.service(failedHost).Enabled || w.unit.Host.OnMaintenance {
		t.Errorf("claims %s, enabled %v", w.claims(), w.service(failedHost).Enabled)
	}
}

// A retry that is asked for in the turn of the last failure begins another attempt.
func TestProcessRetryInTheTurnOfTheLastFailure(t *testing.T) {
	w := processReport(t, ha.EventStopped, ha.ProcessNovaCompute)
	w.rules.MaxAttempts = 1
	w.script = func(ha.Act) *reply {
		if len(w.sent) > 1 {
			return nil
		}
		w.unit.Wishes.Retries, w.unit.Wishes.RetryBy = 1, "op"
		return &reply{err: refused(409, "no")}
	}
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "")
}
