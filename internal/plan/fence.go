package plan

import (
	"fmt"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// maxSights bounds how much of what one fencing saw is kept as evidence.
const maxSights = 20

// A host that has come back since Nova was asked must not lose its power. fenceLook is how long ago Nova's answer may have come when it
// does, slowLook how long ago the look may have begun: of what happened on its way an answer may know nothing.
const (
	fenceLook = 2 * time.Second
	slowLook  = 15 * time.Second
)

func fenceKey(host string) string { return "fence:" + host }

// needsFence reports whether nothing but seeing the host off, or an operator's word, proves this death: the monitor itself was not
// sure (RECOVERY section 2, first table).
func (t *turn) needsFence() bool {
	return !t.note.Payload.Normal() && t.note.Payload[ha.KeyConfirmedBy] == ""
}

// isFenced reports whether the host was seen off lately enough to order now.
func (t *turn) isFenced() bool {
	return t.rec.Proof == ha.ProofFenced && t.Now.Sub(t.rec.ProofAt) <= t.Rules.ProofMaxAge
}

// unheard reports whether Nova has not heard the host for long enough to fence it: one that Nova hears is never fenced.
func (t *turn) unheard(svc ha.Service) bool {
	if !svc.Up && !svc.ForcedDown && !t.contradicted(svc) { // by Nova's own reckoning
		return true
	}
	ours, claimed := t.claim(t.Unit.Host.UUID, ha.WhatForcedDown, ha.ReasonRecovery)
	if svc.ForcedDown && claimed && !ours.Seen.IsZero() && svc.UpdatedAt.Equal(ours.Seen) {
		return true
	}
	return t.Memory.Heart.quiet() >= t.silence()
}

// fence orders that the host be powered off and seen off. It is decided for the segment, like the start of a recovery: no two hosts
// are fenced on the same numbers. The outcome is digested by fenceEnded; it may be ordered again and again.
func (t *turn) fence(a answer) answer {
	host := t.Unit.Host.Name
	if !t.Fencing {
		return a.hold("this report needs fencing, and none is configured for %s on the engine that holds it. If you know that it is off: salvor host confirm-off %[1]s --reason WHY", host)
	}
	key := fenceKey(host)
	due := !t.acting[key] && !t.Now.Before(t.Memory.NotBefore[key])
	if seen := t.Facts.Services; due && (t.Now.Sub(seen.until()) > fenceLook || t.Now.Sub(seen.At) > slowLook) {
		t.look(LookServices, "")
		t.wakeAt(t.Now.Add(time.Second))
		if took := seen.until().Sub(seen.At); took > slowLook/2 {
			return a.wait("Nova took %s to list its services, so %s may have come back meanwhile: it is fenced by an answer to what was asked at most %s ago. "+
				"If you know that it is off: salvor host confirm-off %[2]s --reason WHY", took.Round(100*time.Millisecond), host, slowLook)
		}
		a.verdict = asks
		return a
	}
	if t.act(ha.Act{Key: key, Kind: ha.ActFence, Host: host}) && t.rec.StartedAt == nil {
		t.keep(t.gateBrake()) // the numbers on which a host loses its power
		t.decideForSegment()
	}
	if t.fenceFailed() {
		return a.hold("%s could not be fenced, and is tried again: %s. If you know that it is off: salvor host confirm-off %[1]s --reason WHY", host, t.rec.ProofText)
	}
	return a.wait("fencing %s: powering it off, and looking until it is seen off", host)
}

// fenceFailed reports whether the last attempt to see the host off came to nothing: what it saw is the text.
func (t *turn) fenceFailed() bool { return t.rec.Proof == ha.ProofNone && t.rec.ProofText != "" }

// fenceEnded takes in what fencing saw. Only an observed state is proof.
func (t *turn) fenceEnded(o ha.Outcome) {
	t.outcome(o)
	if o.Fence == nil {
		return
	}
	for _, s := range o.Fence.Sights[:min(len(o.Fence.Sights), maxSights)] {
		t.log("", "power of %s by %s at %s: %s, %s", o.Act.Host, s.Method, s.At.UTC().Format("15:04:05.000"), s.Power, s.Text)
	}
	if !o.Fence.Off {
		t.rec.Proof, t.rec.ProofText = ha.ProofNone, o.Fence.Text
		t.alarm(ha.AlarmFencingFailed, "", "host %s could not be fenced: %s", o.Act.Host, o.Fence.Text)
		return
	}
	t.rec.Proof, t.rec.ProofAt, t.rec.ProofText = ha.ProofFenced, o.At, fmt.Sprintf("%s was seen off: %s", o.Act.Host, o.Fence.Text)
}
