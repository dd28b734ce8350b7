package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Process is the plan of a PROCESS report (RECOVERY section 4).
func Process(v View) Decision {
	t := begin(v)
	t.heedRelease()
	for _, o := range t.Results {
		t.processPut(o)
	}
	t.orphans()
	if !t.ended {
		t.process()
	}
	t.leaveToTakeBack()
	return t.decision()
}

func (t *turn) process() {
	name := t.note.Payload[ha.KeyProcessName]
	switch {
	case t.rec.Step == "" && !t.Unit.Segment.Enabled:
		t.end(ha.StatusIgnored, SegmentDisabled)
	case !t.isNovaCompute(name):
		t.end(ha.StatusFinished, "nothing to do for process %s", name)
	case t.processOver():
	case t.note.Payload.Stopped() && t.heldByOperator():
		t.note.Status = ha.StatusRunning
	case t.rec.Step == ha.StepWait:
		t.processWait()
	case t.note.Payload.Started():
		t.processStarted()
	default:
		t.processStopped()
	}
}

func (t *turn) isNovaCompute(process string) bool {
	return slices.Contains(t.Rules.ProcessesOfNova, process)
}

// processOver reports whether something ends the recovery before its work is done, and ends it once its act has ended.
func (t *turn) processOver() bool {
	returned := slices.ContainsFunc(t.Unit.Queue, func(n ha.Notification) bool {
		return n.Payload.Started() && t.isNovaCompute(n.Payload[ha.KeyProcessName])
	})
	var s ha.Status
	var why string
	switch {
	case t.Unit.HostUnit != 0 && t.note.Payload.Stopped():
		s, why = ha.StatusFinished, hostTookOver
	case t.Unit.Wishes.CancelBy != "":
		s, why = ha.StatusFailed, "cancelled by "+t.Unit.Wishes.CancelBy
	case t.expired():
		s, why = ha.StatusFailed, fmt.Sprintf("expired: older than %s", t.Rules.Expiry)
	case t.Unit.HostUnit != 0: // a STARTED: nobody else takes back what the process's failure claimed, and no monitor tells twice
		t.note.Status = ha.StatusRunning
		t.say("waiting: a recovery of host %s is at work", t.Unit.Host.Name)
		t.park = 5 * time.Second
		return true
	case t.note.Payload.Stopped() && returned: // what it claimed is taken back by that report
		s, why = ha.StatusFinished, "the process is back"
	default:
		return false
	}
	if len(t.acting) == 0 {
		t.end(s, "%s", why)
	}
	return true
}

// processStopped takes the host out of scheduling. Nova writes first, then waits up to 60 s for the dead process: a timeout
// is no failure, the look decides.
func (t *turn) processStopped() {
	if t.rec.Step == "" {
		t.note.Status = ha.StatusRunning
		t.rec.Step, t.rec.Attempt = ha.StepPrepare, t.rec.Attempt+1
		t.rec.StartedAt = ptr(t.Now)
		t.failedAnew()
		t.claimMaintenance(ha.ReasonProcess)
	}
	svc, ok := t.seenService()
	if !ok {
		return
	}
	_, claimed := t.claim(t.Unit.HostUUID, ha.WhatDisabled, ha.ReasonProcess)
	switch {
	case !svc.Enabled && !claimed:
		t.progress(ha.TaskDisableNode, 1, "Skipping recovery for process nova-compute as it is already disabled")
		t.task(ha.TaskDisableNode, ha.TaskReverted)
		t.end(ha.StatusFinished, "the compute service of %s was disabled already", svc.Host)
		return
	case !svc.Enabled:
		t.progressOnce(ha.TaskDisableNode, 1, "Disabled compute service on host: '%s'", svc.Host)
		t.taskOnce(ha.TaskDisableNode, ha.TaskSuccess)
		t.progress(ha.TaskConfirmNode, 0, "Confirming compute service is disabled on host: '%s'", svc.Host)
		t.progress(ha.TaskConfirmNode, 1, "Confirmed compute service is disabled on host: '%s'", svc.Host)
		t.task(ha.TaskConfirmNode, ha.TaskSuccess)
		t.end(ha.StatusFinished, "")
		return
	case t.Now.Sub(*t.rec.StartedAt) >= t.Rules.WaitService && claimed:
		t.progress(ha.TaskConfirmNode, 1, "Failed to disable service nova-compute")
		t.task(ha.TaskConfirmNode, ha.TaskReverted)
		t.processFailed(fmt.Sprintf("Nova still shows the compute service of %s enabled after %s", svc.Host, t.Rules.WaitService))
		return
	}
	t.progressOnce(ha.TaskDisableNode, 0, "Disabling compute service on host: '%s'", svc.Host)
	if t.act(ha.Act{Key: serviceKey(svc.Host), Kind: ha.ActService, Host: svc.Host, ServiceID: svc.ID, Enable: ptr(false), Reason: t.Rules.ProcessReason}) {
		t.putClaim(ha.Claim{HostUUID: t.Unit.HostUUID, What: ha.WhatDisabled, Reason: ha.ReasonProcess, Detail: t.Rules.ProcessReason, Prior: "enabled"})
	}
	t.look(LookServices, "")
	t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
}

