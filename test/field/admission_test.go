package field

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
	"github.com/salvor-ha/salvor/internal/sim"
)

// Twenty monitors report one dead host at the same moment: one is admitted, and each instance is ordered once.
func TestF001TwentyReportsOneRecovery(t *testing.T) {
	play(t, cast{engines: 2}, func(s *scene) {
		ids := s.instances("host-1", 3, ofHA())
		s.dies("host-1")
		at := time.Now()
		var mu sync.Mutex
		var admitted []string
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				id, err := s.posts("host-1", ha.TypeComputeHost, at, hostPayload(ha.EventStopped, ha.HostStatusNormal))
				mu.Lock()
				defer mu.Unlock()
				var dup *ha.DuplicateError
				if err == nil {
					admitted = append(admitted, id)
				} else if !errors.As(err, &dup) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(admitted) != 1 {
			t.Fatalf("%d admitted", len(admitted))
		}
		s.becomes(admitted[0], ha.StatusFinished, "3 of 3", time.Minute)
		for _, id := range ids {
			s.arrived(id, "host-1", ha.VMActive)
		}
	})
}

// Several engines find the same new notification at the same moment, as by message and by periodic pass: one recovers.
func TestF003OneEngineClaims(t *testing.T) {
	for range 20 {
		play(t, cast{engines: 3, alone: true}, func(s *scene) {
			crashed := s.instances("host-2", 1, ofHA())[0]
			ids := s.instances("host-1", 2, ofHA())
			s.dies("host-1")
			note, crash := s.down("host-1"), s.reports("host-2", ha.TypeVM, crashPayload(crashed))
			for _, p := range s.procs {
				p.engine.Poke() // all look at once
			}
			s.becomes(note, ha.StatusFinished, "", time.Minute)
			s.becomes(crash, ha.StatusFinished, "", time.Minute)
			for _, id := range ids {
				if n := len(s.acts("evacuate", id)); n != 1 {
					t.Errorf("%d orders", n)
				}
			}
			if stops, starts := len(s.acts("os-stop", crashed)), len(s.acts("os-start", crashed)); stops != 1 || starts != 1 {
				t.Errorf("%d stops, %d starts", stops, starts)
			}
		})
	}
}

// A report that says itself that it is not certain moves nothing.
func TestF005UnknownIsNotDead(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		s.instances("host-1", 2, ofHA())
		id := s.reports("host-1", ha.TypeComputeHost, hostPayload(ha.EventStopped, "UNKNOWN"))
		s.becomes(id, ha.StatusIgnored, "not NORMAL", time.Minute)
		s.pass(10 * time.Minute)
		s.untouched()
		if s.registered("host-1").OnMaintenance {
			t.Error("the host was put on maintenance")
		}
	})
}

// One host loss, told in three ways: as a host, as each of its instances, as its process. Each instance is moved once, and that is all.
func TestF009OneLossToldThreeWays(t *testing.T) {
	play(t, cast{engines: 2}, func(s *scene) {
		ids := s.instances("host-1", 5, ofHA())
		s.dies("host-1")
		host := s.down("host-1")
		var others []string
		for _, id := range ids {
			others = append(others, s.reports("host-1", ha.TypeVM, crashPayload(id)))
		}
		process := s.reports("host-1", ha.TypeProcess, processPayload(ha.EventStopped, ha.ProcessNovaCompute))
		s.becomes(host, ha.StatusFinished, "5 of 5", time.Minute)
		for _, id := range others {
			s.until("the instance's own report is ended", time.Minute, func() bool { status, _ := s.note(id); return status == ha.StatusIgnored })
		}
		s.becomes(process, ha.StatusFinished, "", time.Minute)
		if _, message := s.note(process); message != "" && message != "host recovery took over" {
			t.Errorf("the process's report ended with %q", message)
		}
		for _, id := range ids {
			s.arrived(id, "host-1", ha.VMActive)
		}
		began := s.acts("lock", "")[0].At // until the host's unit is claimed, the others may have begun
		for _, c := range append(s.acts("os-stop", ""), s.acts("os-start", "")...) {
			if c.Action == "os-start" || c.At.After(began) {
				t.Errorf("%s of %s in the middle of its move", c.Action, c.Instance)
			}
		}
	})
}

