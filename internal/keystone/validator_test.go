package keystone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// fakeKeystone is the part of Keystone v3 that a validation uses.
type fakeKeystone struct {
	mu          sync.Mutex
	url         string
	logins      int
	validations int
	session     string                  // the token of the last login: only that one may validate
	tokens      map[string]tokenDetails // what is valid
	status      int                     // answers every validation, when not 0
	gate        chan struct{}           // holds validations up, when not nil
	query       string                  // of the last validation
	body        string                  // answers every validation, when not "", with status or 200
	reset       int                     // so many validations end without an answer
	rules       string                  // access_rules of "ruled", as JSON, given only to who can read them
}

type tokenDetails struct {
	user, project string
	roles         []string
	expires       time.Time
}

func (k *fakeKeystone) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v3/auth/tokens" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if r.Method == http.MethodPost {
		k.logIn(w)
		return
	}
	k.validate(w, r)
}

func (k *fakeKeystone) logIn(w http.ResponseWriter) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.logins++
	k.session = fmt.Sprintf("session-%d", k.logins)
	w.Header().Set("X-Subject-Token", k.session)
	w.WriteHeader(http.StatusCreated)
	writeToken(w, tokenDetails{user: "salvor", expires: time.Now().Add(time.Hour)}, k.url)
}

func (k *fakeKeystone) validate(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	k.validations++
	k.query = r.URL.RawQuery
	subject := r.Header.Get("X-Subject-Token")
	allowed := r.Header.Get("X-Auth-Token") == k.session
	t, known := k.tokens[subject]
	status, gate, body, cut := k.status, k.gate, k.body, k.reset > 0
	if cut {
		k.reset--
	}
	ruled := subject == "ruled" && (k.rules == "" || r.Header.Get("OpenStack-Identity-Access-Rules") != "1.0")
	k.mu.Unlock()
	if gate != nil {
		<-gate
	}
	switch {
	case cut:
		panic(http.ErrAbortHandler)
	case body != "":
		w.WriteHeader(max(status, http.StatusOK))
		_, _ = io.WriteString(w, body)
	case status != 0:
		w.WriteHeader(status)
	case !allowed:
		w.WriteHeader(http.StatusUnauthorized)
	case !known && subject != "ruled", ruled:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error": {"code": 404, "message": "Could not recognize token.", "title": "Not Found"}}`)
	case subject == "ruled":
		w.WriteHeader(http.StatusOK)
		fmt.Fprintf(w, `{"token": {"user": {"id": "u"}, "roles": [{"name": "admin"}], "expires_at": "2099-01-01T00:00:00.000000Z",
			"application_credential": {"access_rules": %s}}}`, k.rules)
	default:
		w.WriteHeader(http.StatusOK)
		writeToken(w, t, k.url)
	}
}

func writeToken(w http.ResponseWriter, t tokenDetails, url string) {
	roles := []map[string]string{}
	for _, r := range t.roles {
		roles = append(roles, map[string]string{"id": r, "name": r})
	}
	token := map[string]any{
		"user":       map[string]any{"id": t.user + "-id", "name": t.user, "domain": map[string]string{"id": "default"}},
		"roles":      roles,
		"expires_at": t.expires.UTC().Format("2006-01-02T15:04:05.000000Z"),
		"catalog": []any{map[string]any{"type": "identity", "endpoints": []any{
			map[string]string{"interface": "internal", "region_id": "R", "region": "R", "url": url + "/v3"},
		}}},
	}
	if t.project != "" {
		token["project"] = map[string]any{"id": t.project, "name": t.project, "domain": map[string]string{"id": "default"}}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token})
}

