package plan

import (
	"fmt"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Steps of an instance recovery.
const (
	stepStop    ha.Step = "stop"
	stepStart   ha.Step = "start"
	stepConfirm ha.Step = "confirm"
)

// VM is the plan of a VM report (RECOVERY section 3).
func VM(v View) Decision {
	t := begin(v)
	t.heedRelease()
	for _, o := range t.Results {
		t.vmActed(o)
	}
	t.orphans()
	if !t.ended {
		for t.vmStep() {
		}
	}
	return t.decision()
}

func (t *turn) instanceID() string { return t.note.Payload[ha.KeyInstanceUUID] }

func (t *turn) vmStep() bool {
	if t.ended {
		return false
	}
	over := t.Unit.HostUnit != 0 || t.expired() || t.Unit.Wishes.CancelBy != ""
	switch {
	case over && len(t.acting) > 0: // its act in flight ends first
		return false
	case t.expired():
		t.end(ha.StatusFailed, "expired: older than %s", t.Rules.Expiry)
		return false
	case t.Unit.Wishes.CancelBy != "":
		t.end(ha.StatusFailed, "cancelled by %s", t.Unit.Wishes.CancelBy)
		return false
	case t.Unit.HostUnit != 0:
		t.vmGivesWay()
		return false
	case t.rec.Step == "":
		return t.vmOpen()
	case t.rec.Step == ha.StepWait:
		return t.vmWait()
	case t.heldByOperator() || len(t.acting) > 0:
		return false
	}
	s, seen := t.vmServer()
	switch {
	case seen == gone:
		t.end(ha.StatusIgnored, "instance %s does not exist any more", t.instanceID())
		return false
	case seen == unseen:
		return false
	case s.Host != t.Unit.Host.Name && t.rec.Step == stepHostGates && s.VMState == ha.VMStopped && s.TaskState == "":
		passed := t.vmGates(s)
		if passed {
			t.rec.Step = stepHostStopped
		}
		return passed
	case s.Host != t.Unit.Host.Name && (t.rec.Step != ha.StepGates || t.vmActedBefore()):
		t.vmMoved(s)
		return false
	case s.Host != t.Unit.Host.Name:
		t.end(ha.StatusIgnored, "instance %s is on %s, not on %s", s.ID, s.Host, t.Unit.Host.Name)
		return false
	}
	switch t.rec.Step {
	case stepHostGates, stepHost, stepHostStopped:
		return t.vmStayed()
	case ha.StepGates:
		return t.vmGates(s)
	case stepStop:
		return t.vmStop(s)
	case stepStart:
		return t.vmStart(s)
	default:
		return t.vmConfirm(s)
	}
}

const keyMissed = "no such instance"

// vmServer returns the instance as seen since the last act on it, and since its host's recovery was over.
func (t *turn) vmServer() (ha.Server, sighting) {
	one := t.Facts.Server[t.instanceID()]
	early := t.overtaken() && !one.After(t.since(keyHostOver))
	if one.Tried.IsZero() || early || !one.After(t.Memory.Since["acted"]) || one.Err != nil && ha.ClassOf(one.Err) != ha.ClassGone {
		t.look(LookServer, t.instanceID())
		t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
		if one.Err != nil {
			t.say("waiting: Nova does not answer: %s", ha.TextOf(one.Err))
		}
		return ha.Server{}, unseen
	}
	if one.Err == nil {
		delete(t.Memory.Since, keyMissed)
		return one.Value, found
	}
	if first, missed := t.Memory.Since[keyMissed]; missed && one.At.Sub(first) >= goneFor {
		return ha.Server{}, gone
	} else if !missed {
		t.Memory.Since[keyMissed] = one.At
	}
	t.vmLookAgain()
	return ha.Server{}, unseen
}

// vmOpen decides what the report itself decides.
func (t *turn) vmOpen() bool {
	switch {
	case !t.Unit.Segment.Enabled:
		t.end(ha.StatusIgnored, SegmentDisabled)
		return false
	case !t.note.Payload.VMActedOn():
		t.end(ha.StatusIgnored, "event %s / %s needs no recovery", t.note.Payload[ha.KeyEvent], t.note.Payload[ha.KeyVirDomainEvent])
		return false
	}
	t.note.Status = ha.StatusRunning
	t.rec.Attempt++
	return t.enter(ha.StepGates)
}

// vmGates makes every check before the first write (field finding F055).
func (t *turn) vmGates(s ha.Server) bool {
	if !t.knowsAggregates() {
		return false
	}
	if ok, why := t.Rules.Restarting().Restarts(s, ha.AggregatesOf(t.Facts.Aggregates.Value, s.Host)); !ok {
		return t.vmSkip(s, why)
	}
	switch {
	case s.VMState == ha.VMPaused || s.VMState == ha.VMRescued:
		t.progress(ha.TaskStop, 1, "Recovery of instance '%s' is ignored as it is in '%s' state.", s.ID, s.VMState)
		t.task(ha.TaskStop, ha.TaskReverted)
		t.end(ha.StatusIgnored, "instance %s is %s", s.ID, s.VMState)
		return false
	case s.TaskState == ha.TaskStateMigrating:
		t.say("waiting: instance %s is migrating", s.ID)
		return t.vmLookAgain()
	case s.VMState == ha.VMStopped && !t.vmActedBefore():
		actions := t.Facts.Actions[s.ID]
		if actions.At.IsZero() {
			t.look(LookActions, s.ID)
			t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
			return false
		}
		if stoppedByUser(butMoves(actions.Value)) {
			t.end(ha.StatusIgnored, "instance %s was stopped by a user", s.ID)
			return false
		}
	}
	if t.crashLoop(s) {
		return false
	}
	if s.VMState == ha.VMResized {
		t.vmAct(s, ha.Act{Kind: ha.ActResetState, State: ha.VMActive})
		return false
	}
	t.say("")
	t.progress(ha.TaskStop, 0, "Stopping instance: %s", s.ID)
	t.vmClock()
	return t.enter(stepStop)
}

// vmActedBefore reports whether this recovery has been at work before: a stop of the instance is its own, not a user's.
func (t *turn) vmActedBefore() bool { return t.rec.Attempt > 1 || t.Unit.Wishes.Retries > 0 }

func (t *turn) vmSkip(s ha.Server, why string) bool {
	t.progress(ha.TaskStop, 1, "Skipping recovery for instance: %s as it is not Ha_Enabled", s.ID)
	t.task(ha.TaskStop, ha.TaskReverted)
	t.end(ha.StatusFinished, "instance %s is %s: nothing was done", s.ID, why)
	return false
}

// crashLoop ends the report of an instance that was restarted too often of late: what starts it anew each time does not help it, and
// somebody must look. The restarts are counted from the rows of its units, so engines that die forget none.
func (t *turn) crashLoop(s ha.Server) bool {
	limit, window := t.Rules.RestartLimit, t.Rules.RestartWindow
	if limit <= 0 || t.rec.Attempt > 1 || t.Unit.Wishes.Retries > 0 {
		return false
	}
	restarts := 0
	for _, at := range t.Unit.Earlier {
		if t.Now.Sub(at) < window {
			restarts++
		}
	}
	if restarts < limit {
		return false
	}
	why := fmt.Sprintf("instance %s was restarted %d times within %s, limit %d: it is left as it is until somebody has looked", s.ID, restarts, window, limit)
	t.alarm(ha.AlarmCrashLoop, s.ID, "%s", why)
	t.progress(ha.TaskStop, 1, "Skipping recovery for instance: %s as it was restarted too often", s.ID)
	t.task(ha.TaskStop, ha.TaskReverted)
	t.end(ha.StatusIgnored, "%s", why)
	return true
}

// vmClock starts the time limit of a step. It is the row's, so that a takeover does not begin it anew.
func (t *turn) vmClock() { t.rec.StartedAt = ptr(t.Now) }

func (t *turn) vmOverdue(limit time.Duration) bool {
	t.wakeAt(t.rec.StartedAt.Add(limit))
	return t.Now.Sub(*t.rec.StartedAt) >= limit
}

func (t *turn) vmStop(s ha.Server) bool {
	if s.VMState == ha.VMStopped && s.TaskState == "" {
		t.progress(ha.TaskStop, 1, "Stopped instance: '%s'", s.ID)
		t.task(ha.TaskStop, ha.TaskSuccess)
		t.progress(ha.TaskStart, 0, "Starting instance: '%s'", s.ID)
		t.vmClock()
		return t.enter(stepStart)
	}
	if t.vmOverdue(t.Rules.WaitPowerOff) {
		t.progress(ha.TaskStop, 1, "Failed to stop instance %s", s.ID)
		return t.vmFailed(ha.TaskStop, "instance "+s.ID+" was not stopped within "+t.Rules.WaitPowerOff.String()+": it is "+s.VMState+" "+s.TaskState)
	}
	if s.TaskState == "" && !t.doubtful(ha.ActStop, s.ID) {
		t.vmAct(s, ha.Act{Kind: ha.ActStop})
		return false
	}
	return t.vmLookAgain()
}

func (t *turn) vmStart(s ha.Server) bool {
	switch {
	case s.VMState == ha.VMActive && s.TaskState == "":
		t.progress(ha.TaskStart, 1, "Instance started: '%s'", s.ID)
		t.task(ha.TaskStart, ha.TaskSuccess)
		t.progress(ha.TaskConfirmActive, 0, "Confirming instance '%s' vm_state is ACTIVE", s.ID)
		return t.enter(stepConfirm)
	case t.vmOverdue(t.Rules.WaitPowerOn):
		t.progress(ha.TaskConfirmActive, 1, "Failed to start instance %s", s.ID)
		return t.vmFailed(ha.TaskConfirmActive, "instance "+s.ID+" was not active within "+t.Rules.WaitPowerOn.String()+": it is "+s.VMState+" "+s.TaskState)
	case s.VMState == ha.VMStopped && s.TaskState == "" && !t.doubtful(ha.ActStart, s.ID):
		t.vmAct(s, ha.Act{Kind: ha.ActStart})
		return false
	case s.VMState != ha.VMStopped && s.VMState != ha.VMActive:
		t.progress(ha.TaskStart, 1, "Invalid state for Instance %s. Expected state: 'STOPPED', Actual state: '%s'", s.ID, s.VMState)
		return t.vmFailed(ha.TaskStart, "instance "+s.ID+" became "+s.VMState+" instead of active")
	}
	return t.vmLookAgain()
}

func (t *turn) vmConfirm(s ha.Server) bool {
	t.progress(ha.TaskConfirmActive, 1, "Confirmed instance '%s' vm_state is ACTIVE", s.ID)
	t.task(ha.TaskConfirmActive, ha.TaskSuccess)
	t.end(ha.StatusFinished, "")
	return false
}

func (t *turn) vmLookAgain() bool {
	t.look(LookServer, t.instanceID())
	t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
	return false
}

func (t *turn) vmAct(s ha.Server, a ha.Act) {
	a.Key, a.Instance, a.Host = s.ID, s.ID, s.Host
	t.act(a)
	t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
}

// vmActed digests the end of a stop, start or reset. A refusal means that the state is another one by now: the next look
// tells; the step's time limit ends what never succeeds (field finding F053).
func (t *turn) vmActed(o ha.Outcome) {
	class := t.outcome(o)
	t.Memory.Since["acted"] = o.At
	if class == ha.ClassRefused && ha.StatusOf(o.Err) == 409 && o.Act.Kind == ha.ActStop {
		t.progress(ha.TaskStop, 0, "Conflict when stopping instance: %s", o.Act.Instance)
	}
	switch {
	case class != ha.ClassRefused:
	case ha.StatusOf(o.Err) == 403:
		t.vmFailed(ha.TaskStop, "Nova forbids to "+describe(o.Act)+": "+refusal(o.Err))
	case o.Act.Kind == ha.ActResetState: // no time limit of a step would end it
		t.vmFailed(ha.TaskStop, "Nova refused to "+describe(o.Act)+": "+refusal(o.Err))
	}
	t.look(LookServer, t.instanceID())
}

// vmFailed ends an attempt in error: the tasks of this run end REVERTED, as Masakari's do.
func (t *turn) vmFailed(task, why string) bool {
	t.task(task, ha.TaskReverted)
	if task != ha.TaskStop {
		t.task(ha.TaskStop, ha.TaskReverted)
	}
	if task == ha.TaskConfirmActive {
		t.task(ha.TaskStart, ha.TaskReverted)
	}
	t.processFailed(why)
	return false
}

// vmWait begins the next attempt when its time has come.
func (t *turn) vmWait() bool {
	t.processWait()
	return t.rec.Step == ""
}
