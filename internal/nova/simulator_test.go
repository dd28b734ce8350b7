package nova_test

import (
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/nova"
	"github.com/salvor-ha/salvor/internal/sim"
	"github.com/salvor-ha/salvor/internal/sim/simhttp"
)

// TestAgainstTheSimulator walks every call of a recovery through the simulated cloud's HTTP face, with small pages.
func TestAgainstTheSimulator(t *testing.T) {
	cloud := sim.New(sim.Options{Hosts: 3, Scale: 0.02, HypervisorDomain: "example.com"})
	face := simhttp.New(cloud, simhttp.Options{PageLimit: 2})
	server := httptest.NewServer(face)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		face.Close()
		cloud.Close()
	})
	ids, err := cloud.AddInstances("host-1", 5, sim.InstanceSpec{Metadata: map[string]string{"HA_Enabled": "True"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := nova.New(nova.Config{AuthURL: server.URL, User: "masakari", Password: config.NewSecret("secret"), Project: "service",
		UserDomain: "Default", ProjectDomain: "Default", Region: "RegionOne"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r := recovery{T: t, c: c}

	if has, err := c.HasComputeService(t.Context(), "host-1"); err != nil || !has {
		t.Fatal(has, err)
	}
	if has, err := c.HasComputeService(t.Context(), "host-9"); err != nil || has {
		t.Fatal(has, err)
	}
	service := r.service("host-1")
	if !service.Up || !service.Enabled || service.ID == "" || service.UpdatedAt.IsZero() {
		t.Fatalf("%+v", service)
	}
	if servers := r.servers("host-1"); len(servers) != 5 || servers[0].Host != "host-1" || servers[0].Metadata["HA_Enabled"] != "True" {
		t.Fatalf("%+v", servers)
	}

	// Nova refuses while the host counts as up.
	_, err = c.Do(t.Context(), ha.Act{Kind: ha.ActEvacuate, Instance: ids[0]})
	if ha.ClassOf(err) != ha.ClassRefused || ha.StatusOf(err) != 400 {
		t.Fatalf("evacuation of a living host: %v", err)
	}
	if err := cloud.Kill("host-1"); err != nil {
		t.Fatal(err)
	}
	yes, no := true, false
	out := r.do(ha.Act{Kind: ha.ActService, ServiceID: service.ID, ForcedDown: &yes, Enable: &no, Reason: "salvor: host failed"})
	if s := out.Service; s == nil || s.Up || s.Enabled || !s.ForcedDown || s.DisabledReason != "salvor: host failed" {
		t.Fatalf("%+v", out.Service)
	}
	for _, id := range ids {
		r.do(ha.Act{Kind: ha.ActLock, Instance: id, Reason: "salvor: host recovery"})
	}
	if s, err := c.Server(t.Context(), ids[0]); err != nil || !s.Locked {
		t.Fatalf("%+v %v", s, err)
	}
	r.do(ha.Act{Kind: ha.ActEvacuate, Instance: ids[0], Target: "host-3"})
	for _, id := range ids[1:] {
		r.do(ha.Act{Kind: ha.ActEvacuate, Instance: id})
	}
	r.await("five evacuations that are done", func() bool {
		found, err := c.Migrations(t.Context(), "host-1")
		if err != nil {
			t.Fatal(err)
		}
		done := slices.DeleteFunc(slices.Clone(found), func(m ha.Migration) bool {
			return !m.Done() || m.Type != ha.MigrationEvacuation || m.Source != "host-1" || m.Dest == ""
		})
		if !slices.IsSortedFunc(found, func(a, b ha.Migration) int { return int(b.ID - a.ID) }) {
			t.Fatalf("not newest first: %+v", found)
		}
		return len(done) == 5
	})
	r.await("an empty host", func() bool { return len(r.servers("host-1")) == 0 })
	if s, err := c.Server(t.Context(), ids[0]); err != nil || s.Host != "host-3" || s.VMState != ha.VMActive || s.TaskState != "" {
		t.Fatalf("%+v %v", s, err)
	}
	for _, id := range ids {
		r.do(ha.Act{Kind: ha.ActUnlock, Instance: id})
	}
	if hosts, err := c.Providers(t.Context(), ids[0]); err != nil || !slices.Contains(hosts, "host-3") {
		t.Fatal("names of services, not of hypervisors", hosts, err)
	}
	actions, err := c.Actions(t.Context(), ids[0])
	if err != nil || !slices.ContainsFunc(actions, func(a ha.ServerAction) bool { return a.Action == "evacuate" }) {
		t.Fatal(actions, err)
	}

	r.do(ha.Act{Kind: ha.ActStop, Instance: ids[0]})
	r.awaitState(ids[0], ha.VMStopped)
	r.do(ha.Act{Kind: ha.ActStart, Instance: ids[0]})
	r.awaitState(ids[0], ha.VMActive)
	r.do(ha.Act{Kind: ha.ActResetState, Instance: ids[0], State: ha.VMError})
	r.awaitState(ids[0], ha.VMError)

	if _, err := c.Server(t.Context(), "00000000-0000-0000-0000-000000000000"); ha.ClassOf(err) != ha.ClassGone {
		t.Errorf("no such server: %v", err)
	}
	if _, err := c.Aggregates(t.Context()); err != nil {
		t.Error(err)
	}
	if err := cloud.Revive("host-1"); err != nil {
		t.Fatal(err)
	}
	r.await("a host that may be up again", func() bool {
		_, err := c.Do(t.Context(), ha.Act{Kind: ha.ActService, ServiceID: service.ID, ForcedDown: &no})
		return err == nil
	})
	if d := cloud.DoubleRuns(); len(d) != 0 {
		t.Errorf("%+v", d)
	}
}

type recovery struct {
	*testing.T
	c *nova.Client
}

func (r recovery) service(host string) ha.Service {
	r.Helper()
	all, err := r.c.Services(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	at := slices.IndexFunc(all, func(s ha.Service) bool { return s.Host == host && s.Binary == ha.BinaryCompute })
	if at < 0 {
		r.Fatalf("no service of %s in %+v", host, all)
	}
	return all[at]
}

func (r recovery) servers(host string) []ha.Server {
	r.Helper()
	all, err := r.c.Servers(r.Context(), host)
	if err != nil {
		r.Fatal(err)
	}
	return all
}

func (r recovery) do(act ha.Act) ha.Outcome {
	r.Helper()
	out, err := r.c.Do(r.Context(), act)
	if err != nil {
		r.Fatalf("%s: %v", act.Kind, err)
	}
	return out
}

func (r recovery) await(what string, is func() bool) {
	r.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			r.Fatalf("waited in vain for %s", what)
		}
	}
}

func (r recovery) awaitState(id, state string) {
	r.Helper()
	r.await(state, func() bool {
		s, err := r.c.Server(r.Context(), id)
		if err != nil {
			r.Fatal(err)
		}
		return s.VMState == state && s.TaskState == ""
	})
}
