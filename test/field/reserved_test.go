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

// Two engines, two dead hosts, one spare: it serves one recovery; the other waits, and says for what.
func TestS04OneSpareTwoDeaths(t *testing.T) {
	for offset := time.Duration(0); offset < time.Second; offset += 100 * time.Millisecond {
		play(t, cast{cloud: sim.Options{Hosts: 6}, method: ha.MethodReservedHost, spares: []string{"host-6"}, engines: 2}, func(s *scene) {
			ids := map[string]string{}
			for _, h := range []string{"host-1", "host-2"} {
				ids[h] = s.instances(h, 1, ofHA())[0]
			}
			s.must(s.cloud.Kill("host-1"))
			s.dies("host-2")
			s.pass(time.Second)
			notes := map[string]string{"host-1": s.down("host-1")}
			s.pass(offset)
			notes["host-2"] = s.down("host-2")
			s.pass(30 * time.Second)
			done := map[bool][]string{}
			for h, n := range notes {
				status, _ := s.note(n)
				done[status == ha.StatusFinished] = append(done[status == ha.StatusFinished], h)
			}
			if len(done[true]) != 1 {
				t.Fatalf("finished: %v", done[true])
			}
			first, second := done[true][0], done[false][0]
			s.becomes(notes[second], ha.StatusRunning, "no reserved host is left", time.Minute)
			if i := s.instance(ids[first]); i.Host != "host-6" || i.VMState != ha.VMActive {
				t.Errorf("on %s, %s", i.Host, i.VMState)
			}
			if i := s.instance(ids[second]); i.Evacuations != 0 {
				t.Error("the spare was filled by both")
			}
			s.must(s.cloud.AddHost("host-7"))
			s.host("host-7", true) // another spare comes
			s.becomes(notes[second], ha.StatusFinished, "1 of 1", 10*time.Minute)
			s.arrived(ids[second], second, ha.VMActive)
		})
	}
}

// A spare on maintenance or down is not used; when there is none, the recovery waits and says of each why.
func TestF047ReservedHostOnMaintenance(t *testing.T) {
	play(t, cast{cloud: sim.Options{Hosts: 6}, method: ha.MethodReservedHost, spares: []string{"host-4", "host-5", "host-6"}}, func(s *scene) {
		id := s.instances("host-1", 1, ofHA())[0]
		on := true
		for _, h := range []string{"host-4", "host-6"} {
			_, _, err := s.salvor.UpdateHost(s.ctx, s.segment, s.hosts[h], ha.HostPatch{OnMaintenance: &on})
			s.must(err)
		}
		s.dies("host-5")
		s.dies("host-1")
		note := s.down("host-1")
		s.becomes(note, ha.StatusRunning, "no reserved host is left: host-4 on maintenance, host-5 down, host-6 on maintenance", time.Minute)
		for _, h := range []string{"host-4", "host-5", "host-6"} {
			if n := s.puts(h); len(n) != 0 {
				t.Errorf("%s was changed", h)
			}
		}
		on = false
		_, _, err := s.salvor.UpdateHost(s.ctx, s.segment, s.hosts["host-6"], ha.HostPatch{OnMaintenance: &on})
		s.must(err)
		s.becomes(note, ha.StatusFinished, "1 of 1", 10*time.Minute)
		if i := s.instance(id); i.Host != "host-6" {
			t.Errorf("on %s", i.Host)
		}
		if s.registered("host-6").Reserved || !s.registered("host-4").Reserved || !s.service("host-4").Disabled {
			t.Error("the used spare is reserved still, or another one is not")
		}
	})
}

