package disks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

func silent() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// memory keeps pins as an agent's directory does.
type memory struct {
	mu     sync.Mutex
	pins   map[string]Pin
	sets   int
	broken error // of each call
}

func (m *memory) Pin(name, path string) (Pin, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pins[name+path], m.broken
}

func (m *memory) SetPin(name, path string, p Pin) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sets++; m.broken == nil {
		m.pins[name+path] = p
	}
	return m.broken
}

func (m *memory) breaks(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = err
}

// disk answers probes as its state says.
type disk struct {
	mu      sync.Mutex
	status  ha.CheckStatus
	hangs   chan struct{} // not nil: a probe ends when it is closed
	late    time.Duration // after its deadline the probe is seen to hang
	starved bool          // it ends at its deadline, without a word about the disk
	broken  error         // it cannot be asked
	running int
	most    int
	asked   []Question
	at      []time.Time

	log  bytes.Buffer
	told []string // changes: status/pending
}

func (d *disk) set(s ha.CheckStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status = s
}

var pin = Pin{Host: "cmp-01", Value: "00112233445566778899aabbccddeeff", Filesystem: "ffeeddccbbaa99887766554433221100"}

func (d *disk) Probe(ctx context.Context, _ string, q Question) (Finding, <-chan struct{}, error) {
	d.mu.Lock()
	d.running++
	d.most = max(d.most, d.running)
	d.asked, d.at = append(d.asked, q), append(d.at, time.Now())
	s, hangs, late, starved, broken := d.status, d.hangs, d.late, d.starved, d.broken
	d.mu.Unlock()
	done := make(chan struct{})
	end := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.running--
		close(done)
	}
	if starved {
		<-ctx.Done()
		end()
		return Finding{}, done, ErrStarved
	}
	if hangs != nil {
		<-ctx.Done()
		time.Sleep(late)
		go func() { <-hangs; end() }()
		return Finding{}, done, fmt.Errorf("%w", ErrHanging)
	}
	end()
	if broken != nil {
		return Finding{}, done, broken
	}
	return Finding{Status: s, Pin: pin, Wrote: q.Write, Total: 10, Free: 5}, done, nil
}

// watched runs a watch over one disk, "cmp-01" of 60 s, 300 s and 30 s, in virtual time.
func watched(t *testing.T, f func(d *disk, w *Watch)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{status: ha.CheckOK}
		w := New(Config{Host: "cmp-01", Resources: []Resource{{Name: "r", Path: "/srv/r"}}, Probe: time.Minute, Write: 5 * time.Minute, Deadline: 30 * time.Second,
			Prober: d, Pins: &memory{pins: map[string]Pin{}}, Log: slog.New(slog.NewTextHandler(&d.log, nil)), Changed: func(_ Resource, v Verdict) {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.told = append(d.told, string(v.Status)+"/"+string(v.Pending))
			}}, nil)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.Run(ctx); close(done) }()
		synctest.Wait()
		f(d, w)
		stop()
		<-done
		if d.hangs != nil {
			close(d.hangs)
		}
		synctest.Wait()
	})
}

func (w *Watch) is(t *testing.T, when string, want ha.CheckStatus) {
	t.Helper()
	synctest.Wait()
	if v := w.Verdicts()["r"]; v.Status != want {
		t.Errorf("%s: %q (%s), want %q", when, v.Status, v.Detail, want)
	}
}

func TestCadence(t *testing.T) {
	watched(t, func(d *disk, w *Watch) {
		time.Sleep(time.Hour)
		synctest.Wait()
		writes := 0
		for _, q := range d.asked {
			if q.Write {
				writes++
			}
		}
		if len(d.asked) != 61 || writes != 13 {
			t.Errorf("%d probes and %d writes in an hour, want one each 60 s and each 300 s", len(d.asked), writes)
		}
		if v := w.Verdicts()["r"]; v.Status != ha.CheckOK || !v.Adopted || v.Filesystem != pin.Filesystem || v.Total != 10 || v.Free != 5 || time.Since(v.CheckedAt) > time.Minute {
			t.Errorf("%+v", v)
		}
	})
}

