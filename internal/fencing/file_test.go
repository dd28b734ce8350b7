package fencing

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const someHosts = `
defaults:
  user: salvor
  password: env:BMC_PASSWORD
  deadline: 90s
hosts:
  cmp-01:
    - {kind: redfish, address: "https://bmc-{short}.example.com", system: "{host}"}
    - {kind: command, name: strip, command: [/bin/true, "{host}"], deadline: 20, pause: 0.5s, password: "", user: ""}
    - {kind: command, command: /bin/true}
    - {kind: command, command: /bin/true}
  cmp-02.example.com: [{kind: command, command: /bin/true}]
  cmp-03.a.example.com: [{kind: command, command: /bin/true}]
  cmp-03.b.example.com: [{kind: command, command: /bin/true}]
  cmp-09: []
  "cmp-0?": [{kind: command, name: glob, command: /bin/true}]
  "cmp-*": [{kind: command, name: wide, command: /bin/true}]
`

func TestFile(t *testing.T) {
	f, err := Load(write(t, "f", 0o640, someHosts), []string{"BMC_PASSWORD=hunter2"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"cmp-01", "cmp-02.example.com", "cmp-03.a.example.com", "cmp-03.b.example.com", "cmp-09"}, f.Hosts()); diff != "" {
		t.Error(diff)
	}
	// Field finding F159: short against full names; what is ambiguous is an error, what is missing is told.
	for host, want := range map[string]string{
		"cmp-01":               "redfish strip command command-4",
		"cmp-01.example.com":   "redfish strip command command-4",
		"cmp-02":               "command",
		"cmp-02.example.com":   "command",
		"cmp-02.other.example": "wide", // another domain is another host
		"cmp-03":               "may be cmp-03.a.example.com or cmp-03.b.example.com",
		"cmp-03.a.example.com": "command",
		"cmp-04":               "glob",
		"CMP-01":               "redfish strip command command-4", // hosts' names are compared without regard to case everywhere
		"Cmp-02.Example.com":   "command",
		"CMP-03.A.example.com": "command",
		"CMP-04":               "glob",
		"cmp-44":               "wide",
		"cmp-09":               "says that host cmp-09 is not fenced",
		"ctl-01":               "no fencing is configured",
		"cmp-$(reboot)":        "other characters",
	} {
		methods, err := f.Methods(host)
		var names []string
		for _, m := range methods {
			names = append(names, m.Name)
		}
		if got := strings.Join(names, " "); got != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v; want %q", host, got, err, want)
		}
	}
	if f := New(f.Methods); !f.Configured("cmp-01") || f.Configured("ctl-01") || f.Configured("cmp-09") || !f.Configured("cmp-03") {
		t.Error("configured")
	}
	methods, err := f.Methods("cmp-01.example.com")
	if err != nil {
		t.Fatal(err)
	}
	r, ok := methods[0].Controller.(redfish)
	if !ok || r.base.String() != "https://bmc-cmp-01.example.com/" || r.system != "cmp-01.example.com" || r.user != "salvor" || r.password.Reveal() != "hunter2" {
		t.Errorf("%+v", methods[0].Controller)
	}
	strip, ok := methods[1].Controller.(command)
	if !ok || len(strip.options) != 0 || methods[1].Deadline != 20*time.Second || methods[1].Pause != 500*time.Millisecond {
		t.Errorf("%+v", methods[1])
	}
	if methods[0].Deadline != 90*time.Second || methods[0].Pause != 2*time.Second {
		t.Errorf("%+v", methods[0])
	}
}

