package chaos

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// leaseTTL is [salvor] lease_ttl's default: nobody acts longer than that without the database.
const leaseTTL = 5 * time.Second

// losses are the points of a recovery, counted in its calls to Nova, at which the database goes away, and how. All twenty, for a
// minute each, with LOSSES=all; LOSS is another number of seconds.
func losses(t *testing.T) (points map[int]fault, span time.Duration) {
	points, span = map[int]fault{3: reset, 18: hang, 60: cut}, 12*time.Second
	if os.Getenv("LOSSES") == "all" {
		span = time.Minute
		how := []fault{cut, hang, reset}
		for i := range 20 { // a recovery makes some 90 calls
			points[1+4*i] = how[i%len(how)]
		}
		delete(points, 3)
		delete(points, 18)
		delete(points, 60)
	}
	if text := os.Getenv("LOSS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("LOSS=%s: a number of seconds is wanted", text)
		}
		span = time.Duration(n) * time.Second
	}
	return points, span
}

// TestDatabaseIsLost: the database goes away in the middle of a recovery and comes back. Engines stop acting before their leases
// end, the api says 503, and the recovery ends as if nothing had been (S14).
func TestDatabaseIsLost(t *testing.T) {
	points, span := losses(t)
	for at, how := range points {
		t.Run(fmt.Sprintf("%s at call %d for %s", how, at, span), func(t *testing.T) {
			t.Parallel()
			line, database := newWire(t)
			w := newWorld(t, database, 1)
			d := w.doom(t)[0]
			t.Cleanup(func() { w.story(t, d) })

			var mu sync.Mutex
			calls := 0
			var lost time.Time
			gone := make(chan struct{})
			w.hook(func(_ *worker, c call) bool {
				mu.Lock()
				defer mu.Unlock()
				if d.note == "" || c.answered || !lost.IsZero() {
					return true
				}
				if calls++; calls == at {
					line.set(how)
					lost = time.Now()
					close(gone)
				}
				return true
			})
			mu.Lock()
			w.report(t, d)
			mu.Unlock()
			select {
			case <-gone:
			case <-time.After(60 * time.Second):
				t.Fatalf("there was no call %d", at)
			}
			answers := w.askWithout(t, d, lost.Add(span))
			back := time.Now()
			line.set(well)
			w.finished(t, d, 100*time.Second)
			t.Logf("the api answered %d times that it cannot; finished %s after the database was back", answers, time.Since(back).Round(10*time.Millisecond))
			for _, c := range w.written(t) {
				if c.After(lost.Add(leaseTTL)) && c.Before(back) {
					t.Errorf("Nova was written to %s after the database was lost", c.Sub(lost))
				}
			}
		})
	}
}

// askWithout asks and reports, over and over until the time has come, while there is no database: each answer is 503 and a fault.
func (w *world) askWithout(t *testing.T, d *death, until time.Time) (answers int) {
	t.Helper()
	for time.Now().Before(until) {
		for _, ask := range []struct {
			method, path string
			body         any
		}{
			{"GET", "/v1/notifications/" + d.note, nil},
			{"POST", "/v1/notifications", testkit.HostDown(d.host, d.at)},
		} {
			status, answer, err := testkit.TryCall(ask.method, w.api+ask.path, ask.body)
			if err != nil {
				t.Errorf("%s %s without a database: %v", ask.method, ask.path, err)
				continue
			}
			answers++
			if status != 503 || len(answer) != 1 {
				t.Errorf("%s %s without a database: %d %v, want 503 and a fault", ask.method, ask.path, status, answer)
			}
		}
		select {
		case <-time.After(min(500*time.Millisecond, time.Until(until))): // the pace of somebody who asks
		case <-t.Context().Done():
		}
	}
	return answers
}

// written is when Nova was written to.
func (w *world) written(t *testing.T) (at []time.Time) {
	t.Helper()
	for _, c := range testkit.Must(t, 200, "GET", w.Sim+"/sim/calls", nil)["calls"].([]any) {
		v := c.(map[string]any)
		if v["method"] == "GET" || v["path"] == "/identity/v3/auth/tokens" || v["path"] == "/v3/auth/tokens" {
			continue
		}
		when, err := time.Parse(time.RFC3339Nano, v["time"].(string))
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, when)
	}
	return at
}
