package field

import (
	"fmt"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
	"github.com/salvor-ha/salvor/internal/sim"
)

// A host with far more instances than any one step's limit has time for: each move has its limit, all together have none, and an
// engine that dies in the middle does not begin anew. (That the host is held back meanwhile: TestF025HostReturnsMidRecovery.)
func TestF177MoreThanALimitHasTimeFor(t *testing.T) {
	const instances, rate = 200, 2 // ten workers, five seconds each
	play(t, cast{engines: 2, cloud: sim.Options{Rate: rate}, rules: func(r *plan.Rules) {
		r.Threads, r.WaitEvacuation, r.WaitService = 10, 30*time.Second, 30*time.Second
	}}, func(s *scene) {
		ids := s.instances("host-1", instances, ofHA())
		s.dies("host-1")
		note, begun := s.down("host-1"), time.Now()
		s.until("half of them are away", 2*time.Minute, func() bool { return len(s.away(ids, "host-1")) >= instances/2 })
		for _, p := range s.procs {
			if len(p.engine.Held()) > 0 {
				p.crash()
			}
		}
		s.becomes(note, ha.StatusFinished, "200 of 200", 3*time.Minute)
		if took, best := time.Since(begun), instances/rate*time.Second; took < best || took > best+30*time.Second {
			t.Errorf("took %s, the cloud alone takes %s", took, best)
		}
		if n := len(s.puts("host-1")); n != 1 {
			t.Errorf("forced down %d times", n)
		}
		for _, id := range ids {
			s.arrived(id, "host-1", ha.VMActive)
		}
		s.harmless()
	})
}

// Three thousand hosts in one segment, no cluster stack among them: whichever dies is proven dead and recovered as soon as in a
// segment of four, and none of the others is touched.
func TestF179ThreeThousandHosts(t *testing.T) {
	const hosts = 3000
	play(t, cast{engines: 3, cloud: sim.Options{Hosts: hosts, ReportInterval: 10 * time.Second, DownTime: time.Minute}, rules: func(r *plan.Rules) {
		r.ReportInterval = 10 * time.Second
	}}, func(s *scene) {
		var notes, ids []string
		var doomed []string
		for i := range 3 {
			host := fmt.Sprintf("host-%d", 1+i*hosts/3)
			doomed, ids = append(doomed, host), append(ids, s.instances(host, 1, ofHA())[0])
			s.must(s.cloud.Kill(host))
			begun := time.Now()
			notes = append(notes, s.down(host)) // Nova needs a minute; its silence is measured
			s.until(host+" is evacuated", 20*time.Second, func() bool { return len(s.acts("evacuate", ids[i])) == 1 })
			t.Logf("%s ordered after %s", host, time.Since(begun))
		}
		for i, note := range notes {
			s.becomes(note, ha.StatusFinished, "1 of 1", time.Minute)
			s.arrived(ids[i], doomed[i], ha.VMActive)
		}
		s.pass(2 * time.Minute)
		if n := len(s.calls(func(c sim.Call) bool { return c.Method == "PUT" })); n != len(doomed) {
			t.Errorf("%d services were changed, of %d dead hosts", n, len(doomed))
		}
		s.harmless()
	})
}

// A small incident beside a large one begins at once: in its own segment, and in the large one's.
func TestF181SmallIncidentDuringALargeOne(t *testing.T) {
	for name, other := range map[string]bool{"in another segment": true, "in the same segment": false} {
		t.Run(name, func(t *testing.T) {
			play(t, cast{cloud: sim.Options{Hosts: 8}, rules: func(r *plan.Rules) { r.Threads = 16 }}, func(s *scene) {
				large := s.instances("host-1", 400, ofHA())
				small := s.instances("host-2", 3, ofHA())
				s.disable("host-2", "full") // nothing of the large one comes to it
				if other {
					s.must(s.salvor.DeleteHost(s.ctx, s.segment, s.hosts["host-2"]))
					seg, err := s.salvor.CreateSegment(s.ctx, ha.Segment{Name: "another rack", ServiceType: "COMPUTE", RecoveryMethod: ha.MethodAuto, Enabled: true})
					s.must(err)
					h, _, err := s.salvor.CreateHost(s.ctx, seg.UUID, ha.Host{Name: "host-2", Type: "COMPUTE", ControlAttributes: "SSH"})
					s.must(err)
					s.hosts["host-2"] = h.UUID
				}
				s.dies("host-1")
				first := s.down("host-1")
				s.until("the large one is at work", time.Minute, func() bool { return len(s.away(large, "host-1")) >= 50 })
				s.dies("host-2")
				second := s.down("host-2")
				s.until("the small one is at work", 10*time.Second, func() bool { return len(s.acts("evacuate", small[0])) == 1 })
				s.becomes(second, ha.StatusFinished, "3 of 3", time.Minute)
				if n := len(s.away(large, "host-1")); n > 350 {
					t.Errorf("the small one waited for %d of the large one", n)
				}
				s.becomes(first, ha.StatusFinished, "400 of 400", 5*time.Minute)
				s.harmless()
			})
		})
	}
}
