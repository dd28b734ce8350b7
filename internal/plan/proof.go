package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Heart is the heartbeat of a compute service as its watcher saw it. updated_at moves with every heartbeat, and once with
// every PUT (NOVA-OBSERVATIONS, "Hosts").
type Heart struct {
	First time.Time // when the watching began
	At    time.Time // of the look digested last
	Last  ha.Service
	Since time.Time // when the answer that had the present updated_at first had come: it moved before that
	Moves int       // moves in a row without a change of status, reason or forced_down
	// MovingSince is when those moves began: the host counts as healthy HealthyDelay later.
	MovingSince time.Time
}

// see digests one look at the service, which began at and whose answer had come by came: a call that hangs on its way to Nova tells of a
// later moment than that of its beginning. base is the updated_at that our own PUT answered, zero when there was none.
func (h *Heart) see(s ha.Service, at, came, base time.Time) {
	if !at.After(h.At) {
		return
	}
	h.At = at
	if h.First.IsZero() {
		h.First, h.Since, h.Last = at, came, s
		if !base.IsZero() && s.ForcedDown && !s.UpdatedAt.Equal(base) {
			h.Moves, h.MovingSince = 1, came
		}
		return
	}
	switch {
	case s.UpdatedAt.IsZero(): // Nova does not say when it heard the host: that is not silence
		h.Since = came
	case s.UpdatedAt.Equal(h.Last.UpdatedAt):
	case s.Enabled != h.Last.Enabled || s.ForcedDown != h.Last.ForcedDown || s.DisabledReason != h.Last.DisabledReason:
		h.Moves, h.Since, h.MovingSince = 0, came, time.Time{} // somebody's PUT
	default:
		h.Moves++
		h.Since = came
		if h.Moves == 1 {
			h.MovingSince = came
		}
	}
	h.Last = s
}

// put digests the answer of our own PUT: its updated_at is the new base.
func (h *Heart) put(s ha.Service, at time.Time) {
	*h = Heart{First: at, At: at, Last: s, Since: at}
}

// beating reports a heartbeat: two moves in a row (RECOVERY section 2, proof), a third after a PUT that changed nothing.
func (h Heart) beating() bool { return h.Moves >= 2 }

// quiet is for how long updated_at has not moved, as far as looks tell.
func (h Heart) quiet() time.Duration { return max(0, h.At.Sub(h.Since)) }

// watch digests the latest look at the unit's host. A heartbeat that has been silent for three intervals is over.
func (t *turn) watch() (ha.Service, bool) {
	svc, ok := t.service(t.Unit.Host.Name)
	if ok {
		delete(t.Memory.Since, keyVanished)
		base, _ := t.claim(t.Unit.Host.UUID, ha.WhatForcedDown, ha.ReasonRecovery)
		h := &t.Memory.Heart
		if at := t.Facts.Services.At; !h.At.IsZero() && at.Sub(h.At) > 6*t.Rules.ReportInterval { // a gap hides what was in it
			base.Seen, *h = h.Last.UpdatedAt, Heart{}
		}
		h.see(svc, t.Facts.Services.At, t.Facts.Services.until(), base.Seen)
		if h.quiet() >= 3*t.Rules.ReportInterval {
			h.Moves, h.MovingSince = 0, time.Time{}
		}
	}
	return svc, ok
}

const keyVanished = "vanished"

// cellAway reports whether the host's service is in a cell that Nova cannot reach.
func (t *turn) cellAway() bool {
	return slices.ContainsFunc(t.Facts.Services.Value, func(s ha.Service) bool { return s.CellAway && s.Host == t.Unit.Host.Name })
}

// vanished reports whether Nova has really forgotten the host's service: good lists that hold other compute services have not
// shown it for ten seconds. One list without it may be a lie; one that says that its cell is away has not forgotten it.
func (t *turn) vanished() bool {
	s := t.Facts.Services
	if s.At.IsZero() || s.Err != nil || t.cellAway() || !slices.ContainsFunc(s.Value, func(s ha.Service) bool { return s.Binary == ha.BinaryCompute }) {
		delete(t.Memory.Since, keyVanished)
	} else if since, known := t.Memory.Since[keyVanished]; !known {
		t.Memory.Since[keyVanished] = s.At
	} else if s.At.Sub(since) >= 10*time.Second {
		return true
	}
	t.look(LookServices, "")
	t.wakeAt(t.Now.Add(time.Second))
	return false
}

