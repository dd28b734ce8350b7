package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
		{"sim --scale 0", 2, []string{"--scale 0: expected a number from 0.001 to 1000"}},
		{"sim --scale NaN", 2, []string{"--scale NaN: expected a number from"}},
		{"sim --scale -Inf", 2, []string{"--scale -Inf: expected a number from"}},
		{"sim --scale 1e300", 2, []string{"--scale 1e+300: expected a number from"}},
		{"sim --rate NaN", 2, []string{"--rate NaN: expected evacuations a second"}},
		{"sim --rate Inf", 2, []string{"--rate +Inf: expected evacuations a second"}},
		{"sim --rate -1", 2, []string{"--rate -1: expected evacuations a second"}},
		{"sim --hosts -1", 2, []string{"are not negative"}},
		{"sim --api 127.0.0.1", 2, []string{"--api \"127.0.0.1\"", "http://127.0.0.1:15868/v1"}},
		{"serve --config-file /nowhere/masakari.conf", 1, []string{"/nowhere/masakari.conf"}},
		{"serve --config-file " + bad, 1, []string{bad + ":2", "osapi_max_limit", `"many"`, bad + ":4", "brake_percent"}},
		{"config show --config-file " + typo, 0, []string{"warning: " + typo + ":2", "did you mean brake_percent?", "state_path = ", typo + ":5"}},
		{"config show --config-file " + bad, 1, []string{"osapi_max_limit"}},
		{"config show --all --config-file " + typo, 0, []string{"# default\n", "brake_percent = 50\n"}},
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

// TestConfigShowCanBeUsed: what config show prints is a masakari.conf with the same effect, but for secrets, which are comments.
func TestConfigShowCanBeUsed(t *testing.T) {
	file := conf(t, `[DEFAULT]
host = "db # 1"
control_exchange = ' quoted "word" '
transport_url = rabbit://salvor:PASSWORD@mq-1:5672/
os_privileged_user_tenant = $control_exchange and $$HOME
os_privileged_user_password = pass
[database]
connection = sqlite:////tmp/x.sqlite
[host_failure]
service_disable_reason = "'said' twice"
[oslo_messaging_notifications]
driver = log
driver = noop
[salvor]
webhook_url = https://a.example.com/in?key=KEY
instance_class = db: metadata.tier=db|queue,
    action=evacuate
`)
	environ := []string{"OS_DEFAULT__OS_REGION_NAME= north ", "OS_PROCESS_FAILURE__SERVICE_DISABLE_REASON=two\n\nlines"}
	code, shown, stderr := command(t, environ, "config", "show", "--config-file", file)
	if code == 0 { // a host's name has no blanks
		t.Errorf("exit status 0: %s", stderr)
	}
	for _, want := range []string{"\n# " + file + ":3\ncontrol_exchange = \" quoted \"word\" \"\n", "\n#os_privileged_user_password = ***\n",
		"os_privileged_user_tenant = \" quoted \"word\"  and $$HOME\"\n", ":6; a secret is not shown: put it in before you use the line\n",
		"\n#transport_url = rabbit://***@mq-1:5672/\n", "\nconnection = sqlite:////tmp/x.sqlite\n", "\nservice_disable_reason = 'said' twice\n",
		"driver = log\ndriver = noop\n", "\n#webhook_url = https://***\n", "instance_class = db: metadata.tier=db|queue,\n    action=evacuate\n",
		"# environment OS_DEFAULT__OS_REGION_NAME\nos_region_name = \" north \"\n", "#service_disable_reason = two\n#    \n#    lines\n# the value above"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in:\n%s", want, shown)
		}
	}
	copied := filepath.Join(t.TempDir(), "copied.conf")
	if err := os.WriteFile(copied, []byte(shown), 0o600); err != nil {
		t.Fatal(err)
	}
	code, again, stderr := command(t, nil, "config", "show", "--config-file", copied)
	if code != 0 {
		t.Fatalf("what was shown: %d\n%s", code, stderr)
	}
	if diff := cmp.Diff(lively(shown), lively(again)); diff != "" {
		t.Errorf("what was shown has another effect: %s", diff)
	}
}

// lively are the lines of a file that set something.
func lively(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return line == "" || line[0] == '#' || line[0] == '[' })
}

