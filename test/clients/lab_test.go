package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// lab is a cloud, salvor before it, and what stands in the clients' way.
type lab struct {
	t     *testing.T
	cloud *front // Keystone, Nova and the catalog, for clients and for salvor
	door  *door  // what the catalog gives as salvor's address
}

// open starts everything over the database, with salvor listed in Keystone's catalog.
func open(t *testing.T, database string) *lab {
	t.Helper()
	sim := testkit.Start(t, "sim", "sim", "--listen", "127.0.0.1:0", "--hosts", "4", "--instances", "0").URL(t)
	l := &lab{t: t, cloud: &front{}, door: &door{}}
	l.cloud.serve(t, sim)
	conf := filepath.Join(t.TempDir(), "masakari.conf")
	text := strings.NewReplacer("CLOUD", l.cloud.url, "DATABASE", database, "STATE", t.TempDir()).Replace(`[DEFAULT]
auth_strategy = keystone
state_path = STATE
wait_period_after_service_update = 1
os_privileged_user_auth_url = CLOUD/v3
os_privileged_user_name = masakari
os_privileged_user_password = secret
os_privileged_user_tenant = service

[database]
connection = DATABASE

[keystone_authtoken]
auth_url = CLOUD/v3
username = masakari
password = secret
project_name = service
user_domain_name = Default
project_domain_name = Default
token_cache_time = -1

[salvor]
nova_report_interval = 2
`)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), testkit.Binary(t), "db", "sync", "--config-file", conf).CombinedOutput(); err != nil {
		t.Fatalf("salvor db sync: %v\n%s", err, out)
	}
	l.door.serve(t, testkit.Start(t, "salvor", "serve", "--config-file", conf, "--listen", "127.0.0.1:0").URL(t))
	l.cloud.list(l.door.url)
	return l
}

// front stands before the simulated cloud: it puts salvor into the catalog, and can be away.
type front struct {
	url string

	mu     sync.Mutex
	salvor string
	away   string // a prefix of paths that answer 503
}

func (f *front) list(salvor string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.salvor = salvor
}

// leave makes a service answer 503, such as "/v3/auth" or "/compute"; "" brings it back.
func (f *front) leave(prefix string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = prefix
}

func (f *front) state() (salvor, away string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.salvor, f.away
}

func (f *front) serve(t *testing.T, sim string) {
	t.Helper()
	target, err := url.Parse(sim)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // so that links lead here
		},
		ModifyResponse: f.addToCatalog,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, away := f.state(); away != "" && strings.HasPrefix(r.URL.Path, away) {
			http.Error(w, `{"error": {"code": 503, "title": "Service Unavailable", "message": "away"}}`, http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	f.url = s.URL
}

// addToCatalog adds salvor to the catalog of a token, as an operator lists Masakari: with the project's id.
func (f *front) addToCatalog(resp *http.Response) error {
	if !strings.HasPrefix(resp.Request.URL.Path, "/v3/auth/tokens") {
		return nil
	}
	raw, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return err
	}
	var body map[string]map[string]any
	salvor, _ := f.state()
	if err := json.Unmarshal(raw, &body); err == nil && body["token"]["catalog"] != nil {
		link := salvor + "/v1"
		if project, ok := body["token"]["project"].(map[string]any); ok {
			link += "/" + project["id"].(string)
		}
		var endpoints []any
		for _, i := range []string{"public", "internal", "admin"} {
			endpoints = append(endpoints, map[string]any{"id": "ha-" + i, "interface": i, "region": "RegionOne", "region_id": "RegionOne", "url": link})
		}
		catalog := slices.DeleteFunc(body["token"]["catalog"].([]any), func(entry any) bool { // the simulator's own guess
			return entry.(map[string]any)["type"] == "instance-ha"
		})
		body["token"]["catalog"] = append(catalog, map[string]any{"id": "masakari", "type": "instance-ha", "name": "masakari", "endpoints": endpoints})
		if raw, err = json.Marshal(body); err != nil {
			return err
		}
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	resp.Header.Set("Content-Length", strconv.Itoa(len(raw)))
	return nil
}

// door stands before salvor: it notes who asks for what, checks all of it, and can fail as networks and balancers do.
type door struct {
	url string

	mu      sync.Mutex
	seen    []string // "POST /v1/notifications 202"
	trouble []string // of the next POSTs of a notification: a status, or "cut"
}

func (d *door) serve(t *testing.T, salvor string) {
	t.Helper()
	target, err := url.Parse(salvor)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		},
		Transport: testkit.Document(t).Transport(t, &http.Transport{DisableCompression: true}),
		ModifyResponse: func(resp *http.Response) error {
			d.note(resp.Request, strconv.Itoa(resp.StatusCode))
			return nil
		},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch what := d.next(r); what {
		case "":
			proxy.ServeHTTP(w, r)
		case "cut":
			d.note(r, what)
			panic(http.ErrAbortHandler) // the connection is closed
		case "lost": // salvor has it, the client never learns of it
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			d.note(r, what)
			status, _ := strconv.Atoi(what)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `{"x": {"code": %d, "message": "as the test has it"}}`, status)
		}
	}))
	t.Cleanup(s.Close)
	d.url = s.URL
}

