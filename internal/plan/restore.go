package plan

import (
	"fmt"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// restore brings an arrived instance into the state that it had before the first try (table in RECOVERY section 2). A state
// that no evacuation gives is somebody's will: it is noted and left.
func (t *turn) restore(m *ha.VMove) bool {
	if t.acting[m.InstanceUUID] {
		return false
	}
	s, seen := t.server(m.InstanceUUID, t.restoringSince(m))
	switch {
	case seen == gone:
		return t.leave(m, ha.MoveSucceeded, "moved, and deleted since")
	case seen == unseen:
		return false
	case s.TaskState != "":
		return t.restoreLater(m, s)
	}
	switch {
	case reached(m.Want, s.VMState):
		return t.leave(m, ha.MoveSucceeded, "")
	case s.VMState == ha.VMActive && m.Want != ha.WantActive:
		return t.restoreBy(m, s, ha.Act{Kind: ha.ActStop})
	case s.VMState == ha.VMStopped && m.Want == ha.WantError:
		return t.restoreBy(m, s, ha.Act{Kind: ha.ActResetState, State: ha.VMError})
	}
	return t.leave(m, ha.MoveSucceeded, fmt.Sprintf("moved; it is %s, wanted was %s", s.VMState, m.Want))
}

func reached(w ha.Want, vmState string) bool { return string(w) == vmState }

// restoreBy sends an act that brings the instance nearer to what is wanted, while there is time.
func (t *turn) restoreBy(m *ha.VMove, s ha.Server, a ha.Act) bool {
	if t.restoreTimedOut(m) {
		return t.restoreLater(m, s)
	}
	a.Key, a.Instance, a.Host = m.InstanceUUID, m.InstanceUUID, s.Host
	t.act(a)
	t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
	return false
}

// restoreLater waits for a task to end; after WaitPowerOff the instance, which has moved, is left as it is, and named.
func (t *turn) restoreLater(m *ha.VMove, s ha.Server) bool {
	if !t.restoreTimedOut(m) {
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
		t.look(LookServer, m.InstanceUUID)
		return false
	}
	t.alarm(m.InstanceUUID, "instance %s moved to %s, but is %s and not %s after %s", m.InstanceUUID, s.Host, s.VMState, m.Want, t.Rules.WaitPowerOff)
	return t.leave(m, ha.MoveSucceeded, fmt.Sprintf("moved, but %s and not %s: its state could not be restored", s.VMState, m.Want))
}

// restoringSince is the moment after which a look shows the arrived instance: the last act on it, else its arrival.
func (t *turn) restoringSince(m *ha.VMove) time.Time {
	return t.Memory.Since["restored "+m.InstanceUUID]
}

// restoreTimedOut counts from when this owner began to restore.
func (t *turn) restoreTimedOut(m *ha.VMove) bool {
	key := "restore " + m.InstanceUUID
	since, ok := t.Memory.Since[key]
	if !ok {
		t.Memory.Since[key] = t.Now
		return false
	}
	return t.Now.Sub(since) >= t.Rules.WaitPowerOff
}

// restored digests the end of a stop, a start or a reset on an arrived instance. A refusal means that its state is another
// one by now: the next look tells which (field finding F053).
func (t *turn) restored(m *ha.VMove, o ha.Outcome) {
	t.outcome(o)
	t.Memory.Since["restored "+m.InstanceUUID] = o.At
	t.look(LookServer, m.InstanceUUID)
	t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
}

// startLeft starts, on a host that came back in the middle of its recovery, the HA instances that were left there and that Nova
// shows stopped without a user's stop (RECOVERY section 2). True when nothing is left to do.
func (t *turn) startLeft() bool {
	done := true
	for i := range t.moves {
		m := &t.moves[i]
		if m.Status != ha.MoveIgnored || !m.HA || m.PriorVM != ha.VMActive || t.Memory.Said["left "+m.InstanceUUID] {
			continue
		}
		if t.acting[m.InstanceUUID] {
			done = false
			continue
		}
		s, seen := t.server(m.InstanceUUID, t.lastEnd())
		switch {
		case seen == unseen:
			done = false
			continue
		case seen == gone || s.VMState != ha.VMStopped || s.Host != m.SourceHost:
		case s.TaskState != "":
			done = false
			t.look(LookServer, m.InstanceUUID)
			continue
		case !t.Facts.Actions[m.InstanceUUID].After(t.lastEnd()):
			t.look(LookActions, m.InstanceUUID)
			t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
			done = false
			continue
		case stoppedByUser(t.Facts.Actions[m.InstanceUUID].Value):
			t.log(m.InstanceUUID, "stopped by a user: left stopped")
		default:
			t.act(ha.Act{Key: m.InstanceUUID, Kind: ha.ActStart, Instance: m.InstanceUUID, Host: m.SourceHost})
			m.Message = ptr("host returned; started there")
			done = false
			t.Memory.Said["left "+m.InstanceUUID] = true
			continue
		}
		t.Memory.Said["left "+m.InstanceUUID] = true
	}
	return done
}

// stoppedByUser reports whether the latest word on an instance's power, newest first, is a stop that somebody asked for.
// nova-compute's own clean-up after a crash leaves no action.
func stoppedByUser(actions []ha.ServerAction) bool {
	for _, a := range actions {
		switch a.Action {
		case "stop":
			return true
		case "start", "reboot", "create", "evacuate", "rebuild":
			return false
		}
	}
	return false
}
