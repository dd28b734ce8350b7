package app

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/telemetry"
)

// TestWatchedCountsOnce: an owner writes a whole move or recovery again with every change.
func TestWatchedCountsOnce(t *testing.T) {
	var log bytes.Buffer
	m := telemetry.NewMetrics("test")
	w := watch(nil, m, slog.New(slog.NewTextHandler(&log, nil)))
	w.units[7] = &seen{host: "cmp-01", notification: "n-1", moves: map[string]ha.MoveStatus{"before": ha.MoveFailed}}
	move := func(instance string, stage ha.Stage, status ha.MoveStatus) ha.Change {
		return ha.PutMove{Move: ha.VMove{InstanceUUID: instance, Stage: stage, Status: status}}
	}
	held := func(g ha.Gate) ha.Change { return ha.SetRecovery{Recovery: ha.Recovery{HeldAt: g}} }
	for _, changes := range [][]ha.Change{
		{held(ha.GateBrake), move("a", ha.StageOrdered, ha.MoveOngoing), ha.Write{Entry: ha.Entry{Kind: ha.EntryAlarm, Task: string(ha.AlarmBrake), Text: "look at it"}}},
		{held(ha.GateBrake), move("a", ha.StageDone, ha.MoveSucceeded), move("before", ha.StageDone, ha.MoveFailed)},
		{held(""), move("a", ha.StageDone, ha.MoveSucceeded), ha.Write{Entry: ha.Entry{Kind: ha.EntryNote, Text: "nothing special"}}},
		{held(ha.GateBrake), move("before", ha.StageOrder, ha.MovePending)},
		{move("before", ha.StageDone, ha.MoveFailed), ha.EndUnit{}},
		{move("a", ha.StageDone, ha.MoveFailed)}, // no longer ours
	} {
		w.saw(7, changes)
	}
	r := httptest.NewRecorder()
	m.Handler().ServeHTTP(r, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{`salvor_gate_holds_total{gate="brake"} 2`, `salvor_moves_total{outcome="succeeded"} 1`, `salvor_moves_total{outcome="failed"} 1`,
		`salvor_alarms_total{alarm="brake"} 1`, `salvor_alarms_total{alarm="old_copies"} 0`} {
		if !strings.Contains(r.Body.String(), want) {
			t.Errorf("%s is missing", want)
		}
	}
	if got := log.String(); strings.Count(got, "ALARM") != 1 || !strings.Contains(got, "look at it\" alarm=brake host=cmp-01 notification=n-1") {
		t.Errorf("the log: %s", got)
	}
	if len(w.units) != 0 {
		t.Error("an ended unit is still kept")
	}
}
