package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// move brings the instances away, or, once something stops the recovery, lets those under way end (RECOVERY section 2,
// steps 3 to 8).
func (t *turn) move() bool {
	stop := t.stopping()
	if stop != "" && t.rec.Step != ha.StepReturn {
		t.enter(ha.StepReturn)
	}
	if stop == "" && !t.rec.Prepared { // it was about to stop, and is not: notifications_expired_interval was changed
		return t.enter(ha.StepPrepare)
	}
	if !t.rec.Listed {
		if stop != "" && !(t.rec.Returned && t.rec.StartedAt != nil) {
			return t.stopped(stop)
		}
		if !t.list() { // also of a host that returned in the middle: what the crash stopped there is started
			return false
		}
	}
	held := stop == "" && t.heldByOperator()
	if held {
		t.watchOn()
	}
	may := stop == "" && !held && t.stillDead()
	if stop == "" && t.rec.Returned {
		return true // it was heard long enough to count as returned
	}
	if stop == "" && t.forceDownAgain() {
		may = false
	}
	for i := range t.moves {
		t.instance(&t.moves[i], may, stop)
	}
	if t.unended() > 0 {
		t.keepLooking()
		t.sayWaiting()
		return false
	}
	if t.endedLate() {
		return true
	}
	if stop != "" {
		return t.stopped(stop)
	}
	return t.verdict()
}

// endedLate goes on with moves that were given up with their order under way and whose order has ended since: the verdict is by the latest
// state of each instance (step 8). Once per owner and instance; a record that says done while the instance is still here waits on.
func (t *turn) endedLate() (any bool) {
	for i := range t.moves {
		m := &t.moves[i]
		if m.Status != ha.MoveFailed || !m.Order.Open() || t.Memory.Said["ended late "+m.InstanceUUID] {
			continue
		}
		if r := t.record(m); r == nil || r.UnderWay() || r.Done() && t.listed(m.InstanceUUID) != nil {
			continue
		}
		t.Memory.Said["ended late "+m.InstanceUUID] = true
		t.log(m.InstanceUUID, "its order has ended after all")
		m.Status, m.Stage, m.Outcome, m.Message, m.EndTime = ha.MoveOngoing, ha.StageOrdered, "", nil, nil
		m.Order.At = t.Now // only its arrival is awaited
		any = true
	}
	return any
}

// forceDownAgain puts forced_down again whenever a look shows it gone (RECOVERY section 4).
func (t *turn) forceDownAgain() bool {
	svc, ok := t.service(t.Unit.Host.Name)
	if !ok || !t.Rules.ForceDown || svc.ForcedDown {
		return false
	}
	if c, claimed := t.claim(t.Unit.HostUUID, ha.WhatForcedDown, ha.ReasonRecovery); claimed && !t.Facts.Services.After(c.Since) {
		return false
	}
	if svc.Up { // somebody says that the host is back: only its silence proves that it is not
		t.rec.ProofAt = time.Time{}
	}
	t.hold(ha.GateProof, fmt.Sprintf("forced_down of %s is gone: putting it again", svc.Host))
	t.putService(svc)
	return true
}

// list takes the first list of the host's servers, after it was forced down. An empty list is believed if seen twice.
func (t *turn) list() bool {
	since := t.claimedSince()
	if !t.Facts.Servers.After(since) || !t.Facts.Migrations.After(since) {
		t.keepLooking()
		return false
	}
	if !t.knowsAggregates() {
		return false
	}
	if len(t.Facts.Servers.Value) == 0 {
		if t.Memory.EmptySeen == 0 {
			t.Memory.EmptySeen = t.Facts.Lists + 1
		}
		if t.Facts.Lists < t.Memory.EmptySeen {
			t.keepLooking()
			return false
		}
	}
	t.rec.Listed = true
	t.progress(ha.TaskPrepare, 0, "Preparing instances for evacuation")
	t.progress(ha.TaskPrepare, 0.3, "Total instances running on failed host '%s' is %d", t.Unit.Host.Name, len(t.Facts.Servers.Value))
	t.choose(t.Facts.Servers.Value)
	t.progressOfChoice()
	return true
}

// claimedSince is when the host was claimed: a look that started earlier may show it as it was before.
func (t *turn) claimedSince() time.Time {
	for _, c := range t.ownClaims() {
		if c.What == ha.WhatForcedDown && c.Reason == ha.ReasonRecovery && c.WorkID == t.Unit.ID {
			return c.Since
		}
	}
	if t.rec.StartedAt != nil {
		return *t.rec.StartedAt
	}
	return time.Time{}
}

