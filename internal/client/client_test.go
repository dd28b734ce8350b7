package client

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/wire"
)

// server answers as scripted and keeps what it was asked.
type server struct {
	*httptest.Server
	asked   []string // METHOD PATH BODY
	headers []http.Header
	answers map[string]answer // by METHOD PATH
}

type answer struct {
	status int
	body   string
}

func serve(t *testing.T, answers map[string]answer) *server {
	t.Helper()
	s := &server{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.asked = append(s.asked, strings.TrimSpace(r.Method+" "+r.URL.EscapedPath()+" "+string(body)))
		s.headers = append(s.headers, r.Header)
		a, ok := s.answers[r.Method+" "+r.URL.EscapedPath()]
		if !ok {
			a = answer{http.StatusOK, "{}"}
		}
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}))
	t.Cleanup(s.Close)
	return s
}

func open(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRequests(t *testing.T) {
	until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	tests := []struct {
		call func(c *Client) error
		want string
	}{
		{func(c *Client) error { _, err := c.Segments(t.Context()); return err }, "GET /v1/segments"},
		{func(c *Client) error {
			_, err := c.CreateSegment(t.Context(), NewSegment{Name: "s", ServiceType: "compute", RecoveryMethod: "auto"})
			return err
		}, `POST /v1/segments {"segment":{"name":"s","service_type":"compute","recovery_method":"auto"}}`},
		{func(c *Client) error {
			_, err := c.CreateHost(t.Context(), "S", NewHost{Name: "cmp-01", Type: "x", ControlAttributes: "y"})
			return err
		}, `POST /v1/segments/S/hosts {"host":{"name":"cmp-01","type":"x","control_attributes":"y","reserved":false}}`},
		{func(c *Client) error { return c.SetMaintenance(t.Context(), "S", "H", false) }, `PUT /v1/segments/S/hosts/H {"host":{"on_maintenance":false}}`},
		{func(c *Client) error {
			_, err := c.Report(t.Context(), Report{Type: "VM", Hostname: "cmp-01", GeneratedTime: until, Payload: map[string]string{"event": "e"}})
			return err
		}, `POST /v1/notifications {"notification":{"type":"VM","hostname":"cmp-01","payload":{"event":"e"},"generated_time":"2026-01-02T02:04:05.000000"}}`},
		{func(c *Client) error { _, err := c.VMoves(t.Context(), "a/b"); return err }, "GET /v1/notifications/a%2Fb/vmoves"},
		{func(c *Client) error {
			_, err := c.Order(t.Context(), "N", Hold, Words{Reason: "why", Until: until})
			return err
		}, `POST /v1/ext/recoveries/N/hold {"reason":"why","until":"2026-01-02T02:04:05Z"}`},
		{func(c *Client) error { _, err := c.Order(t.Context(), "N", Cancel, Words{}); return err }, `POST /v1/ext/recoveries/N/cancel {}`},
		{func(c *Client) error { _, err := c.RetryMove(t.Context(), "N", "V", Words{}); return err }, `POST /v1/ext/recoveries/N/vmoves/V/retry {}`},
		{func(c *Client) error { _, err := c.ConfirmOff(t.Context(), "cmp-01", "I saw it"); return err }, `POST /v1/ext/hosts/cmp-01/confirm-off {"reason":"I saw it"}`},
	}
	for _, tt := range tests {
		s := serve(t, nil)
		if err := tt.call(open(t, Config{URL: s.URL})); err != nil {
			t.Errorf("%s: %v", tt.want, err)
		}
		if len(s.asked) != 1 || s.asked[0] != tt.want {
			t.Errorf("asked %q\nwant  %q", s.asked, tt.want)
		}
		if got := s.headers[0].Get(wire.VersionHeader); got != "instance-ha 1.3" {
			t.Errorf("%s: version %q", tt.want, got)
		}
	}
}

func TestURLs(t *testing.T) {
	for _, u := range []string{"", "/", "/v1", "/v1/", "/v1/0123456789abcdef0123456789abcdef"} {
		s := serve(t, nil)
		if _, err := open(t, Config{URL: s.URL + u}).Segments(t.Context()); err != nil || s.asked[0] != "GET /v1/segments" {
			t.Errorf("%q: %q, %v", u, s.asked, err)
		}
	}
	for _, u := range []string{"salvor.example.com", "ftp://x", "http://", ""} {
		if _, err := New(Config{URL: u}); err == nil {
			t.Errorf("%q was taken for a URL", u)
		}
	}
}

// TestRefusalsAreTold: an error says what was called, and in the server's words why it was refused.
func TestRefusalsAreTold(t *testing.T) {
	tests := []struct {
		a    answer
		want string
	}{
		{answer{409, `{"conflictingRequest": {"code": 409, "message": "is duplicate."}}`}, "409 is duplicate."},
		{answer{401, `{"error": {"code": 401, "title": "Unauthorized", "message": "requires authentication."}}`}, "401 requires authentication."},
		{answer{503, `{"message": "The server is currently unavailable.<br /><br />\nThe Keystone service is away.\n\n", "code": "503"}`}, "503 The server is currently unavailable. The Keystone service is away."},
		{answer{502, "<html>bad gateway</html>"}, "502 Bad Gateway"},
		{answer{200, "<html>"}, "http://"},
		{answer{404, "<html>"}, "http://"},
	}
	for _, tt := range tests {
		s := serve(t, map[string]answer{"GET /v1/ext/recoveries/N": tt.a})
		_, err := open(t, Config{URL: s.URL}).Recovery(t.Context(), "N")
		if err == nil || !strings.Contains(err.Error(), "GET /ext/recoveries/N: "+tt.want) {
			t.Errorf("%d: %v", tt.a.status, err)
		}
		var fault *wire.Fault
		if !strings.HasPrefix(tt.want, "http") && (!errors.As(err, &fault) || fault.Status != tt.a.status) {
			t.Errorf("%d: no fault: %v", tt.a.status, err)
		}
	}
}

func token(until time.Time, endpoints string) answer {
	return answer{http.StatusCreated, `{"token": {"expires_at": "` + until.UTC().Format(time.RFC3339) + `", "catalog": [{"type": "instance-ha", "endpoints": [` + endpoints + `]}]}}`}
}

// keystone answers logins with a new token each time: t1, t2 and so on.
func keystone(t *testing.T, until time.Time, endpoints string) (*httptest.Server, *[]string) {
	t.Helper()
	var asked []string
	k := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.URL.Path+" "+string(body))
		a := token(until, endpoints)
		w.Header().Set("X-Subject-Token", "t"+string(rune('0'+len(asked))))
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}))
	t.Cleanup(k.Close)
	return k, &asked
}