// TestTheAgentsOwnTroubleIsNoVerdict: a probe that cannot be asked, and pins that cannot be read or kept, say nothing about the disk.
func TestTheAgentsOwnTroubleIsNoVerdict(t *testing.T) {
	watched(t, func(d *disk, w *Watch) {
		pins := w.cfg.Pins.(*memory)
		pins.breaks(errors.New("the agent's own disk is full"))
		n := len(d.asked)
		time.Sleep(time.Hour)
		w.is(t, "while pins cannot be read", ha.CheckOK)
		if len(d.asked) != n {
			t.Errorf("%d probes without a pin to compare with", len(d.asked)-n)
		}
		if !w.Alive() {
			t.Error("the watchdog would end the agent for its own trouble")
		}
		pins.breaks(nil)
		d.mu.Lock()
		d.broken = errors.New("fork: no memory")
		d.mu.Unlock()
		time.Sleep(time.Hour)
		w.is(t, "while probes cannot be started", ha.CheckOK)
		if !w.Alive() || !contains(d.log.String(), "fork: no memory") {
			t.Errorf("alive %v, and the log has %s", w.Alive(), &d.log)
		}
		if want := []string{"ok/"}; !slices.Equal(d.told, want) {
			t.Errorf("changes %q, want %q", d.told, want)
		}
	})
}

// TestAPinIsKeptOnce, with the first probe that is well, and before anything is held of the resource.
func TestAPinIsKeptOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, pins := &disk{status: ha.CheckMissing}, &memory{pins: map[string]Pin{}}
		w := New(Config{Host: "cmp-01", Resources: []Resource{{Name: "r", Path: "/srv/r"}}, Probe: time.Minute, Write: time.Hour, Deadline: time.Second,
			Prober: d, Pins: pins, Log: silent()}, nil)
		if !w.Alive() {
			t.Error("not alive before its first turn")
		}
		l := loop{w: w, r: w.cfg.Resources[0]}
		l.turn(t.Context())
		if pins.sets != 0 {
			t.Error("the pin of a resource that failed was kept")
		}
		d.set(ha.CheckOK)
		pins.pins = map[string]Pin{}
		w.cfg.Pins = unkept{pins}
		l.turn(t.Context())
		if v := w.Verdicts()["r"]; v.Status == ha.CheckOK || v.Adopted {
			t.Errorf("%+v is held, though a restart would not know the filesystem", v)
		}
		w.cfg.Pins = pins
		for range 3 {
			l.turn(t.Context())
		}
		if q := d.asked[len(d.asked)-1]; pins.sets != 1 || q.Pin != pin || w.Verdicts()["r"].Status != ha.CheckOK {
			t.Errorf("kept %d times, asked with %+v", pins.sets, q.Pin)
		}
		time.Sleep(time.Hour)
		if w.Alive() {
			t.Error("alive though nothing comes round")
		}
	})
}

// unkept are pins that can be read and not be kept.
type unkept struct{ Pins }

func (unkept) SetPin(string, string, Pin) error { return errors.New("no space left on device") }

// TestWhatIsTold of a resource's course: each change once, in the log and to whoever wants to know.
func TestWhatIsTold(t *testing.T) {
	watched(t, func(d *disk, w *Watch) {
		for _, tt := range []struct {
			status ha.CheckStatus
			log    string // what the log gets, "" for nothing
			told   string // the change, "" for none
		}{
			{ha.CheckOK, "", ""},
			{ha.CheckFull, "is full", "full/"},
			{ha.CheckFull, "", ""},
			{ha.CheckMissing, "failed once", "full/missing"},
			{ha.CheckFull, "", "full/"},
			{ha.CheckIOError, "has failed", "io_error/"},
			{ha.CheckIOError, "", ""},
			{ha.CheckOK, "is well", "ok/"},
		} {
			d.set(tt.status)
			d.log.Reset()
			d.told = nil
			since := w.Verdicts()["r"].Since
			time.Sleep(time.Minute)
			synctest.Wait()
			if log := d.log.String(); tt.log == "" && log != "" || !contains(log, tt.log) {
				t.Errorf("%s: the log has %q, want %q", tt.status, log, tt.log)
			}
			if got := strings.Join(d.told, " "); got != tt.told {
				t.Errorf("%s: told %q, want %q", tt.status, got, tt.told)
			}
			if v := w.Verdicts()["r"]; tt.told == "" && !v.Since.Equal(since) {
				t.Errorf("%s since %s, though nothing changed since %s", v.Status, v.Since, since)
			}
		}
	})
}

