package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Host is the plan of a COMPUTE_HOST report (RECOVERY section 2).
func Host(v View) Decision {
	t := begin(v)
	t.heedWishes() // before what may end the unit: a wish that was loaded must not be lost with it
	t.digestHost()
	t.orphans()
	if !t.ended { // what is queued behind a unit that has ended begins one of its own
		t.heedQueue()
	}
	if !t.ended && t.note.Payload.Started() {
		t.hostStarted()
		return t.decision()
	}
	for again := true; again && !t.ended; {
		again = t.hostStep()
	}
	return t.decision()
}

// hostStep takes one step; true when the next can follow at once.
func (t *turn) hostStep() bool {
	switch t.rec.Step {
	case "":
		return t.openHost()
	case ha.StepGates:
		if t.stopping() != "" {
			return t.enter(ha.StepReturn)
		}
		if t.heldByOperator() {
			return false
		}
		if !t.gates() {
			return t.rec.Step == ha.StepReturn
		}
		return t.passGates()
	case ha.StepPrepare:
		return t.prepare()
	case ha.StepMove, ha.StepReturn:
		return t.move()
	default: // StepWait
		return t.waitForRetry()
	}
}

func (t *turn) enter(s ha.Step) bool {
	if by := t.Unit.Wishes.CancelBy; s == ha.StepReturn && t.rec.Step != s && by != "" {
		t.change(ha.Write{Entry: ha.Entry{Kind: ha.EntryOperator, Text: "cancelled by " + by}})
	}
	if s == ha.StepReturn {
		t.unhold()
	}
	t.rec.Step = s
	return true
}

// openHost decides what the report itself decides.
func (t *turn) openHost() bool {
	if !t.Unit.Segment.Enabled {
		t.end(ha.StatusIgnored, SegmentDisabled)
		return false
	}
	if !t.note.Payload.Normal() && t.note.Payload[ha.KeyConfirmedBy] == "" && !t.Fencing {
		t.end(ha.StatusIgnored, "host_status is %q, not NORMAL: the death of %s is not certain and no fencing is configured for it. "+
			"If you know that it is off, confirm it: salvor host confirm-off %[2]s --reason WHY", t.note.Payload[ha.KeyHostStatus], t.Unit.Host.Name)
		return false
	}
	t.note.Status = ha.StatusRunning
	t.rec.Attempt++
	t.reopenFailed() // an operator's retry of a recovery that had ended finds its moves
	return t.enter(ha.StepGates)
}

// hostStarted ends a STARTED report: the host's take-back does what section 7 says.
func (t *turn) hostStarted() {
	if !t.Unit.Segment.Enabled {
		t.end(ha.StatusIgnored, SegmentDisabled)
		return
	}
	if !t.note.Payload.Normal() {
		t.end(ha.StatusIgnored, "host_status is %q, not NORMAL: the return of %s is not certain", t.note.Payload[ha.KeyHostStatus], t.Unit.Host.Name)
		return
	}
	t.change(ha.SetHost{UUID: t.Unit.HostUUID, Started: true})
	t.handOver()
	t.end(ha.StatusFinished, "")
}

// handOver leaves what is claimed on the host to its take-back, and wakes it, the return of a process that waits, and the cascade of its
// storage, whose instances may have been moved.
func (t *turn) handOver() {
	if own := t.ownClaims(); ha.Claimed(own, ha.WhatForcedDown) || ha.Claimed(own, ha.WhatDisabled) || ha.Claimed(own, ha.WhatOrder) || t.processClaims() {
		t.change(ha.StartUnit{Kind: ha.UnitTakeBack, HostUUID: t.Unit.HostUUID, SegmentUUID: t.Unit.SegmentUUID})
	}
	for _, k := range []ha.UnitKind{ha.UnitTakeBack, ha.UnitProcess, ha.UnitStorage} {
		t.change(ha.Signal{Key: k.Key(t.Unit.HostUUID)})
	}
}

