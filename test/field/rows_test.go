package field

import (
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
	"github.com/salvor-ha/salvor/internal/sim"
)

// The rows of RECOVERY section 3, each on the simulated cloud.

func vmPayload(event, domain, instance string) ha.Payload {
	return ha.Payload{ha.KeyEvent: event, ha.KeyVirDomainEvent: domain, ha.KeyInstanceUUID: instance}
}

// restarted wants the instance to have been stopped and started once, and to be active.
func (s *scene) restarted(id string) {
	s.Helper()
	if i := s.instance(id); i.VMState != ha.VMActive || i.TaskState != "" || len(s.acts("os-stop", id)) != 1 || len(s.acts("os-start", id)) != 1 {
		s.Errorf("instance is %s %s after %d stops and %d starts", i.VMState, i.TaskState, len(s.acts("os-stop", id)), len(s.acts("os-start", id)))
	}
}

func TestVMRow1Events(t *testing.T) {
	for _, c := range []struct {
		event, domain string
		acts          bool
	}{
		{"LIFECYCLE", "STOPPED_FAILED", true}, {"IO_ERROR", "IO_ERROR_REPORT", true}, {"QEMU_GUEST_AGENT_ERROR", "STOPPED_FAILED", true},
		{"LIFECYCLE", "STOPPED_SHUTDOWN", false}, {"LIFECYCLE", "STOPPED_DESTROYED", false}, {"IO_ERROR", "STOPPED_FAILED", false}, {"REBOOT", "UNKNOWN", false},
	} {
		t.Run(c.event+" "+c.domain, func(t *testing.T) {
			play(t, cast{}, func(s *scene) {
				id := s.instances("host-1", 1, ofHA())[0]
				note := s.reports("host-1", ha.TypeVM, vmPayload(c.event, c.domain, id))
				if c.acts {
					s.becomes(note, ha.StatusFinished, "", time.Minute)
					s.restarted(id)
					return
				}
				s.becomes(note, ha.StatusIgnored, "needs no recovery", time.Minute)
				s.untouched()
			})
		})
	}
}

func TestVMRow2OnTheReportingHost(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		id := s.instances("host-2", 1, ofHA())[0]
		s.becomes(s.reports("host-1", ha.TypeVM, crashPayload(id)), ha.StatusIgnored, "is on host-2, not on host-1", time.Minute)
		s.becomes(s.reports("host-1", ha.TypeVM, crashPayload("7dd7a0b6-6b6f-4d0e-9b1b-0d4a2f8c1e11")), ha.StatusIgnored, "does not exist any more", time.Minute)
		s.untouched()
	})
}

func TestVMRow3NotEnabled(t *testing.T) {
	for name, c := range map[string]struct {
		spec sim.InstanceSpec
		all  bool
		acts bool
	}{
		"silent":               {sim.InstanceSpec{}, false, false},
		"silent, all":          {sim.InstanceSpec{}, true, true},
		"spelled out no":       {sim.InstanceSpec{Metadata: map[string]string{"HA_Enabled": "False"}}, false, false},
		"spelled out, all":     {sim.InstanceSpec{Metadata: map[string]string{"HA_Enabled": "False"}}, true, false},
		"enabled":              {ofHA(), false, true},
		"enabled, in any case": {sim.InstanceSpec{Metadata: map[string]string{"HA_Enabled": "true"}}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, cast{rules: func(r *plan.Rules) { r.ProcessAll = c.all }}, func(s *scene) {
				id := s.instances("host-1", 1, c.spec)[0]
				note := s.reports("host-1", ha.TypeVM, crashPayload(id))
				if c.acts {
					s.becomes(note, ha.StatusFinished, "", time.Minute)
					s.restarted(id)
					return
				}
				s.becomes(note, ha.StatusFinished, "not HA-enabled: nothing was done", time.Minute)
				s.untouched()
			})
		})
	}
}

