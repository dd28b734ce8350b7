package chaos

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// instances are those of a host that dies, of three kinds: what is wanted of each afterwards is another thing.
const (
	instances  = 20
	wereError  = 2 // arrive active, are stopped and set to error again
	werePaused = 1 // are set to error first, and are stopped afterwards
)

// orderInDoubt is short here: no proxy holds an order back. An instance whose order got no answer waits for so long.
const orderInDoubt = 4

// world is a simulated cloud whose hosts die one after another, each in a segment of its own, with an api and engines that
// each have a gate to the cloud.
type world struct {
	*testkit.Cluster
	t     *testing.T // whose end is the world's
	api   string
	hosts []string // that may die

	mu      sync.Mutex
	engines []*worker
	started int
}

// worker is an engine process.
type worker struct {
	*testkit.Process
	name string
	gate *gate
	gone bool
}

// newWorld starts a cloud with hosts that may die and three that live on, an api, and two engines.
func newWorld(t *testing.T, database string, hosts int, extra ...string) *world {
	t.Helper()
	extra = append([]string{fmt.Sprintf("order_in_doubt = %d", orderInDoubt)}, extra...)
	w := &world{t: t, Cluster: testkit.NewCluster(t, database, hosts+3, extra...)}
	for i := range hosts {
		w.hosts = append(w.hosts, fmt.Sprintf("host-%d", i+1))
	}
	_, w.api = w.API("api")
	for range 2 {
		w.engine()
	}
	return w
}

// engine starts one more.
func (w *world) engine() *worker {
	w.t.Helper()
	e := &worker{gate: newGate(w.t, w.Sim)}
	w.mu.Lock()
	w.started++
	n := w.started
	w.mu.Unlock()
	e.Process, e.name = w.Variant(w.t, w.Sim, e.gate.URL).Engine(fmt.Sprintf("engine-%d", n))
	w.mu.Lock()
	w.engines = append(w.engines, e)
	w.mu.Unlock()
	return e
}

// working are the engines that were not ended.
func (w *world) working() []*worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*worker
	for _, e := range w.engines {
		if !e.gone {
			all = append(all, e)
		}
	}
	return all
}

func (w *world) ended(e *worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.gone = true
}

// hook sets what all gates ask; each is told which engine the call is of.
func (w *world) hook(f func(*worker, call) bool) {
	for _, e := range w.working() {
		if f == nil {
			e.gate.set(nil)
			continue
		}
		e.gate.set(func(c call) bool { return f(e, c) })
	}
}

// death is a host's death, reported.
type death struct {
	host, uuid string
	note       string
	ids        map[string]string // instance -> vm_state that it had
	at         time.Time
}

// doom gives the hosts that may die instances, and kills them. It returns once Nova sees them down: nothing else is waited for
// when one is reported.
func (w *world) doom(t *testing.T) []*death {
	t.Helper()
	var all []*death
	for _, host := range w.hosts {
		d := &death{host: host, ids: map[string]string{}}
		d.uuid = testkit.Register(t, w.api, "auto", d.host)[d.host]
		for state, n := range map[string]int{"active": instances - wereError - werePaused, "error": wereError, "paused": werePaused} {
			answer := testkit.Must(t, 200, "POST", w.Sim+"/sim/instances", map[string]any{
				"host": d.host, "count": n, "vm_state": state, "metadata": map[string]any{"HA_Enabled": "True"}})
			for _, id := range answer["ids"].([]any) {
				d.ids[id.(string)] = state
			}
		}
		testkit.Must(t, 200, "POST", w.Sim+"/sim/hosts/"+d.host+"/kill", nil)
		all = append(all, d)
	}
	testkit.Eventually(t, 40*time.Second, func() (bool, string) {
		for _, d := range all {
			if w.service(t, d.host)["state"] != "down" {
				return false, "Nova still calls " + d.host + " up"
			}
		}
		return true, ""
	})
	return all
}

// report tells salvor.
func (w *world) report(t *testing.T, d *death) {
	t.Helper()
	d.at = time.Now()
	answer := testkit.Must(t, 202, "POST", w.api+"/v1/notifications", testkit.HostDown(d.host, d.at))
	d.note = answer["notification"].(map[string]any)["notification_uuid"].(string)
}

func (w *world) state(t *testing.T) map[string]any {
	t.Helper()
	return testkit.Must(t, 200, "GET", w.Sim+"/sim/state", nil)
}

func (w *world) service(t *testing.T, host string) map[string]any {
	t.Helper()
	for _, s := range w.state(t)["services"].([]any) {
		if v := s.(map[string]any); v["host"] == host && v["binary"] == "nova-compute" {
			return v
		}
	}
	t.Fatalf("no compute service on %s", host)
	return nil
}

