package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/agent/copies"
	"github.com/salvor-ha/salvor/internal/agent/disks"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/wire"
)

const someBlob = "11111111-2222-4333-8444-555555555555"

// poll is one question for orders.
type poll struct {
	at      time.Time
	version string
	wait    time.Duration
}

// scripted is an API whose answers a test writes.
type scripted struct {
	report func(wire.AgentReport) (wire.AgentAnswer, error)          // nil: taken, no orders
	orders func(context.Context, poll, int) (wire.OrdersBody, error) // nil: none, ever

	mu    sync.Mutex
	got   []wire.AgentReport
	at    []time.Time
	polls []poll
}

func (s *scripted) AgentReport(_ context.Context, _ string, r wire.AgentReport) (wire.AgentAnswer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got, s.at = append(s.got, r), append(s.at, time.Now())
	if s.report == nil {
		return wire.AgentAnswer{}, nil
	}
	return s.report(r)
}

func (s *scripted) AgentOrders(ctx context.Context, _, version string, wait time.Duration) (wire.OrdersBody, error) {
	s.mu.Lock()
	p := poll{time.Now(), version, wait}
	s.polls = append(s.polls, p)
	n := len(s.polls)
	s.mu.Unlock()
	if s.orders == nil {
		return waited(ctx, p)
	}
	return s.orders(ctx, p, n)
}

// waited is what a poll comes to during which nothing happens.
func waited(ctx context.Context, p poll) (wire.OrdersBody, error) {
	select {
	case <-time.After(p.wait):
		return wire.NewOrders(nil), nil
	case <-ctx.Done():
		return wire.OrdersBody{}, ctx.Err()
	}
}

// ended is when the end of an order was first told, zero when it never was.
func (s *scripted) ended(id string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.got {
		for _, tr := range r.Transfers {
			if tr.ID == id && tr.State != "running" {
				return s.at[i]
			}
		}
	}
	return time.Time{}
}

func (s *scripted) asked() []poll {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.polls
}

// cancelled is an order that ends as soon as it is taken over.
func cancelled(id string) wire.AgentOrder {
	return wire.AgentOrder{ID: id, Kind: wire.OrderCancel, Blob: someBlob}
}

// holder is a host that holds blobs.
func holder(t *testing.T, api API) Config {
	t.Helper()
	conf := config(t.TempDir(), nil, nil)
	blobs := t.TempDir()
	conf.API, conf.Prober = api, here{}
	conf.Resources = []disks.Resource{{Name: "blobs", Path: blobs, Kinds: []ha.ObjectKind{ha.ObjectBlob}}}
	conf.Blobs = copies.Config{Dir: blobs, Parallel: 1, Serving: 1, Interval: time.Hour, Pass: time.Hour, Patience: time.Hour, Stall: time.Hour}
	return conf
}

// TestOrdersComeWithPolls, where a report's answer has none.
func TestOrdersComeWithPolls(t *testing.T) {
	api := &scripted{orders: func(ctx context.Context, p poll, n int) (wire.OrdersBody, error) {
		if n != 2 {
			return waited(ctx, p)
		}
		return wire.NewOrders([]wire.AgentOrder{cancelled("x")}), nil
	}}
	conf := holder(t, api)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		run(t, conf, func(*Agent) { time.Sleep(2 * ordersWait) })
		if at := api.ended("x"); at.IsZero() || at.Sub(began) > ordersWait+5*time.Second {
			t.Errorf("told after %s", at.Sub(began))
		}
	})
}

// TestOrdersComeWithAnswers of reports, where polls are not answered.
func TestOrdersComeWithAnswers(t *testing.T) {
	api := &scripted{
		report: func(wire.AgentReport) (wire.AgentAnswer, error) {
			return wire.AgentAnswer{Orders: []wire.AgentOrder{cancelled("x")}}, nil
		},
		orders: func(context.Context, poll, int) (wire.OrdersBody, error) { return wire.OrdersBody{}, errors.New("no") },
	}
	conf := holder(t, api)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		run(t, conf, func(*Agent) { time.Sleep(5 * time.Second) })
		if at := api.ended("x"); at.IsZero() || at.Sub(began) > time.Second {
			t.Errorf("told after %s", at.Sub(began))
		}
	})
}