// TestANameThatIsNoneReachesNoProgram: with a line break it would be a line of its own in what a program is told, such as another action.
func TestANameThatIsNoneReachesNoProgram(t *testing.T) {
	f, err := Load(write(t, "fencing.yaml", 0o600, `hosts: {"*": [{kind: command, command: /bin/true}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"cmp-01\naction=off", "", "-n", "cmp 01", "cmp;01"} {
		if methods, err := f.Methods(host); !errors.Is(err, ErrCannot) {
			t.Errorf("%q: %v, %v", host, methods, err)
		}
	}
}

func TestFileMode(t *testing.T) {
	for mode, fine := range map[os.FileMode]bool{0o600: true, 0o640: true, 0o400: true, 0o644: false, 0o602: false, 0o601: false} {
		_, err := Load(write(t, "fencing.yaml", mode, "hosts: {a: []}"), nil)
		if (err == nil) != fine || err != nil && !strings.Contains(err.Error(), "chmod o=") {
			t.Errorf("%04o: %v", mode, err)
		}
	}
	if _, err := Load(t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Error(err)
	}
	if _, err := Load("/nowhere/fencing.yaml", nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestFileErrors: each says where, and what to write; none repeats what may be a secret.
func TestFileErrors(t *testing.T) {
	const secret = "s3cr3t"
	open := write(t, "password", 0o644, secret)
	two := write(t, "password", 0o600, "a\nb\n")
	tests := []struct{ text, want string }{
		{"", "is empty: it needs hosts"},
		{"defaults: {}", ":1: the file: hosts: is missing"},
		{"hosts: [a]", ":1: hosts: expected NAME: VALUE lines"},
		{"hosts: {a: x}", ":1: a: expected a list of at most 8 methods"},
		{"hosts: {a: [redfish]}", ":1: a, method 1: expected NAME: VALUE lines"},
		{"hosts:\n  a: []\n  a: []", ":3: hosts: a is there twice"},
		{"hosts:\n  \"a[\": []", `:2: "a[" is neither a host's name nor a pattern`},
		{"hosts: {}\nhost: {}", ":2: the file: host is unknown; known are: defaults, hosts"},
		{"defaults: {passwort: " + secret + "}\nhosts: {}", "defaults: passwort is unknown; known are: ca_file, deadline, insecure, password, password_file, pause, user"},
		{"hosts: {a: [{address: x}]}", ":1: a, method 1: kind: expected redfish or ipmi or agent or command"},
		{"hosts: {a: [{kind: redfish}]}", "address: is missing"},
		{"hosts: {a: [{kind: redfish, address: \"http://x\"}]}", "say insecure: true if that is meant"},
		{"hosts: {a: [{kind: redfish, address: \"https://u:" + secret + "@x\"}]}", "set user and password, not an account in the URL"},
		{"hosts: {a: [{kind: redfish, address: \"ftp://" + secret + "\"}]}", "expected https://HOST or https://HOST:PORT"},
		{"hosts: {a: [{kind: redfish, address: x, ca_file: /nowhere}]}", "has no certificates that can be read"},
		{"hosts: {a: [{kind: redfish, address: x, deadline: " + secret + "}]}", "deadline: expected a duration from 1s to 10m0s, such as 90s"},
		{"hosts: {a: [{kind: redfish, address: x, deadline: 2s, pause: 1s}]}", "pause: longer than a quarter of deadline"},
		{"hosts: {a: [{kind: redfish, address: x, insecure: perhaps}]}", "insecure: expected true or false"},
		{"hosts: {a: [{kind: redfish, address: x, password: [" + secret + "]}]}", "password: expected a value in one line"},
		{"hosts: {a: [{kind: redfish, address: x, password: \"" + secret + "\\n\"}]}", "password: expected a value in one line"},
		{"hosts: {a: [{kind: redfish, address: x, password: *" + secret + "}]}", "unknown anchor '…' referenced"},
		{"hosts: {a: [{kind: redfish, address: x, password: env:NOT_SET}]}", "the environment variable that env: names is not set"},
		{"hosts: {a: [{kind: redfish, address: x, password: " + secret + ", password_file: /x}]}", "password: password_file is set too"},
		{"hosts: {a: [{kind: redfish, address: x, password_file: " + open + "}]}", "is open to everybody"},
		{"hosts: {a: [{kind: redfish, address: x, password_file: " + two + "}]}", "expected one line"},
		{"hosts: {a: [{kind: ipmi, tool: /bin/true, address: \"-x\"}]}", "address: expected a name or an IP address"},
		{"hosts: {a: [{kind: ipmi, tool: /bin/true, address: x, port: 0}]}", "port: expected a number from 1 to 65535"},
		{"hosts: {a: [{kind: agent, agent: fence_nowhere}]}", `there is no program "fence_nowhere" in`},
		{"hosts: {a: [{kind: agent, agent: /bin/true, options: {action: on}}]}", "options: action is not for the file"},
		{"hosts: {a: [{kind: agent, agent: /bin/true, options: {debug_file: /x}}]}", "options: debug_file is not for the file"},
		{"hosts: {a: [{kind: agent, agent: /bin/true, options: {ip: [" + secret + "]}}]}", "options: ip: expected a value in one line"},
		{"hosts: {a: [{kind: command, command: reboot}]}", "expected the absolute path of a program"},
		{"hosts: {a: [{kind: command, command: []}]}", "expected the absolute path of a program"},
		{"hosts: {a: [{kind: command, command: /nowhere/off}]}", "command: there is no file of that name that may be executed"},
		{"hosts: {}\n---\nhosts: {}", ":2: a second document"},
		{"hosts: {a: [{kind: redfish", "line 1"},
	}
	for _, tt := range tests {
		file := write(t, "fencing.yaml", 0o600, tt.text)
		_, err := Load(file, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s:\n%v\nwant %q", tt.text, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s:\nthe secret is in %v", tt.text, err)
		}
	}
}