func (k *fakeKeystone) set(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

func (k *fakeKeystone) counts() (logins, validations int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.logins, k.validations
}

// start runs the fake over real TCP and returns it with a validator that uses it.
func start(t *testing.T, change func(*Config)) (*fakeKeystone, *Validator) {
	t.Helper()
	k := &fakeKeystone{tokens: map[string]tokenDetails{
		"good":    {user: "alice", project: "p1", roles: []string{"admin", "member"}, expires: time.Now().Add(time.Hour)},
		"service": {user: "nova", project: "service", roles: []string{"Service"}, expires: time.Now().Add(time.Hour)},
		"plain":   {user: "bob", project: "p2", roles: []string{"member"}, expires: time.Now().Add(time.Hour)},
		"old":     {user: "carol", project: "p3", roles: []string{"member"}, expires: time.Now().Add(-time.Minute)},
		"system":  {user: "root", roles: []string{"admin"}, expires: time.Now().Add(time.Hour)},
	}}
	srv := httptest.NewServer(k)
	t.Cleanup(srv.Close)
	k.url = srv.URL
	cfg := Config{
		AuthURL: srv.URL + "/v3", Username: "salvor", Password: "secret", UserDomainName: "Default",
		ProjectName: "service", ProjectDomainName: "Default", Interface: "internal", ServiceTokenRoles: []string{"service"},
	}
	if change != nil {
		change(&cfg)
	}
	v, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k, v
}

func request(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v1/segments", nil)
	if token != "" {
		r.Header.Set("X-Auth-Token", token)
	}
	return r
}

func TestAuthenticate(t *testing.T) {
	_, v := start(t, nil)
	for token, want := range map[string]bool{"good": true, "plain": true, "system": true, "": false, "bad": false, "old": false} {
		id, ok, err := v.Authenticate(request(token))
		if err != nil || ok != want {
			t.Errorf("token %q: ok %v, error %v; want %v", token, ok, err, want)
		}
		if token == "good" && (id.UserID != "alice-id" || id.UserName != "alice" || id.ProjectID != "p1" || !slices.Equal(id.Roles, []string{"admin", "member"}) || id.IsAdmin) {
			t.Errorf("identity of %q: %+v", token, id)
		}
		if token == "system" && id.ProjectID != "" {
			t.Errorf("a token without project has project %q", id.ProjectID)
		}
	}
}

func TestClientsCannotSayWhoTheyAre(t *testing.T) {
	_, v := start(t, nil)
	r := request("plain")
	r.Header.Set("X-Roles", "admin")
	r.Header.Set("X-User-Id", "root")
	r.Header.Set("X-Project-Id", "p1")
	id, _, err := v.Authenticate(r)
	if err != nil || id.UserID != "bob-id" || id.ProjectID != "p2" || slices.Contains(id.Roles, "admin") {
		t.Errorf("identity %+v, error %v", id, err)
	}
	for _, name := range []string{"X-Roles", "X-User-Id", "X-Project-Id"} {
		if r.Header.Get(name) != "" {
			t.Errorf("%s of the client is still there", name)
		}
	}
}

func TestVerdictsAreKept(t *testing.T) {
	k, v := start(t, nil)
	for range 5 {
		if _, ok, err := v.Authenticate(request("good")); !ok || err != nil {
			t.Fatalf("ok %v, error %v", ok, err)
		}
		if _, ok, err := v.Authenticate(request("bad")); ok || err != nil {
			t.Fatalf("ok %v, error %v", ok, err)
		}
	}
	if logins, validations := k.counts(); logins != 1 || validations != 2 {
		t.Errorf("%d logins, %d validations; want 1 and 2: a good and a bad token", logins, validations)
	}
}

func TestNoCache(t *testing.T) {
	k, v := start(t, func(c *Config) { c.CacheTime = -1 })
	for range 3 {
		if _, ok, err := v.Authenticate(request("good")); !ok || err != nil {
			t.Fatalf("ok %v, error %v", ok, err)
		}
	}
	if _, validations := k.counts(); validations != 3 {
		t.Errorf("%d validations, want 3", validations)
	}
}

func TestBurstMakesOneCall(t *testing.T) {
	k, v := start(t, nil)
	gate := make(chan struct{})
	k.set(func() { k.gate = gate })
	var wg sync.WaitGroup
	var passed atomic.Int32
	for range 50 {
		wg.Go(func() {
			if _, ok, err := v.Authenticate(request("good")); ok && err == nil {
				passed.Add(1)
			}
		})
	}
	waitFor(t, func() bool { _, n := k.counts(); return n > 0 })
	close(gate)
	wg.Wait()
	if _, validations := k.counts(); passed.Load() != 50 || validations != 1 {
		t.Errorf("%d of 50 passed by %d calls, want all by 1", passed.Load(), validations)
	}
}

func TestOneCallerLeavesOthersStay(t *testing.T) {
	k, v := start(t, nil)
	gate := make(chan struct{})
	k.set(func() { k.gate = gate })
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan bool, 1)
	go func() {
		_, _, err := v.Authenticate(request("good").WithContext(ctx))
		first <- err
	}()
	waitFor(t, func() bool { _, n := k.counts(); return n > 0 })
	go func() {
		_, ok, _ := v.Authenticate(request("good"))
		second <- ok
	}()
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that left got %v", err)
	}
	close(gate)
	if !<-second {
		t.Error("the one that stayed was refused")
	}
}

