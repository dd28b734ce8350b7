package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestFence: power and rehearsals of simulated BMCs from the command line; nothing is powered off by it, and no password shown.
func TestFence(t *testing.T) {
	sim := start(t, "sim", "--listen", "127.0.0.1:0", "--hosts", "3", "--instances", "0")
	cloud := sim.out.await(t, `listening on (http://\S+)`)
	fencing := file(t, "fencing.yaml", `
defaults: {user: admin, password: env:BMC_PASSWORD, insecure: true, deadline: 10s, pause: 0.1s}
hosts:
  host-1: [{kind: redfish, address: "`+cloud+`", system: "{host}"}]
  host-2: [{kind: redfish, name: bmc, address: "`+cloud+`", system: "{host}", password: topsecret}]
  host-3: [{kind: redfish, address: "http://127.0.0.1:1"}, {kind: redfish, name: strip, address: "`+cloud+`", system: host-3}]
  ghost: []
`)
	good := conf(t, "[salvor]\nfencing_file = "+fencing+"\n")
	open := conf(t, "[salvor]\nfencing_file = "+file(t, "wrong.yaml", "hosts: {a: [{kind: redfish, adresse: x, password: topsecret}]}")+"\n")
	tests := []struct {
		args  string
		code  int
		words []string
	}{
		{"fence test --host host-1", 0, []string{"ok    host-1  redfish  on       PowerState On, ForceOff allowed"}},
		{"fence test --host host-2", 1, []string{"BAD   host-2  bmc     unknown  login refused: GET /redfish/v1/Systems/host-2 answered 401"}},
		{"fence test --host host-3", 1, []string{"BAD   host-3  redfish", "connection refused", "ok    host-3  strip    on"}},
		{"fence test --all", 1, []string{"ok    host-1", "BAD   host-2", "BAD   ghost", "says that host ghost is not fenced", "warning: only the hosts that the file names"}},
		{"fence status --host host-3 --host host-1", 0, []string{"ok    host-3  strip", "ok    host-1  redfish"}},
		{"fence status --host nobody", 1, []string{"no fencing is configured: no entry of "}},
		{"fence status", 2, []string{"say which hosts: --host NAME, or --all"}},
		{"fence status --all --host host-1", 2, []string{"say which hosts"}},
		{"fence status --host host-1 -o xml", 2, []string{"expected table, json, yaml"}},
	}
	environ := []string{"BMC_PASSWORD=secret"}
	for _, tt := range tests {
		code, stdout, stderr := command(t, environ, append(strings.Fields(tt.args), "--config-file", good)...)
		if code != tt.code {
			t.Errorf("salvor %s: exit code %d, want %d\n%s%s", tt.args, code, tt.code, stdout, stderr)
		}
		for _, want := range tt.words {
			if !strings.Contains(stdout+stderr, want) {
				t.Errorf("salvor %s: no %q in:\n%s%s", tt.args, want, stdout, stderr)
			}
		}
		if strings.Contains(stdout+stderr, "topsecret") {
			t.Errorf("salvor %s shows a password", tt.args)
		}
	}
	patterns := conf(t, "[salvor]\nfencing_file = "+file(t, "patterns.yaml", `hosts: {"host-*": [{kind: redfish, address: "`+cloud+`", system: "{host}", user: admin, password: x, insecure: true}]}`)+"\n")
	for conf, want := range map[string]string{conf(t, ""): "set [salvor] fencing_file", open: "adresse is unknown", patterns: "no host was tried"} {
		if code, stdout, stderr := command(t, environ, "fence", "test", "--all", "--config-file", conf); code != 1 ||
			!strings.Contains(stderr, want) || strings.Contains(stdout+stderr, "topsecret") {
			t.Errorf("exit code %d:\n%s%s", code, stdout, stderr)
		}
	}
	code, stdout, _ := command(t, environ, "fence", "test", "--host", "host-1", "-o", "json", "--config-file", good)
	var lines []map[string]any
	if err := json.Unmarshal([]byte(stdout), &lines); err != nil || code != 0 || len(lines) != 1 || lines[0]["power"] != "on" || lines[0]["ok"] != true {
		t.Errorf("%d %v %s", code, err, stdout)
	}
}

// TestFenceAllTakesRegisteredHosts: a host that is registered and that no entry is for is a finding.
func TestFenceAllTakesRegisteredHosts(t *testing.T) {
	sim := start(t, "sim", "--listen", "127.0.0.1:0", "--hosts", "2", "--instances", "0")
	cloud := sim.out.await(t, `listening on (http://\S+)`)
	text := strings.Split(sim.out.String(), "# listening")[0]
	config := conf(t, text+"[DEFAULT]\nauth_strategy = noauth2\n")
	serve := start(t, "serve", "--listen", "127.0.0.1:0", "--config-file", config)
	url := serve.out.await(t, `listening on (http://\S+)`)
	for _, args := range []string{
		"segment create racks", "host create host-1 --segment racks", "host create host-2 --segment racks",
	} {
		if code, stdout, stderr := command(t, nil, append(strings.Fields(args), "--url", url)...); code != 0 {
			t.Fatalf("%s: %s%s", args, stdout, stderr)
		}
	}
	fencing := file(t, "fencing.yaml", `hosts: {host-1: [{kind: redfish, address: "`+cloud+`", system: host-1, insecure: true}]}`)
	add := file(t, "more.conf", "[salvor]\nfencing_file = "+fencing+"\n")
	code, stdout, stderr := command(t, nil, "fence", "test", "--all", "--config-file", config, "--config-file", add)
	if code != 1 || !strings.Contains(stdout, "ok    host-1  redfish") || !strings.Contains(stdout, "BAD   host-2") || !strings.Contains(stdout, "no fencing is configured") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
