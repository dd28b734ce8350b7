package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/fencing"
	"github.com/salvor-ha/salvor/internal/telemetry"
)

type rehearser map[string]func() ([]fencing.Rehearsal, error)

func (r rehearser) Rehearse(_ context.Context, host string) ([]fencing.Rehearsal, error) {
	return r[host]()
}

// TestRehearsals: a host whose fencing breaks is told of once, and the age of its last success grows; what works again is told, too.
func TestRehearsals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		var hosts atomic.Pointer[[]string]
		well := fencing.Rehearsal{Method: "redfish", OK: true}
		fake := rehearser{
			"cmp-01": func() ([]fencing.Rehearsal, error) {
				if broken.Load() {
					return []fencing.Rehearsal{{Method: "redfish", Text: "login refused"}}, nil
				}
				return []fencing.Rehearsal{well}, nil
			},
			"cmp-02": func() ([]fencing.Rehearsal, error) {
				return []fencing.Rehearsal{{Method: "redfish", Text: "no answer within 20s"}, well}, nil
			},
			"cmp-03": func() ([]fencing.Rehearsal, error) { return nil, fmt.Errorf("%w for it", fencing.ErrNotConfigured) },
			"cmp-04": func() ([]fencing.Rehearsal, error) { return nil, errors.New("may be one or the other") },
		}
		hosts.Store(&[]string{"cmp-01", "cmp-02", "cmp-03"})
		var log bytes.Buffer
		r := &rehearsals{fencing: fake, every: time.Hour, log: slog.New(slog.NewTextHandler(&log, nil)), began: time.Now(), seen: map[string]rehearsed{},
			hosts: func(context.Context) ([]string, error) { return *hosts.Load(), nil }}
		m := telemetry.NewMetrics("test")
		m.Fencing(r.health)
		metrics := func(want ...string) {
			t.Helper()
			w := httptest.NewRecorder()
			m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			for _, line := range want {
				if !strings.Contains(w.Body.String(), line+"\n") {
					t.Errorf("no %s", line)
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.run(ctx) }()
		synctest.Wait()
		metrics(`salvor_fencing_hosts{state="ready"} 1`, `salvor_fencing_hosts{state="degraded"} 1`, `salvor_fencing_hosts{state="none"} 1`,
			`salvor_fencing_rehearsal_age_seconds 0`)
		broken.Store(true)
		time.Sleep(3*time.Hour + time.Minute)
		synctest.Wait()
		metrics(`salvor_fencing_hosts{state="failing"} 1`, `salvor_fencing_rehearsal_age_seconds 10860`)
		if n := strings.Count(log.String(), `"ALARM: fencing of cmp-01 would fail" host=cmp-01 why="redfish: login refused"`); n != 1 {
			t.Errorf("told %d times:\n%s", n, &log)
		}
		if !strings.Contains(log.String(), "a fencing method of cmp-02 would fail") || !strings.Contains(log.String(), "no fencing is configured for cmp-03") {
			t.Errorf("%s", &log)
		}
		broken.Store(false)
		hosts.Store(&[]string{"cmp-01", "cmp-04"})
		time.Sleep(time.Hour)
		synctest.Wait()
		metrics(`salvor_fencing_hosts{state="ready"} 1`, `salvor_fencing_hosts{state="failing"} 1`, `salvor_fencing_hosts{state="none"} 0`)
		if !strings.Contains(log.String(), "fencing of cmp-01 would work") {
			t.Errorf("%s", &log)
		}
		cancel()
		<-ended
	})
}

// TestAPITellsWhatEnginesCanFence: an api that runs apart knows who can be fenced by its own fencing file, and does not claim to know without one.
func TestAPITellsWhatEnginesCanFence(t *testing.T) {
	c := newClinic(t)
	file := filepath.Join(t.TempDir(), "fencing.yaml")
	// Without passwords, to controllers that are not there: none is called.
	text := "hosts:\n  host-1: [{kind: redfish, address: 'https://192.0.2.1', user: u}]\n  host-2: []\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	open := c.noauth()
	configured := strings.Replace(open, "[salvor]\n", "[salvor]\nfencing_file = "+file+"\n", 1)
	const nothing, unknown = "nothing can fence ", "whether host-1 can be fenced is not known here: the fencing file is the engines'"
	for _, path := range []string{"/v1/ext/coverage?host=", "/v1/ext/hosts/"} {
		of := func(conf, host string) string {
			if path == "/v1/ext/hosts/" {
				host += "/plan"
			}
			return askedAPI(t, conf, path+host)
		}
		if body := of(configured, "host-1"); !strings.Contains(body, `"host-1"`) || strings.Contains(body, "fence") {
			t.Errorf("one that has a method: %s", body)
		}
		if body := of(configured, "host-2"); !strings.Contains(body, nothing+"host-2") {
			t.Errorf("one that has none: %s", body)
		}
		if body := of(open, "host-1"); strings.Contains(body, nothing) || !strings.Contains(body, unknown) || !strings.Contains(body, "set [salvor] fencing_file for the api, too") {
			t.Errorf("an api without the file: %s", body)
		}
	}
	_, err := API(t.Context(), Options{Config: load(t, strings.ReplaceAll(configured, file, "/nowhere.yaml")), Log: silent(), Listen: "127.0.0.1:0"})
	if err == nil || !strings.Contains(err.Error(), "fencing_file") || !strings.Contains(err.Error(), "/nowhere.yaml") {
		t.Errorf("an api whose file is not there: %v", err)
	}
}

// askedAPI is what an api alone, of that configuration, answers.
func askedAPI(t *testing.T, conf, path string) string {
	t.Helper()
	a, err := API(t.Context(), Options{Config: load(t, conf), Log: silent(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	_, body := get(t, a.URL()+path)
	stop()
	if err := errors.Join(<-ended, a.Close()); err != nil {
		t.Error(err)
	}
	return body
}