// A host on an operator's maintenance is not failed: its reports are refused. One that an operator has only disabled in Nova is
// recovered when it is dead (RECOVERY section 2 knows no such gate), and its status and reason stay the operator's.
func TestF011HostInPlannedMaintenance(t *testing.T) {
	t.Run("on maintenance", func(t *testing.T) {
		play(t, cast{}, func(s *scene) {
			s.instances("host-1", 2, ofHA())
			on := true
			_, _, err := s.salvor.UpdateHost(s.ctx, s.segment, s.hosts["host-1"], ha.HostPatch{OnMaintenance: &on})
			s.must(err)
			s.dies("host-1")
			_, err = s.posts("host-1", ha.TypeComputeHost, time.Now(), hostPayload(ha.EventStopped, ha.HostStatusNormal))
			as[*ha.MaintenanceError](s, err)
			s.pass(10 * time.Minute)
			s.untouched()
		})
	})
	t.Run("disabled in Nova", func(t *testing.T) {
		play(t, cast{}, func(s *scene) {
			id := s.instances("host-1", 1, ofHA())[0]
			s.disable("host-1", "new kernel, op")
			s.dies("host-1")
			s.becomes(s.down("host-1"), ha.StatusFinished, "1 of 1", time.Minute)
			s.arrived(id, "host-1", ha.VMActive)
			s.returns("host-1")
			s.up("host-1")
			s.until("forced_down is taken back", 5*time.Minute, func() bool { return !s.service("host-1").ForcedDown })
			if svc := s.service("host-1"); !svc.Disabled || svc.DisabledReason != "new kernel, op" {
				t.Errorf("the operator's disable is gone: %+v", svc)
			}
		})
	})
}

// Two monitors see the same death and differ in what else they say.
func TestS06OtherWordsSameDeath(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		s.instances("host-1", 1, ofHA())
		s.dies("host-1")
		first := s.down("host-1")
		for _, change := range []func(ha.Payload){
			func(p ha.Payload) { p[ha.KeyClusterStatus] = "ONLINE" },
			func(p ha.Payload) { delete(p, ha.KeyClusterStatus) },
			func(p ha.Payload) { p[ha.KeyHostStatus] = "UNKNOWN" },
		} {
			p := hostPayload(ha.EventStopped, ha.HostStatusNormal)
			change(p)
			_, err := s.posts("host-1", ha.TypeComputeHost, time.Now().Add(time.Second), p)
			if dup := as[*ha.DuplicateError](s, err); dup.Twin != first {
				t.Errorf("a duplicate of %s, want %s", dup.Twin, first)
			}
		}
		s.becomes(first, ha.StatusFinished, "1 of 1", time.Minute)
	})
}

// A process failure puts the host on maintenance; it stays armed all the same, also when nobody reports the process back.
func TestS07ProcessFailureDoesNotDisarm(t *testing.T) {
	for name, back := range map[string]bool{"the process is back": true, "nobody says that it is back": false} {
		t.Run(name, func(t *testing.T) {
			play(t, cast{}, func(s *scene) {
				id := s.instances("host-1", 1, ofHA())[0]
				s.becomes(s.reports("host-1", ha.TypeProcess, processPayload(ha.EventStopped, ha.ProcessNovaCompute)), ha.StatusFinished, "", 2*time.Minute)
				if !s.registered("host-1").OnMaintenance {
					t.Error("not on maintenance: the scene is wrong")
				}
				if back {
					s.becomes(s.reports("host-1", ha.TypeProcess, processPayload(ha.EventStarted, ha.ProcessNovaCompute)), ha.StatusFinished, "", 2*time.Minute)
				}
				s.becomes(s.reports("host-1", ha.TypeVM, crashPayload(id)), ha.StatusFinished, "", time.Minute)
				if i := s.instance(id); i.VMState != ha.VMActive || len(s.acts("os-start", id)) != 1 {
					t.Errorf("the crashed instance is %s", i.VMState)
				}
				s.dies("host-1")
				s.becomes(s.down("host-1"), ha.StatusFinished, "1 of 1", time.Minute)
				s.arrived(id, "host-1", ha.VMActive)
			})
		})
	}
}

// A monitor whose clock is wrong: its reports are admitted, told apart, retried and expired as those of one whose clock is right.
func TestS08MonitorClockSkew(t *testing.T) {
	for _, skew := range []time.Duration{-25 * time.Hour, -5 * time.Minute, 0, 5 * time.Minute, 25 * time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			play(t, cast{rules: func(r *plan.Rules) { r.Expiry = 10 * time.Minute }}, func(s *scene) {
				post := func() (string, error) {
					return s.posts("host-1", ha.TypeComputeHost, time.Now().Add(skew), hostPayload(ha.EventStopped, ha.HostStatusNormal))
				}
				id := s.instances("host-1", 1, ofHA())[0]
				s.dies("host-1")
				s.fault(sim.FaultRule{Method: "PUT", Status: 403, Times: 1})
				note, err := post()
				s.must(err)
				s.becomes(note, ha.StatusError, "next in 2m0s", time.Minute)
				s.pass(10 * time.Second)
				_, err = post()
				as[*ha.DuplicateError](s, err)
				s.becomes(note, ha.StatusFinished, "1 of 1", 3*time.Minute)
				s.arrived(id, "host-1", ha.VMActive)

				at := time.Now()
				s.must(s.cloud.StopControl("nova-conductor"))
				s.pass(time.Minute)
				note, err = post() // it died again
				s.must(err)
				s.becomes(note, ha.StatusFailed, "expired", 20*time.Minute)
				if took := time.Since(at); took < 10*time.Minute || took > 12*time.Minute {
					t.Errorf("expired after %s", took)
				}
			})
		})
	}
}

