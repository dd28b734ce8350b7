package storage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// cascade is salvor over MariaDB and a simulated cloud; agents are played by the test.
type cascade struct {
	*testkit.Cluster
	t       *testing.T
	api     string
	process *testkit.Process // the api
	engines map[string]*testkit.Process
	hosts   map[string]string // name -> uuid
	seq     int
}

func newCascade(t *testing.T, extra ...string) *cascade {
	t.Helper()
	return startCascade(t, testkit.NewCluster(t, testkit.MariaDB(t), 4, extra...))
}

// startCascade starts salvor's processes.
func startCascade(t *testing.T, cluster *testkit.Cluster) *cascade {
	t.Helper()
	c := &cascade{Cluster: cluster, t: t, engines: map[string]*testkit.Process{}}
	c.process, c.api = c.API("api")
	for range 2 {
		c.engine()
	}
	c.hosts = testkit.Register(t, c.api, "auto", "host-1", "host-2", "host-3", "host-4")
	return c
}

// engine starts one more.
func (c *cascade) engine() {
	c.t.Helper()
	p, name := c.Engine(fmt.Sprint("engine-", len(c.engines)+1))
	c.engines[name] = p
}

// report is one of a host's agent: the statuses of its instance and blob stores.
func (c *cascade) report(host, instances, blobs string) map[string]any {
	c.seq++
	at := time.Now().UTC().Format("2006-01-02T15:04:05.000000")
	return map[string]any{"report": map[string]any{"epoch": 1, "seq": c.seq, "url": "", "resources": []map[string]any{
		{"name": "blobs", "path": "/srv/blobs", "kinds": []string{"blob"}, "status": blobs, "detail": "", "filesystem_id": host + "-b", "checked_at": at},
		{"name": "instances", "path": "/var/lib/nova/instances", "kinds": []string{"instance"}, "status": instances, "detail": "", "filesystem_id": host + "-i", "checked_at": at},
	}}}
}

func (c *cascade) says(host, instances, blobs string) {
	c.t.Helper()
	testkit.Must(c.t, 200, "POST", c.api+"/v1/ext/agents/"+host+"/report", c.report(host, instances, blobs))
}

func (c *cascade) instances(host string, n int) {
	c.t.Helper()
	testkit.Must(c.t, 200, "POST", c.Sim+"/sim/instances", map[string]any{"host": host, "count": n})
}

type episode struct {
	UUID  string
	State string
	Runs  []struct {
		Kind, State string
		Done        int
	}
	Items  []struct{ Kind, ID, State, Text string }
	Braked *string
}

