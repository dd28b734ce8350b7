package storage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// evacuation is a cascade whose instances are evacuated, with a true agent on host-1.
type evacuation struct {
	*cascade
	store string // where host-1 keeps its instances
}

const evacuated = 5 // instances of host-1

// powerOf is a fencing file with the simulator's BMCs.
const powerOf = `
defaults: {deadline: 3s, pause: 0.1s}
hosts:
  "*": [{kind: redfish, address: SIM, system: "{host}", insecure: true, user: admin, password: secret}]
`

// newEvacuation starts everything; fencing is the fencing file, "" for none.
func newEvacuation(t *testing.T, fencing string) *evacuation {
	t.Helper()
	file, extra := filepath.Join(t.TempDir(), "fencing.yaml"), []string{}
	if fencing != "" {
		extra = append(extra, "fencing_file = "+file, "fencing_rehearsal_interval = 0")
	}
	cluster := testkit.NewCluster(t, testkit.MariaDB(t), 4, extra...)
	if fencing != "" {
		write(t, file, strings.ReplaceAll(fencing, "SIM", cluster.Sim), 0o600)
	}
	e := &evacuation{cascade: startCascade(t, cluster), store: filepath.Join(t.TempDir(), "instances")}
	var list struct{ Segments []struct{ UUID string } }
	into(t, testkit.Must(t, 200, "GET", e.api+"/v1/segments", nil), &list)
	testkit.Must(t, 204, "POST", e.api+"/v1/ext/segments/"+list.Segments[0].UUID+"/storage-failure-action", map[string]any{"action": "evacuate"})
	e.instances("host-1", evacuated)
	e.instances("host-2", 2)
	if err := os.Mkdir(e.store, 0o700); err != nil {
		t.Fatal(err)
	}
	conf := agentConf(t, e.api, "host-1", "resource = instances:"+e.store+":instance")
	answer := testkit.Must(t, 201, "POST", e.api+"/v1/ext/hosts/host-1/agent-key", nil)
	write(t, filepath.Join(filepath.Dir(conf), "key"), answer["agent_key"].(map[string]any)["key"].(string)+"\n", 0o600)
	startAgent(t, "host-1", conf)
	e.health("ok")
	return e
}

// health waits until host-1 is so, and its disk was looked at: one that was never well is not reported.
func (e *evacuation) health(want string) {
	e.t.Helper()
	testkit.Eventually(e.t, patience, func() (bool, string) {
		var h struct {
			Health struct {
				State  string
				Checks []any
			}
		}
		into(e.t, testkit.Must(e.t, 200, "GET", e.api+"/v1/ext/hosts/host-1/health", nil), &h)
		return h.Health.State == want && len(h.Health.Checks) > 0, fmt.Sprintf("host-1 is %s, %d checks", h.Health.State, len(h.Health.Checks))
	})
}

// dies takes the instance store of host-1 away.
func (e *evacuation) dies() {
	e.t.Helper()
	if err := os.Rename(e.store, e.store+".gone"); err != nil {
		e.t.Fatal(err)
	}
	e.health("error")
}

// truth is what is true in the cloud.
type truth struct {
	Hosts []struct {
		Name    string
		Powered bool
	}
	Instances []struct {
		ID, Host    string
		VMState     string `json:"vm_state"`
		Evacuations int
		RunningOn   []string `json:"running_on"`
	}
	DoubleRuns   []any `json:"double_runs"`
	DoubleOrders []any `json:"double_orders"`
}

func (e *evacuation) truth() (s truth) {
	e.t.Helper()
	into(e.t, testkit.Must(e.t, 200, "GET", e.Sim+"/sim/state", nil), &s)
	return s
}

func (s truth) powered(host string) bool {
	for _, h := range s.Hosts {
		if h.Name == host {
			return h.Powered
		}
	}
	return false
}

// order is a call that reached the cloud.
type order struct {
	N            int64
	Method, Path string
	Action, Host string
}

// orders are those that take power, and those that evacuate.
func (e *evacuation) orders() (off, moves []order) {
	e.t.Helper()
	var all struct{ Calls []order }
	into(e.t, testkit.Must(e.t, 200, "GET", e.Sim+"/sim/calls", nil), &all)
	for _, c := range all.Calls {
		switch {
		case c.Action == "evacuate":
			moves = append(moves, c)
		case c.Method == "POST" && strings.HasSuffix(c.Path, "/Actions/ComputerSystem.Reset"):
			off = append(off, c)
		}
	}
	return off, moves
}

