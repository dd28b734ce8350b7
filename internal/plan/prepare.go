package plan

import (
	"fmt"

	"github.com/salvor-ha/salvor/internal/ha"
)

// passGates starts the recovery: the segment is touched, so that no two recoveries pass on the same numbers, and the host is
// claimed (RECOVERY section 2, step 1).
func (t *turn) passGates() bool {
	if t.rec.StartedAt == nil {
		t.decideForSegment()
		t.rec.StartedAt = ptr(t.Now)
	}
	t.claimMaintenance(ha.ReasonRecovery)
	if t.Unit.Host.Reserved { // a reserved host that fails is no longer reserved
		t.putClaim(ha.Claim{HostUUID: t.Unit.HostUUID, What: ha.WhatReserved, Reason: ha.ReasonRecovery, Prior: "true"})
		t.change(ha.SetHost{UUID: t.Unit.HostUUID, Reserved: ptr(false)})
		t.Unit.Host.Reserved = false
		t.log("", "host %s has failed, and is no longer reserved: salvor host update %[1]s --reserved makes it a spare again", t.Unit.Host.Name)
	}
	return t.enter(ha.StepPrepare)
}

// decideForSegment makes the commit fail if another recovery has passed its gates on the same numbers. Where no gate counts, there is
// nothing to be taken in turns.
func (t *turn) decideForSegment() {
	if t.Rules.BrakePercent > 0 || t.Rules.RecoveryRate > 0 {
		t.change(ha.TouchSegment{UUID: t.Unit.SegmentUUID, Seen: t.Unit.Segment.Touch})
		t.Unit.Segment.Touch++
	}
}

// claimMaintenance puts the host on maintenance under a claim of ours.
func (t *turn) claimMaintenance(r ha.Reason) {
	if _, have := t.claim(t.Unit.HostUUID, ha.WhatMaintenance, r); have {
		return
	}
	prior := fmt.Sprint(t.Unit.Host.OnMaintenance)
	for _, c := range t.ownClaims() {
		if c.What == ha.WhatMaintenance && c.Reason != ha.ReasonOperator { // it is on by a claim of ours: the last one to go turns it off
			prior = c.Prior
		}
	}
	t.putClaim(ha.Claim{HostUUID: t.Unit.HostUUID, What: ha.WhatMaintenance, Reason: r, Prior: prior})
	t.change(ha.SetHost{UUID: t.Unit.HostUUID, OnMaintenance: ptr(true)})
	t.Unit.Host.OnMaintenance = true
}

// serviceKey is the act key of a host's compute service.
func serviceKey(host string) string { return "service:" + host }

// prepare makes Nova call the host down and schedule nothing onto it: one PUT, seen to be done before anything is ordered
// (RECOVERY section 2, step 2).
func (t *turn) prepare() bool {
	if t.rec.Prepared {
		return t.enter(ha.StepMove)
	}
	if why := t.stopping(); why != "" {
		return t.enter(ha.StepReturn)
	}
	if t.heldByOperator() {
		return false
	}
	if t.Unit.InFlight > 0 { // acts of an instance or process unit on this host end first
		t.reload = true
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
		t.say("waiting for acts of other recoveries on %s", t.Unit.Host.Name)
		if t.rec.StartedAt == nil || t.Now.Sub(*t.rec.StartedAt) < t.Rules.NovaTimeout {
			return false
		}
	}
	svc, ok := t.watch()
	if !ok {
		t.look(LookServices, "")
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
		return false
	}
	if t.acting[serviceKey(svc.Host)] {
		return false
	}
	if !t.Rules.ForceDown && svc.Up {
		return t.waitUntilDown(svc)
	}
	if t.isPrepared(svc) {
		return t.prepared(svc)
	}
	if !t.proved && t.Now.Sub(t.rec.ProofAt) > t.Rules.ProofMaxAge { // it may have come back while this recovery was held
		return t.enter(ha.StepGates)
	}
	t.progressOnce(ha.TaskDisableService, 0, "Disabling compute service on host: '%s'", svc.Host)
	t.putService(svc)
	return false
}

