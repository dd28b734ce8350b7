package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/wire"
)

// TestWatch: each change is printed once, an api that is away is waited for, and the end decides the exit status.
func TestWatch(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	entry := func(after time.Duration, kind, text string) wire.TimelineEntry {
		return wire.TimelineEntry{At: wire.Timestamp{Time: began.Add(after)}, Kind: kind, Text: text}
	}
	gate, order := entry(0, "gate", "brake holds"), entry(time.Second, "intent", "evacuate\x1b[31m vm-1")
	state := func(status, message string, end bool, timeline ...wire.TimelineEntry) *wire.Recovery {
		r := &wire.Recovery{NotificationUUID: "N", Status: status, Message: &message, Unit: &wire.Unit{}, Timeline: timeline}
		if end {
			r.Unit.EndedAt = &wire.Timestamp{Time: began}
		}
		return r
	}
	begin := []*wire.Recovery{state("new", "", false), nil, nil, state("running", "waiting at gate brake", false, gate),
		state("running", "waiting at gate brake", false, gate), state("error", "attempt 1 failed", false, gate, order)}
	tests := []struct {
		last *wire.Recovery
		err  error
		end  string
	}{
		{state("finished", "1 of 1 instances moved", true, gate, order), nil, "finished: 1 of 1 instances moved\n"},
		{state("finished", "", true, gate, order), nil, "finished: noted: it is back. What salvor changed of it is taken back, as soon as that is safe\n"},
		{state("failed", "cancelled by ann", true, gate, order), errSilent, "failed: cancelled by ann\n"},
		{state("ignored", "host returned", true, gate, order), errSilent, "ignored: host returned\n"},
	}
	for _, tt := range tests {
		answers := slices.Concat(begin, []*wire.Recovery{tt.last})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/notifications/N" {
				_, _ = io.WriteString(w, `{"notification": {"payload": {"event": "STARTED"}}}`)
				return
			}
			next := answers[0]
			answers = answers[1:]
			if next == nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			_ = json.NewEncoder(w).Encode(wire.RecoveryBody{Recovery: *next})
		}))
		api, err := client.New(client.Config{URL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		var out, errs output
		w := watcher{api: api, id: "N", out: &out, errs: &errs, format: "table", every: time.Millisecond}
		if err := w.run(t.Context()); !errors.Is(err, tt.err) {
			t.Errorf("%v, want %v", err, tt.err)
		}
		s.Close()
		want := stampWidth + "  status    new\n" +
			"2026-01-02 03:04:05     0.000 s  gate      brake holds\n" + stampWidth + "  status    running: waiting at gate brake\n" +
			"2026-01-02 03:04:06     1.000 s  intent    evacuate[31m vm-1\n" + stampWidth + "  status    error: attempt 1 failed\n\n" + tt.end
		if out.String() != want {
			t.Errorf("got\n%swant\n%s", &out, want)
		}
		if n := strings.Count(errs.String(), "Trying again."); n != 1 {
			t.Errorf("%d times told of one outage:\n%s", n, &errs)
		}
	}
}

// TestWatchIsInterrupted: Ctrl-C ends the watching at once, with the exit status that shells give it.
func TestWatchIsInterrupted(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"recovery": {"status": "running", "unit": {}}}`)
	}))
	defer s.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	var out, errs output
	code := make(chan int)
	go func() {
		code <- Main(ctx, Env{Args: []string{"recovery", "watch", "00000000-0000-4000-8000-00000000000f", "--url", s.URL}, Stdout: &out, Stderr: &errs})
	}()
	out.await(t, "status    running")
	interrupt()
	if got := <-code; got != 130 || !strings.Contains(errs.String(), "the recovery goes on") {
		t.Errorf("exit %d: %s", got, &errs)
	}
}
