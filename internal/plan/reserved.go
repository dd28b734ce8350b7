package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/salvor-ha/salvor/internal/ha"
)

// target returns the reserved host that the move is to go to, once it is claimed, enabled and in the failed host's aggregates.
// Reserved hosts are tried oldest first, from the one after RefusedBy (RECOVERY section 2, methods; invariant I8). When there
// is none the move goes to the next pass or waits, with each spare's reason (field finding F047).
func (t *turn) target(m *ha.VMove) (name string, ready bool) {
	var reasons []string
	past := m.RefusedBy == ""
	for _, p := range t.sparesByAge() {
		if !past {
			past = p.Name == m.RefusedBy
			continue
		}
		if !t.spare(p) {
			continue
		}
		svc, why := t.unfit(p)
		if why != "" {
			reasons = append(reasons, p.Name+" "+why)
			continue
		}
		if p.ReservedFor != t.Unit.ID {
			t.change(ha.Reserve{HostUUID: p.UUID})
			t.setReservedFor(p.UUID, t.Unit.ID)
			t.log("", "reserved host %s is claimed for this recovery", p.Name)
			t.progress(ha.TaskEvacuate, 0.1, "Enabling reserved host: '%s'", p.Name) // also if it is: Masakari's word for having chosen it
		}
		return p.Name, t.enabled(p, svc) && t.inAggregates(p)
	}
	why := "no reserved host is left"
	if len(reasons) > 0 {
		why += ": " + strings.Join(reasons, ", ")
	}
	if !t.nextPass(m) {
		t.reload = true
		m.RefusedBy = "" // those that refused may have room when it is asked again
		t.waitForRoom(m, why)
	}
	return "", false
}

// spare reports whether the host is reserved, or was by this recovery.
func (t *turn) spare(p ha.Peer) bool { return p.Reserved || p.ReservedFor == t.Unit.ID }

// unfit says why a spare cannot take instances now, "" when it can.
func (t *turn) unfit(p ha.Peer) (ha.Service, string) {
	svc, known := t.service(p.Name)
	switch {
	case p.OnMaintenance:
		return svc, "on maintenance"
	case p.StorageError: // it would be put to work, and back into scheduling, with the disk that failed
		return svc, "with failed storage"
	case p.ReservedFor != 0 && p.ReservedFor != t.Unit.ID:
		return svc, "used by another recovery"
	case !known:
		return svc, "no compute service in Nova"
	case svc.ForcedDown || !svc.Up:
		return svc, "down"
	case !svc.Enabled && svc.DisabledReason == StorageReason: // Nova's answer is newer than the rows at hand
		return svc, "with failed storage"
	case !svc.Enabled && svc.DisabledReason != "" && svc.DisabledReason == t.Rules.ProcessReason:
		return svc, "with a failed process"
	}
	return svc, ""
}

// sparesByAge lists the other hosts of the segment, oldest first.
func (t *turn) sparesByAge() []ha.Peer {
	peers := slices.DeleteFunc(slices.Clone(t.Unit.Peers), func(p ha.Peer) bool { return p.UUID == t.Unit.HostUUID })
	slices.SortFunc(peers, func(a, b ha.Peer) int { return cmp.Compare(a.ID, b.ID) })
	return peers
}

func (t *turn) setReservedFor(host string, work int64) {
	t.Unit.Peers = slices.Clone(t.Unit.Peers)
	for i := range t.Unit.Peers {
		if t.Unit.Peers[i].UUID == host {
			t.Unit.Peers[i].ReservedFor = work
		}
	}
}

// enabled reports whether the spare's compute service is enabled, and enables it under a claim.
func (t *turn) enabled(p ha.Peer, svc ha.Service) bool {
	if svc.Enabled {
		return true
	}
	if t.act(ha.Act{Key: serviceKey(p.Name), Kind: ha.ActService, Host: p.Name, ServiceID: svc.ID, Enable: ptr(true)}) {
		t.putClaim(ha.Claim{HostUUID: p.UUID, What: ha.WhatEnabled, Reason: ha.ReasonRecovery, Prior: svc.DisabledReason})
	}
	return false
}