// ownClaims are the claims on the unit's host.
func (t *turn) ownClaims() []ha.Claim {
	var own []ha.Claim
	for _, c := range t.Unit.Claims {
		if c.HostUUID == t.Unit.HostUUID {
			own = append(own, c)
		}
	}
	return own
}

// heedQueue looks at what was reported of the host since (RECOVERY rule A2, section 2).
func (t *turn) heedQueue() {
	for _, n := range t.Unit.Queue {
		switch {
		case n.Payload.Started() && n.Payload.Normal():
			if !t.rec.Returned && !t.note.Payload.Started() {
				t.rec.Returned = true
				t.log("", "host %s was reported STARTED in the middle of its recovery", t.Unit.Host.Name)
			}
			t.change(ha.SetHost{UUID: t.Unit.HostUUID, Started: true},
				ha.SetNotification{UUID: n.UUID, Status: ha.StatusFinished, Message: ""})
		case n.Payload.Started():
			t.change(ha.SetNotification{UUID: n.UUID, Status: ha.StatusIgnored, Message: "host_status is not NORMAL"})
		case t.note.Payload.Started() || t.rec.Returned:
			return // a death after the return: it gets a unit of its own
		case t.bringsProof(n):
			t.adopt(n)
		}
	}
}

// bringsProof reports whether n tells of the same death, with a proof that the unit's own report lacks.
func (t *turn) bringsProof(n ha.Notification) bool {
	confirms := n.Payload[ha.KeyConfirmedBy] != "" && t.note.Payload[ha.KeyConfirmedBy] == ""
	return n.Payload.Stopped() && (confirms || n.Payload.Normal() && !t.note.Payload.Normal())
}

// adopt goes on under n: same row, lease and epoch; the old report ends as ignored.
func (t *turn) adopt(n ha.Notification) {
	if t.note.UUID == n.UUID {
		return
	}
	if len(t.moves) > 0 {
		t.change(ha.SetNotification{UUID: n.UUID, Status: ha.StatusIgnored, Message: "the recovery of this death goes on under notification " + t.note.UUID})
		return
	}
	t.change(ha.SetNotification{UUID: t.note.UUID, Status: ha.StatusIgnored, Message: "notification " + n.UUID + " brought the proof and goes on with this recovery"},
		ha.Adopt{NotificationUUID: n.UUID})
	t.Unit.Notification, t.Unit.NotificationUUID = n, n.UUID
	t.note = n
	t.note.Message = ptr(text(n.Message))
	t.note.Status = ha.StatusRunning
}

// heedRelease lets the unit pass the gate that it is held at, if an operator asked for that.
func (t *turn) heedRelease() {
	w := t.Unit.Wishes
	if w.Releases <= t.rec.Released {
		return
	}
	t.rec.Released = w.Releases
	if t.rec.HeldAt != "" && !t.waived(t.rec.HeldAt) {
		t.rec.Waived = append(append([]ha.Gate(nil), t.rec.Waived...), t.rec.HeldAt)
		t.change(ha.Write{Entry: ha.Entry{Kind: ha.EntryOperator, Text: said(w.ReleaseBy, fmt.Sprintf("released gate %s", t.rec.HeldAt))}})
		t.unhold()
	}
}

// heedWishes honours what an operator asked for (RECOVERY section 5).
func (t *turn) heedWishes() {
	t.heedRelease()
	w := t.Unit.Wishes
	if w.Retries > t.rec.Retried {
		t.rec.Retried = w.Retries
		t.rec.Failures = 0
		t.change(ha.Write{Entry: ha.Entry{Kind: ha.EntryOperator, Text: said(w.RetryBy, "asked for a retry")}})
		for i := range t.moves {
			m := &t.moves[i]
			m.Final = false
			m.NotBefore = nil
		}
		switch t.rec.Step {
		case "": // it is what began this unit
		case ha.StepWait:
			t.rec.WakeAt = nil
		default: // for when the attempt under way has failed, which may be in this very turn
			t.Memory.Said[keyAtOnce] = true
		}
	}
	for i := range t.moves {
		m := &t.moves[i]
		if m.RetryWish <= m.RetryDone {
			continue
		}
		m.RetryDone = m.RetryWish
		m.NotBefore = nil
		waits := m.Stage == ha.StageChosen && m.Order.Open() // for the end of an order of an earlier attempt
		if waits || m.Status == ha.MoveFailed && m.Stage == ha.StageDone {
			t.change(ha.Write{Entry: ha.Entry{Kind: ha.EntryOperator, InstanceUUID: m.InstanceUUID, Text: "a retry of this instance was asked for"}})
			t.forget(m) // an operator's word: whatever the last order became, a new one may be sent
			t.reopen(m)
			if t.rec.Step == ha.StepWait {
				t.rec.WakeAt = nil
			}
		}
	}
}

