package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/salvor-ha/salvor/internal/ha"
)

// answer is a gate's answer to its question, with its numbers.
type answer struct {
	gate    ha.Gate
	verdict verdict
	text    string
}

type verdict int

const (
	passed verdict = iota
	asks           // a look is under way
	waits          // what it needs comes by itself
	held           // an operator or the numbers must change
	ignored
	failed
)

func (a answer) with(v verdict, format string, args []any) answer {
	a.verdict, a.text = v, fmt.Sprintf(format, args...)
	return a
}
func (a answer) pass(format string, args ...any) answer   { return a.with(passed, format, args) }
func (a answer) wait(format string, args ...any) answer   { return a.with(waits, format, args) }
func (a answer) hold(format string, args ...any) answer   { return a.with(held, format, args) }
func (a answer) ignore(format string, args ...any) answer { return a.with(ignored, format, args) }
func (a answer) fail(format string, args ...any) answer   { return a.with(failed, format, args) }

// SegmentDisabled is Masakari's text, spelling kept: stored data and tools look for it (contract 12, row 27).
const SegmentDisabled = "Recovery aboart: the segment HA is disabled."

// gates asks the gates of RECOVERY section 2 in their order. True when all let the recovery pass; the answers are kept.
func (t *turn) gates() bool {
	var said []answer
	for _, ask := range []func() answer{t.gateSegment, t.gateNova, t.gateBrake, t.gateRate, t.gateProof, t.gateBrake} {
		a := ask()
		said = append(said, a)
		switch a.verdict {
		case passed:
			continue
		case ignored:
			t.keep(a)
			t.turnedAway(a)
		case failed:
			t.keep(a)
			t.attemptFailed(a.text)
		case asks:
		default:
			t.hold(a.gate, a.text)
			t.reloadAfter(askAgain[a.verdict])
			t.wakeAt(t.Now.Add(askAgain[a.verdict]))
		}
		delete(t.Memory.Since, keyRows)
		return false
	}
	if !t.recentRows() {
		return false
	}
	if t.rec.Proof != ha.ProofFenced { // else fencing has taken its time since the brake was asked first
		said = said[:len(said)-1]
	}
	for _, a := range said {
		t.keep(a)
	}
	t.unhold()
	return true
}

// askAgain is when a gate is asked again: what an operator or the numbers must change takes longer than what comes by itself.
var askAgain = map[verdict]time.Duration{waits: 2 * time.Second, held: 5 * time.Second}

// turnedAway ends a recovery that a gate refuses. One that had begun leaves nothing behind: a host found alive counts as returned,
// and what was still to be moved is named.
func (t *turn) turnedAway(a answer) {
	if t.rec.StartedAt == nil {
		t.end(ha.StatusIgnored, "%s", a.text)
		return
	}
	if a.gate == ha.GateProof {
		t.rec.Returned = true
		t.enter(ha.StepReturn)
		return
	}
	for i := range t.moves {
		if m := &t.moves[i]; m.Stage != ha.StageDone {
			t.settle(m, ha.MoveIgnored, a.text)
		}
	}
	t.finish(ha.StatusIgnored, a.text)
}

// keep writes a gate's answer into the journal.
func (t *turn) keep(a answer) {
	t.change(ha.Write{Entry: ha.Entry{Kind: ha.EntryGate, Task: string(a.gate), Text: a.text}})
}

// hold says at which gate the unit waits and why; the answer is journaled when it is a new one. At the proof it is one, too, when fencing
// takes over from waiting for silence, or comes to nothing: only its numbers make no new one, nor what a method saw.
func (t *turn) hold(g ha.Gate, why string) {
	if t.rec.HeldAt != g {
		t.rec.HeldSince = ptr(t.Now)
	}
	if t.rec.HeldAt != g || g == ha.GateProof && firstWords(t.rec.HeldWhy) != firstWords(why) {
		t.keep(answer{gate: g, text: why})
	}
	t.rec.HeldAt, t.rec.HeldWhy = g, why
	t.say("waiting at gate %s: %s", g, why)
}

// firstWords are those by which the answers of the proof differ.
func firstWords(why string) string {
	before, _, _ := strings.Cut(why, ":")
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, before)
}

func (t *turn) unhold() {
	if t.rec.HeldAt != "" {
		t.rec.HeldAt, t.rec.HeldWhy, t.rec.HeldSince = "", "", nil
		t.say("")
	}
}

// waived reports whether an operator let the unit pass g.
func (t *turn) waived(g ha.Gate) bool { return slices.Contains(t.rec.Waived, g) }

func (t *turn) gateSegment() answer {
	a := answer{gate: ha.GateSegment}
	if !t.Unit.Segment.Enabled {
		return a.ignore(SegmentDisabled)
	}
	return a.pass("segment %s is enabled", t.Unit.Segment.Name)
}

