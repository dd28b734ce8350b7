package plan

import (
	"slices"

	"github.com/salvor-ha/salvor/internal/ha"
)

// A host may be deleted from salvor while something of it is open: who scraps a dead hypervisor does so. What salvor changed of it in Nova
// outlasts its row (invariant I9): its take-back goes on, until forced_down is taken back, cleared by somebody else, or gone with the
// service, or until a host of its name is registered, which then has the claims.

// outlive readies the take-back of a deleted host: nobody has salvor care for it any more, so it is not put back into scheduling by itself;
// and its maintenance went with its row.
func (t *turn) outlive() {
	t.Rules.AutoReturn = false
	if t.rec.HeldAt == ha.GateFlapping {
		t.unhold()
	}
	for _, c := range t.ownClaims() {
		if c.What == ha.WhatMaintenance {
			t.dropClaim(c)
		}
	}
}

// leaveToOperator tells what stays disabled of a deleted host, for one of these reasons.
func (t *turn) leaveToOperator(svc ha.Service, reasons ...ha.Reason) {
	for _, c := range t.ownClaims() {
		if c.What == ha.WhatDisabled && slices.Contains(reasons, c.Reason) && !svc.Enabled && svc.DisabledReason == c.Detail {
			t.alarm(ha.AlarmLeftInNova, "", "host %s was deleted from salvor, which leaves it disabled in Nova (%s). If it is in service again: "+
				"openstack compute service set --enable %[1]s nova-compute", t.Unit.Host.Name, c.Detail)
			return
		}
	}
	t.log("", "host %s was deleted: nothing of ours is left in Nova", t.Unit.Host.Name)
}

// endDeleted ends the episodes of a deleted host: its instances stay as they are.
func (s *storage) endDeleted() {
	if len(s.acting) > 0 {
		return
	}
	if !s.Facts.Services.After(s.Unit.Now) {
		s.look(LookServices, "")
		s.wakeAt(s.Now.Add(s.Rules.VerifyInterval))
		return
	}
	svc, known := s.service(s.Unit.Host.Name)
	if !known && !s.vanished() {
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
	s.leaveToOperator(svc, ha.ReasonStorage)
	if c, held := s.claim(s.Unit.HostUUID, ha.WhatDisabled, ha.ReasonStorage); held {
		s.dropClaim(c)
	}
	s.ended = true
}
