package client

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/wire"
)

func place(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const password = `clouds:
  prod:
    region_name: RegionOne
    interface: internal
    cacert: /etc/ssl/private-ca.pem
    auth:
      auth_url: https://keystone.example.com/v3
      username: operator
      project_name: admin
      user_domain_name: Default
      project_domain_id: default
  lab:
    auth_type: none
    instance_ha_endpoint_override: http://127.0.0.1:15868
    verify: false
  app:
    auth_type: v3applicationcredential
    regions: [{name: two}, three]
    auth: {auth_url: "https://keystone.example.com", application_credential_id: 7, application_credential_secret: s}
  empty:
`

// TestCloudsYAML: accounts are found as OpenStack's own clients find them.
func TestCloudsYAML(t *testing.T) {
	prod := Login{AuthURL: "https://keystone.example.com/v3", Username: "operator", Project: "admin", UserDomain: "Default",
		ProjectDomainID: "default", Region: "RegionOne", Interface: "internal"}
	with := func(secret string) Login { l := prod; l.Password = secret; return l }
	ca := TLS{CAFile: "/etc/ssl/private-ca.pem"}
	tests := []struct {
		name  string
		files map[string]string // below HOME; "./x" is in the working directory
		env   string
		cloud string
		want  Settings
		fails string
	}{
		{"by the variable", map[string]string{".config/openstack/clouds.yaml": password}, "OS_CLOUD=prod OS_PASSWORD=env", "",
			Settings{Login: with("env"), HasLogin: true, TLS: ca}, ""},
		{"the flag wins", map[string]string{".config/openstack/clouds.yaml": password}, "OS_CLOUD=app OS_PASSWORD=env", "prod",
			Settings{Login: with("env"), HasLogin: true, TLS: ca}, ""},
		{"the environment wins, as with openstack", map[string]string{".config/openstack/clouds.yaml": password},
			"OS_CLOUD=app OS_CACERT=/ca OS_REGION_NAME=three OS_INTERFACE=admin", "",
			Settings{Login: Login{AuthURL: "https://keystone.example.com", CredentialID: "7", CredentialSecret: "s", Region: "three", Interface: "admin"},
				HasLogin: true, TLS: TLS{CAFile: "/ca"}}, ""},
		{"secrets beside", map[string]string{".config/openstack/clouds.yaml": password,
			".config/openstack/secure.yaml": "clouds: {prod: {auth: {password: secret}}}"}, "OS_CLOUD=prod", "",
			Settings{Login: with("secret"), HasLogin: true, TLS: ca}, ""},
		{"the working directory first", map[string]string{"./clouds.yml": password, "./secure.yaml": "clouds: {prod: {auth: {password: here}}}",
			".config/openstack/clouds.yaml": "clouds: {}"}, "", "prod", Settings{Login: with("here"), HasLogin: true, TLS: ca}, ""},
		{"without an account", map[string]string{"./clouds.yaml": password}, "OS_CLOUD=lab OS_AUTH_URL=http://x", "",
			Settings{Endpoint: "http://127.0.0.1:15868", TLS: TLS{Insecure: true}}, ""},
		{"application credential", map[string]string{"./clouds.yaml": password}, "", "app",
			Settings{Login: Login{AuthURL: "https://keystone.example.com", CredentialID: "7", CredentialSecret: "s", Region: "two"}, HasLogin: true}, ""},
		{"JSON", map[string]string{"./clouds.json": `{"clouds": {"j": {"auth": {"auth_url": "http://k", "token": "t"}}}}`}, "", "j",
			Settings{Login: Login{AuthURL: "http://k", Token: "t"}, HasLogin: true}, ""},
		{"no cloud: the variables", map[string]string{"./clouds.yaml": password}, "OS_AUTH_URL=http://k OS_USERNAME=u OS_CACERT=/ca OS_INSECURE=1", "",
			Settings{Login: Login{AuthURL: "http://k", Username: "u"}, HasLogin: true, TLS: TLS{CAFile: "/ca", Insecure: true}}, ""},
		{"variables that want no account", nil, "OS_AUTH_TYPE=none OS_AUTH_URL=http://k OS_ENDPOINT=http://api", "",
			Settings{Login: Login{AuthURL: "http://k"}, Endpoint: "http://api"}, ""},
		{"nothing", nil, "", "", Settings{}, ""},
		{"unknown cloud", map[string]string{"./clouds.yaml": password}, "", "prd", Settings{}, "app, empty, lab, prod"},
		{"empty cloud", map[string]string{"./clouds.yaml": password}, "", "empty", Settings{}, `no cloud named "empty"`},
		{"no file", nil, "OS_CLOUD=prod", "", Settings{}, "there is no clouds.yaml in ., "},
		{"no Keystone", map[string]string{"./clouds.yaml": "clouds: {a: {auth: {username: u}}}"}, "", "a", Settings{}, "auth.auth_url"},
		{"broken", map[string]string{"./clouds.yaml": "clouds:\n  a: {password: hunter2"}, "", "a", Settings{}, "clouds.yaml cannot be read"},
		{"no mapping", map[string]string{"./clouds.yaml": "clouds: hunter2"}, "", "a", Settings{}, "clouds.yaml cannot be read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			home, work := t.TempDir(), t.TempDir()
			t.Chdir(work)
			for name, text := range tt.files {
				if here, ok := strings.CutPrefix(name, "./"); ok {
					place(t, filepath.Join(work, here), text)
				} else {
					place(t, filepath.Join(home, name), text)
				}
			}
			got, err := Find(append(strings.Fields(tt.env), "HOME="+home), tt.cloud)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%v", err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

// TestPrivateCA (F133, F165): a server of a private CA is believed where the CA is named, and nowhere else.
func TestPrivateCA(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"segments": []}`) }))
	defer s.Close()
	s.Config.ErrorLog = nil
	ca := filepath.Join(t.TempDir(), "ca.pem")
	place(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	for _, tt := range []struct {
		tls  TLS
		fine bool
	}{{TLS{}, false}, {TLS{CAFile: ca}, true}, {TLS{Insecure: true}, true}} {
		h, err := tt.tls.HTTP(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		_, err = open(t, Config{URL: s.URL, HTTP: h}).Segments(t.Context())
		if (err == nil) != tt.fine {
			t.Errorf("%+v: %v", tt.tls, err)
		}
		h.CloseIdleConnections()
	}
	for _, bad := range []TLS{{CAFile: "/nowhere"}, {CertFile: ca}} {
		if _, err := bad.HTTP(0); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// TestPages: a list is asked for page by page, whatever the server's own maximum is, and never beyond the limit.
func TestPages(t *testing.T) {
	const all, most = 1203, 400 // elements, osapi_max_limit
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		q := r.URL.Query()
		limit, _ := strconv.Atoi(q.Get("limit"))
		from, _ := strconv.Atoi(q.Get("marker"))
		if q.Get("sort_key") != "name" || q.Get("sort_dir") != "asc" || q.Get("enabled") != "true" {
			t.Errorf("asked %s", r.URL)
		}
		list := wire.SegmentList{Segments: []wire.Segment{}}
		for id := from + 1; id <= all && len(list.Segments) < min(limit, most); id++ {
			list.Segments = append(list.Segments, wire.Segment{ID: int64(id)})
		}
		_ = json.NewEncoder(w).Encode(list)
	}))
	defer s.Close()
	for _, tt := range []struct {
		limit, want, requests int
		more                  bool
	}{{0, all, 5, false}, {1, 1, 1, true}, {400, 400, 2, true}, {all - 1, all - 1, 4, true}, {all, all, 5, false}, {5000, all, 5, false}} {
		asked = 0
		got, largest := 0, 0
		more, err := open(t, Config{URL: s.URL}).EachSegment(t.Context(),
			Query{Limit: tt.limit, Sort: []string{"name:asc"}, Filters: map[string][]string{"enabled": {"true"}}}, func(page []wire.Segment) error {
				if page[0].ID != int64(got+1) {
					t.Errorf("limit %d: %d comes after %d", tt.limit, page[0].ID, got)
				}
				got, largest = got+len(page), max(largest, len(page))
				clear(page) // it is the caller's: the next page follows all the same
				return nil
			})
		if err != nil || got != tt.want || more != tt.more || asked != tt.requests || largest > most {
			t.Errorf("limit %d: %d elements, more %v, %d requests, %v", tt.limit, got, more, asked, err)
		}
	}
	if _, err := open(t, Config{URL: s.URL}).EachSegment(t.Context(), Query{Sort: []string{"name:up"}}, nil); err == nil {
		t.Error("a direction that is none")
	}
}
