package field

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
	"github.com/salvor-ha/salvor/internal/sim"
)

// A tenant cannot act on an instance while it is moved; afterwards it can, but for what was locked before.
func TestF013UserActsDuringTheMove(t *testing.T) {
	play(t, cast{cloud: sim.Options{Rate: 0.2}}, func(s *scene) {
		ids := s.instances("host-1", 2, ofHA())
		s.must(s.cloud.Act(tenant, ids[1], sim.ServerAction{Name: "lock", Reason: "mine"}))
		s.dies("host-1")
		note := s.down("host-1")
		s.until("both are ordered", 10*time.Second, func() bool { return len(s.acts("evacuate", "")) == 2 })
		for _, action := range []string{"os-stop", "reboot"} {
			if err := s.cloud.Act(tenant, ids[0], sim.ServerAction{Name: action}); err == nil {
				t.Errorf("%s was taken during the move", action)
			}
		}
		s.becomes(note, ha.StatusFinished, "2 of 2", time.Minute)
		s.arrived(ids[0], "host-1", ha.VMActive)
		if i := s.instance(ids[1]); !i.Locked || i.LockedReason != "mine" || i.Host == "host-1" {
			t.Errorf("the user's lock: %v %q, on %s", i.Locked, i.LockedReason, i.Host)
		}
		s.must(s.cloud.Act(tenant, ids[0], sim.ServerAction{Name: "os-stop"}))
	})
}

// A recovery that has ended, with an evacuation that never does, asks Nova nothing more about it.
func TestF015NoCallsAfterTheEnd(t *testing.T) {
	play(t, cast{rules: func(r *plan.Rules) { r.Expiry = 10 * time.Minute }}, func(s *scene) {
		id := s.neverMoves("host-1")
		note := s.down("host-1")
		s.stopConductorAtOrder()
		s.becomes(note, ha.StatusFailed, "expired", 15*time.Minute)
		s.moved(note, id, ha.MoveFailed, "order still under way in Nova")
		if s.instance(id).Locked {
			t.Error("stays locked")
		}
		before := len(s.calls(func(sim.Call) bool { return true }))
		s.pass(10 * time.Minute)
		after := s.calls(func(sim.Call) bool { return true })[before:]
		for _, c := range after {
			if !strings.HasSuffix(c.Path, "/os-services") {
				t.Errorf("after the end: %s %s", c.Method, c.Path)
			}
		}
		if len(after) > 12*2 { // the take-back looks at the host each minute
			t.Errorf("%d calls in ten minutes", len(after))
		}
	})
}

// neverMoves is an instance on a dead host.
func (s *scene) neverMoves(host string) string {
	s.Helper()
	id := s.instances(host, 1, ofHA())[0]
	s.dies(host)
	return id
}

// stopConductorAtOrder ends the conductor when salvor has passed its gates: Nova takes the order, and never carries it out.
func (s *scene) stopConductorAtOrder() {
	s.Helper()
	s.until("locked", 10*time.Second, func() bool { return len(s.acts("lock", "")) > 0 })
	s.must(s.cloud.StopControl("nova-conductor"))
}

// Every state that an instance may be in, on one host: each ends as the table says (RECOVERY section 2), and nothing is asked of
// the dead host's nova-compute on the way.
func TestF017StateTable(t *testing.T) {
	const ignored = ""
	table := []struct {
		before, task string
		ends         string
	}{
		{ha.VMActive, "", ha.VMActive}, {ha.VMActive, "rebooting", ha.VMActive}, {ha.VMActive, "powering-off", ha.VMActive},
		{ha.VMStopped, "", ha.VMStopped}, {ha.VMStopped, "powering-on", ha.VMStopped},
		{ha.VMError, "", ha.VMError}, {ha.VMError, "rebuilding", ha.VMError},
		{ha.VMPaused, "", ha.VMStopped}, {ha.VMPaused, "unpausing", ha.VMStopped},
		{ha.VMSuspended, "", ha.VMStopped}, {ha.VMRescued, "", ha.VMStopped}, {ha.VMResized, "", ha.VMStopped},
		{ha.VMBuilding, "", ignored}, {ha.VMShelved, "", ignored},
	}
	play(t, cast{}, func(s *scene) {
		var ids []string
		for _, c := range table {
			ids = append(ids, s.instances("host-1", 1, sim.InstanceSpec{VMState: c.before, TaskState: c.task})[0])
		}
		away := s.instances("host-1", 1, sim.InstanceSpec{VMState: ha.VMShelvedOffloaded})[0]
		s.dies("host-1")
		note := s.down("host-1")
		s.becomes(note, ha.StatusFinished, "12 of 14", 5*time.Minute)
		for i, c := range table {
			if c.ends == ignored {
				s.moved(note, ids[i], ha.MoveIgnored, c.before)
				if v := s.instance(ids[i]); v.VMState != c.before || v.Host != "host-1" || v.Evacuations != 0 {
					t.Errorf("%s: %s on %s", c.before, v.VMState, v.Host)
				}
				continue
			}
			s.moved(note, ids[i], ha.MoveSucceeded, "")
			s.arrived(ids[i], "host-1", c.ends)
		}
		if v := s.instance(away); v.VMState != ha.VMShelvedOffloaded || v.Evacuations != 0 {
			t.Errorf("shelved offloaded: %+v", v)
		}
		for _, c := range s.calls(func(c sim.Call) bool { return c.Action == "os-stop" || c.Action == "os-start" }) {
			if c.Host == "host-1" {
				t.Errorf("%s asked of the dead host", c.Action)
			}
		}
	})
}

