package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// "A killed nova-compute turns to down when the last heartbeat is more than service_down_time old: here 7–10 s after its
// death. status stays enabled."
func TestDeathIsNoticed(t *testing.T) {
	for seed := range uint64(20) {
		inBubble(t, Options{Seed: seed, Hosts: 2}, func(b bed) {
			id := b.on("host-1", 1, InstanceSpec{})[0]
			time.Sleep(time.Duration(b.chance("wait", "", 0) * float64(5*time.Second)))
			b.must(b.Kill("host-1"))
			death := time.Now()
			for b.service("host-1").Up {
				time.Sleep(10 * time.Millisecond)
			}
			if took := time.Since(death); took < 7*time.Second || took > 10100*time.Millisecond {
				t.Errorf("noticed after %v", took)
			}
			if s := b.service("host-1"); !s.Enabled || s.ForcedDown {
				t.Errorf("%+v", s)
			}
			if ins := b.instance(id); ins.HostStatus != "UNKNOWN" || ins.VMState != ha.VMActive {
				t.Errorf("%+v", ins)
			}
			list, err := b.nova.Servers(b.Context(), "host-1")
			b.must(err)
			if len(list) != 1 || list[0].ID != id || list[0].Host != "host-1" {
				t.Errorf("the servers of a dead host are listed as before, but %+v", list)
			}
		})
	}
}

// "PUT {"forced_down": true} → 200 with the whole service, state down at once."
func TestForcedDownActsAtOnce(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		out, err := b.nova.Do(b.Context(), ha.Act{Kind: ha.ActService, Host: "host-1", ServiceID: b.service("host-1").ID, ForcedDown: new(true)})
		b.must(err)
		if s := out.Service; s == nil || s.Up || !s.ForcedDown || !s.Enabled || s.Host != "host-1" || s.Binary != ha.BinaryCompute {
			t.Errorf("%+v", s)
		}
	})
}

// "{"status": "disabled"} on a host that is dead but not yet noticed takes 60 s; on one that is down or forced down, 0.1 s";
// "One PUT with forced_down, status and disabled_reason together: 0.03 s, also on a host that is dead but not yet noticed."
func TestDisableOfADeadHost(t *testing.T) {
	cases := map[string]struct {
		before func(b bed)
		force  *bool
		took   time.Duration
	}{
		"up":                         {func(b bed) {}, nil, 0},
		"not yet noticed":            {func(b bed) { b.must(b.Kill("host-1")) }, nil, time.Minute},
		"hung":                       {func(b bed) { b.must(b.Hang("host-1")) }, nil, time.Minute},
		"noticed":                    {func(b bed) { b.must(b.Kill("host-1")); time.Sleep(11 * time.Second) }, nil, 0},
		"forced down":                {func(b bed) { b.die("host-1") }, nil, 0},
		"in one PUT, before noticed": {func(b bed) { b.must(b.Kill("host-1")) }, new(true), 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, func(b bed) {
				nova := b.Nova(ClientOptions{Timeout: 5 * time.Minute})
				tc.before(b)
				start := time.Now()
				_, err := nova.Do(b.Context(), ha.Act{Kind: ha.ActService, Host: "host-1", ServiceID: b.service("host-1").ID,
					ForcedDown: tc.force, Enable: new(false), Reason: "test"})
				b.must(err)
				if took := time.Since(start); took != tc.took {
					t.Errorf("took %v, want %v", took, tc.took)
				}
				if s := b.service("host-1"); s.Enabled || s.DisabledReason != "test" {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// Nova writes first and waits then: a client that gives up after 30 s finds the host disabled.
func TestDisableIsWrittenBeforeItsAnswer(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		b.must(b.Kill("host-1"))
		err := b.put("host-1", nil, new(false), "test")
		if ha.ClassOf(err) != ha.ClassInDoubt {
			t.Errorf("%v", err)
		}
		if b.service("host-1").Enabled {
			t.Error("not written")
		}
	})
}

// "updated_at changes with every PUT too; state is judged by the last heartbeat."
func TestPutMovesUpdatedAtOnly(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		b.must(b.Kill("host-1"))
		time.Sleep(3 * time.Second)
		still := b.service("host-1").UpdatedAt
		time.Sleep(3 * time.Second)
		if s := b.service("host-1"); !s.UpdatedAt.Equal(still) {
			t.Errorf("moved from %v to %v without a heartbeat", still, s.UpdatedAt)
		}
		b.must(b.put("host-1", new(false), nil, ""))
		moved := b.service("host-1").UpdatedAt
		if !moved.After(still) || time.Since(moved).Abs() > time.Second/2 {
			t.Errorf("PUT left updated_at at %v", moved)
		}
		time.Sleep(5 * time.Second)
		if s := b.service("host-1"); s.Up || !s.UpdatedAt.Equal(moved) {
			t.Errorf("a PUT counted as a heartbeat: %+v", s)
		}
	})
}

// A PUT answers its time before Nova's database has rounded it to seconds; the next GET shows it rounded (measured).
func TestPutAnswersUnroundedTime(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		time.Sleep(11*time.Second + 898424*time.Microsecond - time.Duration(time.Now().Nanosecond()))
		put, _, err := b.UpdateService(Masakari(), b.service("host-1").ID, ServicePatch{ForcedDown: new(true)})
		b.must(err)
		if ms := put.Answered.Nanosecond(); ms != 898424000 {
			t.Errorf("answered %v", put.Answered)
		}
		if want := put.Answered.Truncate(time.Second).Add(time.Second); !b.service("host-1").UpdatedAt.Equal(want) {
			t.Errorf("kept %v, want %v", b.service("host-1").UpdatedAt, want)
		}
	})
}

