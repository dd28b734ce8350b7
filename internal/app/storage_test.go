package app

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
)

// lines hands out the lines of a log that tell of silent agents.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	if strings.Contains(string(p), string(ha.AlarmAgentSilent)) {
		l <- string(p)
	}
	return len(p), nil
}

// TestSilentAgentIsToldOnce: an alarm once for each silence, however often salvor is started while it lasts.
func TestSilentAgentIsToldOnce(t *testing.T) {
	dir := t.TempDir()
	conf := load(t, "[DEFAULT]\nstate_path = "+dir+"\n")
	rows, err := store.Open(t.Context(), storeConfig(conf, syncReads))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", filepath.Join(dir, "masakari.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(rows.Close(), raw.Close()) }()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(nil, rows.Sync(t.Context()))
	s, err := rows.CreateSegment(t.Context(), ha.Segment{UUID: "aaaaaaaa-4567-49ab-8def-0123456789ab", Name: "s", RecoveryMethod: ha.MethodAuto, ServiceType: "COMPUTE", Enabled: true})
	must(s, err)
	hosts, seq := map[string]string{}, int64(0)
	for i, name := range []string{"cmp-1", "cmp-2", "cmp-3"} {
		h, err := rows.CreateHost(t.Context(), ha.Host{UUID: fmt.Sprintf("bbbbbbbb-4567-49ab-8def-%012d", i), Name: name, SegmentUUID: s.UUID, Type: "COMPUTE", ControlAttributes: "SSH"})
		must(h, err)
		hosts[name] = h.UUID
	}
	falls := func(name string) { // its agent reports, and then no more for an hour and some seconds
		t.Helper()
		seq++
		must(rows.ReportStorage(t.Context(), ha.AgentReport{HostUUID: hosts[name], EpisodeUUID: "cccccccc-4567-49ab-8def-0123456789ab", TicketKey: []byte("k"), Epoch: 1, Seq: seq}))
		must(raw.Exec("UPDATE host_health SET reported_at = ? WHERE host_uuid = ?",
			time.Now().UTC().Add(-time.Hour-time.Duration(seq)*time.Second).Format("2006-01-02 15:04:05.000000"), hosts[name]))
	}
	told := func(want ...string) { // by a start of salvor, in this order
		t.Helper()
		log := make(lines, 10)
		a, err := Serve(t.Context(), Options{Config: conf, Log: slog.New(slog.NewTextHandler(log, nil)), Listen: "127.0.0.1:0"})
		must(a, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		for _, host := range want {
			select {
			case line := <-log:
				if !strings.Contains(line, "host="+host) {
					t.Errorf("want %s, got %s", host, line)
				}
			case <-time.After(time.Minute):
				t.Errorf("%s was never told", host)
			}
		}
		stop()
		must(nil, <-done)
		must(nil, a.Close())
		if len(log) > 0 {
			t.Errorf("told as well: %s", <-log)
		}
	}
	falls("cmp-1")
	told("cmp-1")
	falls("cmp-2")
	told("cmp-2")
	falls("cmp-3")
	falls("cmp-1") // it has come back, and is silent again
	told("cmp-1", "cmp-3")
}
