package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// record is the migration record of the move's order: the first of the instance that is newer than what was known when the
// order's intent was committed. Nil until it shows.
func (t *turn) record(m *ha.VMove) *ha.Migration {
	var own *ha.Migration
	for _, r := range t.records(m.InstanceUUID) {
		if r.Type == ha.MigrationEvacuation && r.ID > m.Order.Base && (own == nil || r.ID < own.ID) {
			own = r
		}
	}
	return own
}

// othersOrder is an evacuation of the instance that is under way and was not ordered here: by an operator, or by an earlier
// recovery. Nova would take a second one and wreck the instance. A record that a later one follows is left over.
func (t *turn) othersOrder(m *ha.VMove) *ha.Migration {
	last := t.lastOrder(m)
	if last == nil || !last.UnderWay() || last.ID <= max(m.Order.Base, m.Order.Record) {
		return nil
	}
	return last
}

// lastOrder is the newest record of the instance, if it is an evacuation's.
func (t *turn) lastOrder(m *ha.VMove) *ha.Migration {
	var last *ha.Migration
	for _, r := range t.records(m.InstanceUUID) {
		if last == nil || r.ID > last.ID {
			last = r
		}
	}
	if last == nil || last.Type != ha.MigrationEvacuation {
		return nil
	}
	return last
}

// follow takes an order of somebody else as this move's own: it is confirmed, failed or hanging like one.
func (t *turn) follow(m *ha.VMove, r *ha.Migration) bool {
	t.log(m.InstanceUUID, "evacuation record %d is under way and not ours: following it instead of ordering", r.ID)
	m.Order = ha.Order{At: t.Now, Base: r.ID - 1, Record: r.ID, Answered: true}
	m.Attempts++
	m.Stage = ha.StageOrdered
	return true
}

// confirm follows the order by its record: done and arrived, failed, hanging, or in doubt (RECOVERY section 2, "Never two
// orders", "Confirmed", "Failed", "Hanging").
func (t *turn) confirm(m *ha.VMove) bool {
	t.keepLooking()
	r := t.record(m)
	if r != nil && m.Order.Record == 0 {
		m.Order.Record = r.ID
	}
	switch {
	case r == nil:
		return t.unrecorded(m)
	case r.Done():
		return t.arriving(m)
	case r.Failed():
		return t.orderFailed(m)
	}
	return t.hanging(m)
}

// unrecorded waits for the record of an order. One that Nova did not answer, and that has no record after OrderInDoubt, was
// not taken: a new one may be sent.
func (t *turn) unrecorded(m *ha.VMove) bool {
	if m.Order.Answered || t.acting[m.InstanceUUID] {
		return t.hanging(m)
	}
	over := t.doubtOver(m.Order.At)
	m.Message = ptr("in doubt: whether Nova took the order is seen by its record, awaited until " + over.UTC().Format(time.TimeOnly))
	if !t.Facts.Migrations.After(over) {
		t.wakeAt(over)
		return false
	}
	t.log(m.InstanceUUID, "no record of the order after %s: Nova did not take it", t.Rules.OrderInDoubt)
	t.forget(m)
	m.Attempts--
	m.Message = nil
	m.Stage = ha.StageOrder
	return true
}

// forget closes an order whose end is known, keeping up to which record the instance's history is known.
func (t *turn) forget(m *ha.VMove) {
	if m.Order.Open() {
		t.change(ha.CloseIntent{Key: m.InstanceUUID})
	}
	m.Order = ha.Order{Base: t.lastRecord(m), Target: m.Order.Target}
}

// arriving confirms a move whose record is done: only when the host has changed and no task is pending. For up to 250 ms an
// arrived instance is ACTIVE without a task on the dead host.
func (t *turn) arriving(m *ha.VMove) bool {
	s, seen := t.server(m.InstanceUUID, m.Order.At)
	switch {
	case seen == gone:
		t.forget(m)
		return t.leave(m, ha.MoveIgnored, deleted)
	case seen == unseen:
		return false
	case s.Host == m.SourceHost || s.TaskState != "":
		return t.hanging(m)
	}
	t.forget(m)
	m.Order.Target = s.Host                        // whoever chose it
	m.DestHost = ptr(cmp.Or(s.Hypervisor, s.Host)) // contract 1.10
	m.Message = nil
	m.Stage = ha.StageRestore
	t.useReserved(s.Host)
	return true
}

// orderFailed reads why, and decides what may be tried next.
func (t *turn) orderFailed(m *ha.VMove) bool {
	s, seen := t.server(m.InstanceUUID, t.Facts.Migrations.At)
	switch seen {
	case unseen:
		return false
	case gone:
		t.forget(m)
		return t.leave(m, ha.MoveIgnored, deleted)
	}
	fault := s.Fault
	if fault == "" {
		fault = "its migration record says that it failed"
	}
	t.log(m.InstanceUUID, "the order failed: %s", fault)
	t.forget(m)
	if strings.Contains(fault, "No valid host") {
		return t.noValidHost(m, fault)
	}
	return t.leave(m, ha.MoveFailed, fault)
}