// One of five cannot be moved: it is named with Nova's words, the host is not fenced or forced down again for it, and a retry of
// what is left tries that alone.
func TestF021FailureIsNamed(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		ids := s.instances("host-1", 5, ofHA())
		s.fault(sim.FaultRule{Action: "evacuate", Instance: ids[2], Status: 403})
		s.dies("host-1")
		note := s.down("host-1")
		s.becomes(note, ha.StatusFailed, "4 moved, 1 not: "+ids[2]+": Nova refused the order: Simulated fault", 10*time.Minute)
		s.moved(note, ids[2], ha.MoveFailed, "Nova refused the order")
		s.pass(time.Hour)
		if n := len(s.puts("host-1")); n != 1 {
			t.Errorf("%d PUTs on the service", n)
		}
		s.cloud.ClearFaults()
		s.retries(note)
		s.becomes(note, ha.StatusFinished, "5 of 5", time.Minute)
		for i, id := range ids {
			if n := len(s.acts("evacuate", id)); n != map[bool]int{true: 2, false: 1}[i == 2] {
				t.Errorf("instance %d: %d orders", i, n)
			}
		}
	})
}

// A host under a name that Nova does not know: nothing is inferred and nothing is done.
func TestF023NameNovaDoesNotKnow(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		s.instances("host-1", 1, ofHA())
		name := "host-1.example.com" // it was renamed
		h, err := s.rows.UpdateHost(s.ctx, s.segment, s.hosts["host-1"], ha.HostPatch{Name: &name})
		s.must(err)
		s.dies("host-1")
		s.becomes(s.down(h.Name), ha.StatusFailed, "Nova has no compute service named host-1.example.com", time.Hour)
		s.untouched()
		if _, _, err := s.salvor.CreateHost(s.ctx, s.segment, ha.Host{Name: "host-9"}); err == nil {
			t.Error("a host was registered that Nova does not know")
		}
	})
}

// The host comes back while its instances are moved: forced_down stays until the moves have ended, nothing new is ordered, no
// instance runs twice, and then forced_down is taken back.
func TestF025HostReturnsMidRecovery(t *testing.T) {
	for name, reported := range map[string]bool{"reported STARTED": true, "only heard": false} {
		t.Run(name, func(t *testing.T) {
			play(t, cast{cloud: sim.Options{Rate: 0.05}, rules: func(r *plan.Rules) { r.Threads = 2 }}, func(s *scene) {
				ids := s.instances("host-1", 6, ofHA())
				s.dies("host-1")
				note := s.down("host-1")
				s.until("two are moved", time.Minute, func() bool { return len(s.away(ids, "host-1")) == 2 })
				s.returns("host-1")
				returned := time.Now()
				if reported {
					s.up("host-1")
				}
				for {
					status, message := s.note(note)
					if !status.Open() {
						if status != ha.StatusFinished && status != ha.StatusFailed || !strings.Contains(message, "host returned") {
							t.Errorf("%s %q", status, message)
						}
						break
					}
					if !s.service("host-1").ForcedDown {
						t.Fatal("forced_down was dropped with moves under way")
					}
					if time.Since(returned) > 20*time.Minute {
						t.Fatalf("%s %q", status, message)
					}
					s.pass(250 * time.Millisecond)
				}
				for _, c := range s.acts("evacuate", "") {
					if c.At.After(returned.Add(30 * time.Second)) {
						t.Errorf("ordered %s after the return", c.At.Sub(returned))
					}
				}
				// An evacuation that ended after the start of its nova-compute is cleaned up by its next one; until then Nova refuses.
				s.until("forced_down is taken back, or the alarm that asks for a restart", 30*time.Minute, func() bool {
					return !s.service("host-1").ForcedDown || s.alarmed("compute of host-1 not restarted")
				})
				s.must(s.cloud.KillCompute("host-1"))
				s.returns("host-1")
				s.until("forced_down is taken back", 30*time.Minute, func() bool { return !s.service("host-1").ForcedDown })
				for id, m := range s.moves(note) {
					i := s.instance(id)
					if !m.Status.Ended() || m.Status != ha.MoveSucceeded && text(m.Message) == "" || i.Locked || i.VMState != ha.VMActive {
						t.Errorf("%s: %s %q, locked %v, %s on %s", id, m.Status, text(m.Message), i.Locked, i.VMState, i.Host)
					}
				}
				s.harmless()
			})
		})
	}
}