func TestVMRow4States(t *testing.T) {
	for state, acts := range map[string]bool{ha.VMPaused: false, ha.VMRescued: false, ha.VMResized: true} {
		t.Run(state, func(t *testing.T) {
			play(t, cast{}, func(s *scene) {
				spec := ofHA()
				spec.VMState = state
				id := s.instances("host-1", 1, spec)[0]
				note := s.reports("host-1", ha.TypeVM, crashPayload(id))
				if !acts {
					s.becomes(note, ha.StatusIgnored, "is "+state, time.Minute)
					s.untouched()
					return
				}
				s.becomes(note, ha.StatusFinished, "", time.Minute)
				s.restarted(id)
				if n := len(s.acts("os-resetState", id)); n != 1 {
					t.Errorf("%d resets", n)
				}
			})
		})
	}
}

func TestVMRow5StoppedByWhom(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		byUser := s.instances("host-1", 1, ofHA())[0]
		s.must(s.cloud.Act(tenant, byUser, sim.ServerAction{Name: "os-stop"}))
		s.until("it is stopped", time.Minute, func() bool { return s.instance(byUser).VMState == ha.VMStopped })
		s.becomes(s.reports("host-1", ha.TypeVM, crashPayload(byUser)), ha.StatusIgnored, "was stopped by a user", time.Minute)
		s.untouched()
		spec := ofHA()
		spec.VMState = ha.VMStopped // nova-compute's clean-up after a crash leaves no action
		byNobody := s.instances("host-1", 1, spec)[0]
		s.becomes(s.reports("host-1", ha.TypeVM, crashPayload(byNobody)), ha.StatusFinished, "", time.Minute)
		if s.instance(byNobody).VMState != ha.VMActive || len(s.acts("os-stop", byNobody)) != 0 || len(s.acts("os-start", byNobody)) != 1 {
			t.Errorf("%+v", s.instance(byNobody))
		}
	})
}

func TestVMRow6StopAndStart(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		id := s.instances("host-1", 1, ofHA())[0]
		s.fault(sim.FaultRule{Method: "POST", Action: "os-stop", Status: 409, Times: 1}) // Nova's power sync was at it
		s.fault(sim.FaultRule{Method: "POST", Action: "os-start", Drop: true, Times: 1}) // the answer is lost
		s.becomes(s.reports("host-1", ha.TypeVM, crashPayload(id)), ha.StatusFinished, "", 3*time.Minute)
		if i := s.instance(id); i.VMState != ha.VMActive || len(s.acts("os-start", id)) != 1 {
			t.Errorf("%s, %d starts", i.VMState, len(s.acts("os-start", id)))
		}
	})
}

func TestVMRow7SupersededByItsHost(t *testing.T) {
	play(t, cast{engines: 2}, func(s *scene) {
		id := s.instances("host-1", 1, ofHA())[0]
		s.fault(sim.FaultRule{Method: "POST", Action: "os-stop", Delay: 20 * time.Second, Times: 1})
		vm := s.reports("host-1", ha.TypeVM, crashPayload(id))
		s.until("the stop is sent", time.Minute, func() bool { return len(s.acts("os-stop", id)) == 1 })
		s.must(s.cloud.Kill("host-1"))
		host := s.down("host-1")
		s.becomes(host, ha.StatusFinished, "1 of 1", 3*time.Minute)
		s.becomes(vm, ha.StatusIgnored, "", time.Minute) // host recovery took over, or it is on another host by then
		if s.instance(id).Host == "host-1" || len(s.acts("os-start", id)) > 1 {
			t.Errorf("on %s, %d starts", s.instance(id).Host, len(s.acts("os-start", id)))
		}
		s.harmless()
	})
}

// The rows of RECOVERY section 4.

