package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// instance takes one instance as far as it can go without waiting (RECOVERY section 2, step 7). may says that orders may be
// sent now; stop, why nothing new is begun any more.
func (t *turn) instance(m *ha.VMove, may bool, stop string) {
	for t.instanceStep(m, may, stop) {
	}
}

func (t *turn) instanceStep(m *ha.VMove, may bool, stop string) bool {
	switch m.Stage {
	case ha.StageChosen:
		return t.chosen(m, may, stop)
	case ha.StageLock:
		return t.lock(m, stop)
	case ha.StageFit:
		return t.fit(m, may, stop)
	case ha.StageOrder:
		return t.order(m, may, stop)
	case ha.StageOrdered:
		return t.confirm(m)
	case ha.StageRestore:
		return t.restore(m)
	case ha.StageUnlock:
		return t.unlock(m)
	case ha.StageError:
		return t.setError(m, may, stop)
	default:
		return false
	}
}

// asked reports whether an operator has looked at the instance and wants it ordered, whatever became of what was tried.
func (t *turn) asked(m *ha.VMove) bool {
	return m.StartTime != nil && (m.RetryDone > 0 || t.rec.Retried > 0)
}

// chosen begins, once nothing of an earlier attempt is under way.
func (t *turn) chosen(m *ha.VMove, may bool, stop string) bool {
	if m.Order.Open() {
		return t.lookBack(m, stop)
	}
	if stop != "" {
		t.settle(m, stopStatus(t.rec.Returned), stop)
		return true
	}
	if !may || t.awaitsOthers(m) || t.crowded() {
		return false
	}
	s, seen := t.server(m.InstanceUUID, time.Time{})
	switch seen {
	case unseen:
		return false
	case gone:
		t.settle(m, ha.MoveIgnored, deleted)
		return true
	}
	if where := t.migrating(s); where != "" && !t.asked(m) {
		t.alarm(ha.AlarmLiveMigration, m.InstanceUUID, "instance %s was in a live migration when %s died: it may run on %s; look, then retry it by hand", m.InstanceUUID, m.SourceHost, where)
		m.Final, m.StartTime = true, ptr(t.Now)
		t.settle(m, ha.MoveFailed, "may run on "+where+": a live migration had not ended")
		return true
	}
	if s.Host != m.SourceHost {
		t.settle(m, ha.MoveIgnored, "is on "+s.Host+" already")
		return true
	}
	m.Status, m.Message = ha.MoveOngoing, nil
	if m.StartTime == nil {
		m.StartTime = ptr(t.Now)
	}
	m.Stage = ha.StageLock
	if m.WasLocked = s.Locked && !m.Locked; m.WasLocked {
		return t.locked(m)
	}
	if t.act(ha.Act{Key: m.InstanceUUID, Kind: ha.ActLock, Instance: m.InstanceUUID, Host: m.SourceHost, Reason: t.lockReason()}) {
		m.Locked = true
	}
	return false
}

// stopStatus is what becomes of an instance that was not ordered when the recovery stopped.
func stopStatus(returned bool) ha.MoveStatus {
	if returned {
		return ha.MoveIgnored
	}
	return ha.MoveFailed
}

// crowded reports whether as many evacuations are under way as the operator allows per host.
func (t *turn) crowded() bool {
	if t.Rules.Threads <= 0 {
		return false
	}
	busy := 0
	for _, m := range t.moves {
		switch m.Stage {
		case ha.StageLock, ha.StageFit, ha.StageOrdered, ha.StageRestore, ha.StageUnlock:
			busy++
		case ha.StageOrder:
			if m.NotBefore == nil {
				busy++
			}
		}
	}
	return busy >= t.Rules.Threads
}

// migrating names where else the server may run, "" when no live migration was under way. One that the server was moved after has ended,
// though its record may say for ever that it runs.
func (t *turn) migrating(s ha.Server) string {
	var moved int64
	for _, r := range t.records(s.ID) {
		if r.Done() {
			moved = max(moved, r.ID)
		}
	}
	for _, r := range t.records(s.ID) {
		if r.Type == ha.MigrationLiveMigration && r.UnderWay() && r.ID > moved {
			if r.Dest == "" {
				return "another host"
			}
			return r.Dest
		}
	}
	if s.TaskState == ha.TaskStateMigrating {
		return "another host"
	}
	return ""
}

