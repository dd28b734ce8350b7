package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// output is a stream that may be read while it is written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await waits until the output matches, and returns the first group.
func (o *output) await(t *testing.T, expression string) string {
	t.Helper()
	re := regexp.MustCompile(expression)
	deadline := time.Now().Add(30 * time.Second)
	for {
		if m := re.FindStringSubmatch(o.String()); m != nil {
			return m[len(m)-1]
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %q in:\n%s", expression, o)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// command runs a command line to its end.
func command(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs output
	code = Main(t.Context(), Env{Args: args, Environ: environ, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
	return code, out.String(), errs.String()
}

// process is a command line that runs until it is stopped.
type process struct {
	out, errs output
	stop      context.CancelFunc
	code      chan int
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	if args[0] == "sim" {
		t.Setenv("TMPDIR", t.TempDir()) // where the database is that it names
	}
	p := &process{code: make(chan int, 1)}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	p.stop = stop
	go func() {
		p.code <- Main(ctx, Env{Args: args, Environ: nil, Stdin: strings.NewReader(""), Stdout: &p.out, Stderr: &p.errs})
	}()
	t.Cleanup(func() {
		stop()
		if code := <-p.code; code != 0 {
			t.Errorf("%s: exit code %d\n%s", args, code, &p.errs)
		}
		if t.Failed() {
			t.Logf("%s:\n%s", args, &p.errs)
		}
	})
	return p
}

// conf writes a masakari.conf whose rows are in a directory of the test's own.
func conf(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "masakari.conf")
	if err := os.WriteFile(file, []byte(text+"\n[DEFAULT]\nstate_path = "+dir+"/state\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestExitCodesAndWords(t *testing.T) {
	bad := conf(t, "[DEFAULT]\nosapi_max_limit = many\n[salvor]\nbrake_percent = 200\n")
	synced := conf(t, "")
	if code, _, stderr := command(t, nil, "db", "sync", "--config-file", synced); code != 0 {
		t.Fatal(stderr)
	}
	typo := conf(t, "[salvor]\nbrake_prcent = 40\n")
	tests := []struct {
		args string
		code int
		want []string // in either stream
	}{
		{"", 0, []string{"salvor demo", "Run:", "Operate:", "--version", "completion ", "bash-completion"}},
		{"--version", 0, []string{"salvor dev", "go1."}},
		{"notification list --status done", 2, []string{`--status "done": expected new, running`}},
		{"notification list --since yesterday", 2, []string{`--since "yesterday": expected a time such as 2026-11-29T11:00, in UTC, or a span such as 24h or 3d`}},
		{"notification list --since 2026-11-31", 2, []string{`--since "2026-11-31": expected a time`}},
		{"notification list --type HOST", 2, []string{`--type "HOST": expected COMPUTE_HOST`}},
		{"recovery list --type HOST", 2, []string{`--type "HOST": expected COMPUTE_HOST`}},
		{"vmove list N --status done", 2, []string{`--status "done": expected pending`}},
		{"segment list --sort name:up", 2, []string{`--sort "name:up": expected KEY, KEY:asc or KEY:desc`}},
		{"segment list --limit x", 2, []string{`salvor: --limit "x": expected a whole number`}},
		{"segment list --enabled=maybe", 2, []string{`salvor: --enabled "maybe": expected true or false`}},
		{"sim --scale fast", 2, []string{`salvor: --scale "fast": expected a number`}},
		{"db purge --age-in-days -1 --config-file " + synced, 2, []string{"Must supply a non-negative value for age."}},
		{"--help", 0, []string{"salvor serve"}},
		{"version", 0, []string{"salvor dev", "go1."}},
		{"sevre", 2, []string{`unknown command "sevre"`, "serve", "salvor --help"}},
		{"db", 0, []string{"salvor db sync"}},
		{"db snyc", 2, []string{`unknown command "snyc"`, "did you mean sync?"}},
		{"serve now", 2, []string{"salvor serve --help"}},
		{"serve --lisen x", 2, []string{"unknown flag: --lisen"}},
		{"recovery show", 2, []string{"NOTIFICATION is missing"}},
		{"recovery hold N", 2, []string{"--reason is missing: who finds it held"}},
		{"vmove show N", 2, []string{"VMOVE is missing"}},
		{"segment delete", 2, []string{"SEGMENT is missing"}},
		{"host confirm-off cmp-01", 2, []string{"--reason is missing: how do you know that cmp-01 is off?"}},
		{"demo --hosts 1", 2, []string{"at least 2 hosts"}},
		{"sim --scale 0", 2, []string{"--scale"}},
		{"sim --api 127.0.0.1", 2, []string{"--api \"127.0.0.1\"", "http://127.0.0.1:15868/v1"}},
		{"serve --config-file /nowhere/masakari.conf", 1, []string{"/nowhere/masakari.conf"}},
		{"serve --config-file " + bad, 1, []string{bad + ":2", "osapi_max_limit", `"many"`, bad + ":4", "brake_percent"}},
		{"config show --config-file " + typo, 0, []string{"warning: " + typo + ":2", "did you mean brake_percent?", "state_path = ", typo + ":5"}},
		{"config show --config-file " + bad, 1, []string{"osapi_max_limit"}},
		{"config show --all --config-file " + typo, 0, []string{"brake_percent = 50  # default"}},
		{"config sample", 0, []string{"#brake_percent = 50"}},
		{"config reference", 0, []string{"| `brake_percent` |"}},
		{"api --config-file " + typo, 1, []string{"callers' tokens cannot be validated"}},
	}
	for _, tt := range tests {
		code, stdout, stderr := command(t, nil, strings.Fields(tt.args)...)
		if code != tt.code {
			t.Errorf("salvor %s: exit code %d, want %d\n%s%s", tt.args, code, tt.code, stdout, stderr)
		}
		for _, want := range tt.want {
			if !strings.Contains(stdout+stderr, want) {
				t.Errorf("salvor %s: no %q in:\n%s%s", tt.args, want, stdout, stderr)
			}
		}
	}
}

// TestConfigShowGroups: a group is shown once, however the reference orders its options.
func TestConfigShowGroups(t *testing.T) {
	_, stdout, _ := command(t, nil, "config", "show", "--all", "--config-file", conf(t, ""))
	for _, group := range []string{"[DEFAULT]\n", "[keystone_authtoken]\n", "[salvor]\n"} {
		if n := strings.Count(stdout, group); n != 1 {
			t.Errorf("%q is there %d times", group, n)
		}
	}
}

// TestAskOff: only the host's own name is a word that it is off.
func TestAskOff(t *testing.T) {
	for typed, fine := range map[string]bool{"cmp-01\n": true, " cmp-01 \n": true, "y\n": false, "\n": false, "": false, "cmp-02\n": false} {
		var out output
		if err := askOff(t.Context(), strings.NewReader(typed), &out, "cmp-01"); (err == nil) != fine || !strings.Contains(out.String(), "run twice") {
			t.Errorf("%q: %v\n%s", typed, err, &out)
		}
	}
}

// TestSimulatorOffersTheAPI: what the simulator prints listens on loopback only, and clients find the api in its catalog.
func TestSimulatorOffersTheAPI(t *testing.T) {
	sim := start(t, "sim", "--listen", "127.0.0.1:0", "--hosts", "1", "--instances", "0", "--api", "http://127.0.0.1:1/v1")
	cloud := sim.out.await(t, `listening on (http://\S+)`)
	if text := sim.out.String(); !strings.Contains(text, "masakari_api_listen = 127.0.0.1\n") || !strings.Contains(text, "instance-ha at http://127.0.0.1:1/v1") {
		t.Error(text)
	}
	environ := []string{"OS_AUTH_URL=" + cloud, "OS_USERNAME=admin", "OS_PASSWORD=secret", "OS_PROJECT_NAME=admin"}
	if code, _, stderr := command(t, environ, "segment", "list"); code != exitAway || !strings.Contains(stderr, "no api at http://127.0.0.1:1") {
		t.Errorf("%d %s", code, stderr)
	}
	environ = append(environ, "OS_REGION_NAME=RegionTwo")
	if code, _, stderr := command(t, environ, "segment", "list"); code != exitFailed || !strings.HasPrefix(stderr, "salvor: Keystone's catalog") ||
		!strings.Contains(stderr, `"RegionTwo"`) || !strings.Contains(stderr, "RegionOne") {
		t.Errorf("%d %s", code, stderr)
	}
}

// TestEveryCommandTeaches: each has a sentence, and those with flags or arguments of their own an example or a long text.
func TestEveryCommandTeaches(t *testing.T) {
	root := newRoot(Env{Stderr: io.Discard})
	for _, c := range root.Commands() {
		for _, c := range append(c.Commands(), c) {
			if c.Short == "" || strings.HasSuffix(c.Short, ".") {
				t.Errorf("%s: %q is no short sentence without a stop", c.CommandPath(), c.Short)
			}
			if !c.HasParent() || c.Parent() == root {
				if c.Example == "" && c.Name() != "version" && c.Name() != "help" && c.Name() != "completion" {
					t.Errorf("%s has no example", c.CommandPath())
				}
			}
			for line := range strings.Lines(c.Long + "\n" + c.Example) {
				if n := len([]rune(line)); n > 140 {
					t.Errorf("%s: a line of %d columns: %s", c.CommandPath(), n, line)
				}
			}
		}
	}
}
