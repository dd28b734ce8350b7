package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
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
