package chaos

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// takeoverWithin is invariant I10's; handOverWithin counts from the end of a process that was stopped. A disk that stands still makes both
// longer: they are held where nothing else runs, with STEPS=all.
const (
	takeoverWithin = 8 * time.Second
	handOverWithin = time.Second
)

// step is a class of calls that a recovery makes, in their order.
type step struct {
	name  string
	kinds string // of calls, separated by spaces
	body  string // that it contains
	from  int    // counts only after so many unlocks: the lists of the verdict
	each  int    // how many there are, 1 for a step of the host: at the first, the middle and the last one it is struck
}

var steps = []step{
	{name: "proof", kinds: "GET_os-services", each: 1},
	{name: "force down", kinds: "PUT_os-services", body: `"forced_down":true`, each: 1},
	{name: "list", kinds: "GET_servers", each: 1},
	{name: "lock", kinds: "lock", each: instances},
	{name: "reset", kinds: "os-resetState", each: 1},
	{name: "order", kinds: "evacuate", each: instances},
	{name: "confirm", kinds: "GET_os-migrations", each: 2},
	{name: "stop", kinds: "os-stop", each: wereError},
	{name: "unlock", kinds: "unlock", each: instances},
	{name: "verdict", kinds: "GET_servers GET_os-migrations", from: instances, each: 1},
	{name: "take-back", kinds: "PUT_os-services", body: `"forced_down":false`, each: 1},
}

// moment is one of a step's calls, on its way to Nova or answered and not yet heard.
type moment struct {
	step
	nth      int
	answered bool
}

func (m moment) String() string {
	way := "sent"
	if m.answered {
		way = "done"
	}
	return fmt.Sprintf("%s %d of %d %s", m.name, m.nth, m.each, way)
}

// afterEnd reports that the moment is not of the recovery but of the return.
func (m moment) afterEnd() bool { return m.name == "take-back" }

// moments are all there are; a few of them, spread over steps and signals, where STEPS=all does not ask for all.
func moments(t *testing.T, few ...string) []moment {
	t.Helper()
	var all []moment
	for _, s := range steps {
		var at []int
		switch s.each {
		case 1:
			at = []int{1}
		case 2:
			at = []int{1, 2}
		default:
			at = []int{1, s.each / 2, s.each}
		}
		for _, n := range at {
			all = append(all, moment{s, n, false}, moment{s, n, true})
		}
	}
	if everyStep() {
		return all
	}
	var some []moment
	for _, m := range all {
		for _, name := range few {
			if m.String() == name {
				some = append(some, m)
			}
		}
	}
	if len(some) != len(few) {
		t.Fatalf("%d of the moments %q exist", len(some), few)
	}
	return some
}

func everyStep() bool { return os.Getenv("STEPS") == "all" }

// strike calls do once, when the moment comes, with the engine that makes the call. Its result says whether the call, or its
// answer, goes on. The returned channel is closed when do has returned.
func (w *world) strike(m moment, do func(*worker) bool) <-chan struct{} {
	struck := make(chan struct{})
	var mu sync.Mutex
	count, unlocks, done := 0, 0, false
	w.hook(func(e *worker, c call) bool {
		mu.Lock()
		defer mu.Unlock()
		if done {
			return true
		}
		if c.kind == "unlock" && c.answered && m.from > 0 {
			unlocks++
		}
		if unlocks < m.from || c.answered != m.answered || !strings.Contains(c.body, m.body) ||
			!strings.Contains(" "+m.kinds+" ", " "+strings.ReplaceAll(c.kind, " ", "_")+" ") {
			return true
		}
		if count++; count < m.nth {
			return true
		}
		done = true
		defer close(struck)
		return do(e)
	})
	return struck
}

// each runs a recovery for each moment, and strikes the engine at work then.
func each(t *testing.T, all []moment, strike func(t *testing.T, w *world, m moment, d *death)) {
	t.Parallel()
	w := newWorld(t, testkit.MariaDB(t), len(all))
	deaths := w.doom(t)
	for i, m := range all {
		t.Run(m.String(), func(t *testing.T) {
			d := deaths[i]
			t.Cleanup(func() { w.story(t, d) })
			if m.afterEnd() {
				w.report(t, d)
				w.finished(t, d, 60*time.Second)
			}
			strike(t, w, m, d)
			w.hook(nil)
		})
	}
}