// TestOneFailedWriteIsABlip: two in a row make a failure, one of EIO, read-only or a timeout does, full is none.
func TestOneFailedWriteIsABlip(t *testing.T) {
	for _, tt := range []struct {
		status ha.CheckStatus
		first  ha.CheckStatus
		second ha.CheckStatus
	}{
		{ha.CheckWriteFailed, ha.CheckOK, ha.CheckWriteFailed},
		{ha.CheckMissing, ha.CheckOK, ha.CheckMissing},
		{ha.CheckWrongFilesystem, ha.CheckOK, ha.CheckWrongFilesystem},
		{ha.CheckIOError, ha.CheckIOError, ha.CheckIOError},
		{ha.CheckReadOnly, ha.CheckReadOnly, ha.CheckReadOnly},
		{ha.CheckTimeout, ha.CheckTimeout, ha.CheckTimeout},
		{ha.CheckFull, ha.CheckFull, ha.CheckFull},
	} {
		watched(t, func(d *disk, w *Watch) {
			d.set(tt.status)
			time.Sleep(time.Minute)
			w.is(t, string(tt.status)+" once", tt.first)
			d.set(ha.CheckOK)
			time.Sleep(time.Minute)
			w.is(t, "well again after "+string(tt.status), ha.CheckOK)
			if q := d.asked[len(d.asked)-1]; !q.Write && tt.status != ha.CheckFull {
				t.Errorf("the end of %s was believed without a write", tt.status)
			}
			d.set(tt.status)
			time.Sleep(2 * time.Minute)
			w.is(t, string(tt.status)+" twice", tt.second)
		})
	}
}

// TestAHungMountDoesNotBlock: the verdict comes with the deadline, is kept fresh while the probe hangs, and no second one is started.
func TestAHungMountDoesNotBlock(t *testing.T) {
	watched(t, func(d *disk, w *Watch) {
		d.mu.Lock()
		d.hangs = make(chan struct{})
		d.mu.Unlock()
		time.Sleep(time.Minute + 29*time.Second)
		w.is(t, "before the deadline", ha.CheckOK)
		time.Sleep(2 * time.Second)
		w.is(t, "after the deadline", ha.CheckTimeout)
		n := len(d.asked)
		time.Sleep(time.Hour)
		synctest.Wait()
		if d.most != 1 || len(d.asked) != n {
			t.Errorf("%d probes at a time, %d more were started", d.most, len(d.asked)-n)
		}
		if v := w.Verdicts()["r"]; v.Status != ha.CheckTimeout || time.Since(v.CheckedAt) > time.Minute || time.Since(v.Since) < time.Hour {
			t.Errorf("while it hangs: %+v", v)
		}
		if !w.Alive() {
			t.Error("the watchdog would end the agent for a disk that hangs")
		}
		d.mu.Lock()
		close(d.hangs)
		d.hangs = nil
		d.mu.Unlock()
		time.Sleep(time.Minute)
		w.is(t, "after the mount answers", ha.CheckOK)
	})
}