// TestPacesOfPolls: how long an agent waits until it asks again, whatever it was answered.
func TestPacesOfPolls(t *testing.T) {
	const jitter = 8 // a part of the pause, more or less
	for _, tt := range []struct {
		name   string
		answer func(context.Context, poll) (wire.OrdersBody, error)
		gaps   []time.Duration // between polls, from the first one on
	}{
		{"nothing new", waited, []time.Duration{gather + ordersWait, gather + ordersWait}},
		{"an API that does not wait", func(_ context.Context, p poll) (wire.OrdersBody, error) {
			return wire.OrdersBody{Version: p.version}, nil
		}, []time.Duration{firstPause, firstPause, firstPause}},
		{"an API that knows no orders", func(context.Context, poll) (wire.OrdersBody, error) {
			return wire.OrdersBody{}, &wire.Fault{Status: http.StatusNotFound}
		}, []time.Duration{noRoute, noRoute}},
		{"an API that is away", func(context.Context, poll) (wire.OrdersBody, error) {
			return wire.OrdersBody{}, errors.New("no route to host")
		}, []time.Duration{firstPause, 2 * firstPause, 4 * firstPause, 8 * firstPause, 16 * firstPause, lastPause, lastPause}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api := &scripted{}
			api.orders = func(ctx context.Context, p poll, _ int) (wire.OrdersBody, error) { return tt.answer(ctx, p) }
			conf := holder(t, api)
			synctest.Test(t, func(t *testing.T) {
				run(t, conf, func(*Agent) { time.Sleep(3 * time.Minute) })
			})
			polls := api.asked()
			if tt.name == "nothing new" {
				polls = polls[1:] // the first one came before the first answer of a report
			}
			if len(polls) <= len(tt.gaps) {
				t.Fatalf("%d polls", len(polls))
			}
			for i, want := range tt.gaps {
				if gap := polls[i+1].at.Sub(polls[i].at); gap < want-want/jitter-time.Millisecond || gap > want+want/jitter+time.Millisecond {
					t.Errorf("gap %d is %s, want %s", i, gap, want)
				}
			}
		})
	}
}

// TestARefusedTicketIsRenewed: when a source refuses, the orders are asked for anew at once, and not again within a second if that fails.
func TestARefusedTicketIsRenewed(t *testing.T) {
	list := wire.NewOrders([]wire.AgentOrder{copyOrder})
	var fresh []time.Time
	api := &scripted{orders: func(ctx context.Context, p poll, _ int) (wire.OrdersBody, error) {
		switch {
		case p.version == "" && p.wait == 0:
			if fresh = append(fresh, p.at); len(fresh) == 1 {
				return list, errors.New("away for a moment")
			}
		case p.version == list.Version:
			_, err := waited(ctx, p)
			return list, err
		}
		return list, nil
	}}
	conf := holder(t, api)
	var refused time.Time
	conf.Blobs.HTTP = answers(func() (int, io.ReadCloser) {
		if refused.IsZero() {
			refused = time.Now()
		}
		return http.StatusForbidden, io.NopCloser(strings.NewReader("no"))
	})
	synctest.Test(t, func(t *testing.T) {
		run(t, conf, func(*Agent) { time.Sleep(10 * time.Second) })
	})
	if len(fresh) < 3 || len(fresh) > 12 {
		t.Fatalf("asked anew %d times in 10 s", len(fresh))
	}
	if after := fresh[0].Sub(refused); after > 2*gather {
		t.Errorf("asked anew %s after the refusal", after)
	}
	if after := fresh[1].Sub(fresh[0]); after < firstPause-firstPause/8 {
		t.Errorf("asked again %s after that failed", after)
	}
}

var copyOrder = wire.AgentOrder{ID: "c", Kind: wire.OrderCopy, Blob: someBlob, Size: 3 << 20, SHA256: strings.Repeat("0", 64),
	Sources: []wire.AgentSource{{Host: "h", URL: "http://h", Ticket: "t"}}}

// answers is a client whose server a test writes.
func answers(answer func() (int, io.ReadCloser)) *http.Client {
	return &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		status, body := answer()
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: body, Header: http.Header{}, ContentLength: copyOrder.Size, Request: r}, nil
	})}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestACopyUnderWayIsTold each two seconds, and keeps no other news back for more than a second.
