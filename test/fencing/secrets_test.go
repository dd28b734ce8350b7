package fencing

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// Accounts of the fencing file, as they stand nowhere else.
const (
	user         = "fencer"
	scriptSecret = "hX7-script&pw"
	echoSecret   = "hX7-echo/pw+1&<"
	trueSecret   = "hX7-true=pw"
	secretOption = "hX7-option pw"
	mark         = "hX7" // is in all of them
)

// TestMain sets what the fencing file refers to: in a test that runs beside others it could not be set.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"FENCING_TEST_PASSWORD": echoSecret, "FENCING_TEST_OPTION": secretOption} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	m.Run()
}

// TestSecretsStayInTheFile: a program that prints all it gets, and a BMC that repeats the account in its errors, are tried before one
// that refuses at first. What salvor logs, and what an operator is shown, has no secret (field finding F137).
func TestSecretsStayInTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"chatty":   "#!/bin/sh\nenv\ntee /dev/stderr\nexit 1\n",
		"password": trueSecret + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	echo, door := echoes(t), &account{t: t}
	door.locked.Store(true)
	door.serve()
	w := cloud(t, "", 4, strings.NewReplacer("DIRECTORY", dir, "ECHO", echo, "DOOR", door.url).Replace(`
defaults: {deadline: 30s, pause: 0.1s, insecure: true, user: `+user+`}
hosts:
  "*":
    - {kind: command, name: chatty, command: DIRECTORY/chatty, password: "`+scriptSecret+`", options: {token: "env:FENCING_TEST_OPTION"}}
    - {kind: redfish, name: echo, address: ECHO, auth: session, system: "{host}", password: "env:FENCING_TEST_PASSWORD"}
    - {kind: redfish, name: echo-basic, address: ECHO, system: "{host}", password: "env:FENCING_TEST_PASSWORD"}
    - {kind: redfish, name: good, address: DOOR, system: "{host}", password_file: DIRECTORY/password}
`), "fencing_rehearsal_interval = 1", "[DEFAULT]", "debug = true")
	door.leadTo(w.sim)
	w.ask(w.serve("salvor"))
	w.register(t, "host-1")
	w.do(t, "host-1", "hang")
	n := w.unknown(t, "host-1")
	w.says(t, n, "host-1 could not be fenced", "chatty", "echo", "echo-basic", "good: not seen: login refused")
	w.salvor.Await(t, "ALARM: fencing of host-1 would fail", patience)
	w.salvor.Await(t, "ALARM: host host-1 could not be fenced", patience)
	door.locked.Store(false)
	r := w.recovered(t, "host-1", n, "fenced")
	story, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	_, tried := w.run("fence", "test", "--host", "host-1", "--config-file", w.conf)
	said := map[string]string{
		"the api":         string(story),
		"recovery show":   w.mustRun("recovery", "show", n),
		"fence test":      tried,
		"config":          w.mustRun("config", "show", "--config-file", w.conf),
		"salvor's output": strings.Join(w.salvor.Last(5000), "\n"),
	}
	for what, text := range said {
		if what != "config" && !strings.Contains(text, "host-1") {
			t.Errorf("%s says nothing of host-1:\n%s", what, text)
		}
		for _, line := range strings.Split(text, "\n") {
			if has := secretIn(line); has != "" {
				t.Errorf("%s has %s: %s", what, has, line)
			}
		}
	}
	for _, what := range []string{"the api", "fence test", "salvor's output"} { // they were all tried, and what they said is told
		for _, method := range []string{"chatty", "echo", "echo-basic", "good"} {
			if !strings.Contains(said[what], method) {
				t.Errorf("%s does not tell of %s:\n%s", what, method, said[what])
			}
		}
	}
}

// secretIn is what a line gives away, as it is or as it is sent; "" for nothing.
func secretIn(line string) string {
	if strings.Contains(line, mark) {
		return "a secret"
	}
	for _, secret := range []string{scriptSecret, echoSecret, trueSecret, secretOption} {
		if strings.Contains(line, base64.StdEncoding.EncodeToString([]byte(user+":"+secret))) || strings.Contains(line, url.QueryEscape(secret)) {
			return "a secret in other letters"
		}
	}
	return ""
}

// echoes is a BMC that refuses everything and repeats what it was sent.
func echoes(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<16))
		name, pass, _ := r.BasicAuth()
		text, _ := json.Marshal(fmt.Sprintf("not like this: %s %s; %s, which is %s and %s", r.Method, body, r.Header.Get("Authorization"), name, pass))
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusInternalServerError)
		_, _ = fmt.Fprintf(rw, `{"error": {"code": "Base.1.0.GeneralError", "message": %s}}`, text)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// account stands before the simulator's BMCs and wants the true account, which may be locked.
type account struct {
	t      *testing.T
	url    string
	locked atomic.Bool
	proxy  *httputil.ReverseProxy
}

func (a *account) serve() {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if name, pass, ok := r.BasicAuth(); !ok || name != user || pass != trueSecret || a.locked.Load() {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.Header.Del("Authorization") // the simulator has other accounts
		a.proxy.ServeHTTP(rw, r)
	}))
	a.url = "http://" + s.Listener.Addr().String()
	s.Start()
	a.t.Cleanup(s.Close)
}

func (a *account) leadTo(sim string) {
	to, err := url.Parse(sim)
	if err != nil {
		a.t.Fatal(err)
	}
	a.proxy = httputil.NewSingleHostReverseProxy(to)
}
