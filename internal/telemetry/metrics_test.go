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
	m.ExpectAlarm("brake")
	m.Alarm("double_run")
	m.Shipped("rabbit", 3)
	m.ShipFailed("rabbit")
	m.ShipDropped("rabbit", "too old", 2)
	m.Outbox("rabbit", 7, 90*time.Second)
	m.Unprotected(5)
	m.StorageHosts("error", 2)
	m.StorageEpisodes("open", 4)
	m.AgentRefused()
	m.Blobs("at_risk", 6, 1<<20)
	m.BlobTransfers(8, 1<<10)
	m.Doctor().Found(map[[2]string]int{{"nova", "fail"}: 1})
	m.Fencing(func() (map[Fencing]int, time.Duration) { return map[Fencing]int{FencingFailing: 9}, time.Hour })
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
		`salvor_engine_beats_total 1`, `salvor_cloud_call_seconds_count{op="servers"} 1`,
		`salvor_alarms_total{alarm="brake"} 0`, `salvor_alarms_total{alarm="double_run"} 1`,
		`salvor_outbox_shipped_total{to="rabbit"} 3`, `salvor_outbox_failures_total{to="rabbit"} 1`, `salvor_outbox_dropped_total{to="rabbit",why="too old"} 2`,
		`salvor_outbox_rows{to="rabbit"} 7`, `salvor_outbox_oldest_seconds{to="rabbit"} 90`,
		`salvor_unprotected_instances 5`, `salvor_storage_hosts{state="error"} 2`, `salvor_storage_episodes{state="open"} 4`, `salvor_agent_reports_refused_total 1`,
		`salvor_blobs{durability="at_risk"} 6`, `salvor_blob_bytes{durability="at_risk"} 1.048576e+06`, `salvor_blob_transfers 8`, `salvor_blob_transfer_bytes_left 1024`,
		`salvor_doctor_checks{check="nova",state="fail"} 1`,
		`salvor_fencing_hosts{state="failing"} 9`, `salvor_fencing_hosts{state="ready"} 0`, `salvor_fencing_rehearsal_age_seconds 3600`,
		`go_goroutines`, `process_open_fds`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	m.Unprotected(-1) // another engine counts
	if text := scrape(t, m); strings.Contains(text, "salvor_unprotected_instances ") {
		t.Error("two engines would count the same instances")
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
	}))
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
		if got := routeOf(r); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
}
