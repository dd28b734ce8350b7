package field

import (
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/sim"
)

// An instance crashed, was stopped to be started anew, and then its host died: it is to run again, as it did before its crash.
func TestHostDiesInTheMiddleOfARestart(t *testing.T) {
	play(t, cast{engines: 2}, func(s *scene) {
		id := s.instances("host-1", 1, ofHA())[0]
		s.fault(sim.FaultRule{Action: "os-start", Status: 409})
		crash := s.reports("host-1", ha.TypeVM, crashPayload(id))
		s.until("it is stopped", time.Minute, func() bool { return s.instance(id).VMState == ha.VMStopped })
		s.dies("host-1")
		note := s.down("host-1")
		s.cloud.ClearFaults()
		s.becomes(note, ha.StatusFinished, "1 of 1", 2*time.Minute)
		s.becomes(crash, ha.StatusIgnored, "", time.Minute)
		s.arrived(id, "host-1", ha.VMActive)
	})
}

// A host that is back before Nova has begun what was ordered: its nova-compute finds the instances not running, and stops them.
func TestHostReturnsBeforeNovaBegins(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		id := s.instances("host-1", 1, ofHA())[0]
		s.fault(sim.FaultRule{Action: "evacuate", ActAfter: 15 * time.Second})
		s.dies("host-1")
		note := s.down("host-1")
		s.until("ordered", time.Minute, func() bool { return len(s.acts("evacuate", id)) == 1 })
		s.returns("host-1")
		s.becomes(note, ha.StatusFinished, "1 of 1", 5*time.Minute)
		s.arrived(id, "host-1", ha.VMActive)
	})
}

// An instance crashed on a host that is alive, and the host is reported dead as well: that report comes to nothing, the other does not.
func TestCrashBesideAFalseReportOfItsHost(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		id := s.instances("host-1", 1, ofHA())[0]
		host := s.down("host-1")
		crash := s.reports("host-1", ha.TypeVM, crashPayload(id))
		s.becomes(host, ha.StatusIgnored, "", 5*time.Minute)
		s.becomes(crash, ha.StatusFinished, "", time.Minute)
		if stops, starts := len(s.acts("os-stop", id)), len(s.acts("os-start", id)); stops != 1 || starts != 1 {
			t.Errorf("%d stops, %d starts", stops, starts)
		}
	})
}
