package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

// stageOf is a cloud of four hosts: dead, whose death is rehearsed, a and b, that take instances, and spare, a disabled reserved host.
// No two instances have the same needs of memory.
type stageOf struct {
	view  View
	rooms map[ha.Needs]Room
	free  map[string]int64 // VCPUs left
}

var rehearsedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func theStage() *stageOf {
	s := &stageOf{rooms: map[ha.Needs]Room{}, free: map[string]int64{"a": 10, "b": 10, "spare": 10, "dead": 10}}
	v := &s.view
	v.Now, v.Fencing = rehearsedAt, true
	v.Rules = Rules{MetadataKey: "HA_Enabled", VMMetadataKey: "HA_Enabled", EvacuateAll: true, BrakePercent: 50, RecoveryRate: 10, ReportInterval: 10 * time.Second,
		ProofMaxAge: time.Minute, VerifyInterval: time.Second, WaitEvacuation: time.Minute}
	v.Unit = ha.Unit{Work: ha.Work{ID: -1, Kind: ha.UnitHost, HostUUID: "dead", SegmentUUID: "rack"},
		Notification: ha.Notification{Payload: ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyHostStatus: ha.HostStatusNormal}},
		Segment:      ha.Segment{UUID: "rack", Name: "rack", Enabled: true, RecoveryMethod: ha.MethodAuto}}
	services := []ha.Service{{Binary: "nova-scheduler", Up: true, Enabled: true}, {Binary: "nova-conductor", Up: true, Enabled: true}}
	for i, name := range []string{"dead", "a", "b", "spare"} {
		services = append(services, ha.Service{ID: name, Binary: ha.BinaryCompute, Host: name, Up: true, Enabled: name != "spare", UpdatedAt: rehearsedAt})
		v.Unit.Peers = append(v.Unit.Peers, ha.Peer{Host: ha.Host{ID: int64(i + 1), UUID: name, Name: name, SegmentUUID: "rack", Reserved: name == "spare"}})
	}
	v.Unit.Host = v.Unit.Peers[0].Host
	v.Facts.Services = Seen[[]ha.Service]{Value: services, At: v.Now}
	v.Facts.Servers.At, v.Facts.Migrations.At, v.Facts.Aggregates.At = v.Now, v.Now, v.Now
	return s
}

func (s *stageOf) service(host string) *ha.Service {
	i := slices.IndexFunc(s.view.Facts.Services.Value, func(svc ha.Service) bool { return svc.Host == host })
	return &s.view.Facts.Services.Value[i]
}

func (s *stageOf) add(name string, change ...func(*ha.Server)) {
	srv := ha.Server{ID: name, Name: name, Host: "dead", VMState: ha.VMActive, Running: true, CreatedAt: rehearsedAt.Add(time.Duration(len(s.view.Facts.Servers.Value)) * time.Second),
		Needs: ha.NeedsOf(map[string]int64{"VCPU": 4}, nil)}
	for _, c := range change {
		c(&srv)
	}
	s.view.Facts.Servers.Value = append(s.view.Facts.Servers.Value, srv)
}

// rehearse asks "Placement" as service does, and tells the rehearsal in short lines.
func (s *stageOf) rehearse() (ha.Rehearsal, []string) {
	for _, n := range s.view.Needs() {
		if _, set := s.rooms[n]; set {
			continue
		}
		var room Room
		for host, free := range s.free {
			if free >= n.Amounts()["VCPU"] {
				room.Hosts = append(room.Hosts, ha.Room{Host: host, Free: map[string]int64{"VCPU": free}})
			}
		}
		s.rooms[n] = room
	}
	r := Rehearse(s.view, s.rooms)
	var lines []string
	for _, b := range r.Blocks {
		lines = append(lines, "block "+b.Rule+": "+b.Text+" ("+b.Fix+")")
	}
	for _, n := range r.Notes {
		lines = append(lines, "note "+n.Rule)
	}
	for _, p := range r.Moves {
		line := p.Server.Name + ":"
		switch {
		case p.Protected:
			line += fmt.Sprintf(" %d by %s to %s of %d", p.Order, p.Pass, p.Target, p.Choices)
		case p.Wanted:
			line += " UNPROTECTED " + p.Why.Rule + ": " + p.Why.Text + " (" + p.Why.Fix + ")"
		default:
			line += " not wanted, " + p.Why.Rule
		}
		lines = append(lines, line)
	}
	return r, lines
}