func TestKeystoneAway(t *testing.T) {
	k, v := start(t, nil)
	for _, status := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusForbidden} {
		k.set(func() { k.status = status })
		_, ok, err := v.Authenticate(request("good"))
		var away *ha.UnavailableError
		if ok || !errors.As(err, &away) || away.What != "keystone" {
			t.Errorf("status %d: ok %v, error %v; want unavailable", status, ok, err)
		}
	}
	k.set(func() { k.status = 0 })
	if _, ok, err := v.Authenticate(request("good")); !ok || err != nil {
		t.Errorf("back again: ok %v, error %v: a failure must not be kept", ok, err)
	}
}

// TestAnswersThatAreNoKeystones: what a proxy or a half-started Keystone says of a token is not believed, and not kept.
func TestAnswersThatAreNoKeystones(t *testing.T) {
	k, v := start(t, func(c *Config) { c.Retries = 9 })
	v.session.pause = time.Nanosecond
	for _, answer := range []struct {
		status int
		body   string
	}{
		{200, "{}"}, {200, `{"token": {}}`}, {200, `{"token": {"user": {"id": "x"}}}`}, {200, `{"token": {"user": {"id": 7}}}`}, {200, "[]"}, {200, "<html>"}, {200, `{"token": `},
		{404, "<html>not found</html>"}, {404, `{"message": "no route"}`}, {404, `{"error": "x"}`}, {429, `{"error": {"code": 429, "message": "slow"}}`},
		{300, "{}"}, {400, `{"error": {"code": 400, "message": "bad"}}`}, {401, "x"}, {502, "<html>"}, {504, ""},
		{200, strings.Repeat(" ", maxAnswer) + `{"token": {"user": {"id": "x"}, "expires_at": "2999-01-01T00:00:00Z"}}`}, {500, strings.Repeat("x", maxAnswer+1)},
	} {
		for _, bring := range []*http.Request{request("good"), both("good", "service")} {
			k.set(func() { k.status, k.body = answer.status, answer.body+" " })
			_, before := k.counts()
			_, ok, err := v.Authenticate(bring)
			var away *ha.UnavailableError
			if ok || !errors.As(err, &away) {
				t.Errorf("%d %s: ok %v, error %v; want unavailable", answer.status, answer.body, ok, err)
			}
			if _, after := k.counts(); after-before > 2 { // one more with a new login after 401
				t.Errorf("%d %s: asked %d times", answer.status, answer.body, after-before)
			}
		}
	}
	k.set(func() { k.status, k.body = 0, "" })
	if _, ok, err := v.Authenticate(request("good")); !ok || err != nil {
		t.Errorf("back again: ok %v, error %v", ok, err)
	}
}

// What answers in Keystone's place is told in one short line, without what it was sent.
func TestWhatKeystoneSaysIsBounded(t *testing.T) {
	k, v := start(t, nil)
	for _, said := range []string{strings.Repeat("no ", 1<<20), "who is salvor with secret?\nAnd session-1, and gAAAAtoken?"} {
		body, _ := json.Marshal(map[string]any{"error": map[string]any{"code": 500, "message": said}})
		k.set(func() { k.status, k.body, k.tokens["gAAAAtoken"] = 500, string(body), k.tokens["good"] })
		_, _, err := v.Authenticate(request("gAAAAtoken"))
		if err == nil || len(err.Error()) > 600 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%d bytes: %.600q", len(fmt.Sprint(err)), fmt.Sprint(err))
		}
		for _, secret := range []string{"with secret", "session-1", "gAAAAtoken"} {
			if strings.Contains(fmt.Sprint(err), secret) {
				t.Errorf("%q is in %v", secret, err)
			}
		}
	}
}

// TestNoAnswerIsAskedForAgain: as often as http_request_max_retries says.
func TestNoAnswerIsAskedForAgain(t *testing.T) {
	k, v := start(t, func(c *Config) { c.Retries = 2 })
	v.session.pause = time.Nanosecond
	k.set(func() { k.reset = 2 })
	if _, ok, err := v.Authenticate(request("good")); !ok || err != nil {
		t.Errorf("after two tries without an answer: ok %v, error %v", ok, err)
	}
	k.set(func() { k.reset = 100 })
	_, before := k.counts()
	if _, ok, err := v.Authenticate(request("plain")); ok || err == nil {
		t.Errorf("never an answer: ok %v, error %v", ok, err)
	}
	if _, after := k.counts(); after-before > 6 { // net/http itself repeats once what got no answer on an open connection
		t.Errorf("%d tries", after-before)
	}
}

