package keystone

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// A redirect is not followed, whatever was asked: whom it names gets no password and no token, and is not believed. Callers are told to
// come again, the log what to set.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, c := range []struct {
			name      string
			redirects func(*http.Request) bool
			change    func(*Config)
			set       string // what the message names
		}{
			{"the discovery", func(r *http.Request) bool { return r.URL.Path == "/" }, func(c *Config) { c.AuthURL = strings.TrimSuffix(c.AuthURL, "/v3") }, "[keystone_authtoken] auth_url"},
			{"the login", func(r *http.Request) bool { return r.Method == http.MethodPost }, nil, "[keystone_authtoken] auth_url"},
			{"a validation", func(r *http.Request) bool { return r.Header.Get("X-Subject-Token") != "" }, nil, "Keystone's internal endpoint in the catalog"},
			{"a validation at auth_url", func(r *http.Request) bool { return r.Header.Get("X-Subject-Token") != "" }, func(c *Config) { c.Interface = "" }, "[keystone_authtoken] auth_url"},
		} {
			good := tokenDetails{user: "mallory", roles: []string{"admin"}, expires: time.Now().Add(time.Hour)}
			var reached, asked atomic.Int32
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reached.Add(1)
				w.Header().Set("X-Subject-Token", "theirs")
				writeToken(w, good, "http://"+r.Host)
			}))
			defer other.Close()
			k := &fakeKeystone{tokens: map[string]tokenDetails{"good": good}}
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.redirects(r) {
					asked.Add(1)
					http.Redirect(w, r, other.URL+r.URL.Path+"?was="+r.Header.Get("X-Subject-Token"), status)
					return
				}
				k.ServeHTTP(w, r)
			}))
			defer srv.Close()
			k.url = srv.URL
			cfg := Config{AuthURL: srv.URL + "/v3", Username: "salvor", Password: "secret", UserDomainName: "Default", ProjectName: "service",
				ProjectDomainName: "Default", Interface: "internal", Retries: 2}
			if c.change != nil {
				c.change(&cfg)
			}
			v, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			v.session.pause = time.Nanosecond
			id, ok, err := v.Authenticate(request("good"))
			var away *ha.UnavailableError
			if ok || !errors.As(err, &away) {
				t.Errorf("%d of %s: %+v, %v, %v", status, c.name, id, ok, err)
				continue
			}
			for _, part := range []string{srv.URL, fmt.Sprintf("redirects (%d) to %s, which is not followed", status, other.URL), "let " + c.set + " begin"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%d of %s says %q, not %q", status, c.name, err, part)
				}
			}
			if strings.Contains(err.Error(), "was=") {
				t.Errorf("%d of %s says %q", status, c.name, err)
			}
			if reached.Load() > 0 || asked.Load() != 1 {
				t.Errorf("%d of %s: %d requests at the other host, %d at ours", status, c.name, reached.Load(), asked.Load())
			}
		}
	}
}

// The same host may have moved its paths, and what comes as Location may be no URL: that is said too, once.
func TestRedirectsThatNameNoOtherHost(t *testing.T) {
	for to, want := range map[string]string{
		"/identity/v3/auth/tokens": "put the right path into [keystone_authtoken] auth_url",
		"http://[::1":              "to what is no URL, which is not followed: check [keystone_authtoken] auth_url",
	} {
		asked := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusPermanentRedirect)
		}))
		v, err := New(Config{AuthURL: srv.URL + "/v3", Username: "salvor", Password: "secret", UserDomainName: "Default", Retries: 2})
		if err != nil {
			t.Fatal(err)
		}
		v.session.pause = time.Nanosecond
		_, ok, err := v.Authenticate(request("good"))
		srv.Close()
		if ok || err == nil || !strings.Contains(err.Error(), want) || asked != 1 {
			t.Errorf("%s: %v, %v, asked %d times", to, ok, err, asked)
		}
	}
}
