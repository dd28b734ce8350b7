package plan_test

import (
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// auto_return follows healthy_delay: enabled when the host has been well for so long, and not at the next look of some minute.
func TestAutoReturnFollowsHealthyDelay(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*world)
		want time.Duration
	}{
		"reported STARTED": {func(w *world) {
			w.comes(10*time.Minute, func() { w.live(failedHost); w.reportStarted() })
		}, 15 * time.Minute},
		"reported STARTED before Nova hears it": {func(w *world) {
			w.comes(10*time.Minute, w.reportStarted)
			w.at(10*time.Minute+40*time.Second, func() { w.live(failedHost) })
		}, 15*time.Minute + 40*time.Second},
		"down for a moment in between": {func(w *world) {
			w.comes(10*time.Minute, func() { w.live(failedHost); w.reportStarted() })
			w.at(13*time.Minute, func() { w.die(failedHost); w.notice(failedHost) })
			w.at(14*time.Minute, func() { w.live(failedHost) })
		}, 19 * time.Minute},
		"the engine dies in between": {func(w *world) {
			w.comes(10*time.Minute, func() { w.live(failedHost); w.reportStarted() })
			w.comes(14*time.Minute, w.takeover)
		}, 15 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := away(t)
			w.rules.AutoReturn = true
			c.set(w)
			w.toEnd(time.Hour)
			if at := w.when("service compute-1 enable"); at < c.want-5*time.Second || at > c.want+10*time.Second {
				t.Errorf("enabled after %s, want %s\n%s", at, c.want, w.story())
			}
			if w.claims() != "" || w.unit.Host.OnMaintenance {
				t.Errorf("claims %s", w.claims())
			}
		})
	}
}

// A host that is heard long enough has waited out healthy_delay once, and is not made to wait for it again.
func TestAutoReturnByHeartbeatsWaitsOnce(t *testing.T) {
	w := away(t)
	w.rules.AutoReturn = true
	w.live(failedHost)
	w.toEnd(time.Hour)
	up, on := w.when("service compute-1 up"), w.when("service compute-1 enable")
	if up < 5*time.Minute || up > 6*time.Minute+30*time.Second || on-up > 10*time.Second {
		t.Errorf("forced_down taken back after %s, enabled after %s", up, on)
	}
}

// A host that fails again and again is not given back by itself after auto_return_limit times; an operator who ends its maintenance
// gives it back (F071).
func TestAutoReturnNotOfAHostThatFlaps(t *testing.T) {
	flapping := func(ago ...time.Duration) *world {
		w := away(t)
		w.rules.AutoReturn, w.rules.ReturnLimit, w.rules.ReturnWindow = true, 3, 24*time.Hour
		for _, d := range ago {
			w.unit.Earlier = append(w.unit.Earlier, born.Add(-d))
		}
		w.live(failedHost)
		w.reportStarted()
		return w
	}
	w := flapping(time.Hour, 3*time.Hour, 5*time.Hour, 24*time.Hour)
	w.run(30 * time.Hour)
	w.acts("service compute-1 up")
	if w.claims() != kept || w.wrote(ha.EntryAlarm, "host compute-1 has failed 4 times within 24h0m0s, limit 3") != 1 || w.unit.HeldAt != ha.GateFlapping {
		t.Fatalf("claims %s, held at %q\n%s", w.claims(), w.unit.HeldAt, w.story())
	}
	if n := w.looked["services"]; n > 30*60*3 {
		t.Errorf("%d looks in 30 hours at a host that waits for an operator", n)
	}
	w.comes(0, func() { // PUT on_maintenance false, as the store does it
		w.unit.Host.OnMaintenance = false
		w.unit.Apply(ha.DropClaim{HostUUID: w.unit.HostUUID, What: ha.WhatMaintenance, Reason: ha.ReasonRecovery})
	})
	w.toEnd(10 * time.Minute)
	if !w.service(failedHost).Enabled || w.claims() != "" {
		t.Errorf("claims %s, %+v", w.claims(), w.service(failedHost))
	}

	for name, w := range map[string]*world{
		"as often as the limit allows": flapping(time.Hour, 3*time.Hour, 5*time.Hour),
		"one of them long ago":         flapping(time.Hour, 3*time.Hour, 5*time.Hour, 26*time.Hour),
	} {
		w.toEnd(time.Hour)
		if !w.service(failedHost).Enabled || w.wrote(ha.EntryAlarm, "failed") != 0 {
			t.Errorf("%s: %+v\n%s", name, w.service(failedHost), w.story())
		}
	}
}
