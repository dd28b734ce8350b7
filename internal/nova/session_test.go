package nova

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

const services = "GET /compute/v2.1/os-services"

func TestLogin(t *testing.T) {
	f := newFake(t)
	f.answer(services, ok(`{"services": []}`))
	c := f.client(t, func(cfg *Config) {
		cfg.UserDomain, cfg.UserAgent = "ops", "salvor/1"
		cfg.RequestID = func(context.Context) string { return "req-0123" }
	})
	if f.loginCount() != 0 {
		t.Error("New has talked to Keystone")
	}
	for range 3 {
		if _, err := c.Services(ctx(t)); err != nil {
			t.Fatal(err)
		}
	}
	if f.loginCount() != 1 {
		t.Errorf("%d logins for three calls", f.loginCount())
	}
	jsonEqual(t, f.logins[0], `{"auth": {"identity": {"methods": ["password"], "password": {"user": {"name": "salvor", "password": "`+password+`", "domain": {"name": "ops"}}}},
		"scope": {"project": {"name": "service", "domain": {"name": "default"}}}}}`)
	h := f.calls(services)[0].header
	if h.Get("X-OpenStack-Request-ID") != "req-0123" || !strings.HasPrefix(h.Get("User-Agent"), "salvor/1 ") {
		t.Errorf("%v", h)
	}
}

func TestSystemScopeAndRegion(t *testing.T) {
	f := newFake(t)
	f.answer("GET /two/v2.1/os-services", ok(`{"services": []}`))
	c := f.client(t, func(cfg *Config) { cfg.SystemScope, cfg.Region = "all", "RegionTwo" })
	if _, err := c.Services(ctx(t)); err != nil { // an endpoint with a project id is cut down to its version
		t.Fatal(err)
	}
	if !strings.Contains(f.logins[0], `"scope":{"system":{"all":true}}`) {
		t.Error(f.logins[0])
	}
	_, err := f.client(t, func(cfg *Config) { cfg.Region = "Nowhere" }).Services(ctx(t))
	wantError(t, err, ha.ClassBroken, 0, "no service compute:nova with interface public in region Nowhere")
	_, err = f.client(t, func(cfg *Config) { cfg.Region = "RegionTwo" }).Providers(ctx(t), "i1")
	wantError(t, err, ha.ClassBroken, 0, "no service placement")
}

func TestMicroversions(t *testing.T) {
	for offered, want := range map[string]string{"2.53": "2.53", "2.93": "2.93", "2.94": "2.94", "2.95": "2.94", "2.120": "2.94"} {
		f := newFake(t)
		f.versions = `{"version": {"version": "` + offered + `", "min_version": "2.1"}}`
		f.answer(services, ok(`{"services": []}`))
		if _, err := f.client(t).Services(ctx(t)); err != nil {
			t.Fatal(err)
		}
		h := f.calls(services)[0].header
		if h.Get("OpenStack-API-Version") != "compute "+want || h.Get("X-OpenStack-Nova-API-Version") != want {
			t.Errorf("of %s: %v", offered, h)
		}
	}
	for versions, want := range map[string]string{
		`{"version": {"version": "2.52", "min_version": "2.1"}}`:   "salvor needs one from 2.53 to 2.94",
		`{"version": {"version": "2.120", "min_version": "2.96"}}`: "salvor needs one from 2.53 to 2.94",
		`{"version": {"version": "", "min_version": ""}}`:          "is it Nova?",
		`<html>`: "cannot be read",
	} {
		f := newFake(t)
		f.versions = versions
		c := f.client(t)
		_, err := c.Services(ctx(t))
		wantError(t, err, ha.ClassBroken, 0, want)
		_, err = c.Do(ctx(t), ha.Act{Kind: ha.ActEvacuate, Instance: "i1"})
		wantError(t, err, ha.ClassNotSent, 0, want)
		_, err = c.Server(ctx(t), "i1")
		wantError(t, err, ha.ClassBroken, 0, want)
	}
}