func TestProcessRowStopped(t *testing.T) {
	for name, dies := range map[string]bool{"Nova has not noticed, and waits for it": true, "it answers": false} {
		t.Run(name, func(t *testing.T) {
			play(t, cast{}, func(s *scene) {
				if dies {
					s.must(s.cloud.KillCompute("host-1"))
				}
				s.becomes(s.reports("host-1", ha.TypeProcess, processPayload(ha.EventStopped, ha.ProcessNovaCompute)), ha.StatusFinished, "", 3*time.Minute)
				if svc := s.service("host-1"); !svc.Disabled || svc.DisabledReason != "salvor: process failed" || svc.ForcedDown || !s.registered("host-1").OnMaintenance {
					t.Errorf("%+v, on maintenance %v", svc, s.registered("host-1").OnMaintenance)
				}
				if n := len(s.puts("host-1")); n != 1 {
					t.Errorf("%d PUTs", n)
				}
			})
		})
	}
	t.Run("never seen disabled", func(t *testing.T) {
		play(t, cast{rules: func(r *plan.Rules) { r.WaitService = 30 * time.Second }}, func(s *scene) {
			s.fault(sim.FaultRule{Method: "PUT", Status: 503, Times: 1000})
			note := s.reports("host-1", ha.TypeProcess, processPayload(ha.EventStopped, ha.ProcessNovaCompute))
			s.becomes(note, ha.StatusError, "Nova still shows the compute service of host-1 enabled after 30s", 2*time.Minute)
			s.cloud.ClearFaults()
			s.becomes(note, ha.StatusFinished, "", 5*time.Minute)
			if !s.service("host-1").Disabled {
				t.Error("the retry did not disable it")
			}
		})
	})
	t.Run("disabled by somebody already", func(t *testing.T) {
		play(t, cast{}, func(s *scene) {
			s.disable("host-1", "operator: a bad disk")
			s.becomes(s.reports("host-1", ha.TypeProcess, processPayload(ha.EventStopped, ha.ProcessNovaCompute)), ha.StatusFinished, "was disabled already", time.Minute)
			s.becomes(s.reports("host-1", ha.TypeProcess, processPayload(ha.EventStarted, ha.ProcessNovaCompute)), ha.StatusFinished, "", time.Minute)
			if svc := s.service("host-1"); !svc.Disabled || svc.DisabledReason != "operator: a bad disk" {
				t.Errorf("the operator's disable is gone: %+v", svc)
			}
			s.untouched()
		})
	})
}

func TestProcessRowAnyOther(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		for _, event := range []string{ha.EventStopped, ha.EventStarted} {
			s.becomes(s.reports("host-1", ha.TypeProcess, processPayload(event, "libvirtd")), ha.StatusFinished, "nothing to do for process libvirtd", time.Minute)
		}
		if s.registered("host-1").OnMaintenance || len(s.claimed("host-1")) != 0 {
			t.Error("the host is not as it was")
		}
		s.untouched()
	})
}

// STARTED takes back what its failure changed; reported together with the host's own STARTED too, whichever is first at work.
func TestProcessRowStarted(t *testing.T) {
	for name, together := range map[string]bool{"alone": false, "with the host's": true} {
		t.Run(name, func(t *testing.T) {
			play(t, cast{engines: 2}, func(s *scene) {
				s.becomes(s.reports("host-1", ha.TypeProcess, processPayload(ha.EventStopped, ha.ProcessNovaCompute)), ha.StatusFinished, "", 2*time.Minute)
				s.pass(2 * time.Minute)
				if together {
					s.up("host-1")
				}
				s.becomes(s.reports("host-1", ha.TypeProcess, processPayload(ha.EventStarted, ha.ProcessNovaCompute)), ha.StatusFinished, "", 2*time.Minute)
				if svc := s.service("host-1"); svc.Disabled || s.registered("host-1").OnMaintenance || len(s.claimed("host-1")) != 0 {
					t.Errorf("%+v, on maintenance %v, claims %v", svc, s.registered("host-1").OnMaintenance, s.claimed("host-1"))
				}
			})
		})
	}
}

func TestProcessRowSupersededByItsHost(t *testing.T) {
	play(t, cast{engines: 2}, func(s *scene) {
		id := s.instances("host-1", 1, ofHA())[0]
		s.must(s.cloud.Kill("host-1"))
		process := s.reports("host-1", ha.TypeProcess, processPayload(ha.EventStopped, ha.ProcessNovaCompute))
		host := s.down("host-1")
		s.becomes(host, ha.StatusFinished, "1 of 1", 3*time.Minute)
		s.becomes(process, ha.StatusFinished, "", 3*time.Minute)
		s.arrived(id, "host-1", ha.VMActive)
		s.returns("host-1")
		s.up("host-1")
		s.becomes(s.reports("host-1", ha.TypeProcess, processPayload(ha.EventStarted, ha.ProcessNovaCompute)), ha.StatusFinished, "", 2*time.Minute)
		s.pass(time.Minute)
		if svc := s.service("host-1"); !svc.Disabled || svc.DisabledReason != "salvor: host failed" || svc.ForcedDown {
			t.Errorf("the process's return gave a recovered host back: %+v", svc)
		}
	})
}
