package simhttp

import (
	"context"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/aggregates"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/hypervisors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/instanceactions"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/migrations"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocations"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/salvor-ha/salvor/internal/sim"
)

// evacuateOpts is an evacuate body without onSharedStorage, which gophercloud's own always sends.
type evacuateOpts struct{ host string }

func (o evacuateOpts) ToEvacuateMap() (map[string]any, error) {
	args := map[string]any{}
	if o.host != "" {
		args["host"] = o.host
	}
	return map[string]any{"evacuate": args}, nil
}

// A whole recovery as an independent client sees it.
func TestRecoveryWithGophercloud(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 4}, Options{PageLimit: 3})
	ctx := t.Context()
	var made struct{ IDs []string }
	l.control("POST", "/sim/instances", `{"host": "host-1", "count": 10, "metadata": {"HA_Enabled": "True"}}`, &made)
	l.cloud.AddAggregate("rack", "host-1")
	nova := l.compute("masakari", "service")

	pages, listed := 0, map[string]bool{}
	err := servers.List(nova, servers.ListOpts{AllTenants: true, Host: "host-1"}).EachPage(ctx, func(_ context.Context, p pagination.Page) (bool, error) {
		found, err := servers.ExtractServers(p)
		pages++
		for _, s := range found {
			listed[s.ID] = true
			if s.Host != "host-1" || s.VmState != "active" || s.TaskState != "" || s.PowerState != 1 || s.Metadata["HA_Enabled"] != "True" ||
				s.Locked == nil || *s.Locked || s.TenantID != sim.ProjectDemo {
				t.Errorf("%+v", s)
			}
		}
		return true, err
	})
	l.must(err)
	if pages != 4 || len(listed) != 10 {
		t.Errorf("%d servers on %d pages", len(listed), pages)
	}

	l.control("POST", "/sim/hosts/host-1/kill", "", nil)
	one, err := services.List(nova, services.ListOpts{Binary: "nova-compute", Host: "host-1"}).AllPages(ctx)
	l.must(err)
	found, err := services.ExtractServices(one)
	l.must(err)
	if len(found) != 1 || found[0].State != "up" || found[0].Status != "enabled" || found[0].UpdatedAt.IsZero() {
		t.Fatalf("%+v", found)
	}
	put, err := services.Update(ctx, nova, found[0].ID, services.UpdateOpts{Status: services.ServiceDisabled, DisabledReason: "salvor", ForcedDown: true}).Extract()
	l.must(err)
	if put.State != "down" || !put.ForcedDown || put.DisabledReason != "salvor" || put.ID != found[0].ID {
		t.Errorf("%+v", put)
	}

	for i, id := range made.IDs {
		host := ""
		if i == 0 {
			host = "host-2"
		}
		l.must(servers.Lock(ctx, nova, id).ExtractErr())
		if err := servers.Evacuate(ctx, nova, id, evacuateOpts{host}).Err; err != nil && err.Error() != "EOF" {
			t.Fatal(err)
		}
	}
	for _, id := range made.IDs {
		l.eventually("evacuated", func() bool {
			s, err := servers.Get(ctx, nova, id).Extract()
			l.must(err)
			return s.Host != "host-1" && s.TaskState == "" && s.Status == "ACTIVE"
		})
		l.must(servers.Unlock(ctx, nova, id).ExtractErr())
	}
	if s, _ := l.cloud.Instance(made.IDs[0]); s.Host != "host-2" || s.Evacuations != 1 || s.Locked {
		t.Errorf("%+v", s)
	}

	page, err := migrations.List(nova, migrations.ListOpts{InstanceID: &made.IDs[0]}).AllPages(ctx)
	l.must(err)
	ms, err := migrations.ExtractMigrations(page)
	l.must(err)
	if len(ms) != 1 || ms[0].Status != "done" || ms[0].SourceCompute != "host-1" || ms[0].DestCompute != "host-2" || ms[0].MigrationType != "evacuation" {
		t.Errorf("%+v", ms)
	}
	page, err = instanceactions.List(nova, made.IDs[0], nil).AllPages(ctx)
	l.must(err)
	acts, err := instanceactions.ExtractInstanceActions(page)
	l.must(err)
	if len(acts) != 3 || acts[1].Action != "evacuate" || acts[1].UserID != sim.UserMasakari {
		t.Errorf("%+v", acts)
	}
	act, err := instanceactions.Get(ctx, nova, made.IDs[0], acts[1].RequestID).Extract()
	l.must(err)
	if act.Events == nil || len(*act.Events) != 2 || (*act.Events)[0].Event != "compute_rebuild_instance" || (*act.Events)[0].Result != "Success" {
		t.Errorf("%+v", act.Events)
	}

	page, err = aggregates.List(nova).AllPages(ctx)
	l.must(err)
	ags, err := aggregates.ExtractAggregates(page)
	l.must(err)
	added, err := aggregates.AddHost(ctx, nova, ags[0].ID, aggregates.AddHostOpts{Host: "host-2"}).Extract()
	l.must(err)
	if len(added.Hosts) != 2 {
		t.Errorf("%+v", added)
	}
	if _, err := aggregates.AddHost(ctx, nova, ags[0].ID, aggregates.AddHostOpts{Host: "host-2"}).Extract(); !gophercloud.ResponseCodeIs(err, 409) {
		t.Errorf("added twice: %v", err)
	}
	_, err = aggregates.RemoveHost(ctx, nova, ags[0].ID, aggregates.RemoveHostOpts{Host: "host-2"}).Extract()
	l.must(err)

	pattern := "host-1"
	page, err = hypervisors.List(nova, hypervisors.ListOpts{HypervisorHostnamePattern: &pattern}).AllPages(ctx)
	l.must(err)
	hs, err := hypervisors.ExtractHypervisors(page)
	l.must(err)
	if len(hs) != 1 || hs[0].State != "down" || hs[0].Status != "disabled" || hs[0].Service.Host != "host-1" {
		t.Errorf("%+v", hs)
	}
}