func metadata(value string) func(*ha.Server) {
	return func(s *ha.Server) { s.Metadata = map[string]string{"HA_Enabled": value} }
}

func vmState(state string) func(*ha.Server) { return func(s *ha.Server) { s.VMState = state } }

// TestRehearse: what a host's death would come to, for each rule and each lack, with the mend (issue 5, build 4; field finding F171).
func TestRehearse(t *testing.T) {
	const update = "salvor host update "
	tests := []struct {
		name string
		set  func(*stageOf)
		want []string
	}{
		{"all protected; one after the other takes its room", func(s *stageOf) { s.add("vm1"); s.add("vm2"); s.add("vm3") },
			[]string{"vm1: 1 by auto to a of 2", "vm2: 2 by auto to b of 2", "vm3: 3 by auto to a of 2"}},
		{"in the order of a recovery", func(s *stageOf) {
			s.add("old")
			s.add("first", func(v *ha.Server) { v.Metadata = map[string]string{"HA_Enabled": "True", "HA_Priority": "9"} })
			s.add("second", metadata("yes"))
		}, []string{"first: 1 by auto to a of 2", "second: 2 by auto to b of 2", "old: 3 by auto to a of 2"}},
		{"full cloud: the last one has no room", func(s *stageOf) {
			s.free = map[string]int64{"a": 4, "b": 0, "spare": 8, "dead": 8}
			s.add("vm1")
			s.add("vm2")
		}, []string{"vm1: 1 by auto to a of 1", "vm2: UNPROTECTED no_valid_host: no valid host: none of the 2 enabled hosts that are up has room for VCPU:4 (free or add capacity: enable spare)"}},
		{"no other host", func(s *stageOf) {
			s.service("a").Enabled, s.service("b").Up = false, false
			s.view.Rules.BrakePercent = 0
			s.add("vm1")
		}, []string{"vm1: UNPROTECTED no_host: no other host in the cloud is enabled and up (enable a, start b, enable spare)"}},
		{"Placement cannot be asked", func(s *stageOf) {
			s.rooms[ha.NeedsOf(map[string]int64{"VCPU": 4}, nil)] = Room{Err: "no answer in time"}
			s.add("vm1")
		}, []string{"note placement_unknown", "vm1: 1 by auto to  of 2"}},
		{"opted out, not enabled, error skipped, building, shelved, deleted", func(s *stageOf) {
			s.view.Rules.EvacuateAll, s.view.Rules.IgnoreError = false, true
			s.add("out", metadata("False"))
			s.add("silent")
			s.add("error", metadata("True"), vmState(ha.VMError))
			s.add("building", metadata("True"), vmState(ha.VMBuilding))
			s.add("deleted", metadata("True"), vmState(ha.VMSoftDeleted))
		}, []string{
			"error: UNPROTECTED error_state: in error state (bring the instance out of error, or set ignore_instances_in_error_state to false)",
			"building: UNPROTECTED state: left as it is: building (wait until it is built)",
			"deleted: not wanted, state", "out: not wanted, opted_out", "silent: not wanted, not_ha_enabled"}},
		{"local_disk = leave", func(s *stageOf) {
			s.view.Rules.LeaveLocalDisk = true
			s.add("image", metadata("True"), func(v *ha.Server) { v.ImageBooted = true })
			s.add("volume", metadata("True"))
		}, []string{"image: UNPROTECTED local_disk: its disk is on the dead host, and local_disk is leave (boot it from a volume, or set local_disk to evacuate, by which its data is lost)",
			"volume: 1 by auto to a of 2"}},
		{"a class decides", func(s *stageOf) {
			s.view.Rules.Classes = []ha.InstanceClass{{Name: "routers", Action: ha.ClassLeave,
				Conditions: []ha.Condition{{Trait: ha.TraitMetadata, Key: "role", Values: []string{"router"}}}}}
			s.add("router", func(v *ha.Server) { v.Metadata = map[string]string{"role": "router"} })
			s.add("vm1")
		}, []string{"router: not wanted, class", "vm1: 1 by auto to a of 2"}},
		{"in a live migration", func(s *stageOf) { s.add("vm1", func(v *ha.Server) { v.TaskState = ha.TaskStateMigrating }) },
			[]string{"vm1: UNPROTECTED live_migration: in a live migration: it would not be ordered, as it may run on another host (wait until the migration has ended)"}},
		{"a disabled reserved host is enabled when it is needed", func(s *stageOf) {
			s.view.Unit.Segment.RecoveryMethod = ha.MethodReservedHost
			s.add("vm1")
			s.add("vm2")
			s.add("vm3")
		}, []string{"vm1: 1 by reserved to spare of 1", "vm2: 2 by reserved to spare of 1",
			"vm3: UNPROTECTED no_reserved_host: no reserved host is left: spare has no room for VCPU:4 (salvor host create NAME --segment rack --reserved)"}},
		{"the reserved host is on maintenance: the method goes on", func(s *stageOf) {
			s.view.Unit.Segment.RecoveryMethod = ha.MethodRHPriority
			s.view.Unit.Peers[3].OnMaintenance = true
			s.add("vm1")
		}, []string{"vm1: 1 by auto to a of 2"}},
		{"no pass has room: each says why", func(s *stageOf) {
			s.view.Unit.Segment.RecoveryMethod = ha.MethodAutoPriority
			s.free = map[string]int64{}
			s.view.Unit.Peers[3].OnMaintenance = true
			s.add("vm1")
		}, []string{"vm1: UNPROTECTED no_valid_host: no valid host: none of the 2 enabled hosts that are up has room for VCPU:4; no reserved host is left: spare on maintenance " +
			"(free or add capacity; or " + update + "spare --on-maintenance=false; or salvor host create NAME --segment rack --reserved)"}},
		{"no reserved host at all", func(s *stageOf) {
			s.view.Unit.Segment.RecoveryMethod = ha.MethodReservedHost
			s.view.Unit.Peers[3].Reserved = false
			s.add("vm1")
		}, []string{"vm1: UNPROTECTED no_reserved_host: segment rack has no reserved host (salvor host create NAME --segment rack --reserved)"}},
		{"operator maintenance", func(s *stageOf) { s.view.Unit.Peers[0].Operator = true; s.add("vm1") },
			[]string{"block maintenance: host dead is on an operator's maintenance: its reports are refused (409) (" + update + "dead --on-maintenance=false)",
				"vm1: UNPROTECTED maintenance: host dead is on an operator's maintenance: its reports are refused (409) (" + update + "dead --on-maintenance=false)"}},
		{"disabled segment", func(s *stageOf) { s.view.Unit.Segment.Enabled = false },
			[]string{"block segment_disabled: segment rack is disabled: its reports are ignored (salvor segment update rack --enabled=true)"}},
		{"paused segment", func(s *stageOf) {
			s.view.Unit.Segment.Pause = &ha.Pause{Segment: "rack", By: "alice", Reason: "rack moves", Since: rehearsedAt}
		}, []string{"block paused: segment rack is paused by alice since 2026-01-02 03:04:05: rack moves (salvor resume rack)"}},
		{"everything paused", func(s *stageOf) {
			s.view.Unit.Segment.Pause = &ha.Pause{By: "alice", Reason: "power", Since: rehearsedAt}
		}, []string{"block paused: all recoveries are paused by alice since 2026-01-02 03:04:05: power (salvor resume)"}},
		{"the brake", func(s *stageOf) { s.service("a").Up, s.service("b").Up = false, false },
			[]string{"block brake: the brake would hold it: 3 of 4 hosts of the segment are down, brake at more than 50 % (bring the other hosts back, or release it when it comes: salvor recovery release dead)"}},
		{"no scheduler", func(s *stageOf) { s.view.Facts.Services.Value[0].Up = false },
			[]string{"block nova: no nova-scheduler is up (bring it back: a recovery waits for it)"}},
		{"unknown to Nova, whose name is longer", func(s *stageOf) { s.service("dead").Host = "dead.example.org" },
			[]string{"block unknown_to_nova: Nova has no compute service named dead (" + update + "dead --name dead.example.org)"}},
		{"in no segment: HA by metadata counts, by the default does not", func(s *stageOf) {
			s.view.Unit.SegmentUUID, s.view.Unit.Segment = "", ha.Segment{}
			s.add("asked", metadata("True"))
			s.add("silent")
		}, []string{"block no_segment: host dead is in no segment: reports about it are refused (400) (salvor host create dead --segment SEGMENT)",
			"asked: UNPROTECTED no_segment: host dead is in no segment: reports about it are refused (400) (salvor host create dead --segment SEGMENT)", "silent: not wanted, no_segment"}},
		{"down, and nobody has said so", func(s *stageOf) { s.service("dead").Up = false }, []string{"note down_unreported"}},
		{"orders of old lie in its queue", func(s *stageOf) {
			s.view.Unit.Peers[0].Claimed = true
			s.view.Unit.Claims = []ha.Claim{{HostUUID: s.view.Unit.HostUUID, What: ha.WhatOrder, Reason: ha.ReasonRecovery, Detail: "i9"}}
		}, []string{"note stale_order", "note not_returned"}},
		{"its recovery is open, and nothing can fence it", func(s *stageOf) {
			s.view.Unit.Peers[0].OpenIncident, s.view.Fencing = true, false
		}, []string{"note open_recovery", "note no_fencing"}},
		{"whether it can be fenced is not known here", func(s *stageOf) { s.view.Fencing, s.view.FencingUnknown = false, true }, []string{"note fencing_unknown"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := theStage()
			tt.set(s)
			before := fmt.Sprintf("%+v", s.view)
			_, got := s.rehearse()
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if after := fmt.Sprintf("%+v", s.view); after != before {
				t.Errorf("the view was changed:\n%s\n%s", before, after)
			}
		})
	}
}

