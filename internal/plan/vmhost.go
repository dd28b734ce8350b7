package plan

import (
	"fmt"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// stepHost is the step of an instance's recovery that a recovery of its host has overtaken in the middle (RECOVERY section 3, rule 7).
const stepHost ha.Step = "host"

const hostTookOver = "host recovery took over"

const (
	keyHostOver = "host over" // since when no recovery of the host is at work any more
	keyMoved    = "moved"     // since when the instance is seen elsewhere
)

// vmGivesWay ends the report where nothing was found or done yet. An instance that was found crashed is stopped by now, most likely, to be
// started anew, and is moved as it is, stopped: so its report waits for the end of the host's recovery.
func (t *turn) vmGivesWay() {
	if t.rec.Step == "" || t.rec.Step == ha.StepGates {
		t.end(ha.StatusIgnored, hostTookOver)
		return
	}
	t.note.Status, t.rec.Step, t.rec.WakeAt = ha.StatusRunning, stepHost, nil
	delete(t.Memory.Since, keyHostOver)
	t.say("waiting: a recovery of host %s is at work", t.Unit.Host.Name)
	t.park = 5 * time.Second
}

// vmMoved starts an instance that was moved while it was stopped for its restart, and ends the report.
func (t *turn) vmMoved(s ha.Server) {
	why := hostTookOver
	if t.rec.Step != stepHost {
		why = fmt.Sprintf("instance %s is on %s, not on %s", s.ID, s.Host, t.Unit.Host.Name)
	}
	since := t.since(keyMoved)
	actions := t.Facts.Actions[s.ID]
	t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
	switch {
	case s.TaskState == "" && s.VMState != ha.VMStopped:
		t.end(ha.StatusIgnored, "%s", why)
	case t.Now.Sub(since) >= t.Rules.WaitPowerOn:
		t.alarm(ha.AlarmNotStarted, s.ID, "instance %s crashed, was moved stopped from %s to %s, and could not be started there", s.ID, t.Unit.Host.Name, s.Host)
		t.end(ha.StatusFailed, "%s; instance %s was not active on %s within %s: it is %s %s", why, s.ID, s.Host, t.Rules.WaitPowerOn, s.VMState, s.TaskState)
	case s.TaskState != "" || t.doubtful(ha.ActStart, s.ID):
		t.look(LookServer, s.ID)
	case !actions.After(since):
		t.look(LookActions, s.ID)
	case stoppedByUser(actions.Value): // since its move: the stop before that was this recovery's own
		t.end(ha.StatusIgnored, "%s; instance %s was stopped by a user", why, s.ID)
	default:
		t.progressOnce(ha.TaskStart, 0, "Starting instance: '%s'", s.ID)
		t.vmAct(s, ha.Act{Kind: ha.ActStart})
	}
}

// vmStayed goes on with an instance that the host's recovery has not moved, as after a report of a death that was none. To a host that is
// away nothing is sent: it would be done on its return, wherever the instance is by then.
func (t *turn) vmStayed() bool {
	if t.Facts.Services.Err != nil || !t.Facts.Services.After(t.since(keyHostOver)) {
		t.look(LookServices, "")
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
		return false
	}
	if svc, ok := t.service(t.Unit.Host.Name); !ok || !svc.Up || svc.ForcedDown {
		t.end(ha.StatusIgnored, hostTookOver)
		return false
	}
	t.say("")
	t.vmClock()
	return t.enter(stepStop)
}
