package app

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }

// TestServeWithoutConfiguration: it runs, keeps its rows in state_path, says what is missing, and what needs Nova says so too.
func TestServeWithoutConfiguration(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	conf := "[DEFAULT]\nstate_path = " + dir + "\n"
	var log bytes.Buffer
	a, err := Serve(t.Context(), Options{Config: load(t, conf), Log: slog.New(slog.NewTextHandler(&log, nil)), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"no Nova is configured", "os_privileged_user_auth_url", "no authentication", dir} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, &log)
		}
	}
	u := running(t, conf)
	post := func(path, body string) (int, string) {
		resp, err := http.Post(u+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var b bytes.Buffer
		_, _ = b.ReadFrom(resp.Body)
		return resp.StatusCode, b.String()
	}
	status, body := post("/v1/segments", `{"segment": {"name": "s", "service_type": "compute", "recovery_method": "auto"}}`)
	m := regexp.MustCompile(`"uuid":"([0-9a-f-]+)"`).FindStringSubmatch(body)
	if status != http.StatusCreated || m == nil {
		t.Fatalf("%d %s", status, body)
	}
	status, body = post("/v1/segments/"+m[1]+"/hosts", `{"host": {"name": "cmp-01", "type": "x", "control_attributes": "x"}}`)
	if status != http.StatusServiceUnavailable { // what is temporary is 5xx (rule A5); a monitor's mistake would be 4xx
		t.Errorf("a host that cannot be checked: %d %s", status, body)
	}
}