// TestRehearseGates: each gate's answer is shown with its numbers, also behind one that stops.
func TestRehearseGates(t *testing.T) {
	s := theStage()
	s.view.Unit.Segment.Enabled = false
	r, _ := s.rehearse()
	var got []string
	for _, a := range r.Gates {
		got = append(got, fmt.Sprintf("%s %s: %s", a.Gate, a.Says, a.Text))
	}
	want := []string{
		"segment ignore: " + SegmentDisabled, "nova pass: Nova's API, a scheduler and a conductor answer",
		"brake pass: 1 of 4 hosts of the segment are down, brake at more than 50 %",
		"rate pass: 0 host recoveries started in this segment in the last minute, limit 10",
		"proof wait: Nova still hears dead: waiting until it has been silent for 15s (now 0s)",
	}
	if diff := cmp.Diff(want, got); diff != "" || r.Silence != 15*time.Second {
		t.Errorf("silence %v\n%s", r.Silence, diff)
	}
}

// TestRehearseRestart: whether a failure of the instance alone would have it restarted.
func TestRehearseRestart(t *testing.T) {
	s := theStage()
	s.add("asked", metadata("True"))
	s.add("silent")
	s.add("paused", metadata("True"), vmState(ha.VMPaused))
	told := func() string {
		r, _ := s.rehearse()
		var out []string
		for _, p := range r.Moves {
			text := "restarted"
			if p.Restart != nil {
				text = p.Restart.Rule
			}
			out = append(out, p.Server.Name+" "+text)
		}
		slices.Sort(out)
		return strings.Join(out, ", ")
	}
	if got := told(); got != "asked restarted, paused instance_state, silent not_ha_enabled" {
		t.Error(got)
	}
	s.view.Rules.ProcessAll = true
	if got := told(); got != "asked restarted, paused instance_state, silent restarted" {
		t.Error(got)
	}
}