// noValidHost goes to the next reserved host, to the method's next pass, or waits for room.
func (t *turn) noValidHost(m *ha.VMove, fault string) bool {
	m.Attempts-- // waiting for room, or for a pass that has some, uses up no attempt
	if m.Order.Target != "" {
		t.refusedBy(m, fault)
		return true
	}
	if t.nextPass(m) {
		return true
	}
	t.waitForRoom(m, fault)
	return false
}

// nextPass moves on to the method's next pass, if it has one.
func (t *turn) nextPass(m *ha.VMove) bool {
	if m.Pass+1 >= len(t.Unit.Segment.RecoveryMethod.Passes()) {
		return false
	}
	m.Pass++
	m.RefusedBy, m.Order.Target = "", ""
	m.Stage = ha.StageOrder
	t.log(m.InstanceUUID, "going on by %s", t.pass(m))
	return true
}

// stillUnderWay is the reason of a move whose order has not ended.
const stillUnderWay = "order still under way in Nova"

// hanging gives up waiting for an order that a look after WaitEvacuation still shows under way: while Nova is away nothing is
// given up. The order stays with the move: nothing new is sent before it is known to have ended.
func (t *turn) hanging(m *ha.VMove) bool {
	limit := m.Order.At.Add(t.Rules.WaitEvacuation)
	if !t.Facts.Migrations.After(limit) {
		if t.Now.Before(limit) {
			t.wakeAt(limit)
		}
		return false
	}
	t.log(m.InstanceUUID, "%s after %s", stillUnderWay, t.Rules.WaitEvacuation)
	return t.leave(m, ha.MoveFailed, stillUnderWay)
}

// lookBack decides what became of the order of an earlier attempt.
func (t *turn) lookBack(m *ha.VMove, stop string) bool {
	if !t.Facts.Migrations.After(m.Order.At) || !t.Facts.Servers.After(m.Order.At) {
		t.keepLooking()
		return stop != "" && t.giveUp(m, stop)
	}
	r := t.record(m)
	switch {
	case r != nil && r.Done():
		m.Status = ha.MoveOngoing
		m.Stage = ha.StageOrdered
		m.Order.At = t.Now // its wait begins anew: it is done, and only its arrival is awaited
		return true
	case r != nil && r.Failed(), r == nil && !m.Order.Answered && t.Facts.Migrations.After(t.doubtOver(m.Order.At)):
		t.forget(m)
		return true
	case stop != "":
		return t.giveUp(m, stop)
	}
	dest := t.destination(m, r)
	if t.destinationOff(dest) {
		t.log(m.InstanceUUID, "the order's destination %s is forced down and silent: a new order may be sent", dest)
		t.forget(m)
		return true
	}
	m.Message = ptr(fmt.Sprintf("%s, to %s: waiting until it ends, or that host is forced down, or an operator retries this instance", stillUnderWay, named(dest)))
	t.keepLooking()
	t.look(LookServices, "")
	t.wakeAt(t.Now.Add(10 * time.Second))
	return false
}

// named is a destination for people.
func named(host string) string {
	if host == "" {
		return "an unknown host"
	}
	return host
}

// destinationOff reports whether an order's destination is forced down and has not been heard for as long as any dead host, by a look
// that has just been answered: one that has come back carries the order out, forced down or not.
func (t *turn) destinationOff(host string) bool {
	svc, ok := t.service(host)
	if !ok || !svc.ForcedDown || svc.Up {
		delete(t.Memory.Dests, host)
		return false
	}
	at, came := t.Facts.Services.At, t.Facts.Services.until()
	if c := t.Facts.Services.Came; !c.IsZero() && c.Before(at) { // a PUT of the own host has been answered since: it tells nothing of this one
		at, came = c, c
	}
	h := t.Memory.Dests[host]
	h.see(svc, at, came, time.Time{})
	t.Memory.Dests[host] = h
	if h.quiet() < t.silence() || t.Now.Sub(came) > 2*time.Second {
		t.look(LookServices, "")
		t.wakeAt(t.Now.Add(time.Second))
		return false
	}
	return true
}

func (t *turn) giveUp(m *ha.VMove, stop string) bool {
	t.settle(m, ha.MoveFailed, stop+"; "+stillUnderWay)
	return true
}

// destination is where an order goes: by its record, else by the allocations that Placement holds for the instance.
func (t *turn) destination(m *ha.VMove, r *ha.Migration) string {
	if r != nil && r.Dest != "" {
		return r.Dest
	}
	if m.Order.Target != "" {
		return m.Order.Target
	}
	p := t.Facts.Providers[m.InstanceUUID]
	if !p.After(m.Order.At) {
		t.look(LookProviders, m.InstanceUUID)
		return ""
	}
	others := slices.DeleteFunc(slices.Clone(p.Value), func(h string) bool { return h == m.SourceHost })
	if len(others) == 1 {
		return others[0]
	}
	return ""
}
