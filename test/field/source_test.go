package field

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/engine"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/nova"
	"github.com/salvor-ha/salvor/internal/plan"
	"github.com/salvor-ha/salvor/internal/sim"
	"github.com/salvor-ha/salvor/internal/sim/simhttp"
	"github.com/salvor-ha/salvor/internal/store/memstore"
)

// One instance fails once and then succeeds: the verdict is of its latest state, in one row, and the others are not touched again.
func TestS02OldFailuresDoNotCount(t *testing.T) {
	play(t, cast{cloud: sim.Options{Rate: 1}}, func(s *scene) {
		ids := s.instances("host-1", 3, ofHA())
		s.dies("host-1")
		note := s.down("host-1")
		s.breaksOrder(ids[2])
		s.becomes(note, ha.StatusError, "1 of 3 instances were not moved", time.Minute)
		s.moved(note, ids[2], ha.MoveFailed, "Unexpected task state")
		s.becomes(note, ha.StatusFinished, "3 of 3", 5*time.Minute)
		for i, id := range ids {
			want := 1 + i/2
			if m := s.moves(note)[id]; m.Status != ha.MoveSucceeded || m.Attempts != want || len(s.acts("evacuate", id)) != want {
				t.Errorf("instance %d: %s, %d attempts, %d orders, want %d", i, m.Status, m.Attempts, len(s.acts("evacuate", id)), want)
			}
			if v := s.instance(id); v.Host == "host-1" || v.VMState != ha.VMActive || v.Locked {
				t.Errorf("instance %d is %s on %s", i, v.VMState, v.Host)
			}
		}
	})
}

// breaksOrder makes an evacuation that is under way fail: an admin resets the instance's state in the middle.
func (s *scene) breaksOrder(id string) {
	s.Helper()
	s.until("it is being rebuilt", 20*time.Second, func() bool {
		list, _, err := s.cloud.Migrations(sim.MigrationQuery{Instance: id, Status: "pre-migrating"})
		s.must(err)
		return len(list) > 0
	})
	s.must(s.cloud.Act(admin, id, sim.ServerAction{Name: "os-resetState", State: ha.VMError}))
}

// A notification in error belongs to nobody; when its retry is due one engine claims it, however many look.
func TestS03ErrorIsRetriedByOneEngine(t *testing.T) {
	for range 10 {
		play(t, cast{engines: 3, alone: true}, func(s *scene) {
			ids := s.instances("host-1", 3, ofHA())
			s.dies("host-1")
			s.fault(sim.FaultRule{Method: "PUT", Status: 403, Times: 1})
			note := s.down("host-1")
			s.becomes(note, ha.StatusError, "next in 2m0s", time.Minute)
			s.becomes(note, ha.StatusFinished, "3 of 3", 3*time.Minute)
			if n := len(s.puts("host-1")); n != 2 {
				t.Errorf("%d PUTs, want the refused one and another", n)
			}
			for _, id := range ids {
				s.arrived(id, "host-1", ha.VMActive)
			}
		})
	}
}

// The engine at work is killed, at every moment of a recovery: another one goes on, each instance is ordered once, none stays locked.
func TestS05EngineDiesAtAnyMoment(t *testing.T) {
	for after := 5 * time.Millisecond; after < 3*time.Second; after += 95 * time.Millisecond {
		play(t, cast{engines: 2}, func(s *scene) {
			ids := s.instances("host-1", 5, ofHA())
			s.dies("host-1")
			s.fault(sim.FaultRule{Action: "evacuate", Instance: ids[3], ActAfter: 20 * time.Second, Times: 1}) // an order that Nova takes late
			note := s.down("host-1")
			var owner *process
			s.until("somebody owns it", 5*time.Second, func() bool {
				i := slices.IndexFunc(s.procs, func(p *process) bool { return len(p.engine.Held()) > 0 })
				if i >= 0 {
					owner = s.procs[i]
				}
				return i >= 0
			})
			s.pass(after)
			owner.crash()
			s.becomes(note, ha.StatusFinished, "5 of 5", 8*time.Second+60*time.Second+20*time.Second)
			for _, id := range ids {
				s.arrived(id, "host-1", ha.VMActive)
			}
			s.harmless()
		})
	}
}

// Nova knows: the first order leaves within a second of the report. Nova does not know: it is told, or, without force_down, waited
// for. No fixed sleep in either case.
func TestS09NoFixedWait(t *testing.T) {
	first := func(s *scene) time.Duration {
		s.Helper()
		begun := time.Now()
		note := s.down("host-1")
		s.becomes(note, ha.StatusFinished, "1 of 1", 10*time.Minute)
		return s.acts("evacuate", "")[0].At.Sub(begun)
	}
	t.Run("Nova knows", func(t *testing.T) {
		play(t, cast{}, func(s *scene) {
			s.instances("host-1", 1, ofHA())
			s.dies("host-1")
			if took := first(s); took > time.Second {
				t.Errorf("ordered after %s", took)
			}
		})
	})
	t.Run("Nova would need five minutes", func(t *testing.T) {
		play(t, cast{cloud: sim.Options{DownTime: 5 * time.Minute}}, func(s *scene) {
			s.instances("host-1", 1, ofHA())
			s.must(s.cloud.Kill("host-1"))
			if took := first(s); took > 6*time.Second { // 1.5 × nova_report_interval of silence
				t.Errorf("ordered after %s", took)
			}
		})
	})
	t.Run("without force_down", func(t *testing.T) {
		play(t, cast{cloud: sim.Options{DownTime: time.Minute}, rules: func(r *plan.Rules) { r.ForceDown = false }}, func(s *scene) {
			s.instances("host-1", 1, ofHA())
			s.must(s.cloud.Kill("host-1"))
			if took := first(s); took < 55*time.Second || took > 65*time.Second {
				t.Errorf("ordered after %s, Nova knows after a minute", took)
			}
			if s.service("host-1").ForcedDown {
				t.Error("forced down all the same")
			}
		})
	})
}

