package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

func (t *turn) lockReason() string { return "salvor recovery " + t.note.UUID }

// lock waits for the lock to be seen or answered. It was decided in chosen, or by a former owner.
func (t *turn) lock(m *ha.VMove, stop string) bool {
	if t.acting[m.InstanceUUID] {
		return false
	}
	s, seen := t.server(m.InstanceUUID, m.Lost.At)
	switch {
	case seen == gone:
		return t.leave(m, ha.MoveIgnored, deleted)
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
	over := t.doubtOver(m.Lost.At)
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
	switch {
	case t.acting[m.InstanceUUID]:
		return false
	case m.Locked:
		return t.takeLock(m)
	case !m.Lost.At.IsZero() && !m.WasLocked:
		return t.lateLock(m)
	}
	m.Stage, m.Status = ha.StageDone, m.Outcome
	m.EndTime = ptr(t.Now)
	return false
}

// takeLock sends the unlock. What Nova refuses, or calls gone, is looked at before it is sent again: gone is believed only of both, since
// the lock would stay, and somebody may have unlocked the instance by hand.
func (t *turn) takeLock(m *ha.VMove) bool {
	if at, refused := t.Memory.Since[unlockRefused+m.InstanceUUID]; refused {
		s, seen := t.server(m.InstanceUUID, at)
		if seen == unseen {
			return false
		}
		delete(t.Memory.Since, unlockRefused+m.InstanceUUID)
		if seen == gone {
			m.Lost = ha.Lost{}
		}
		if seen == gone || !s.Locked {
			t.noLock(m)
			return true
		}
	}
	t.act(ha.Act{Key: m.InstanceUUID, Kind: ha.ActUnlock, Instance: m.InstanceUUID, Host: m.SourceHost})
	return false
}

// unlockRefused and an instance: since when Nova's refusal of its unlock is to be looked at.
const unlockRefused = "unlock refused "

// unlocked digests the end of an unlock. Until one is done the recovery does not end, whoever cancels it.
func (t *turn) unlocked(m *ha.VMove, class ha.Class, o ha.Outcome) {
	switch class {
	case "":
		t.noLock(m)
		t.Memory.Since["unlocked "+m.InstanceUUID] = o.At
	case ha.ClassGone, ha.ClassRefused:
		t.Memory.Since[unlockRefused+m.InstanceUUID] = o.At
		m.Message = ptr(strings.TrimPrefix(beforeRefusal(m)+"; ", "; ") + refusesUnlock + ": " + refusal(o.Err))
		if t.Now.Sub(t.since("unlocking "+m.InstanceUUID)) > 5*time.Minute {
			t.alarm(ha.AlarmStillLocked, m.InstanceUUID, "instance %s is locked by this recovery, and Nova has refused to unlock it for 5 minutes: %s. "+
				"It is tried on; by hand: openstack server unlock %[1]s", m.InstanceUUID, refusal(o.Err))
		}
	}
}

// noLock notes that our lock is gone, and takes what was said of it out of the move's message.
func (t *turn) noLock(m *ha.VMove) {
	m.Locked = false
	if before := beforeRefusal(m); before != text(m.Message) {
		m.Message = nil
		if before != "" {
			m.Message = ptr(before)
		}
	}
}

// refusesUnlock is how a move says that Nova does not take our lock away, after what there is to say of the move itself. "salvor recovery
// explain" (internal/cli) knows it by that, and so does an owner that takes over.
const refusesUnlock = "Nova refuses to unlock it"

// beforeRefusal is what a move's message says of the move itself.
func beforeRefusal(m *ha.VMove) string {
	before, _, _ := strings.Cut(text(m.Message), refusesUnlock)
	return strings.TrimSuffix(before, "; ")
}

// refusal is what the cloud answered, in its own words, with the status; of a right that is missing also who knows which.
func refusal(err error) string {
	switch status := ha.StatusOf(err); status {
	case 0:
		return ha.TextOf(err)
	case 403:
		return ha.TextOf(err) + " (403; salvor doctor says which right is missing, and how it is given)"
	default:
		return fmt.Sprintf("%s (%d)", ha.TextOf(err), status)
	}
}

// some names instances, at most five of them.
func some(ids []string) string {
	const most = 5
	switch n := len(ids); {
	case n == 1:
		return "instance " + ids[0]
	case n > most:
		return fmt.Sprintf("%d instances (%s and %d more)", n, strings.Join(ids[:most], ", "), n-most)
	default:
		return fmt.Sprintf("%d instances (%s)", n, strings.Join(ids, ", "))
	}
}

// lateLock waits for a lock that may come after the unlock: a look after the last moment of it must show none. One that shows no
// instance proves nothing by itself: then it is unlocked once more.
func (t *turn) lateLock(m *ha.VMove) bool {
	over := t.doubtOver(m.Lost.At)
	since := t.Memory.Since["unlocked "+m.InstanceUUID]
	last := !t.Now.Before(over)
	if last && over.After(since) { // what was seen before the last unlock does not call for another
		since = over
	}
	switch s, seen := t.server(m.InstanceUUID, since); {
	case seen == found && s.Locked: // take it away again
		m.Locked = true
	case seen == found && last:
		m.Lost = ha.Lost{}
	case seen == gone && last:
		m.Locked, m.Lost = true, ha.Lost{}
	default:
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
		return false
	}
	return true
}

// lastsLong reports whether an act that comes late does harm: a lock after the unlock, a reset after the arrival.
func lastsLong(k ha.ActKind) bool { return k == ha.ActLock || k == ha.ActResetState }