func into(t *testing.T, from, to any) {
	t.Helper()
	raw, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(raw, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// episode is the host's open one.
func (c *cascade) episode(host string) (e episode) {
	c.t.Helper()
	var list struct{ Episodes []episode }
	into(c.t, testkit.Must(c.t, 200, "GET", c.api+"/v1/ext/episodes?open=true&host="+host, nil), &list)
	if len(list.Episodes) == 0 {
		return e
	}
	var one struct{ Episode episode }
	into(c.t, testkit.Must(c.t, 200, "GET", c.api+"/v1/ext/episodes/"+list.Episodes[0].UUID, nil), &one)
	return one.Episode
}

// done waits until all runs of the host's episode are.
func (c *cascade) done(host string) (e episode) {
	c.t.Helper()
	testkit.Eventually(c.t, patience, func() (bool, string) {
		e = c.episode(host)
		for _, r := range e.Runs {
			if r.State != "done" {
				return false, fmt.Sprintf("%+v, %d items", e.Runs, len(e.Items))
			}
		}
		return len(e.Runs) > 0, "no run"
	})
	return e
}

// cloud is what the simulator shows.
type cloud struct {
	Instances []struct {
		ID, Host string
		VMState  string `json:"vm_state"`
	}
	Services []struct {
		Binary, Host   string
		Status         string
		DisabledReason string `json:"disabled_reason"`
	}
}

func (c *cascade) cloud() (s cloud) {
	c.t.Helper()
	into(c.t, testkit.Must(c.t, 200, "GET", c.Sim+"/sim/state", nil), &s)
	return s
}

// resets counts the orders to set an instance to error, by instance.
func (c *cascade) resets() map[string]int {
	c.t.Helper()
	var all struct {
		Calls []struct {
			Action, Instance string
			Status           int
		}
	}
	into(c.t, testkit.Must(c.t, 200, "GET", c.Sim+"/sim/calls", nil), &all)
	n := map[string]int{}
	for _, call := range all.Calls {
		if call.Action == "os-resetState" {
			n[call.Instance]++
		}
	}
	return n
}

// killOwner kills the engine that holds a unit.
func (c *cascade) killOwner(key string) {
	c.t.Helper()
	testkit.Eventually(c.t, patience, func() (bool, string) {
		var all struct {
			Engines []struct {
				Name  string
				Units []string
			}
		}
		into(c.t, testkit.Must(c.t, 200, "GET", c.api+"/v1/ext/engines", nil), &all)
		for _, e := range all.Engines {
			for _, u := range e.Units {
				if u == key {
					c.engines[e.Name].Kill()
					return true, ""
				}
			}
		}
		return false, "nobody holds " + key
	})
}

// TestOperatorClears: cleared, the service is given back and what was set to error is active again, if that was asked; before the agent says
// that all is well it is refused.
func TestOperatorClears(t *testing.T) {
	t.Parallel()
	c := newCascade(t)
	c.instances("host-1", 3)
	c.says("host-1", "read_only", "ok")
	c.done("host-1")
	clear := c.api + "/v1/ext/hosts/host-1/health/clear"
	testkit.Must(t, 409, "POST", clear, map[string]any{"reset_instances": true})
	c.says("host-1", "ok", "ok")
	testkit.Must(t, 202, "POST", clear, map[string]any{"reset_instances": true, "reason": "new disk"})
	testkit.Eventually(t, patience, func() (bool, string) {
		s := c.cloud()
		for _, i := range s.Instances {
			if i.VMState != "active" {
				return false, "instance is " + i.VMState
			}
		}
		for _, svc := range s.Services {
			if svc.Binary == "nova-compute" && svc.Status != "enabled" {
				return false, svc.Host + " is " + svc.Status
			}
		}
		return true, ""
	})
}

// TestAnotherHostsReport: a key speaks for its own host and no other: 403, logged.
func TestAnotherHostsReport(t *testing.T) {
	t.Parallel()
	c := newCascade(t)
	key := func(host string) string {
		answer := testkit.Must(t, 201, "POST", c.api+"/v1/ext/hosts/"+host+"/agent-key", nil)
		return answer["agent_key"].(map[string]any)["key"].(string)
	}
	one, two := key("host-1"), key("host-2")
	old := one
	one = key("host-1")
	ask := func(host, key string) int {
		raw, err := json.Marshal(c.report(host, "ok", "ok"))
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), "POST", c.api+"/v1/ext/agents/"+host+"/report", bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Agent-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	for _, a := range []struct {
		host, key string
		want      int
	}{{"host-1", one, 200}, {"host-2", two, 200}, {"host-1", two, 403}, {"host-2", one, 403}, {"host-1", old, 403}, {"nobody", one, 403}, {"host-3", "x", 403}} {
		if got := ask(a.host, a.key); got != a.want {
			t.Errorf("a report of %s is answered with %d, want %d", a.host, got, a.want)
		}
	}
	c.process.Await(t, `who may not speak for a host was refused`, patience)
	var h struct{ Health struct{ State string } }
	into(t, testkit.Must(t, 200, "GET", c.api+"/v1/ext/hosts/host-3/health", nil), &h)
	if h.Health.State != "unknown" {
		t.Errorf("a refused report made host-3 %s", h.Health.State)
	}
}