// A host with more instances than a page of Nova's list: all are evacuated. Over HTTP, with the true client of Nova.
func TestS12AllPagesAreEvacuated(t *testing.T) {
	cloud := sim.New(sim.Options{Hosts: 3, Scale: 0.02})
	face := simhttp.New(cloud, simhttp.Options{PageLimit: 10})
	server := httptest.NewServer(face)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		face.Close()
		cloud.Close()
	})
	client, err := nova.New(nova.Config{AuthURL: server.URL, User: "masakari", Password: config.NewSecret("secret"), Project: "service",
		UserDomain: "Default", ProjectDomain: "Default", Region: "RegionOne"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	ids, err := cloud.AddInstances("host-1", 25, ofHA())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	s := &scene{T: t, real: true, ctx: ctx, start: time.Now(), cloud: cloud, rows: memstore.New(memstore.Config{}), hosts: map[string]string{}, claims: map[string]bool{}}
	s.serve(client)
	if err := cloud.Kill("host-1"); err != nil {
		t.Fatal(err)
	}
	s.until("Nova sees it down", 10*time.Second, func() bool { return !s.service("host-1").Up })
	e := engine.New(engine.Config{Name: "engine", TTL: 5 * time.Second, Tick: time.Second, Poll: 100 * time.Millisecond, DrainTimeout: time.Second,
		CallTimeout: 10 * time.Second, Concurrency: 32, Rules: s.rules()}, s.rows, client, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	defer func() { stop(); <-done }()
	note := s.down("host-1")
	s.becomes(note, ha.StatusFinished, "25 of 25", 30*time.Second)
	for _, id := range ids {
		s.arrived(id, "host-1", ha.VMActive)
	}
}

// The database is away for a minute, at any moment of a recovery: it finishes by itself, and each instance is ordered once.
func TestS14DatabaseAwayInTheMiddle(t *testing.T) {
	for after := 10 * time.Millisecond; after < 4*time.Second; after += 195 * time.Millisecond {
		t.Run(fmt.Sprint("after ", after), func(t *testing.T) {
			play(t, cast{}, func(s *scene) {
				ids := s.instances("host-1", 10, ofHA())
				s.dies("host-1")
				note := s.down("host-1")
				s.until("begun", 5*time.Second, func() bool { return len(s.procs[0].engine.Held()) > 0 })
				s.pass(after)
				s.procs[0].db.cut(true)
				s.pass(time.Minute)
				s.procs[0].db.cut(false)
				s.becomes(note, ha.StatusFinished, "10 of 10", 3*time.Minute)
				for _, id := range ids {
					s.arrived(id, "host-1", ha.VMActive)
				}
				s.harmless()
			})
		})
	}
}

// Nova's periodic sync was faster and has stopped the crashed instance: that is no user's stop, and it is started.
func TestF053PowerSyncWasFaster(t *testing.T) {
	play(t, cast{}, func(s *scene) {
		ids := s.instances("host-1", 2, ofHA())
		s.must(s.cloud.Act(tenant, ids[1], sim.ServerAction{Name: "os-stop"}))
		s.pass(5 * time.Second)
		s.must(s.cloud.Kill("host-1"))
		s.returns("host-1") // a reboot that no host monitor sees
		s.until("Nova has stopped it", time.Minute, func() bool { return s.instance(ids[0]).VMState == ha.VMStopped })
		s.becomes(s.reports("host-1", ha.TypeVM, crashPayload(ids[0])), ha.StatusFinished, "", time.Minute)
		if i := s.instance(ids[0]); i.VMState != ha.VMActive || len(i.Running) != 1 {
			t.Errorf("%s, runs on %v", i.VMState, i.Running)
		}
		s.becomes(s.reports("host-1", ha.TypeVM, crashPayload(ids[1])), ha.StatusIgnored, "stopped by a user", time.Minute)
	})
}

// A stop of the engine in good order, in the middle of a recovery: it ends within its drain, and the next one goes on at once.
func TestF077StopInTheMiddle(t *testing.T) {
	play(t, cast{cloud: sim.Options{Rate: 2}}, func(s *scene) {
		ids := s.instances("host-1", 10, ofHA())
		s.dies("host-1")
		note := s.down("host-1")
		s.until("three are moved", time.Minute, func() bool { return len(s.away(ids, "host-1")) == 3 })
		begun := time.Now()
		s.procs[0].quit()
		if took := time.Since(begun); took > 6*time.Second {
			t.Errorf("stopped after %s", took)
		}
		next := s.engine()
		s.until("the next one goes on", 2*time.Second, func() bool {
			return slices.ContainsFunc(next.engine.Held(), func(key string) bool { return strings.HasPrefix(key, "host:") })
		})
		s.becomes(note, ha.StatusFinished, "10 of 10", time.Minute)
		for _, id := range ids {
			s.arrived(id, "host-1", ha.VMActive)
		}
	})
}
