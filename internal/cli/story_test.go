package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/wire"
)

const storyID = "11111111-2222-3333-4444-555555555555"

// TestStorySaysWhatEndsTheWait: for everything that a recovery can wait for, who or what ends it, as it is typed.
func TestStorySaysWhatEndsTheWait(t *testing.T) {
	text := func(s string) *string { return &s }
	at := &wire.Timestamp{Time: time.Date(2026, 3, 1, 3, 10, 0, 0, time.UTC)}
	held := func(g ha.Gate, why string) wire.Recovery {
		return wire.Recovery{NotificationUUID: storyID, Status: "running", Unit: &wire.Unit{Held: &wire.Held{Gate: string(g), Reason: why}}}
	}
	unit := func(status string, u *wire.Unit) wire.Recovery {
		return wire.Recovery{NotificationUUID: storyID, Status: status, Unit: u}
	}
	for _, tt := range []struct {
		what      string
		r         wire.Recovery
		moves     []wire.VMove
		waits, by string
	}{
		{"brake", held(ha.GateBrake, "3 of 4 hosts of the segment are down"), nil, "gate brake: 3 of 4", "salvor recovery release " + storyID},
		{"rate", held(ha.GateRate, "10 host recoveries"), nil, "10 host recoveries", "within a minute"},
		{"proof", held(ha.GateProof, "cmp-01 could not be fenced"), nil, "could not be fenced", "salvor host confirm-off cmp-01"},
		{"proof of a report that is not sure", held(ha.GateProof, "cmp-01 could not be fenced"), nil, "could not be fenced", "silence is no proof"},
		{"heartbeat", held(ha.GateHeartbeat, "heard"), nil, "heard", "a release does not end this"},
		{"nova", held(ha.GateNova, "Nova does not answer"), nil, "does not answer", "by itself"},
		{"pause", held(ha.GateSegment, "paused by ann"), nil, "paused by ann", "salvor resume SEGMENT (salvor pause --list shows what is)"},
		{"pause of everything", held(ha.GateSegment, "all recoveries are paused by ann since 2026"), nil, "paused by ann", "salvor resume (salvor pause --list shows what is)"},
		{"hold", unit("running", &wire.Unit{Hold: &wire.Hold{By: "ann", Reason: "switch", Until: at}}), nil, "a hold by ann: switch", "2026-03-01 03:10:00 UTC"},
		{"attempt", unit("error", &wire.Unit{NextAttempt: at}), nil, "2026-03-01 03:10:00", "salvor recovery retry " + storyID},
		{"room", unit("running", &wire.Unit{Step: "move"}), []wire.VMove{{InstanceName: "db", Status: "ongoing", Message: text("No valid host was found")}, {Status: "succeeded"}},
			"1 of 2 instances, such as db: No valid host", "--move VMOVE"},
		{"unlock", unit("running", &wire.Unit{Step: "move", CancelledBy: text("ann")}), []wire.VMove{{InstanceName: "db", Status: "ongoing", Message: text("Nova refuses to unlock it: task (409)")}, {Status: "succeeded"}},
			"the unlock of 1 of 2 instances, such as db: Nova refuses to unlock it: task (409)", "openstack server unlock INSTANCE"},
		{"cancelled", unit("running", &wire.Unit{Step: "move", CancelledBy: text("ann")}), []wire.VMove{{InstanceName: "db", Status: "ongoing"}}, "what is under way in Nova, of 1 of 1", "nothing new is ordered"},
		{"engine", unit("new", nil), nil, "an engine", "salvor engine list"},
		{"failed", unit("failed", &wire.Unit{EndedAt: at}), nil, "", "salvor recovery retry " + storyID},
		{"failed, imported", unit("failed", nil), nil, "", "report it again: salvor notification create"},
		{"finished", unit("finished", &wire.Unit{EndedAt: at}), nil, "", ""},
	} {
		w := waitingFor(tt.r, wire.Notification{Payload: map[string]string{"host_status": "UNKNOWN"}}, "cmp-01", tt.moves)
		waits := ""
		if w.For != nil {
			waits = *w.For
		}
		if (tt.waits == "") != (waits == "") || !strings.Contains(waits, tt.waits) || !strings.Contains(strings.Join(w.Ends, "\n"), tt.by) {
			t.Errorf("%s: waits for %q, ends %q; want %q, %q", tt.what, waits, w.Ends, tt.waits, tt.by)
		}
		if tt.r.Unit == nil && strings.Contains(strings.Join(w.Ends, "\n"), "recovery retry") {
			t.Errorf("%s: a retry is advised, and would be refused: %q", tt.what, w.Ends)
		}
	}
}

