package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/telemetry"
)

// prospect is a host with that many instances, of which some are protected.
func prospect(name string, wanted, protected int) ha.HostProspect {
	h := ha.HostProspect{Name: name}
	for i := range wanted {
		h.Moves = append(h.Moves, ha.Prospect{Wanted: true, Protected: i < protected})
	}
	h.Moves = append(h.Moves, ha.Prospect{}) // one that nobody wants protected
	return h
}

// TestUnprotectedInstances: the first of the engines that live counts, page by page; what it cannot see whole it does not tell.
func TestUnprotectedInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.NewMetrics("test")
		engines := []ha.EngineState{{Engine: ha.Engine{Name: "a"}, Idle: time.Minute}, {Engine: ha.Engine{Name: "b"}}, {Engine: ha.Engine{Name: "c"}}}
		pages, away := map[string][]ha.HostProspect{"": {prospect("h1", 3, 1), prospect("h2", 2, 2)}, "h2": {prospect("h3", 4, 3)}}, ""
		var bad error
		var mu sync.Mutex // of these
		set := func(change func()) { mu.Lock(); change(); mu.Unlock() }
		p := &protection{engine: "b", every: time.Hour, tell: m.Unprotected, log: slog.New(slog.DiscardHandler),
			engines: func(context.Context) ([]ha.EngineState, error) {
				mu.Lock()
				defer mu.Unlock()
				return slices.Clone(engines), bad
			},
			cover: func(_ context.Context, marker string) ([]ha.HostProspect, string, error) {
				mu.Lock()
				defer mu.Unlock()
				hosts := append([]ha.HostProspect{}, pages[marker]...)
				for i := range hosts {
					if hosts[i].Name == away {
						hosts[i].Err = "the cell is away"
					}
				}
				return hosts, map[string]string{"": "h2"}[marker], nil
			}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { p.run(ctx); close(done) }()
		defer func() { cancel(); <-done }()
		shows := func(when, want string) {
			t.Helper()
			synctest.Wait()
			if got := metric(m, "salvor_unprotected_instances"); got != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		shows("at the start", "")
		time.Sleep(time.Minute)
		shows("counted", "3")
		set(func() { away = "h3" })
		time.Sleep(time.Hour)
		shows("a cell is away", "")
		set(func() { away, pages["h2"] = "", nil })
		time.Sleep(time.Hour)
		shows("mended", "2")
		set(func() { engines[0].Idle = 0 })
		time.Sleep(time.Hour)
		shows("another engine counts", "")
		set(func() { engines[0].Idle, bad = time.Minute, errors.New("no database") })
		time.Sleep(time.Hour)
		shows("no database", "")
		set(func() { bad = nil })
		time.Sleep(time.Hour)
		shows("again", "2")
	})
}

// metric is what a scrape shows of a metric without labels, "" when it is not there.
func metric(m *telemetry.Metrics, name string) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestTwoAgentsOfOneHostAreCounted: the reports of the earlier one are refused, and a metric says how many.
func TestTwoAgentsOfOneHostAreCounted(t *testing.T) {
	rows, err := store.Open(t.Context(), storeConfig(load(t, "[database]\nconnection = sqlite:///"+filepath.Join(t.TempDir(), "x.sqlite")+"\n"), syncReads))
	if err == nil {
		t.Cleanup(func() { _ = rows.Close() })
		err = rows.Sync(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	m := telemetry.NewMetrics("test")
	c := counted{rows, m}
	s, err := rows.CreateSegment(t.Context(), ha.Segment{UUID: "aaaaaaaa-4567-49ab-8def-0123456789ab", Name: "s", RecoveryMethod: ha.MethodAuto, ServiceType: "COMPUTE", Enabled: true})
	if err != nil {
		t.Fatal(err)
	}
	h, err := rows.CreateHost(t.Context(), ha.Host{UUID: "bbbbbbbb-4567-49ab-8def-0123456789ab", Name: "cmp-1", SegmentUUID: s.UUID, Type: "COMPUTE", ControlAttributes: "SSH"})
	if err != nil {
		t.Fatal(err)
	}
	for seq, epoch := range []int64{1, 2, 1, 2, 1} { // two that report in turn
		_, err := c.ReportStorage(t.Context(), ha.AgentReport{HostUUID: h.UUID, EpisodeUUID: fmt.Sprintf("cccccccc-4567-49ab-8def-%012d", seq), TicketKey: []byte("k"), Epoch: epoch, Seq: int64(seq + 1)})
		if stale := (*ha.StaleEpochError)(nil); err != nil && !errors.As(err, &stale) {
			t.Fatal(err)
		}
	}
	if got := metric(m, "salvor_agent_reports_refused_total"); got != "2" {
		t.Errorf("%s reports were refused", got)
	}
}
