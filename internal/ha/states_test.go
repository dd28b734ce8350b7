package ha

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestStatusTransitions(t *testing.T) {
	all := []Status{StatusNew, StatusRunning, StatusError, StatusFailed, StatusFinished, StatusIgnored}
	// Rows: from; columns in the order of all.
	want := map[Status]string{
		StatusNew:      "yyyyyy",
		StatusRunning:  ".yyyyy",
		StatusError:    ".yyyyy",
		StatusFailed:   ".y.y..", // an operator's retry
		StatusFinished: "....y.",
		StatusIgnored:  ".....y",
	}
	for _, from := range all {
		for i, to := range all {
			if got := from.CanBecome(to); got != (want[from][i] == 'y') {
				t.Errorf("%s to %s: %v", from, to, got)
			}
		}
	}
	for _, s := range all {
		if Status("no such word").CanBecome(s) {
			t.Errorf("an unknown status became %s", s)
		}
		if s.CanBecome("no such word") {
			t.Errorf("%s became an unknown status", s)
		}
	}
}

func TestOpenIsWhatIsStillOwed(t *testing.T) {
	for s, want := range map[Status]bool{
		StatusNew: true, StatusRunning: true, StatusError: true, StatusFailed: false, StatusFinished: false, StatusIgnored: false,
	} {
		if s.Open() != want {
			t.Errorf("%s open: %v, want %v", s, s.Open(), want)
		}
	}
	for s, want := range map[MoveStatus]bool{
		MovePending: false, MoveOngoing: false, MoveSucceeded: true, MoveFailed: true, MoveIgnored: true,
	} {
		if s.Ended() != want {
			t.Errorf("%s ended: %v, want %v", s, s.Ended(), want)
		}
	}
}

func TestVMRule1TheEventsActedOn(t *testing.T) {
	events := []string{"LIFECYCLE", "IO_ERROR", "QEMU_GUEST_AGENT_ERROR", "REBOOT", "WATCHDOG", ""}
	details := []string{"STOPPED_FAILED", "IO_ERROR_REPORT", "STOPPED_DESTROYED", "CRASHED", ""}
	yes := map[string]bool{"LIFECYCLE/STOPPED_FAILED": true, "IO_ERROR/IO_ERROR_REPORT": true, "QEMU_GUEST_AGENT_ERROR/STOPPED_FAILED": true}
	for _, e := range events {
		for _, d := range details {
			if got := (Payload{KeyEvent: e, KeyVirDomainEvent: d}).VMActedOn(); got != yes[e+"/"+d] {
				t.Errorf("%s/%s acted on: %v", e, d, got)
			}
		}
	}
}

func TestRecordsOfAnEvacuation(t *testing.T) {
	for status, want := range map[string]string{
		"done": "done", "completed": "done", "error": "failed", "failed": "failed", "cancelled": "failed",
		"accepted": "under way", "pre-migrating": "under way", "running": "under way", "a word of a later Nova": "under way",
	} {
		m := Migration{Status: status}
		got := fmt.Sprint(m.Done(), m.Failed(), m.UnderWay())
		if got != fmt.Sprint(want == "done", want == "failed", want == "under way") {
			t.Errorf("%s is not %s: done, failed, under way = %s", status, want, got)
		}
	}
}

func TestMethodsArePasses(t *testing.T) {
	for m, want := range map[Method]string{
		MethodAuto: "[auto]", MethodReservedHost: "[reserved]", MethodAutoPriority: "[auto reserved]",
		MethodRHPriority: "[reserved auto]", "no such method": "[auto]",
	} {
		if got := fmt.Sprint(m.Passes()); got != want {
			t.Errorf("%s: %s, want %s", m, got, want)
		}
	}
}

func TestSegmentPause(t *testing.T) {
	until := t0.Add(time.Hour)
	for _, c := range []struct {
		name string
		p    *Pause
		at   time.Time
		want bool
	}{
		{"none", nil, t0, false},
		{"without an end", &Pause{By: "op"}, t0.Add(1000 * time.Hour), true},
		{"before its end", &Pause{Until: &until}, until.Add(-1), true},
		{"at its end", &Pause{Until: &until}, until, false},
	} {
		if got := c.p.Active(c.at); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestOneActiveUnitPerKey(t *testing.T) {
	for _, c := range []struct {
		n    Notification
		want string
	}{
		{Notification{Type: TypeComputeHost, SourceHostUUID: "h"}, "host:h"},
		{Notification{Type: TypeProcess, SourceHostUUID: "h", Payload: Payload{KeyProcessName: "nova-compute"}}, "process:h"},
		{Notification{Type: TypeVM, SourceHostUUID: "h", Payload: Payload{KeyInstanceUUID: "i"}}, "instance:i"},
	} {
		if _, got := c.n.UnitKey(); got != c.want {
			t.Errorf("%s: %s, want %s", c.n.Type, got, c.want)
		}
	}
	if got := UnitTakeBack.Key("h"); got != "takeback:h" {
		t.Errorf("take-back: %s", got)
	}
}

// A plan made twice writes one row.
func TestMoveUUIDIsOfTheMove(t *testing.T) {
	a := MoveUUID("n1", "i1")
	if a != MoveUUID("n1", "i1") || a == MoveUUID("n1", "i2") || a == MoveUUID("n2", "i1") {
		t.Error("a move's uuid is not its notification's and instance's")
	}
	if _, ok := CanonicalUUID(a); !ok {
		t.Errorf("%s is no uuid", a)
	}
}

func TestClassOfErrors(t *testing.T) {
	wrapped := fmt.Errorf("while ordering: %w", &CloudError{Class: ClassRefused, Status: 409, Op: "POST evacuate", Text: "no"})
	if ClassOf(wrapped) != ClassRefused || StatusOf(wrapped) != 409 || TextOf(wrapped) != "no" {
		t.Errorf("a wrapped error lost its class: %v", wrapped)
	}
	if ClassOf(nil) != "" || StatusOf(nil) != 0 || TextOf(nil) != "" {
		t.Error("success has no class")
	}
	plain := errors.New("odd")
	if ClassOf(plain) != ClassBroken || StatusOf(plain) != 0 || TextOf(plain) != "odd" {
		t.Error("an error of no class counts as broken")
	}
}
