package fencing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
)

// write makes a file of a test's own.
func write(t *testing.T, name string, mode os.FileMode, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
	return path
}

// from makes the Fencer of a fencing file.
func from(t *testing.T, text string) *Fencer {
	t.Helper()
	f, err := Load(write(t, "fencing.yaml", 0o600, text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return New(f.Methods)
}

// fenced fences and fails the test unless the host was seen off.
func fenced(t *testing.T, f *Fencer, host string) ha.FenceResult {
	t.Helper()
	r, err := f.Fence(t.Context(), host)
	if err != nil || !r.Off {
		t.Fatalf("%v %+v", err, r)
	}
	return r
}

// program finds a real program, or skips the test loudly.
func program(t *testing.T, name, pkg string) {
	t.Helper()
	for _, dir := range programDirs {
		if executable(filepath.Join(dir, name)) {
			return
		}
	}
	t.Skipf("SKIPPED: there is no %s here; it is in Debian's package %s", name, pkg)
}

// TestRealAgent: fence_dummy of fence-agents, whose power state is a file, by its own stdin protocol.
func TestRealAgent(t *testing.T) {
	program(t, "fence_dummy", "fence-agents")
	state := write(t, "power", 0o600, "on")
	f := from(t, `
defaults: {deadline: 30s, pause: 0.1s}
hosts:
  host-1:
    - kind: agent
      agent: fence_dummy
      options: {status_file: "`+state+`", type: file}
`)
	if r, err := f.Power(t.Context(), "host-1"); err != nil || r.Off || powers(r) != "agent:on" {
		t.Fatalf("%v %+v", err, r)
	}
	r := fenced(t, f, "host-1")
	if powers(r) != "agent:on agent:off agent:off" || !strings.Contains(r.Text, "fence_dummy off: Success: Powered OFF") ||
		!strings.Contains(r.Sights[0].Text, "exit status 0, Status: ON") || !strings.Contains(r.Sights[2].Text, "exit status 2, Status: OFF") {
		t.Errorf("%+v", r)
	}
	if text, _ := os.ReadFile(state); string(text) != "off" {
		t.Errorf("the file says %q", text)
	}
	if again := fenced(t, f, "host-1"); !strings.Contains(again.Text, "nothing was ordered") {
		t.Error(again.Text)
	}
	// The agent's mode `fail` never says what it should: no proof comes of it.
	f = from(t, `
defaults: {deadline: 4s, pause: 0.1s}
hosts:
  host-1: [{kind: agent, agent: fence_dummy, options: {type: fail, plug: "1"}}]
`)
	if r, err := f.Fence(t.Context(), "host-1"); err != nil || r.Off {
		t.Errorf("%v %+v", err, r)
	}
}

// TestAgentsThatMisbehave: programs that hang, flood, talk too much, or end with 2 for a reason of their own.
func TestAgentsThatMisbehave(t *testing.T) {
	const secret = "t0p-s3cret&co"
	const hangs = "no answer within"
	tests := []struct{ name, script, text string }{
		{"hangs, and its children too", "sleep 600 & sleep 600", hangs},
		{"leaves a child that holds its output", "sleep 600 & echo 'Status: ON'", "on, seen at"},
		{"floods", "while :; do echo 0123456789012345678901234567890123456789; done", hangs},
		{"ends with 2 because it is broken", "exit 2", "exit status 2 without a word"},
		{"ends with 2, and other words", "echo usage >&2; exit 2", "exit status 2: usage"},
		{"says off and ends with 0", "echo 'Status: OFF'", "exit status 0: Status: OFF"},
		{"says both", "echo 'Status: ON'; echo 'Status: OFF'; exit 2", "exit status 2"},
		{"says its secrets", "cat >&2; exit 1", "password=***"},
		{"says control characters", `printf 'bad\033[31m\001thing\n' >&2; exit 1`, "bad [31m thing"},
		{"cannot be started", "#!", "cannot be run"},
		{"is killed", "kill -9 $$", "ended by a signal"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			text := "#!/bin/sh\necho $$ >> " + dir + "/pids\n" + tt.script + "\n"
			if tt.script == "#!" {
				text = "#!/nowhere/at/all\n"
			}
			deadline := "30s"
			if tt.text == hangs {
				deadline = "1s"
			}
			f := from(t, `
defaults: {deadline: `+deadline+`, pause: 0.1s, user: admin, password: "`+secret+`"}
hosts:
  host-1: [{kind: agent, agent: "`+write(t, "fence_x", 0o700, text)+`"}]
`)
			began := time.Now()
			r, err := f.Power(t.Context(), "host-1")
			if err != nil || r.Off || !strings.Contains(r.Text, tt.text) {
				t.Errorf("%v %+v", err, r)
			}
			if strings.Contains(fmt.Sprint(r), secret) || len(r.Text) > 2*config.MaxSaid {
				t.Errorf("%d characters, or the secret, in %s", len(r.Text), r.Text)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("took %s", took)
			}
			pids, _ := os.ReadFile(filepath.Join(dir, "pids"))
			for pid := range strings.FieldsSeq(string(pids)) {
				groupIsGone(t, pid)
			}
		})
	}
}

// groupIsGone waits until nobody is left in a child's group but who waits to be buried.
func groupIsGone(t *testing.T, group string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; <-time.After(10 * time.Millisecond) {
		left := ""
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, file := range stats {
			text, _ := os.ReadFile(file)
			_, rest, _ := strings.Cut(string(text), ") ")
			if f := strings.Fields(rest); len(f) > 2 && f[2] == group && f[0] != "Z" {
				left += string(text)
			}
		}
		if left == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still alive: %s", left)
		}
	}
}