func (d *door) note(r *http.Request, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	line := r.Method + " " + r.URL.Path
	if r.URL.RawQuery != "" {
		line += "?" + r.URL.RawQuery
	}
	d.seen = append(d.seen, line+" "+what)
}

func (d *door) next(r *http.Request) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/notifications") || len(d.trouble) == 0 {
		return ""
	}
	what := d.trouble[0]
	d.trouble = d.trouble[1:]
	return what
}

// fail sets what becomes of the next POSTs of a notification.
func (d *door) fail(what ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trouble = what
}

// since returns what was asked for since the last call, of the requests that contain the text, without the project's id.
func (d *door) since(text string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []string
	for _, line := range d.seen {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	d.seen = nil
	return found
}

// interpreter is Debian's, whatever python3 is first in PATH.
const interpreter = "/usr/bin/python3"

// needs skips the test where a Python module of Debian's is not installed.
func needs(t *testing.T, module, pkg string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), interpreter, "-c", "import "+module)
	cmd.Env = append(os.Environ(), "PYTHONPATH=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: %s is not installed (%v %s)", pkg, err, lastLine(out))
	}
}

func lastLine(out []byte) string {
	text := strings.TrimSpace(string(out))
	return text[strings.LastIndex(text, "\n")+1:]
}

// environment is that of an openrc file.
func (l *lab) environment(user, project string) []string {
	return append(os.Environ(),
		"OS_AUTH_URL="+l.cloud.url+"/v3", "OS_USERNAME="+user, "OS_PASSWORD=secret", "OS_PROJECT_NAME="+project,
		"OS_USER_DOMAIN_NAME=Default", "OS_PROJECT_DOMAIN_NAME=Default", "OS_REGION_NAME=RegionOne", "OS_IDENTITY_API_VERSION=3",
		"no_proxy=127.0.0.1", "NO_PROXY=127.0.0.1", "PYTHONPATH=", "PYTHONWARNINGS=ignore", "HOME="+l.t.TempDir())
}

// run runs a client as a user in the project of the same name; it returns what it prints, and its exit code.
func (l *lab) run(user, stdin string, command ...string) (stdout, stderr string, code int) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = l.environment(user, user)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		l.t.Fatalf("%v: %v", command, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// lose makes a host fail with two instances on it.
func (l *lab) lose(host string) {
	l.t.Helper()
	testkit.Must(l.t, 200, "POST", l.cloud.url+"/sim/instances", map[string]any{"host": host, "count": 2, "metadata": map[string]any{"HA_Enabled": "True"}})
	testkit.Must(l.t, 200, "POST", l.cloud.url+"/sim/hosts/"+host+"/kill", nil)
}