// goesOn is what must follow whatever was done to the engine.
func (w *world) goesOn(t *testing.T, m moment, d *death) {
	t.Helper()
	if m.afterEnd() {
		w.takenBack(t, d)
		return
	}
	w.finished(t, d, 100*time.Second)
	w.back(t, d)
}

// begin makes the calls come among which the moment is.
func (w *world) begin(t *testing.T, m moment, d *death) (unit string) {
	t.Helper()
	if !m.afterEnd() {
		w.report(t, d)
		return "host:" + d.uuid
	}
	w.returns(t, d)
	return "takeback:" + d.uuid
}

// blow is what was done to an engine in the middle of its work.
type blow struct {
	victim *worker
	unit   string // that it had
	at     time.Time
}

// hit sends the engine at work a signal, when the moment comes.
func (w *world) hit(t *testing.T, m moment, d *death, signal syscall.Signal) blow {
	t.Helper()
	var b blow
	struck := w.strike(m, func(e *worker) bool {
		b.victim, b.at = e, time.Now()
		if signal != syscall.SIGSTOP {
			w.ended(e)
		}
		if signal == syscall.SIGKILL {
			e.Kill() // waits: of what follows nothing is heard
			return false
		}
		e.Signal(signal)
		return true
	})
	b.unit = w.begin(t, m, d)
	select {
	case <-struck:
	case <-time.After(60 * time.Second):
		t.Fatalf("there was no %s", m)
	}
	return b
}

// passes wants the unit to be another engine's, with STEPS=all within the time, counted from since.
func (w *world) passes(t *testing.T, b blow, since time.Time, within time.Duration) {
	t.Helper()
	took := w.takenOver(t, b.unit, b.victim, b.at).Sub(since)
	t.Logf("taken over after %s", took.Round(time.Millisecond))
	if took > within && everyStep() {
		t.Errorf("taken over after %s, which may take %s", took, within)
	}
}

// TestKilledEngine: kill -9 of the engine at work, at each kind of step; another goes on (invariant I10), no order is given twice,
// nothing stays locked.
func TestKilledEngine(t *testing.T) {
	all := moments(t, "force down 1 of 1 sent", "order 10 of 20 sent", "unlock 1 of 20 done", "take-back 1 of 1 done")
	each(t, all, func(t *testing.T, w *world, m moment, d *death) {
		b := w.hit(t, m, d, syscall.SIGKILL)
		w.passes(t, b, b.at, takeoverWithin)
		w.engine()
		w.goesOn(t, m, d)
	})
}

// TestStoppedEngine: SIGTERM at each kind of step drains, and hands over.
func TestStoppedEngine(t *testing.T) {
	all := moments(t, "list 1 of 1 sent", "order 20 of 20 sent")
	each(t, all, func(t *testing.T, w *world, m moment, d *death) {
		b := w.hit(t, m, d, syscall.SIGTERM)
		if code := b.victim.Ended(t, 15*time.Second); code != 0 {
			t.Errorf("exit code %d after SIGTERM", code)
		}
		end := time.Now()
		t.Logf("its drain took %s", end.Sub(b.at).Round(time.Millisecond))
		w.passes(t, b, end, handOverWithin)
		w.engine()
		w.goesOn(t, m, d)
	})
}

// TestPausedEngine: an engine that is stopped past its lease, at each kind of step, and goes on later writes and orders nothing
// any more.
func TestPausedEngine(t *testing.T) {
	all := moments(t, "order 1 of 20 done", "verdict 1 of 1 done")
	each(t, all, func(t *testing.T, w *world, m moment, d *death) {
		b := w.hit(t, m, d, syscall.SIGSTOP)
		w.passes(t, b, b.at, takeoverWithin)
		var mu sync.Mutex
		var late []string
		b.victim.gate.set(func(c call) bool {
			if !c.answered && !strings.HasPrefix(c.kind, "GET ") && c.kind != "POST tokens" {
				mu.Lock()
				defer mu.Unlock()
				late = append(late, c.kind)
			}
			return true
		})
		b.victim.Signal(syscall.SIGCONT)
		b.victim.Await(t, "owns this unit now|the work ends here|is not held any more", 30*time.Second)
		w.hook(nil)
		mu.Lock()
		defer mu.Unlock()
		if len(late) > 0 {
			t.Errorf("woken up, the old owner sent %q", late)
		}
		w.goesOn(t, m, d)
	})
}