// TestChildrenEndWithTheirCaller: a caller that leaves takes the child and the child's children along.
func TestChildrenEndWithTheirCaller(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	f := from(t, `
hosts:
  host-1: [{kind: command, command: "`+write(t, "slow", 0o700, "#!/bin/sh\necho $$ > "+pids+"\nsleep 600\n")+`"}]
`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
			if text, _ := os.ReadFile(pids); strings.HasSuffix(string(text), "\n") {
				return
			}
		}
	}()
	if r, err := f.Fence(ctx, "host-1"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v %+v", err, r)
	}
	text, _ := os.ReadFile(pids)
	groupIsGone(t, strings.TrimSpace(string(text)))
}

// TestSecretsAreOnNoCommandLine: while children of each kind run, and in all they leave behind.
func TestSecretsAreOnNoCommandLine(t *testing.T) {
	const secret = "n3ver-on-argv"
	dir := t.TempDir()
	// Each script notes its command line, and that the secret has come another way.
	script := `#!/bin/sh
tr '\0' ' ' < /proc/$$/cmdline >> ` + dir + `/seen
(cat; env) | grep -c "` + "n3ver-on" + `-argv" >> ` + dir + `/told
env >> ` + dir + `/env
exit 1
`
	script = strings.Replace(script, `"n3ver-on-argv"`, `'n[3]ver-on-argv'`, 1) // not itself on a command line
	path := write(t, "spy", 0o700, script)
	f := from(t, `
defaults: {deadline: 20s, pause: 0.1s, user: admin, password: `+secret+`}
hosts:
  a: [{kind: agent, agent: "`+path+`", options: {plug: "7", snmp_priv_passwd: `+secret+`-2}}]
  c: [{kind: command, command: ["`+path+`", "{host}"]}]
  i: [{kind: ipmi, tool: "`+path+`", address: 127.0.0.1}]
`)
	for _, host := range []string{"a", "c", "i"} {
		r, err := f.Fence(t.Context(), host)
		if err != nil || r.Off || strings.Contains(fmt.Sprint(r), secret) {
			t.Errorf("%v %+v", err, r)
		}
	}
	seen, _ := os.ReadFile(dir + "/seen")
	told, _ := os.ReadFile(dir + "/told")
	env, _ := os.ReadFile(dir + "/env")
	if n := strings.Count(string(seen), "spy"); n < 3 || strings.Contains(string(seen), secret) {
		t.Errorf("command lines:\n%s", seen)
	}
	for n := range strings.FieldsSeq(string(told)) {
		if n == "0" {
			t.Error("a child was not told the secret at all")
		}
	}
	t.Setenv("SALVOR_TEST_LEAK", "x")
	for line := range strings.Lines(string(env)) {
		switch name, _, _ := strings.Cut(strings.TrimSpace(line), "="); name {
		case "PATH", "LANG", "LC_ALL", "PWD", "OLDPWD", "SHLVL", "_", "SALVOR_FENCE_ACTION", "SALVOR_FENCE_HOST", "IPMI_PASSWORD", "IPMITOOL_PASSWORD":
		default:
			t.Errorf("the environment of a child has %s", name)
		}
	}
}

// TestCommand: the documented contract of an operator's own program.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	script := write(t, "power", 0o700, `#!/bin/sh
dir=`+dir+`
grep -q "^host=$SALVOR_FENCE_HOST\$" || exit 9
[ "$1" = host-1 ] || exit 8
case $SALVOR_FENCE_ACTION in
off) touch $dir/off; echo done ;;
status) echo looking; [ -e $dir/off ] && echo off || echo on ;;
esac
`)
	f := from(t, `
defaults: {deadline: 20s, pause: 0.1s}
hosts:
  host-1: [{kind: command, name: pdu, command: ["`+script+`", "{host}"]}]