// needsReset reports whether Nova refuses to evacuate in this vm_state (NOVA-OBSERVATIONS, 409).
func needsReset(vmState string) bool {
	switch vmState {
	case ha.VMActive, ha.VMStopped, ha.VMError:
		return false
	}
	return true
}

// fit resets the state to error, in which Nova takes the order. Like an order, it is sent only while the host is known to be off.
func (t *turn) fit(m *ha.VMove, may bool, stop string) bool {
	if t.acting[m.InstanceUUID] {
		return false
	}
	if stop != "" {
		return t.leave(m, stopStatus(t.rec.Returned), stop)
	}
	// A late reset would wreck the arrived instance: wait for its effect, or until it cannot come any more.
	if m.Lost.Act == ha.ActResetState && t.mayActLate(m) {
		s, seen := t.server(m.InstanceUUID, m.Lost.At)
		if seen != found || s.VMState != ha.VMError {
			return false
		}
		m.Lost.Act = ha.ActLock // what was lost before it may still come: the unlock waits for that
		m.Stage = ha.StageOrder
		return true
	}
	if !may {
		return false
	}
	if again, ok := t.stillHere(m); !ok {
		return again
	}
	t.act(ha.Act{Key: m.InstanceUUID, Kind: ha.ActResetState, Instance: m.InstanceUUID, Host: m.SourceHost, State: ha.VMError})
	return false
}

// listsStand is how old the host's lists may be when an order is sent by them: somebody may have ordered by hand since. Where each takes as
// long as a call may, the older is half as old when both have come.
func (t *turn) listsStand() time.Duration { return max(2*time.Minute, 4*t.Rules.NovaTimeout) }

// youngLists reports whether the host's lists are young enough to act by them; else it has them asked for again, and says why they are not.
func (t *turn) youngLists() (why string, young bool) {
	old := t.Now.Add(-t.listsStand())
	if t.Facts.Migrations.After(old) && t.Facts.Servers.After(old) {
		return "", true
	}
	t.keepLooking()
	if err := cmp.Or(t.Facts.Migrations.Err, t.Facts.Servers.Err); err != nil {
		return "waiting: Nova does not list what is on the host, or under way: " + ha.TextOf(err), false
	}
	if !t.Facts.Migrations.At.IsZero() && !t.Facts.Servers.At.IsZero() {
		return "waiting: Nova has not listed lately what is on the host, and under way", false
	}
	return "", false
}

// stillHere reports whether young lists show the instance where it was, and nobody's order for it under way: somebody may have ordered, or
// moved it, by hand while this recovery was held.
func (t *turn) stillHere(m *ha.VMove) (again, ok bool) {
	if why, young := t.youngLists(); !young {
		if why != "" {
			m.Message = ptr(why)
		}
		return false, false
	}
	switch s, seen := t.server(m.InstanceUUID, time.Time{}); {
	case seen == unseen:
		return false, false
	case seen == gone:
		return t.leave(m, ha.MoveIgnored, deleted), false
	case s.Host != m.SourceHost:
		return t.leave(m, ha.MoveIgnored, "is on "+s.Host+" already"), false
	}
	if r := t.othersOrder(m); r != nil {
		return t.follow(m, r), false
	}
	return false, true
}