// isPrepared reports whether a look that came after our claim shows what we want.
func (t *turn) isPrepared(svc ha.Service) bool {
	c, claimed := t.claim(t.Unit.HostUUID, ha.WhatForcedDown, ha.ReasonRecovery)
	if t.Rules.ForceDown && (!claimed || !svc.ForcedDown) {
		return false
	}
	if claimed && !t.Facts.Services.After(c.Since) {
		return false
	}
	_, disabled := t.claim(t.Unit.HostUUID, ha.WhatDisabled, ha.ReasonRecovery)
	return !svc.Enabled && (disabled || t.disabledByOther(svc))
}

// disabledByOther reports whether somebody else disabled the service: status and reason stay theirs.
func (t *turn) disabledByOther(svc ha.Service) bool {
	if svc.Enabled {
		return false
	}
	for _, c := range t.ownClaims() {
		if c.What == ha.WhatDisabled && c.Detail == svc.DisabledReason {
			return false
		}
	}
	return true
}

// putService claims and sends the PUT, unless that must wait.
func (t *turn) putService(svc ha.Service) {
	a := ha.Act{Key: serviceKey(svc.Host), Kind: ha.ActService, Host: svc.Host, ServiceID: svc.ID}
	var claims []ha.Claim
	if t.Rules.ForceDown {
		a.ForcedDown = ptr(true)
		claims = append(claims, ha.Claim{HostUUID: t.Unit.HostUUID, What: ha.WhatForcedDown, Reason: ha.ReasonRecovery, Prior: fmt.Sprint(svc.ForcedDown)})
	}
	if !t.disabledByOther(svc) {
		a.Enable, a.Reason = ptr(false), t.Rules.DisableReason
		claims = append(claims, ha.Claim{HostUUID: t.Unit.HostUUID, What: ha.WhatDisabled, Reason: ha.ReasonRecovery,
			Detail: t.Rules.DisableReason, Prior: map[bool]string{true: "enabled", false: "disabled"}[svc.Enabled]})
	}
	if t.act(a) {
		for _, c := range claims {
			t.putClaim(c)
		}
	}
}

// waitUntilDown is the way without force-down: Nova itself must call the host down.
func (t *turn) waitUntilDown(svc ha.Service) bool {
	since := t.since(fmt.Sprintf("until down in attempt %d", t.rec.Attempt))
	if t.Now.Sub(since) >= t.Rules.WaitService {
		t.attemptFailed(fmt.Sprintf("Nova still calls %s up after %s", svc.Host, t.Rules.WaitService))
		return true
	}
	t.say("waiting for Nova to call %s down (force_down is off)", svc.Host)
	t.look(LookServices, "")
	t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
	return false
}

// prepared keeps that the host is out of Nova's hands, and the updated_at by which a heartbeat is told from our own PUT.
func (t *turn) prepared(svc ha.Service) bool {
	if c, ok := t.claim(t.Unit.HostUUID, ha.WhatForcedDown, ha.ReasonRecovery); ok && c.Seen.IsZero() {
		c.Seen = svc.UpdatedAt
		t.putClaim(c)
		t.Memory.Heart.put(svc, t.Facts.Services.At)
	}
	t.rec.Prepared = true
	t.say("")
	t.progressOnce(ha.TaskDisableService, 1, "Disabled compute service on host: '%s'", svc.Host)
	t.taskOnce(ha.TaskDisableService, ha.TaskSuccess)
	return t.enter(ha.StepMove)
}

// servicePut digests the answer of a PUT on the unit's host.
func (t *turn) servicePut(o ha.Outcome) {
	class := t.outcome(o)
	switch {
	case class == "" && o.Service != nil:
		t.Memory.Heart.put(*o.Service, o.At)
		if c, ok := t.claim(t.Unit.HostUUID, ha.WhatForcedDown, ha.ReasonRecovery); ok && o.Act.ForcedDown != nil && *o.Act.ForcedDown {
			c.Seen = o.Service.UpdatedAt
			t.putClaim(c)
		}
	case class == ha.ClassRefused && t.rec.Step != ha.StepPrepare: // instances are on their way: they wait, and it is tried again
		t.alarm(ha.AlarmForceDownRefused, "", "Nova refuses to force %s down again, so that nothing new is ordered: %s", o.Act.Host, refusal(o.Err))
	case class == ha.ClassRefused:
		t.attemptFailed(fmt.Sprintf("Nova refused to change the compute service of %s: %s", o.Act.Host, refusal(o.Err)))
	default:
		t.look(LookServices, "")
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
	}
}
