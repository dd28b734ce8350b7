package fencing

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/testkit"
	"github.com/salvor-ha/salvor/internal/wire"
)

// patience bounds every wait for a state: the machine may be busy.
const patience = 90 * time.Second

// instances are on each host that fails.
const instances = 4

// bmc is a fencing file with every host's BMC as the simulator has it.
const bmc = `
defaults: {deadline: 30s, pause: 0.1s}
hosts:
  "*": [{kind: redfish, address: SIM, system: "{host}", insecure: true, user: admin, password: secret}]
`

// world is a simulated cloud, five times as fast as a true one, and salvor before it. Heartbeats come so fast that a busy
// machine does not take a host that lives for a silent one.
type world struct {
	t       *testing.T
	sim     string
	conf    string
	api     string
	salvor  *testkit.Process
	environ []string // of an operator's shell
	*client.Client
}

// cloud starts a simulated one of so many hosts, and writes masakari.conf and the fencing file. extra are lines of group [salvor], the last.
func cloud(t *testing.T, database string, hosts int, fencing string, extra ...string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, conf: filepath.Join(dir, "masakari.conf")}
	w.sim = testkit.Start(t, "sim", "sim", "--listen", "127.0.0.1:0", "--hosts", fmt.Sprint(hosts), "--instances", "0", "--scale", "0.2").URL(t)
	if database == "" {
		database = "sqlite:///" + filepath.Join(dir, "salvor.sqlite")
	}
	fill := strings.NewReplacer("SIM", w.sim, "DIR", dir, "DATABASE", database, "EXTRA", strings.Join(extra, "\n"))
	for name, text := range map[string]string{"fencing.yaml": fencing, "masakari.conf": `[DEFAULT]
state_path = DIR
os_privileged_user_auth_url = SIM/v3
os_privileged_user_name = masakari
os_privileged_user_password = secret
os_privileged_user_tenant = service

[database]
connection = DATABASE

[keystone_authtoken]
auth_url = SIM/v3
username = masakari
password = secret
project_name = service
user_domain_name = Default
project_domain_name = Default

[salvor]
nova_report_interval = 1
fencing_file = DIR/fencing.yaml
fencing_rehearsal_interval = 0
doctor_interval = 0
EXTRA
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(fill.Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.HasPrefix(database, "sqlite:") {
		if code := testkit.Start(t, "db sync", "db", "sync", "--config-file", w.conf).Ended(t, patience); code != 0 {
			t.Fatalf("salvor db sync: exit code %d", code)
		}
	}
	return w
}

// open is cloud with a salvor.
func open(t *testing.T, hosts int, fencing string, extra ...string) *world {
	t.Helper()
	w := cloud(t, "", hosts, fencing, extra...)
	w.ask(w.serve("salvor"))
	return w
}

// serve starts a whole salvor.
func (w *world) serve(name string) *testkit.Process {
	w.t.Helper()
	return testkit.Start(w.t, name, "serve", "--config-file", w.conf, "--listen", "127.0.0.1:0")
}

// ask is whom operators and monitors talk to from now on.
func (w *world) ask(p *testkit.Process) {
	w.t.Helper()
	w.salvor, w.api = p, p.URL(w.t)
	w.environ = append(os.Environ(), "OS_AUTH_URL="+w.sim+"/v3", "OS_USERNAME=admin", "OS_PASSWORD=secret", "OS_PROJECT_NAME=admin",
		"OS_USER_DOMAIN_NAME=Default", "OS_PROJECT_DOMAIN_NAME=Default", "SALVOR_URL="+w.api)
	login, _ := client.LoginFrom(w.environ)
	var err error
	if w.Client, err = client.New(client.Config{URL: w.api, Auth: client.NewKeystone(login)}); err != nil {
		w.t.Fatal(err)
	}
}

// run runs a command as an operator at a shell does, and returns its exit code and what it printed.
func (w *world) run(args ...string) (int, string) {
	w.t.Helper()
	return testkit.Run(w.t, patience, w.environ, args...)
}

// mustRun is run of a command that must do well.
func (w *world) mustRun(args ...string) string {
	w.t.Helper()
	code, out := w.run(args...)
	if code != 0 {
		w.t.Fatalf("salvor %v: exit code %d\n%s", args, code, out)
	}
	return out
}

// register puts hosts into a segment of their own, and instances onto each.
func (w *world) register(t *testing.T, hosts ...string) {
	t.Helper()
	segment, err := w.CreateSegment(t.Context(), client.NewSegment{Name: "of-" + hosts[0], ServiceType: "COMPUTE", RecoveryMethod: "auto"})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range hosts {
		if _, err := w.CreateHost(t.Context(), segment.UUID, client.NewHost{Name: host, Type: "COMPUTE", ControlAttributes: "SSH"}); err != nil {
			t.Fatal(err)
		}
		testkit.Must(t, 200, "POST", w.sim+"/sim/instances", map[string]any{"host": host, "name": "of-" + host, "count": instances,
			"metadata": map[string]any{"HA_Enabled": "True"}})
	}
}

// do does something to a host: kill (its power), kill-compute, hang (it is cut off, and runs on).
func (w *world) do(t *testing.T, host, verb string) {
	t.Helper()
	testkit.Must(t, 200, "POST", w.sim+"/sim/hosts/"+host+"/"+verb, nil)
}

// silence cuts hosts off, and waits until Nova sees them down.
func (w *world) silence(t *testing.T, hosts ...string) {
	t.Helper()
	for _, host := range hosts {
		w.do(t, host, "hang")
	}
	w.allDown(t, hosts...)
}

// allDown waits until Nova sees hosts down: it evacuates nothing to them any more.
func (w *world) allDown(t *testing.T, hosts ...string) {
	t.Helper()
	testkit.Eventually(t, patience, func() (bool, string) {
		for _, s := range w.state(t).Services {
			if slices.Contains(hosts, s.Host) && s.State != "down" {
				return false, "Nova still calls " + s.Host + " up"
			}
		}
		return true, ""
	})
}

// bmc makes a host's BMC misbehave, or well again.
func (w *world) bmc(t *testing.T, host string, fault map[string]any) {
	t.Helper()
	testkit.Must(t, 204, "POST", w.sim+"/sim/hosts/"+host+"/bmc", fault)
}

// unknown reports a host's death as a monitor does that is not sure, and returns the notification.
func (w *world) unknown(t *testing.T, host string) (notification string) {
	t.Helper()
	n, err := w.Report(t.Context(), client.Report{Type: "COMPUTE_HOST", Hostname: host, GeneratedTime: time.Now(),
		Payload: map[string]string{"event": "STOPPED", "cluster_status": "OFFLINE", "host_status": "UNKNOWN"}})
	if err != nil {
		t.Fatalf("report of %s: %v", host, err)
	}
	t.Cleanup(func() { w.story(t, host, n.NotificationUUID) })
	return n.NotificationUUID
}

// story tells a failed test what happened in a recovery.
func (w *world) story(t *testing.T, host, notification string) {
	if !t.Failed() {
		return
	}
	r, err := w.Recovery(context.WithoutCancel(t.Context()), notification)
	if err != nil {
		t.Logf("no story of %s: %v", host, err)
		return
	}
	t.Logf("%s: %s, %s", host, r.Status, told(r.Message))
	for _, e := range r.Timeline {
		t.Logf("%s %s: %s", host, e.Kind, e.Text)
	}
}

func told(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// eventually waits until the recovery is as is says.
func (w *world) eventually(t *testing.T, notification string, is func(wire.Recovery) bool) (r wire.Recovery) {
	t.Helper()
	testkit.Eventually(t, patience, func() (bool, string) {
		var err error
		if r, err = w.Recovery(t.Context(), notification); err != nil {
			return false, err.Error()
		}
		return is(r), fmt.Sprintf("notification %s: %s", r.Status, told(r.Message))
	})
	return r
}

// says waits until a notification that is not done with has these words in its message.
func (w *world) says(t *testing.T, notification string, words ...string) wire.Recovery {
	t.Helper()
	return w.eventually(t, notification, func(r wire.Recovery) bool {
		return r.Status == "running" && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(told(r.Message), word) })
	})
}

// recovered waits for the end of a host's recovery and checks what an operator would: finished, proven so, each instance moved by
// one order and running once.
func (w *world) recovered(t *testing.T, host, notification, proof string) wire.Recovery {
	t.Helper()
	r := w.eventually(t, notification, func(r wire.Recovery) bool { return r.Status == "finished" })
	if r.Unit == nil || r.Unit.Proof == nil || r.Unit.Proof.Kind != proof {
		t.Errorf("%s: the unit is %+v, want proof %s", host, r.Unit, proof)
	}
	s := w.state(t)
	seen := 0
	for _, i := range s.Instances {
		if i.Name != "of-"+host && !strings.HasPrefix(i.Name, "of-"+host+"-") {
			continue
		}
		seen++
		if i.Host == host || i.VMState != "active" || i.Locked || i.Evacuations != 1 || i.Wrecks != 0 || len(i.RunningOn) != 1 || i.RunningOn[0] != i.Host {
			t.Errorf("instance %+v", i)
		}
	}
	if seen != instances {
		t.Errorf("%d instances of %s", seen, host)
	}
	if len(s.DoubleRuns)+len(s.DoubleOrders) > 0 {
		t.Errorf("double runs %v, double orders %v", s.DoubleRuns, s.DoubleOrders)
	}
	return r
}

// state is what is true in the cloud.
type state struct {
	Hosts []struct {
		Name    string `json:"name"`
		Powered bool   `json:"powered"`
	} `json:"hosts"`
	Services []struct {
		Binary     string `json:"binary"`
		Host       string `json:"host"`
		State      string `json:"state"`
		Status     string `json:"status"`
		ForcedDown bool   `json:"forced_down"`
	} `json:"services"`
	Instances []struct {
		Name        string   `json:"name"`
		Host        string   `json:"host"`
		VMState     string   `json:"vm_state"`
		Locked      bool     `json:"locked"`
		Evacuations int      `json:"evacuations"`
		Wrecks      int      `json:"wrecks"`
		RunningOn   []string `json:"running_on"`
	} `json:"instances"`
	DoubleRuns   []any `json:"double_runs"`
	DoubleOrders []any `json:"double_orders"`
}

func (w *world) state(t *testing.T) (s state) {
	t.Helper()
	decode(t, testkit.Must(t, 200, "GET", w.sim+"/sim/state", nil), &s)
	return s
}

func decode(t *testing.T, from map[string]any, into any) {
	t.Helper()
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// powered tells whether a host has power.
func (w *world) powered(t *testing.T, host string) bool {
	t.Helper()
	for _, h := range w.state(t).Hosts {
		if h.Name == host {
			return h.Powered
		}
	}
	t.Fatalf("there is no %s", host)
	return false
}

// call is one that reached the cloud.
type call struct {
	N      int64  `json:"n"`
	Method string `json:"method"`
	Path   string `json:"path"`
	Action string `json:"action"`
	Host   string `json:"host"`
}

func (c call) evacuates() bool { return c.Action == "evacuate" }
func (c call) toBMC() bool     { return strings.HasPrefix(c.Path, "/redfish/") }
func (c call) powersOff() bool {
	return c.Method == "POST" && c.toBMC() && strings.HasSuffix(c.Path, "/Actions/ComputerSystem.Reset")
}

// calls are those that concern a host, "" for all, and are as is says, in their order.
func (w *world) calls(t *testing.T, host string, is func(call) bool) (found []call) {
	t.Helper()
	var all struct {
		Calls []call `json:"calls"`
	}
	decode(t, testkit.Must(t, 200, "GET", w.sim+"/sim/calls", nil), &all)
	for _, c := range all.Calls {
		if is(c) && (host == "" || c.Host == host) {
			found = append(found, c)
		}
	}
	return found
}

// untouched checks that nothing was done to a host: no power taken, no order given, nothing written to Nova about it.
func (w *world) untouched(t *testing.T, host string) {
	t.Helper()
	if !w.powered(t, host) {
		t.Errorf("%s has no power any more", host)
	}
	if done := w.calls(t, host, func(c call) bool { return c.powersOff() || c.evacuates() }); len(done) > 0 {
		t.Errorf("done to %s: %+v", host, done)
	}
	for _, s := range w.state(t).Services {
		if s.Host == host && s.Binary == "nova-compute" && (s.ForcedDown || s.Status != "enabled") {
			t.Errorf("the service of %s: %+v", host, s)
		}
	}
}
