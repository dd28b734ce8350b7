package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// NOVA-OBSERVATIONS, "When Nova takes the evacuation": one case for each row.
func TestEvacuateAnswers(t *testing.T) {
	demo := Caller{UserID: UserDemo, ProjectID: ProjectDemo}
	stranger := Caller{UserID: "other", ProjectID: "other"}
	kill := func(b bed) { b.die("host-1") }
	cases := []struct {
		observation string
		vm, task    string
		before      func(b bed, id string)
		who         Caller
		id          string
		target      string
		status      int // 0: taken
		text        string
	}{
		{observation: "its host is up", status: 400, text: "Compute service of host-1 is still in use."},
		{observation: "dead, but not yet noticed", before: func(b bed, _ string) { b.must(b.Kill("host-1")) },
			status: 400, text: "Compute service of host-1 is still in use."},
		{observation: "down by silence", before: func(b bed, _ string) {
			b.must(b.Kill("host-1"))
			time.Sleep(11 * time.Second)
		}},
		{observation: "forced down, active", before: func(b bed, _ string) { kill(b) }},
		{observation: "forced down, stopped", vm: ha.VMStopped, before: func(b bed, _ string) { kill(b) }},
		{observation: "forced down, error", vm: ha.VMError, before: func(b bed, _ string) { kill(b) }},
		{observation: "task rebooting", task: "rebooting", before: func(b bed, _ string) { kill(b) }},
		{observation: "task rebuilding", task: "rebuilding", before: func(b bed, _ string) { kill(b) }},
		{observation: "locked by an admin, caller is admin", before: func(b bed, id string) {
			b.must(b.do(ha.Act{Kind: ha.ActLock, Instance: id, Reason: "salvor"}))
			kill(b)
		}},
		{observation: "paused", vm: ha.VMPaused, before: func(b bed, _ string) { kill(b) }, status: 409,
			text: "Cannot 'evacuate' instance ID while it is in vm_state paused"},
		{observation: "suspended", vm: ha.VMSuspended, before: func(b bed, _ string) { kill(b) }, status: 409,
			text: "Cannot 'evacuate' instance ID while it is in vm_state suspended"},
		{observation: "rescued", vm: ha.VMRescued, before: func(b bed, _ string) { kill(b) }, status: 409,
			text: "Cannot 'evacuate' instance ID while it is in vm_state rescued"},
		{observation: "resized", vm: ha.VMResized, before: func(b bed, _ string) { kill(b) }, status: 409,
			text: "Cannot 'evacuate' instance ID while it is in vm_state resized"},
		{observation: "shelved_offloaded", vm: ha.VMShelvedOffloaded, before: func(b bed, _ string) { kill(b) }, status: 400,
			text: "The target host can't be the same one."},
		{observation: "an own server, as a plain member", who: demo, before: func(b bed, _ string) { kill(b) }, status: 403,
			text: "Policy doesn't allow os_compute_api:os-evacuate to be performed."},
		{observation: "of another project as a plain member", who: stranger, before: func(b bed, _ string) { kill(b) }, status: 404,
			text: "Instance ID could not be found."},
		{observation: "no such server", id: "11111111-2222-3333-4444-555555555555", status: 404,
			text: "Instance 11111111-2222-3333-4444-555555555555 could not be found."},
		{observation: "host up and enabled", target: "host-2", before: func(b bed, _ string) { kill(b) }},
		{observation: "host disabled is taken", target: "host-2", before: func(b bed, _ string) {
			b.must(b.put("host-2", nil, new(false), "test"))
			kill(b)
		}},
		{observation: "host forced down is taken", target: "host-2", before: func(b bed, _ string) {
			b.die("host-2")
			kill(b)
		}},
		{observation: "host: where it is", target: "host-1", before: func(b bed, _ string) { kill(b) }, status: 400,
			text: "The target host can't be the same one."},
		{observation: "host: unknown", target: "nowhere", before: func(b bed, _ string) { kill(b) }, status: 404,
			text: "Compute host nowhere not found."},
		{observation: "order of checks: unknown target before still in use", target: "nowhere", status: 404,
			text: "Compute host nowhere not found."},
		{observation: "order of checks: vm_state before still in use", vm: ha.VMPaused, status: 409,
			text: "Cannot 'evacuate' instance ID while it is in vm_state paused"},
		{observation: "order of checks: own host before vm_state", vm: ha.VMPaused, target: "host-1", status: 400,
			text: "The target host can't be the same one."},
		{observation: "under way: taken again", before: func(b bed, id string) {
			kill(b)
			b.must(b.evacuate(id, ""))
		}},
	}
	for _, tc := range cases {
		t.Run(tc.observation, func(t *testing.T) {
			inBubble(t, Options{}, func(b bed) {
				id := b.on("host-1", 1, InstanceSpec{VMState: tc.vm, TaskState: tc.task})[0]
				if tc.before != nil {
					tc.before(b, id)
				}
				ask := id
				if tc.id != "" {
					ask = tc.id
				}
				nova := b.Nova(ClientOptions{Caller: tc.who})
				_, err := nova.Do(b.Context(), ha.Act{Kind: ha.ActEvacuate, Instance: ask, Target: tc.target})
				if got := ha.StatusOf(err); got != tc.status {
					t.Fatalf("status %d, want %d: %v", got, tc.status, err)
				}
				if want := replaceID(tc.text, id); ha.TextOf(err) != want {
					t.Errorf("text %q, want %q", ha.TextOf(err), want)
				}
				if tc.status != 0 {
					if n := b.instance(id).Evacuations; n != 0 {
						t.Errorf("a refused order was counted: %d", n)
					}
					return
				}
				if s := b.server(id); s.TaskState != "rebuilding" {
					t.Errorf("taken, but task_state %q", s.TaskState)
				}
			})
		})
	}
}

func replaceID(text, id string) string {
	return strings.ReplaceAll(text, "ID", id)
}

// "locked … stays locked".
func TestEvacuationKeepsTheLock(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.one(ha.VMActive)
		b.must(b.do(ha.Act{Kind: ha.ActLock, Instance: id}))
		b.must(b.evacuate(id, ""))
		if ins := b.settle(id, "host-1"); !ins.Locked {
			t.Error("unlocked by its evacuation")
		}
	})
}

// "Once the server is on its new host, a further evacuate gets the 400".
func TestEvacuateAgainWhenArrived(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.one(ha.VMActive)
		b.must(b.evacuate(id, "host-2"))
		b.settle(id, "host-1")
		err := b.evacuate(id, "")
		if ha.StatusOf(err) != 400 || ha.TextOf(err) != "Compute service of host-2 is still in use." {
			t.Error(err)
		}
	})
}

// "os-resetState … Both make the server fit for evacuation", also on a dead host.
func TestResetStateMakesFit(t *testing.T) {
	for _, vm := range []string{ha.VMPaused, ha.VMRescued, ha.VMResized, ha.VMSuspended} {
		for _, state := range []string{ha.VMError, ha.VMActive} {
			t.Run(vm+" to "+state, func(t *testing.T) {
				inBubble(t, Options{}, func(b bed) {
					id := b.one(vm)
					b.must(b.do(ha.Act{Kind: ha.ActResetState, Instance: id, State: state}))
					if s := b.server(id); s.VMState != state || s.TaskState != "" {
						t.Fatalf("after the reset: %+v", s)
					}
					b.must(b.evacuate(id, ""))
					if ins := b.settle(id, "host-1"); ins.VMState != ha.VMActive || ins.Host == "host-1" {
						t.Errorf("ended %s on %s", ins.VMState, ins.Host)
					}
				})
			})
		}
	}
}
