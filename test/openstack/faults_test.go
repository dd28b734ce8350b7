package openstack

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/wire"
	"github.com/salvor-ha/salvor/test/openstack/lab"
)

// faults: what would fail when it is needed is planted, and named with its mend by doctor, coverage and plan, which change nothing in
// Nova and Placement.
func (s *suite) faults(t *testing.T) {
	const host, spare, misnamed = "compute-1", "compute-4", "compute-2.example.com"
	must(t, s.lab.DeleteServers(t.Context(), prefix))
	s.bmcs.Dark(dark, true)
	defer s.bmcs.Dark(dark, false)

	// Full for a big one: each other host has one already, and two do not fit.
	big, err := s.lab.Flavored(t.Context(), "big")
	must(t, err)
	each(t, lab.Hosts, func(ctx context.Context, at string) error {
		_, err := s.lab.Boot(ctx, big, 1, at, prefix+"big-"+at, map[string]string{"HA_Enabled": "True"})
		return err
	})
	small, err := s.boot(t.Context(), host, "small", map[string]string{"HA_Enabled": "True"})
	must(t, err)
	must(t, s.lab.SetService(t.Context(), spare, map[string]any{"status": "disabled", "disabled_reason": "a broken fan"}))
	defer func() {
		must(t, s.lab.SetService(context.WithoutCancel(t.Context()), spare, map[string]any{"status": "enabled"}))
	}()
	_, err = s.api.UpdateHost(t.Context(), s.segment, s.hosts[spare], client.Changes{"reserved": true})
	must(t, err)
	// Under a name that Nova does not have nobody can register a host; but [DEFAULT] host of its nova.conf may change afterwards.
	const rename = "UPDATE hosts SET name = ? WHERE name = ?"
	must(t, s.db.Exec(t.Context(), rename, misnamed, "compute-2"))
	defer func() { must(t, s.db.Exec(context.WithoutCancel(t.Context()), rename, "compute-2", misnamed)) }()

	before := s.settled(t)
	t.Run("doctor", func(t *testing.T) {
		t.Run("with the service's account", func(t *testing.T) {
			t.Parallel()
			s.examine(t, nil, 2,
				finding{"rights", "force down, disable", "ok", "allowed", ""},
				finding{"rights", "evacuate", "ok", "allowed", ""},
				finding{"rights", "list all instances, with their host", "ok", "", ""},
				finding{"catalog", "compute", "ok", "Nova at " + lab.NovaURL, ""},
				finding{"placement", "", "ok", "", ""},
				finding{"reserved", spare, "warn", `with the reason "a broken fan"`, "--on-maintenance=true"},
				finding{"hosts", misnamed, "fail", "Nova has compute-2", "salvor host update " + misnamed + " --name compute-2"},
				finding{"fencing", dark, "fail", "no answer", "salvor fence test --host " + dark})
		})
		t.Run("with a mere member's account", func(t *testing.T) {
			t.Parallel()
			s.examine(t, map[string]string{"os_privileged_user_name": "demo", "os_privileged_user_tenant": "demo"}, 2,
				finding{"rights", "force down, disable", "fail", "Policy doesn't allow os_compute_api:os-services:update", "give the account the role admin"},
				finding{"rights", "list services", "fail", "Policy doesn't allow os_compute_api:os-services:list", "give the account the role admin"},
				finding{"rights", "list all instances, with their host", "fail", "", "give the account the role admin"})
		})
		t.Run("in a region that there is not", func(t *testing.T) {
			t.Parallel()
			s.examine(t, map[string]string{"os_region_name": "RegionTwo"}, 2,
				finding{"catalog", "compute", "fail", "knows no region RegionTwo; there is Baseline, RegionOne", "correct [DEFAULT] os_region_name"})
		})
		t.Run("in a region without Nova", func(t *testing.T) {
			t.Parallel()
			s.examine(t, map[string]string{"os_region_name": "Baseline"}, 2,
				finding{"catalog", "compute", "fail", "it is in RegionOne", "correct [DEFAULT] os_region_name"})
		})
	})
	t.Run("coverage and plan", func(t *testing.T) {
		code, out := s.run(t, "coverage", "-o", "json")
		var all []wire.HostCoverage
		must(t, json.Unmarshal([]byte(out), &all))
		if code != 1 {
			t.Errorf("salvor coverage: exit code %d, though not all are protected", code)
		}
		i := slices.IndexFunc(all, func(h wire.HostCoverage) bool { return h.Name == host })
		if i < 0 {
			t.Fatalf("no coverage of %s:\n%s", host, out)
		}
		var plan wire.Plan
		code, out = s.run(t, "plan", "--host", host, "-o", "json")
		must(t, json.Unmarshal([]byte(out), &plan))
		if code != 1 {
			t.Errorf("salvor plan: exit code %d, though one would not be moved", code)
		}
		for what, h := range map[string]wire.HostCoverage{"coverage": all[i], "plan": plan.HostCoverage} {
			if len(h.Instances) != 2 || h.Wanted != 2 || h.Protected != 1 {
				t.Errorf("%s of %s: %d instances, %d of %d protected", what, host, len(h.Instances), h.Protected, h.Wanted)
			}
			for _, v := range h.Instances {
				switch {
				case v.UUID == small && (!v.Protected || !v.Asked || v.Target == nil || *v.Target == host || *v.Target == spare || v.Choices != 2):
					t.Errorf("%s: the small one fits on two hosts, and has its disk on this one: %+v", what, v)
				case v.UUID == small && !v.DataLost:
					t.Errorf("%s does not say that the small one's disk is lost", what)
				case v.UUID != small && (v.Protected || v.Reason == nil || v.Reason.Rule != "no_valid_host" || v.Reason.Fix == nil):
					t.Errorf("%s: the big one fits nowhere: %+v, %+v", what, v, v.Reason)
				}
			}
		}
		i = slices.IndexFunc(all, func(h wire.HostCoverage) bool { return h.Name == misnamed })
		if i < 0 || len(all[i].Blocks) != 1 || all[i].Blocks[0].Rule != "unknown_to_nova" || all[i].Blocks[0].Fix == nil ||
			!strings.Contains(*all[i].Blocks[0].Fix, misnamed+" --name compute-2") {
			t.Errorf("coverage of the misnamed host: %+v", all[max(i, 0)])
		}
	})
	if changed := lab.Differ(before, s.settled(t)); len(changed) > 0 {
		t.Errorf("doctor, coverage and plan have changed the databases of Nova and Placement:\n%s", strings.Join(changed, "\n"))
	}
}

