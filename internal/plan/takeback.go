package plan

import (
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// takeBackEvery is how often a host that is away is looked at: some monitors never send STARTED (RECOVERY section 7).
const takeBackEvery = time.Minute

// TakeBack is the plan of a host's take-back: it lives as long as salvor holds forced_down or disabled of a host recovery on
// it, whether the host still is salvor's or was deleted, or what a failure of its nova-compute claimed. It has no notification.
func TakeBack(v View) Decision {
	t := begin(v)
	t.rec.Step = ha.StepWatch
	if t.Unit.HostDeleted {
		t.outlive()
	}
	for _, o := range t.Results {
		t.tookBack(o)
	}
	t.orphans()
	t.takeBack()
	t.guardDrops()
	return t.decision()
}

// guardDrops has a claim be dropped by rows of now only: what Nova shows may be of before one that the host's unit has made since, or its
// process's unit has made anew. The latter is told.
func (t *turn) guardDrops() {
	var dropped []ha.Reason
	for _, c := range t.changes {
		if d, is := c.(ha.DropClaim); is {
			dropped = append(dropped, d.Reason)
		}
	}
	if len(dropped) > 0 && t.Unit.HostUnit == 0 {
		t.giveWay()
	}
	if slices.Contains(dropped, ha.ReasonProcess) {
		t.change(ha.Signal{Key: ha.UnitProcess.Key(t.Unit.HostUUID)})
	}
}

func (t *turn) takeBack() {
	forced, isForced := t.claim(t.Unit.HostUUID, ha.WhatForcedDown, ha.ReasonRecovery)
	disabled, isDisabled := t.claim(t.Unit.HostUUID, ha.WhatDisabled, ha.ReasonRecovery)
	if t.Unit.HostDeleted && !isDisabled { // no report will end it: it is told with the rest
		disabled, isDisabled = t.claim(t.Unit.HostUUID, ha.WhatDisabled, ha.ReasonProcess)
	}
	_, kept := t.claim(t.Unit.HostUUID, ha.WhatMaintenance, ha.ReasonRecovery)
	kept = kept && t.Rules.AutoReturn // it is ours to end
	switch {
	case !isForced && !isDisabled && !kept && !t.processClaims():
		t.tellStale()
		t.dropStale()
		t.ended = true
		return
	case t.Unit.HostUnit != 0: // a host recovery has precedence
		t.park = 5 * time.Second
		return
	case len(t.acting) > 0:
		return
	}
	if t.Facts.Services.At.IsZero() {
		t.look(LookServices, "")
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
		return
	}
	svc, known := t.watch()
	switch {
	case known:
	case t.cellAway(): // however long that takes, without the lease
		t.park = takeBackEvery
		return
	case t.vanished():
		t.forgotten()
		return
	default:
		return
	}
	t.trackHealth(svc)
	back, how := t.isBack(forced, disabled)
	t.letGo(svc, back)
	_, isForced = t.claim(t.Unit.HostUUID, ha.WhatForcedDown, ha.ReasonRecovery)
	_, isDisabled = t.claim(t.Unit.HostUUID, ha.WhatDisabled, ha.ReasonRecovery)
	if back && isForced && svc.ForcedDown {
		if t.act(ha.Act{Key: serviceKey(svc.Host), Kind: ha.ActService, Host: svc.Host, ServiceID: svc.ID, ForcedDown: ptr(false)}) {
			t.log("", "host %s is back (%s): taking forced_down back", svc.Host, how)
		}
		return
	}
	if t.Unit.HostDeleted && !isForced {
		t.tellStale()
		t.dropStale()
		t.leaveToOperator(svc, ha.ReasonRecovery, ha.ReasonProcess)
		t.ended = true
		return
	}
	if !isForced && t.processClaims() {
		t.takeBackProcess(svc)
	}
	if t.Rules.AutoReturn && !isForced && len(t.acting) == 0 && t.healthy(svc) && !t.flaps() {
		t.returnToService(svc, isDisabled)
	}
	if len(t.acting) > 0 {
		return
	}
	_, kept = t.claim(t.Unit.HostUUID, ha.WhatMaintenance, ha.ReasonRecovery)
	if !isForced && !isDisabled && !(kept && t.Rules.AutoReturn && svc.Enabled) && !t.processClaims() {
		t.ended = true
		return
	}
	unheard := !isForced || !forced.Seen.IsZero() && t.Memory.Heart.Moves == 0 // nothing has moved since our PUT
	t.again(back && isForced || t.coming(svc, back) || !unheard)
}

// forgotten ends the take-back of a host whose service Nova has no more: nothing is left to take back.
func (t *turn) forgotten() {
	for _, c := range t.ownClaims() {
		if c.What == ha.WhatForcedDown || c.What == ha.WhatDisabled || c.What == ha.WhatOrder {
			t.dropClaim(c)
		}
	}
	t.log("", "Nova has no compute service named %s any more", t.Unit.Host.Name)
	t.ended = true
}

// letGo drops the claims on what is no longer ours: it is gone, somebody else has changed it since, or it was so before us.
func (t *turn) letGo(svc ha.Service, back bool) {
	forced, isForced := t.claim(t.Unit.HostUUID, ha.WhatForcedDown, ha.ReasonRecovery)
	disabled, isDisabled := t.claim(t.Unit.HostUUID, ha.WhatDisabled, ha.ReasonRecovery)
	gone := isForced && !svc.ForcedDown
	if back || gone {
		t.tellStale()
	}
	if back && !isForced || gone && t.certain(forced) {
		t.dropStale()
	}
	switch {
	case gone && t.certain(forced):
		t.dropClaim(forced)
		t.log("", "forced_down of %s is gone", svc.Host)
	case back && isForced && forced.Prior == "true": // it was forced down before us, and stays so
		t.dropClaim(forced)
	}
	if isDisabled && (svc.Enabled || svc.DisabledReason != disabled.Detail) && t.certain(disabled) {
		t.dropClaim(disabled)
		t.log("", "the compute service of %s was enabled or disabled by somebody else: no longer ours", svc.Host)
	}
}

// again looks later: soon while the host is coming back or may be heard, else each minute, without the lease.
func (t *turn) again(soon bool) {
	if !soon {
		t.park = takeBackEvery
		return
	}
	every := min(t.Rules.ReportInterval/2, 5*time.Second)
	if next := t.Facts.Services.At.Add(every); t.Now.Before(next) {
		t.wakeAt(next)
		return
	}
	t.look(LookServices, "")
	t.wakeAt(t.Now.Add(every))
}

// certain reports whether the facts are newer than any PUT of ours whose answer was lost could act.
func (t *turn) certain(c ha.Claim) bool {
	if c.What == ha.WhatForcedDown && c.Seen.IsZero() {
		return t.Facts.Services.After(c.Since.Add(t.Rules.OrderInDoubt))
	}
	return t.Facts.Services.After(c.Since)
}

// isBack reports whether the host has returned since it was claimed, and by what sign.
func (t *turn) isBack(forced, disabled ha.Claim) (bool, string) {
	since := forced.Since
	if since.IsZero() {
		since = disabled.Since
	}
	for _, c := range t.ownClaims() { // a failure of nova-compute since it returned last
		if since.IsZero() && c.Reason == ha.ReasonProcess {
			since = c.Since
		}
	}
	switch at := t.Unit.Host.StartedAt; {
	case at != nil && at.After(since):
		return true, "reported STARTED"
	case !t.Unit.Host.OnMaintenance:
		return true, "an operator ended its maintenance"
	case t.Memory.Heart.beating() && t.rec.StartedAt != nil:
		if at := t.rec.StartedAt.Add(t.Rules.HealthyDelay); t.Now.Before(at) {
			t.wakeAt(at)
			return false, ""
		}
		return true, "heard for " + t.Rules.HealthyDelay.String()
	}
	return false, ""
}

// othersDisable reports whether another claim than the recovery's holds the host disabled, such as that of a process failure.
func (t *turn) othersDisable() bool {
	return slices.ContainsFunc(t.ownClaims(), func(c ha.Claim) bool { return c.What == ha.WhatDisabled && c.Reason != ha.ReasonRecovery })
}

// returnToService is auto_return: enabled if it still is disabled by us, and off maintenance if that is ours. While another claim holds it
// disabled it waits: handed over to that claim it could be dropped by it in the same moment.
func (t *turn) returnToService(svc ha.Service, isDisabled bool) {
	if !isDisabled {
		t.endMaintenance(ha.ReasonRecovery)
		return
	}
	if !t.othersDisable() {
		t.act(ha.Act{Key: serviceKey(svc.Host), Kind: ha.ActService, Host: svc.Host, ServiceID: svc.ID, Enable: ptr(true)})
	}
}

// endMaintenance drops our claim on the host's maintenance; the flag goes when no other claim holds it.
func (t *turn) endMaintenance(r ha.Reason) {
	c, ok := t.claim(t.Unit.HostUUID, ha.WhatMaintenance, r)
	if !ok {
		return
	}
	t.dropClaim(c)
	others := slices.ContainsFunc(t.ownClaims(), func(o ha.Claim) bool { return o.What == ha.WhatMaintenance })
	if !others && c.Prior != "true" {
		t.change(ha.SetHost{UUID: t.Unit.HostUUID, OnMaintenance: ptr(false)})
	}
}

// tookBack digests a PUT of the take-back. Nova refuses to clear forced_down until the restarted nova-compute has put its
// evacuation records right: tried again, and an alarm after ten minutes.
func (t *turn) tookBack(o ha.Outcome) {
	class := t.outcome(o)
	switch {
	case class == "" && o.Act.ForcedDown != nil:
		if c, have := t.claim(t.Unit.HostUUID, ha.WhatForcedDown, ha.ReasonRecovery); have {
			t.dropClaim(c)
		}
		t.dropStale()
		t.rec.HeldWhy, t.rec.HeldSince = "", nil
	case class == "":
		reason := ha.ReasonRecovery
		begun, ofProcess := t.Memory.Since[keyEnabling]
		if ofProcess {
			reason = ha.ReasonProcess
		}
		c, have := t.claim(t.Unit.HostUUID, ha.WhatDisabled, reason)
		if ofProcess && have && c.Since.After(begun) { // it has failed anew meanwhile
			break
		}
		if have {
			t.dropClaim(c)
		}
		if *o.Act.Enable {
			t.log("", "host %s is back in service", o.Act.Host)
		}
		t.endMaintenance(reason)
	case class == ha.ClassRefused:
		t.rec.HeldWhy = refusal(o.Err)
		forced, _ := t.claim(t.Unit.HostUUID, ha.WhatForcedDown, ha.ReasonRecovery)
		if t.rec.HeldSince == nil || t.rec.HeldSince.Before(forced.Since) { // in the row: a takeover counts on
			t.rec.HeldSince = ptr(t.Now)
		}
		if t.Now.Sub(*t.rec.HeldSince) > 10*time.Minute {
			t.oldCopies(o)
		}
	}
	delete(t.Memory.Since, keyEnabling)
	t.look(LookServices, "")
	if nb, ok := t.Memory.NotBefore[o.Act.Key]; ok {
		t.wakeAt(nb)
	}
}

// oldCopies says whose evacuations Nova has not cleaned up: one whose instance has a task since, such as another evacuation that
// hangs, stays so whenever nova-compute is restarted.
func (t *turn) oldCopies(refused ha.Outcome) {
	if t.Facts.Migrations.At.IsZero() { // told with the next refusal
		t.look(LookMigrations, "")
		return
	}
	var ids []string
	for _, r := range t.Facts.Migrations.Value {
		if r.Type == ha.MigrationEvacuation && r.Status == "done" && r.Source == refused.Act.Host && !slices.Contains(ids, r.InstanceID) && len(ids) < 20 {
			ids = append(ids, r.InstanceID)
		}
	}
	t.alarm(ha.AlarmOldCopies, "", "compute of %s not restarted, old copies may run: Nova has refused to clear forced_down for more than 10 minutes: %s; not cleaned up: %s",
		refused.Act.Host, refusal(refused.Err), strings.Join(ids, ", "))
}
