package simhttp

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/sim"
)

const reset = "/redfish/v1/Systems/host-1/Actions/ComputerSystem.Reset"

// as sends one request to a BMC with headers of one's own, and returns status, headers and body.
func (l *lab) as(ctx context.Context, headers map[string]string, method, path, body string) (int, http.Header, string, error) {
	r, err := http.NewRequestWithContext(ctx, method, l.url+path, strings.NewReader(body))
	l.must(err)
	for key, value := range headers {
		r.Header.Set(key, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	var text json.RawMessage
	_ = json.NewDecoder(resp.Body).Decode(&text) // 204 has none
	return resp.StatusCode, resp.Header, string(text), nil
}

func TestRedfishAccounts(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 2}, Options{})
	get := func(headers map[string]string, path string) int {
		status, _, _, err := l.as(t.Context(), headers, "GET", path, "")
		l.must(err)
		return status
	}
	basic := func(user, pass string) map[string]string {
		r, _ := http.NewRequest("GET", "/", nil)
		r.SetBasicAuth(user, pass)
		return map[string]string{"Authorization": r.Header.Get("Authorization")}
	}
	for _, tc := range []struct {
		headers map[string]string
		want    int
	}{
		{nil, 200}, {basic("admin", "secret"), 200}, {basic("admin", "wrong"), 401}, {basic("nobody", "secret"), 401},
		{map[string]string{"Authorization": "Basic %%%"}, 401}, {map[string]string{"X-Auth-Token": "none"}, 401},
	} {
		if got := get(tc.headers, "/redfish/v1/Systems"); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.headers, got, tc.want)
		}
	}
	if status, _, _, err := l.as(t.Context(), nil, "POST", redfishSessions, `{"UserName": "admin", "Password": "wrong"}`); err != nil || status != 401 {
		t.Errorf("a session with a wrong password: %d %v", status, err)
	}
	status, header, _, err := l.as(t.Context(), nil, "POST", redfishSessions, `{"UserName": "admin", "Password": "secret"}`)
	token, where := map[string]string{"X-Auth-Token": header.Get("X-Auth-Token")}, header.Get("Location")
	if err != nil || status != 201 || get(token, "/redfish/v1/Systems/host-1") != 200 {
		t.Fatalf("a session: %d %v", status, err)
	}
	if status, _, _, _ := l.as(t.Context(), token, "DELETE", where, ""); status != 204 || get(token, "/redfish/v1/Systems/host-1") != 401 {
		t.Errorf("a session that was ended: %d", status)
	}
	// The way from the root to a system.
	_, _, body, _ := l.as(t.Context(), nil, "GET", "/redfish/v1/", "")
	if !strings.Contains(body, `"/redfish/v1/Systems"`) {
		t.Error(body)
	}
	_, _, body, _ = l.as(t.Context(), nil, "GET", "/redfish/v1/Systems", "")
	if !strings.Contains(body, "/redfish/v1/Systems/host-2") {
		t.Error(body)
	}
}

func TestRedfishFaults(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 1}, Options{})
	set := func(body string) { l.control("POST", "/sim/hosts/host-1/bmc", body, nil) }
	set(`{"denied": true}`)
	if status, body := l.call("", "", "POST", reset, `{"ResetType": "ForceOff"}`); status != 401 || !strings.Contains(body, "ExtendedInfo") {
		t.Errorf("denied: %d %s", status, body)
	}
	set(`{"no_force_off": true}`)
	if status, body := l.call("", "", "POST", reset, `{"ResetType": "ForceOff"}`); status != 400 || !l.cloud.Hosts()[0].Powered {
		t.Errorf("no ForceOff: %d %s", status, body)
	}
	set(`{"dark": true}`)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if status, _, _, err := l.as(ctx, nil, "GET", "/redfish/v1/Systems/host-1", ""); err == nil {
		t.Errorf("a dark BMC answered %d", status)
	}
	set(`{"off_after_ms": 1, "refuse_off": 409}`)
	if status, body := l.call("", "", "POST", reset, `{"ResetType": "ForceOff"}`); status != 204 {
		t.Errorf("off slowly: %d %s", status, body)
	}
	l.eventually("host-1 off", func() bool { return !l.cloud.Hosts()[0].Powered })
	if status, body := l.call("", "", "POST", reset, `{"ResetType": "ForceOff"}`); status != 409 {
		t.Errorf("off when off: %d %s", status, body)
	}
	for body, want := range map[string]int{`{"drunk": true}`: 400, `{"refuse_off": 200}`: 400, `{`: 400} {
		if status, _ := l.call("", "", "POST", "/sim/hosts/host-1/bmc", body); status != want {
			t.Errorf("%s: %d, want %d", body, status, want)
		}
	}
	if status, _ := l.call("", "", "POST", "/sim/hosts/nowhere/bmc", `{}`); status != 404 {
		t.Errorf("a host that is not there: %d", status)
	}
}
