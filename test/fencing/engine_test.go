package fencing

import (
	"slices"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/testkit"
	"github.com/salvor-ha/salvor/internal/wire"
)

// The BMC takes longer to act than another engine to go on, unless the machine is very busy.
const (
	offAfter = 10_000 // ms
	lease    = "lease_ttl = 3"
)

// TestEngineDiesWhileItFences: kill -9 while a slow BMC has taken the order and the host still runs. Another engine fences anew,
// and every instance is ordered once (field finding F081).
func TestEngineDiesWhileItFences(t *testing.T) {
	t.Parallel()
	t.Run("another goes on, MariaDB", func(t *testing.T) {
		t.Parallel()
		w := cloud(t, testkit.MariaDB(t), 4, bmc, lease)
		both := []*testkit.Process{w.serve("salvor-1"), w.serve("salvor-2")}
		w.fenceAndKill(t, both, func(dead *testkit.Process) {
			if both[0] == dead {
				w.ask(both[1])
			}
		})
	})
	t.Run("it is started again, SQLite", func(t *testing.T) {
		t.Parallel()
		w := cloud(t, "", 4, bmc, lease)
		w.fenceAndKill(t, []*testkit.Process{w.serve("salvor")}, func(*testkit.Process) { w.ask(w.serve("salvor again")) })
	})
}

// fenceAndKill kills the engine that fences; goOn sees to it that another does.
func (w *world) fenceAndKill(t *testing.T, engines []*testkit.Process, goOn func(dead *testkit.Process)) {
	t.Helper()
	w.ask(engines[0])
	w.register(t, "host-1")
	w.bmc(t, "host-1", map[string]any{"off_after_ms": offAfter})
	w.do(t, "host-1", "hang")
	n := w.unknown(t, "host-1")
	testkit.Eventually(t, patience, func() (bool, string) { return len(w.calls(t, "host-1", call.powersOff)) > 0, "its power is not taken" })
	r, err := w.Recovery(t.Context(), n)
	if err != nil || r.Unit == nil || r.Unit.Engine == nil {
		t.Fatalf("who fences? %+v, %v", r.Unit, err)
	}
	first := *r.Unit.Engine
	at := slices.IndexFunc(engines, func(p *testkit.Process) bool {
		return slices.ContainsFunc(p.Last(5000), func(line string) bool {
			return strings.Contains(line, "msg=claimed ") && strings.Contains(line, " engine="+first+" ")
		})
	})
	if at < 0 {
		t.Fatalf("%s is none of the engines that were started", first)
	}
	engines[at].Kill()
	if !w.powered(t, "host-1") || !strings.Contains(told(r.Message), "fencing host-1: ") {
		t.Fatalf("this was to happen in the middle of fencing: %s", told(r.Message))
	}
	goOn(engines[at])
	w.eventually(t, n, func(r wire.Recovery) bool { return r.Unit != nil && r.Unit.Engine != nil && *r.Unit.Engine != first })
	r = w.recovered(t, "host-1", n, "fenced")
	off, orders := w.calls(t, "host-1", call.powersOff), w.calls(t, "host-1", call.evacuates)
	if len(orders) != instances || off[0].N > orders[0].N {
		t.Errorf("power taken by %+v, then %+v", off, orders)
	}
	if got := sights(r); !strings.HasSuffix(got, "redfish:off redfish:off") {
		t.Errorf("sights %q", got)
	}
}