// TestVersionIsNegotiatedAnew when Nova no longer offers the one that was picked.
func TestVersionIsNegotiatedAnew(t *testing.T) {
	f := newFake(t)
	f.answer(services, fault(406, `{"computeFault": {"code": 406, "message": "Version 2.93 is not supported"}}`))
	c := f.client(t)
	_, err := c.Services(ctx(t))
	wantError(t, err, ha.ClassRefused, 406, "not supported")
	f.mu.Lock()
	f.versions = `{"version": {"version": "2.90", "min_version": "2.1"}}`
	f.mu.Unlock()
	f.answer(services, ok(`{"services": []}`))
	if _, err := c.Services(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if got := f.calls(services)[1].header.Get("OpenStack-API-Version"); got != "compute 2.90" {
		t.Errorf("%q", got)
	}
}

func TestExpiredToken(t *testing.T) {
	f := newFake(t)
	f.answer(services, ok(`{"services": []}`))
	const evacuate = "POST /compute/v2.1/servers/i1/action"
	f.answer(evacuate, ok(""))
	c := f.client(t)
	if _, err := c.Services(ctx(t)); err != nil {
		t.Fatal(err)
	}
	f.expireToken()
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if _, err := c.Services(ctx(t)); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := f.loginCount(); n != 2 {
		t.Errorf("%d logins", n)
	}
	f.expireToken()
	if _, err := c.Do(ctx(t), ha.Act{Kind: ha.ActEvacuate, Instance: "i1"}); err != nil {
		t.Errorf("an act that was answered 401 was not done, and may be sent again: %v", err)
	}
	if n := len(f.calls(evacuate)); n != 2 {
		t.Errorf("sent %d times", n)
	}
}

func TestTokenThatIsNeverTaken(t *testing.T) {
	f := newFake(t)
	const evacuate = "POST /compute/v2.1/servers/i1/action"
	f.answer(evacuate, fault(401, `{"error": {"code": 401, "message": "no"}}`))
	f.answer(services, fault(401, `{"error": {"code": 401, "message": "no"}}`))
	c := f.client(t)
	_, err := c.Do(ctx(t), ha.Act{Kind: ha.ActEvacuate, Instance: "i1"})
	wantError(t, err, ha.ClassRefused, 401, "no")
	if n := len(f.calls(evacuate)); n != 2 {
		t.Errorf("sent %d times", n)
	}
	_, err = c.Services(ctx(t))
	wantError(t, err, ha.ClassRefused, 401, "no")
}

func TestKeystoneAway(t *testing.T) {
	f := newFake(t)
	f.answer(services, ok(`{"services": []}`))
	f.answer("POST /compute/v2.1/servers/i1/action", ok(""))
	c := f.client(t)
	for name, away := range map[string]http.HandlerFunc{
		"503":              fault(503, "maintenance"),
		"wrong password":   fault(401, `{"error": {"code": 401, "message": "maintenance: `+password+`"}}`),
		"not found at all": fault(404, `{"error": {"code": 404, "message": "maintenance"}}`),
	} {
		f.mu.Lock()
		f.keystone = away
		f.mu.Unlock()
		f.expireToken()
		_, err := c.Services(ctx(t))
		wantError(t, err, ha.ClassBroken, 0, "Keystone gives no token: maintenance")
		_, err = c.Server(ctx(t), "i1")
		wantError(t, err, ha.ClassBroken, 0, "Keystone gives no token")
		_, err = c.Do(ctx(t), ha.Act{Kind: ha.ActEvacuate, Instance: "i1"})
		wantError(t, err, ha.ClassNotSent, 0, "Keystone gives no token: maintenance")
		f.mu.Lock()
		f.keystone = nil
		f.mu.Unlock()
		if _, err := c.Services(ctx(t)); err != nil {
			t.Errorf("%s, and back: %v", name, err)
		}
	}
}

// TestSendBy: an act never leaves after its time, whatever it waited for.
func TestSendBy(t *testing.T) {
	const call = "POST /compute/v2.1/servers/i1/action"
	act := func(by time.Time) ha.Act { return ha.Act{Kind: ha.ActEvacuate, Instance: "i1", SendBy: by} }
	f := newFake(t)
	f.answer(call, ok(""))
	c := f.client(t)
	_, err := c.Do(ctx(t), act(time.Now().Add(-time.Millisecond)))
	wantError(t, err, ha.ClassNotSent, 0, "time was over")
	gone, cancel := context.WithCancel(ctx(t))
	cancel()
	_, err = c.Do(gone, act(time.Time{}))
	wantError(t, err, ha.ClassNotSent, 0, "time was over")
	if _, err := c.Do(ctx(t), act(time.Now().Add(time.Minute))); err != nil {
		t.Error(err)
	}

	// Waiting for a connection: the dialer takes longer than the act has.
	dial := c.once.DialContext
	by := time.Now().Add(50 * time.Millisecond)
	c.once.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		<-time.After(time.Until(by) + 10*time.Millisecond)
		return dial(ctx, network, address)
	}
	_, err = c.Do(ctx(t), act(by))
	wantError(t, err, ha.ClassNotSent, 0, "time was over")
	c.once.DialContext = dial

	// Waiting for a new token.
	f.expireToken()
	by = time.Now().Add(50 * time.Millisecond)
	f.mu.Lock()
	f.keystone = func(w http.ResponseWriter, _ *http.Request) {
		<-time.After(time.Until(by) + 10*time.Millisecond)
		w.Header().Set("X-Subject-Token", "token-"+string(rune('0'+f.token)))
		fault(201, `{"token": {"expires_at": "2099-01-01T00:00:00.000000Z", "catalog": `+f.catalog+`}}`)(w, nil)
	}
	f.mu.Unlock()
	_, err = c.Do(ctx(t), act(by))
	wantError(t, err, ha.ClassNotSent, 0, "time was over")
	if n := len(f.calls(call)); n != 2 { // the one that was taken, and the one that was answered 401
		t.Errorf("sent %d times", n)
	}
}