// inAggregates reports whether the spare is in all aggregates of the failed host, and adds it to those that lack it. One that
// refuses it is done without: what needs it is refused by the scheduler and goes to the next spare.
func (t *turn) inAggregates(p ha.Peer) bool {
	if !t.Rules.AddToAggregate {
		return true
	}
	if t.Facts.Aggregates.At.IsZero() || !t.Facts.Aggregates.After(t.Memory.Since["aggregates"]) {
		t.look(LookAggregates, "")
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
		return false
	}
	in := true
	for _, a := range t.Facts.Aggregates.Value {
		if !slices.Contains(a.Hosts, t.Unit.Host.Name) || slices.Contains(a.Hosts, p.Name) {
			continue
		}
		if t.Memory.Said["refused "+aggregateKey(a.ID, p.Name)] {
			t.alarm(ha.AlarmAggregate, "", "reserved host %s could not be added to aggregate %s", p.Name, a.Name)
			continue
		}
		in = false
		if t.act(ha.Act{Key: aggregateKey(a.ID, p.Name), Kind: ha.ActAggregateAdd, Host: p.Name, Aggregate: a.ID}) {
			t.putClaim(ha.Claim{HostUUID: p.UUID, What: ha.WhatAggregate, Reason: ha.ReasonRecovery, Detail: a.ID, Prior: "false"})
			t.progressOnce(ha.TaskEvacuate, 0.2, "Add host %s to aggregate %s", p.Name, a.Name)
		}
	}
	return in
}

func aggregateKey(aggregate, host string) string { return "aggregate:" + aggregate + ":" + host }

// aggregateChanged digests an aggregate act: what an aggregate holds is looked at again, whatever was answered. What was refused
// (409 also when somebody else had added the host) is not ours to take back.
func (t *turn) aggregateChanged(o ha.Outcome) {
	class := t.outcome(o)
	t.Memory.Since["aggregates"] = o.At
	t.look(LookAggregates, "")
	if o.Act.Kind == ha.ActAggregateAdd && (class == ha.ClassRefused || class == ha.ClassGone) {
		t.Memory.Said["refused "+o.Act.Key] = true
		t.dropAggregateClaim(o.Act)
	}
	if o.Act.Kind == ha.ActAggregateAdd && class == "" {
		name := o.Act.Aggregate
		if i := slices.IndexFunc(t.Facts.Aggregates.Value, func(a ha.Aggregate) bool { return a.ID == name }); i >= 0 {
			name = t.Facts.Aggregates.Value[i].Name
		}
		t.progressOnce(ha.TaskEvacuate, 0.3, "Added host %s to aggregate %s", o.Act.Host, name)
	}
	if o.Act.Kind == ha.ActAggregateRemove && (class == "" || class == ha.ClassGone) {
		t.dropAggregateClaim(o.Act)
	}
}

func (t *turn) dropAggregateClaim(a ha.Act) {
	p, ok := t.peer(a.Host)
	for _, c := range t.Unit.Claims {
		if ok && c.HostUUID == p.UUID && c.What == ha.WhatAggregate && c.Detail == a.Aggregate {
			t.dropClaim(c)
		}
	}
}

// reservedPut digests a PUT on a spare's service.
func (t *turn) reservedPut(o ha.Outcome) {
	class := t.outcome(o)
	p, ok := t.peer(o.Act.Host)
	if !ok {
		return
	}
	if class == ha.ClassRefused || class == ha.ClassGone {
		for i := range t.moves {
			if m := &t.moves[i]; m.Stage == ha.StageOrder && t.pass(m) == ha.PassReserved {
				m.RefusedBy = p.Name
			}
		}
	}
	if class == "" && o.Act.Enable != nil && !*o.Act.Enable {
		if c, ok := t.claim(p.UUID, ha.WhatEnabled, ha.ReasonRecovery); ok {
			t.dropClaim(c)
		}
	}
	t.look(LookServices, "")
}

