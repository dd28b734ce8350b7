package field

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
	"github.com/salvor-ha/salvor/internal/sim"
)

func classes(all ...ha.InstanceClass) func(*plan.Rules) {
	return func(r *plan.Rules) { r.Classes = all }
}

func is(trait ha.Trait, key, value string) []ha.Condition {
	return []ha.Condition{{Trait: trait, Key: key, Values: []string{value}}}
}

// Instances that another controller must rebuild are excluded by a rule, and the skip is visible: by project, flavor, extra spec,
// metadata, and aggregate of the host.
func TestF019ExcludedByClass(t *testing.T) {
	for name, c := range map[string]struct {
		condition []ha.Condition
		spec      sim.InstanceSpec
		says      string
	}{
		"project":    {is(ha.TraitProject, "", "0123456789"), sim.InstanceSpec{Project: "0123456789"}, "project=0123456789"},
		"flavor":     {is(ha.TraitFlavor, "", "amphora*"), sim.InstanceSpec{Flavor: sim.Flavor{Name: "amphora.small"}}, "flavor=amphora*"},
		"extra spec": {is(ha.TraitFlavor, "hw:tag", "lb"), sim.InstanceSpec{Flavor: sim.Flavor{ExtraSpecs: map[string]string{"hw:tag": "lb"}}}, "flavor.hw:tag=lb"},
		"metadata":   {is(ha.TraitMetadata, "owner", "lb"), sim.InstanceSpec{Metadata: map[string]string{"owner": "lb", "HA_Enabled": "True"}}, "metadata.owner=lb"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, cast{rules: classes(ha.InstanceClass{Name: "balancers", Action: ha.ClassLeave, Conditions: c.condition})}, func(s *scene) {
				left := s.instances("host-1", 1, c.spec)[0]
				ids := s.instances("host-1", 3, sim.InstanceSpec{})
				s.dies("host-1")
				note := s.down("host-1")
				s.becomes(note, ha.StatusFinished, "3 of 4 instances moved", time.Minute)
				s.moved(note, left, ha.MoveIgnored, "left where it is by instance class balancers: "+c.says)
				for _, id := range ids {
					s.arrived(id, "host-1", ha.VMActive)
				}
				if i := s.instance(left); i.Host != "host-1" || i.Evacuations != 0 || i.Locked || i.VMState != ha.VMActive {
					t.Errorf("it was touched: %+v", i)
				}
				if n := len(s.calls(func(c sim.Call) bool { return strings.HasSuffix(c.Path, "/servers/"+left) && c.Method == "GET" })); n > 0 {
					t.Errorf("%d questions about the one that is left", n)
				}
			})
		})
	}
	t.Run("aggregate", func(t *testing.T) {
		play(t, cast{rules: classes(ha.InstanceClass{Name: "edge", Action: ha.ClassLeave, Conditions: is(ha.TraitAggregate, "", "edge")})}, func(s *scene) {
			s.cloud.AddAggregate("edge", "host-1")
			left, goes := s.instances("host-1", 1, ofHA())[0], s.instances("host-2", 1, ofHA())[0]
			for host, says := range map[string]string{"host-1": "0 of 1", "host-2": "1 of 1"} {
				s.dies(host)
				s.becomes(s.down(host), ha.StatusFinished, says, time.Minute)
				s.returns(host)
				s.up(host)
				s.pass(time.Minute)
			}
			if s.instance(left).Evacuations != 0 || s.instance(goes).Evacuations != 1 {
				t.Errorf("%+v, %+v", s.instance(left), s.instance(goes))
			}
		})
	})
	t.Run("set to error", func(t *testing.T) {
		play(t, cast{engines: 2, rules: classes(ha.InstanceClass{Name: "gpu", Action: ha.ClassError, Conditions: is(ha.TraitFlavor, "", "gpu")})}, func(s *scene) {
			id := s.instances("host-1", 1, sim.InstanceSpec{Flavor: sim.Flavor{Name: "gpu"}})[0]
			s.dies("host-1")
			s.fault(sim.FaultRule{Method: "POST", Action: "os-resetState", Drop: true, Times: 1}) // its answer is lost
			note := s.down("host-1")
			s.becomes(note, ha.StatusFinished, "0 of 1", 3*time.Minute)
			s.moved(note, id, ha.MoveIgnored, "not moved, but set to error, by instance class gpu: flavor=gpu")
			if i := s.instance(id); i.VMState != ha.VMError || i.Host != "host-1" || i.Evacuations != 0 || i.Locked {
				t.Errorf("%+v", i)
			}
		})
	})
}