// waits waits until the run over the instances of host-1 names this.
func (e *evacuation) waits(words string) {
	e.t.Helper()
	testkit.Eventually(e.t, patience, func() (bool, string) {
		var all struct {
			Episode struct {
				Runs []struct{ Kind, State, Why string }
			}
		}
		into(e.t, testkit.Must(e.t, 200, "GET", e.api+"/v1/ext/episodes/"+e.episode("host-1").UUID, nil), &all)
		for _, r := range all.Episode.Runs {
			if r.Kind == "instance" && strings.Contains(r.Why, words) && r.State != "done" {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%+v, want %q", all.Episode.Runs, words)
	})
}

// moved waits until the instances of host-1 were evacuated, and checks that each was by one order, and that the report of the host's death was one.
func (e *evacuation) moved(confirmed string) {
	e.t.Helper()
	testkit.Eventually(e.t, patience, func() (bool, string) {
		var list struct {
			Notifications []struct {
				UUID    string `json:"notification_uuid"`
				Status  string
				Payload map[string]any
			}
		}
		into(e.t, testkit.Must(e.t, 200, "GET", e.api+"/v1/notifications", nil), &list)
		if n := list.Notifications; len(n) != 1 || n[0].Status != "finished" || !strings.Contains(fmt.Sprint(n[0].Payload), confirmed) {
			return false, fmt.Sprintf("notifications: %+v", n)
		}
		return true, ""
	})
	s := e.truth()
	seen := 0
	for _, i := range s.Instances {
		if i.Evacuations == 0 {
			if i.Host != "host-2" || i.VMState != "active" {
				e.t.Errorf("instance %+v", i)
			}
			continue
		}
		seen++
		if i.Host == "host-1" || i.VMState != "active" || i.Evacuations != 1 || len(i.RunningOn) != 1 || i.RunningOn[0] != i.Host {
			e.t.Errorf("instance %+v", i)
		}
	}
	if seen != evacuated || len(s.DoubleRuns)+len(s.DoubleOrders) > 0 {
		e.t.Errorf("%d instances were evacuated; double runs %v, double orders %v", seen, s.DoubleRuns, s.DoubleOrders)
	}
	if s.powered("host-1") {
		e.t.Error("host-1 has power")
	}
	if n := e.resets(); len(n) > 0 {
		e.t.Errorf("set to error: %v", n)
	}
	if _, moves := e.orders(); len(moves) != evacuated {
		e.t.Errorf("orders: %+v", moves)
	}
}

// untouched checks that nothing was done to host-1 and its instances.
func (e *evacuation) untouched() {
	e.t.Helper()
	s := e.truth()
	for _, i := range s.Instances {
		if i.Evacuations != 0 || i.VMState != "active" {
			e.t.Errorf("instance %+v", i)
		}
	}
	if _, moves := e.orders(); len(moves) > 0 || !s.powered("host-1") {
		e.t.Errorf("orders %+v; host-1 has power: %t", moves, s.powered("host-1"))
	}
}

// confirms pulls the cord of host-1, and says so.
func (e *evacuation) confirms() {
	e.t.Helper()
	testkit.Must(e.t, 200, "POST", e.Sim+"/sim/hosts/host-1/kill", nil)
	testkit.Must(e.t, 202, "POST", e.api+"/v1/ext/hosts/host-1/confirm-off", map[string]any{"reason": "pulled the cord"})
}

// TestStorageDiesHostIsFencedAndEvacuated: with storage_failure_action = evacuate the host of a dead store is powered off and seen off, then
// each of its instances is evacuated once, and both the episode and the recovery say so.
func TestStorageDiesHostIsFencedAndEvacuated(t *testing.T) {
	t.Parallel()
	e := newEvacuation(t, powerOf)
	e.dies()
	e.moved("salvor: fenced for its storage")
	off, moves := e.orders()
	if len(off) != 1 || off[0].N > moves[0].N {
		t.Errorf("power was taken by %+v, the first order was %+v", off, moves[0])
	}
	ep := e.done("host-1")
	if len(ep.Items) != evacuated {
		t.Errorf("%d items", len(ep.Items))
	}
	for _, i := range ep.Items {
		if i.State != "done" || !strings.Contains(i.Text, "the host was seen off, and its recovery moves it") {
			t.Errorf("item %+v", i)
		}
	}
}

// TestStorageDiesNothingCanFence: what is to be fenced and cannot be is not evacuated; the episode says what it waits for, and an operator's
// word that the host is off lets it go on.
func TestStorageDiesNothingCanFence(t *testing.T) {
	t.Parallel()
	t.Run("no fencing is configured", func(t *testing.T) {
		t.Parallel()
		e := newEvacuation(t, "")
		e.dies()
		e.waits("storage_failure_action is evacuate, which needs fencing, and none is configured for host-1")
		e.untouched()
		e.confirms()
		e.moved("pulled the cord")
		e.done("host-1")
	})
	t.Run("the BMC does not answer", func(t *testing.T) {
		t.Parallel()
		e := newEvacuation(t, powerOf)
		testkit.Must(t, 204, "POST", e.Sim+"/sim/hosts/host-1/bmc", map[string]any{"dark": true})
		e.dies()
		e.waits("host-1 could not be fenced, and is tried again: ")
		e.untouched()
		e.confirms()
		e.moved("pulled the cord")
		e.done("host-1")
	})
}