// settled is a dump of Nova's and Placement's databases, when all that was asked of them before has been done.
func (s *suite) settled(t *testing.T) (now []string) {
	t.Helper()
	must(t, lab.Until(t.Context(), "Nova's databases to rest", soon, func() (bool, error) {
		last := now
		var err error
		now, err = s.lab.Dump(t.Context(), lab.NovaDatabases...)
		return last != nil && len(lab.Differ(last, now)) == 0, err
	}))
	return now
}

// finding is a line of salvor doctor: text and do are parts of what it says.
type finding struct{ check, subject, state, text, do string }

// examine runs salvor doctor with other options of group DEFAULT.
func (s *suite) examine(t *testing.T, options map[string]string, code int, want ...finding) {
	t.Helper()
	text, err := os.ReadFile(s.conf)
	must(t, err)
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		name, _, _ := strings.Cut(line, " = ")
		if value, other := options[name]; other {
			lines[i] = name + " = " + value
		}
	}
	conf := filepath.Join(t.TempDir(), "masakari.conf")
	must(t, os.WriteFile(conf, []byte(strings.Join(lines, "\n")), 0o600))
	got, out := s.run(t, "doctor", "--config-file", conf, "-o", "json")
	var all []struct{ Check, Subject, State, Text, Do string }
	must(t, json.Unmarshal([]byte(out), &all))
	if got != code {
		t.Errorf("salvor doctor: exit code %d, want %d", got, code)
	}
	for _, w := range want {
		found := false
		for _, f := range all {
			found = found || f.Check == w.check && f.Subject == w.subject && f.State == w.state && strings.Contains(f.Text, w.text) && strings.Contains(f.Do, w.do)
		}
		if !found {
			t.Errorf("no finding %+v", w)
		}
	}
	if t.Failed() {
		for _, f := range all {
			t.Logf("%s %s (%s): %s | %s", f.State, f.Check, f.Subject, f.Text, f.Do)
		}
	}
}
