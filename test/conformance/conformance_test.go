package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/api"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/keystone"
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/service"
	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/testkit"
)

var databases = []struct {
	name string
	url  func(tb testing.TB) string
}{
	{"SQLite", func(tb testing.TB) string { return "sqlite:///" + filepath.Join(tb.TempDir(), "salvor.sqlite") }},
	{"MariaDB", testkit.MariaDB},
	{"PostgreSQL", testkit.Postgres},
}

// Configuration A: no authentication, no engine.
func TestNoAuth(t *testing.T) {
	forEachDatabase(t, func(t *testing.T, url string) {
		base := start(t, url, noAuth)
		run(t, NewRunner(base, "nova", "noauth", "engine_off", "writes_big"))
	})
}

// Configuration B: Keystone, no engine; below /v1, and everything below /v1/{project_id}.
func TestKeystone(t *testing.T) {
	forEachDatabase(t, func(t *testing.T, url string) {
		base := start(t, url, withKeystone(t))
		run(t, NewRunner(base, "nova", "keystone", "engine_off", "writes_big"))
	})
}

func TestKeystoneProjectURLs(t *testing.T) {
	forEachDatabase(t, func(t *testing.T, url string) {
		base := start(t, url, withKeystone(t))
		r := NewRunner(base, "nova", "keystone", "engine_off", "writes_big")
		r.ProjectURLs = true
		run(t, r)
	})
}

func forEachDatabase(t *testing.T, f func(t *testing.T, url string)) {
	for _, db := range databases {
		t.Run(db.name, func(t *testing.T) { f(t, db.url(t)) })
	}
}

func noAuth(*Stub) api.Authenticator { return api.NoAuth{} }

func withKeystone(t *testing.T) func(*Stub) api.Authenticator {
	return func(s *Stub) api.Authenticator {
		v, err := keystone.New(keystone.Config{
			AuthURL: s.URL + "/v3", Username: "admin", Password: "secret", UserDomainName: "Default",
			ProjectName: "service", ProjectDomainName: "Default", Interface: "internal",
		})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// start runs the stub and the API over the database, and returns the API's URL.
func start(t *testing.T, database string, auth func(*Stub) api.Authenticator) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = api.NewServer(api.Config{Log: quiet}, handler(t, database, auth))
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// handler is the API over the database and the stub.
func handler(tb testing.TB, database string, auth func(*Stub) api.Authenticator) http.Handler {
	tb.Helper()
	stub := &Stub{}
	cloud := httptest.NewServer(stub)
	tb.Cleanup(cloud.Close)
	stub.URL = cloud.URL
	s, err := store.Open(context.Background(), store.Config{URL: database, SyncWait: 1})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	if err := s.Sync(context.Background()); err != nil {
		tb.Fatal(err)
	}
	rules, err := policy.New(policy.Config{}, quiet)
	if err != nil {
		tb.Fatal(err)
	}
	svc := service.New(s, computeServices{cloud.URL}, service.Config{DuplicateInterval: 180 * time.Second})
	h, err := api.New(api.Config{
		Log: quiet, WWWAuthenticate: cloud.URL + "/v3", HealthDisabled: filepath.Join(tb.TempDir(), "disable"),
	}, svc, auth(stub), rules)
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// run runs every case that the environment allows, and says at the end how many passed. Every exchange is also checked
// against openapi.yaml.
func run(t *testing.T, r *Runner) {
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	r.client.Transport = testkit.Document(t).Transport(t, r.client.Transport)
	passed, failed, skipped := 0, 0, 0
	for _, c := range cases {
		if r.Missing(c) != "" {
			skipped++
			continue
		}
		if t.Run(c.ID, func(t *testing.T) {
			if err := r.Run(t.Context(), c); err != nil {
				t.Errorf("[%s] %s %s: %v\n%s", c.Kind, c.Request.Method, c.Request.Path, err, c.Why)
			}
		}) {
			passed++
		} else {
			failed++
		}
	}
	t.Logf("%d passed, %d failed, %d skipped", passed, failed, skipped)
}

// computeServices asks the stub as the real adapter asks Nova.
type computeServices struct{ base string }

func (c computeServices) HasComputeService(ctx context.Context, host string) (bool, error) {
	link := c.base + "/compute/v2.1/os-services?binary=nova-compute&host=" + url.QueryEscape(host)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	if err != nil {
		return false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, &ha.CloudError{Class: ha.ClassBroken, Op: "GET os-services", Text: err.Error()}
	}
	defer func() { _ = resp.Body.Close() }()
	var body struct {
		Services []json.RawMessage `json:"services"`
		Fault    struct{ Message string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		return false, fmt.Errorf("os-services: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return false, &ha.CloudError{Class: ha.ClassBroken, Op: "GET os-services", Status: resp.StatusCode, Text: body.Fault.Message}
	}
	return len(body.Services) > 0, nil
}

// The runner itself must be able to fail.
func TestMatcher(t *testing.T) {
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{`{"a": 1}`, `{"a": 1, "b": 2}`, true},
		{`{"a": 1}`, `{"b": 2}`, false},
		{`1.0`, `1`, true},
		{`1`, `true`, false},
		{`"1"`, `1`, false},
		{`[1]`, `[1, 2]`, false},
		{`{"$keys": ["a"]}`, `{"a": 1}`, true},
		{`{"$keys": ["a"]}`, `{"a": 1, "b": 2}`, false},
		{`{"$type": "int"}`, `1.0`, false},
		{`{"$type": "timestamp"}`, `"2026-01-01T00:00:00.000000"`, true},
		{`{"$type": "timestamp"}`, `"2026-01-01T00:00:00Z"`, false},
		{`{"$len": 2}`, `[1, 2]`, true},
		{`{"$min_len": 3}`, `[1, 2]`, false},
		{`{"$contains": {"a": 1}}`, `[{"a": 2}, {"a": 1}]`, true},
		{`{"$any_of": [1, 2]}`, `3`, false},
		{`{"$not": 3}`, `3`, false},
		{`{"$and": [{"$type": "int"}, 4]}`, `3`, false},
		{`{"a": {"$absent": true}}`, `{"a": null}`, false},
		{`{"$regex": "^a.b$"}`, `"a\nb"`, true},
		{`{"$unheard": 1}`, `1`, false},
	} {
		var want, got any
		if err := decode([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if err := decode([]byte(c.got), &got); err != nil {
			t.Fatal(err)
		}
		if err := match(want, got, "$"); (err == nil) != c.ok {
			t.Errorf("%s against %s: %v", c.want, c.got, err)
		}
	}
}

func TestCasesAreWhole(t *testing.T) {
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) != 323 {
		t.Errorf("%d cases, want 323", len(cases))
	}
	for _, c := range cases {
		if strings.TrimSpace(c.Why) == "" || c.Request.Method == "" || c.Expect.Status == nil {
			t.Errorf("%s tells too little", c.ID)
		}
	}
}
