package storage

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/testkit"
	"github.com/salvor-ha/salvor/internal/wire"
)

// desk takes agents' reports and gives orders, where a test is about agents alone.
type desk struct {
	*httptest.Server

	mu      sync.Mutex
	reports map[string][]wire.AgentReport // by host
	orders  map[string][]wire.AgentOrder
	away    bool
	keys    []string // that were shown
}

var agentPath = regexp.MustCompile(`^/v1/ext/agents/([^/]+)/(report|orders)$`)

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{reports: map[string][]wire.AgentReport{}, orders: map[string][]wire.AgentOrder{}}
	d.Server = httptest.NewServer(d)
	t.Cleanup(d.Close)
	return d
}

func hostUUID(host string) string {
	return fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012x", []byte(host)[len(host)-2:])
}

func hostKey(host string) []byte { return []byte("key of " + host) }

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := agentPath.FindStringSubmatch(r.URL.Path)
	if m == nil || d.away {
		http.Error(w, `{"message": "away", "code": "503"}`, http.StatusServiceUnavailable)
		return
	}
	d.keys = append(d.keys, r.Header.Get(wire.AgentKeyHeader))
	host := m[1]
	var answer any = wire.NewOrders(d.orders[host])
	if m[2] == "report" {
		raw, _ := io.ReadAll(r.Body)
		body, err := wire.ParseBody(raw)
		var report wire.AgentReport
		if err == nil {
			report, err = body.AgentReport()
		}
		if err != nil {
			http.Error(w, `{"badRequest": {"code": 400, "message": `+fmt.Sprintf("%q", err)+`}}`, http.StatusBadRequest)
			return
		}
		d.reports[host] = append(d.reports[host], report)
		answer = wire.AgentAnswerBody{Report: wire.AgentAnswer{Host: hostUUID(host), Health: "ok", TicketKey: hex.EncodeToString(hostKey(host)),
			Orders: append([]wire.AgentOrder{}, d.orders[host]...), Version: wire.OrdersVersion(d.orders[host])}}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (d *desk) order(host string, orders ...wire.AgentOrder) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.orders[host] = orders
}

// await waits for a report of a host that satisfies is.
func (d *desk) await(t *testing.T, host, what string, is func(wire.AgentReport) bool) wire.AgentReport {
	t.Helper()
	seen := 0
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		d.mu.Lock()
		reports := d.reports[host]
		d.mu.Unlock()
		for ; seen < len(reports); seen++ {
			if is(reports[seen]) {
				d.mu.Lock()
				d.reports[host] = d.reports[host][seen:]
				d.mu.Unlock()
				return reports[seen]
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	last := d.reports[host][max(0, len(d.reports[host])-3):]
	t.Fatalf("%s was not reported by %s within %s; the last reports: %+v", what, host, patience, last)
	return wire.AgentReport{}
}

// status waits until a resource is reported so.
func (d *desk) status(t *testing.T, host, resource string, want ha.CheckStatus) wire.AgentResource {
	t.Helper()
	return d.statusAfter(t, host, resource, want, time.Time{})
}

// statusAfter waits until a resource is reported so by a probe that ended after that time.
func (d *desk) statusAfter(t *testing.T, host, resource string, want ha.CheckStatus, after time.Time) wire.AgentResource {
	t.Helper()
	var found wire.AgentResource
	d.await(t, host, resource+" "+string(want), func(r wire.AgentReport) bool {
		for _, s := range r.Resources {
			if s.Name == resource && s.Status == string(want) && s.CheckedAt.After(after) {
				found = s
				return true
			}
		}
		return false
	})
	return found
}

// ended waits for the end of an order.
func (d *desk) ended(t *testing.T, host, id string) wire.AgentTransfer {
	t.Helper()
	var end wire.AgentTransfer
	d.await(t, host, "the end of order "+id, func(r wire.AgentReport) bool {
		for _, tr := range r.Transfers {
			if tr.ID == id && tr.State != "running" {
				end = tr
				return true
			}
		}
		return false
	})
	return end
}

// agentConf writes an agent's configuration, quick as tests are, and its key; it returns the file. Only a probe's deadline is long: on a busy
// machine a short one makes a failure of a disk that is well.
func agentConf(t *testing.T, api, host string, lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	write(t, key, "secret-of-"+host+"\n", 0o600)
	conf := append([]string{
		"[agent]", "host = " + host, "api_url = " + api, "key_file = " + key, "state_directory = " + filepath.Join(dir, "state"),
		"probe_interval = 0.3", "write_interval = 0.6", "probe_timeout = 60", "report_interval = 1",
	}, lines...)
	file := filepath.Join(dir, "agent.conf")
	write(t, file, strings.Join(conf, "\n")+"\n", 0o600)
	return file
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func startAgent(t *testing.T, host, conf string) *testkit.Process {
	t.Helper()
	return testkit.Start(t, host, "agent", "--config-file", conf)
}

// health is what an agent's health check says.
func health(t *testing.T, url string) (status string, fetched int64) {
	t.Helper()
	client := &http.Client{Timeout: patience}
	resp, err := client.Get(url + "/healthcheck")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var h struct {
		Status  string `json:"status"`
		Fetched int64  `json:"fetched_bytes"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&h); err != nil {
		t.Fatal(err)
	}
	return h.Status, h.Fetched
}