// "A revived host keeps sending heartbeats while forced down; it stays down."
func TestHeartbeatsWhileForcedDown(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		b.die("host-1")
		b.must(b.Revive("host-1"))
		moves, last := 0, b.service("host-1").UpdatedAt
		for range 30 {
			time.Sleep(time.Second)
			s := b.service("host-1")
			if s.Up {
				t.Fatal("up while forced down")
			}
			if !s.UpdatedAt.Equal(last) {
				moves, last = moves+1, s.UpdatedAt
			}
		}
		if moves < 10 || moves > 15 {
			t.Errorf("%d heartbeats in 30 s", moves)
		}
	})
}

// "{"forced_down": false} is refused while evacuated servers are not cleaned up"; "the restarted nova-compute does that
// within about 2 s of its start".
func TestForceUpWaitsForTheCleanUp(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.one(ha.VMActive)
		b.must(b.evacuate(id, ""))
		b.settle(id, "host-1")
		err := b.put("host-1", new(false), nil, "")
		if ha.StatusOf(err) != 400 || !strings.HasPrefix(ha.TextOf(err), "Unable to force up host host-1 as `done` evacuation migration records remain associated with the host. Ensure the compute service has been restarted, allowing these records to move to `completed` before retrying this request.") {
			t.Fatal(err)
		}
		b.must(b.Revive("host-1"))
		if err := b.put("host-1", new(false), nil, ""); ha.StatusOf(err) != 400 {
			t.Fatalf("at once after the start: %v", err)
		}
		time.Sleep(2 * time.Second)
		b.must(b.put("host-1", new(false), nil, ""))
		if hosts, err := b.nova.Providers(b.Context(), id); err != nil || len(hosts) != 1 || hosts[0] == "host-1" {
			t.Errorf("allocations after the clean-up: %v %v", hosts, err)
		}
	})
}

// "Right after forced_down: false a host counts as up by its last heartbeat before the death … A boot onto it a few
// seconds later failed, since the revived host had not sent a new one yet."
func TestForcedUpCountsAnOldHeartbeat(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		b.die("host-1")
		time.Sleep(6 * time.Second)
		b.must(b.Revive("host-1")) // its first heartbeat comes 5 s later
		b.must(b.put("host-1", new(false), nil, ""))
		if !b.service("host-1").Up {
			t.Error("not up by its old heartbeat")
		}
		time.Sleep(4500 * time.Millisecond)
		if b.service("host-1").Up {
			t.Error("up 10.5 s after its death, without a new heartbeat")
		}
		time.Sleep(time.Second)
		if !b.service("host-1").Up {
			t.Error("not up by its new heartbeat")
		}
	})
}

