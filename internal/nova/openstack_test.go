package nova_test

import (
	"os"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/nova"
)

// TestAgainstOpenStack makes every call that changes nothing, and orders for an instance that does not exist, against a real
// cloud: that of an openrc file's variables, when SALVOR_TEST_OPENSTACK is set besides.
func TestAgainstOpenStack(t *testing.T) {
	if os.Getenv("SALVOR_TEST_OPENSTACK") == "" {
		t.Skip("SKIPPED, no OpenStack: set SALVOR_TEST_OPENSTACK=1 and an openrc file's variables")
	}
	c, err := nova.New(nova.Config{AuthURL: os.Getenv("OS_AUTH_URL"), User: os.Getenv("OS_USERNAME"),
		Password: config.NewSecret(os.Getenv("OS_PASSWORD")), Project: os.Getenv("OS_PROJECT_NAME"), Region: os.Getenv("OS_REGION_NAME")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	services, err := c.Services(t.Context())
	if err != nil || len(services) == 0 {
		t.Fatal(services, err)
	}
	for _, s := range services {
		if s.Binary != ha.BinaryCompute {
			continue
		}
		if s.ID == "" || s.UpdatedAt.IsZero() {
			t.Errorf("%+v", s)
		}
		servers, err := c.Servers(t.Context(), s.Host)
		if err != nil {
			t.Error(err)
		}
		migrations, err := c.Migrations(t.Context(), s.Host)
		if err != nil {
			t.Error(err)
		}
		t.Logf("%s: %d servers, %d migrations", s.Host, len(servers), len(migrations))
		for _, server := range servers[:min(3, len(servers))] {
			one, err := c.Server(t.Context(), server.ID)
			if err != nil || one.Host == "" || one.VMState == "" || one.CreatedAt.IsZero() {
				t.Errorf("%+v %v", one, err)
			}
			if actions, err := c.Actions(t.Context(), server.ID); err != nil || len(actions) == 0 || actions[0].StartedAt.IsZero() {
				t.Errorf("%+v %v", actions, err)
			}
			if hosts, err := c.Providers(t.Context(), server.ID); err != nil || !strings.Contains(strings.Join(hosts, " "), server.Host) {
				t.Errorf("%v %v", hosts, err)
			}
		}
	}
	if _, err := c.Aggregates(t.Context()); err != nil {
		t.Error(err)
	}
	const none = "00000000-0000-4000-8000-000000000000"
	for _, kind := range []ha.ActKind{ha.ActEvacuate, ha.ActLock, ha.ActUnlock, ha.ActStop, ha.ActStart, ha.ActResetState} {
		act := ha.Act{Kind: kind, Instance: none}
		if kind == ha.ActResetState {
			act.State = ha.VMError
		}
		if kind == ha.ActLock {
			act.Reason = "salvor: a test"
		}
		if _, err := c.Do(t.Context(), act); ha.ClassOf(err) != ha.ClassGone {
			t.Errorf("%s: %v", kind, err)
		}
	}
	down := true
	if _, err := c.Do(t.Context(), ha.Act{Kind: ha.ActService, ServiceID: none, ForcedDown: &down}); ha.ClassOf(err) != ha.ClassGone {
		t.Error(err)
	}
	if _, err := c.Do(t.Context(), ha.Act{Kind: ha.ActAggregateAdd, Aggregate: "999999", Host: "none"}); ha.ClassOf(err) != ha.ClassGone {
		t.Error(err)
	}
}