func (t *turn) peer(name string) (ha.Peer, bool) {
	for _, p := range t.Unit.Peers {
		if p.Name == name {
			return p, true
		}
	}
	return ha.Peer{}, false
}

// refusedBy sends a move on to the reserved host after the one that refused it.
func (t *turn) refusedBy(m *ha.VMove, why string) {
	t.log(m.InstanceUUID, "reserved host %s refused it: %s", m.Order.Target, why)
	m.RefusedBy, m.Order.Target = m.Order.Target, ""
	m.Stage = ha.StageOrder
}

// useReserved ends the reservation of a spare that an instance has arrived on: it is in use from now on.
func (t *turn) useReserved(name string) {
	p, ok := t.peer(name)
	if !ok || !p.Reserved || p.ReservedFor != t.Unit.ID {
		return
	}
	if _, have := t.claim(p.UUID, ha.WhatReserved, ha.ReasonRecovery); have {
		return
	}
	t.putClaim(ha.Claim{HostUUID: p.UUID, What: ha.WhatReserved, Reason: ha.ReasonRecovery, Prior: "true"})
	t.change(ha.SetHost{UUID: p.UUID, Reserved: ptr(false)})
	t.log("", "reserved host %s is in use, and no longer reserved: salvor host update %[1]s --reserved makes it a spare again", p.Name)
}

// returnUnused gives spares back that no instance went to: as they were, still reserved. True when nothing is left to undo.
func (t *turn) returnUnused() bool {
	done := true
	for _, p := range t.sparesByAge() {
		if p.ReservedFor != t.Unit.ID {
			continue
		}
		used := slices.ContainsFunc(t.moves, func(m ha.VMove) bool {
			arrived := m.DestHost != nil && (*m.DestHost == p.Name || m.Order.Target == p.Name) // an older salvor kept the first only
			return arrived || m.Order.Open() && m.Order.Target == p.Name
		})
		if !used && !t.undone(p) {
			done = false
			continue
		}
		t.change(ha.Free{HostUUID: p.UUID})
		t.setReservedFor(p.UUID, 0)
	}
	if !done {
		t.say("giving unused reserved hosts back")
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
	}
	return done
}

// undone takes back what was changed for an unused spare; it tries for a minute, then leaves the claims and an alarm.
func (t *turn) undone(p ha.Peer) bool {
	var left []ha.Claim
	for _, c := range t.Unit.Claims {
		if c.HostUUID == p.UUID && c.Reason == ha.ReasonRecovery && c.WorkID == t.Unit.ID && (c.What == ha.WhatEnabled || c.What == ha.WhatAggregate) {
			left = append(left, c)
		}
	}
	if len(left) == 0 {
		return true
	}
	began, ok := t.Memory.Since["undo "+p.Name]
	if !ok {
		began = t.Now
		t.Memory.Since["undo "+p.Name] = began
	}
	if t.Now.Sub(began) > t.Rules.NovaTimeout*2 {
		t.alarm(ha.AlarmReservedHostLeft, "", "reserved host %s was not used and could not be given back as it was: %d changes of ours are left on it", p.Name, len(left))
		return true
	}
	svc, known := t.service(p.Name)
	if !known {
		t.look(LookServices, "")
		return false
	}
	for _, c := range left {
		if c.What == ha.WhatEnabled {
			t.act(ha.Act{Key: serviceKey(p.Name), Kind: ha.ActService, Host: p.Name, ServiceID: svc.ID, Enable: ptr(false), Reason: c.Prior})
		} else {
			t.act(ha.Act{Key: aggregateKey(c.Detail, p.Name), Kind: ha.ActAggregateRemove, Host: p.Name, Aggregate: c.Detail})
		}
	}
	return false
}