// TestEstimate: the expected time comes from the moves in the rows, or is said to be unknown.
func TestEstimate(t *testing.T) {
	at := func(seconds int) *time.Time {
		when := rehearsedAt.Add(time.Duration(seconds) * time.Second)
		return &when
	}
	move := func(from, to int) ha.VMove {
		return ha.VMove{Status: ha.MoveSucceeded, StartTime: at(from), EndTime: at(to)}
	}
	past := [][]ha.VMove{{move(0, 10), move(0, 12), move(1, 20)}, {move(100, 110), {Status: ha.MoveFailed, StartTime: at(100), EndTime: at(900)}}}
	for _, tt := range []struct {
		n     int
		past  [][]ha.VMove
		known bool
		want  time.Duration
		text  string
	}{
		{0, nil, true, 0, "nothing would be moved"},
		{3, nil, false, 0, "unknown: no host recovery in the rows has moved an instance yet"},
		{1, past, true, 12 * time.Second, "reckoned from the last 2 host recoveries that moved instances: 4 in 30s together, one every 7.5s, and half of them took up to 12s each"},
		{10, past, true, 75 * time.Second, "reckoned from the last 2 host recoveries that moved instances: 4 in 30s together, one every 7.5s, and half of them took up to 12s each"},
	} {
		if got := Estimate(tt.n, tt.past); got != (ha.Estimate{Known: tt.known, Moves: tt.want, Text: tt.text}) {
			t.Errorf("%d instances: %+v", tt.n, got)
		}
	}
}