// TestIPMIAgentIsRefused: fence_ipmilan would show the password to everybody.
func TestIPMIAgentIsRefused(t *testing.T) {
	program(t, "fence_ipmilan", "fence-agents")
	for _, agent := range []string{"fence_ipmilan", "fence_idrac"} {
		_, err := Load(write(t, "f", 0o600, "hosts: {a: [{kind: agent, agent: "+agent+", password: x}]}"), nil)
		if err == nil || !strings.Contains(err.Error(), "use kind: ipmi") {
			t.Errorf("%s: %v", agent, err)
		}
	}
}

// TestTheDocumentsSample: what docs/fencing.md shows can be loaded as it stands.
func TestTheDocumentsSample(t *testing.T) {
	program(t, "fence_apc_snmp", "fence-agents")
	program(t, "ipmitool", "ipmitool")
	doc, err := os.ReadFile("../../docs/fencing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sample, _ := strings.Cut(string(doc), "```yaml\n")
	sample, _, _ = strings.Cut(sample, "```")
	sample = strings.ReplaceAll(sample, "/etc/salvor/bmc-password", write(t, "password", 0o640, "x\n"))
	sample = strings.ReplaceAll(sample, "/etc/salvor/bmc-ca.pem", write(t, "ca.pem", 0o644, otherCA))
	f, err := Load(write(t, "fencing.yaml", 0o640, sample), []string{"PDU_COMMUNITY=private"})
	if err != nil {
		t.Fatal(err)
	}
	methods, err := f.Methods("cmp-01.example.com")
	if err != nil || len(methods) != 2 {
		t.Fatalf("%v %+v", err, methods)
	}
	if r, ok := methods[0].Controller.(redfish); !ok || r.base.Host != "cmp-01-bmc.example.com" || r.user != "salvor" || r.password.Reveal() != "x" {
		t.Errorf("%+v", methods[0].Controller)
	}
	want := []option{{"ip", "pdu-1.example.com", false}, {"username", "salvor", false}, {"password", "x", true}, {"plug", "cmp-01", false}, {"community", "private", true}}
	if a, ok := methods[1].Controller.(agent); !ok || !slices.Equal(a.options, want) {
		t.Errorf("%+v", methods[1].Controller)
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(someHosts))
	f.Add([]byte("hosts: {a: [{kind: agent, agent: /bin/true, options: {x: y}}]}"))
	f.Add([]byte("a: &a [*a]\nhosts: *a"))
	f.Add([]byte("defaults: ~\nhosts: ~"))
	f.Add([]byte("? [x]\n: y"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := parse("f", text, []string{"BMC_PASSWORD=x"})
		if (file == nil) == (err == nil) {
			t.Fatalf("%v and %v", file, err)
		}
		if file != nil {
			for _, h := range append(file.Hosts(), "cmp-1") {
				_, _ = file.Methods(h)
			}
		}
	})
}
