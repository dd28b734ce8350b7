package openstack

import (
	"context"
	"slices"
	"testing"

	"github.com/salvor-ha/salvor/test/openstack/lab"
)

// fate is an instance of the host that dies: how it is brought into its state, and how it is to be afterwards (table in
// RECOVERY section 2).
type fate struct {
	name     string
	metadata map[string]string
	bring    []map[string]any // server actions
	before   string           // vm_state then
	after    string           // vm_state wanted
	locked   bool             // by an administrator, before and after
	stays    bool             // on the dead host
	resized  bool             // comes by a cold migration from origin

	id string
}

func fates() []*fate {
	enabled := map[string]string{"HA_Enabled": "True"}
	do := func(action string) []map[string]any { return []map[string]any{{action: nil}} }
	return []*fate{
		{name: "active", metadata: enabled, before: "active", after: "active"},
		{name: "plain", before: "active", after: "active"},
		{name: "stopped", bring: do("os-stop"), before: "stopped", after: "stopped"},
		{name: "error", bring: []map[string]any{{"os-resetState": map[string]any{"state": "error"}}}, before: "error", after: "error"},
		{name: "paused", bring: do("pause"), before: "paused", after: "stopped"},
		{name: "suspended", bring: do("suspend"), before: "suspended", after: "stopped"},
		{name: "rescued", bring: []map[string]any{{"rescue": map[string]any{}}}, before: "rescued", after: "stopped"},
		{name: "resized", resized: true, before: "resized", after: "active"},
		{name: "locked", metadata: enabled, bring: []map[string]any{{"lock": map[string]any{"locked_reason": "an administrator's"}}},
			before: "active", after: "active", locked: true},
		{name: "opted-out", metadata: map[string]string{"HA_Enabled": "False"}, before: "active", after: "active", stays: true},
	}
}

// origin is where the resized instance comes from. Its hypervisor keeps the other half until the resize is confirmed, so
// that an evacuation thereto fails ("InstanceExists") and only the next attempt succeeds: it takes no part as a destination.
const origin = "compute-4"

// hostFailure: a hypervisor with ten instances in all kinds of states dies and is reported before Nova has noticed; later it
// comes back.
func (s *suite) hostFailure(t *testing.T) {
	const victim = "compute-1"
	all := fates()
	each(t, all, func(ctx context.Context, f *fate) error { return s.prepare(ctx, f, victim) })
	must(t, s.lab.SetService(t.Context(), origin, map[string]any{"status": "disabled"}))
	defer func() { must(t, s.lab.SetService(t.Context(), origin, map[string]any{"status": "enabled"})) }()

	must(t, s.lab.Kill(t.Context(), victim))
	report := s.report(t, "COMPUTE_HOST", victim, map[string]string{
		"event": "STOPPED", "host_status": "NORMAL", "cluster_status": "OFFLINE"})
	s.awaitNotification(t, report, "finished")
	s.moved(t, victim, all)
	s.listed(t, report, victim, all)
	if service := s.service(t, victim); service.Status != "disabled" || !service.ForcedDown || service.DisabledReason != "Masakari detected host failed." {
		t.Errorf("nova-compute of the dead host is not disabled with the reason and forced down: %+v", service)
	}
	if !s.onMaintenance(t, victim) {
		t.Error("the dead host is not on maintenance")
	}

	s.comesBack(t, victim, all)
}

// prepare boots the instance and brings it into its state.
func (s *suite) prepare(ctx context.Context, f *fate, victim string) error {
	first := victim
	if f.resized {
		first = origin
		f.bring = []map[string]any{{"migrate": map[string]any{"host": victim}}}
	}
	id, err := s.boot(ctx, first, f.name, f.metadata)
	if err != nil {
		return err
	}
	f.id = id
	for _, action := range f.bring {
		if err := s.lab.Act(ctx, id, action); err != nil {
			return err
		}
	}
	return s.lab.AwaitServer(ctx, id, f.before+" on "+victim, soon, func(v lab.Server) bool {
		return v.VMState == f.before && v.Idle() && v.Host == victim && v.Locked == f.locked
	})
}

