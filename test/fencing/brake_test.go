package fencing

import (
	"fmt"
	"strings"
	"testing"
)

// TestBrakeComesBeforeFencing: three of six hosts may die; the fourth is rather a network that is broken, and keeps its power until
// an operator releases it (field findings F115, F117, F119).
func TestBrakeComesBeforeFencing(t *testing.T) {
	t.Parallel()
	w := open(t, 8, bmc)
	hosts := []string{"host-1", "host-2", "host-3", "host-4", "host-5", "host-6"}
	w.register(t, hosts...)
	notes := map[string]string{}
	w.silence(t, hosts[:3]...)
	for _, host := range hosts[:3] {
		notes[host] = w.unknown(t, host)
	}
	for _, host := range hosts[:3] {
		w.recovered(t, host, notes[host], "fenced")
	}
	fourth := hosts[3]
	w.silence(t, fourth) // long enough to be fenced, were it not for the brake
	n := w.unknown(t, fourth)
	r := w.says(t, n, "waiting at gate brake: 4 of 6 hosts of the segment are down, brake at more than 50 %")
	if r.Unit.Held == nil || r.Unit.Held.Gate != "brake" {
		t.Errorf("held: %+v", r.Unit.Held)
	}
	w.untouched(t, fourth)
	w.mustRun("recovery", "release", fourth, "--reason", "looked at it: four of them burn")
	r = w.recovered(t, fourth, n, "fenced")
	released := false
	for _, e := range r.Timeline {
		released = released || e.Kind == "operator" && strings.HasPrefix(e.Text, "admin") && strings.HasSuffix(e.Text, ` released gate brake ("looked at it: four of them burn")`)
	}
	if !released || w.powered(t, fourth) {
		t.Errorf("released in the timeline: %v; power: %v", released, w.powered(t, fourth))
	}
	for _, host := range hosts[4:] {
		w.untouched(t, host)
	}
}

// TestWholeSegmentIsNotFenced: all hosts fall silent at once, and are all reported. None of them is fenced (field finding F115).
func TestWholeSegmentIsNotFenced(t *testing.T) {
	t.Parallel()
	w := open(t, 8, bmc)
	hosts := []string{"host-1", "host-2", "host-3", "host-4", "host-5", "host-6"}
	w.register(t, hosts...)
	w.silence(t, hosts...)
	notes := map[string]string{}
	for _, host := range hosts {
		notes[host] = w.unknown(t, host)
	}
	for _, host := range hosts {
		w.says(t, notes[host], fmt.Sprintf("waiting at gate brake: %d of %d hosts of the segment are down", len(hosts), len(hosts)))
	}
	for _, host := range hosts {
		w.untouched(t, host)
	}
	if asked := w.calls(t, "", call.toBMC); len(asked) > 0 {
		t.Errorf("asked of BMCs: %+v", asked)
	}
}
