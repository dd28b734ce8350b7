package galera

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

var shared struct {
	once    sync.Once
	cluster *testkit.Galera
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if c := shared.cluster; c != nil {
		if err := c.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// cluster is the one that all tests of this package share; each begins with all nodes in it. It takes some seconds to start.
func cluster(t *testing.T) *testkit.Galera {
	t.Helper()
	shared.once.Do(func() {
		began := time.Now()
		shared.cluster, shared.err = testkit.NewGalera()
		t.Logf("the cluster started in %s", time.Since(began).Round(100*time.Millisecond))
	})
	switch {
	case testkit.HasNone(shared.err):
		t.Skipf("SKIPPED: no Galera cluster can be had here: %v", shared.err)
	case shared.err != nil:
		t.Fatal(shared.err)
	}
	for _, n := range shared.cluster.Nodes {
		n.Synced(t, 60*time.Second)
	}
	return shared.cluster
}

// number is an environment variable's, or otherwise.
func number(t *testing.T, name string, otherwise float64) float64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatalf("%s=%s: a number is wanted", name, text)
	}
	return n
}

// scene is a simulated cloud and salvor over a database of the cluster; each process has another node first in its URL.
type scene struct {
	*testkit.Cluster
	g        *testkit.Galera
	database string
	next     int // host that dies next
}

func newScene(t *testing.T, hosts int, extra ...string) *scene {
	t.Helper()
	g := cluster(t)
	s := &scene{g: g, database: g.Database(t)}
	s.Cluster = testkit.NewCluster(t, g.URL(s.database, 0), hosts, extra...)
	return s
}

// at is the scene as a process sees it whose URL begins with the i-th node.
func (s *scene) at(t *testing.T, i int) *testkit.Cluster {
	t.Helper()
	return s.Variant(t, s.g.URL(s.database, 0), s.g.URL(s.database, i))
}

// doom makes hosts with instances, each in a segment of its own, and kills them. It returns once Nova sees the last one down.
func (s *scene) doom(t *testing.T, api string, hosts, instances int) []string {
	t.Helper()
	var names []string
	for range hosts {
		s.next++
		name := fmt.Sprintf("host-%d", s.next)
		names = append(names, name)
		testkit.Register(t, api, "auto", name)
		testkit.Must(t, 200, "POST", s.Sim+"/sim/instances", map[string]any{"host": name, "count": instances, "metadata": map[string]any{"HA_Enabled": "True"}})
		testkit.Must(t, 200, "POST", s.Sim+"/sim/hosts/"+name+"/kill", nil)
	}
	testkit.Eventually(t, 40*time.Second, func() (bool, string) {
		up := map[string]bool{}
		for _, v := range testkit.Must(t, 200, "GET", s.Sim+"/sim/state", nil)["services"].([]any) {
			if svc := v.(map[string]any); svc["state"] == "up" {
				up[svc["host"].(string)] = true
			}
		}
		for _, n := range names {
			if up[n] {
				return false, "Nova still calls " + n + " up"
			}
		}
		return true, ""
	})
	return names
}

// report tells salvor of a death, for as long as the api says that it cannot be told now.
func report(t *testing.T, api, host string) (notification string) {
	t.Helper()
	body := testkit.HostDown(host, time.Now())
	testkit.Eventually(t, 60*time.Second, func() (bool, string) {
		status, answer, err := testkit.TryCall("POST", api+"/v1/notifications", body)
		if err != nil || status >= 500 {
			return false, fmt.Sprintf("%d %v %v", status, answer, err)
		}
		if status != 202 {
			t.Fatalf("the report of %s: %d %v", host, status, answer)
		}
		notification = answer["notification"].(map[string]any)["notification_uuid"].(string)
		return true, ""
	})
	return notification
}

// finished waits until each notification is.
func finished(t *testing.T, api string, within time.Duration, notifications ...string) {
	t.Helper()
	end := time.Now().Add(within)
	for _, n := range notifications {
		testkit.Eventually(t, max(time.Until(end), time.Second), func() (bool, string) {
			status, answer, err := testkit.TryCall("GET", api+"/v1/notifications/"+n, nil)
			if err != nil || status != 200 {
				return false, fmt.Sprintf("%d %v %v", status, answer, err)
			}
			v := answer["notification"].(map[string]any)
			return v["status"] == "finished", fmt.Sprintf("notification %v of %v: %v", v["status"], v["created_at"], v["message"])
		})
	}
}

// moved checks that each instance of the hosts that were reported was moved by one order, and is not locked; the others were
// left alone. It wants so many of the first kind.
func (s *scene) moved(t *testing.T, want int) {
	t.Helper()
	state := testkit.Must(t, 200, "GET", s.Sim+"/sim/state", nil)
	moved := 0
	for _, i := range state["instances"].([]any) {
		v := i.(map[string]any)
		switch v["evacuations"].(float64) {
		case 0:
			continue
		case 1:
			moved++
		}
		if v["vm_state"] != "active" || v["locked"] != false || v["evacuations"].(float64) != 1 || v["wrecks"].(float64) != 0 {
			t.Errorf("instance %v: on %v, %v, locked %v, %v orders, wrecked %v times",
				v["name"], v["host"], v["vm_state"], v["locked"], v["evacuations"], v["wrecks"])
		}
	}
	if moved != want {
		t.Errorf("%d instances were moved by one order, want %d", moved, want)
	}
	for _, wrong := range []string{"double_orders", "double_runs"} {
		if list := state[wrong].([]any); len(list) > 0 {
			t.Errorf("%s: %v", wrong, list)
		}
	}
}
