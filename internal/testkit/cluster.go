package testkit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Cluster is a simulated cloud and salvor processes over one database, all on loopback.
type Cluster struct {
	Sim  string // the simulator's URL
	Conf string // masakari.conf of every process
	// Program is the binary that is started; "": the one of this source.
	Program string
	tb      testing.TB
}

// NewCluster starts the simulator and makes the tables. extra are lines of group [salvor] of masakari.conf.
func NewCluster(tb testing.TB, database string, hosts int, extra ...string) *Cluster {
	tb.Helper()
	return NewClusterOf(tb, "", database, hosts, extra...)
}

// NewClusterOf is NewCluster with another binary for salvor's processes; the simulator is this source's.
func NewClusterOf(tb testing.TB, program, database string, hosts int, extra ...string) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, Program: program, Conf: filepath.Join(tb.TempDir(), "masakari.conf")}
	c.Sim = Start(tb, "sim", "sim", "--listen", "127.0.0.1:0", "--hosts", fmt.Sprint(hosts), "--instances", "0").URL(tb)
	conf := strings.NewReplacer("SIM", c.Sim, "DATABASE", database, "EXTRA", strings.Join(extra, "\n"), "STATE", tb.TempDir()).Replace(`[DEFAULT]
auth_strategy = noauth2
state_path = STATE
masakari_api_listen = 127.0.0.1
os_privileged_user_auth_url = SIM/v3
os_privileged_user_name = masakari
os_privileged_user_password = secret
os_privileged_user_tenant = service

[database]
connection = DATABASE

[salvor]
nova_report_interval = 2
doctor_interval = 0
EXTRA
`)
	if err := os.WriteFile(c.Conf, []byte(conf), 0o600); err != nil {
		tb.Fatal(err)
	}
	c.Run("db", "sync")
	return c
}

// Variant is the same cluster as processes with another masakari.conf see it: replace are pairs of old and new text.
func (c *Cluster) Variant(tb testing.TB, replace ...string) *Cluster {
	tb.Helper()
	conf, err := os.ReadFile(c.Conf)
	if err != nil {
		tb.Fatal(err)
	}
	v := *c
	v.Conf = filepath.Join(tb.TempDir(), "masakari.conf")
	if err := os.WriteFile(v.Conf, []byte(strings.NewReplacer(replace...).Replace(string(conf))), 0o600); err != nil {
		tb.Fatal(err)
	}
	return &v
}

// Run runs a command of the binary to its end, which must be a good one, and returns its output.
func (c *Cluster) Run(args ...string) string {
	c.tb.Helper()
	p := StartProgram(c.tb, c.Program, strings.Join(args, " "), append(args, "--config-file", c.Conf)...)
	select {
	case <-p.done:
	case <-time.After(patience):
		c.tb.Fatalf("salvor %v did not end", args)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		c.tb.Fatalf("salvor %v: exit code %d\n%s", args, code, strings.Join(p.Last(20), "\n"))
	}
	return strings.Join(p.Last(1000), "\n")
}

// API starts an api process and returns it with its URL.
func (c *Cluster) API(name string) (*Process, string) {
	c.tb.Helper()
	p := StartProgram(c.tb, c.Program, name, "api", "--config-file", c.Conf, "--listen", "127.0.0.1:0")
	url := p.URL(c.tb)
	return p, url
}

// Engine starts an engine process and waits until it is ready; its own name is returned.
func (c *Cluster) Engine(name string) (*Process, string) {
	c.tb.Helper()
	p := StartProgram(c.tb, c.Program, name, "engine", "--config-file", c.Conf)
	own := p.Await(c.tb, `engine (\S+) is running`, patience)
	return p, own
}

// Call sends a JSON request and returns the status and the decoded answer.
func Call(tb testing.TB, method, url string, body any) (int, map[string]any) {
	tb.Helper()
	status, answer, err := TryCall(method, url, body)
	if err != nil {
		tb.Fatalf("%s %s: %v", method, url, err)
	}
	return status, answer
}

// TryCall is Call for processes that may be dying.
func TryCall(method, url string, body any) (int, map[string]any, error) {
	var payload io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		payload = bytes.NewReader(b)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, payload)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("OpenStack-API-Version", "instance-ha 1.3")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, err
	}
	answer := map[string]any{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &answer); err != nil {
			return resp.StatusCode, nil, fmt.Errorf("not JSON: %s", raw)
		}
	}
	return resp.StatusCode, answer, nil
}

// Must is Call with a status that must come. It is asked again where the answer is that the database cannot be reached, as clients do: a disk
// that stands still for seconds makes it so.
func Must(tb testing.TB, want int, method, url string, body any) (answer map[string]any) {
	tb.Helper()
	Eventually(tb, patience, func() (bool, string) {
		var status int
		status, answer = Call(tb, method, url, body)
		said := fmt.Sprintf("%s %s: %d, want %d: %v", method, url, status, want, answer)
		away := status == 503 && strings.Contains(said, "cannot reach its database")
		if status != want && !away {
			tb.Fatal(said)
		}
		return status == want, said
	})
	return answer
}

// Register makes a segment with the hosts and returns the hosts' uuids by name.
func Register(tb testing.TB, api, method string, hosts ...string) map[string]string {
	tb.Helper()
	seg := Must(tb, 201, "POST", api+"/v1/segments", map[string]any{"segment": map[string]any{
		"name": "rack-" + fmt.Sprint(time.Now().UnixNano()), "recovery_method": method, "service_type": "COMPUTE"}})
	uuid := seg["segment"].(map[string]any)["uuid"].(string)
	ids := map[string]string{}
	for _, h := range hosts {
		answer := Must(tb, 201, "POST", api+"/v1/segments/"+uuid+"/hosts", map[string]any{"host": map[string]any{
			"name": h, "type": "COMPUTE", "control_attributes": "SSH"}})
		ids[h] = answer["host"].(map[string]any)["uuid"].(string)
	}
	return ids
}

// HostDown is the report of a host's death.
func HostDown(host string, at time.Time) map[string]any {
	return map[string]any{"notification": map[string]any{"type": "COMPUTE_HOST", "hostname": host,
		"generated_time": at.UTC().Format("2006-01-02T15:04:05.000000"),
		"payload":        map[string]any{"event": "STOPPED", "cluster_status": "OFFLINE", "host_status": "NORMAL"}}}
}

// Eventually polls until f says that it is so, and fails the test with what it said last when it does not come within the time.
func Eventually(tb testing.TB, within time.Duration, f func() (bool, string)) {
	tb.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		ok, said := f()
		if ok {
			return
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			tb.Fatalf("not within %s: %s", within, said)
		}
	}
}