// TestOutcomeOfWhatHasNoHistory: of a notification that was imported nobody knows what was done; of a recovery without an entry it is known.
func TestOutcomeOfWhatHasNoHistory(t *testing.T) {
	message, takeover, ended := "moved", ha.TaskTakeover, &wire.Unit{EndedAt: &wire.Timestamp{}}
	stopped := map[string]string{"event": "STOPPED"}
	for _, tt := range []struct {
		r       wire.Recovery
		payload map[string]string
		want    string
	}{
		{wire.Recovery{Status: "finished"}, stopped, "what was done is not known: nothing is kept of its recovery"},
		{wire.Recovery{Status: "finished", Message: &message}, stopped, "moved"},
		{wire.Recovery{Status: "finished"}, map[string]string{"event": "STARTED"}, "noted: it is back"},
		{wire.Recovery{Status: "finished", Unit: ended}, stopped, "there was nothing to do"},
		{wire.Recovery{Status: "new"}, stopped, ""},
		{wire.Recovery{Status: "finished", Unit: ended, Timeline: []wire.TimelineEntry{{Kind: "outcome", Text: "start db: done"}, {Kind: "note", Task: &takeover, Text: "b took over from a"}}}, stopped, "start db: done"},
	} {
		if got := outcome(tt.r, tt.payload); !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%+v: %q, want %q", tt.r, got, tt.want)
		}
	}
}

// TestStoryIsTold: each row of the history stands in its place, gates with their question and numbers.
func TestStoryIsTold(t *testing.T) {
	text := func(s string) *string { return &s }
	at := func(s int) wire.Timestamp { return wire.Timestamp{Time: time.Date(2026, 3, 1, 3, 0, s, 0, time.UTC)} }
	r := wire.Recovery{NotificationUUID: storyID, Status: "running", Unit: &wire.Unit{Step: "move", Proof: &wire.Proof{Kind: "fenced", Text: "seen off twice", At: at(5)}},
		Timeline: []wire.TimelineEntry{
			{At: at(1), Kind: "gate", Task: text("brake"), Text: "1 of 3 hosts of the segment are down, brake at more than 50 %"},
			{At: at(2), Kind: "intent", Act: text("fence"), Text: "fence cmp-01", Open: true},
			{At: at(3), Kind: "note", Text: "power of cmp-01 by redfish: on"}, {At: at(3), Kind: "note", Text: "power of cmp-01 by redfish: on"},
			{At: at(4), Kind: "note", Text: "power of cmp-01 by redfish: off"},
			{At: at(5), Kind: "operator", Text: "ann released gate brake"},
			{At: at(6), Kind: "note", InstanceUUID: text("i-2"), Text: "left: HA_Enabled is false"},
			{At: at(7), Kind: "alarm", Text: "\x1b[31mlook"},
		}}
	n := wire.Notification{Type: "COMPUTE_HOST", Payload: map[string]string{"event": "STOPPED", "host_status": "UNKNOWN"}}
	got := storyOf(r, n, "cmp-01", []wire.VMove{{InstanceName: "db", InstanceUUID: "i-1", SourceHost: "cmp-01", DestHost: text("cmp-02"), Status: "ongoing", Message: text("waiting")}}).text()
	for _, want := range []string{
		"COMPUTE_HOST STOPPED of cmp-01, host_status UNKNOWN",
		"brake      are so many hosts down that it is rather a network failure?  1 of 3 hosts of the segment are down, brake at more than 50 %",
		"fence cmp-01  (no answer yet)", "fenced: seen off twice", "power of cmp-01 by redfish: off\n", "redfish: on  (2 times, until 2026-03-01 03:00:03)", "ann released gate brake",
		"i-2: left: HA_Enabled is false", "ongoing    db (i-1), cmp-01 to cmp-02: waiting", "[31mlook", "It waits for 1 of 1 instances",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Error("a terminal would obey it")
	}
	const now = "salvor coverage --host cmp-01"
	r.Status, r.Unit.EndedAt = "finished", &wire.Timestamp{}
	if strings.Contains(got, now) || !strings.Contains(storyOf(r, n, "cmp-01", nil).text(), now) {
		t.Error("where the host's return is told is said of a recovery that has ended, and of no other")
	}
}

// TestStoryOfAnInstance: what was ordered for an instance that was reported itself is told, and what came of it is not "nothing".
func TestStoryOfAnInstance(t *testing.T) {
	text := func(s string) *string { return &s }
	n := wire.Notification{Type: "VM", Payload: map[string]string{"event": "LIFECYCLE", "instance_uuid": "i-1"}}
	r := wire.Recovery{NotificationUUID: storyID, Status: "finished", Timeline: []wire.TimelineEntry{
		{Kind: "intent", InstanceUUID: text("i-1"), Act: text("start"), Text: "start i-1"},
		{Kind: "outcome", InstanceUUID: text("i-1"), Act: text("start"), Text: "start i-1: done"},
	}}
	got := storyOf(r, n, "cmp-01", nil).text()
	if !strings.Contains(got, "ORDERED FOR THE INSTANCE") || !strings.Contains(got, "start i-1: done") {
		t.Errorf("what was ordered is not told:\n%s", got)
	}
	if got := outcome(r, n.Payload); got != "start i-1: done" {
		t.Errorf("what came of it: %q", got)
	}
}