// TestCommentBehindAValue: it is part of the value, and config check says so, where quotes do not say that it is meant.
func TestCommentBehindAValue(t *testing.T) {
	file := conf(t, `[DEFAULT]
os_region_name = north # the old one
os_privileged_user_password = secret	# of the vault
os_privileged_user_tenant = "room # 7"
control_exchange = masakari;x#y
tempdir = /tmp # without effect
nova_catalog_admin_info = # unset
[host_failure]
service_disable_reason = one
    # two
`)
	code, stdout, _ := command(t, nil, "config", "check", "--config-file", file)
	if code != 1 {
		t.Errorf("exit status %d", code)
	}
	for _, line := range []int{2, 3, 9} {
		if want := fmt.Sprintf("%s:%d: the # in option", file, line); strings.Count(stdout, want) != 1 {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if n := strings.Count(stdout, ": the # in option"); n != 3 {
		t.Errorf("%d findings in\n%s", n, stdout)
	}
	if !strings.Contains(stdout, "do: put the comment on a line of its own; if it is none, put the value in quotes\n") || strings.Contains(stdout, "vault") {
		t.Errorf("it says\n%s", stdout)
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

// TestSegmentsGoWithTheirHosts: which of them nothing recovers any more is said; the names are those of twenty at most.
func TestSegmentsGoWithTheirHosts(t *testing.T) {
	for count, want := range map[int]string{0: "removed\n", 1: "with its host cmp-01: nothing recovers these", 2: "with its 2 hosts cmp-01, cmp-02: nothing", 25: "with its 25 hosts cmp-01, "} {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var hosts []string
			for i := range count {
				hosts = append(hosts, fmt.Sprintf(`{"id": %d, "uuid": "%d", "name": "cmp-%02d"}`, i+1, i+1, i+1))
			}
			switch {
			case r.Method == http.MethodDelete:
				w.WriteHeader(http.StatusNoContent)
			case r.URL.Query().Get("marker") != "":
				_, _ = io.WriteString(w, `{"hosts": [], "segments": []}`)
			case strings.HasSuffix(r.URL.Path, "/hosts"):
				_, _ = io.WriteString(w, `{"hosts": [`+strings.Join(hosts, ", ")+`]}`)
			default:
				_, _ = io.WriteString(w, `{"segments": [{"id": 1, "uuid": "1", "name": "rack-4"}]}`)
			}
		}))
		code, stdout, stderr := command(t, []string{"SALVOR_URL=" + api.URL}, "segment", "delete", "rack-4")
		if code != 0 || !strings.Contains(stdout, want) || strings.Contains(stdout, "cmp-21") {
			t.Errorf("%d hosts: exit code %d\n%s%s", count, code, stdout, stderr)
		}
		api.Close()
	}
}

// TestYAMLIsReadByOlderReadersToo: Python's reads YAML 1.1, where no is false and 12:30 is 750.
func TestYAMLIsReadByOlderReadersToo(t *testing.T) {
	for _, word := range []string{"no", "Yes", "ON", "off", "y", "N", "=", "<<", "12:30", "1:02:03.5", "0123", "1e3", "true", "null", "~", "1_000"} {
		if got, err := yamlOf(map[string]string{"name": word}); err != nil || string(got) != `name: "`+word+"\"\n" {
			t.Errorf("%s: %s, %v", word, got, err)
		}
	}
	for _, word := range []string{"none", "offer", "cmp-01", "12:75", "a=b", "10.0.0.1:80"} {
		if got, err := yamlOf(map[string]string{"name": word}); err != nil || string(got) != "name: "+word+"\n" {
			t.Errorf("%s: %s, %v", word, got, err)
		}
	}
}

// TestSimulatorOffersTheAPI: what the simulator prints listens on loopback only, at the port of its catalog, and clients find the api in its catalog.
func TestSimulatorOffersTheAPI(t *testing.T) {
	sim := start(t, "sim", "--listen", "127.0.0.1:0", "--hosts", "1", "--instances", "0", "--api", "http://127.0.0.1:1/v1")
	cloud := sim.out.await(t, `listening on (http://\S+)`)
	if text := sim.out.String(); !strings.Contains(text, "masakari_api_listen = 127.0.0.1\n") || !strings.Contains(text, "[DEFAULT]\nmasakari_api_listen_port = 1\n") ||
		!strings.Contains(text, "instance-ha at http://127.0.0.1:1/v1") {
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
