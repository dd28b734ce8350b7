package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
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

// salvor is the API as an agent sees it.
type salvor struct {
	mu     sync.Mutex
	err    error // of every call
	got    []wire.AgentReport
	at     []time.Time
	tried  int
	orders []wire.AgentOrder
	asked  []string // versions of the polls
}

func (s *salvor) AgentReport(_ context.Context, host string, r wire.AgentReport) (wire.AgentAnswer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried++
	if s.err != nil {
		return wire.AgentAnswer{}, s.err
	}
	if host != "cmp-01" {
		return wire.AgentAnswer{}, &wire.Fault{Status: http.StatusForbidden, Message: "not your host"}
	}
	s.got, s.at = append(s.got, r), append(s.at, time.Now())
	return wire.AgentAnswer{Host: "aaaaaaaa-0000-4000-8000-000000000001", Health: "ok", TicketKey: "00ff", Orders: s.orders, Version: wire.OrdersVersion(s.orders)}, nil
}

func (s *salvor) AgentOrders(ctx context.Context, _, version string, wait time.Duration) (wire.OrdersBody, error) {
	s.mu.Lock()
	s.asked = append(s.asked, version)
	b, err := wire.NewOrders(s.orders), s.err
	s.mu.Unlock()
	if err == nil && b.Version == version {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return b, ctx.Err()
		}
	}
	return b, err
}

func (s *salvor) away(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *salvor) last(t *testing.T) wire.AgentReport {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.got) == 0 {
		t.Fatal("no report")
	}
	return s.got[len(s.got)-1]
}

// disk answers probes.
type disk struct {
	mu     sync.Mutex
	status ha.CheckStatus
}

func (d *disk) set(s ha.CheckStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status = s
}

func (d *disk) Probe(_ context.Context, _ string, q disks.Question) (disks.Finding, <-chan struct{}, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	done := make(chan struct{})
	close(done)
	pin := q.Pin
	if pin.Value == "" {
		pin = disks.Pin{Host: q.Host, Value: q.New, Filesystem: strings.Repeat("a", 32)}
	}
	return disks.Finding{Status: d.status, Detail: "as\nthe test says", Pin: pin, Wrote: q.Write, Total: 100, Free: 50}, done, nil
}

func config(dir string, d *disk, s *salvor) Config {
	return Config{
		Host: "cmp-01", StateDir: dir, Resources: []disks.Resource{{Name: "instances", Path: "/srv/i", Kinds: []ha.ObjectKind{ha.ObjectInstance}}},
		Probe: time.Minute, Write: 5 * time.Minute, Deadline: 30 * time.Second, Report: time.Minute, Prober: d, API: s,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// run runs an agent in virtual time until f returns.
func run(t *testing.T, conf Config, f func(a *Agent)) {
	t.Helper()
	a, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { a.Run(ctx); close(done) }()
	synctest.Wait()
	f(a)
	stop()
	<-done
}

// TestReportsOnChangeAndEachMinute.
func TestReportsOnChangeAndEachMinute(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, s := &disk{status: ha.CheckOK}, &salvor{}
		run(t, config(dir, d, s), func(*Agent) {
			time.Sleep(time.Hour)
			synctest.Wait()
			s.mu.Lock()
			if n := len(s.got); n < 54 || n > 70 {
				t.Errorf("%d reports in an hour", n)
			}
			gaps := map[time.Duration]bool{}
			for i := 2; i < len(s.at); i++ {
				gaps[s.at[i].Sub(s.at[i-1])] = true
			}
			if len(gaps) < 10 {
				t.Errorf("no jitter: %v", gaps)
			}
			for i, r := range s.got {
				if i > 0 && (r.Seq <= s.got[i-1].Seq || r.Epoch != s.got[0].Epoch) {
					t.Errorf("report %d of epoch %d after %d of %d", r.Seq, r.Epoch, s.got[i-1].Seq, s.got[i-1].Epoch)
				}
			}
			s.mu.Unlock()
			d.set(ha.CheckIOError)
			time.Sleep(time.Minute + time.Second)
			synctest.Wait()
			r := s.last(t)
			if v := r.Resources[0]; v.Status != "io_error" || v.Detail != "as the test says" || v.FilesystemID == "" || !slices.Equal(v.Kinds, []string{"instance"}) {
				t.Errorf("%+v", v)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if late := s.at[len(s.at)-1].Sub(r.Resources[0].CheckedAt.Time); late > time.Second {
				t.Errorf("the change was told %s later", late)
			}
		})
	})
}

// TestTheVerdictSurvives the API's absence and a restart: it is told when the API is back, by a newer epoch, and no call was lost or piled up.
func TestTheVerdictSurvives(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, s := &disk{status: ha.CheckOK}, &salvor{}
		var first int64
		run(t, config(dir, d, s), func(a *Agent) {
			first = s.last(t).Epoch
			s.away(errors.New("does not answer"))
			d.set(ha.CheckReadOnly)
			s.mu.Lock()
			s.tried = 0
			s.mu.Unlock()
			time.Sleep(time.Hour)
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.tried < 100 || s.tried > 160 {
				t.Errorf("%d tries in an hour of absence: expected one each half minute", s.tried)
			}
			if !a.Alive() {
				t.Error("the watchdog would end the agent because the API is away")
			}
		})
		d.set(ha.CheckTimeout) // whatever the next probe finds, the first report has the verdict
		reports := &salvor{}
		conf := config(dir, d, reports)
		conf.Prober = never{}
		run(t, conf, func(a *Agent) {
			reports.mu.Lock()
			r := reports.got[0]
			reports.mu.Unlock()
			if r.Epoch <= first || r.Seq != 1 || len(r.Resources) != 1 || r.Resources[0].Status != "read_only" {
				t.Errorf("after a restart: %+v; the epoch was %d", r, first)
			}
			if key, host := a.keep.key(); len(key) != 2 || host == "" {
				t.Errorf("the key of tickets: %x, %q", key, host)
			}
		})
	})
}