// TestRehearseOfAHostThatIsBack: one that is forced down and was reported back, or is heard, is not to be started, but restarted.
func TestRehearseOfAHostThatIsBack(t *testing.T) {
	for _, tt := range []struct {
		text, fix string
		set       func(s *stageOf, at time.Time)
	}{
		{"has not returned", "start it again", func(*stageOf, time.Time) {}},
		{"is back since its recovery (reported STARTED)", "tries on while Nova refuses; if it stays so, restart nova-compute", func(s *stageOf, at time.Time) { s.view.Unit.Host.StartedAt = &s.view.Now }},
		{"is back since its recovery (Nova hears it)", "or is reported STARTED; if it stays so, restart nova-compute", func(s *stageOf, at time.Time) { s.service("dead").UpdatedAt = at.Add(time.Hour) }},
	} {
		s := theStage()
		at := s.view.Now.Add(-time.Hour)
		s.view.Unit.Peers[0].Claimed, s.view.Unit.Host.OnMaintenance = true, true
		s.view.Unit.Claims = []ha.Claim{{HostUUID: s.view.Unit.HostUUID, What: ha.WhatForcedDown, Reason: ha.ReasonRecovery, Since: at, Seen: at}}
		s.service("dead").UpdatedAt = at
		tt.set(s, at)
		r, _ := s.rehearse()
		i := slices.IndexFunc(r.Notes, func(f ha.Finding) bool { return f.Rule == ha.FindingNotReturned })
		if i < 0 || !strings.Contains(r.Notes[i].Text, tt.text) || !strings.Contains(r.Notes[i].Fix, tt.fix) {
			t.Errorf("%s: %+v", tt.text, r.Notes)
		}
	}
}
