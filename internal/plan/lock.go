package plan

import "github.com/salvor-ha/salvor/internal/ha"

func (t *turn) lockReason() string { return "salvor recovery " + t.note.UUID }

// lock waits for the lock to be seen or answered. It was decided in chosen, or by a former owner.
func (t *turn) lock(m *ha.VMove, stop string) bool {
	if t.acting[m.InstanceUUID] {
		return false
	}
	s, seen := t.server(m.InstanceUUID, m.Lost.At)
	switch {
	case seen == gone:
		m.Locked = false
		t.settle(m, ha.MoveIgnored, deleted)
		return true
	case stop != "":
		return t.leave(m, stopStatus(t.rec.Returned), stop)
	case seen == unseen:
		return false
	case s.Locked:
		return t.locked(m)
	}
	if t.act(ha.Act{Key: m.InstanceUUID, Kind: ha.ActLock, Instance: m.InstanceUUID, Host: m.SourceHost, Reason: t.lockReason()}) {
		m.Locked = true
	}
	return false
}

// mayActLate reports whether an act whose answer was lost may still be carried out.
func (t *turn) mayActLate(m *ha.VMove) bool {
	if m.Lost.At.IsZero() {
		return false
	}
	over := m.Lost.At.Add(t.Rules.OrderInDoubt)
	if !t.Now.Before(over) {
		m.Lost = ha.Lost{}
		return false
	}
	t.wakeAt(over)
	return true
}

// locked goes on once nobody but an admin can touch the instance.
func (t *turn) locked(m *ha.VMove) bool {
	m.Stage = ha.StageOrder
	if m.Attempts == 0 && needsReset(m.PriorVM) {
		m.Stage = ha.StageFit
	}
	return true
}

// unlock takes our lock away, retried until done (invariant I5). A lock whose answer was lost may come late: it is awaited.
func (t *turn) unlock(m *ha.VMove) bool {
	if t.acting[m.InstanceUUID] {
		return false
	}
	if m.Locked {
		t.act(ha.Act{Key: m.InstanceUUID, Kind: ha.ActUnlock, Instance: m.InstanceUUID, Host: m.SourceHost})
		return false
	}
	if !m.Lost.At.IsZero() && !m.WasLocked { // done only when a look after the last moment of a late lock shows none
		over := m.Lost.At.Add(t.Rules.OrderInDoubt)
		since := t.Memory.Since["unlocked "+m.InstanceUUID]
		if !t.Now.Before(over) {
			since = over
		}
		s, seen := t.server(m.InstanceUUID, since)
		switch {
		case seen == found && s.Locked:
			m.Locked = true // the late lock: take it away again
			return true
		case seen == found && since == over || seen == gone:
			m.Lost = ha.Lost{}
		default:
			t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
			return false
		}
	}
	m.Stage, m.Status = ha.StageDone, m.Outcome
	m.EndTime = ptr(t.Now)
	return false
}

// lastsLong reports whether an act that comes late does harm: a lock after the unlock, a reset after the arrival.
func lastsLong(k ha.ActKind) bool { return k == ha.ActLock || k == ha.ActResetState }