// The spare joins all aggregates of the failed host; what was added is known, and an unused spare is as it was.
func TestF049SpareJoinsAllAggregates(t *testing.T) {
	add := func(r *plan.Rules) { r.AddToAggregate = true }
	members := func(s *scene) (in int) {
		list, err := s.cloud.Aggregates(admin)
		s.must(err)
		for _, a := range list {
			if slices.Contains(a.Hosts, "host-4") {
				in++
			}
		}
		return in
	}
	for name, used := range map[string]bool{"used": true, "not used": false} {
		t.Run(name, func(t *testing.T) {
			play(t, cast{method: ha.MethodReservedHost, spares: []string{"host-4"}, rules: add}, func(s *scene) {
				s.cloud.AddAggregate("ssd", "host-1", "host-2")
				s.cloud.AddAggregate("az1", "host-1", "host-4")
				s.cloud.AddAggregate("gpu", "host-1")
				s.cloud.AddAggregate("other", "host-3")
				id := s.instances("host-1", 1, ofHA())[0]
				s.dies("host-1")
				if !used {
					s.fault(sim.FaultRule{Action: "evacuate", Status: 403})
					s.becomes(s.down("host-1"), ha.StatusFailed, "Nova refused the order", 5*time.Minute)
					if n := members(s); n != 1 || !s.registered("host-4").Reserved || !s.service("host-4").Disabled || s.service("host-4").DisabledReason != "spare" {
						t.Errorf("in %d aggregates, %+v", n, s.service("host-4"))
					}
					return
				}
				s.becomes(s.down("host-1"), ha.StatusFinished, "1 of 1", time.Minute)
				if n := members(s); n != 3 || s.instance(id).Host != "host-4" {
					t.Errorf("in %d aggregates, the instance is on %s", n, s.instance(id).Host)
				}
				if c := strings.Join(s.claimed("host-4"), ", "); !strings.Contains(c, "aggregate recovery 1, aggregate recovery 3") {
					t.Errorf("claims %s", c)
				}
			})
		})
	}
}

// A false alarm leaves no trace: nothing is disabled, and the spare is neither taken nor enabled.
func TestF051FalseAlarmLeavesNoTrace(t *testing.T) {
	play(t, cast{method: ha.MethodReservedHost, spares: []string{"host-4"}}, func(s *scene) {
		id := s.instances("host-1", 1, ofHA())[0]
		s.becomes(s.down("host-1"), ha.StatusIgnored, "host still reports to Nova", 3*time.Minute)
		s.untouched()
		if spare := s.registered("host-4"); !spare.Reserved || spare.ReservedFor != 0 || s.registered("host-1").OnMaintenance || s.instance(id).Host != "host-1" {
			t.Errorf("spare %+v", spare)
		}
		if !s.alarmed("host host-1 was reported dead but still reports to Nova") {
			t.Error("nobody is told")
		}
	})
}

// Two methods: the second takes up what the first could not place, at once, and that alone. The details tell both, in order.
func TestS13DetailsOfTwoMethods(t *testing.T) {
	play(t, cast{method: ha.MethodAutoPriority, spares: []string{"host-4"}, cloud: sim.Options{Capacity: 2}}, func(s *scene) {
		ids := s.instances("host-1", 2, ofHA())
		s.instances("host-2", 2, ofHA())
		s.instances("host-3", 1, ofHA())
		s.dies("host-1")
		note := s.down("host-1")
		s.becomes(note, ha.StatusFinished, "2 of 2", time.Minute)
		var on []string
		for _, id := range ids {
			on = append(on, s.instance(id).Host)
			if m := s.moves(note)[id]; m.Attempts != 1 || m.Status != ha.MoveSucceeded {
				t.Errorf("%d attempts, %s", m.Attempts, m.Status)
			}
		}
		slices.Sort(on)
		if !slices.Equal(on, []string{"host-3", "host-4"}) {
			t.Errorf("on %v", on)
		}
		want := []string{"Disabled compute service on host: 'host-1'", "Instances to be evacuated are", "Start evacuation", "Evacuation of instance started",
			"Enabling reserved host: 'host-4'", "Evacuation of instance started", "Successfully evacuate instances", "Evacuation process completed!"}
		var seq int64
		for _, e := range s.journal(note) {
			if e.Kind == ha.EntryProgress && len(want) > 0 && strings.Contains(e.Text, want[0]) {
				want = want[1:]
			}
			if e.Seq <= seq {
				t.Errorf("entry %d follows entry %d", e.Seq, seq)
			}
			seq = e.Seq
		}
		if len(want) != 0 {
			t.Errorf("the details do not tell of %q", want)
		}
	})
}
