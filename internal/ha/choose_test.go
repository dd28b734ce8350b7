package ha

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestHAEnabledSpellings(t *testing.T) {
	for v, want := range map[string]Opt{
		"True": OptIn, "true": OptIn, "TRUE": OptIn, "1": OptIn, "yes": OptIn, " true ": OptIn,
		"False": OptOut, "false": OptOut, "0": OptOut, "no": OptOut,
		"": OptSilent, "perhaps": OptSilent,
	} {
		if got := OptOf(Server{Metadata: map[string]string{"HA_Enabled": v}}, "HA_Enabled"); got != want {
			t.Errorf("HA_Enabled %q: %v, want %v", v, got, want)
		}
	}
	if got := OptOf(Server{Metadata: map[string]string{"HA_Enabled": "true"}}, "Protected"); got != OptSilent {
		t.Errorf("another key counts only when the option names it: %v", got)
	}
}

func TestStep4Choose(t *testing.T) {
	in, out := map[string]string{"HA_Enabled": "True"}, map[string]string{"HA_Enabled": "False"}
	for _, c := range []struct {
		name   string
		meta   map[string]string
		state  string
		all    bool
		ignore bool
		want   bool
		why    string
	}{
		{"HA-enabled, all", in, VMActive, true, false, true, ""},
		{"HA-enabled, not all", in, VMActive, false, false, true, ""},
		{"silent, all", nil, VMActive, true, false, true, ""},
		{"silent, not all", nil, VMActive, false, false, false, "not HA-enabled by metadata HA_Enabled"},
		{"spelled out no, all", out, VMActive, true, false, false, "opted out by metadata HA_Enabled"},
		{"spelled out no, not all", out, VMActive, false, false, false, "opted out by metadata HA_Enabled"},
		{"error, taken", in, VMError, true, false, true, ""},
		{"error, skipped", in, VMError, true, true, false, "in error state"},
		{"active, error is skipped", in, VMActive, true, true, true, ""},
		{"shelved offloaded", in, VMShelvedOffloaded, true, false, false, "shelved offloaded: on no host"},
	} {
		v := Choice{Key: "HA_Enabled", All: c.all, IgnoreError: c.ignore}.Decide(Server{VMState: c.state, Metadata: c.meta}, nil)
		got, why := v.Move, v.Why
		if got != c.want || why != c.why {
			t.Errorf("%s: %v %q, want %v %q", c.name, got, why, c.want, c.why)
		}
	}
}

func TestLocalDiskLeave(t *testing.T) {
	for _, c := range []struct {
		fromImage, leave, want bool
	}{{true, false, true}, {true, true, false}, {false, true, true}, {false, false, true}} {
		v := Choice{Key: "HA_Enabled", All: true, LeaveLocal: c.leave}.Decide(Server{VMState: VMActive, ImageBooted: c.fromImage}, nil)
		got, why := v.Move, v.Why
		if got != c.want || got == (why != "") {
			t.Errorf("booted from an image %v, leave %v: chosen %v %q", c.fromImage, c.leave, got, why)
		}
	}
}

func TestPriority(t *testing.T) {
	for v, want := range map[string]int{"5": 5, "-3": -3, " 7 ": 7, "": 0, "high": 0, "1.5": 0, "99999999999999999999": 0} {
		if got := PriorityOf(Server{Metadata: map[string]string{KeyPriority: v}}); got != want {
			t.Errorf("HA_Priority %q: %d, want %d", v, got, want)
		}
	}
	if got := PriorityOf(Server{}); got != 0 {
		t.Errorf("no key: %d, want 0", got)
	}
}

func TestStep5HAThenPriorityThenAge(t *testing.T) {
	old, young := t0, t0.Add(time.Hour)
	moves := []VMove{
		{InstanceUUID: "g", HA: false, Priority: 0, Born: young},
		{InstanceUUID: "f", HA: false, Priority: 0, Born: old},
		{InstanceUUID: "e", HA: false, Priority: 9, Born: young}, // no HA-enabled one comes after it
		{InstanceUUID: "d", HA: true, Priority: -1, Born: old},
		{InstanceUUID: "c", HA: true, Priority: 0, Born: young},
		{InstanceUUID: "b", HA: true, Priority: 0, Born: old},
		{InstanceUUID: "a", HA: true, Priority: 5, Born: young},
	}
	SortMoves(moves)
	got := ""
	for _, m := range moves {
		got += m.InstanceUUID
	}
	if got != "abcdefg" {
		t.Errorf("ordered %s, want abcdefg", got)
	}
}

// The order is total and does not depend on how the moves lay before: a takeover orders as its predecessor did.
func TestStep5OrderIsTotalAndStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var moves []VMove
		for i := range rapid.IntRange(0, 8).Draw(t, "n") {
			moves = append(moves, VMove{
				InstanceUUID: string(rune('a' + i)), HA: rapid.Bool().Draw(t, "ha"), Priority: rapid.IntRange(-1, 1).Draw(t, "priority"),
				Born: t0.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "age")) * time.Hour),
			})
		}
		one := slices.Clone(moves)
		two := rapid.Permutation(moves).Draw(t, "shuffled")
		SortMoves(one)
		SortMoves(two)
		for i := range one {
			if one[i].InstanceUUID != two[i].InstanceUUID {
				t.Fatalf("two orders of the same moves: %v and %v", one, two)
			}
			if i > 0 && !ordered(one[i-1], one[i]) {
				t.Fatalf("%v before %v", one[i-1], one[i])
			}
		}
	})
}

// ordered says the rule again, in other words: a goes before b.
func ordered(a, b VMove) bool {
	switch {
	case a.HA != b.HA:
		return a.HA
	case a.Priority != b.Priority:
		return a.Priority > b.Priority
	case !a.Born.Equal(b.Born):
		return a.Born.Before(b.Born)
	}
	return a.InstanceUUID < b.InstanceUUID
}