// silence is for how long a host must not have been heard, to count as dead while Nova says up.
func (t *turn) silence() time.Duration { return t.Rules.ReportInterval * 3 / 2 }

// contradicted reports whether Nova calls a host down that it has heard lately, by its own clock: the newest updated_at of its list. A
// verdict against its own rows (clocks apart, a state read wrongly) does not stand at once; the host's silence does.
func (t *turn) contradicted(svc ha.Service) bool {
	if svc.UpdatedAt.IsZero() || t.Memory.Heart.quiet() >= t.silence() {
		return false
	}
	return !slices.ContainsFunc(t.Facts.Services.Value, func(s ha.Service) bool { return s.UpdatedAt.Sub(svc.UpdatedAt) >= t.silence() })
}

// gateProof asks whether the host is dead, and says by what (RECOVERY section 2, "Proof of death is typed").
func (t *turn) gateProof() answer {
	a := answer{gate: ha.GateProof}
	host := t.Unit.Host.Name
	svc, ok := t.watch()
	switch {
	case ok:
	case t.cellAway():
		return a.wait("Nova cannot reach the cell of %s, so nothing is known of it", host)
	case !t.vanished():
		a.verdict = asks
		return a
	default:
		return a.fail("Nova has no compute service named %s: compare the host's name with the services' names", host)
	}
	heart := t.Memory.Heart
	ours, forcedByUs := t.claim(t.Unit.Host.UUID, ha.WhatForcedDown, ha.ReasonRecovery)
	needsFence := t.needsFence()
	switch by := t.note.Payload[ha.KeyConfirmedBy]; {
	case svc.ForcedDown && forcedByUs && heart.beating():
		a.gate = ha.GateHeartbeat
		t.heard()
		return a.hold("%s", t.heardText())
	case svc.ForcedDown && forcedByUs && t.rec.HeldAt == ha.GateHeartbeat && heart.quiet() < 3*t.Rules.ReportInterval:
		a.gate = ha.GateHeartbeat // a new owner has not seen yet whether it goes on: the time counts on
		return a.hold("%s", t.heardText())
	case by != "" && !t.unheard(svc) && !t.waived(ha.GateHeard):
		a.gate = ha.GateHeard
		t.look(LookServices, "")
		t.wakeAt(t.Now.Add(time.Second))
		return a.hold("host still reports to Nova: %s, and Nova counts it as up. It is waited for until it has been silent for %s (now %s). "+
			"If it is off all the same: salvor recovery release %s", said(by, "confirmed that "+host+" is off"), t.silence(), heart.quiet().Round(time.Second), t.note.UUID)
	case by != "":
		text := said(by, "confirmed that "+host+" is off")
		if t.waived(ha.GateHeard) {
			text += "; " + said(t.Unit.Wishes.ReleaseBy, "released it though Nova still heard it")
		}
		return t.proven(a, ha.ProofConfirmed, text)
	case t.isFenced():
		return a.pass("%s: %s", t.rec.Proof, t.rec.ProofText)
	case !needsFence && !svc.Up && !(svc.ForcedDown && forcedByUs) && !t.contradicted(svc):
		return t.proven(a, ha.ProofNovaDown, fmt.Sprintf("Nova sees %s down, last heard %s", host, svc.UpdatedAt.UTC().Format(time.RFC3339)))
	case !needsFence && svc.ForcedDown && forcedByUs && !ours.Seen.IsZero() && svc.UpdatedAt.Equal(ours.Seen):
		return t.proven(a, ha.ProofReported, fmt.Sprintf("%s has not been heard since it was forced down", host))
	case !needsFence && t.trusts():
		return t.proven(a, ha.ProofReported, fmt.Sprintf("the report says that %s is down, and this segment trusts reports", host))
	case t.unheard(svc) && (needsFence || t.Fencing && !t.fenceFailed()): // of a sure monitor too: better than silence is to see it off
		return t.fence(a)
	case !needsFence && heart.quiet() >= t.silence():
		return t.proven(a, ha.ProofReported, fmt.Sprintf("reported, and %s has not been heard for %s", host, heart.quiet().Round(100*time.Millisecond)))
	case heart.Moves > 0 && heart.Since.Sub(heart.First) >= 60*time.Second:
		t.alarm(ha.AlarmFalseReport, "", "host %s was reported dead but still reports to Nova: nothing was done; check the monitor", host)
		return a.ignore("host still reports to Nova: %s was reported dead, but its updated_at moved %d times in %s",
			host, heart.Moves, t.Now.Sub(heart.First).Round(time.Second))
	}
	t.look(LookServices, "")
	t.wakeAt(t.Now.Add(time.Second))
	return a.wait("Nova still hears %s: waiting until it has been silent for %s (now %s)", host, t.silence(), heart.quiet().Round(time.Second))
}