// Priorities that wait: the databases are up before what needs them is begun, over an engine's death in the wait.
func TestPrioritiesStartInTheirOrder(t *testing.T) {
	high, low := 100, 50
	rules := classes(
		ha.InstanceClass{Name: "db", Action: ha.ClassEvacuate, Conditions: is(ha.TraitMetadata, "tier", "db"), Priority: &high, Waits: true, Wait: 40 * time.Second, Cap: 10 * time.Minute},
		ha.InstanceClass{Name: "app", Action: ha.ClassEvacuate, Conditions: is(ha.TraitMetadata, "tier", "app"), Priority: &low, Waits: true, Wait: 0, Cap: 10 * time.Minute})
	play(t, cast{engines: 2, rules: rules}, func(s *scene) {
		tier := func(name string) []string {
			return s.instances("host-1", 2, sim.InstanceSpec{Metadata: map[string]string{"tier": name}})
		}
		web, app, db := tier("web"), tier("app"), tier("db")
		s.dies("host-1")
		note := s.down("host-1")
		s.until("the wait after the databases", time.Minute, func() bool {
			return s.moves(note)[db[0]].Status == ha.MoveSucceeded && s.moves(note)[db[1]].Status == ha.MoveSucceeded
		})
		for _, p := range s.procs {
			if len(p.engine.Held()) > 0 {
				p.crash()
			}
		}
		s.becomes(note, ha.StatusFinished, "6 of 6", 3*time.Minute)
		ordered := func(ids []string) (first, last time.Time) {
			for _, id := range ids {
				at := s.acts("evacuate", id)[0].At
				if first.IsZero() || at.Before(first) {
					first = at
				}
				if at.After(last) {
					last = at
				}
			}
			return first, last
		}
		arrived := func(ids []string) (last time.Time) {
			for _, id := range ids {
				if at := s.instance(id).ArrivedAt; at.After(last) {
					last = at
				}
			}
			return last
		}
		firstApp, lastApp := ordered(app)
		firstWeb, _ := ordered(web)
		_, lastDB := ordered(db)
		if d := firstApp.Sub(arrived(db)); d < 39*time.Second || d > 60*time.Second {
			t.Errorf("the applications began %s after the databases had arrived, want 40 s and a takeover", d)
		}
		if firstWeb.Before(arrived(app)) || firstApp.Before(lastDB) || lastApp.Sub(firstApp) > 2*time.Second {
			t.Errorf("db until %s, app %s to %s, web from %s", lastDB, firstApp, lastApp, firstWeb)
		}
		s.harmless()
	})
}