// choose makes a vmove of every server that has none: chosen, or ignored with the reason (invariant I3).
func (t *turn) choose(servers []ha.Server) (added int) {
	known := map[string]bool{}
	for _, m := range t.moves {
		known[m.InstanceUUID] = true
	}
	choice, on := t.Rules.Choice(), ha.AggregatesOf(t.Facts.Aggregates.Value, t.Unit.Host.Name)
	for _, s := range servers {
		if known[s.ID] { // also one that a list has twice, as pages may overlap
			continue
		}
		known[s.ID] = true
		added++
		m := ha.VMove{
			UUID:             ha.MoveUUID(t.note.UUID, s.ID),
			NotificationUUID: t.note.UUID, InstanceUUID: s.ID, InstanceName: s.Name, SourceHost: t.Unit.Host.Name,
			Type: ha.MoveEvacuation, Status: ha.MovePending, Stage: ha.StageChosen,
			Born: s.CreatedAt, PriorVM: s.VMState, PriorOn: s.Running, Want: wanted(s),
		}
		fate := choice.Decide(s, on)
		m.HA, m.Priority = fate.HA, fate.Priority
		switch {
		case fate.Move:
		case fate.SetError:
			m.Stage, m.Message = ha.StageError, ptr(fate.Why)
		default:
			t.settle(&m, ha.MoveIgnored, fate.Why)
		}
		t.moves = append(t.moves, m)
	}
	// The rows keep the order in which instances are ordered; those stored already stay where the owner finds them.
	fresh := t.moves[len(t.moves)-added:]
	ha.SortMoves(fresh)
	return added
}

// wanted is the state that the instance is to have afterwards (table in RECOVERY section 2).
func wanted(s ha.Server) ha.Want {
	switch s.VMState {
	case ha.VMActive:
		return ha.WantActive
	case ha.VMError:
		return ha.WantError
	case ha.VMResized:
		if s.Running {
			return ha.WantActive
		}
		return ha.WantStopped
	default: // stopped, paused, suspended, rescued and whatever else Nova refuses
		return ha.WantStopped
	}
}

// deleted is the reason of a move whose instance is gone.
const deleted = "deleted"

// settle ends a move that needs no unlock.
func (t *turn) settle(m *ha.VMove, s ha.MoveStatus, why string) {
	m.Stage, m.Status, m.Outcome = ha.StageDone, s, s
	m.NotBefore = nil
	if why != "" {
		m.Message = ptr(why)
	}
	if m.StartTime != nil {
		m.EndTime = ptr(t.Now)
	}
}

// reopen readies a failed move for another attempt. An order whose end is not known stays with it.
func (t *turn) reopen(m *ha.VMove) {
	m.Status, m.Stage, m.Outcome, m.Message, m.EndTime = ha.MovePending, ha.StageChosen, "", nil, nil
	m.Pass, m.RefusedBy, m.NotBefore, m.Waits, m.Final = 0, "", nil, 0, false
}

// unended counts the moves that need another turn.
func (t *turn) unended() (n int) {
	for _, m := range t.moves {
		if m.Stage != ha.StageDone {
			n++
		}
	}
	return n
}

// keepLooking asks for the lists that all instances of the host share.
func (t *turn) keepLooking() {
	t.look(LookServers, "")
	t.look(LookMigrations, "")
	t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
}

// verdict judges the latest state of each instance, once nothing on the host is unaccounted for (steps 3 and 8).
func (t *turn) verdict() bool {
	if !t.Facts.Servers.After(t.lastEnd()) {
		t.keepLooking()
		return false
	}
	if !t.knowsAggregates() {
		return false
	}
	if t.undeleted() {
		return true
	}
	if t.choose(t.Facts.Servers.Value) > 0 {
		t.log("", "more instances were found on %s", t.Unit.Host.Name)
		return true
	}
	if !t.returnUnused() {
		return false
	}
	var failed []ha.VMove
	moved := []string{}
	for _, m := range t.moves {
		switch m.Status {
		case ha.MoveFailed:
			failed = append(failed, m)
		case ha.MoveSucceeded:
			moved = append(moved, m.InstanceUUID)
		}
	}
	t.progressOfVerdict(moved, failed)
	if len(failed) == 0 {
		t.finish(ha.StatusFinished, "")
		return false
	}
	t.attemptFailed(fmt.Sprintf("%d of %d instances were not moved", len(failed), len(t.moves)))
	return !t.ended
}

// undeleted reopens moves that a 404 had ended though the host's list still shows the instance: Nova, or a proxy, was wrong.
func (t *turn) undeleted() (any bool) {
	for i := range t.moves {
		m := &t.moves[i]
		if m.Status != ha.MoveIgnored || text(m.Message) != deleted {
			continue
		}
		if t.listed(m.InstanceUUID) != nil {
			t.log(m.InstanceUUID, "Nova said that it was deleted, and still lists it")
			t.reopen(m)
			any = true
		}
	}
	return any
}

// lastEnd is when the last move ended, or the host was claimed.
func (t *turn) lastEnd() time.Time {
	last := t.claimedSince()
	for _, m := range t.moves {
		if m.EndTime != nil && m.EndTime.After(last) {
			last = *m.EndTime
		}
	}
	return last
}

