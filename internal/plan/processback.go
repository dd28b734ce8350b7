package plan

import (
	"slices"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Not every monitor reports that a process is back: Masakari's own never does. So what a failure of nova-compute claims has a take-back, too,
// and the failure is over when Nova has heard it for HealthyDelay (RECOVERY section 7: when the process is back). Since a dead one is heard
// for a minute, and one that is restarted again and again now and then, that is counted anew from each report.

// leaveToTakeBack has the take-back of the host look for the return of a process whose failure has ended.
func (t *turn) leaveToTakeBack() {
	if t.ended && t.Unit.HostUnit == 0 && t.note.Payload.Stopped() && t.processClaims() {
		t.change(ha.StartUnit{Kind: ha.UnitTakeBack, HostUUID: t.Unit.HostUUID, SegmentUUID: t.Unit.SegmentUUID},
			ha.Signal{Key: ha.UnitTakeBack.Key(t.Unit.HostUUID)})
	}
}

// failedAnew has a failure's claims begin now, as nothing of before says that the process is back; and tells the take-back, which may be about
// to drop them, before it does.
func (t *turn) failedAnew() {
	t.giveWay()
	t.change(ha.Signal{Key: ha.UnitTakeBack.Key(t.Unit.HostUUID)})
	for _, c := range t.ownClaims() {
		if c.Reason == ha.ReasonProcess {
			t.dropClaim(c)
			c.Since = t.Now
			t.putClaim(c)
		}
	}
}

// processClaims reports whether a failure of nova-compute claims anything that is taken back here: of a deleted host that is told instead.
func (t *turn) processClaims() bool {
	return !t.Unit.HostDeleted && slices.ContainsFunc(t.ownClaims(), func(c ha.Claim) bool { return c.Reason == ha.ReasonProcess })
}

// keyEnabling: of when the claim is that the enabling under way ends.
const keyEnabling = "enabling"

// takeBackProcess drops the claims of a process that is back; it is enabled here if nothing else holds it disabled.
func (t *turn) takeBackProcess(svc ha.Service) {
	c, isDisabled := t.claim(t.Unit.HostUUID, ha.WhatDisabled, ha.ReasonProcess)
	sent := t.Rules.WaitService + t.Rules.OrderInDoubt // until then its unit may send the disable, or Nova carry it out
	if isDisabled && t.Facts.Services.After(c.Since.Add(sent)) && (svc.Enabled || t.disabledByOther(svc)) {
		t.dropClaim(c)
		isDisabled = false
	}
	for _, o := range t.ownClaims() {
		if at := o.Since.Add(max(sent, t.Rules.HealthyDelay)); o.Reason == ha.ReasonProcess && t.Now.Before(at) { // reported while Nova still heard it
			t.wakeAt(at)
			return
		}
	}
	if !t.healthy(svc) {
		return
	}
	if isDisabled && !svc.Enabled && svc.DisabledReason == c.Detail {
		if t.act(t.enableAfterProcess(svc)) {
			t.Memory.Since[keyEnabling] = c.Since
		}
		return
	}
	if isDisabled {
		t.dropClaim(c)
	}
	t.log("", "nova-compute of %s has been heard for %s: its failure is over", svc.Host, t.Rules.HealthyDelay)
	t.endMaintenance(ha.ReasonProcess)
}

// enableAfterProcess is the PUT that ends what a process's failure disabled: where the host's storage has failed it stays so, for that reason.
func (t *turn) enableAfterProcess(svc ha.Service) ha.Act {
	a := ha.Act{Key: serviceKey(svc.Host), Kind: ha.ActService, Host: svc.Host, ServiceID: svc.ID, Enable: ptr(true)}
	if failed, held := t.claim(t.Unit.HostUUID, ha.WhatDisabled, ha.ReasonStorage); held {
		a.Enable, a.Reason = ptr(false), failed.Detail
	}
	return a
}