func TestLogins(t *testing.T) {
	tests := []struct{ env, want string }{
		{"OS_USERNAME=u OS_PASSWORD=p OS_PROJECT_NAME=x", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"domain":{"id":"default"},"name":"u","password":"p"}}},"scope":{"project":{"domain":{"id":"default"},"name":"x"}}}}`},
		{"OS_USERNAME=u OS_PASSWORD=p OS_PROJECT_ID=7 OS_USER_DOMAIN_NAME=D", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"domain":{"name":"D"},"name":"u","password":"p"}}},"scope":{"project":{"id":"7"}}}}`},
		{"OS_USERNAME=u OS_PASSWORD=p OS_SYSTEM_SCOPE=all", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"domain":{"id":"default"},"name":"u","password":"p"}}},"scope":{"system":{"all":true}}}}`},
		{"OS_TOKEN=abc OS_PROJECT_ID=7", `{"auth":{"identity":{"methods":["token"],"token":{"id":"abc"}},"scope":{"project":{"id":"7"}}}}`},
		{"OS_APPLICATION_CREDENTIAL_NAME=n OS_APPLICATION_CREDENTIAL_SECRET=s OS_USERNAME=u OS_USER_DOMAIN_NAME=D OS_PROJECT_NAME=x", `{"auth":{"identity":{"application_credential":{"name":"n","secret":"s","user":{"domain":{"name":"D"},"name":"u"}},"methods":["application_credential"]}}}`},
		{"OS_APPLICATION_CREDENTIAL_NAME=n OS_APPLICATION_CREDENTIAL_SECRET=s OS_USER_ID=7", `{"auth":{"identity":{"application_credential":{"name":"n","secret":"s","user":{"id":"7"}},"methods":["application_credential"]}}}`},
		{"OS_USER_ID=7 OS_PASSWORD=p", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":"7","password":"p"}}}}}`},
		{"OS_APPLICATION_CREDENTIAL_ID=i OS_APPLICATION_CREDENTIAL_SECRET=s OS_PROJECT_ID=7", `{"auth":{"identity":{"application_credential":{"id":"i","secret":"s"},"methods":["application_credential"]}}}`},
	}
	for _, tt := range tests {
		k, asked := keystone(t, time.Now().Add(time.Hour), "")
		for _, version := range []string{"", "/v3", "/v3/"} {
			*asked = nil
			login, ok := LoginFrom(append(strings.Fields(tt.env), "OS_AUTH_URL="+k.URL+version))
			if !ok {
				t.Fatal("no login")
			}
			if _, err := NewKeystone(login).Token(t.Context(), false); err != nil {
				t.Errorf("%s: %v", tt.env, err)
			}
			if len(*asked) != 1 || (*asked)[0] != "/v3/auth/tokens "+tt.want {
				t.Errorf("asked %q\nwant  %q", *asked, tt.want)
			}
		}
	}
	if _, err := NewKeystone(Login{AuthURL: "http://127.0.0.1:1", CredentialName: "n", CredentialSecret: "s"}).Token(t.Context(), false); err == nil || !strings.Contains(err.Error(), "name its user, too") {
		t.Errorf("an application credential of nobody: %v", err)
	}
	if _, ok := LoginFrom([]string{"OS_USERNAME=u"}); ok {
		t.Error("a login without OS_AUTH_URL")
	}
	if _, err := NewKeystone(Login{AuthURL: "http://127.0.0.1:1"}).Token(t.Context(), false); err == nil || !strings.Contains(err.Error(), "OS_USERNAME") {
		t.Errorf("no account: %v", err)
	}
}