// proven keeps a proof in the row.
func (t *turn) proven(a answer, p ha.Proof, text string) answer {
	t.rec.Proof, t.rec.ProofText = p, text
	t.rec.ProofAt, t.proved = t.Facts.Services.At, true
	return a.pass("%s: %s", p, text)
}

// stillDead reports whether the proof stands now, before an order (invariant I2): taken within ProofMaxAge, by a look that
// this owner made itself, and no heartbeat since. One that is older is taken again by silence. It looks again in good time,
// and holds when the host is heard.
func (t *turn) stillDead() bool {
	svc, ok := t.watchOn()
	seen := t.Facts.Services.At
	if seen.IsZero() {
		return false
	}
	if !ok { // one list without it proves nothing, and Nova takes no order without its record
		t.vanished()
		t.rec.ProofAt = time.Time{}
		return false
	}
	h := t.Memory.Heart
	if h.beating() {
		return t.heard()
	}
	if t.rec.HeldAt == ha.GateHeartbeat {
		if h.quiet() < t.Rules.ReportInterval*3 {
			return false
		}
		t.unhold()
	}
	if svc.Up { // forced_down is gone: put it again first
		return false
	}
	// A heartbeat after a gap in the looks is one move, whatever the gap hid: half an age later it is not passed over any more.
	if age := seen.Sub(t.rec.ProofAt); age > t.Rules.ProofMaxAge/2 && (h.Moves > 0 || t.rec.ProofAt.IsZero()) && h.quiet() < t.silence() {
		t.hold(ha.GateProof, fmt.Sprintf("%s must be proven off anew: waiting until it has been silent for %s", svc.Host, t.silence()))
		t.look(LookServices, "")
		t.wakeAt(t.Now.Add(time.Second))
		return false
	} else if age > t.Rules.ProofMaxAge/2 {
		t.rec.ProofAt = seen
	}
	if t.Now.Sub(t.rec.ProofAt) > t.Rules.ProofMaxAge {
		return false
	}
	if t.rec.HeldAt == ha.GateProof {
		t.unhold()
	}
	return true
}

// watchOn watches the host without a gap in which many heartbeats would look like one.
func (t *turn) watchOn() (ha.Service, bool) {
	if seen := t.Facts.Services.At; seen.IsZero() || t.Now.Sub(seen) > t.Rules.ProofMaxAge/6 {
		t.look(LookServices, "")
		t.wakeAt(t.Now.Add(time.Second))
	}
	return t.watch()
}

// heard is the host's heartbeat while it is forced down: nothing is ordered, not even by an operator's release; when it has gone
// on for HealthyDelay the host counts as returned (RECOVERY section 2, proof). Since when it goes on is in the row: the hold ends with the
// heartbeat, so a takeover counts on.
func (t *turn) heard() bool {
	t.hold(ha.GateHeartbeat, t.heardText())
	t.alarm(ha.AlarmHeardInRecovery, "", "host %s reports to Nova in the middle of its recovery: nothing new is ordered", t.Unit.Host.Name)
	since := t.Memory.Heart.MovingSince
	if held := t.rec.HeldSince; held != nil && held.Before(since) {
		since = *held
	}
	if t.Now.Sub(since) >= t.Rules.HealthyDelay {
		t.unhold()
		t.rec.Returned = true
		t.change(ha.SetHost{UUID: t.Unit.HostUUID, Started: true})
		t.log("", "host %s has been heard for %s: counted as returned", t.Unit.Host.Name, t.Rules.HealthyDelay)
	}
	t.look(LookServices, "")
	t.wakeAt(t.Now.Add(5 * time.Second))
	return false
}

func (t *turn) heardText() string {
	return fmt.Sprintf("host %s is heard again while forced down: no new orders", t.Unit.Host.Name)
}

// said tells what an operator did; who holds NAME: REASON, or the name alone.
func said(who, did string) string {
	name, reason, given := strings.Cut(who, ": ")
	if !given {
		return who + " " + did
	}
	return fmt.Sprintf("%s %s (%q)", name, did, reason)
}