func TestNobodyListens(t *testing.T) {
	f := newFake(t)
	f.answer(services, ok(`{"services": []}`))
	c := f.client(t)
	if _, err := c.Services(ctx(t)); err != nil {
		t.Fatal(err)
	}
	f.CloseClientConnections()
	f.Close()
	_, err := c.Do(ctx(t), ha.Act{Kind: ha.ActEvacuate, Instance: "i1"})
	wantError(t, err, ha.ClassNotSent, 0, "connection refused")
	_, err = c.Services(ctx(t))
	wantError(t, err, ha.ClassBroken, 0, "connection refused")
}

func TestNewRefuses(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bad, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]Config{
		"http://":           {AuthURL: "keystone:5000"},
		"type:name:inter":   {AuthURL: "http://k", CatalogInfo: "compute"},
		"public, internal":  {AuthURL: "http://k", CatalogInfo: "compute:nova:private"},
		"no such file":      {AuthURL: "http://k", CAFile: bad + "x"},
		"no CA certificate": {AuthURL: "http://k", CAFile: bad},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want …%s…", err, want)
		}
	}
}

func TestKeystoneURLs(t *testing.T) {
	for in, want := range map[string]string{
		"http://k:5000": "http://k:5000/v3/", "http://k:5000/": "http://k:5000/v3/", "http://k:5000/v3": "http://k:5000/v3/",
		"https://k/identity/v3/": "https://k/identity/v3/", "http://k:5000/v2.0": "http://k:5000/v3/",
	} {
		if got, err := keystoneV3(in); err != nil || got != want {
			t.Errorf("%s: %s %v", in, got, err)
		}
	}
	for in, want := range map[string]string{
		"http://n:8774/v2.1": "http://n:8774/v2.1/", "http://n:8774/v2.1/%(tenant)s": "", "http://n/compute/v2.1/abc/": "http://n/compute/v2.1/",
		"http://n:8774": "http://n:8774/v2.1/", "http://n:8774/v2/abc": "http://n:8774/v2.1/", "": "",
	} {
		got, err := computeRoot(in)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %s %v", in, got, err)
		}
	}
}