// seenService returns the host's service as seen since this attempt began.
func (t *turn) seenService() (ha.Service, bool) {
	if t.Facts.Services.At.IsZero() || t.Facts.Services.Err != nil {
		t.look(LookServices, "")
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
		if t.Facts.Services.Err != nil {
			t.say("waiting: Nova does not answer: %s", ha.TextOf(t.Facts.Services.Err))
		}
		return ha.Service{}, false
	}
	svc, ok := t.service(t.Unit.Host.Name)
	switch {
	case ok:
		delete(t.Memory.Since, keyVanished)
	case t.cellAway():
		t.say("waiting: Nova cannot reach the cell of %s", t.Unit.Host.Name)
		t.look(LookServices, "")
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
	case t.vanished():
		t.processFailed(fmt.Sprintf("Nova has no compute service named %s", t.Unit.Host.Name))
	}
	return svc, ok
}

// processStarted takes back what the process's failure claimed, exactly.
func (t *turn) processStarted() {
	if t.rec.Step == "" {
		t.note.Status = ha.StatusRunning
		t.rec.Step, t.rec.StartedAt = ha.StepReturn, ptr(t.Now)
	}
	c, claimed := t.claim(t.Unit.HostUUID, ha.WhatDisabled, ha.ReasonProcess)
	if !claimed {
		t.processTakenBack()
		return
	}
	svc, ok := t.seenService()
	if !ok {
		return
	}
	if svc.Enabled && !t.Facts.Services.After(c.Since.Add(t.Rules.OrderInDoubt)) { // a disable whose answer was lost may come late
		t.look(LookServices, "")
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
		return
	}
	if svc.Enabled || svc.DisabledReason != c.Detail { // somebody else's by now
		t.dropClaim(c)
		t.processTakenBack()
		return
	}
	t.act(t.enableAfterProcess(svc))
	t.look(LookServices, "")
	t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
}

// processTakenBack ends the return of a process. The host's take-back may have waited for it.
func (t *turn) processTakenBack() {
	t.endMaintenance(ha.ReasonProcess)
	t.change(ha.Signal{Key: ha.UnitTakeBack.Key(t.Unit.HostUUID)})
	t.end(ha.StatusFinished, "")
}

// processPut digests the answer of a PUT; what it did is seen by the next look.
func (t *turn) processPut(o ha.Outcome) {
	class := t.outcome(o)
	if class == ha.ClassRefused {
		t.processFailed("Nova refused to change the compute service: " + refusal(o.Err))
	}
	if c, claimed := t.claim(t.Unit.HostUUID, ha.WhatDisabled, ha.ReasonProcess); claimed && class == "" && *o.Act.Enable {
		t.dropClaim(c)
	}
	t.look(LookServices, "")
	t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
}

// processFailed ends an attempt in error, retried like a host's.
func (t *turn) processFailed(why string) {
	t.rec.Failures++
	if t.rec.Failures >= t.Rules.MaxAttempts && t.Unit.Wishes.Retries <= t.rec.Retried {
		t.end(ha.StatusFailed, "%s", why)
		return
	}
	t.retryLater(why)
}

// processWait begins the next attempt when its time has come, or when an operator asks.
func (t *turn) processWait() {
	retry := t.Unit.Wishes.Retries > t.rec.Retried
	t.rec.Retried = t.Unit.Wishes.Retries
	if !retry && t.rec.WakeAt != nil && t.Now.Before(*t.rec.WakeAt) {
		t.wakeAt(*t.rec.WakeAt)
		if left := t.wake.Sub(t.Now); left > parkAbove && len(t.acting) == 0 {
			t.park = left
		}
		return
	}
	t.rec.Step, t.rec.WakeAt = "", nil
	t.look(LookServices, "")
	t.wakeAt(t.Now)
}
