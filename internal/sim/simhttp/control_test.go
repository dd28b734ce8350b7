package simhttp

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/sim"
)

type call struct {
	N                                    int64
	Time                                 time.Time
	Method, Path, Action, Instance, Host string
	Fault                                string
	Status                               int
}

func (l *lab) calls(since int64) []call {
	l.Helper()
	var out struct{ Calls []call }
	l.control("GET", "/sim/calls?since="+itoa(since), "", &out)
	return out.Calls
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func TestState(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 3, Instances: 3}, Options{})
	l.control("POST", "/sim/instances", `{"host": "host-2", "count": 2, "metadata": {"HA_Enabled": "True"}, "vm_state": "stopped", "task_state": "image_uploading"}`, nil)
	var state struct {
		Hosts []struct {
			Name    string
			Powered bool
		}
		Services  []struct{ Host, Binary, State string }
		Instances []struct {
			ID, Name, Host string
			VMState        string  `json:"vm_state"`
			TaskState      *string `json:"task_state"`
			PowerState     int     `json:"power_state"`
			Locked         bool
			Metadata       map[string]string
			Evacuations    *int
		}
	}
	l.control("POST", "/sim/hosts/host-3/kill", "", nil)
	l.control("GET", "/sim/state", "", &state)
	if len(state.Hosts) != 3 || len(state.Services) != 5 || len(state.Instances) != 5 || state.Hosts[2].Powered || !state.Hosts[0].Powered {
		t.Fatalf("%+v", state)
	}
	newest := state.Instances[0]
	if newest.Host != "host-2" || newest.VMState != "stopped" || newest.TaskState == nil || *newest.TaskState != "image_uploading" ||
		newest.Metadata["HA_Enabled"] != "True" || newest.Evacuations == nil || newest.PowerState != 4 {
		t.Errorf("%+v", newest)
	}
	if oldest := state.Instances[4]; oldest.TaskState != nil || oldest.PowerState != 1 {
		t.Errorf("%+v", oldest)
	}
	l.control("POST", "/sim/hosts/host-3/revive", "", nil)
	l.control("GET", "/sim/state", "", &state)
	if !state.Hosts[2].Powered {
		t.Error("not revived")
	}
}

func TestControlRefusals(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 1}, Options{})
	for _, tc := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/sim/hosts/nowhere/kill", "", 404},
		{"POST", "/sim/hosts/host-1/explode", "", 404},
		{"POST", "/sim/services/nova-api/stop", "", 404},
		{"GET", "/sim/nothing", "", 404},
		{"GET", "/sim/calls?since=x", "", 400},
		{"POST", "/sim/faults", `{"method": "GET"}`, 400},
		{"POST", "/sim/faults", `{"status": 500, "drop": true}`, 400},
		{"POST", "/sim/faults", `{"status": 500, "tmies": 3}`, 400},
		{"POST", "/sim/faults", `{"path": "(", "status": 500}`, 400},
		{"POST", "/sim/faults", `not json`, 400},
		{"POST", "/sim/instances", `{"host": "nowhere"}`, 400},
		{"POST", "/sim/instances", `{"host": "host-1", "count": -1}`, 400},
		{"POST", "/sim/instances", `{"host": "host-1", "vm_state": "flying"}`, 400},
	} {
		status, body := l.call("", "", tc.method, tc.path, tc.body)
		if status != tc.want || !strings.HasPrefix(body, `{"error":`) {
			t.Errorf("%s %s %s: %d %s", tc.method, tc.path, tc.body, status, body)
		}
	}
}

