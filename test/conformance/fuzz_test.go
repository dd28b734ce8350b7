package conformance

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// Whatever a client sends, the API answers JSON as openapi.yaml has it, never 500, and takes only what openapi.yaml lists.
func answerOf(t *testing.T, h http.Handler, method, target string, body []byte) (int, []byte) {
	t.Helper()
	link, err := url.Parse(target)
	if err != nil {
		return 0, nil // no client can send it
	}
	r := httptest.NewRequest(method, "/", bytes.NewReader(body))
	r.URL = link
	r.Header.Set("Accept", "application/json")
	r.Header.Set("OpenStack-API-Version", "instance-ha 1.3")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code >= http.StatusInternalServerError {
		t.Errorf("%s %s %q: %d %s", method, target, body, w.Code, w.Body)
	}
	if w.Code != http.StatusNoContent && !json.Valid(w.Body.Bytes()) {
		t.Errorf("%s %s %q: %d %s is no JSON", method, target, body, w.Code, w.Body)
	}
	if err := testkit.Document(t).Check(testkit.Exchange{
		Method: method, URL: link, Header: r.Header, Body: body, Sent: true,
		Status: w.Code, ResponseHeader: w.Header(), ResponseBody: w.Body.Bytes(),
	}); err != nil {
		t.Error(err)
	}
	return w.Code, w.Body.Bytes()
}

func fuzzed(f *testing.F) (h http.Handler, segment string) {
	h = handler(f, "sqlite://", noAuth)
	r := httptest.NewRequest(http.MethodPost, "/v1/segments", bytes.NewReader([]byte(`{"segment": {"name": "s", "recovery_method": "auto", "service_type": "x"}}`)))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var body struct{ Segment struct{ UUID string } }
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Segment.UUID == "" {
		f.Fatalf("%d %s", w.Code, w.Body)
	}
	return h, body.Segment.UUID
}

func FuzzBodies(f *testing.F) {
	for i, s := range []string{
		`{"segment": {"name": "a", "recovery_method": "auto", "service_type": "x", "description": "\n", "enabled": "on"}}`,
		`{"segment": {"description": null}}`,
		`{"host": {"name": "h", "type": "", "control_attributes": "", "reserved": "off"}}`,
		`{"notification": {"type": "VM", "hostname": "h", "generated_time": "2026-01-01T00:00:00+09:00", "payload": {"event": "E", "instance_uuid": "0123456789abcdef0123456789abcdef", "vir_domain_event": "\u0000"}}}`,
		`{"reason": "x"}`,
		`{"host": {"name": "novaNNN"}}`,
	} {
		f.Add(uint8(i), []byte(s))
	}
	h, segment := fuzzed(f)
	requests := [][2]string{
		{http.MethodPost, "/v1/segments"}, {http.MethodPut, "/v1/segments/" + segment}, {http.MethodPost, "/v1/segments/" + segment + "/hosts"},
		{http.MethodPost, "/v1/notifications"}, {http.MethodPost, "/v1/ext/hosts/h/confirm-off"}, {http.MethodPut, "/v1/segments/" + segment + "/hosts/" + nowhere},
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		r := requests[int(which)%len(requests)]
		if bytes.Contains(body, []byte("nova")) {
			return // the stub's own faults are 503, as they must be
		}
		answerOf(t, h, r[0], r[1], body)
	})
}

func FuzzQueries(f *testing.F) {
	for i, s := range []string{
		"limit=1&marker=7&sort_key=name&sort_dir=asc", "enabled=on&recovery_method=%00&service_type=%ff", "reserved=t&type=x&marker=%30",
		"generated-since=2026-01-01T00:00:00Z&status=new&source_host_uuid=%27", "sort_key=payload&sort_key=id&sort_dir=desc&limit=99999999999999999999", ";;&%zz=%",
	} {
		f.Add(uint8(i), s)
	}
	h, segment := fuzzed(f)
	targets := []string{"/v1/segments", "/v1/segments/" + segment + "/hosts", "/v1/notifications", "/v1/notifications/" + nowhere + "/vmoves"}
	f.Fuzz(func(t *testing.T, which uint8, query string) {
		answerOf(t, h, http.MethodGet, targets[int(which)%len(targets)]+"?"+url.PathEscape(query), nil)
		link := url.URL{Path: targets[int(which)%len(targets)], RawQuery: query}
		answerOf(t, h, http.MethodGet, link.String(), nil)
	})
}

func FuzzPaths(f *testing.F) {
	for _, s := range []string{"segments", "segments/x.json", "ab12/segments", "notifications//vmoves", "ext/recoveries/\x00", "segments/%2f/hosts", "versions/v1.0", ".xml"} {
		f.Add("GET", s)
	}
	f.Add("DELETE", "segments/x")
	h, _ := fuzzed(f)
	f.Fuzz(func(t *testing.T, method, path string) {
		link := url.URL{Path: "/v1/" + path}
		switch method {
		case http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodPost:
			answerOf(t, h, method, link.String(), nil)
		}
	})
}
