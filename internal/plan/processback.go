package plan

import (
	"slices"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Not every monitor reports that a process is back, and one that does may have done so before its host died. So where a host's take-back is
// at work, after the host's death or return, or once an operator has ended its maintenance, a failure of nova-compute is over when Nova has
// heard it for HealthyDelay (RECOVERY section 7: when the process is back).

// processClaims reports whether a failure of nova-compute claims anything that is taken back here: of a deleted host that is told instead.
func (t *turn) processClaims() bool {
	return !t.Unit.HostDeleted && slices.ContainsFunc(t.ownClaims(), func(c ha.Claim) bool { return c.Reason == ha.ReasonProcess })
}

// takeBackProcess drops the claims of a process that is back; it is enabled here if nothing else holds it disabled.
func (t *turn) takeBackProcess(svc ha.Service) {
	c, isDisabled := t.claim(t.Unit.HostUUID, ha.WhatDisabled, ha.ReasonProcess)
	if isDisabled && t.Facts.Services.After(c.Since.Add(t.Rules.OrderInDoubt)) && (svc.Enabled || t.disabledByOther(svc)) {
		t.dropClaim(c)
		isDisabled = false
	}
	for _, o := range t.ownClaims() {
		if at := o.Since.Add(t.Rules.HealthyDelay); o.Reason == ha.ReasonProcess && t.Now.Before(at) { // reported while Nova still heard it
			t.wakeAt(at)
			return
		}
	}
	if !t.healthy(svc) {
		return
	}
	if isDisabled && !svc.Enabled && svc.DisabledReason == c.Detail {
		t.act(t.enableAfterProcess(svc))
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