// order sends the one order that must never be sent twice (invariants I2, I4).
func (t *turn) order(m *ha.VMove, may bool, stop string) bool {
	if t.acting[m.InstanceUUID] {
		return false
	}
	if stop != "" {
		return t.leave(m, stopStatus(t.rec.Returned), stop)
	}
	if m.NotBefore != nil {
		t.watchForRoom()
		if m.NotBefore != nil && t.Now.Before(*m.NotBefore) {
			t.wakeAt(*m.NotBefore)
			return false
		}
		m.NotBefore, m.Message = nil, nil
	}
	if !may {
		return false
	}
	if again, ok := t.stillHere(m); !ok {
		return again
	}
	r := t.lastOrder(m)
	if r != nil && !r.UnderWay() {
		r = nil
	}
	if r != nil && !t.asked(m) {
		// It was given up as its destination was off, and making the instance fit took time: it must be so still (invariant I4).
		if dest := t.destination(m, r); !t.destinationOff(dest) {
			m.Message = ptr(fmt.Sprintf("%s, to %s: waiting until it ends, or that host is silent", stillUnderWay, named(dest)))
			t.keepLooking()
			t.look(LookServices, "")
			t.wakeAt(t.Now.Add(5 * time.Second))
			return false
		}
	}
	target := ""
	if t.pass(m) == ha.PassReserved {
		var ready bool
		if target, ready = t.target(m); !ready {
			return m.NotBefore != nil || t.pass(m) != ha.PassReserved
		}
	}
	if t.act(ha.Act{Key: m.InstanceUUID, Kind: ha.ActEvacuate, Instance: m.InstanceUUID, Host: m.SourceHost, Target: target}) {
		t.leaveStale(m, r)
		m.Order = ha.Order{At: t.Now, Base: t.lastRecord(m), Target: target}
		m.Attempts, m.Message = m.Attempts+1, nil
		m.Stage = ha.StageOrdered
		t.progress(ha.TaskEvacuate, 0.5, "Evacuation of instance started: '%s'", m.InstanceUUID)
	}
	return false
}

func (t *turn) pass(m *ha.VMove) ha.Pass {
	passes := t.Unit.Segment.RecoveryMethod.Passes()
	return passes[min(m.Pass, len(passes)-1)]
}

// lastRecord is the highest migration id of the instance that is known.
func (t *turn) lastRecord(m *ha.VMove) int64 {
	last := max(m.Order.Base, m.Order.Record)
	for _, r := range t.records(m.InstanceUUID) {
		last = max(last, r.ID)
	}
	return last
}

// ordered digests Nova's answer to an order.
func (t *turn) ordered(m *ha.VMove, o ha.Outcome) {
	class := t.outcome(o)
	if m.Stage != ha.StageOrdered {
		return // its record told first
	}
	said := ha.TextOf(o.Err)
	switch class {
	case "":
		m.Order.Answered = true
		return
	case ha.ClassInDoubt:
		t.log(m.InstanceUUID, "the answer to the order was lost: waiting for its record")
		return
	}
	m.Attempts--
	m.Order = ha.Order{Record: m.Order.Record, Base: m.Order.Base, Target: m.Order.Target}
	m.Stage = ha.StageOrder
	status := ha.StatusOf(o.Err)
	switch {
	case class == ha.ClassBusy || class == ha.ClassNotSent:
	case class == ha.ClassGone && m.Order.Target != "" && strings.Contains(said, m.Order.Target):
		t.refusedBy(m, said)
	case class == ha.ClassGone:
		t.leave(m, ha.MoveIgnored, deleted)
	case status == 400 && strings.Contains(said, "still in use"):
		t.rec.ProofAt = time.Time{} // Nova calls the host up again: force down and prove anew
		t.look(LookServices, "")
	case status == 409 && m.PriorVM != ha.VMError && !t.Memory.Said["reset "+m.InstanceUUID]:
		t.Memory.Said["reset "+m.InstanceUUID] = true
		t.log(m.InstanceUUID, "Nova refused the order (%s): resetting its state to error first", said)
		m.Stage = ha.StageFit
	case m.Order.Target != "" && status == 400:
		t.refusedBy(m, said)
	default:
		m.Final = true
		t.leave(m, ha.MoveFailed, "Nova refused the order: "+refusal(o.Err))
	}
}

// leave ends a move that may hold our lock: the outcome is known, the unlock comes next.
func (t *turn) leave(m *ha.VMove, s ha.MoveStatus, why string) bool {
	m.Outcome, m.Stage, m.NotBefore = s, ha.StageUnlock, nil
	m.Message = nil
	if why != "" {
		m.Message = ptr(why)
	}
	return true
}