`)
	r := fenced(t, f, "host-1")
	if powers(r) != "pdu:on pdu:off pdu:off" || !strings.Contains(r.Text, "power off: exit status 0 done") {
		t.Errorf("%+v", r)
	}
	for name, body := range map[string]string{
		"an exit status alone is no state":   "exit 0",
		"a word in between is none":          "echo off; echo bye",
		"off with a failure is none":         "echo off; exit 2",
		"a word that only begins so is none": "echo offline",
	} {
		f := from(t, `
defaults: {deadline: 4s, pause: 0.1s}
hosts:
  host-1: [{kind: command, command: "`+write(t, "x", 0o700, "#!/bin/sh\n"+body+"\n")+`"}]
`)
		if r, err := f.Power(t.Context(), "host-1"); err != nil || r.Off || strings.Contains(powers(r), ":o") {
			t.Errorf("%s: %v %+v", name, err, r)
		}
	}
}

// ipmiSim is OpenIPMI's simulated BMC on loopback. Its power state is a file, which its chassis script reads and writes.
type ipmiSim struct{ dir, port string }

func newIPMISim(t *testing.T) ipmiSim {
	t.Helper()
	program(t, "ipmitool", "ipmitool")
	program(t, "ipmi_sim", "openipmi")
	dir := t.TempDir()
	free, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.LocalAddr().String())
	_ = free.Close()
	s := ipmiSim{dir, port}
	put := func(name, text string) { t.Helper(); s.put(t, name, text) }
	put("power", "1")
	put("chassis", `#!/bin/sh
dir=`+dir+`
shift
case $1 in
get) shift; for what; do [ $what = power ] && echo power:$(cat $dir/power) || echo $what:0; done ;;
set) [ -e $dir/deaf ] || echo $3 > $dir/power ;;
esac
`)
	put("lan.conf", `name "bmc"
set_working_mc 0x20
startlan 1
addr 127.0.0.1 `+port+`
priv_limit admin
allowed_auths_user none md5
allowed_auths_operator none md5
allowed_auths_admin none md5
guid a123456789abcdefa123456789abcdef
endlan
chassis_control "`+dir+`/chassis 0x20"
user 2 true "salvor" "s3cret" admin 10 none md5
user 3 true "looker" "l00k" user 10 none md5
`)
	put("bmc.emu", "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\nmc_enable 0x20\n")
	cmd := exec.CommandContext(t.Context(), "ipmi_sim", "-n", "-c", dir+"/lan.conf", "-f", dir+"/bmc.emu", "-s", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return s
}

// fencer fences host-1 by that BMC.
func (s ipmiSim) fencer(t *testing.T, more string) *Fencer {
	return from(t, "hosts: {host-1: [{kind: ipmi, address: 127.0.0.1, port: "+s.port+", cipher: 3, pause: 0.1s, "+more+"}]}\n")
}

func (s ipmiSim) put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestIPMI: the real ipmitool against OpenIPMI's own BMC, by IPMI 2.0 and 1.5.
func TestIPMI(t *testing.T) {
	s := newIPMISim(t)
	for _, kind := range []string{"lanplus", "lan"} {
		s.put(t, "power", "1")
		f := s.fencer(t, "user: salvor, password: s3cret, interface: "+kind)
		r := fenced(t, f, "host-1")
		if !strings.HasSuffix(powers(r), "ipmi:on ipmi:off ipmi:off") || !strings.Contains(r.Text, "Chassis Power Control: Down/Off") {
			t.Errorf("%s: %+v", kind, r)
		}
		if again := fenced(t, f, "host-1"); !strings.Contains(again.Text, "nothing was ordered") {
			t.Errorf("%s: %s", kind, again.Text)
		}
	}
	s.put(t, "power", "1")
	s.put(t, "deaf", "")
	for _, tt := range []struct{ name, more, text string }{
		{"may look, but not order", "user: looker, password: l00k, privilege: user", "Insufficient privilege level"},
		{"wrong password", "user: salvor, password: wrong-one, interface: lan", "login refused, or no answer"},
		{"orders without effect", "user: salvor, password: s3cret, deadline: 3s", "but not seen off"},
	} {
		r, err := s.fencer(t, tt.more).Fence(t.Context(), "host-1")
		if err != nil || r.Off || !strings.Contains(r.Text, tt.text) || strings.Contains(r.Text, "wrong-one") {
			t.Errorf("%s: %v %+v", tt.name, err, r)
		}
	}
}

// TestOutputWithoutAnEnd: what says off in the part that is kept may say on in the part that is not.
func TestOutputWithoutAnEnd(t *testing.T) {
	f := from(t, `
hosts:
  host-1: [{kind: command, command: "`+write(t, "wordy", 0o700, "#!/bin/sh\nyes off | head -c 200000\necho on\n")+`"}]
`)
	r, err := f.Power(t.Context(), "host-1")
	if err != nil || r.Off || !strings.Contains(r.Text, "nothing was seen") {
		t.Errorf("%v %+v", err, r)
	}
}
