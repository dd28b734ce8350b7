package keystone

import (
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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
