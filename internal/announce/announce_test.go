package announce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// mouth is a destination that takes what it is told to take.
type mouth struct {
	mu   sync.Mutex
	got  []string
	fail func(m ha.Message) error        // nil: everything is taken
	hang func(ctx context.Context) error // nil: it answers at once
}

func (s *mouth) Deliver(ctx context.Context, messages []ha.Message) (int, error) {
	if s.hang != nil {
		if err := s.hang(ctx); err != nil {
			return 0, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range messages {
		if s.fail != nil {
			if err := s.fail(m); err != nil {
				return i, err
			}
		}
		s.got = append(s.got, m.UUID)
	}
	return len(messages), nil
}

func (s *mouth) Close() {}

func (s *mouth) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// tally is what a shipper counted, and what it said.
type tally struct {
	mu                       sync.Mutex
	shipped, failed, dropped map[string]int
	backlog                  map[string]int
	said                     bytes.Buffer
}

func newTally() *tally {
	return &tally{shipped: map[string]int{}, failed: map[string]int{}, dropped: map[string]int{}, backlog: map[string]int{}}
}

func (c *tally) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said.Write(b)
}

func (c *tally) log() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said.String()
}

func (c *tally) add(m map[string]int, name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m[name] += n
}

func (c *tally) of(m map[string]int, name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return m[name]
}

func (c *tally) observer() Observer {
	return Observer{
		Shipped: func(name string, n int) { c.add(c.shipped, name, n) },
		Failed:  func(name string) { c.add(c.failed, name, 1) },
		Dropped: func(name, why string, n int) { c.add(c.dropped, name+": "+why, n) },
		Backlog: func(name string, rows int, _ time.Duration) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.backlog[name] = rows
		},
	}
}

func destination(name string, s Sink) Destination {
	return Destination{ID: name, Name: name, Sink: s, Batch: 10, Pause: Doubling(time.Second, time.Minute)}
}

const maxRows = 50

// start runs a shipper until the returned stop, which waits for its end.
func start(owner string, o *rows, c *tally, d ...Destination) (s *Shipper, stop func()) {
	s = New(Config{Owner: owner, TTL: 15 * time.Second, Tick: 3 * time.Second, Poll: time.Second, MaxRows: maxRows,
		Log: slog.New(slog.NewTextHandler(c, nil)), Observe: c.observer()}, o, d)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	return s, func() { cancel(); <-done }
}

func names(from, to int) []string {
	var all []string
	for i := from; i <= to; i++ {
		all = append(all, fmt.Sprint("m", i))
	}
	return all
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

var errAway = errors.New("connection refused")

func TestShipsInOrderAndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c, sink := newRows(), newTally(), &mouth{}
		o.write(25, "bus")
		s, stop := start("a", o, c, destination("bus", sink))
		defer stop()
		synctest.Wait()
		same(t, "at the start", sink.taken(), names(1, 25))
		began := time.Now()
		o.write(1, "bus")
		s.Wake()
		synctest.Wait()
		same(t, "woken", sink.taken(), names(1, 26))
		if time.Since(began) != 0 || o.left("bus") != 0 {
			t.Errorf("after %s %d are left", time.Since(began), o.left("bus"))
		}
		o.write(1, "bus") // by another process: nobody wakes this one
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "polled", sink.taken(), names(1, 27))
		if n := c.of(c.shipped, "bus"); n != 27 {
			t.Errorf("%d counted", n)
		}
	})
}

// A destination that refuses, hangs or never comes back holds up no other (F073).
func TestDeadDestinationHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := newRows(), newTally()
		dead, hanging, good := &mouth{fail: func(ha.Message) error { return errAway }}, &mouth{}, &mouth{}
		hanging.hang = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		s, stop := start("a", o, c, destination("dead", dead), destination("hanging", hanging), destination("good", good))
		o.write(20, "dead", "hanging", "good")
		s.Wake()
		synctest.Wait()
		if len(good.taken()) != 20 || o.left("good") != 0 {
			t.Errorf("the good one got %d", len(good.taken()))
		}
		time.Sleep(10 * time.Minute)
		if n := c.of(c.failed, "dead"); n < 10 || n > 30 {
			t.Errorf("%d tries in ten minutes", n)
		}
		if o.left("dead") != 20 || o.left("hanging") != 20 {
			t.Error("what was not delivered is gone")
		}
		if n := strings.Count(c.log(), "cannot be delivered"); n < 5 || n > 12 {
			t.Errorf("the log says so %d times in ten minutes", n)
		}
		began := time.Now()
		stop() // although one hangs
		if took := time.Since(began); took > time.Second {
			t.Errorf("the stop took %s", took)
		}
	})
}

// While a destination is away its first message is tried with growing pauses; back, everything comes in order.
func TestComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := newRows(), newTally()
		away := true
		sink := &mouth{}
		sink.fail = func(ha.Message) error {
			if away {
				return errAway
			}
			return nil
		}
		o.write(30, "bus")
		_, stop := start("a", o, c, destination("bus", sink))
		defer stop()
		time.Sleep(time.Hour)
		sink.mu.Lock()
		away = false
		sink.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, "back", sink.taken(), names(1, 30))
		if !strings.Contains(c.log(), "delivered again") {
			t.Error("nobody was told that it is back")
		}
	})
}

func TestGivesUpByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := newRows(), newTally()
		d := destination("hook", &mouth{fail: func(ha.Message) error { return errAway }})
		d.MaxAge = time.Hour
		o.write(3, "hook")
		_, stop := start("a", o, c, d)
		defer stop()
		time.Sleep(59 * time.Minute)
		o.write(1, "hook")
		if o.left("hook") != 4 {
			t.Fatal("dropped early")
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if o.left("hook") != 1 || c.of(c.dropped, "hook: too old") != 3 || !strings.Contains(c.log(), "DROPPED") {
			t.Errorf("%d left, dropped %v\n%s", o.left("hook"), c.dropped, c.log())
		}
	})
}

// A message that is refused for what it is does not stop those behind it for long.
func TestGivesUpWhatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c, sink := newRows(), newTally(), &mouth{}
		sink.fail = func(m ha.Message) error {
			if m.UUID == "m2" {
				return fmt.Errorf("422: %w", ErrRefused)
			}
			return nil
		}
		o.write(3, "hook")
		_, stop := start("a", o, c, destination("hook", sink))
		defer stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, "taken", sink.taken(), []string{"m1", "m3"})
		if c.of(c.dropped, "hook: tried often enough") != 1 || c.of(c.failed, "hook") != refusedTries {
			t.Errorf("dropped %v, failed %v", c.dropped, c.failed)
		}
	})
}

// Tries is [oslo_messaging_notifications] retry.
func TestTries(t *testing.T) {
	for tries, want := range map[int]int{0: 2, 1: 0, 3: 0} {
		synctest.Test(t, func(t *testing.T) {
			o, c := newRows(), newTally()
			d := destination("bus", &mouth{fail: func(ha.Message) error { return errAway }})
			d.Tries = tries
			o.write(2, "bus")
			_, stop := start("a", o, c, d)
			defer stop()
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if o.left("bus") != want {
				t.Errorf("tries %d: %d left", tries, o.left("bus"))
			}
			if tries > 0 && c.of(c.failed, "bus") != 2*tries {
				t.Errorf("tries %d: %d counted", tries, c.of(c.failed, "bus"))
			}
		})
	}
}

func TestTheOldestAreDroppedBeyondTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := newRows(), newTally()
		away := true
		sink := &mouth{}
		sink.fail = func(ha.Message) error {
			if away {
				return errAway
			}
			return nil
		}
		_, stop := start("a", o, c, destination("bus", sink))
		defer stop()
		o.write(maxRows+35, "bus")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if o.left("bus") != maxRows || c.of(c.dropped, "bus: too many wait") != 35 || c.of(c.backlog, "bus") != maxRows {
			t.Errorf("%d left, dropped %v, backlog %v", o.left("bus"), c.dropped, c.backlog)
		}
		sink.mu.Lock()
		away = false
		sink.mu.Unlock()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		same(t, "the newest", sink.taken(), names(36, maxRows+35))
	})
}

func TestOneShipsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, a, b := newRows(), &mouth{}, &mouth{}
		ca, cb := newTally(), newTally()
		sa, stop := start("a", o, ca, destination("bus", a))
		synctest.Wait()
		sb, stopB := start("b", o, cb, destination("bus", b))
		defer stopB()
		for range 100 {
			o.write(3, "bus")
			sa.Wake()
			sb.Wake()
			time.Sleep(700 * time.Millisecond)
		}
		synctest.Wait()
		same(t, "the first", a.taken(), names(1, 300))
		same(t, "the second", b.taken(), nil)
		stop() // a clean stop hands over at once
		o.write(1, "bus")
		began := time.Now()
		for len(b.taken()) == 0 && time.Since(began) < time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("handed over after %s", took)
		}
	})
}

// A killed shipper is dead after its ttl on the watcher's clock; a database that stands still is no dead shipper.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c, b := newRows(), newTally(), &mouth{}
		o.shippers["bus"] = ha.Shipping{Sink: "bus", Owner: "killed", Epoch: 7, Beat: 99, TTL: 15 * time.Second}
		o.write(5, "bus")
		o.setAway(true)
		_, stop := start("b", o, c, destination("bus", b))
		defer stop()
		time.Sleep(time.Hour)
		o.setAway(false)
		began := time.Now()
		for len(b.taken()) == 0 && time.Since(began) < time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took < 14*time.Second || took > 22*time.Second {
			t.Errorf("taken over after %s", took)
		}
		same(t, "shipped", b.taken(), names(1, 5))
		if !strings.Contains(c.log(), "was=killed") {
			t.Error(c.log())
		}
	})
}

// A shipper that cannot beat ends its work before another may think it dead; what it could not strike off comes again: at
// least once.
func TestLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c, sink := newRows(), newTally(), &mouth{}
		began, first := time.Now(), true
		sink.hang = func(ctx context.Context) error {
			if !first {
				return nil
			}
			first = false
			<-ctx.Done() // slow, and delivered all the same
			if held := time.Since(began); held > 15*time.Second {
				t.Errorf("it went on for %s without a beat", held)
			}
			return nil
		}
		o.write(2, "bus")
		_, stop := start("a", o, c, destination("bus", sink))
		defer stop()
		synctest.Wait()
		o.setAway(true)
		time.Sleep(20 * time.Second)
		o.setAway(false)
		time.Sleep(10 * time.Second)
		same(t, "delivered", sink.taken(), []string{"m1", "m2", "m1", "m2"})
		if o.left("bus") != 0 {
			t.Errorf("%d left", o.left("bus"))
		}
	})
}