// TestNoProjectNoCatalog: Keystone gives a token without a scope no catalog, and where the api is was said to be what is missing.
func TestNoProjectNoCatalog(t *testing.T) {
	for _, tt := range []struct {
		login         Login
		catalog, want string
	}{
		{Login{Username: "u", Password: "p"}, ``, "OS_PROJECT_NAME"},
		{Login{Token: "abc"}, ``, "OS_PROJECT_NAME"},
		{Login{Username: "u", Password: "p"}, `{"type": "identity"}`, "--url"}, // its default project's
		{Login{Username: "u", Password: "p", Project: "x"}, ``, "--url"},
		{Login{Username: "u", Password: "p", SystemScope: "all"}, ``, "--url"},
		{Login{CredentialID: "i", CredentialSecret: "s"}, ``, "--url"},
	} {
		k := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Subject-Token", "t")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"token": {"expires_at": "2100-01-01T00:00:00Z", "catalog": [`+tt.catalog+`]}}`)
		}))
		tt.login.AuthURL = k.URL
		_, err := open(t, Config{Auth: NewKeystone(tt.login)}).Segments(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "--url") != (tt.want == "--url") {
			t.Errorf("%+v: %v", tt.login, err)
		}
		k.Close()
	}
}

// TestTokensAreKept as long as they are valid, and renewed before they end and when the server refuses one.
func TestTokensAreKept(t *testing.T) {
	s := serve(t, nil)
	endpoint := `{"interface": "public", "region": "one", "url": "` + s.URL + `/v1/abc"}`
	k, logins := keystone(t, time.Now().Add(time.Hour), endpoint)
	c := open(t, Config{Auth: NewKeystone(Login{AuthURL: k.URL, Username: "u", Password: "p", Region: "one"})})
	for range 3 {
		if _, err := c.Segments(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(*logins) != 1 || s.headers[2].Get("X-Auth-Token") != "t1" || s.asked[2] != "GET /v1/segments" {
		t.Errorf("%d logins, %q, %q", len(*logins), s.headers[2].Get("X-Auth-Token"), s.asked)
	}
	refused, _ := json.Marshal(wire.Unauthorized())
	s.answers = map[string]answer{"GET /v1/segments": {401, string(refused)}}
	if _, err := c.Segments(t.Context()); err == nil {
		t.Error("401 is no error")
	}
	if len(*logins) != 2 || len(s.asked) != 5 || s.headers[4].Get("X-Auth-Token") != "t2" {
		t.Errorf("after a refusal: %d logins, %d requests", len(*logins), len(s.asked))
	}

	k, logins = keystone(t, time.Now().Add(30*time.Second), endpoint)
	c = open(t, Config{Auth: NewKeystone(Login{AuthURL: k.URL, Username: "u", Password: "p"}), URL: s.URL})
	s.answers = nil
	for range 2 {
		if _, err := c.Segments(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(*logins) != 2 {
		t.Errorf("a token that is about to end was used again: %d logins", len(*logins))
	}
	elsewhere := open(t, Config{Auth: NewKeystone(Login{AuthURL: k.URL, Username: "u", Password: "p", Region: "two"})})
	if _, err := elsewhere.Segments(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "Keystone's catalog") ||
		!strings.Contains(err.Error(), `in region "two", but in one`) || !strings.Contains(err.Error(), "--url") {
		t.Errorf("no endpoint: %v", err)
	}
	for _, u := range []string{"127.0.0.1:5000/v3", "keystone.example.com", "ftp://k/v3"} {
		_, err := open(t, Config{Auth: NewKeystone(Login{AuthURL: u, Username: "u", Password: "p"})}).Segments(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), "OS_AUTH_URL") || !strings.Contains(err.Error(), "expected http://") {
			t.Errorf("%s: %v", u, err)
		}
	}
}

// A redirect is not followed: by 301 an order becomes a question, whose answer looks like success, and by each the token, key or password
// goes to whom it names.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		to := serve(t, nil)
		from := httptest.NewServer(http.RedirectHandler(to.URL+"/v1/segments", status))
		defer from.Close()
		c := open(t, Config{URL: from.URL, AgentKey: func() (string, error) { return "key", nil }})
		_, err := c.CreateSegment(t.Context(), NewSegment{})
		var stranger *StrangerError
		if !errors.As(err, &stranger) || stranger.Status != status || stranger.To != to.URL {
			t.Errorf("%d: %v", status, err)
		}
		k := NewKeystone(Login{AuthURL: from.URL, Username: "u", Password: "p"})
		if _, err := k.Token(t.Context(), false); !errors.As(err, &stranger) {
			t.Errorf("%d: a login: %v", status, err)
		}
		if len(to.asked) > 0 {
			t.Errorf("%d: sent on: %q", status, to.asked)
		}
	}
}
