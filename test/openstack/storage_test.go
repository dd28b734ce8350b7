package openstack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/testkit"
	"github.com/salvor-ha/salvor/test/openstack/lab"
)

// storageFailure: an agent beside a nova-compute sees the instance store vanish: the host's instances are in error, the host is disabled with
// the reason, nothing else has moved; repaired and cleared, the service is enabled again and the instances are active.
func (s *suite) storageFailure(t *testing.T) {
	const host, other = "compute-4", "compute-1"
	dir := t.TempDir()
	store := filepath.Join(dir, "instances")
	must(t, os.Mkdir(store, 0o700))
	key, err := s.api.NewAgentKey(t.Context(), host)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "key"), []byte(key.Key+"\n"), 0o600))
	conf := strings.NewReplacer("API", s.salvor.URL(t), "DIR", dir, "HOST", host).Replace(`[agent]
host = HOST
api_url = API
key_file = DIR/key
state_directory = DIR/state
probe_interval = 1
write_interval = 2
probe_timeout = 3
report_interval = 2
resource = instances:DIR/instances:instance
`)
	must(t, os.WriteFile(filepath.Join(dir, "agent.conf"), []byte(conf), 0o600))
	here, err := s.boot(t.Context(), host, "storage-here", nil)
	must(t, err)
	there, err := s.boot(t.Context(), other, "storage-there", nil)
	must(t, err)
	testkit.Start(t, "agent", "agent", "--config-file", filepath.Join(dir, "agent.conf"))
	s.awaitChecks(t, host) // what was never well is not reported

	must(t, os.Rename(store, store+".gone"))
	s.awaitHealth(t, host, "error")
	s.awaitState(t, here, "error")
	must(t, s.lab.AwaitService(t.Context(), host, "disabled for its storage", soon, func(v lab.Service) bool {
		return v.Status == "disabled" && strings.Contains(v.DisabledReason, "storage failed") && !v.ForcedDown
	}))
	if v := s.service(t, other); v.Status != "enabled" {
		t.Errorf("%s is %+v", other, v)
	}
	for id, want := range map[string][2]string{here: {host, "error"}, there: {other, "active"}} {
		if at, state := s.where(t, id); at != want[0] || state != want[1] {
			t.Errorf("instance %s is %s on %s, want %s on %s", id, state, at, want[1], want[0])
		}
	}
	if code, out := s.run(t, "host", "clear", host); code == 0 || !strings.Contains(out, "still reports failure") {
		t.Errorf("cleared while the agent still reports failure: %d %s", code, out)
	}

	must(t, os.Rename(store+".gone", store))
	s.awaitChecks(t, host)
	s.mustRun(t, "host", "clear", host, "--reason", "mounted again", "--reset-instances")
	must(t, s.lab.AwaitService(t.Context(), host, "enabled again", soon, func(v lab.Service) bool { return v.Status == "enabled" }))
	s.awaitState(t, here, "active")
}

func (s *suite) awaitHealth(t *testing.T, host, want string) {
	t.Helper()
	testkit.Eventually(t, soon, func() (bool, string) {
		h, err := s.api.HostHealth(t.Context(), host)
		if err != nil {
			return false, err.Error()
		}
		return h.State == want, h.State
	})
}

// awaitChecks waits until the agent says that all is well.
func (s *suite) awaitChecks(t *testing.T, host string) {
	t.Helper()
	testkit.Eventually(t, soon, func() (bool, string) {
		h, err := s.api.HostHealth(t.Context(), host)
		if err != nil {
			return false, err.Error()
		}
		for _, c := range h.Checks {
			if c.Status != "ok" {
				return false, c.Resource + " is " + c.Status
			}
		}
		return len(h.Checks) > 0, "no checks"
	})
}

func (s *suite) awaitState(t *testing.T, id, want string) {
	t.Helper()
	testkit.Eventually(t, soon, func() (bool, string) {
		_, state := s.where(t, id)
		return state == want, state
	})
}

// where is on which host an instance is, and in what state.
func (s *suite) where(t *testing.T, id string) (host, state string) {
	t.Helper()
	v, err := s.lab.Server(t.Context(), id)
	must(t, err)
	return v.Host, v.VMState
}