// stopping says why nothing new may be ordered any more, "" when it may: a return, a cancel, expiry.
func (t *turn) stopping() string {
	switch w := t.Unit.Wishes; {
	case t.rec.Returned:
		return "host returned"
	case w.CancelBy != "":
		return "cancelled by " + w.CancelBy
	case t.expired():
		return fmt.Sprintf("expired: older than %s", t.Rules.Expiry)
	}
	return ""
}

// expired reports whether the report is too old, counted from its receipt. An operator's retry of what had ended counts anew:
// it may come at any later time (field finding F075).
func (t *turn) expired() bool {
	since := t.note.CreatedAt
	if t.Rules.Expiry <= 0 || t.Rules.NoPeriodic || since.IsZero() {
		return false
	}
	if begun := t.Unit.CreatedAt; t.Unit.Wishes.Retries > 0 && begun.After(since) {
		since = begun
	}
	t.wakeAt(since.Add(t.Rules.Expiry))
	return t.Now.Sub(since) >= t.Rules.Expiry
}

// heldByOperator reports whether an operator holds this recovery, or has paused its segment or everything. Nothing new is begun
// then; what is under way ends.
func (t *turn) heldByOperator() bool {
	w, p := t.Unit.Wishes, t.Unit.Segment.Pause
	var until *time.Time
	switch {
	case w.HoldBy != "" && (w.HoldUntil == nil || t.Now.Before(*w.HoldUntil)):
		t.hold(ha.GateOperator, fmt.Sprintf("held by %s: %s", w.HoldBy, w.HoldReason))
		until = w.HoldUntil
	case p.Active(t.Now) && t.Unit.Segment.Enabled && !t.waived(ha.GateSegment):
		what := "segment " + t.Unit.Segment.Name + " is"
		if p.Segment == "" {
			what = "all recoveries are"
		}
		t.hold(ha.GateSegment, fmt.Sprintf("%s paused by %s since %s: %s", what, p.By, p.Since.UTC().Format(time.DateTime), p.Reason))
		until = p.Until
	default:
		if t.rec.HeldAt == ha.GateOperator || t.rec.HeldAt == ha.GateSegment {
			t.unhold()
		}
		return false
	}
	if until != nil {
		t.wakeAt(*until)
	}
	return true
}

// attemptFailed ends an attempt in error: retried after a growing wait, up to MaxAttempts (RECOVERY section 5).
func (t *turn) attemptFailed(why string) {
	t.rec.Failures++
	t.rec.Prepared = false
	t.unhold()
	if t.rec.Failures >= t.Rules.MaxAttempts && !t.Memory.Said[keyAtOnce] || !t.anyRetryable() {
		t.finish(ha.StatusFailed, why)
		return
	}
	t.retryLater(why)
}

// keyAtOnce: an operator has asked for a retry while an attempt was under way.
const keyAtOnce = "retry at once"