// An instance that crashes again and again: three restarts within the hour, then it is left, with an alarm; the count is in the rows,
// so an engine that dies forgets nothing. An hour later it counts anew.
func TestCrashLoopIsLeft(t *testing.T) {
	play(t, cast{rules: func(r *plan.Rules) { r.RestartLimit, r.RestartWindow = 3, time.Hour }}, func(s *scene) {
		id := s.instances("host-1", 1, ofHA())[0]
		other := s.instances("host-1", 1, ofHA())[0]
		for i := range 3 {
			s.becomes(s.reports("host-1", ha.TypeVM, crashPayload(id)), ha.StatusFinished, "", time.Minute)
			if n := len(s.acts("os-start", id)); n != i+1 {
				t.Fatalf("%d starts after report %d", n, i+1)
			}
			s.procs[len(s.procs)-1].crash()
			s.engine()
			s.pass(10 * time.Minute)
		}
		n := s.reports("host-1", ha.TypeVM, crashPayload(id))
		s.becomes(n, ha.StatusIgnored, fmt.Sprintf("instance %s was restarted 3 times within 1h0m0s, limit 3: it is left as it is", id), time.Minute)
		if len(s.acts("os-start", id)) != 3 || !s.alarmed("was restarted 3 times") {
			t.Errorf("%d starts", len(s.acts("os-start", id)))
		}
		s.becomes(s.reports("host-1", ha.TypeVM, crashPayload(other)), ha.StatusFinished, "", time.Minute)
		s.pass(40 * time.Minute)
		s.becomes(s.reports("host-1", ha.TypeVM, crashPayload(id)), ha.StatusFinished, "", time.Minute)
		if len(s.acts("os-start", id)) != 4 {
			t.Error("an hour later it is not restarted")
		}
	})
}

// A host that is healthy for minutes and fails again: given back twice, then kept away until an operator ends its maintenance.
func TestF071FlappingHostIsKeptAway(t *testing.T) {
	rules := func(r *plan.Rules) { r.AutoReturn, r.ReturnLimit, r.ReturnWindow = true, 2, 24*time.Hour }
	play(t, cast{rules: rules}, func(s *scene) {
		inService := func() bool {
			svc, h := s.service("host-1"), s.registered("host-1")
			return !svc.Disabled && !svc.ForcedDown && !h.OnMaintenance
		}
		fails := func() {
			s.instances("host-1", 1, ofHA())
			s.dies("host-1")
			s.becomes(s.down("host-1"), ha.StatusFinished, "1 of 1", time.Minute)
			s.returns("host-1")
			s.up("host-1")
		}
		for range 2 {
			fails()
			at := time.Now()
			s.until("it is given back", 10*time.Minute, inService)
			if d := time.Since(at); d < 5*time.Minute || d > 5*time.Minute+30*time.Second {
				t.Errorf("given back after %s, want healthy_delay and no minute more", d)
			}
			s.pass(20 * time.Minute)
		}
		fails()
		s.pass(2 * time.Hour)
		if inService() || !s.service("host-1").Disabled || s.service("host-1").ForcedDown || !s.alarmed("host host-1 has failed 3 times within 24h0m0s, limit 2") {
			t.Errorf("%+v, on maintenance %v", s.service("host-1"), s.registered("host-1").OnMaintenance)
		}
		no := false
		_, _, err := s.salvor.UpdateHost(s.ctx, s.segment, s.hosts["host-1"], ha.HostPatch{OnMaintenance: &no})
		s.must(err)
		s.until("the operator has given it back, and it is salvor's no more", 10*time.Minute, func() bool {
			c := strings.Join(s.claimed("host-1"), ", ")
			return inService() && !strings.Contains(c, "disabled") && !strings.Contains(c, "forced_down")
		})
	})
}

// An operator confirms the wrong host: nothing happens to it as long as Nova hears it, and the recovery says so.
func TestConfirmOffOfTheWrongHost(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		id := s.instances("host-1", 1, ofHA())[0]
		n, err := s.salvor.ConfirmOff(s.ctx, "host-1", "op", "rack 7")
		s.must(err)
		s.becomes(n.UUID, ha.StatusRunning, "waiting at gate heard: host still reports to Nova", time.Minute)
		s.pass(30 * time.Minute)
		s.untouched()
		if s.instance(id).Host != "host-1" {
			t.Error("it was moved")
		}
		s.must(s.cloud.Kill("host-1"))
		at := time.Now()
		s.becomes(n.UUID, ha.StatusFinished, "1 of 1", time.Minute)
		if d := time.Since(at); d > 40*time.Second {
			t.Errorf("recovered %s after its death", d)
		}
		s.harmless()
	})
}
