package disks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

// TestMain makes this binary its own probe, as salvor's is.
func TestMain(m *testing.M) {
	switch os.Getenv("PROBE_OF_A_TEST") {
	case "answer":
		if err := Answer(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	case "hang":
		_, _ = io.Copy(io.Discard, os.Stdin)
		begun()
		time.Sleep(time.Hour)
	case "spin":
		begun()
		for n := 0; ; n++ { // it is to want the CPU and nothing else
			_ = n
		}
	case "nonsense":
		_, _ = os.Stdout.WriteString("{\"status\":\"fine\"}\n")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// begun says, in a child, that it does what it is to do: a busy machine takes a while to start it.
func begun() { _ = os.WriteFile(os.Getenv("BEGUN"), nil, 0o600) }

func children(t *testing.T, how string) Children {
	t.Helper()
	locks := t.TempDir()
	return Children{Program: []string{"/proc/self/exe"}, Env: []string{"PROBE_OF_A_TEST=" + how, "BEGUN=" + filepath.Join(locks, "begun")}, Locks: locks}
}

// awaitBegun waits until a child has begun.
func (c Children) awaitBegun(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) { // a real process is awaited
		if _, err := os.Stat(filepath.Join(c.Locks, "begun")); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Error("the child has not begun")
			return
		}
	}
}

func ask(t *testing.T, q Question) Finding {
	t.Helper()
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Answer(bytes.NewReader(text), &out); err != nil {
		t.Fatal(err)
	}
	f, err := readFinding(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const value = "0123456789abcdef0123456789abcdef"

// TestTheMarkerPinsTheFilesystem: it is adopted once; an empty directory, or one with another marker, is another filesystem.
func TestTheMarkerPinsTheFilesystem(t *testing.T) {
	dir := t.TempDir()
	first := ask(t, Question{Path: dir, Host: "cmp-01", New: value, Write: true})
	if first.Status != ha.CheckOK || first.Pin.Value != value || first.Pin.Host != "cmp-01" || first.Pin.Filesystem == "" || !first.Wrote || first.Total == 0 {
		t.Fatalf("the first look: %+v", first)
	}
	if again := ask(t, Question{Path: dir, Host: "cmp-01", Pin: first.Pin, New: strings.Repeat("f", 32), Write: true}); again.Status != ha.CheckOK || again.Pin != first.Pin {
		t.Errorf("again: %+v", again)
	}
	if lost := ask(t, Question{Path: dir, Host: "cmp-01", New: strings.Repeat("f", 32)}); lost.Status != ha.CheckOK || lost.Pin != first.Pin {
		t.Errorf("an agent whose own note is lost: %+v, want the marker that is there", lost)
	}
	second := ask(t, Question{Path: dir, Host: "cmp-02", New: strings.Repeat("e", 32)})
	if second.Status != ha.CheckOK || second.Pin.Filesystem != first.Pin.Filesystem || second.Pin.Value == first.Pin.Value {
		t.Errorf("another host on the same filesystem: %+v, want the filesystem %s", second, first.Pin.Filesystem)
	}

	other := ask(t, Question{Path: t.TempDir(), Host: "cmp-01", Pin: first.Pin})
	if other.Status != ha.CheckWrongFilesystem || !contains(other.Detail, ".salvor-agent-cmp-01") {
		t.Errorf("an empty directory: %+v", other)
	}
	if entries, err := os.ReadDir(t.TempDir()); err != nil || len(entries) != 0 {
		t.Errorf("a look at another filesystem left something there: %v, %v", entries, err)
	}
	foreign := first.Pin
	foreign.Value = strings.Repeat("d", 32)
	if f := ask(t, Question{Path: dir, Host: "cmp-01", Pin: foreign}); f.Status != ha.CheckWrongFilesystem {
		t.Errorf("another marker: %+v", f)
	}
}

// TestOnlyAWriteProbeWrites: what is written begins behind the marker's line, in a block of its own.
func TestOnlyAWriteProbeWrites(t *testing.T) {
	dir := t.TempDir()
	first := ask(t, Question{Path: dir, Host: "cmp-01", New: value})
	marker := func() string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, ".salvor-agent-cmp-01"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if first.Wrote || marker() != first.Pin.Text() {
		t.Errorf("a look wrote: %+v, %q", first, marker())
	}
	f := ask(t, Question{Path: dir, Host: "cmp-01", Pin: first.Pin, Write: true})
	if text := marker(); !f.Wrote || !strings.HasPrefix(text, first.Pin.Text()+"\x00") || len(text) <= probeOffset || !strings.HasPrefix(text[probeOffset:], "probe ") {
		t.Errorf("%+v, %q", f, text)
	}
}

// TestHostsThatComeAtOnceAgree on the name of the filesystem that they share.
func TestHostsThatComeAtOnceAgree(t *testing.T) {
	dir := t.TempDir()
	names := make([]string, 32)
	var all sync.WaitGroup
	for i := range names {
		all.Go(func() {
			f := probe(Question{Path: dir, Host: fmt.Sprintf("cmp-%d", i), New: value})
			names[i] = string(f.Status) + " " + f.Pin.Filesystem
		})
	}
	all.Wait()
	if slices.Sort(names); names[0] != names[len(names)-1] || !strings.HasPrefix(names[0], "ok ") {
		t.Errorf("%q", slices.Compact(names))
	}
	left, err := filepath.Glob(filepath.Join(dir, ".salvor-*.*"))
	if err != nil || len(left) > 0 {
		t.Errorf("drafts are left: %q, %v", left, err)
	}
}

func TestSamePin(t *testing.T) {
	dir := t.TempDir()
	marker := filepath.Join(dir, ".salvor-agent-cmp-01")
	for _, tt := range []struct{ text, want string }{
		{"", "is not there"}, {"salvor-mar", "it is no salvor-marker-1"}, {Pin{Host: "cmp-01", Value: value, Filesystem: value}.Text(), "another filesystem"}, {pin.Text(), ""},
	} {
		if tt.text != "" {
			if err := os.WriteFile(marker, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := SamePin(dir, "cmp-01", pin); (err == nil) != (tt.want == "") || err != nil && !contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
}

func TestATornMarkerIsLeftAnew(t *testing.T) {
	dir := t.TempDir()
	marker := filepath.Join(dir, ".salvor-agent-cmp-01")
	if err := os.WriteFile(marker, []byte("salvor-mar"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := ask(t, Question{Path: dir, Host: "cmp-01", New: value, Write: true})
	if f.Status != ha.CheckOK || f.Pin.Value != value {
		t.Errorf("without a pin: %+v", f)
	}
	if err := os.WriteFile(marker, []byte("salvor-mar"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := ask(t, Question{Path: dir, Host: "cmp-01", Pin: f.Pin}); f.Status != ha.CheckWrongFilesystem {
		t.Errorf("with a pin: %+v", f)
	}
}

func TestOddPaths(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Symlink("/etc", filepath.Join(dir, "link")), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600),
		os.Mkdir(filepath.Join(dir, "d"), 0o700), os.Symlink("/etc/passwd", filepath.Join(dir, "d", ".salvor-agent-cmp-01"))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"link": `symbolic link to "/etc"`, "file": "no directory", "nowhere": "no such directory"} {
		if f := ask(t, Question{Path: filepath.Join(dir, name), Host: "cmp-01", New: value}); f.Status != ha.CheckMissing || !contains(f.Detail, want) {
			t.Errorf("%s: %+v, want %s", name, f, want)
		}
	}
	if f := ask(t, Question{Path: filepath.Join(dir, "d"), Host: "cmp-01", New: value, Write: true}); f.Status != ha.CheckWriteFailed {
		t.Errorf("a marker that is a link was followed: %+v", f)
	}
	if err := Answer(strings.NewReader(`{"path":"/tmp","host":"../x"}`), io.Discard); err == nil {
		t.Error("a host that is a path was taken for a file's name")
	}
}

// TestAChildThatHangsIsLeftBehind: the answer is there at the deadline; while the child lives there is no second one, also for another agent
// that was started meanwhile.
func TestAChildThatHangsIsLeftBehind(t *testing.T) {
	c := children(t, "hang")
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() {
		_, done, err := c.Probe(ctx, "r", Question{Path: "/x", Host: "h"})
		<-done // it can be killed, unlike one in the kernel
		asked <- err
	}()
	second := children(t, "answer")
	second.Locks = c.Locks
	c.awaitBegun(t)
	limited, done := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer done()
	_, _, err := second.Probe(limited, "r", Question{Path: t.TempDir(), Host: "h", New: value})
	if !errors.Is(err, ErrHanging) || !contains(err.Error(), "earlier") {
		t.Errorf("beside a probe that hangs: %v", err)
	}
	if f, _, err := second.Probe(t.Context(), "other", Question{Path: t.TempDir(), Host: "h", New: value, Write: true}); err != nil || f.Status != ha.CheckOK {
		t.Errorf("another resource meanwhile: %+v, %v", f, err)
	}
	cancel()
	if err := <-asked; !errors.Is(err, ErrHanging) {
		t.Errorf("at the deadline: %v", err)
	}
	if f, _, err := second.Probe(t.Context(), "r", Question{Path: t.TempDir(), Host: "h", New: value, Write: true}); err != nil || f.Status != ha.CheckOK {
		t.Errorf("after its end: %+v, %v", f, err)
	}
}

// TestAProbeUnderWayIsNoHang: a probe of another agent on the same state directory, or a child between fork and exec, has the lock for a moment.
// It is waited for until the deadline; a verdict at once would set every instance of the host to error.
func TestAProbeUnderWayIsNoHang(t *testing.T) {
	c := children(t, "answer")
	lock, err := os.OpenFile(filepath.Join(c.Locks, "probe-r"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	free := time.AfterFunc(300*time.Millisecond, func() { _ = lock.Close() })
	defer free.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if f, _, err := c.Probe(ctx, "r", Question{Path: t.TempDir(), Host: "h", New: value, Write: true}); err != nil || f.Status != ha.CheckOK {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestAStarvedProbeIsNoHungDisk: at the deadline a child that sleeps waits for its disk; one that wants to run says nothing about one. Where
// others use all of this machine's CPU a child may look otherwise once: its runtime wants to run, too.
func TestAStarvedProbeIsNoHungDisk(t *testing.T) {
	for how, want := range map[string]error{"hang": ErrHanging, "spin": ErrStarved} {
		var err error
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			c := children(t, how)
			go func() {
				c.awaitBegun(t)
				cancel()
			}()
			var done <-chan struct{}
			_, done, err = c.Probe(ctx, "r", Question{Path: "/x", Host: "h"})
			<-done
			if errors.Is(err, want) {
				break
			}
		}
		if !errors.Is(err, want) {
			t.Errorf("a child that is to %s: %v, want %v", how, err, want)
		}
	}
}

func TestAChildThatTalksNonsense(t *testing.T) {
	if _, _, err := children(t, "nonsense").Probe(t.Context(), "r", Question{Path: "/", Host: "h"}); err == nil || errors.Is(err, ErrHanging) {
		t.Errorf("%v", err)
	}
}

func TestMarkersThatAreNone(t *testing.T) {
	if p, err := ParseMarker([]byte(pin.Text() + "probe 1\n")); err != nil || p != pin {
		t.Errorf("%+v, %v", p, err)
	}
	for _, p := range []Pin{{"../x", value, value}, {"cmp-01", "short", value}, {"cmp-01", value, strings.ToUpper(value)}, {"", value, value}} {
		if _, err := ParseMarker([]byte(p.Text())); err == nil {
			t.Errorf("%q was taken", p.Text())
		}
	}
	if _, err := ParseMarker([]byte(strings.TrimSpace(pin.Text()))); err == nil {
		t.Error("one that breaks off was taken")
	}
}

func FuzzMarker(f *testing.F) {
	f.Add([]byte(pin.Text()))
	f.Add([]byte("salvor-marker-1 h x y\n"))
	f.Add([]byte{0, '\n'})
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParseMarker(text)
		if err != nil {
			return
		}
		if again, err := ParseMarker([]byte(p.Text())); err != nil || again != p {
			t.Errorf("%q was read as %+v, which is written as %q: %v", text, p, p.Text(), err)
		}
		if strings.ContainsAny(p.Host, "/\x00\n") {
			t.Errorf("host %q", p.Host)
		}
	})
}
