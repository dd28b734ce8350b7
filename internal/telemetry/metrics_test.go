package telemetry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatal(w.Code, err)
	}
	return string(body)
}

func TestMetrics(t *testing.T) {
	m := NewMetrics("1.2.3")
	m.Admission("COMPUTE_HOST", "duplicate")
	m.Notification("COMPUTE_HOST", "finished")
	m.Held(3, 16)
	m.Claim("host", true)
	m.Hold("brake")
	m.Act("evacuate", "", 300*time.Millisecond)
	m.Act("evacuate", "in doubt", 30*time.Second)
	m.CloudCall("servers", "broken", time.Second)
	m.Move("succeeded")
	m.Recovery("host", "finished", 42*time.Second)
	text := scrape(t, m)
	for _, want := range []string{
		`salvor_build_info{version="1.2.3"} 1`,
		`salvor_admissions_total{type="COMPUTE_HOST",verdict="duplicate"} 1`,
		`salvor_notifications_ended_total{status="finished",type="COMPUTE_HOST"} 1`,
		`salvor_engine_units 3`, `salvor_cloud_concurrency_limit 16`,
		`salvor_engine_claims_total{kind="host",takeover="true"} 1`,
		`salvor_gate_holds_total{gate="brake"} 1`,
		`salvor_acts_total{class="ok",kind="evacuate"} 1`, `salvor_acts_total{class="in doubt",kind="evacuate"} 1`,
		`salvor_act_seconds_bucket{kind="evacuate",le="0.5"} 1`,
		`salvor_cloud_calls_total{class="broken",op="servers"} 1`,
		`salvor_moves_total{outcome="succeeded"} 1`,
		`salvor_recovery_seconds_bucket{kind="host",status="finished",le="60"} 1`,
		`go_goroutines`, `process_open_fds`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestMiddleware(t *testing.T) {
	m := NewMetrics("x")
	h := m.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusAccepted)
			w.WriteHeader(http.StatusTeapot) // net/http ignores it
			return
		}
		_, _ = io.WriteString(w, "ok")
	}), nil)
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodPost, "/v1/notifications", nil),
		httptest.NewRequest(http.MethodGet, "/v1/0123/segments/77/hosts/88", nil),
		httptest.NewRequest("BREW", "/v1/notifications", nil),
	} {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	text := scrape(t, m)
	for _, want := range []string{
		`salvor_api_requests_total{method="POST",route="/v1/notifications",status="202"} 1`,
		`salvor_api_requests_total{method="GET",route="/v1/segments/{id}/hosts/{id}",status="200"} 1`,
		`salvor_api_requests_total{method="other",route="/v1/notifications",status="200"} 1`,
		`salvor_api_request_seconds_count{method="POST",route="/v1/notifications"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// TestRoutesAreFew: no client can make names.
func TestRoutesAreFew(t *testing.T) {
	for path, want := range map[string]string{
		"/": "/", "": "/", "/v1": "/v1", "/v1/": "/v1", "/v1/abc": "/v1", "/healthcheck": "/healthcheck",
		"/v1/segments": "/v1/segments", "/v1/p/segments/": "/v1/segments", "/v1/segments/x": "/v1/segments/{id}",
		"/v1/segments/x/hosts": "/v1/segments/{id}/hosts", "/v1/notifications/x/vmoves/y": "/v1/notifications/{id}/vmoves/{id}",
		"/v1/notifications/x/hosts": "other", "/v1/segments/x/hosts/y/z": "other", "/v1/extensions/x": "/v1/extensions/{id}",
		"/v1/extensions/x/y": "other", "/v1/p/q": "other", "/v2/x": "other", "/favicon.ico": "other",
		"/v1/ext/recoveries/x/hold": "/v1/ext", "/v1/p/ext/hosts": "/v1/ext", "/metrics": "/metrics",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = path
		if got := RouteOf(r); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
}