// stopped is the verdict after a return, a cancel or expiry: nothing is under way any more.
func (t *turn) stopped(why string) bool {
	if len(t.acting) > 0 {
		return false
	}
	if t.rec.Returned && !t.startLeft() || !t.rec.Returned && !t.nameLate() || !t.returnUnused() {
		return false
	}
	has := func(s ha.MoveStatus) bool {
		return slices.ContainsFunc(t.moves, func(m ha.VMove) bool { return m.Status == s })
	}
	switch {
	case !t.rec.Returned || has(ha.MoveFailed):
		t.finish(ha.StatusFailed, why)
	case has(ha.MoveSucceeded):
		t.finish(ha.StatusFinished, why)
	default:
		t.finish(ha.StatusIgnored, why)
	}
	return false
}

// nameLate makes moves of what came to the host since its list, such as an instance whose order waited there: the verdict, which would
// have found it, is not reached any more, and it must be named (invariant I3). False until a first look has ended, well or not.
func (t *turn) nameLate() bool {
	if !t.rec.Listed {
		return true
	}
	if t.Facts.Servers.Tried.IsZero() {
		t.keepLooking()
		return false
	}
	if t.choose(t.Facts.Servers.Value) > 0 {
		t.log("", "more instances were found on %s", t.Unit.Host.Name)
	}
	return true
}

// sayWaiting tells what the recovery waits for, when all that is left waits.
func (t *turn) sayWaiting() {
	if t.rec.HeldAt != "" {
		return
	}
	var reasons, locked, deaf []string
	refused := ""
	for _, m := range t.moves {
		if m.Stage == ha.StageDone {
			continue
		}
		why := text(m.Message)
		if _, answer, is := strings.Cut(why, refusesUnlock); is {
			locked, refused = append(locked, m.InstanceUUID), answer
			continue
		}
		if why == "" && t.Memory.Tries[m.InstanceUUID] > 1 {
			deaf = append(deaf, m.InstanceUUID)
			continue
		}
		if why == "" {
			t.say("")
			return
		}
		if !slices.Contains(reasons, why) && len(reasons) < 5 {
			reasons = append(reasons, why)
		}
	}
	if len(locked) > 0 {
		reasons = append(reasons, "Nova refuses to unlock "+some(locked)+", locked by this recovery"+refused)
	}
	if len(deaf) > 0 {
		reasons = append(reasons, "waiting: Nova does not take what it is asked for "+some(deaf)+", or does not answer: it is tried on, and salvor recovery show has its answers")
	}
	t.say("%s", strings.Join(reasons, "; "))
}

func (t *turn) progressOfChoice() {
	var chosen, haOn []string
	for _, m := range t.moves {
		if m.Status == ha.MoveIgnored && m.PriorVM == ha.VMError && t.Rules.IgnoreError {
			t.progress(ha.TaskPrepare, 0.4, "Ignoring recovery of HA_Enabled instance '%s' as it is in 'error' state.", m.InstanceUUID)
		}
		if m.Stage == ha.StageDone || m.Stage == ha.StageError {
			continue
		}
		chosen = append(chosen, m.InstanceUUID)
		if m.HA {
			haOn = append(haOn, m.InstanceUUID)
		}
	}
	t.progress(ha.TaskPrepare, 0.6, "Total HA Enabled instances count: '%d'", len(haOn))
	if t.Rules.EvacuateAll {
		t.progress(ha.TaskPrepare, 0.7, "Total Non-HA Enabled instances count: '%d'", len(chosen)-len(haOn))
		t.progress(ha.TaskPrepare, 0.8, "All instances (HA Enabled/Non-HA Enabled) should be considered for evacuation. Total count is: '%d'", len(chosen))
	}
	if len(chosen) == 0 {
		t.progress(ha.TaskPrepare, 1, "Skipped host '%s' recovery as no instances needs to be evacuated", t.Unit.Host.Name)
		t.task(ha.TaskDisableService, ha.TaskReverted)
		t.task(ha.TaskPrepare, ha.TaskReverted)
		return
	}
	t.progress(ha.TaskPrepare, 1, "Instances to be evacuated are: '%s'", strings.Join(chosen, ","))
	t.task(ha.TaskPrepare, ha.TaskSuccess)
	t.progress(ha.TaskEvacuate, 0, "Start evacuation of instances from failed host '%s', instance uuids are: '%s'", t.Unit.Host.Name, strings.Join(chosen, ","))
}

func (t *turn) progressOfVerdict(moved []string, failed []ha.VMove) {
	if len(moved)+len(failed) == 0 {
		return
	}
	host := t.Unit.Host.Name
	if len(moved) > 0 {
		t.progress(ha.TaskEvacuate, 0.7, "Successfully evacuate instances '%s' from host '%s'", strings.Join(moved, ","), host)
	}
	state := ha.TaskSuccess
	if len(failed) > 0 {
		ids := make([]string, len(failed))
		for i, m := range failed {
			ids[i] = m.InstanceUUID
		}
		t.progress(ha.TaskEvacuate, 0.7, "Failed to evacuate instances '%s' from host '%s'", strings.Join(ids, ","), host)
		state = ha.TaskReverted
	}
	t.progress(ha.TaskEvacuate, 1, "Evacuation process completed!")
	if state == ha.TaskReverted {
		t.task(ha.TaskDisableService, state)
		t.task(ha.TaskPrepare, state)
	}
	t.task(ha.TaskEvacuate, state)
}