// TestAReportThatIsTooLarge: the next ones are smaller, until all is told.
func TestAReportThatIsTooLarge(t *testing.T) {
	a := &Agent{cfg: config(t.TempDir(), &disk{}, &salvor{err: &wire.Fault{Status: http.StatusRequestEntityTooLarge}}), most: wire.MaxCopies}
	var err error
	if a.keep, err = openKeeper(a.cfg.StateDir, time.Now()); err != nil {
		t.Fatal(err)
	}
	a.watch = disks.New(disks.Config{Log: a.cfg.Log}, nil)
	for range 20 {
		if _, err := a.report(t.Context()); err == nil {
			t.Fatal("no error")
		}
	}
	if a.most != 1 {
		t.Errorf("%d at a time", a.most)
	}
}

// never answers, as a mount that hangs from the start.
type never struct{}

func (never) Probe(ctx context.Context, _ string, _ disks.Question) (disks.Finding, <-chan struct{}, error) {
	<-ctx.Done()
	done := make(chan struct{})
	close(done)
	return disks.Finding{}, done, disks.ErrHanging
}

// TestAnUnreadableStateIsNoState: it may hold a verdict, so the agent says so and does not start.
func TestAnUnreadableStateIsNoState(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"", "{", `{"epoch":"x"}`} {
		if err := os.WriteFile(filepath.Join(dir, stateFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(config(dir, &disk{}, &salvor{})); err == nil || !strings.Contains(err.Error(), stateFile) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, stateFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := New(config(dir, &disk{}, &salvor{})); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(dir, stateFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: it holds a secret", info.Mode(), err)
	}
}

// TestAdopt: a pin that is gone is taken anew, and one of another path does not count.
func TestAdopt(t *testing.T) {
	dir := t.TempDir()
	k, err := openKeeper(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	want := disks.Pin{Host: "h", Value: "v", Filesystem: "f"}
	if err := k.SetPin("r", "/srv/r", want); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Pin("r", "/srv/r"); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := k.Pin("r", "/srv/elsewhere"); err != nil || got != (disks.Pin{}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, want := range []bool{true, false} {
		if had, err := Adopt(dir, "r"); err != nil || had != want {
			t.Errorf("%v, %v", had, err)
		}
	}
	if got, err := k.Pin("r", "/srv/r"); err != nil || got != (disks.Pin{}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestNoDraftsAreLeft: one that a crash has left is written over, and becomes no second file.
func TestNoDraftsAreLeft(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{stateFile, "pin-r.json"} {
		if err := os.WriteFile(filepath.Join(dir, name+".new"), []byte(strings.Repeat("torn", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k, err := openKeeper(dir, time.Now())
	if err == nil {
		err = k.SetPin("r", "/srv/r", disks.Pin{Host: "h", Value: "v", Filesystem: "f"})
	}
	if err != nil {
		t.Fatal(err)
	}
	if again, err := openKeeper(dir, time.Now()); err != nil || again.Epoch <= k.Epoch {
		t.Errorf("epoch %d after %d, %v", again.Epoch, k.Epoch, err)
	}
	var names []string
	files, err := os.ReadDir(dir)
	for _, f := range files {
		names = append(names, f.Name())
	}
	if err != nil || !slices.Equal(names, []string{stateFile, "pin-r.json"}) {
		t.Errorf("there are %q, %v", names, err)
	}
}

// TestWhatCouldNotBeKeptIsKeptLater: a verdict that came while the agent's own disk was full is in its file with the next report.
func TestWhatCouldNotBeKeptIsKeptLater(t *testing.T) {
	dir := t.TempDir()
	k, err := openKeeper(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := k.setHost("uuid", "key"); err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(dir, stateFile+".new")
	if err := os.Mkdir(full, 0o700); err != nil { // nothing can be written
		t.Fatal(err)
	}
	if err := k.setVerdict("r", disks.Verdict{Status: ha.CheckIOError}); err == nil {
		t.Fatal("it was kept")
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	if err := k.setHost("uuid", "key"); err != nil {
		t.Fatal(err)
	}
	if again, err := openKeeper(dir, time.Now()); err != nil || again.Verdicts["r"].Status != ha.CheckIOError {
		t.Errorf("%+v, %v", again.Verdicts, err)
	}
}

// TestOrdersAreCarriedOut, their end is told until the API has taken it, and a list that is known is waited on.
func TestOrdersAreCarriedOut(t *testing.T) {
	dir, blobs := t.TempDir(), t.TempDir()
	const id = "11111111-2222-4333-8444-555555555555"
	path := filepath.Join(blobs, "11", id)
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s := &salvor{orders: []wire.AgentOrder{{ID: "d", Kind: wire.OrderDrop, Blob: id}}}
	conf := config(dir, &disk{status: ha.CheckOK}, s)
	conf.Resources = []disks.Resource{{Name: "blobs", Path: blobs, Kinds: []ha.ObjectKind{ha.ObjectBlob}}}
	conf.Prober = here{}
	conf.Blobs = copies.Config{Dir: blobs, Parallel: 1, Serving: 1, Interval: time.Hour, Pass: time.Hour, Patience: time.Second, Stall: time.Second}
	a, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { a.Run(ctx); close(done) }()
	told := func() (end, gone bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range s.got {
			for _, tr := range r.Transfers {
				end = end || tr.ID == "d" && tr.State == "done"
			}
			for _, c := range r.Copies {
				gone = gone || c.Blob == id && c.State == "missing"
			}
		}
		return end, gone
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if end, gone := told(); end && gone {
			break
		}
	}
	if end, gone := told(); !end || !gone {
		t.Errorf("told %v, gone %v: %+v", end, gone, s.got)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy is there: %v", err)
	}
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthcheck", nil))
	var h health
	if err := json.Unmarshal(w.Body.Bytes(), &h); err != nil || h.Status != "ok" || h.Host != "cmp-01" || h.Reported == nil || strings.Contains(w.Body.String(), "00ff") {
		t.Errorf("%s, %v", w.Body, err)
	}
	w = httptest.NewRecorder()
	a.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/blobs/../../etc/passwd", nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("a path that goes up: %d", w.Code)
	}
	stop()
	<-done
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) > 20 {
		t.Errorf("%d polls: what is known is waited on", len(s.asked))
	}
}

// here probes in this process.
type here struct{}

func (here) Probe(_ context.Context, _ string, q disks.Question) (disks.Finding, <-chan struct{}, error) {
	done := make(chan struct{})
	close(done)
	text, err := json.Marshal(q)
	if err != nil {
		return disks.Finding{}, done, err
	}
	var out strings.Builder
	if err := disks.Answer(strings.NewReader(string(text)), &out); err != nil {
		return disks.Finding{}, done, err
	}
	var f disks.Finding
	err = json.Unmarshal([]byte(out.String()), &f)
	return f, done, err
}

// TestBlobsLiveInAResource.
func TestBlobsLiveInAResource(t *testing.T) {
	conf := config(t.TempDir(), &disk{}, &salvor{})
	conf.Blobs.Dir = "/srv/i/blobs"
	if _, err := New(conf); err == nil || !strings.Contains(err.Error(), "blob_directory") {
		t.Errorf("no resource has blobs: %v", err)
	}
	conf.Resources[0].Kinds = []ha.ObjectKind{ha.ObjectBlob}
	if _, err := New(conf); err != nil {
		t.Error(err)
	}
}