// acted digests the end of any act on an instance.
func (t *turn) acted(m *ha.VMove, o ha.Outcome) {
	if o.Act.Kind == ha.ActEvacuate {
		t.ordered(m, o)
		return
	}
	class := t.outcome(o)
	if class == ha.ClassInDoubt && lastsLong(o.Act.Kind) {
		m.Lost = ha.Lost{Act: o.Act.Kind, At: o.At}
	}
	switch o.Act.Kind {
	case ha.ActLock:
		switch {
		case m.Stage != ha.StageLock:
		case class == "":
			t.locked(m)
		case class == ha.ClassGone:
			m.Locked = m.Lost.Act == ha.ActLock // one whose answer was lost may have been done
			t.leave(m, ha.MoveIgnored, deleted)
		case class == ha.ClassRefused: // better an order without a lock than none
			m.Locked = m.Lost.Act == ha.ActLock
			t.log(m.InstanceUUID, "could not be locked: %s", refusal(o.Err))
			t.locked(m)
		case class == ha.ClassNotSent || class == ha.ClassBusy:
			m.Locked = m.Lost.Act == ha.ActLock
		}
	case ha.ActUnlock:
		t.unlocked(m, class, o)
	case ha.ActResetState:
		switch {
		case m.Stage == ha.StageError:
			t.errorSet(m, class, o)
		case m.Stage != ha.StageFit:
		case class == "":
			m.Stage = ha.StageOrder
		case class == ha.ClassGone:
			t.leave(m, ha.MoveIgnored, deleted)
		case class == ha.ClassRefused:
			m.Final = true
			t.leave(m, ha.MoveFailed, "Nova refused to reset its state: "+refusal(o.Err))
		}
	}
}

// digestHost digests the outcomes of a host recovery's acts.
func (t *turn) digestHost() {
	for _, o := range t.Results {
		switch o.Act.Kind {
		case ha.ActService:
			if o.Act.Host == t.Unit.Host.Name {
				t.servicePut(o)
			} else {
				t.reservedPut(o)
			}
		case ha.ActAggregateAdd, ha.ActAggregateRemove:
			t.aggregateChanged(o)
		case ha.ActFence:
			t.fenceEnded(o)
		default:
			i := slices.IndexFunc(t.moves, func(m ha.VMove) bool { return m.InstanceUUID == o.Act.Instance })
			if i < 0 {
				t.outcome(o)
				continue
			}
			if o.Act.Kind == ha.ActStart || o.Act.Kind == ha.ActStop || o.Act.Kind == ha.ActResetState && t.moves[i].Stage == ha.StageRestore {
				t.restored(&t.moves[i], o)
				continue
			}
			t.acted(&t.moves[i], o)
		}
	}
	t.Results = nil
}

// waitForRoom makes a move wait for a destination: no attempt is used up (RECOVERY section 5).
func (t *turn) waitForRoom(m *ha.VMove, why string) {
	m.Waits++
	wait := min(5*time.Minute, 15*time.Second<<min(m.Waits-1, 8))
	m.NotBefore = ptr(t.Now.Add(wait))
	m.Message = ptr(fmt.Sprintf("waiting for room: %s", why))
	m.Stage = ha.StageOrder
	t.Memory.Room = t.room()
}

// room lists the hosts that could take instances.
func (t *turn) room() []string {
	var hosts []string
	for _, s := range t.Facts.Services.Value {
		if s.Binary == ha.BinaryCompute && s.Up && s.Enabled && s.Host != t.Unit.Host.Name {
			hosts = append(hosts, s.Host)
		}
	}
	return hosts
}

// watchForRoom ends the waits early when a host has come that was not there before.
func (t *turn) watchForRoom() {
	t.look(LookServices, "")
	t.reloadAfter(5 * time.Second)
	t.wakeAt(t.Now.Add(5 * time.Second))
	for _, h := range t.room() {
		if !slices.Contains(t.Memory.Room, h) {
			t.Memory.Room = t.room()
			for i := range t.moves {
				t.moves[i].NotBefore = nil
			}
			return
		}
	}
}
