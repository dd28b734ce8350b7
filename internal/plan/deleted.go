package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/salvor-ha/salvor/internal/ha"
)

// A host may be deleted from salvor while something of it is open: segment delete takes its hosts along. Nobody can give an order about it
// any more, and it may never be back, so that its units would stay open for ever, or take a later host of its name for it. They end, and
// say what is left in Nova, which is the operator's from then on.

// seenAfterDeletion returns the deleted host's service as a look shows it that this owner made; false until there is one.
func (t *turn) seenAfterDeletion() (svc ha.Service, known, seen bool) {
	if !t.Facts.Services.After(t.Unit.Now) {
		t.look(LookServices, "")
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
		return svc, false, false
	}
	svc, known = t.service(t.Unit.Host.Name)
	return svc, known, known || t.vanished()
}

// leaveToOperator drops the claims on the deleted host that were made for these reasons, and tells what of them is left in Nova.
func (t *turn) leaveToOperator(svc ha.Service, known bool, reasons ...ha.Reason) {
	host := t.Unit.Host.Name
	var left, undo []string
	add := func(what, way string) {
		if !slices.Contains(left, what) {
			left, undo = append(left, what), append(undo, way)
		}
	}
	if stale, instances := t.staleOrders(); len(stale) > 0 {
		add("evacuate orders in its queue ("+instances+")", purge(host))
	}
	for _, c := range t.ownClaims() {
		if !slices.Contains(reasons, c.Reason) {
			continue
		}
		t.dropClaim(c)
		switch {
		case c.What == ha.WhatForcedDown && known && svc.ForcedDown && c.Prior != "true":
			add("forced_down", "openstack compute service set --up "+host+" nova-compute")
		case c.What == ha.WhatDisabled && known && !svc.Enabled && svc.DisabledReason == c.Detail:
			add(fmt.Sprintf("disabled (%s)", c.Detail), "openstack compute service set --enable "+host+" nova-compute")
		}
	}
	if len(left) == 0 {
		t.log("", "host %s was deleted: nothing of ours is left in Nova", host)
		return
	}
	t.alarm(ha.AlarmLeftInNova, "", "host %s was deleted from salvor, which leaves in Nova: %s. If it is in service again: %s", host, strings.Join(left, ", "), strings.Join(undo, "; "))
}

// takeBackOfDeleted ends the take-back of a deleted host.
func (t *turn) takeBackOfDeleted() {
	svc, known, seen := t.seenAfterDeletion()
	if !seen {
		return
	}
	t.leaveToOperator(svc, known, ha.ReasonRecovery, ha.ReasonProcess)
	t.ended = true
}

// endDeleted ends the episodes of a deleted host: its instances stay as they are.
func (s *storage) endDeleted() {
	if len(s.acting) > 0 {
		return
	}
	svc, known, seen := s.seenAfterDeletion()
	if !seen {
		return
	}
	for i := range s.st.Episodes {
		e := &s.st.Episodes[i]
		if e.EndedAt != nil {
			continue
		}
		if e.Open() {
			e.ClearedAt, e.ClearedBy = ptr(s.Now), "salvor: the host was deleted"
		}
		e.EndedAt, e.Waiting = ptr(s.Now), ""
	}
	for i := range s.st.Runs {
		if r := &s.st.Runs[i]; r.State == ha.RunOpen || r.State == ha.RunHeld {
			r.State, r.Why = ha.RunStopped, "the host was deleted"
		}
	}
	for id := range cloned(s.doubt) {
		s.closeDoubt(id, "the host was deleted")
	}
	s.leaveToOperator(svc, known, ha.ReasonStorage)
	s.ended = true
}