// TestKeystoneMoves: its new place is found in the catalog, without a restart.
func TestKeystoneMoves(t *testing.T) {
	k, v := start(t, nil)
	if _, ok, err := v.Authenticate(request("good")); !ok || err != nil {
		t.Fatalf("ok %v, error %v", ok, err)
	}
	second := httptest.NewServer(k)
	t.Cleanup(second.Close)
	client := v.session.client.Load()
	client.Endpoint = "http://127.0.0.1:1/v3/" // as if it had been there, and is gone
	if _, ok, err := v.Authenticate(request("plain")); ok || err == nil {
		t.Fatalf("nobody is there: ok %v, error %v", ok, err)
	}
	k.set(func() { k.url = second.URL })
	if _, ok, err := v.Authenticate(request("plain")); !ok || err != nil {
		t.Errorf("moved: ok %v, error %v", ok, err)
	}
	if got := v.session.client.Load().Endpoint; got != second.URL+"/v3/" {
		t.Errorf("asked at %s", got)
	}
}

// TestAccessRules: a credential with rules may do what they name, of the service that service_type says; and nothing where salvor cannot
// know which that is.
func TestAccessRules(t *testing.T) {
	const rules = `[{"service": "instance-ha", "method": "GET", "path": "/v1/segments"}, {"service": "instance-ha", "method": "POST", "path": "/v1/*/hosts"},
		{"service": "instance-ha", "method": "PUT", "path": "/v1/**"}, {"service": "compute", "method": "DELETE", "path": "/v1/segments"},
		{"service": "instance-ha", "method": "GET", "path": "/v1/{project_id}/segments.json"}]`
	for _, tt := range []struct {
		service, rules, method, path string
		want                         bool
	}{
		{"instance-ha", rules, "GET", "/v1/segments", true},
		{"instance-ha", rules, "GET", "/v1/segments/x", false},
		{"instance-ha", rules, "POST", "/v1/segments", false},
		{"instance-ha", rules, "POST", "/v1/a/hosts", true},
		{"instance-ha", rules, "POST", "/v1/a/b/hosts", false},
		{"instance-ha", rules, "PUT", "/v1/a/b/c", true},
		{"instance-ha", rules, "DELETE", "/v1/segments", false},
		{"instance-ha", rules, "GET", "/v1/p/segments.json", true},
		{"instance-ha", rules, "GET", "/v1/p/segmentsxjson", false},
		{"instance-ha", "[]", "GET", "/v1/segments", false},
		{"instance-ha", "null", "DELETE", "/v1/segments", true},
		{"", rules, "GET", "/v1/segments", false},
	} {
		k, v := start(t, func(c *Config) { c.ServiceType = tt.service })
		k.set(func() { k.rules = tt.rules })
		for range 2 { // the second from the cache
			r := httptest.NewRequest(tt.method, tt.path, nil)
			r.Header.Set("X-Auth-Token", "ruled")
			if _, ok, err := v.Authenticate(r); ok != tt.want || err != nil {
				t.Errorf("%+v: ok %v, error %v", tt, ok, err)
			}
		}
		r := httptest.NewRequest("DELETE", "/v1/x", nil)
		r.Header.Set("X-Auth-Token", "ruled")
		r.Header.Set("X-Service-Token", "service")
		if _, ok, err := v.Authenticate(r); ok != (tt.service != "") || err != nil {
			t.Errorf("on behalf of a service, %+v: ok %v, error %v", tt, ok, err)
		}
		r.Header.Set("X-Service-Token", "plain")
		if _, ok, _ := v.Authenticate(r); ok && tt.rules != "null" {
			t.Errorf("with a token that is no service's, %+v passes", tt)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	_, v := start(t, func(c *Config) { c.AuthURL = "http://" + addr + "/v3" })
	_, ok, err := v.Authenticate(request("good"))
	var away *ha.UnavailableError
	if ok || !errors.As(err, &away) {
		t.Errorf("ok %v, error %v; want unavailable", ok, err)
	}
}

func TestLogsInAgain(t *testing.T) {
	k, v := start(t, func(c *Config) { c.CacheTime = -1 })
	check := func() {
		t.Helper()
		if _, ok, err := v.Authenticate(request("good")); !ok || err != nil {
			t.Fatalf("ok %v, error %v", ok, err)
		}
	}
	check()
	k.set(func() { k.session = "expired" }) // as if Keystone had forgotten our token
	check()
	if _, ok, err := v.Authenticate(request("bad")); ok || err != nil {
		t.Errorf("after a new login a bad token is: ok %v, error %v", ok, err)
	}
	if logins, _ := k.counts(); logins != 2 {
		t.Errorf("%d logins, want 2", logins)
	}
	k.set(func() { k.session = "expired again" })
	if _, ok, err := v.Authenticate(request("bad")); ok || err != nil {
		t.Errorf("a bad token that came with a new login: ok %v, error %v", ok, err)
	}
}

func both(user, service string) *http.Request {
	r := request(user)
	r.Header.Set("X-Service-Token", service)
	return r
}

func TestServiceTokens(t *testing.T) {
	k, v := start(t, nil)
	for _, c := range []struct {
		user, service string
		want          bool
	}{
		{"good", "service", true},
		{"good", "plain", true}, // roles are not required by default
		{"good", "bad", false},
		{"bad", "service", false},
		{"old", "service", true}, // a service may finish what its user began
		{"old", "plain", false},
	} {
		if _, ok, err := v.Authenticate(both(c.user, c.service)); ok != c.want || err != nil {
			t.Errorf("%s with %s: ok %v, error %v; want %v", c.user, c.service, ok, err, c.want)
		}
	}
	if _, ok, _ := v.Authenticate(request("old")); ok {
		t.Error("what a service may do was kept for everybody")
	}
	if _, ok, _ := v.Authenticate(both("plain", "service")); !ok || k.query != "nocatalog=1&allow_expired=1" {
		t.Errorf("for a service: ok %v, asked with %q", ok, k.query)
	}
	_, v = start(t, func(c *Config) { c.ServiceTokenRolesRequired = true })
	if _, ok, err := v.Authenticate(both("good", "plain")); ok || err != nil {
		t.Errorf("a service token without the role: ok %v, error %v", ok, err)
	}
}

func TestTimesOfTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(2)
		a, b, d := keyOf("a", false), keyOf("b", false), keyOf("d", false)
		c.put(a, verdict{valid: true}, time.Now().Add(time.Minute))
		c.put(b, verdict{}, time.Now().Add(10*time.Second))
		time.Sleep(9 * time.Second)
		if _, ok := c.get(b); !ok {
			t.Error("b is gone before its time")
		}
		time.Sleep(time.Second)
		if _, ok := c.get(b); ok {
			t.Error("b stays beyond its time")
		}
		if said, ok := c.get(a); !ok || !said.valid {
			t.Error("a is lost")
		}
		c.put(b, verdict{}, time.Now().Add(time.Minute))
		if _, ok := c.get(a); !ok { // a is used last, b goes
			t.Error("a is lost")
		}
		c.put(d, verdict{}, time.Now().Add(time.Minute))
		if _, ok := c.get(b); ok || c.order.Len() != 2 || len(c.entries) != 2 {
			t.Errorf("the cache holds %d, b kept: %v", c.order.Len(), ok)
		}
		c.put(a, verdict{}, time.Now().Add(-time.Second))
		if _, ok := c.get(a); ok {
			t.Error("an old verdict is kept")
		}
	})
}

func TestTokenIsNotKeptBeyondItsEnd(t *testing.T) {
	k, v := start(t, nil)
	k.set(func() {
		k.tokens["short"] = tokenDetails{user: "s", expires: time.Now().Add(time.Minute)} // less than the cache keeps
	})
	if _, ok, _ := v.Authenticate(request("short")); !ok {
		t.Fatal("a valid token is refused")
	}
	e := v.cache.entries[keyOf("short", false)]
	if e == nil {
		t.Fatal("not kept at all")
	}
	if until := e.Value.(*cached).until; time.Until(until) > time.Minute {
		t.Errorf("kept for %v, longer than it is valid", time.Until(until))
	}
}

func TestUnusableConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no auth_url": {Username: "x", Password: "y"},
		"no account":  {AuthURL: "http://127.0.0.1/v3"},
		"no cafile":   {AuthURL: "http://127.0.0.1/v3", Username: "x", CAFile: "/nonexistent/ca.pem"},
		"no certfile": {AuthURL: "http://127.0.0.1/v3", Username: "x", CertFile: "/nonexistent/cert.pem"},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// waitFor polls a condition that another goroutine brings about.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("it did not happen within 5 s")
}
