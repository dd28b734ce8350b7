package openstack

import (
	"context"
	"slices"
	"testing"

	"github.com/salvor-ha/salvor/test/openstack/lab"
)

// instanceFailure: instances of a living host fail (RECOVERY section 3).
func (s *suite) instanceFailure(t *testing.T) {
	const host = "compute-1"
	t.Parallel()
	hangs, died := [2]string{"QEMU_GUEST_AGENT_ERROR", "STOPPED_FAILED"}, [2]string{"LIFECYCLE", "STOPPED_FAILED"}
	cases := []struct {
		name   string
		guard  string // metadata HA_Enabled
		event  [2]string
		bring  func(ctx context.Context, id string) error // nil: as booted
		before string
		status string   // of the notification
		after  string   // vm_state
		done   []string // what salvor asked of Nova
	}{
		// What an introspective monitor reports: it still runs, after a fashion.
		{"hangs", "True", hangs, nil, "active", "finished", "active", []string{"stop", "start"}},
		// Its process died, and nova-compute has noticed before salvor looks.
		{"crashed", "True", died, s.rows.Crash, "stopped", "finished", "active", []string{"start"}},
		{"stopped by its user", "True", died, s.stop, "stopped", "ignored", "stopped", nil},
		{"paused", "True", died, s.pause, "paused", "ignored", "paused", nil},
		{"not protected", "False", died, s.rows.Crash, "stopped", "finished", "stopped", nil},
		{"another event", "True", [2]string{"LIFECYCLE", "SUSPENDED_PAUSED"}, nil, "active", "ignored", "active", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			id, err := s.boot(ctx, host, "vm", map[string]string{"HA_Enabled": c.guard})
			must(t, err)
			if c.bring != nil {
				must(t, c.bring(ctx, id))
			}
			must(t, s.lab.AwaitServer(ctx, id, c.before, soon, func(v lab.Server) bool { return v.VMState == c.before && v.Idle() }))
			report := s.tell(t, "VM", host, map[string]string{
				"event": c.event[0], "vir_domain_event": c.event[1], "instance_uuid": id})
			s.awaitEnd(t, report, c.status)
			v, err := s.lab.Server(ctx, id)
			must(t, err)
			if v.VMState != c.after || !v.Idle() || v.Host != host {
				t.Errorf("%s: want it %s on %s", v, c.after, host)
			}
			if got := s.actionsBy(t, id, s.masakari.User); !slices.Equal(got, c.done) {
				t.Errorf("salvor asked for %v, want %v", got, c.done)
			}
		})
	}
}

func (s *suite) stop(ctx context.Context, id string) error {
	return s.lab.Act(ctx, id, map[string]any{"os-stop": nil})
}

func (s *suite) pause(ctx context.Context, id string) error {
	return s.lab.Act(ctx, id, map[string]any{"pause": nil})
}
