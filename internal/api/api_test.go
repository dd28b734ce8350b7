package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/service"
	"github.com/salvor-ha/salvor/internal/testkit"
	"github.com/salvor-ha/salvor/internal/wire"
)

// rows is a store of which a test sets what it needs; anything else is a panic, and so a 500.
type rows struct {
	service.Store
	segment func(ctx context.Context, uuid string) (ha.Segment, error)
	list    func(p ha.Page) ([]ha.Segment, error)
	note    func(uuid string) (ha.Notification, error)
	work    func(uuid string) (ha.Work, error)
	journal []ha.Entry
	wish    func(notification string, w ha.Wish) error
	admit   func(r ha.Report) (ha.Notification, error)
	move    func(notification, uuid string) (ha.VMove, error)
}

func (r rows) Segment(ctx context.Context, uuid string) (ha.Segment, error) {
	seg, err := r.segment(ctx, uuid)
	seg.UUID, seg.RecoveryMethod = cmp.Or(seg.UUID, uuid), cmp.Or(seg.RecoveryMethod, ha.MethodAuto)
	return seg, err
}
func (r rows) Segments(_ context.Context, _ ha.SegmentFilter, p ha.Page) ([]ha.Segment, error) {
	return r.list(p)
}
func (r rows) Notification(_ context.Context, uuid string) (ha.Notification, error) {
	n, err := r.note(uuid)
	return wholeNote(n), err
}

func (r rows) Recovery(_ context.Context, uuid string) (ha.Work, error) {
	w, err := r.work(uuid)
	w.Kind, w.HostUUID = cmp.Or(w.Kind, ha.UnitHost), cmp.Or(w.HostUUID, noteID)
	return w, err
}

// wholeNote fills in what each notification has.
func wholeNote(n ha.Notification) ha.Notification {
	n.UUID, n.SourceHostUUID = cmp.Or(n.UUID, noteID), cmp.Or(n.SourceHostUUID, noteID)
	n.Type, n.Status = cmp.Or(n.Type, ha.TypeVM), cmp.Or(n.Status, ha.StatusNew)
	return n
}
func (r rows) Journal(_ context.Context, _ string, before int64, limit int) ([]ha.Entry, error) {
	found := r.journal
	if before != 0 {
		at := slices.IndexFunc(found, func(e ha.Entry) bool { return e.ID == before })
		if at < 0 {
			return nil, &ha.MarkerError{Marker: strconv.FormatInt(before, 10)}
		}
		found = found[:at]
	}
	return found[max(0, len(found)-limit):], nil
}
func (r rows) Wish(_ context.Context, n string, w ha.Wish) error         { return r.wish(n, w) }
func (r rows) VMove(_ context.Context, n, uuid string) (ha.VMove, error) { return r.move(n, uuid) }
func (r rows) Admit(_ context.Context, rep ha.Report, _ time.Duration) (ha.Notification, error) {
	n, err := r.admit(rep)
	return wholeNote(n), err
}

// tokens knows admin and member; "away" is Keystone being away.
type tokens struct{}