// What a host that comes back does about the instances that stayed its own.
func TestReviveOfAHostWithInstances(t *testing.T) {
	for _, resume := range []bool{false, true} {
		inBubble(t, Options{ResumeGuests: resume}, func(b bed) {
			ids := b.on("host-1", 2, InstanceSpec{})
			building := b.on("host-1", 1, InstanceSpec{VMState: ha.VMBuilding})[0]
			b.die("host-1")
			if on := b.instance(ids[0]).Running; len(on) != 0 {
				t.Fatalf("runs on a host without power: %v", on)
			}
			b.must(b.evacuate(ids[0], "host-2"))
			b.settle(ids[0], "host-1")
			b.must(b.Revive("host-1"))
			time.Sleep(20 * time.Second)
			moved, stayed := b.instance(ids[0]), b.instance(ids[1])
			if moved.Host != "host-2" || len(moved.Running) != 1 {
				t.Errorf("%+v", moved)
			}
			if resume {
				if stayed.VMState != ha.VMActive || len(stayed.Running) != 1 {
					t.Errorf("not resumed: %+v", stayed)
				}
				return
			}
			if stayed.VMState != ha.VMStopped || len(stayed.Running) != 0 || stayed.PowerState != 4 {
				t.Errorf("not stopped by the power sync: %+v", stayed)
			}
			acts, err := b.nova.Actions(b.Context(), ids[1])
			b.must(err)
			if acts[0].Action != "stop" || acts[0].UserID != "" {
				t.Errorf("stopped by %+v", acts[0])
			}
			if s := b.server(building); s.VMState != ha.VMError {
				t.Errorf("an interrupted build is %s", s.VMState)
			}
			b.must(b.do(ha.Act{Kind: ha.ActStart, Instance: ids[1]}))
			time.Sleep(time.Second)
			if s := b.server(ids[1]); s.VMState != ha.VMActive || !s.Running {
				t.Errorf("not started: %+v", s)
			}
		})
	}
}

// A nova-compute that only was cut off goes on without a restart: no clean-up, and its instances ran on.
func TestHangAndResume(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.on("host-1", 1, InstanceSpec{})[0]
		b.must(b.Hang("host-1"))
		time.Sleep(11 * time.Second)
		if b.service("host-1").Up {
			t.Error("up while hung")
		}
		b.must(b.do(ha.Act{Kind: ha.ActStop, Instance: id}))
		time.Sleep(time.Minute)
		if s := b.server(id); s.TaskState != "powering-off" {
			t.Errorf("%+v", s)
		}
		b.must(b.Resume("host-1"))
		time.Sleep(time.Second)
		if s := b.server(id); s.VMState != ha.VMStopped || !b.service("host-1").Up {
			t.Errorf("%+v", s)
		}
	})
}

func TestBMC(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		bmc := b.BMC("host-1", ClientOptions{Timeout: 5 * time.Second})
		on, err := bmc.Power(b.Context())
		if err != nil || !on {
			t.Fatal(on, err)
		}
		b.must(b.AddFault(FaultRule{Path: "/redfish/", Host: "host-1", Drop: true, Times: 1}))
		if err := bmc.PowerOff(b.Context()); err == nil {
			t.Error("a dropped answer was no error")
		}
		if on, err := bmc.Power(b.Context()); err != nil || on {
			t.Error("still on", err)
		}
		b.must(bmc.PowerOn(b.Context()))
		time.Sleep(12 * time.Second)
		if !b.service("host-1").Up {
			t.Error("not up after it was powered on")
		}
	})
}

func TestAggregates(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		b.AddAggregate("rack-1", "host-1")
		act := ha.Act{Kind: ha.ActAggregateAdd, Aggregate: "1", Host: "host-2"}
		b.must(b.do(act))
		if err := b.do(act); ha.StatusOf(err) != 409 || ha.ClassOf(err) != ha.ClassRefused {
			t.Errorf("added twice: %v", err)
		}
		list, err := b.nova.Aggregates(b.Context())
		b.must(err)
		if len(list) != 1 || list[0].ID != "1" || len(list[0].Hosts) != 2 {
			t.Errorf("%+v", list)
		}
		act.Kind = ha.ActAggregateRemove
		b.must(b.do(act))
		for _, bad := range []ha.Act{{Aggregate: "7", Host: "host-2"}, {Aggregate: "1", Host: "nowhere"}} {
			bad.Kind = ha.ActAggregateAdd
			if err := b.do(bad); ha.ClassOf(err) != ha.ClassGone {
				t.Errorf("%v", err)
			}
		}
	})
}
