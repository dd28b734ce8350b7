package keystone

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// A private CA holds for each call to Keystone, the login as well as the validations; without it the error says what is wrong
// and callers are told to come again, not that they are unknown (field report F133).
func TestPrivateCA(t *testing.T) {
	k := &fakeKeystone{tokens: map[string]tokenDetails{"good": {user: "alice", project: "p1", expires: time.Now().Add(time.Hour)}}}
	srv := httptest.NewTLSServer(k)
	defer srv.Close()
	k.url = srv.URL
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   bool
	}{
		{"with the CA", func(c *Config) { c.CAFile = ca }, true},
		{"without a check", func(c *Config) { c.Insecure = true }, true},
		{"without the CA", func(*Config) {}, false},
	} {
		cfg := Config{AuthURL: srv.URL + "/v3", Username: "salvor", Password: "secret", UserDomainName: "Default", ProjectName: "service", ProjectDomainName: "Default", Interface: "internal"}
		c.change(&cfg)
		v, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		id, ok, err := v.Authenticate(request("good"))
		var away *ha.UnavailableError
		switch {
		case c.want && (!ok || err != nil || id.UserID != "alice-id"):
			t.Errorf("%s: %+v, %v, %v", c.name, id, ok, err)
		case !c.want && (ok || !errors.As(err, &away) || !strings.Contains(err.Error(), "certificate") || !strings.Contains(err.Error(), srv.URL)):
			t.Errorf("%s: %v, %v", c.name, ok, err)
		}
	}
}

// What TLS refuses is asked for once: it would be refused again, and callers would wait for nothing. A connection that breaks is
// another matter.
func TestRefusalOfTLSIsNotAskedForAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		server func(*httptest.Server)
		change func(*Config, string)
		plain  bool
		again  bool
	}{
		{name: "unknown CA"},
		{name: "another name", change: func(c *Config, ca string) {
			c.CAFile, c.AuthURL = ca, strings.Replace(c.AuthURL, "127.0.0.1", "localhost", 1)
		}},
		{name: "no certificate of ours", change: func(c *Config, ca string) { c.CAFile = ca }, server: func(s *httptest.Server) {
			s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}
		}},
		{name: "no TLS there", plain: true, change: func(c *Config, _ string) { c.AuthURL = strings.Replace(c.AuthURL, "http:", "https:", 1) }},
		{name: "hangs up", plain: true, again: true, server: func(s *httptest.Server) {
			s.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		}},
	} {
		var opened atomic.Int32
		srv := httptest.NewUnstartedServer(&fakeKeystone{})
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				opened.Add(1)
			}
		}
		if c.server != nil {
			c.server(srv)
		}
		ca := filepath.Join(t.TempDir(), "ca.pem")
		if c.plain {
			srv.Start()
		} else {
			srv.StartTLS()
			if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		defer srv.Close()
		cfg := Config{AuthURL: srv.URL + "/v3", Username: "salvor", Password: "secret", UserDomainName: "Default", ProjectName: "service", ProjectDomainName: "Default", Retries: 3}
		if c.change != nil {
			c.change(&cfg, ca)
		}
		v, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		v.session.pause = time.Nanosecond
		var away *ha.UnavailableError
		if _, ok, err := v.Authenticate(request("good")); ok || !errors.As(err, &away) {
			t.Errorf("%s: %v, %v", c.name, ok, err)
		}
		if n := opened.Load(); n != 1 && !c.again || n < 4 && c.again {
			t.Errorf("%s: %d connections", c.name, n)
		}
	}
}
