package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// failing is the view of a host whose instance store failed a minute ago, with one active instance.
func failing() plan.View {
	now := born.Add(time.Minute)
	e := ha.Episode{UUID: "episode", HostUUID: "uuid-" + failedHost, Radius: []ha.ObjectKind{ha.ObjectInstance}, Version: 1, OpenedAt: born, Service: ha.ServiceDisabled}
	v := plan.View{Now: now, Rules: defaults(), Slots: 8}
	v.Rules.StorageAction = "error"
	v.Unit = ha.Unit{
		Work: ha.Work{ID: 1, Kind: ha.UnitStorage, HostUUID: e.HostUUID}, Host: ha.Host{UUID: e.HostUUID, Name: failedHost}, Segment: ha.Segment{Enabled: true},
		Storage: &ha.StorageUnit{Episodes: []ha.Episode{e}, Runs: []ha.Run{{EpisodeUUID: e.UUID, Version: 1, Kind: ha.ObjectInstance, State: ha.RunOpen}}},
	}
	v.Facts.Services = plan.Seen[[]ha.Service]{At: now, Value: []ha.Service{{ID: "s", Binary: ha.BinaryCompute, Host: failedHost}}}
	v.Facts.Servers = plan.Seen[[]ha.Server]{At: now, Value: []ha.Server{{ID: "i-1", Host: failedHost, VMState: ha.VMActive}}}
	return v
}

func actOf(d plan.Decision, k ha.ActKind) *ha.Act {
	for i := range d.Acts {
		if d.Acts[i].Kind == k {
			return &d.Acts[i]
		}
	}
	return nil
}

// What is done to the cloud is guarded: by the host recovery's precedence, and by the episode's being open in this version.
func TestStorageOrdersAreGuarded(t *testing.T) {
	d := plan.Storage(failing())
	a := actOf(d, ha.ActResetState)
	if a == nil || a.State != ha.VMError || a.Instance != "i-1" {
		t.Fatalf("acts: %+v", d.Acts)
	}
	var guards []string
	for _, c := range d.Changes {
		switch c := c.(type) {
		case ha.GiveWay:
			guards = append(guards, c.HostUUID)
		case ha.WhileOpen:
			guards = append(guards, c.EpisodeUUID)
		case ha.Write:
			if c.Entry.Kind == ha.EntryIntent && (!c.Entry.Open || !strings.Contains(c.Entry.Text, "it was active")) {
				t.Errorf("intent %+v", c.Entry)
			}
		}
	}
	if len(guards) != 2 {
		t.Errorf("guards: %v", guards)
	}
	v := failing()
	v.Unit.HostUnit = 7
	if d := plan.Storage(v); len(d.Acts) > 0 {
		t.Errorf("beside a host recovery: %+v", d.Acts)
	}
}

// A blob run that was held is opened first and turns copies suspect in the next turn: a batch goes by the run's row, and one that is still held
// there makes the whole commit stale, for ever.
func TestAHeldBlobRunIsOpenedBeforeItsBatches(t *testing.T) {
	suspects, opens := 0, 0
	count := func(d plan.Decision) {
		suspects, opens = 0, 0
		for _, c := range d.Changes {
			switch c := c.(type) {
			case ha.SuspectLocations:
				suspects++
			case ha.PutRun:
				if c.Run.Kind == ha.ObjectBlob && c.Run.State == ha.RunOpen && c.Run.Why == "" {
					opens++
				}
			}
		}
	}
	v := failing()
	v.Unit.Storage.Episodes[0].Radius = []ha.ObjectKind{ha.ObjectBlob}
	v.Unit.Storage.Runs = []ha.Run{{EpisodeUUID: "episode", Version: 1, Kind: ha.ObjectBlob, State: ha.RunHeld, Why: "held by op", Cursor: "7", Done: 3}}
	d := plan.Storage(v)
	if count(d); suspects != 0 || opens != 1 || !d.Reload {
		t.Errorf("resumed: %d batches, %d times opened, reload %v", suspects, opens, d.Reload)
	}
	v.Unit.Storage.Runs[0].State, v.Unit.Storage.Runs[0].Why = ha.RunOpen, ""
	if count(plan.Storage(v)); suspects != 1 || opens != 0 {
		t.Errorf("in the next turn: %d batches, the run written %d times", suspects, opens)
	}
}