func TestFaultsOverHTTP(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 2, Instances: 12}, Options{})
	admin := l.token("admin", "admin")
	all, _, _ := l.cloud.Instances(sim.InstanceQuery{})
	next := 0
	locked := func(id string) bool {
		ins, _ := l.cloud.Instance(id)
		return ins.Locked
	}
	lock := func() (id string, status int, err error, took time.Duration) {
		id = all[next].ID
		next++
		start := time.Now()
		status, _, err = l.try(admin, "2.93", "POST", "/compute/v2.1/servers/"+id+"/action", `{"lock": null}`)
		return id, status, err, time.Since(start)
	}
	fault := func(how string) {
		l.control("POST", "/sim/faults", `{"method": "POST", "path": "/servers/[^/]+/action", "times": 1, `+how+`}`, nil)
	}

	fault(`"status": 503`)
	if id, status, err, _ := lock(); err != nil || status != 503 || locked(id) {
		t.Errorf("status: %d %v", status, err)
	}
	fault(`"delay_ms": 150`)
	if id, status, err, took := lock(); err != nil || status != 202 || took < 150*time.Millisecond || !locked(id) {
		t.Errorf("delay: %d %v after %v", status, err, took)
	}
	fault(`"drop": true`)
	if id, _, err, _ := lock(); err == nil || !locked(id) {
		t.Errorf("drop: %v, locked %v", err, locked(id))
	}
	fault(`"act_after_ms": 200`)
	id, _, err, took := lock()
	if err == nil || took < 190*time.Millisecond {
		t.Errorf("act after: %v after %v", err, took)
	}
	l.eventually("acts later", func() bool { return locked(id) })

	// A client that gives up early does not keep the act from happening.
	fault(`"act_after_ms": 300`)
	id = all[next].ID
	next++
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sent, before := time.Now(), len(l.cloud.Calls(0))
	go func() {
		for len(l.cloud.Calls(0)) == before && t.Context().Err() == nil {
			time.Sleep(time.Millisecond) // it is on its way
		}
		cancel()
	}()
	r, err := http.NewRequestWithContext(ctx, "POST", l.url+"/compute/v2.1/servers/"+id+"/action", strings.NewReader(`{"lock": null}`))
	l.must(err)
	r.Header.Set("X-Auth-Token", admin)
	if _, err := http.DefaultClient.Do(r); err == nil {
		t.Error("answered")
	}
	if locked(id) && time.Since(sent) < 300*time.Millisecond {
		t.Error("acted at once")
	}
	l.eventually("acts though the client has gone", func() bool { return locked(id) })

	if _, status, err, _ := lock(); err != nil || status != 202 {
		t.Errorf("a fault outlived its times: %d %v", status, err)
	}
	l.control("POST", "/sim/faults", `{"path": "/servers/", "instance": "`+all[next].ID+`", "status": 500}`, nil)
	if _, status, _, _ := lock(); status != 500 {
		t.Errorf("by instance: %d", status)
	}
	l.control("POST", "/sim/faults", `{"path": "/action", "host": "host-1", "status": 504, "times": 0}`, nil)
	for range 2 {
		id, status, _, _ := lock()
		ins, _ := l.cloud.Instance(id)
		if (status == 504) != (ins.Host == "host-1") {
			t.Errorf("by host: %d on %s", status, ins.Host)
		}
	}
	l.control("DELETE", "/sim/faults", "", nil)
	if _, status, _, _ := lock(); status != 202 {
		t.Errorf("after DELETE: %d", status)
	}

	var kinds []string
	for _, c := range l.calls(0) {
		if c.Fault != "" {
			kinds = append(kinds, c.Fault)
		}
		if c.Action == "lock" && (c.Instance == "" || c.Host == "" || c.Method != "POST" || c.Time.IsZero()) {
			t.Errorf("%+v", c)
		}
	}
	if strings.Join(kinds, " ") != "status delay drop act_after act_after status status" {
		t.Errorf("%v", kinds)
	}
}

func TestCalls(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 1}, Options{})
	admin := l.token("admin", "admin")
	before := l.calls(0)
	last := before[len(before)-1]
	if last.Method != "POST" || last.Path != "/v3/auth/tokens" || last.Status != 201 {
		t.Errorf("%+v", last)
	}
	l.call(admin, "2.93", "GET", "/compute/v2.1/os-services", "")
	l.call(admin, "2.93", "GET", "/compute/v2.1/servers/11111111-2222-3333-4444-555555555555", "")
	after := l.calls(last.N)
	if len(after) != 2 || after[0].N != last.N+1 || after[0].Status != 200 || after[1].Status != 404 {
		t.Errorf("%+v", after)
	}
	_, body := l.call("", "", "GET", "/sim/calls", "")
	if strings.Contains(body, "secret") || strings.Contains(body, admin) {
		t.Error("the log of calls holds a password or a token")
	}
}

// The PUT that waits for a dead nova-compute: written at once, answered late.
func TestDisableBlocks(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 1, Scale: 0.01, RPCTimeout: 30 * time.Second, DownTime: time.Hour}, Options{})
	l.control("POST", "/sim/hosts/host-1/kill", "", nil)
	admin, path := l.token("admin", "admin"), "/compute/v2.1/os-services/"+l.serviceID("host-1")
	start := time.Now()
	done := make(chan time.Duration, 1)
	go func() {
		_, _, _ = l.try(admin, "2.93", "PUT", path, `{"status": "disabled", "disabled_reason": "test"}`)
		done <- time.Since(start)
	}()
	l.eventually("disabled before the answer", func() bool { return l.cloud.Services("nova-compute", "host-1")[0].Disabled })
	if took := <-done; took < 300*time.Millisecond {
		t.Errorf("answered after %v, want 0.01 of 30 s", took)
	}
}

func TestRedfish(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 1}, Options{})
	power := func() string {
		var out struct{ PowerState string }
		l.control("GET", "/redfish/v1/Systems/host-1", "", &out)
		return out.PowerState
	}
	reset := func(kind string) int {
		status, _ := l.call("", "", "POST", "/redfish/v1/Systems/host-1/Actions/ComputerSystem.Reset", `{"ResetType": "`+kind+`"}`)
		return status
	}
	if power() != "On" || reset("ForceOff") != 204 || power() != "Off" || reset("On") != 204 || power() != "On" || reset("Explode") != 400 {
		t.Error("power does not follow")
	}
	if status, _ := l.call("", "", "GET", "/redfish/v1/Systems/nowhere", ""); status != 404 {
		t.Errorf("unknown system: %d", status)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	cloud := sim.New(sim.Options{Hosts: 1})
	defer cloud.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- New(cloud, Options{}).Serve(ctx, listener) }()
	answer, err := http.Get("http://" + listener.Addr().String() + "/v3")
	if err != nil || answer.StatusCode != 200 {
		t.Fatal(err)
	}
	answer.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := http.Get("http://" + listener.Addr().String() + "/v3"); err == nil {
		t.Error("still serving")
	}
	if err := New(cloud, Options{Listen: "127.0.0.1:x"}).ListenAndServe(t.Context()); err == nil {
		t.Error("listened on a bad address")
	}
}
