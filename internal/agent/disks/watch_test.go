package disks

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

func silent() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// memory keeps pins as an agent's directory does.
type memory struct {
	mu   sync.Mutex
	pins map[string]Pin
}

func (m *memory) Pin(name, path string) (Pin, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pins[name+path], nil
}

func (m *memory) SetPin(name, path string, p Pin) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pins[name+path] = p
	return nil
}

// disk answers probes as its state says.
type disk struct {
	mu      sync.Mutex
	status  ha.CheckStatus
	hangs   chan struct{} // not nil: a probe ends when it is closed
	late    time.Duration // after its deadline the probe is seen to hang
	starved bool          // it ends at its deadline, without a word about the disk
	running int
	most    int
	asked   []Question
	at      []time.Time
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
	s, hangs, late, starved := d.status, d.hangs, d.late, d.starved
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
	return Finding{Status: s, Pin: pin, Wrote: q.Write, Total: 10, Free: 5}, done, nil
}

// watched runs a watch over one disk, "cmp-01" of 60 s, 300 s and 30 s, in virtual time.
func watched(t *testing.T, f func(d *disk, w *Watch)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{status: ha.CheckOK}
		w := New(Config{Host: "cmp-01", Resources: []Resource{{Name: "r", Path: "/srv/r"}}, Probe: time.Minute, Write: 5 * time.Minute, Deadline: 30 * time.Second,
			Prober: d, Pins: &memory{pins: map[string]Pin{}}, Log: silent()}, nil)
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
		if v := w.Verdicts()["r"]; v.Status != ha.CheckOK || !v.Adopted || v.Filesystem != pin.Filesystem || time.Since(v.CheckedAt) > time.Minute {
			t.Errorf("%+v", v)
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
	if _, err := ParseResources([]string{"a:/srv/x", "b:/srv/x"}); err == nil {
		t.Error("two resources of one path")
	}
}