func TestPlacementWithGophercloud(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 3, Instances: 1}, Options{})
	ctx := t.Context()
	client, err := openstack.NewPlacementV1(l.provider("admin", "admin"), gophercloud.EndpointOpts{Region: "RegionOne"})
	l.must(err)
	client.Microversion = "1.28"
	all, _, _ := l.cloud.Instances(sim.InstanceQuery{})
	got, err := allocations.Get(ctx, client, all[0].ID).Extract()
	l.must(err)
	if len(got.Allocations) != 1 || got.ProjectID == nil || *got.ProjectID != sim.ProjectDemo {
		t.Fatalf("%+v", got)
	}
	for uuid, a := range got.Allocations {
		p, err := resourceproviders.Get(ctx, client, uuid).Extract()
		l.must(err)
		if p.Name != "host-1" || a.Resources["VCPU"] != 1 {
			t.Errorf("%+v %+v", p, a)
		}
	}
	none, err := allocations.Get(ctx, client, "11111111-2222-3333-4444-555555555555").Extract()
	l.must(err)
	if len(none.Allocations) != 0 {
		t.Errorf("%+v", none)
	}
}

func TestTokens(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 1}, Options{})
	ctx := t.Context()
	admin := l.provider("masakari", "service")
	identity, err := openstack.NewIdentityV3(admin, gophercloud.EndpointOpts{})
	l.must(err)
	subject := l.token("demo", "demo")
	got := tokens.Get(ctx, identity, subject)
	user, err := got.ExtractUser()
	l.must(err)
	roles, err := got.ExtractRoles()
	l.must(err)
	project, err := got.ExtractProject()
	l.must(err)
	if user.Name != "demo" || user.ID != sim.UserDemo || roles[0].Name != "member" || project.Name != "demo" || project.ID != sim.ProjectDemo {
		t.Errorf("%+v %+v %+v", user, roles, project)
	}
	if valid, err := tokens.Validate(ctx, identity, subject); err != nil || !valid {
		t.Errorf("HEAD: %v %v", valid, err)
	}
	if valid, _ := tokens.Validate(ctx, identity, "bad"); valid {
		t.Error("a bad token is valid")
	}
	l.must(tokens.Revoke(ctx, identity, subject).Err)
	if valid, _ := tokens.Validate(ctx, identity, subject); valid {
		t.Error("a revoked token is valid")
	}

	for name, tc := range map[string]struct {
		user, password, project string
		system                  bool
		ok                      bool
	}{
		"wrong password":        {"admin", "wrong", "admin", false, false},
		"unknown user":          {"nobody", "secret", "admin", false, false},
		"no role in project":    {"demo", "secret", "admin", false, false},
		"unscoped":              {"demo", "secret", "", false, true},
		"system":                {"admin", "secret", "", true, true},
		"system without a role": {"demo", "secret", "", true, false},
	} {
		opts := gophercloud.AuthOptions{IdentityEndpoint: l.url + "/v3", Username: tc.user, Password: tc.password, DomainName: "Default"}
		switch {
		case tc.system:
			opts.Scope = &gophercloud.AuthScope{System: true}
		case tc.project != "":
			opts.Scope = &gophercloud.AuthScope{ProjectName: tc.project, DomainName: "Default"}
		}
		client, err := openstack.NewClient(opts.IdentityEndpoint)
		l.must(err)
		err = openstack.Authenticate(ctx, client, opts)
		if (err == nil) != tc.ok || err != nil && !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