func (tokens) Authenticate(r *http.Request) (policy.Identity, bool, error) {
	switch token := r.Header.Get("X-Auth-Token"); token {
	case "admin", "member":
		return policy.Identity{UserID: token + "-id", UserName: token, ProjectID: "ab12", Roles: []string{token}}, true, nil
	case "unscoped":
		return policy.Identity{UserID: token, Roles: []string{"admin"}}, true, nil
	case "away":
		return policy.Identity{}, false, &ha.UnavailableError{What: "keystone", Err: errors.New("no route")}
	default:
		return policy.Identity{}, false, nil
	}
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// handler is the API, every answer of which is checked against openapi.yaml.
func handler(t *testing.T, cfg Config, r rows) http.Handler {
	t.Helper()
	return testkit.Document(t).Handler(t, bare(t, cfg, r))
}

func bare(t *testing.T, cfg Config, r rows) http.Handler {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = quiet
	}
	if cfg.HealthDisabled == "" {
		cfg.HealthDisabled = filepath.Join(t.TempDir(), "disable")
	}
	rules, err := policy.New(policy.Config{}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(cfg, service.New(r, nil, service.Config{}), tokens{}, rules)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ask sends a request as admin; headers are "Name: value".
func ask(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set("Accept", "application/json")
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func expect(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if w.Code != status || body != "" && !strings.Contains(w.Body.String(), body) {
		t.Errorf("%d %s\nwant %d %s", w.Code, w.Body, status, body)
	}
}

func TestPathsOutsideOfTheAPI(t *testing.T) {
	h := handler(t, Config{}, rows{})
	for target, status := range map[string]int{
		"/": 200, "/v1/nothing": 404, "/healthcheck": 200, "/healthcheck/": 200, "/healthcheck/x": 300, "/foo": 300, "//": 300,
		"/v2/segments": 300, "/v1foo": 300, "/v1": 200, "/v1/": 200, "/v1//": 404, "/v1/segments/": 404, "/v1/../": 404,
	} {
		expect(t, ask(h, "GET", target, ""), status, "")
	}
	expect(t, ask(h, "GET", "/foo/bar", ""), 300, `"href":"http://example.com/v1/foo/bar"`)
	expect(t, ask(h, "DELETE", "/", ""), 200, `"versions":[`)
}

func TestLinks(t *testing.T) {
	forwarded := []string{"X-Forwarded-Proto: https", "X-Forwarded-Host: ha.example, inner", "X-Forwarded-Port: 8443", "X-Forwarded-Prefix: /ha/"}
	for _, c := range []struct {
		cfg     Config
		headers []string
		want    string
	}{
		{Config{}, nil, "http://example.com/v1/"},
		{Config{}, forwarded, "http://example.com/v1/"},
		{Config{ParseProxy: true}, forwarded, "https://ha.example:8443/ha/v1/"},
		{Config{ParseProxy: true}, []string{`Forwarded: for=10.0.0.1;host="ha2.example";proto=https, for=x`}, "https://ha2.example/v1/"},
		{Config{ParseProxy: true}, []string{"X-Forwarded-Proto: gopher"}, "http://example.com/v1/"},
		{Config{ParseProxy: true}, []string{"X-Forwarded-Proto: HTTPS", "X-Forwarded-Port: 443"}, "https://example.com/v1/"},
		{Config{ParseProxy: true}, []string{"X-Forwarded-Host: ha.example:80"}, "http://ha.example/v1/"},
		{Config{ParseProxy: true}, []string{"X-Forwarded-Proto: https", "X-Forwarded-Host: ha.example:80"}, "https://ha.example:80/v1/"},
		{Config{ParseProxy: true}, []string{"X-Forwarded-Host: [2001:db8::1]", "X-Forwarded-Port: 8443"}, "http://[2001:db8::1]:8443/v1/"},
		{Config{LinkPrefix: "https://public.example/instance-ha/"}, nil, "https://public.example/instance-ha/v1/"},
	} {
		for _, target := range []string{"/", "/v1"} {
			expect(t, ask(handler(t, c.cfg, rows{}), "GET", target, "", c.headers...), 200, `"href":"`+c.want+`"`)
		}
	}
	if _, err := New(Config{LinkPrefix: "http://[", Log: quiet}, nil, nil, nil); err == nil {
		t.Error("a prefix that is no URL is accepted")
	}
	if _, err := New(Config{ProjectIDRegex: "(", Log: quiet}, nil, nil, nil); err == nil {
		t.Error("a pattern that is none is accepted")
	}
}

// What a proxy says of its client counts for more than how it asks us, and a client of HTTP/1.0 need not say whom it asks.
func TestLinksOfAPlainClient(t *testing.T) {
	h := handler(t, Config{ParseProxy: true}, rows{})
	r := httptest.NewRequest("GET", "https://inner.example/", nil) // over TLS
	r.URL.Scheme, r.URL.Host = "", ""
	r.Header.Set("X-Forwarded-Proto", "http")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	expect(t, w, 200, `"href":"http://inner.example/v1/"`)
	s, _ := server(t, Config{}, rows{})
	status, body := answer(t, dial(t, s, "GET / HTTP/1.0\r\n\r\n"))
	if want := `"href":"` + s.URL + `/v1/"`; status != 200 || !strings.Contains(body, want) {
		t.Errorf("%d %s\nwant %s", status, body, want)
	}
}

func TestTypeOfTheAnswer(t *testing.T) {
	h := handler(t, Config{}, rows{})
	for accept, want := range map[string]string{
		"": wire.MediaJSON, "*/*": wire.MediaJSON, "text/html": wire.MediaJSON, "application/json, " + wire.MediaVendor: wire.MediaJSON,
		wire.MediaVendor + ";q=0.5, application/*": wire.MediaJSON, "application/json, application/*;q=0.5": wire.MediaJSON, wire.MediaVendor + ";q=0": wire.MediaJSON,
		wire.MediaVendor: wire.MediaVendor, "application/json;q=0.3, " + wire.MediaVendor + ";q=0.9": wire.MediaVendor,
		wire.MediaVendor + ", */*": wire.MediaVendor, "application/*, " + wire.MediaVendor: wire.MediaVendor,
	} {
		for _, target := range []string{"/", "/v1/", "/foo"} {
			if got := ask(h, "GET", target, "", "Accept: "+accept).Header().Get("Content-Type"); got != want {
				t.Errorf("%s for Accept: %s is %s, want %s", target, accept, got, want)
			}
		}
	}
	for _, target := range []string{"/v1/versions/v1.0.json", "/foo.json"} {
		if got := ask(h, "GET", target, "", "Accept: "+wire.MediaVendor).Header().Get("Content-Type"); got != wire.MediaJSON {
			t.Errorf("%s is %s", target, got)
		}
	}
}

func TestHealth(t *testing.T) {
	file := filepath.Join(t.TempDir(), "disable")
	h := handler(t, Config{HealthDisabled: file}, rows{})
	expect(t, ask(h, "GET", "/healthcheck", "", "Accept: text/plain"), 200, "OK")
	expect(t, ask(h, "POST", "/healthcheck", "", "X-Auth-Token: "), 200, `{"detailed":false,"reasons":["OK"]}`)
	expect(t, ask(h, "GET", "/healthcheck", "", "Accept: text/html"), 200, "<P>OK</P>")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, ask(h, "GET", "/healthcheck", "", "Accept: */*"), 503, "DISABLED BY FILE")
	expect(t, ask(h, "GET", "/healthcheck", ""), 503, `{"detailed":false,"reasons":["DISABLED BY FILE"]}`)
}

// The routed lines of contract 1.1 that have no action: 405 with the action's name. Everything else is 404 and plain.
func TestRoutesWithoutAction(t *testing.T) {
	h := handler(t, Config{}, rows{})
	for line, action := range map[string]string{
		"GET /v1/segments/new": "new", "GET /v1/segments/x/edit": "edit", "POST /v1/segments/x/action": "action",
		"GET /v1/segments/x/hosts/new": "new", "GET /v1/segments/x/hosts/y/edit": "edit", "GET /v1/segments/new.json": "new",
		"PUT /v1/notifications/x": "update", "DELETE /v1/notifications/x": "delete", "POST /v1/notifications/x/action": "action",
		"GET /v1/notifications/new": "new", "POST /v1/notifications/x/vmoves": "create", "PUT /v1/notifications/x/vmoves/y": "update",
		"DELETE /v1/notifications/x/vmoves/y": "delete", "GET /v1/notifications/x/vmoves/new": "new",
		"POST /v1/extensions": "create", "PUT /v1/extensions/x": "update", "DELETE /v1/extensions/x": "delete",
		"GET /v1/versions": "index", "POST /v1/versions": "create", "GET /v1/ab12/segments/new": "new",
	} {
		method, target, _ := strings.Cut(line, " ")
		w := ask(h, method, target, "")
		expect(t, w, 405, `{"badMethod":{"code":405,"message":"The request method: '`+method+`' with action: '`+action+`' is not allowed on this resource"}}`)
		if w.Header()["Allow"] != nil || w.Header()["OpenStack-API-Version"] == nil {
			t.Errorf("%s: headers %v", line, w.Header())
		}
	}
	for _, line := range []string{
		"PATCH /v1/segments/x", "HEAD /v1/segments", "POST /v1/segments/x", "PUT /v1/segments", "DELETE /v1/segments", "GET /v1/hosts",
		"GET /v1/segments/x/hosts/y/z", "GET /v1/XYZ/segments", "TRACE /v1/segments", "POST /v1/", "GET /v1/ext", "GET /v1/ext/recoveries",
		"GET /v1/segments/x/action", "GET /v1/ab12", "GET /v1/ab12/", "GET /v1/segments//hosts", "GET /v1/.json",
	} {
		method, target, _ := strings.Cut(line, " ")
		w := ask(h, method, target, "")
		want, kind := `"code":"404 Not Found"`, "application/json"
		if method == "HEAD" {
			want, kind = "", "text/html; charset=UTF-8"
		}
		if expect(t, w, 404, want); w.Header().Get("Content-Type") != kind {
			t.Errorf("%s: headers %v", line, w.Header())
		}
		if w.Header()["OpenStack-API-Version"] != nil || w.Header().Get("X-Openstack-Request-Id") == "" {
			t.Errorf("%s: headers %v", line, w.Header())
		}
	}
	expect(t, ask(h, "GET", "/v1/versions/v1.0", ""), 200, `"version":{"id":"v1.0"`)
	expect(t, ask(h, "GET", "/v1/versions/v2", ""), 404, `"itemNotFound"`)
}

func TestSuffixesSayNothing(t *testing.T) {
	const id = "0123abcd-4567-89ab-cdef-0123456789ab"
	h := handler(t, Config{}, rows{segment: func(_ context.Context, uuid string) (ha.Segment, error) {
		return ha.Segment{UUID: uuid}, nil
	}, list: func(ha.Page) ([]ha.Segment, error) { return nil, nil }})
	for _, target := range []string{"/v1/segments.json", "/v1/segments.xml", "/v1/ab12/segments.json"} {
		expect(t, ask(h, "GET", target, ""), 200, `{"segments":[]}`)
	}
	expect(t, ask(h, "GET", "/v1/segments/"+id+".json", ""), 200, `"uuid":"`+id+`"`)
	expect(t, ask(h, "GET", "/v1/segments/"+strings.ToUpper(id), ""), 200, `"uuid":"`+id+`"`)
	expect(t, ask(h, "GET", "/v1/segments/x.yaml", ""), 404, "No failover segment with id x.yaml.")
}

func TestWhoAsks(t *testing.T) {
	h := handler(t, Config{WWWAuthenticate: "http://keystone/v3"}, rows{list: func(ha.Page) ([]ha.Segment, error) { return nil, nil }})
	for _, target := range []string{"/v1", "/v1/", "/v1/segments", "/v1/nothing", "/v1/ext/recoveries/x"} {
		w := ask(h, "GET", target, "", "X-Auth-Token: nobody's")
		expect(t, w, 401, `{"error":{"code":401,"title":"Unauthorized","message":"The request you have made requires authentication."}}`)
		if w.Header().Get("WWW-Authenticate") != `Keystone uri="http://keystone/v3"` || w.Header()["OpenStack-API-Version"] != nil {
			t.Errorf("%s: headers %v", target, w.Header())
		}
	}
	expect(t, ask(h, "GET", "/v1/segments", "", "X-Auth-Token: away"), 503, "The Keystone service is temporarily unavailable.")
	expect(t, ask(h, "GET", "/v1/segments", "", "X-Auth-Token: member"), 403, `{"forbidden":{"code":403,"message":"Policy doesn't allow os_masakari_api:segments:index to be performed."}}`)
	expect(t, ask(h, "GET", "/v1/", "", "X-Auth-Token: member"), 200, "")
	expect(t, ask(h, "GET", "/v1/ab12/segments", ""), 200, "")
	expect(t, ask(h, "GET", "/v1/ab13/segments", ""), 400, "Malformed request URL: URL's project_id 'ab13' doesn't match Context's project_id 'ab12'")
	expect(t, ask(h, "GET", "/v1/ab12/segments", "", "X-Auth-Token: unscoped"), 400, "Context's project_id 'None'")
	late := handler(t, Config{DelayAuthDecision: true}, rows{})
	expect(t, ask(late, "GET", "/v1/segments", "", "X-Auth-Token: "), 401, "This server could not verify")
}

func TestNoAuthBelievesTheClient(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-User-Id", "u")
	r.Header.Set("X-Tenant", "t")
	id, ok, err := NoAuth{}.Authenticate(r)
	if !ok || err != nil || !id.IsAdmin || id.UserID != "u" || id.ProjectID != "t" {
		t.Errorf("%+v, %v, %v", id, ok, err)
	}
	r.Header.Set("X-Project-Id", "p")
	if id, _, _ := (NoAuth{}).Authenticate(r); id.ProjectID != "p" {
		t.Errorf("project %s", id.ProjectID)
	}
}

func TestDefectsAndAbsences(t *testing.T) {
	fail := func(err error) rows {
		return rows{segment: func(context.Context, string) (ha.Segment, error) { return ha.Segment{}, err }}
	}
	const target = "/v1/segments/0123abcd-4567-89ab-cdef-0123456789ab"
	w := ask(handler(t, Config{}, fail(errors.New("secret text"))), "GET", target, "")
	expect(t, w, 500, `{"masakariFault":{"code":500,"message":"An unexpected error stopped this request.`)
	if id := w.Header().Get("X-Openstack-Request-Id"); strings.Contains(w.Body.String(), "secret") || !strings.Contains(w.Body.String(), id) {
		t.Errorf("%s: %s", id, w.Body)
	}
	expect(t, ask(handler(t, Config{}, fail(&ha.UnavailableError{What: "database", Err: errors.New("secret text")})), "GET", target, ""), 503, `{"serviceUnavailable":{"code":503,`)
	w = ask(handler(t, Config{}, rows{}), "GET", target, "") // a nil function: a panic
	if expect(t, w, 500, "An unexpected error"); w.Header()["OpenStack-API-Version"] == nil {
		t.Errorf("headers %v", w.Header())
	}
	slow := rows{segment: func(ctx context.Context, _ string) (ha.Segment, error) {
		<-ctx.Done()
		return ha.Segment{}, ctx.Err()
	}}
	expect(t, ask(handler(t, Config{RequestTimeout: time.Millisecond}, slow), "GET", target, ""), 503, "took too long")
}

func TestRequestIDs(t *testing.T) {
	var outward string
	h := handler(t, Config{}, rows{segment: func(ctx context.Context, _ string) (ha.Segment, error) {
		outward = ha.RequestID(ctx)
		return ha.Segment{}, nil
	}})
	const target = "/v1/segments/0123abcd-4567-89ab-cdef-0123456789ab"
	own := ask(h, "GET", target, "").Header().Get("X-Openstack-Request-Id")
	if !requestID.MatchString(own) || outward != own {
		t.Errorf("answer %q, outward %q", own, outward)
	}
	const global = "req-0123abcd-4567-89ab-cdef-0123456789ab"
	if id := ask(h, "GET", target, "", "X-OpenStack-Request-ID: "+global).Header().Get("X-Openstack-Request-Id"); id == global || outward != global {
		t.Errorf("answer %q, outward %q; want a new one, and the client's", id, outward)
	}
	if ask(h, "GET", target, "", "X-OpenStack-Request-ID: req-evil\n"); outward == "req-evil\n" {
		t.Error("anything is taken for a request id")
	}
}

func TestBodies(t *testing.T) {
	h := handler(t, Config{MaxBody: 100}, rows{})
	big := `{"segment": {"description": "` + strings.Repeat("x", 100) + `"}}`
	expect(t, ask(h, "POST", "/v1/segments", big, "X-Auth-Token: "), 413, `{"message":"Request is too large. Larger than max_request_body_size (100).`)
	r := httptest.NewRequest("POST", "/v1/segments", io.NopCloser(strings.NewReader(big)))
	r.ContentLength = -1 // chunked
	r.Header.Set("X-Auth-Token", "admin")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	expect(t, w, 413, "Request is too large.")
	expect(t, ask(h, "POST", "/v1/segments", "{"), 400, `"Malformed request body"`)
	expect(t, ask(h, "POST", "/v1/segments", ""), 400, `"None is not of type 'object'"`)
	for contentType, status := range map[string]int{
		"": 200, "text/plain": 200, "application/json": 200, "application/json; charset=utf-8": 200, "application/json; x": 200,
		"application/vnd.openstack.masakari+json": 200, "application/xml": 415, "application/x-www-form-urlencoded": 415, "/": 415,
		";charset=utf-8": 200, "application/json;charset=utf-8;charset=utf-8": 200, "Application/JSON": 415, "application/json, text/plain": 415,
	} {
		w := ask(h, "GET", "/v1", "", "Content-Type: "+contentType)
		if w.Code != status {
			t.Errorf("%q: %d, want %d", contentType, w.Code, status)
		}
	}
	expect(t, ask(h, "GET", "/v1", "", "Content-Type: text/csv"), 415, `{"badMediaType":{"code":415,"message":"Unsupported Content-Type"}}`)
}

func TestCORS(t *testing.T) {
	cors := DefaultCORS()
	cors.AllowedOrigin = []string{"http://dash"}
	h := handler(t, Config{CORS: cors}, rows{list: func(ha.Page) ([]ha.Segment, error) { return nil, nil }})
	preflight := func(headers ...string) http.Header {
		w := ask(h, "OPTIONS", "/v1/segments", "", append(headers, "X-Auth-Token: ")...)
		expect(t, w, 200, "")
		if w.Body.Len() > 0 {
			t.Errorf("a body: %s", w.Body)
		}
		got := w.Header().Clone()
		for _, name := range []string{"X-Openstack-Request-Id", "Content-Length"} {
			got.Del(name)
		}
		return got
	}
	if diff := gocmp.Diff(http.Header{
		"Vary": {"Origin"}, "Access-Control-Allow-Origin": {"http://dash"}, "Access-Control-Allow-Credentials": {"true"},
		"Access-Control-Max-Age": {"3600"}, "Access-Control-Allow-Methods": {"PUT"}, "Access-Control-Allow-Headers": {"x-auth-token,Content-Type"},
	}, preflight("Origin: http://dash", "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: x-auth-token, Content-Type")); diff != "" {
		t.Error(diff)
	}
	for _, refused := range [][]string{
		{},
		{"Origin: http://evil", "Access-Control-Request-Method: PUT"},
		{"Origin: http://dash", "Access-Control-Request-Method: TRACE"},
		{"Origin: http://dash"},
		{"Origin: http://dash", "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: X-Evil"},
	} {
		if got := preflight(refused...); len(got) > 0 {
			t.Errorf("%v: %v", refused, got)
		}
	}
	w := ask(h, "GET", "/v1/segments", "", "Origin: http://dash")
	if got := w.Header(); w.Code != 200 || got.Get("Vary") != "OpenStack-API-Version,Origin" || got.Get("Access-Control-Allow-Origin") != "http://dash" ||
		got.Get("Access-Control-Expose-Headers") != "X-Auth-Token,X-Openstack-Request-Id,X-Subject-Token,X-Service-Token" {
		t.Errorf("%d %v", w.Code, got)
	}
	w = ask(h, "GET", "/v1/segments", "", "Origin: http://evil")
	if got := w.Header(); w.Code != 200 || got.Get("Vary") != "OpenStack-API-Version" || got.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %v", w.Code, got)
	}

	// Who is named is told so, also where any other may ask.
	cors.AllowedOrigin = []string{"*", "http://dash"}
	h = handler(t, Config{CORS: cors}, rows{list: func(ha.Page) ([]ha.Segment, error) { return nil, nil }})
	for origin, want := range map[string]string{"http://dash": "http://dash", "http://other": "*"} {
		for _, w := range []*httptest.ResponseRecorder{
			ask(h, "GET", "/v1/segments", "", "Origin: "+origin), ask(h, "OPTIONS", "/v1/segments", "", "Origin: "+origin, "Access-Control-Request-Method: GET"),
		} {
			if got := w.Header().Get("Access-Control-Allow-Origin"); got != want {
				t.Errorf("%s is told %q, want %q", origin, got, want)
			}
		}
	}
}