func TestACopyUnderWayIsTold(t *testing.T) {
	api := &scripted{report: func(wire.AgentReport) (wire.AgentAnswer, error) {
		return wire.AgentAnswer{Orders: []wire.AgentOrder{copyOrder}}, nil
	}}
	conf := holder(t, api)
	synctest.Test(t, func(t *testing.T) {
		from, to := io.Pipe()
		conf.Blobs.HTTP = answers(func() (int, io.ReadCloser) { return http.StatusOK, from })
		run(t, conf, func(a *Agent) {
			_, _ = to.Write(make([]byte, copyOrder.Size/2)) // and then it is slow
			time.Sleep(2 * conf.Report)
			api.mu.Lock()
			told := 0
			for i, r := range api.got {
				if time.Since(api.at[i]) < 20*time.Second && len(r.Transfers) > 0 && r.Transfers[0].Bytes > 0 {
					told++
				}
			}
			api.mu.Unlock()
			if told < 8 || told > 12 {
				t.Errorf("told %d times in 20 s", told)
			}
			synctest.Wait()
			changed := time.Now()
			a.changed(conf.Resources[0], disks.Verdict{Status: ha.CheckIOError})
			time.Sleep(1100 * time.Millisecond)
			api.mu.Lock()
			defer api.mu.Unlock()
			if last := api.at[len(api.at)-1]; last.Before(changed) {
				t.Errorf("nothing was told within a second of a change, the last word was %s before it", changed.Sub(last))
			}
		})
		_ = to.Close()
	})
}

// TestTheRoomOfTheBlobDirectoryIsTold: the replicator places copies by it. That of other resources is nobody's.
func TestTheRoomOfTheBlobDirectoryIsTold(t *testing.T) {
	api := &scripted{}
	conf := holder(t, api)
	conf.Prober = &disk{status: ha.CheckOK}
	conf.Resources = append(conf.Resources, disks.Resource{Name: "more", Path: "/srv/more"})
	synctest.Test(t, func(t *testing.T) {
		run(t, conf, func(a *Agent) {
			time.Sleep(2 * conf.Report)
			api.mu.Lock()
			defer api.mu.Unlock()
			if r := api.got[len(api.got)-1]; r.TotalBytes != 100 || r.FreeBytes != 50 {
				t.Errorf("%d of %d bytes are told to be free", r.FreeBytes, r.TotalBytes)
			}
			a.store = "another"
			if r := a.say(); r.TotalBytes != 0 || r.FreeBytes != 0 {
				t.Errorf("%d of %d bytes of no blob directory", r.FreeBytes, r.TotalBytes)
			}
		})
	})
}