// gateNova asks whether Nova's API, a scheduler and a conductor answer. A wait, never a failure.
func (t *turn) gateNova() answer {
	a := answer{gate: ha.GateNova}
	s := t.Facts.Services
	if s.At.IsZero() || s.Err != nil || t.Now.Sub(s.At) > 5*time.Second {
		t.look(LookServices, "")
		t.wakeAt(t.Now.Add(time.Second))
	}
	if s.Err != nil {
		return a.wait("Nova does not answer: %s", ha.TextOf(s.Err))
	}
	if s.At.IsZero() || t.Now.Sub(s.until()) > 10*time.Second { // a slow answer is one
		a.verdict = asks
		return a
	}
	for _, binary := range []string{"nova-scheduler", "nova-conductor"} {
		if !slices.ContainsFunc(s.Value, func(s ha.Service) bool { return s.Binary == binary && s.Up }) {
			return a.wait("no %s is up", binary)
		}
	}
	return a.pass("Nova's API, a scheduler and a conductor answer")
}

// Down counts the hosts of a segment as the brake does (field findings F117, F119: by union, once each): how many count, and the names of
// those that are down. The host with the uuid dead is, by the report that is judged. Of another that counts as down heard says whether Nova
// hears it again, given the newest updated_at of the list; nil: of none.
func Down(peers []ha.Peer, list []ha.Service, dead string, heard func(p ha.Peer, svc ha.Service, newest time.Time) bool) (n int, down []string) {
	services := map[string]ha.Service{} // as Nova sees them
	var newest time.Time
	for _, s := range list {
		if s.UpdatedAt.After(newest) {
			newest = s.UpdatedAt
		}
		if had, known := services[s.Host]; s.Binary == ha.BinaryCompute && (!known || s.UpdatedAt.After(had.UpdatedAt)) { // as turn.service
			services[s.Host] = s
		}
	}
	for _, s := range list {
		if s.CellAway {
			delete(services, s.Host)
		}
	}
	for _, p := range peers {
		if p.UUID == dead {
			n, down = n+1, append(down, p.Name)
			continue
		}
		if p.Operator {
			continue
		}
		n++
		svc, known := services[p.Name]
		if !p.OpenIncident && !p.Claimed && (!known || svc.Up) {
			continue
		}
		if !known || heard == nil || !heard(p, svc, newest) {
			down = append(down, p.Name)
		}
	}
	return n, down
}

// Brakes reports whether a brake at more than percent of the hosts holds when so many of n are down.
func Brakes(percent, down, n int) bool { return percent > 0 && down >= 2 && 100*down > percent*n }

// gateBrake asks how many hosts of the segment are down.
func (t *turn) gateBrake() answer {
	a := answer{gate: ha.GateBrake}
	n, names := Down(t.Unit.Peers, t.Facts.Services.Value, t.Unit.HostUUID, t.hearsAgain)
	down := len(names)
	numbers := fmt.Sprintf("%d of %d hosts of the segment are down, brake at more than %d %%", down, n, t.Rules.BrakePercent)
	switch {
	case t.rec.StartedAt != nil:
		return a.pass("%s; this recovery had passed before", numbers)
	case t.waived(ha.GateBrake):
		return a.pass("%s; released by an operator", numbers)
	case Brakes(t.Rules.BrakePercent, down, n):
		t.alarm(ha.AlarmBrake, "", "recovery of host %s is held by the brake: %s", t.Unit.Host.Name, numbers)
		return a.hold("%s", numbers)
	}
	return a.pass("%s", numbers)
}

// heard is a span of time in which each look showed that Nova hears a host.
type heard struct{ from, until time.Time }

// hearsAgain reports whether Nova has heard a host that counts as down for HealthyDelay, by its own clock: the newest updated_at of its
// list. Not every monitor reports a return, so a host whose recovery never began, as the brake held it, or whose forced_down Nova will not
// clear, would count for ever. Where reports are trusted against Nova's word it says nothing. A takeover counts anew: the brake holds longer.
func (t *turn) hearsAgain(p ha.Peer, svc ha.Service, newest time.Time) bool {
	at := t.Facts.Services.At
	if t.trusts() || !svc.Up && !(svc.ForcedDown && p.Claimed) || newest.Sub(svc.UpdatedAt) >= 3*t.Rules.ReportInterval {
		delete(t.Memory.Heard, p.Name)
		return false
	}
	h := t.Memory.Heard[p.Name]
	if at.Sub(h.until) > 6*t.Rules.ReportInterval { // a gap hides what was in it
		h.from = at
	}
	h.until = at
	t.Memory.Heard[p.Name] = h
	return at.Sub(h.from) >= t.Rules.HealthyDelay
}

// trusts reports whether a monitor's word stands against Nova's.
func (t *turn) trusts() bool {
	if own := t.Unit.Segment.TrustReports; own != nil {
		return *own
	}
	return t.Rules.TrustReports
}

func (t *turn) gateRate() answer {
	a := answer{gate: ha.GateRate}
	numbers := fmt.Sprintf("%d host recoveries started in this segment in the last minute, limit %d", t.Unit.RecentStarts, t.Rules.RecoveryRate)
	if t.rec.StartedAt == nil && t.Rules.RecoveryRate > 0 && t.Unit.RecentStarts >= t.Rules.RecoveryRate && !t.waived(ha.GateRate) {
		return a.wait("%s", numbers)
	}
	return a.pass("%s", numbers)
}