// finished waits for the recovery's end and checks what an operator would: finished, each instance moved by one order, as it
// was before, none locked.
func (w *world) finished(t *testing.T, d *death, within time.Duration) {
	t.Helper()
	began := time.Now()
	testkit.Eventually(t, within, func() (bool, string) {
		status, answer, err := testkit.TryCall("GET", w.api+"/v1/notifications/"+d.note, nil)
		if err != nil || status != 200 {
			return false, fmt.Sprintf("%d %v %v", status, answer, err)
		}
		n := answer["notification"].(map[string]any)
		return n["status"] == "finished", fmt.Sprintf("notification %v: %v", n["status"], n["message"])
	})
	t.Logf("finished after %s", time.Since(began).Round(10*time.Millisecond))
	w.moved(t, d)
}

// story tells a failed test what happened in the recovery.
func (w *world) story(t *testing.T, d *death) {
	t.Helper()
	if !t.Failed() || d.note == "" {
		return
	}
	_, answer, err := testkit.TryCall("GET", w.api+"/v1/ext/recoveries/"+d.note, nil)
	if err != nil {
		t.Logf("no story: %v", err)
		return
	}
	r, _ := answer["recovery"].(map[string]any)
	t.Logf("%v: %v, %v", r["status"], r["message"], r["unit"])
	lines, _ := r["timeline"].([]any)
	for _, l := range lines[max(0, len(lines)-30):] {
		v := l.(map[string]any)
		t.Logf("%v %v %v %v %v %v %v", v["at"], v["kind"], v["act"], v["instance_uuid"], v["state"], v["text"], v["open"])
	}
}

// moved checks a death's instances in the cloud.
func (w *world) moved(t *testing.T, d *death) {
	t.Helper()
	afterwards := map[string]string{"active": "active", "error": "error", "paused": "stopped"}
	state := w.state(t)
	seen := 0
	for _, i := range state["instances"].([]any) {
		v := i.(map[string]any)
		was, ours := d.ids[v["id"].(string)]
		if !ours {
			continue
		}
		seen++
		if v["host"] == d.host || v["vm_state"] != afterwards[was] || v["locked"] != false || v["evacuations"].(float64) != 1 || v["wrecks"].(float64) != 0 {
			t.Errorf("instance %v, which was %s: on %v, %v, locked %v, %v orders, wrecked %v times",
				v["name"], was, v["host"], v["vm_state"], v["locked"], v["evacuations"], v["wrecks"])
		}
	}
	if seen != len(d.ids) {
		t.Errorf("%d of %d instances are left", seen, len(d.ids))
	}
	for _, wrong := range []string{"double_orders", "double_runs"} {
		if list := state[wrong].([]any); len(list) > 0 {
			t.Errorf("%s: %v", wrong, list)
		}
	}
}

// back lets the host return, and waits until forced_down is taken back (RECOVERY section 7).
func (w *world) back(t *testing.T, d *death) {
	t.Helper()
	w.returns(t, d)
	w.takenBack(t, d)
}

func (w *world) returns(t *testing.T, d *death) {
	t.Helper()
	testkit.Must(t, 200, "POST", w.Sim+"/sim/hosts/"+d.host+"/revive", nil)
	started := testkit.HostDown(d.host, time.Now())
	started["notification"].(map[string]any)["payload"] = map[string]any{"event": "STARTED", "cluster_status": "ONLINE", "host_status": "NORMAL"}
	testkit.Must(t, 202, "POST", w.api+"/v1/notifications", started)
}

func (w *world) takenBack(t *testing.T, d *death) {
	t.Helper()
	began := time.Now()
	defer func() { t.Logf("taken back after %s", time.Since(began).Round(10*time.Millisecond)) }()
	testkit.Eventually(t, 90*time.Second, func() (bool, string) {
		s := w.service(t, d.host)
		return s["forced_down"] == false, fmt.Sprintf("service %v", s)
	})
}

var stamp = regexp.MustCompile(`^time=(\S+)`)

// takenOver waits until an engine other than the victim claims the unit of work, and returns when it did, by its own log.
func (w *world) takenOver(t *testing.T, unit string, victim *worker, after time.Time) time.Time {
	t.Helper()
	var at time.Time
	testkit.Eventually(t, 40*time.Second, func() (bool, string) {
		for _, e := range w.working() {
			if e == victim {
				continue
			}
			for _, line := range e.Last(400) {
				if !strings.Contains(line, "msg=claimed ") || !strings.Contains(line, "unit="+unit+" ") {
					continue
				}
				m := stamp.FindStringSubmatch(line)
				if m == nil {
					continue
				}
				var err error
				if at, err = time.Parse(time.RFC3339Nano, m[1]); err == nil && at.After(after) {
					return true, ""
				}
			}
		}
		return false, "nobody has claimed " + unit
	})
	return at
}