// With storage_failure_action evacuate a recovery is filed for a host that was seen off, and for no other.
func TestStorageEvacuatesOnlyAHostThatWasSeenOff(t *testing.T) {
	files := func(d plan.Decision) bool {
		for _, c := range d.Changes {
			if _, is := c.(ha.FileDeath); is {
				return true
			}
		}
		return false
	}
	v := failing()
	v.Unit.Storage.Action = "evacuate"
	if d := plan.Storage(v); files(d) || len(d.Acts) > 0 {
		t.Errorf("without fencing: %+v", d)
	}
	v.Fencing = true
	d := plan.Storage(v)
	if actOf(d, ha.ActFence) == nil || files(d) || actOf(d, ha.ActResetState) != nil {
		t.Fatalf("before it was fenced: %+v", d)
	}
	fence := ha.Act{Key: "fence:" + failedHost, Kind: ha.ActFence, Host: failedHost}
	v.Results = []ha.Outcome{{Act: fence, At: v.Now, Err: &ha.CloudError{Class: ha.ClassNotSent}}}
	if said := fmt.Sprintf("%+v", plan.Storage(v).Changes); strings.Contains(said, "could not be fenced") {
		t.Errorf("not sent, and told as a failure of the controller: %s", said)
	}
	v.Results = []ha.Outcome{{Act: fence, At: v.Now, Fence: &ha.FenceResult{Text: "no answer"}, Err: &ha.CloudError{Class: ha.ClassRefused}}}
	if files(plan.Storage(v)) {
		t.Error("filed though nothing has seen it off")
	}
	v.Results = []ha.Outcome{{Act: fence, At: v.Now, Fence: &ha.FenceResult{Off: true, Text: "off twice"}}}
	if d := plan.Storage(v); !files(d) {
		t.Errorf("not filed though it was seen off: %+v", d)
	}
}

// A host that was deleted from salvor: its episodes end, cleared, its runs stop, and what is left in Nova is told.
func TestStorageOfADeletedHost(t *testing.T) {
	v := failing()
	v.Unit.HostDeleted = true
	v.Unit.Claims = []ha.Claim{{HostUUID: v.Unit.HostUUID, What: ha.WhatDisabled, Reason: ha.ReasonStorage, Detail: plan.StorageReason, Prior: "enabled"}}
	v.Unit.Now = v.Now.Add(time.Second)
	if d := plan.Storage(v); d.Ended || len(d.Acts) > 0 || len(d.Looks) != 1 {
		t.Fatalf("before it has looked at Nova: %+v", d)
	}
	v.Unit.Now = v.Now
	v.Facts.Services.Value[0].DisabledReason = plan.StorageReason
	d := plan.Storage(v)
	if !d.Ended || len(d.Acts) > 0 {
		t.Fatalf("%+v", d)
	}
	ends, stops, drops, told := 0, 0, 0, 0
	for _, c := range d.Changes {
		switch c := c.(type) {
		case ha.SetEpisode:
			if c.Ended && c.ClearedBy == "salvor: the host was deleted" {
				ends++
			}
		case ha.PutRun:
			if c.Run.State == ha.RunStopped {
				stops++
			}
		case ha.DropClaim:
			drops++
		case ha.Write:
			if c.Entry.Kind == ha.EntryAlarm && strings.Contains(c.Entry.Text, "leaves it disabled in Nova ("+plan.StorageReason+")") {
				told++
			}
		}
	}
	if ends != 1 || stops != 1 || drops != 1 || told != 1 {
		t.Errorf("ended %d, stopped %d, dropped %d, told %d: %+v", ends, stops, drops, told, d.Changes)
	}
}

func TestStorageOutlook(t *testing.T) {
	for _, c := range []struct {
		state, task string
		skip, wait  bool
	}{
		{ha.VMActive, "", false, false}, {ha.VMActive, "rebooting", false, false}, {ha.VMActive, ha.TaskStateMigrating, false, true}, {ha.VMActive, "deleting", false, true},
		{ha.VMStopped, "", false, false}, {ha.VMPaused, "", false, false}, {ha.VMSuspended, "", false, false}, {ha.VMRescued, "", false, false},
		{ha.VMResized, "", false, false}, {ha.VMActive, "resize_migrating", false, true}, {ha.VMBuilding, "", false, true}, {ha.VMError, "", true, false},
		{ha.VMDeleted, "", true, false}, {ha.VMShelved, "", true, false},
	} {
		skip, wait := plan.StorageOutlook(ha.Server{VMState: c.state, TaskState: c.task})
		if (skip != "") != c.skip || (wait != "") != c.wait {
			t.Errorf("%s/%s: skip %q, wait %q", c.state, c.task, skip, wait)
		}
	}
}
