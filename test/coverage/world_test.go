package coverage

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/testkit"
	"github.com/salvor-ha/salvor/internal/wire"

	_ "modernc.org/sqlite"
)

// patience bounds every wait for a state: the machine may be busy.
const patience = 60 * time.Second

// world is a simulated cloud, five times as fast as a true one, whose hosts hold three instances each, and salvor before it.
type world struct {
	t       *testing.T
	sim     string
	file    string // the database
	environ []string
	rack    string // the segment's uuid
	*client.Client
}

// open starts both, with four registered hosts in a segment; a fifth is in none.
func open(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, file: filepath.Join(dir, "salvor.sqlite")}
	w.sim = testkit.Start(t, "sim", "sim", "--listen", "127.0.0.1:0", "--hosts", "5", "--instances", "0", "--capacity", "3", "--scale", "0.2").URL(t)
	conf := filepath.Join(dir, "masakari.conf")
	text := strings.NewReplacer("SIM", w.sim, "FILE", w.file).Replace(`[DEFAULT]
os_privileged_user_auth_url = SIM/v3
os_privileged_user_name = masakari
os_privileged_user_password = secret
os_privileged_user_tenant = service

[database]
connection = sqlite:///FILE

[host_failure]
evacuate_all_instances = false

[keystone_authtoken]
auth_url = SIM/v3
username = masakari
password = secret
project_name = service
user_domain_name = Default
project_domain_name = Default

[salvor]
nova_report_interval = 1
doctor_interval = 0
`)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	api := testkit.Start(t, "salvor", "serve", "--config-file", conf, "--listen", "127.0.0.1:0").URL(t)
	w.environ = append(os.Environ(), "OS_AUTH_URL="+w.sim+"/v3", "OS_USERNAME=admin", "OS_PASSWORD=secret", "OS_PROJECT_NAME=admin",
		"OS_USER_DOMAIN_NAME=Default", "OS_PROJECT_DOMAIN_NAME=Default", "SALVOR_URL="+api)
	login, _ := client.LoginFrom(w.environ)
	var err error
	checked := &http.Client{Transport: testkit.Document(t).Transport(t, http.DefaultTransport), Timeout: patience}
	if w.Client, err = client.New(client.Config{URL: api, HTTP: checked, Auth: client.NewKeystone(login)}); err != nil {
		t.Fatal(err)
	}
	segment, err := w.CreateSegment(t.Context(), client.NewSegment{Name: "rack", ServiceType: "COMPUTE", RecoveryMethod: "auto"})
	if err != nil {
		t.Fatal(err)
	}
	w.rack = segment.UUID
	for _, host := range []string{"host-1", "host-2", "host-3", "host-4"} {
		if _, err := w.CreateHost(t.Context(), segment.UUID, client.NewHost{Name: host, Type: "COMPUTE", ControlAttributes: "SSH"}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// run runs a command as an operator at a shell does, and returns its exit code and what it printed.
func (w *world) run(args ...string) (int, string) {
	w.t.Helper()
	return testkit.Run(w.t, patience, w.environ, args...)
}

func (w *world) mustRun(args ...string) string {
	w.t.Helper()
	code, out := w.run(args...)
	if code != 0 {
		w.t.Fatalf("salvor %v: exit code %d\n%s", args, code, out)
	}
	return out
}

// add puts an instance on a host.
func (w *world) add(host, name string, body map[string]any) {
	w.t.Helper()
	all := map[string]any{"host": host, "name": name, "count": 1, "metadata": map[string]any{"HA_Enabled": "True"}}
	for k, v := range body {
		all[k] = v
	}
	testkit.Must(w.t, 200, "POST", w.sim+"/sim/instances", all)
}

// coverage is what the command says of a host, with its exit status.
func (w *world) coverage(args ...string) (int, []wire.HostCoverage) {
	w.t.Helper()
	code, out := w.run(append([]string{"coverage", "-o", "json"}, args...)...)
	var hosts []wire.HostCoverage
	if err := json.Unmarshal([]byte(out), &hosts); err != nil {
		w.t.Fatalf("salvor coverage %v: exit code %d, %v\n%s", args, code, err, out)
	}
	return code, hosts
}

// told is a host's coverage in a few lines: what is in its way, then each instance.
func told(hosts []wire.HostCoverage, host string) []string {
	var lines []string
	for _, h := range hosts {
		if h.Name != host {
			continue
		}
		lines = append(lines, h.State)
		for _, b := range h.Blocks {
			lines = append(lines, b.Rule)
		}
		var instances []string
		for _, i := range h.Instances {
			switch {
			case i.Protected && i.Target != nil:
				instances = append(instances, i.Name+" by "+*i.Method)
			case i.Reason != nil:
				instances = append(instances, fmt.Sprintf("%s %s, wanted %v", i.Name, i.Reason.Rule, i.Wanted))
			}
		}
		slices.Sort(instances)
		lines = append(lines, instances...)
	}
	return lines
}

// instance is what a host's coverage says of one.
func instance(t *testing.T, hosts []wire.HostCoverage, name string) wire.InstanceCoverage {
	t.Helper()
	for _, h := range hosts {
		for _, i := range h.Instances {
			if i.Name == name {
				return i
			}
		}
	}
	t.Fatalf("no instance %s in %+v", name, hosts)
	return wire.InstanceCoverage{}
}

// sql changes the rows behind salvor's back.
func (w *world) sql(statement string, args ...any) {
	w.t.Helper()
	db := w.rows()
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(w.t.Context(), statement, args...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) rows() *sql.DB {
	w.t.Helper()
	db, err := sql.Open("sqlite", "file:"+w.file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		w.t.Fatal(err)
	}
	return db
}

// dump is every row of every table but the engines', which beat.
func (w *world) dump() string {
	w.t.Helper()
	db := w.rows()
	defer func() { _ = db.Close() }()
	names := w.query(db, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
	var b strings.Builder
	for _, name := range names {
		if name = strings.TrimSpace(name); name == "engines" || strings.HasPrefix(name, "sqlite_") {
			continue
		}
		fmt.Fprintf(&b, "%s\n%s\n", name, strings.Join(w.query(db, "SELECT * FROM "+name), "\n"))
	}
	if !strings.Contains(b.String(), "host-1") {
		w.t.Fatalf("a dump without the hosts:\n%s", b.String())
	}
	return b.String()
}

func (w *world) query(db *sql.DB, text string) []string {
	w.t.Helper()
	rows, err := db.QueryContext(w.t.Context(), text)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		w.t.Fatal(err)
	}
	var lines []string
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			w.t.Fatal(err)
		}
		lines = append(lines, strings.Trim(fmt.Sprint(values), "[]"))
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

// cloud is what is true in the simulated cloud, but for the time and the heartbeats.
func (w *world) cloud() string {
	w.t.Helper()
	s := testkit.Must(w.t, 200, "GET", w.sim+"/sim/state", nil)
	delete(s, "now")
	for _, service := range s["services"].([]any) {
		delete(service.(map[string]any), "updated_at")
	}
	text, err := json.Marshal(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// changes are the calls since one that were to change something, and the number of the last.
func (w *world) changes(since int64) (found []string, last int64) {
	w.t.Helper()
	answer := testkit.Must(w.t, 200, "GET", fmt.Sprintf("%s/sim/calls?since=%d", w.sim, since), nil)
	for _, c := range answer["calls"].([]any) {
		call := c.(map[string]any)
		if path := fmt.Sprint(call["path"]); call["method"] != "GET" && !strings.Contains(path, "/auth/tokens") {
			found = append(found, fmt.Sprint(call["method"], " ", path))
		}
	}
	return found, int64(answer["last"].(float64))
}