// moved: every instance is on another host in its wanted state, after exactly one evacuation, and locked only if it was.
func (s *suite) moved(t *testing.T, victim string, all []*fate) {
	t.Helper()
	for _, f := range all {
		v, err := s.lab.Server(t.Context(), f.id)
		must(t, err)
		if (v.Host == victim) != f.stays {
			t.Errorf("%s: is it on the dead host? want %t", v, f.stays)
		}
		if v.VMState != f.after || !v.Idle() {
			t.Errorf("%s: want it %s", v, f.after)
		}
		if v.Locked != f.locked {
			t.Errorf("%s: want it locked %t", v, f.locked)
		}
		want := 1
		if f.stays {
			want = 0
		}
		if records := s.evacuations(t, f.id); len(records) != want {
			t.Errorf("%s: %d evacuation records, want %d: %+v", v, len(records), want, records)
		}
	}
}

func (s *suite) evacuations(t *testing.T, id string) []lab.Migration {
	t.Helper()
	records, err := s.lab.Migrations(t.Context(), id)
	must(t, err)
	return slices.DeleteFunc(records, func(m lab.Migration) bool { return m.Type != "evacuation" })
}

type vmove struct {
	Instance string  `json:"instance_uuid"`
	Source   string  `json:"source_host"`
	Dest     *string `json:"dest_host"`
	Status   string
	Message  *string
}

// listed: the real client lists a vmove of each instance.
func (s *suite) listed(t *testing.T, report, victim string, all []*fate) {
	t.Helper()
	var out struct{ VMoves []vmove }
	must(t, s.lab.SDKGet(t.Context(), &out, "/notifications/"+report+"/vmoves", "1.3"))
	if len(out.VMoves) != len(all) {
		t.Errorf("%d vmoves, want %d", len(out.VMoves), len(all))
	}
	for _, f := range all {
		i := slices.IndexFunc(out.VMoves, func(m vmove) bool { return m.Instance == f.id })
		if i < 0 {
			t.Errorf("no vmove of %s", f.name)
			continue
		}
		m := out.VMoves[i]
		v, err := s.lab.Server(t.Context(), f.id)
		must(t, err)
		switch {
		case m.Source != victim:
			t.Errorf("vmove of %s: source %s", f.name, m.Source)
		case f.stays && (m.Status != "ignored" || m.Message == nil):
			t.Errorf("vmove of %s: %s, want ignored with a reason", f.name, m.Status)
		case !f.stays && (m.Status != "succeeded" || m.Dest == nil || *m.Dest != v.Host):
			t.Errorf("vmove of %s: %s to %v, want succeeded to %s", f.name, m.Status, m.Dest, v.Host)
		}
	}
}

// comesBack: the host returns, and salvor takes forced_down back by itself, however often Nova refuses; what an operator is to
// decide stays. No instance is in two places.
func (s *suite) comesBack(t *testing.T, victim string, all []*fate) {
	t.Helper()
	report := map[string]string{"event": "STARTED", "host_status": "NORMAL", "cluster_status": "ONLINE"}
	// Reported before nova-compute has started: until it has cleaned up after the evacuations, Nova refuses.
	started := s.report(t, "COMPUTE_HOST", victim, report)
	s.awaitNotification(t, started, "finished")
	must(t, s.lab.Revive(t.Context(), victim))
	must(t, s.lab.AwaitService(t.Context(), victim, "up again, disabled", soon, func(v lab.Service) bool {
		return !v.ForcedDown && v.State == "up" && v.Status == "disabled"
	}))
	if !s.onMaintenance(t, victim) {
		t.Error("maintenance ended by itself, though that is for an operator")
	}
	for _, f := range all {
		if !f.stays {
			s.once(t, f.id, victim)
			continue
		}
		v, err := s.lab.Server(t.Context(), f.id)
		must(t, err)
		if held, err := s.lab.Providers(t.Context(), f.id); err != nil || v.Host != victim || len(held) != 1 || held[0] != victim {
			t.Errorf("%s: it was to stay on the host that came back; Placement holds resources on %v (%v)", v, held, err)
		}
	}

	s.openstack(t, nil, "segment", "host", "update", s.segment, s.hosts[victim], "--on_maintenance", "False")
	s.openstack(t, nil, "compute", "service", "set", "--enable", victim, "nova-compute")
	if s.onMaintenance(t, victim) {
		t.Error("the operator could not end the maintenance")
	}
	must(t, s.lab.DeleteServers(t.Context(), prefix)) // the next parts are not about these
}
