package plan

import (
	"fmt"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Steps of an instance's recovery that a recovery of its host has overtaken (RECOVERY section 3, rule 7).
const (
	stepHostGates   ha.Step = "host-gates"   // before its gates
	stepHost        ha.Step = "host"         // in the middle, before the instance was seen stopped
	stepHostStopped ha.Step = "host-stopped" // after it
)

const hostTookOver = "host recovery took over"

const (
	keyHostOver = "host over" // since when no recovery of the host is at work any more
	keyMoved    = "moved "    // and a host: since when the instance is seen there
)

// overtaken reports whether a recovery of the host has begun since this one.
func (t *turn) overtaken() bool {
	return t.rec.Step == stepHostGates || t.rec.Step == stepHost || t.rec.Step == stepHostStopped
}

// vmGivesWay has the report wait for the end of the host's recovery. An instance that crashed is stopped by then, by Nova or by what was to
// start it anew, and is moved as it is, stopped; and the report of the host's death may be false, and nothing be done.
func (t *turn) vmGivesWay() {
	if t.rec.Step == "" && !t.vmOpen() {
		return
	}
	switch t.rec.Step {
	case stepHostGates, stepHostStopped:
	case ha.StepGates:
		t.rec.Step = stepHostGates
	case stepStart, stepConfirm:
		t.rec.Step = stepHostStopped
	default:
		t.rec.Step = stepHost
	}
	t.note.Status, t.rec.WakeAt = ha.StatusRunning, nil
	delete(t.Memory.Since, keyHostOver)
	t.say("waiting: a recovery of host %s is at work", t.Unit.Host.Name)
	t.park = 5 * time.Second
}

// vmMoved starts an instance that was moved while it was stopped for its restart, and ends the report.
func (t *turn) vmMoved(s ha.Server) {
	why := hostTookOver
	if !t.overtaken() {
		why = fmt.Sprintf("instance %s is on %s, not on %s", s.ID, s.Host, t.Unit.Host.Name)
	}
	since := t.since(keyMoved + s.Host)
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
		if heard, _ := t.hears(s.Host, since); !heard { // that one may have died since
			t.look(LookServices, "")
			t.look(LookServer, s.ID)
			return
		}
		t.progressOnce(ha.TaskStart, 0, "Starting instance: '%s'", s.ID)
		t.vmAct(s, ha.Act{Kind: ha.ActStart})
	}
}

// vmStayed goes on with an instance that the host's recovery has not moved, as after a report of a death that was none.
func (t *turn) vmStayed() bool {
	switch heard, known := t.hears(t.Unit.Host.Name, t.since(keyHostOver)); {
	case !known:
		return false
	case !heard:
		t.end(ha.StatusIgnored, hostTookOver)
		return false
	}
	t.say("")
	t.vmClock()
	switch t.rec.Step {
	case stepHostGates:
		return t.enter(ha.StepGates)
	case stepHostStopped:
		return t.enter(stepStart)
	default:
		return t.enter(stepStop)
	}
}

// hears reports whether Nova hears a host, by a look of after since; known once there was one. To a host that is away nothing is sent: it
// would be done on its return, wherever the instance is by then.
func (t *turn) hears(host string, since time.Time) (heard, known bool) {
	if t.Facts.Services.Err != nil || !t.Facts.Services.After(since) {
		t.look(LookServices, "")
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
		return false, false
	}
	svc, ok := t.service(host)
	return ok && svc.Up && !svc.ForcedDown, true
}
