package plan

import (
	"fmt"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// trackHealth keeps in the row since when the host has been well: heard while it is forced down, up for Nova when it is not. A takeover goes
// on counting; only a look that shows it down, or silence, begins anew.
func (t *turn) trackHealth(svc ha.Service) {
	heart := t.Memory.Heart
	switch {
	case svc.Up || svc.ForcedDown && heart.beating():
		if t.rec.StartedAt == nil {
			since := t.Now
			if !heart.MovingSince.IsZero() && heart.MovingSince.Before(since) {
				since = heart.MovingSince
			}
			t.rec.StartedAt = ptr(since)
		}
	case !svc.ForcedDown, heart.quiet() >= 3*t.Rules.ReportInterval:
		t.rec.StartedAt = nil
	}
}

// healthy reports whether the host has been well for HealthyDelay and is up; when it will have been, the next turn comes exactly then.
func (t *turn) healthy(svc ha.Service) bool {
	if t.rec.StartedAt == nil {
		return false
	}
	at := t.rec.StartedAt.Add(t.Rules.HealthyDelay)
	if t.Now.Before(at) {
		t.wakeAt(at)
		return false
	}
	return svc.Up
}

// coming reports whether a returned host is about to be given back, so that it is looked at closely: for a while after it was called
// back, and as long as it is well.
func (t *turn) coming(svc ha.Service, back bool) bool {
	_, failed := t.claim(t.Unit.HostUUID, ha.WhatDisabled, ha.ReasonStorage)
	switch {
	case !t.Rules.AutoReturn:
		return false
	case t.rec.HeldAt == ha.GateFlapping, failed && !svc.ForcedDown:
		return false
	case t.rec.StartedAt != nil && svc.Up:
		return true
	}
	return back && t.Now.Sub(t.since("back")) < 10*time.Minute
}

// flaps reports whether the host has failed too often of late to be given back by itself: it would take load and fail again (field
// finding F071). It stays so until an operator ends its maintenance. The failures are counted from the rows of its recoveries.
func (t *turn) flaps() bool {
	limit, window := t.Rules.ReturnLimit, t.Rules.ReturnWindow
	_, ours := t.claim(t.Unit.HostUUID, ha.WhatMaintenance, ha.ReasonRecovery)
	failures := 0
	for _, at := range t.Unit.Earlier {
		if t.Unit.Earlier[0].Sub(at) < window {
			failures++
		}
	}
	if limit <= 0 || failures <= limit || !ours || !t.Unit.Host.OnMaintenance {
		t.unhold()
		return false
	}
	why := fmt.Sprintf("host %s has failed %d times within %s, limit %d: it is not given back by itself until an operator ends its maintenance", t.Unit.Host.Name, failures, window, limit)
	if t.rec.HeldAt != ha.GateFlapping {
		t.alarm(ha.AlarmFlapping, "", "%s", why)
	}
	t.hold(ha.GateFlapping, why)
	return true
}