// away are those that are no longer on the host.
func (s *scene) away(ids []string, host string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return s.instance(id).Host == host })
}

// The host comes back without a restart of its nova-compute, so that old copies run on: it stays forced down, and an alarm says so.
func TestF027OldCopiesAreToldOf(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		id := s.instances("host-1", 1, ofHA())[0]
		s.must(s.cloud.Hang("host-1"))
		s.until("Nova sees it down", time.Minute, func() bool { return !s.service("host-1").Up })
		s.becomes(s.down("host-1"), ha.StatusFinished, "1 of 1", time.Minute)
		s.must(s.cloud.Resume("host-1"))
		s.up("host-1")
		s.until("the alarm", 20*time.Minute, func() bool { return s.alarmed("compute of host-1 not restarted, old copies may run") })
		if !s.service("host-1").ForcedDown || len(s.instance(id).Running) != 2 {
			t.Errorf("forced down %v, runs on %v", s.service("host-1").ForcedDown, s.instance(id).Running)
		}
		s.must(s.cloud.KillCompute("host-1"))
		s.returns("host-1") // its nova-compute is restarted
		s.until("forced_down is taken back", 5*time.Minute, func() bool { return !s.service("host-1").ForcedDown })
		if on := s.instance(id).Running; len(on) != 1 || on[0] == "host-1" {
			t.Errorf("runs on %v", on)
		}
	})
}

// What Nova refuses for one instance for good is not tried again by itself, and does not stop the others.
func TestF029RefusalsArePerInstance(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		ids := s.instances("host-1", 5, ofHA())
		s.fault(sim.FaultRule{Action: "evacuate", Instance: ids[0], Status: 409})
		s.fault(sim.FaultRule{Action: "evacuate", Instance: ids[1], Status: 400})
		s.dies("host-1")
		note := s.down("host-1")
		s.becomes(note, ha.StatusFailed, "2 of 5 instances were not moved; 3 moved, 2 not", time.Hour)
		if took := time.Since(s.start); took > time.Minute {
			t.Errorf("ended after %s: tried again and again?", took)
		}
		// 409 may be its state: it is reset to error once, and ordered once more.
		if a, b := len(s.acts("evacuate", ids[0])), len(s.acts("evacuate", ids[1])); a != 2 || b != 1 {
			t.Errorf("%d and %d orders", a, b)
		}
		for _, id := range ids[2:] {
			s.arrived(id, "host-1", ha.VMActive)
		}
		for _, id := range ids[:2] {
			s.moved(note, id, ha.MoveFailed, "Nova refused the order")
			if s.instance(id).Locked {
				t.Error("stays locked")
			}
		}
	})
}

// Nova takes the order and never moves the instance: that is no success, whatever else Nova shows.
func TestF031NeverMovedIsNotSucceeded(t *testing.T) {
	play(t, cast{}, func(s *scene) { s.neverMovedIsNotSucceeded() })
}

// The same where the hypervisor's name differs from the compute service's.
func TestS01HostNamesDiffer(t *testing.T) {
	play(t, cast{cloud: sim.Options{HypervisorDomain: ".example.com"}}, func(s *scene) {
		s.neverMovedIsNotSucceeded()
		s.must(s.cloud.StartControl("nova-conductor"))
		id := s.instances("host-2", 1, ofHA())[0]
		s.dies("host-2")
		s.becomes(s.down("host-2"), ha.StatusFinished, "instances moved", time.Minute)
		s.arrived(id, "host-2", ha.VMActive)
	})
}