// TestTablesMustBeThere: only a serve with an embedded database makes its tables by itself.
func TestTablesMustBeThere(t *testing.T) {
	conf := load(t, withKeystone+SimConfig("http://127.0.0.1:1")+"[DEFAULT]\nstate_path = "+t.TempDir()+"\n")
	o := Options{Config: conf, Log: silent(), Listen: "127.0.0.1:0"}
	for name, mk := range map[string]func() (*App, error){
		"api":    func() (*App, error) { return API(t.Context(), o) },
		"engine": func() (*App, error) { return Engine(t.Context(), o) },
	} {
		if _, err := mk(); err == nil || !strings.Contains(err.Error(), "salvor db sync") {
			t.Errorf("%s without tables: %v", name, err)
		}
	}
	db, err := OpenDB(t.Context(), conf, silent())
	if err != nil {
		t.Fatal(err)
	}
	if have, want, err := db.Version(t.Context()); err != nil || have != "" || want == "" {
		t.Errorf("before: %q, %q, %v", have, want, err)
	}
	for range 2 { // again changes nothing
		if err := db.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if have, want, err := db.Version(t.Context()); err != nil || have != want {
		t.Errorf("after: %q, %q, %v", have, want, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for range 3 {
		a, err := Engine(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		names[a.Name()] = true
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(names) != 3 {
		t.Errorf("engines' names are not new at each start: %v", names)
	}
}

// TestADroppedTableIsToldAtTheStart, by its name, and not by errors at the first death.
func TestADroppedTableIsToldAtTheStart(t *testing.T) {
	dir := t.TempDir()
	conf := load(t, SimConfig("http://127.0.0.1:1")+"[DEFAULT]\nstate_path = "+dir+"\n")
	db, err := OpenDB(t.Context(), conf, silent())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Sync(t.Context()), db.Close()); err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", filepath.Join(dir, "masakari.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = raw.Exec("DROP TABLE journal")
	if err := errors.Join(err, raw.Close()); err != nil {
		t.Fatal(err)
	}
	if a, err := Serve(t.Context(), Options{Config: conf, Log: silent(), Listen: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "journal") {
		t.Errorf("serve started: %v, %v", a, err)
	}
}

func TestRefusals(t *testing.T) {
	nova := "[DEFAULT]\nos_privileged_user_auth_url = http://k.example.com\nos_privileged_user_name = u\nos_privileged_user_password = p\nos_privileged_user_tenant = t\n"
	tests := []struct{ name, conf, want string }{
		{"half an account", "[DEFAULT]\nos_privileged_user_name = u\n", "os_privileged_user_password"},
		{"a bad catalog entry", nova + "nova_catalog_admin_info = compute:nova:sideways\n", "nova_catalog_admin_info"},
		{"a Keystone without a password", "[keystone_authtoken]\nauth_url = http://k.example.com\nusername = u\n", "password"},
		{"a database that is none", "[database]\nconnection = oracle://x/y\n", "oracle"},
		{"a database that is away", "[database]\nconnection = mysql+pymysql://u:hush@127.0.0.1:1/m\nmax_retries = 1\nretry_interval = 0\n", "tried 2 times"},
		{"a file that cannot be", "[database]\nconnection = sqlite:////proc/x.sqlite\n", "state_path"},
		{"a policy that is none", "[oslo_policy]\npolicy_file = /dev/null/x\n", "policy"},
	}
	for _, tt := range tests {
		conf := "[DEFAULT]\nstate_path = " + t.TempDir() + "\n" + tt.conf
		_, err := Serve(t.Context(), Options{Config: load(t, conf), Log: silent(), Listen: "127.0.0.1:0"})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, err := Engine(t.Context(), Options{Config: load(t, ""), Log: silent()}); err == nil || !strings.Contains(err.Error(), "os_privileged_user_auth_url") {
		t.Errorf("an engine without Nova: %v", err)
	}
}

func TestWhatHasNoEffectIsSaid(t *testing.T) {
	conf := "[DEFAULT]\nstate_path = " + t.TempDir() + "\n[oslo_messaging_notifications]\ndriver = routing\n" +
		"[taskflow_driver_recovery_flows]\nhost_auto_failure_recovery_tasks = pre:[], main:['evacuate_instances_task'], post:[]\n" +
		"instance_failure_recovery_tasks = pre:[stop_instance_task],main:[start_instance_task],post:[confirm_instance_active_task]\n"
	var log bytes.Buffer
	a, err := Serve(t.Context(), Options{Config: load(t, conf), Log: slog.New(slog.NewTextHandler(&log, nil)), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Close()
	for text, want := range map[string]bool{"driver = routing is not supported": true, "host_auto_failure_recovery_tasks": true, "instance_failure_recovery_tasks": false} {
		if strings.Contains(log.String(), text) != want {
			t.Errorf("%q: want it in the log: %v\n%s", text, want, &log)
		}
	}
}

// TestMetricsTellOfTheStop: /metrics is there until the parts that it tells of have ended.
func TestMetricsTellOfTheStop(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	for name, mk := range map[string]func(context.Context, Options) (*App, error){"serve": Serve, "api": API} {
		t.Run(name, func(t *testing.T) {
			conf := load(t, "[DEFAULT]\nauth_strategy = noauth2\nstate_path = "+t.TempDir()+"\n[salvor]\nmetrics_listen = "+address+"\n")
			if name == "api" {
				db, err := OpenDB(t.Context(), conf, silent())
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(db.Sync(t.Context()), db.Close()); err != nil {
					t.Fatal(err)
				}
			}
			a, err := mk(t.Context(), Options{Config: conf, Log: silent(), Listen: "127.0.0.1:0"})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- a.Run(ctx) }()
			conn, err := net.Dial("tcp", strings.TrimPrefix(a.URL(), "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			// "Expect" makes the server say that it has begun.
			if _, err := io.WriteString(conn, "POST /v1/segments HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Read(make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
			stop()
			for { // until the api takes nothing new: it is the first to stop
				other, err := net.Dial("tcp", strings.TrimPrefix(a.URL(), "http://"))
				if err != nil {
					break
				}
				_ = other.Close()
				<-time.After(time.Millisecond)
			}
			if status, text := get(t, "http://"+address+"/metrics"); status != http.StatusOK || !strings.Contains(text, "salvor_") {
				t.Errorf("during the stop: %d %.100s", status, text)
			}
			if _, err := io.WriteString(conn, "{}"); err != nil {
				t.Error(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMetrics: what the process does can be scraped.
func TestMetrics(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	u := running(t, "[DEFAULT]\nstate_path = "+t.TempDir()+"\n[salvor]\nmetrics_listen = "+address+"\n")
	body := `{"notification": {"type": "COMPUTE_HOST", "hostname": "cmp-01", "generated_time": "2026-01-01T00:00:00", "payload": {"event": "STOPPED", "host_status": "NORMAL", "cluster_status": "OFFLINE"}}}`
	resp, err := http.Post(u+"/v1/notifications", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	want := []string{`salvor_admissions_total{type="COMPUTE_HOST",verdict="unknown host"} 1`, `salvor_api_requests_total{method="POST",route="/v1/notifications",status="400"} 1`, "salvor_engine_units 0"}
	deadline := time.Now().Add(time.Minute)
	for {
		_, text := get(t, "http://"+address+"/metrics")
		missing := ""
		for _, w := range want {
			if !strings.Contains(text, w) {
				missing = w
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is missing in:\n%s", missing, text)
		}
		<-time.After(20 * time.Millisecond)
	}
}