// TestStateIsASmallPlainFile: what else has its name is not read, however long it is.
func TestStateIsASmallPlainFile(t *testing.T) {
	dir := t.TempDir()
	for name, write := range map[string]func(string) error{
		"a link":  func(p string) error { return os.Symlink("/etc/hostname", p) },
		"a large": func(p string) error { return os.WriteFile(p, make([]byte, maxState+1), 0o600) },
	} {
		path := filepath.Join(dir, name)
		if err := write(path); err != nil {
			t.Fatal(err)
		}
		if _, err := readSmall(path, maxState); err == nil || !strings.Contains(err.Error(), "not a plain file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReadyToCopy: what must be known of the blob directory before anything is written there, or counts as missing.
func TestReadyToCopy(t *testing.T) {
	for _, tt := range []struct {
		name    string
		verdict disks.Verdict
		marker  string // the value of the marker that is there, "" for none
		doubt   bool
		want    string // "" for ready
	}{
		{"nothing is known yet", disks.Verdict{}, "a", true, ""},
		{"a probe failed once", disks.Verdict{Status: ha.CheckOK, Pending: ha.CheckMissing}, "a", true, ""},
		{"it failed", disks.Verdict{Status: ha.CheckIOError}, "a", false, "has failed: io_error"},
		{"it is another filesystem", disks.Verdict{Status: ha.CheckOK}, "b", false, "another marker"},
		{"nothing is mounted", disks.Verdict{Status: ha.CheckOK}, "", false, "is not there"},
		{"it is well", disks.Verdict{Status: ha.CheckOK}, "a", false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conf := holder(t, &scripted{})
			k, err := openKeeper(conf.StateDir, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			pin := func(value string) disks.Pin {
				return disks.Pin{Host: conf.Host, Value: strings.Repeat(value, 32), Filesystem: strings.Repeat("f", 32)}
			}
			if err := errors.Join(k.setVerdict("blobs", tt.verdict), k.SetPin("blobs", conf.Blobs.Dir, pin("a"))); err != nil {
				t.Fatal(err)
			}
			if tt.marker != "" {
				if err := os.WriteFile(filepath.Join(conf.Blobs.Dir, ".salvor-agent-"+conf.Host), []byte(pin(tt.marker).Text()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			a, err := New(conf)
			if err != nil {
				t.Fatal(err)
			}
			switch err := a.ready(); {
			case errors.Is(err, copies.ErrDoubt) != tt.doubt:
				t.Errorf("%v", err)
			case !tt.doubt && (err == nil) != (tt.want == ""), err != nil && !strings.Contains(err.Error(), tt.want):
				t.Errorf("%v, want %q", err, tt.want)
			}
			if err := os.WriteFile(filepath.Join(conf.StateDir, "pin-blobs.json"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := a.ready(); err == nil {
				t.Error("ready, though nobody knows which filesystem it should be")
			}
		})
	}
}

// TestHealthCheck names the first resource that is not well, and needs no blobs.
func TestHealthCheck(t *testing.T) {
	for _, tt := range []struct {
		first, second ha.CheckStatus
		want          string
	}{
		{"ok", "ok", "ok"}, {"", "ok", "unknown"}, {"ok", "", "unknown"}, {"full", "io_error", "full"}, {"ok", "io_error", "io_error"},
	} {
		conf := config(t.TempDir(), &disk{}, &salvor{})
		conf.Resources = append(conf.Resources, disks.Resource{Name: "more", Path: "/srv/more"})
		k, err := openKeeper(conf.StateDir, time.Now())
		if err == nil {
			err = errors.Join(k.setVerdict("instances", disks.Verdict{Status: tt.first}), k.setVerdict("more", disks.Verdict{Status: tt.second}))
		}
		if err != nil {
			t.Fatal(err)
		}
		a, err := New(conf)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthcheck", nil))
		var h health
		if err := json.Unmarshal(w.Body.Bytes(), &h); err != nil || h.Status != tt.want || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%q, %q: %s, %v", tt.first, tt.second, w.Body, err)
		}
	}
}

// TestAliveIsWhoseLoopsComeRound.
func TestAliveIsWhoseLoopsComeRound(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		conf := config(dir, &disk{}, &salvor{})
		a, err := New(conf)
		if err != nil {
			t.Fatal(err)
		}
		if !a.Alive() {
			t.Error("not alive at its start")
		}
		time.Sleep(10 * time.Minute) // it was never run
		if a.Alive() {
			t.Error("alive though nothing runs")
		}
		a.beat.Store(time.Now().Unix())
		if a.Alive() {
			t.Error("alive though its probes stand still")
		}
		if a, err = New(conf); err != nil {
			t.Fatal(err)
		}
		a.beat.Store(time.Now().Add(-10 * time.Minute).Unix())
		if a.Alive() {
			t.Error("alive though its reports stand still")
		}
	})
}

// TestWhatTheLogSaysOfReports: each trouble once, by its own words, and its end.
func TestWhatTheLogSaysOfReports(t *testing.T) {
	var log bytes.Buffer
	conf := config(t.TempDir(), &disk{}, &salvor{})
	conf.Log = slog.New(slog.NewTextHandler(&log, nil))
	a, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	said := func(answer wire.AgentAnswer, err error, words string) {
		t.Helper()
		log.Reset()
		a.note(answer, err)
		if words == "" && log.Len() > 0 || !strings.Contains(log.String(), words) {
			t.Errorf("the log has %q, want %q", log.String(), words)
		}
	}
	away, conflict := errors.New("no route to host"), &wire.Fault{Status: http.StatusConflict, Message: "older"}
	said(wire.AgentAnswer{Health: "ok"}, nil, "")
	said(wire.AgentAnswer{}, away, "the verdicts stand")
	said(wire.AgentAnswer{}, away, "")
	said(wire.AgentAnswer{}, conflict, "another one runs for it")
	said(wire.AgentAnswer{Health: "ok"}, nil, "takes this host's reports again")
	said(wire.AgentAnswer{Health: "ok"}, nil, "")
	said(wire.AgentAnswer{Health: "error"}, nil, "otherwise than before")
	if err := os.Mkdir(filepath.Join(conf.StateDir, stateFile+".new"), 0o700); err != nil { // nothing can be kept
		t.Fatal(err)
	}
	said(wire.AgentAnswer{Health: "error", Host: "new"}, nil, "cannot be kept")
	log.Reset()
	a.changed(conf.Resources[0], disks.Verdict{Status: ha.CheckIOError})
	if !strings.Contains(log.String(), "a restart would forget it") {
		t.Errorf("the log has %q", log.String())
	}
}