// An open incident on one host: the others of its segment can be edited, this one cannot, and the refusal names the incident.
func TestS10OtherHostsCanBeEdited(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		s.instances("host-1", 1, ofHA())
		s.must(s.cloud.StopControl("nova-scheduler"))
		s.pass(time.Minute)
		note := s.down("host-1")
		s.becomes(note, ha.StatusRunning, "waiting at gate nova", time.Minute)
		on := true
		_, _, err := s.salvor.UpdateHost(s.ctx, s.segment, s.hosts["host-2"], ha.HostPatch{OnMaintenance: &on})
		s.must(err)
		s.must(s.salvor.DeleteHost(s.ctx, s.segment, s.hosts["host-3"]))
		_, _, err = s.salvor.UpdateHost(s.ctx, s.segment, s.hosts["host-1"], ha.HostPatch{OnMaintenance: &on})
		for _, err := range []error{err, s.salvor.DeleteHost(s.ctx, s.segment, s.hosts["host-1"])} {
			if used := as[*ha.InUseError](s, err); used.By != note {
				t.Errorf("in use by %s, want %s", used.By, note)
			}
		}
	})
}

// A process that is back: what its failure changed is undone, exactly.
func TestS11ProcessIsBack(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		s.becomes(s.reports("host-1", ha.TypeProcess, processPayload(ha.EventStopped, ha.ProcessNovaCompute)), ha.StatusFinished, "", 2*time.Minute)
		if svc := s.service("host-1"); !svc.Disabled || !strings.HasPrefix(svc.DisabledReason, "salvor") {
			t.Errorf("not disabled: %+v", svc)
		}
		s.pass(time.Minute)
		s.becomes(s.reports("host-1", ha.TypeProcess, processPayload(ha.EventStarted, ha.ProcessNovaCompute)), ha.StatusFinished, "", 2*time.Minute)
		if svc := s.service("host-1"); svc.Disabled || s.registered("host-1").OnMaintenance || len(s.claimed("host-1")) != 0 {
			t.Errorf("disabled %v, on maintenance %v, claims %v", svc.Disabled, s.registered("host-1").OnMaintenance, s.claimed("host-1"))
		}
		if n := len(s.puts("host-1")); n != 2 {
			t.Errorf("%d PUTs", n)
		}
	})
}

// Work that was stored while no engine ran is looked at anew: the host is back, so nothing is done.
func TestF079StaleWorkIsReexamined(t *testing.T) {
	play(t, cast{idle: true}, func(s *scene) {
		ids := s.instances("host-1", 3, ofHA())
		s.dies("host-1")
		note := s.down("host-1")
		s.pass(30 * time.Minute)
		s.returns("host-1")
		s.pass(30 * time.Minute)
		s.engine()
		s.becomes(note, ha.StatusIgnored, "still reports to Nova", 5*time.Minute)
		s.untouched()
		if svc := s.service("host-1"); svc.Disabled || svc.ForcedDown || s.registered("host-1").OnMaintenance {
			t.Errorf("%+v", svc)
		}
		if slices.ContainsFunc(ids, func(id string) bool { return s.instance(id).Host != "host-1" }) {
			t.Error("moved")
		}
	})
}

// Reported while it is alive and dead soon after, long before Nova calls it down: its silence is told from its heartbeats, whenever
// the looks come, and it is recovered.
func TestF097DeadSoonAfterTheReport(t *testing.T) {
	for offset := time.Duration(0); offset < 2*time.Second; offset += 150 * time.Millisecond {
		play(t, cast{cloud: sim.Options{DownTime: 10 * time.Minute}}, func(s *scene) {
			id := s.instances("host-1", 1, ofHA())[0]
			s.pass(offset)
			note := s.down("host-1")
			s.pass(15 * time.Second)
			s.must(s.cloud.Kill("host-1"))
			s.becomes(note, ha.StatusFinished, "1 of 1", 30*time.Second)
			s.arrived(id, "host-1", ha.VMActive)
			s.harmless()
		})
	}
}
