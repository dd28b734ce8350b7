package plan

import (
	"fmt"
	"slices"
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
	case s.VMState == ha.VMStopped && m.Want == ha.WantActive && !t.restoreTimedOut(m):
		return t.startArrived(m, s)
	}
	return t.leave(m, ha.MoveSucceeded, fmt.Sprintf("moved; it is %s, wanted was %s", s.VMState, m.Want))
}

// startArrived starts an instance that was active before the first try and arrived stopped, where nobody asked for that: a host that comes
// back before Nova has begun what was ordered finds its instances not running, and has Nova stop them.
func (t *turn) startArrived(m *ha.VMove, s ha.Server) bool {
	actions := t.Facts.Actions[s.ID]
	if !actions.After(t.since("restore " + s.ID)) {
		t.look(LookActions, s.ID)
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
		return false
	}
	if stoppedByUser(butMoves(actions.Value)) {
		return t.leave(m, ha.MoveSucceeded, "moved; it is stopped, by a user")
	}
	return t.restoreBy(m, s, ha.Act{Kind: ha.ActStart})
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
	t.alarm(ha.AlarmStateNotRestored, m.InstanceUUID, "instance %s moved to %s, but is %s and not %s after %s", m.InstanceUUID, s.Host, s.VMState, m.Want, t.Rules.WaitPowerOff)
	return t.leave(m, ha.MoveSucceeded, fmt.Sprintf("moved, but %s and not %s: its state could not be restored", s.VMState, m.Want))
}

// restoringSince is the moment after which a look shows the arrived instance: the last act on it, else its arrival.
func (t *turn) restoringSince(m *ha.VMove) time.Time {
	return t.Memory.Since["restored "+m.InstanceUUID]
}

// restoreTimedOut counts from when this owner began to restore.
func (t *turn) restoreTimedOut(m *ha.VMove) bool {
	return t.Now.Sub(t.since("restore "+m.InstanceUUID)) >= t.Rules.WaitPowerOff
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
	returned := t.since("returned")
	done := true
	for i := range t.moves {
		if m := &t.moves[i]; m.Status == ha.MoveIgnored && m.HA && m.PriorVM == ha.VMActive && !t.Memory.Said["left "+m.InstanceUUID] {
			if t.startedAgain(m, returned) {
				t.Memory.Said["left "+m.InstanceUUID] = true
			} else {
				done = false
			}
		}
	}
	return done
}

// startedAgain reports whether the instance needs no start, or has had it. What Nova showed before the return does not count.
func (t *turn) startedAgain(m *ha.VMove, returned time.Time) bool {
	if t.acting[m.InstanceUUID] {
		return false
	}
	since := returned
	if acted := t.restoringSince(m); acted.After(since) {
		since = acted
	}
	s, seen := t.server(m.InstanceUUID, since)
	actions := t.Facts.Actions[m.InstanceUUID]
	late := t.Now.Sub(t.since("start "+m.InstanceUUID)) >= t.Rules.WaitPowerOn // also when the host has died again under the start
	switch {
	case seen == unseen:
		return false
	case seen == gone || s.Host != m.SourceHost:
		return true
	case s.TaskState != "" && !late:
		t.look(LookServer, m.InstanceUUID)
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
		return false
	case s.TaskState == "" && s.VMState != ha.VMStopped:
		return true
	case !late && !actions.After(since):
		t.look(LookActions, m.InstanceUUID)
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
		return false
	case s.TaskState == "" && actions.After(since) && stoppedByUser(actions.Value):
		t.log(m.InstanceUUID, "stopped by a user: left stopped")
		return true
	case late:
		t.alarm(ha.AlarmNotStarted, m.InstanceUUID, "instance %s was left stopped on %s, which returned, and could not be started there", m.InstanceUUID, m.SourceHost)
		m.Message = ptr("host returned; could not be started there")
		return true
	}
	if t.act(ha.Act{Key: m.InstanceUUID, Kind: ha.ActStart, Instance: m.InstanceUUID, Host: m.SourceHost}) {
		m.Message = ptr("host returned; started there")
	}
	return false
}

// butMoves are the actions that say how an instance was before it was moved: it arrives so.
func butMoves(actions []ha.ServerAction) []ha.ServerAction {
	return slices.DeleteFunc(slices.Clone(actions), func(a ha.ServerAction) bool { return a.Action == "evacuate" || a.Action == "rebuild" })
}

// stoppedByUser reports whether the latest word on an instance's power, newest first, is a stop that somebody asked for.
// nova-compute's own clean-up after a crash leaves no action, or a stop by nobody (its periodic power sync; field finding F053).
func stoppedByUser(actions []ha.ServerAction) bool {
	for _, a := range actions {
		switch a.Action {
		case "stop":
			if a.UserID != "" {
				return true
			}
		case "start", "reboot", "create", "evacuate", "rebuild":
			return false
		}
	}
	return false
}
