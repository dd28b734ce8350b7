package nova

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/engine"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/service"
)

var (
	_ engine.Cloud            = (*Client)(nil)
	_ service.ComputeServices = (*Client)(nil)
)

const password = "keystone-password"

// request is what a fake service was asked.
type request struct {
	method, path, query, body string
	header                    http.Header
}

// fake is a Keystone, a Nova and a Placement on one port. Answers of Nova and Placement are given per "METHOD path".
type fake struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request // without those for tokens
	logins   []string  // bodies
	token    int       // number of the valid one
	versions string
	catalog  string
	answers  map[string]http.HandlerFunc
	keystone http.HandlerFunc // instead of its own
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{answers: map[string]http.HandlerFunc{},
		versions: `{"version": {"id": "v2.1", "status": "CURRENT", "version": "2.93", "min_version": "2.1"}}`}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	f.catalog = `[
		{"type": "identity", "name": "keystone", "endpoints": []},
		{"type": "compute", "name": "nova-old", "endpoints": [{"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": "http://wrong.invalid/v2.1"}]},
		{"type": "compute", "name": "nova", "endpoints": [
			{"interface": "internal", "region": "RegionOne", "region_id": "RegionOne", "url": "http://wrong.invalid/v2.1"},
			{"interface": "public", "region": "RegionTwo", "region_id": "RegionTwo", "url": "` + f.URL + `/two/v2.1/0123abcd"},
			{"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": "` + f.URL + `/compute/v2.1"}]},
		{"type": "placement", "name": "placement", "endpoints": [
			{"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": "` + f.URL + `/placement"}]}]`
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // never complete: no service can act on it
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.URL.Path == "/identity/v3/auth/tokens" {
		f.logins = append(f.logins, string(body))
		if f.keystone != nil {
			f.keystone(w, r)
			return
		}
		f.token++
		w.Header().Set("X-Subject-Token", fmt.Sprintf("token-%d", f.token))
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"token": {"methods": ["password"], "expires_at": "2099-01-01T00:00:00.000000Z", "catalog": %s}}`, f.catalog)
		return
	}
	f.requests = append(f.requests, request{r.Method, r.URL.Path, r.URL.RawQuery, string(body), r.Header.Clone()})
	if r.Header.Get("X-Auth-Token") != fmt.Sprintf("token-%d", f.token) {
		fault(401, `{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}`)(w, r)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/v2.1/") && r.Method == http.MethodGet {
		_, _ = io.WriteString(w, f.versions)
		return
	}
	if h := f.answers[r.Method+" "+r.URL.Path]; h != nil {
		h(w, r)
		return
	}
	fault(404, `{"itemNotFound": {"code": 404, "message": "no such thing"}}`)(w, r)
}

// answer gives a call its answer.
func (f *fake) answer(call string, h http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[call] = h
}

// expireToken makes the token that the client has invalid.
func (f *fake) expireToken() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.token++
}

// calls returns what was asked with this method and path.
func (f *fake) calls(call string) []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []request
	for _, r := range f.requests {
		if r.method+" "+r.path == call {
			all = append(all, r)
		}
	}
	return all
}

func (f *fake) loginCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.logins)
}

func ok(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

func fault(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// cut closes the connection instead of answering, after sending what is given.
func cutAfter(sent string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = buffered.WriteString(sent)
		_ = buffered.Flush()
		_ = conn.Close()
	}
}

func (f *fake) config() Config {
	return Config{AuthURL: f.URL + "/identity", User: "salvor", Password: config.NewSecret(password), Project: "service", Region: "RegionOne"}
}

func (f *fake) client(t *testing.T, change ...func(*Config)) *Client {
	t.Helper()
	cfg := f.config()
	for _, ch := range change {
		ch(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// wantError checks class and status of err, and that its text holds want and no secret.
func wantError(t *testing.T, err error, class ha.Class, status int, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want %s %d %s", class, status, want)
	}
	if ha.ClassOf(err) != class || ha.StatusOf(err) != status || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v\nwant class %q, status %d, text %q", err, class, status, want)
	}
	for _, secret := range []string{password, "token-"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("a secret in %v", err)
		}
	}
}

// jsonEqual compares JSON texts by value.
func jsonEqual(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%q is no JSON: %v", got, err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	gg, _ := json.Marshal(g)
	ww, _ := json.Marshal(w)
	if !slices.Equal(gg, ww) {
		t.Errorf("body %s, want %s", gg, ww)
	}
}

func ctx(t *testing.T) context.Context {
	t.Helper()
	return t.Context()
}

// waitFor answers when released.
func waitFor(release <-chan struct{}) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
}
