package openstack

import (
	"context"
	"slices"
	"testing"

	"github.com/salvor-ha/salvor/test/openstack/lab"
)

// instanceFailure: instances of a living host fail (RECOVERY section 3).
func (s *suite) instanceFailure(t *testing.T) {
	const host = "compute-2"
	enabled := map[string]string{"HA_Enabled": "True"}
	cases := []struct {
		name   string
		bring  func(ctx context.Context, id string) error // nil: as booted
		before string
		status string   // of the notification
		after  string   // vm_state
		done   []string // what salvor asked of Nova
	}{
		// What an introspective monitor or a lost disk reports: it still runs, after a fashion.
		{"hangs", nil, "active", "finished", "active", []string{"stop", "start"}},
		// Its process died, and nova-compute has noticed before salvor looks.
		{"crashed", s.rows.Crash, "stopped", "finished", "active", []string{"start"}},
		{"stopped by its user", s.stop, "stopped", "ignored", "stopped", nil},
		{"paused", s.pause, "paused", "ignored", "paused", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			id, err := s.boot(ctx, host, "vm", enabled)
			must(t, err)
			if c.bring != nil {
				must(t, c.bring(ctx, id))
			}
			must(t, s.lab.AwaitServer(ctx, id, c.before, soon, func(v lab.Server) bool { return v.VMState == c.before && v.Idle() }))
			report := s.report(t, "VM", host, map[string]string{
				"event": "LIFECYCLE", "vir_domain_event": "STOPPED_FAILED", "instance_uuid": id})
			s.awaitNotification(t, report, c.status)
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