// TestAHostWithoutCPUHasNoFailedDisk: a probe that got no CPU until its deadline, and one whose deadline an agent that stood still saw too late, leave
// the verdict as it was; a disk that hangs all the same is found at the next turn.
func TestAHostWithoutCPUHasNoFailedDisk(t *testing.T) {
	watched(t, func(d *disk, w *Watch) {
		d.mu.Lock()
		d.starved = true
		d.mu.Unlock()
		time.Sleep(10 * time.Minute)
		w.is(t, "after ten minutes without CPU", ha.CheckOK)
		if v := w.Verdicts()["r"]; time.Since(v.CheckedAt) < 9*time.Minute {
			t.Errorf("nothing was found, and yet it was checked at %s", v.CheckedAt)
		}
		d.mu.Lock()
		d.starved, d.hangs, d.late = false, make(chan struct{}), time.Minute
		n := len(d.asked)
		d.mu.Unlock()
		for asked := n; asked == n; {
			time.Sleep(time.Second)
			d.mu.Lock()
			asked = len(d.asked)
			d.mu.Unlock()
		}
		time.Sleep(30*time.Second + d.late + 5*time.Second) // its deadline, and when that is seen
		w.is(t, "after a deadline that was seen a minute late", ha.CheckOK)
		time.Sleep(time.Minute)
		w.is(t, "when the probe still hangs", ha.CheckTimeout)
	})
}

// TestAWrongPathIsNoFailedDisk: what was never well fails nothing.
func TestAWrongPathIsNoFailedDisk(t *testing.T) {
	missing := Finding{Status: ha.CheckMissing}
	v := judge(judge(Verdict{}, missing, false, time.Now()), missing, false, time.Now())
	if v.Status != ha.CheckMissing || v.Told() {
		t.Errorf("%+v is told", v)
	}
	v = judge(judge(Verdict{}, missing, true, time.Now()), missing, true, time.Now())
	if v.Status != ha.CheckMissing || !v.Told() {
		t.Errorf("%+v is not told, and was well once", v)
	}
}

// TestAVerdictOutlivesTheAgent: a watch begins with what an earlier one held, and only a write ends a failure.
func TestAVerdictOutlivesTheAgent(t *testing.T) {
	failed := Verdict{Status: ha.CheckIOError, Adopted: true, Detail: "fsync: input/output error"}
	w := New(Config{Resources: []Resource{{Name: "r"}}, Log: silent()}, map[string]Verdict{"r": failed})
	if got := w.Verdicts()["r"]; got != failed || !got.Told() || !got.NeedsWrite() {
		t.Errorf("%+v", got)
	}
	if v := judge(failed, Finding{Status: ha.CheckOK}, true, time.Now()); v.Status != ha.CheckIOError {
		t.Errorf("a look without a write ended the failure: %+v", v)
	}
	if v := judge(failed, Finding{Status: ha.CheckOK, Wrote: true}, true, time.Now()); v.Status != ha.CheckOK {
		t.Errorf("a write did not end the failure: %+v", v)
	}
}

func TestResources(t *testing.T) {
	for text, want := range map[string]string{
		"instances:/var/lib/nova/instances:instance": "",
		"b:/srv/blobs:blob, instance":                "",
		"nobody-said:/srv/x":                         "",
		"instances":                                  "NAME:PATH",
		"Upper:/srv/x:blob":                          "no name",
		"../x:/srv/x:blob":                           "no name",
		"x:srv:blob":                                 "absolute",
		"x:/:blob":                                   "absolute",
		"x:/srv/../etc:blob":                         "absolute",
		"x:/srv/:blob":                               "absolute",
		"x:/srv/a\nb:blob":                           "printed",
		"x:/srv:blobs":                               `"blobs" is no kind`,
	} {
		_, err := ParseResources([]string{text})
		if (err == nil) != (want == "") || err != nil && !contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, two := range [][]string{{"a:/srv/x", "b:/srv/x"}, {"a:/srv/x", "a:/srv/y"}} {
		if _, err := ParseResources(two); err == nil || !contains(err.Error(), "one name, or one path") {
			t.Errorf("%q: %v", two, err)
		}
	}
}