// retryLater leaves the notification in error until the next attempt.
func (t *turn) retryLater(why string) {
	t.note.Status = ha.StatusError
	t.rec.Step = ha.StepWait
	wait := t.Rules.RetryInterval << (t.rec.Failures - 1)
	t.say("attempt %d of %d failed, next in %s: %s", t.rec.Failures, t.Rules.MaxAttempts, wait, why)
	switch {
	case t.Memory.Said[keyAtOnce]:
		delete(t.Memory.Said, keyAtOnce)
		wait = 0
		t.say("attempt %d failed, the next begins at once, since %s: %s", t.rec.Failures, said(t.Unit.Wishes.RetryBy, "asked for it"), why)
	case t.Rules.NoPeriodic:
		wait = never
		t.say("attempt %d failed, periodic_enable is off, so retry it by hand: %s", t.rec.Failures, why)
	}
	t.rec.WakeAt = ptr(t.Now.Add(wait))
	t.wakeAt(*t.rec.WakeAt)
}

// never is longer than anybody waits.
const never = 10 * 365 * 24 * time.Hour

// anyRetryable reports whether another attempt could do anything.
func (t *turn) anyRetryable() bool {
	if len(t.moves) == 0 {
		return true
	}
	for _, m := range t.moves {
		if !m.Status.Ended() || m.Status == ha.MoveFailed && !m.Final {
			return true
		}
	}
	return false
}

// waitForRetry begins the next attempt when its time has come; only what has not succeeded is tried again.
func (t *turn) waitForRetry() bool {
	if why := t.stopping(); why != "" {
		return t.enter(ha.StepReturn)
	}
	if t.heldByOperator() {
		return false
	}
	if t.rec.WakeAt != nil && t.Now.Before(*t.rec.WakeAt) {
		t.wakeAt(*t.rec.WakeAt)
		if left := t.wake.Sub(t.Now); left > parkAbove && len(t.acting) == 0 {
			t.park = left
		}
		return false
	}
	t.rec.WakeAt = nil
	t.rec.Attempt++
	t.note.Status = ha.StatusRunning
	t.say("")
	t.reopenFailed()
	return t.enter(ha.StepGates)
}

func (t *turn) reopenFailed() {
	for i := range t.moves {
		if m := &t.moves[i]; m.Status == ha.MoveFailed && !m.Final {
			t.reopen(m)
		}
	}
}

// parkAbove is the wait from which on the lease is given up meanwhile.
const parkAbove = 15 * time.Second

// finish ends the recovery: claims stay for the take-back, and whatever did not succeed is named (invariant I3).
func (t *turn) finish(s ha.Status, why string) {
	t.handOver()
	counts := map[ha.MoveStatus]int{}
	var whys []string // each once, however many instances it is the reason of
	of := map[string][]string{}
	for i := range t.moves {
		m := &t.moves[i]
		switch {
		case m.Stage == ha.StageError:
			t.settle(m, ha.MoveIgnored, text(m.Message)+"; it was not: "+why)
		case m.Stage != ha.StageDone: // the attempt never came to it
			t.settle(m, ha.MoveFailed, why)
		}
		counts[m.Status]++
		if why := text(m.Message); m.Status == ha.MoveFailed {
			if of[why] == nil {
				whys = append(whys, why)
			}
			of[why] = append(of[why], m.InstanceUUID)
		}
	}
	switch {
	case s == ha.StatusFinished && why == "" && len(t.moves) == 0:
		t.end(s, "")
	case s == ha.StatusFinished && why == "":
		t.end(s, "%d of %d instances moved", counts[ha.MoveSucceeded], len(t.moves))
	case len(whys) > 0:
		t.end(s, "%s; %d moved, %d not: %s", why, counts[ha.MoveSucceeded], counts[ha.MoveFailed], namedBy(whys, of, why))
	default:
		t.end(s, "%s", why)
	}
}

// namedBy tells of each reason which instances have it, both bounded: each move has its own. What has been said already is not said again.
func namedBy(whys []string, of map[string][]string, already string) string {
	const most = 10
	var named []string
	for _, why := range whys[:min(len(whys), most)] {
		who := of[why][0]
		if len(of[why]) > 1 {
			who = some(of[why])
		}
		if why != already {
			who += ": " + why
		}
		named = append(named, who)
	}
	if more := len(whys) - most; more > 0 {
		named = append(named, fmt.Sprintf("and %d more reasons", more))
	}
	return strings.Join(named, "; ")
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