func (s *scene) neverMovedIsNotSucceeded() {
	s.Helper()
	id := s.neverMoves("host-1")
	note := s.down("host-1")
	s.stopConductorAtOrder()
	s.becomes(note, ha.StatusError, "1 of 1 instances were not moved", 3*time.Minute)
	s.moved(note, id, ha.MoveFailed, "order still under way in Nova")
	s.must(s.cloud.StartControl("nova-conductor")) // the stale order runs then, and is seen
	s.becomes(note, ha.StatusFinished, "1 of 1", 5*time.Minute)
	s.arrived(id, "host-1", ha.VMActive)
	s.harmless()
}

// The host is dead and Nova has not noticed: no step waits for an answer of its nova-compute.
func TestF035DeadHostIsNotAsked(t *testing.T) {
	play(t, cast{cloud: sim.Options{DownTime: 10 * time.Minute}}, func(s *scene) {
		ids := s.instances("host-1", 3, sim.InstanceSpec{VMState: ha.VMPaused})
		s.must(s.cloud.Kill("host-1"))
		s.pass(5 * time.Second)
		note := s.down("host-1")
		s.becomes(note, ha.StatusFinished, "3 of 3", 20*time.Second) // a disable alone would take Nova's 60 s
		for _, id := range ids {
			s.arrived(id, "host-1", ha.VMStopped)
		}
		s.pass(time.Minute)
		s.returns("host-1") // what needs it is done on its return
		s.up("host-1")
		s.until("forced_down is taken back", 5*time.Minute, func() bool { return !s.service("host-1").ForcedDown })
	})
}

// An instance that is being moved by somebody else, and is told to have crashed where it was: nothing is started.
func TestF037CrashDuringLiveMigration(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		id := s.instances("host-1", 1, ofHA())[0]
		s.must(s.cloud.Act(admin, id, sim.ServerAction{Name: "os-migrateLive", Host: "host-3"}))
		note := s.reports("host-1", ha.TypeVM, crashPayload(id))
		s.becomes(note, ha.StatusIgnored, "is on host-3, not on host-1", time.Minute)
		s.untouched()
		if on := s.instance(id).Running; !slices.Equal(on, []string{"host-3"}) {
			t.Errorf("runs on %v", on)
		}
		s.harmless()
	})
}

// Not certain, and nothing here can make it so: the report says what is missing, and an operator's word is the way on, with a name.
func TestF039ConfirmOff(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		id := s.instances("host-1", 1, ofHA())[0]
		s.must(s.cloud.Kill("host-1"))
		s.becomes(s.reports("host-1", ha.TypeComputeHost, hostPayload(ha.EventStopped, "UNKNOWN")), ha.StatusIgnored, "confirm-off host-1", time.Minute)
		s.untouched()
		n, err := s.salvor.ConfirmOff(s.ctx, "host-1", "alice", "pulled the cord")
		s.must(err)
		s.becomes(n.UUID, ha.StatusFinished, "1 of 1", time.Minute)
		s.arrived(id, "host-1", ha.VMActive)
		if !slices.ContainsFunc(s.journal(n.UUID), func(e ha.Entry) bool {
			return strings.Contains(e.Text, `alice confirmed that host-1 is off ("pulled the cord")`)
		}) {
			t.Error("no audit")
		}
	})
}

// What was off stays off, what opted out stays where it is, and is named.
func TestF041WasOffStaysOff(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		on := s.instances("host-1", 1, ofHA())[0]
		off := s.instances("host-1", 1, sim.InstanceSpec{VMState: ha.VMStopped, Metadata: map[string]string{"HA_Enabled": "True"}})[0]
		out := s.instances("host-1", 1, sim.InstanceSpec{Metadata: map[string]string{"HA_Enabled": "False"}})[0]
		s.dies("host-1")
		note := s.down("host-1")
		s.becomes(note, ha.StatusFinished, "2 of 3", time.Minute)
		s.arrived(on, "host-1", ha.VMActive)
		s.arrived(off, "host-1", ha.VMStopped)
		s.moved(note, out, ha.MoveIgnored, "opted out by metadata HA_Enabled")
		if i := s.instance(out); i.Host != "host-1" || i.Evacuations != 0 {
			t.Errorf("opted out, and on %s", i.Host)
		}
		if n := s.calls(func(c sim.Call) bool { return c.Method == "POST" && c.Instance == out }); len(n) != 0 {
			t.Errorf("opted out, and touched: %v", n)
		}
		s.becomes(s.reports("host-1", ha.TypeVM, crashPayload(out)), ha.StatusFinished, "not HA-enabled", time.Minute)
	})
}

// The destination dies with the instance on its way: nothing is deleted or ordered twice; once that death is proven too, it goes on.
func TestF043DestinationDiesToo(t *testing.T) {
	play(t, cast{cloud: sim.Options{Hosts: 5}}, func(s *scene) {
		id := s.instances("host-1", 1, ofHA())[0]
		s.dies("host-1")
		first := s.down("host-1")
		var dest string
		s.until("it is being rebuilt", 10*time.Second, func() bool {
			list, _, err := s.cloud.Migrations(sim.MigrationQuery{Source: "host-1"})
			s.must(err)
			if len(list) > 0 {
				dest = list[0].Dest
			}
			return dest != ""
		})
		s.dies(dest)
		second := s.down(dest)
		s.becomes(second, ha.StatusFinished, "", time.Minute)
		s.becomes(first, ha.StatusFinished, "1 of 1", 10*time.Minute)
		if i := s.instance(id); i.VMState != ha.VMActive || i.Host == dest || i.Host == "host-1" || i.Wrecks != 0 || i.Locked {
			t.Errorf("%+v", i)
		}
		s.harmless()
	})
}

// A recovery changes nothing on any other host.
func TestF045OnlyTheFailedHostIsChanged(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		s.instances("host-1", 4, ofHA())
		others := s.instances("host-2", 4, ofHA())
		s.dies("host-1")
		s.becomes(s.down("host-1"), ha.StatusFinished, "4 of 4", time.Minute)
		for _, c := range s.writes() {
			if c.Method == "PUT" && c.Host != "host-1" || slices.Contains(others, c.Instance) {
				t.Errorf("%s %s %s %s", c.Method, c.Path, c.Action, c.Host)
			}
		}
		for _, h := range []string{"host-2", "host-3", "host-4"} {
			if s.registered(h).OnMaintenance || s.service(h).Disabled {
				t.Errorf("%s was changed", h)
			}
		}
	})
}

// Who scraps a dead hypervisor takes it out of salvor, or its whole segment, as with Masakari. What salvor changed in Nova is taken back
// all the same when the host is back one day, and what stays is told; while it is dead it costs a look a minute.
func TestADeletedHostIsTakenBack(t *testing.T) {
	for name, remove := range map[string]func(*scene) error{
		"alone":            func(s *scene) error { return s.salvor.DeleteHost(s.ctx, s.segment, s.hosts["host-1"]) },
		"with its segment": func(s *scene) error { return s.salvor.DeleteSegment(s.ctx, s.segment) },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, cast{}, func(s *scene) {
				s.instances("host-1", 1, ofHA())
				s.dies("host-1")
				s.becomes(s.down("host-1"), ha.StatusFinished, "1 of 1", time.Minute)
				s.must(remove(s))
				before := len(s.calls(func(sim.Call) bool { return true }))
				s.pass(24 * time.Hour)
				if n := len(s.calls(func(sim.Call) bool { return true })) - before; n > 24*60*2 || !s.service("host-1").ForcedDown {
					t.Errorf("%d calls in a day, forced down %v", n, s.service("host-1").ForcedDown)
				}
				s.returns("host-1")
				s.until("forced_down is taken back", 10*time.Minute, func() bool { return !s.service("host-1").ForcedDown })
				s.pass(time.Minute)
				if !s.service("host-1").Disabled || !s.alarmed("openstack compute service set --enable host-1 nova-compute") {
					t.Error("what stays disabled was not told")
				}
				before = len(s.calls(func(sim.Call) bool { return true }))
				s.pass(time.Hour)
				if n := len(s.calls(func(sim.Call) bool { return true })) - before; n > 0 {
					t.Errorf("%d calls after the end", n)
				}
			})
		})
	}
}

// A dead host that was deleted and is registered again, an hour later: it is salvor's as before, and its next death is recovered.
func TestADeletedHostIsRegisteredAgain(t *testing.T) {
	play(t, cast{rules: func(r *plan.Rules) { r.AutoReturn = true }}, func(s *scene) {
		s.instances("host-1", 1, ofHA())
		s.dies("host-1")
		s.becomes(s.down("host-1"), ha.StatusFinished, "1 of 1", time.Minute)
		s.must(s.salvor.DeleteHost(s.ctx, s.segment, s.hosts["host-1"]))
		s.pass(time.Hour)
		s.host("host-1", false)
		s.returns("host-1")
		s.until("it is back in service", 20*time.Minute, func() bool { return !s.service("host-1").ForcedDown && !s.service("host-1").Disabled })
		id := s.instances("host-1", 1, ofHA())[0]
		s.dies("host-1")
		s.becomes(s.down("host-1"), ha.StatusFinished, "1 of 1", time.Minute)
		s.arrived(id, "host-1", ha.VMActive)
		s.harmless()
	})
}
