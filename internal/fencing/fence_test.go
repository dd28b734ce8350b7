package fencing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

// bmc is a controller that behaves as its fields say, in virtual time.
type bmc struct {
	off       bool
	offAfter  time.Duration // an order takes so long to work
	lies      int           // so many looks show off, whatever is true
	dark      bool          // no answer
	denied    bool
	denyOrder error // what an order is answered; it works all the same where works is set
	works     bool
	stuck     bool // shows on for ever
	broken    int  // so many looks fail at once
	refuseFor time.Duration

	mu     sync.Mutex
	began  time.Time
	orders []time.Time
	looks  int
}

func (b *bmc) Look(ctx context.Context) (ha.Power, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	switch {
	case b.dark:
		<-ctx.Done()
		return ha.PowerOff, "", ctx.Err() // what is not read is not off, whatever stands in the result
	case b.denied:
		return ha.PowerUnknown, "", fmt.Errorf("%w: 401", ErrLogin)
	case b.broken > 0:
		b.broken--
		return ha.PowerUnknown, "", errors.New("connection refused")
	case b.lies > 0:
		b.lies--
		return ha.PowerOff, "says off", nil
	case b.stuck || !b.isOff():
		return ha.PowerOn, "says on", nil
	}
	return ha.PowerOff, "says off", nil
}

func (b *bmc) isOff() bool {
	return b.off || len(b.orders) > 0 && (b.denyOrder == nil || b.works) && time.Since(b.orders[0]) >= b.offAfter && time.Since(b.began) >= b.refuseFor
}

func (b *bmc) Off(ctx context.Context) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dark {
		<-ctx.Done()
		return "", ctx.Err()
	}
	if time.Since(b.began) < b.refuseFor {
		b.orders = append(b.orders, time.Now())
		return "", errors.New("ForceOff answered 503")
	}
	b.orders = append(b.orders, time.Now())
	return "taken", b.denyOrder
}

func (b *bmc) Check(ctx context.Context) (ha.Power, string, error) { return b.Look(ctx) }

// fencerOf makes one whose hosts have these methods, named a, b, and so on.
func fencerOf(bmcs ...*bmc) *Fencer {
	return New(func(string) ([]Method, error) {
		var methods []Method
		for i, b := range bmcs {
			if b.began.IsZero() {
				b.began = time.Now()
			}
			methods = append(methods, Method{Name: string(rune('a' + i)), Deadline: 63 * time.Second, Pause: 2 * time.Second, Controller: b})
		}
		return methods, nil
	})
}

func powers(r ha.FenceResult) string {
	var out []string
	for _, s := range r.Sights {
		out = append(out, s.Method+":"+string(s.Power))
	}
	return strings.Join(out, " ")
}

func TestFence(t *testing.T) {
	tests := []struct {
		name   string
		bmcs   []*bmc
		off    bool
		sights string
		orders []int
		within time.Duration // at most
		text   string        // part of what is told
	}{
		{"on, goes off at once", []*bmc{{}}, true, "a:on a:off a:off", []int{1}, 5 * time.Second, "a: off, seen at"},
		{"off already: nothing is ordered", []*bmc{{off: true}}, true, "a:off a:off", []int{0}, 3 * time.Second, "nothing was ordered"},
		{"goes off slowly", []*bmc{{offAfter: 12 * time.Second}}, true, "a:on a:on a:off a:off", []int{1}, 17 * time.Second, "ordered once"},
		{"refuses off when off", []*bmc{{works: true, denyOrder: errors.New("409 already off")}}, true, "a:on a:off a:off", []int{1}, 5 * time.Second, "answered: 409 already off"},
		{"on, and refuses for a while", []*bmc{{refuseFor: 30 * time.Second}}, true, "a:on a:on a:off a:off", []int{4}, 45 * time.Second, "ordered 4 times"},
		{"on, and refuses for ever", []*bmc{{denyOrder: errors.New("409 no")}}, false, "a:on a:on", []int{6}, 63 * time.Second, "ordered off 6 times (answered: 409 no), but not seen off; at the end: says on"},
		{"lies once", []*bmc{{lies: 1}}, true, "a:off a:on a:off a:off", []int{1}, 7 * time.Second, ""},
		{"lies once and cannot be ordered", []*bmc{{lies: 1, stuck: true}}, false, "a:off a:on a:on", []int{4}, 63 * time.Second, "showed off, then on: not believed"},
		{"stuck at on", []*bmc{{stuck: true}}, false, "a:on a:on", []int{4}, 63 * time.Second, "not seen off"},
		{"dark: the next one, after a third of the deadline", []*bmc{{dark: true}, {}}, true, "a:unknown b:on b:off b:off", []int{0, 1}, 26 * time.Second, "a: not seen: no answer within 21s"},
		{"refused connections: the next one, soon", []*bmc{{broken: 9}, {}}, true, "a:unknown a:unknown b:on b:off b:off", []int{0, 1}, 10 * time.Second, "connection refused"},
		{"one failed look is no reason to leave", []*bmc{{broken: 2}}, true, "a:unknown a:unknown a:on a:off a:off", []int{1}, 10 * time.Second, ""},
		{"refused login: tried once, so that it is not locked", []*bmc{{denied: true}, {off: true}}, true, "a:unknown b:off b:off", []int{0, 0}, 3 * time.Second, "a: not seen: login refused: 401"},
		{"may look but not order", []*bmc{{denyOrder: ErrLogin}, {off: true, denied: true}}, false, "a:on b:unknown", []int{1, 0}, time.Second, "login refused"},
		{"all dark", []*bmc{{dark: true}, {dark: true}}, false, "a:unknown b:unknown", []int{0, 0}, 43 * time.Second, "b: not seen: no answer"},
		{"off by one, on by another", []*bmc{{stuck: true}, {off: true}}, false, "a:on a:on b:off b:off", []int{4, 0}, 66 * time.Second, "b: shows off, but a still sees the host on: not believed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				r, err := fencerOf(tt.bmcs...).Fence(t.Context(), "host-1")
				if err != nil {
					t.Fatal(err)
				}
				if r.Off != tt.off || powers(r) != tt.sights || !strings.Contains(r.Text, tt.text) {
					t.Errorf("off %v, saw %q, said %q;\nwant %v, %q, %q", r.Off, powers(r), r.Text, tt.off, tt.sights, tt.text)
				}
				var orders []int
				for _, b := range tt.bmcs {
					orders = append(orders, len(b.orders))
				}
				if diff := cmp.Diff(tt.orders, orders); diff != "" {
					t.Errorf("orders (-want +got):\n%s", diff)
				}
				if took := time.Since(began); took > tt.within {
					t.Errorf("took %s, more than %s", took, tt.within)
				}
				if r.Off {
					proof := r.Sights[len(r.Sights)-2:]
					if gap := proof[1].At.Sub(proof[0].At); gap < 2*time.Second {
						t.Errorf("the two sights are %s apart", gap)
					}
					if r.SeenOff() != proof[1].At {
						t.Errorf("seen off at %s", r.SeenOff())
					}
				} else if strings.Contains(r.Text, "off, seen at") || !r.SeenOff().IsZero() {
					t.Errorf("not fenced, and told: %s", r.Text)
				}
			})
		})
	}
}

// TestBMCThatDiesWithItsHostIsNoContradiction: the strip cuts the power, and the BMC that saw the host on falls silent.
func TestBMCThatDiesWithItsHostIsNoContradiction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &bmc{stuck: true}
		strip := &cutting{bmc: &bmc{}, cuts: first}
		f := New(func(string) ([]Method, error) {
			return []Method{{"bmc", 63 * time.Second, 2 * time.Second, first}, {"strip", 63 * time.Second, 2 * time.Second, strip}}, nil
		})
		r, err := f.Fence(t.Context(), "host-1")
		if err != nil || !r.Off || !strings.HasSuffix(powers(r), "bmc:unknown strip:on strip:off strip:off") {
			t.Errorf("%v %q %s", err, powers(r), r.Text)
		}
	})
}

type cutting struct {
	*bmc
	cuts *bmc
}

func (c *cutting) Off(ctx context.Context) (string, error) {
	c.cuts.dark = true
	return c.bmc.Off(ctx)
}

func TestPower(t *testing.T) {
	tests := []struct {
		name   string
		bmcs   []*bmc
		off    bool
		sights string
	}{
		{"off", []*bmc{{off: true}}, true, "a:off a:off"},
		{"on", []*bmc{{}, {off: true}}, false, "a:on"},
		{"lies once", []*bmc{{lies: 1}}, false, "a:off a:on"},
		{"dark, then off by another", []*bmc{{dark: true}, {off: true}}, true, "a:unknown b:off b:off"},
		{"dark", []*bmc{{dark: true}}, false, "a:unknown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := fencerOf(tt.bmcs...).Power(t.Context(), "host-1")
				if err != nil || r.Off != tt.off || powers(r) != tt.sights {
					t.Errorf("%v, off %v, %q, %s", err, r.Off, powers(r), r.Text)
				}
				for _, b := range tt.bmcs {
					if len(b.orders) > 0 {
						t.Error("a look gave an order")
					}
				}
			})
		})
	}
}

func TestTwoFencesOfOneHostShareOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bmc{offAfter: 10 * time.Second}
		f := fencerOf(b)
		first, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := f.Fence(first, "host-1"); !errors.Is(err, context.Canceled) {
				t.Errorf("who has left is told %v", err)
			}
		})
		synctest.Wait()
		for range 5 {
			all.Go(func() {
				if r, err := f.Fence(t.Context(), "host-1"); err != nil || !r.Off {
					t.Errorf("%v %s", err, r.Text)
				}
			})
		}
		time.Sleep(5 * time.Second)
		cancel() // the one who began it leaves; the others get their answer all the same
		all.Wait()
		if len(b.orders) != 1 {
			t.Errorf("%d orders", len(b.orders))
		}
		// Another host, and the same one later, are attempts of their own.
		if r, err := f.Fence(t.Context(), "host-1"); err != nil || !r.Off || len(b.orders) != 1 {
			t.Errorf("again: %v %s, %d orders", err, r.Text, len(b.orders))
		}
	})
}

func TestFenceEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bmc{offAfter: 20 * time.Second}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		r, err := fencerOf(b, &bmc{off: true}).Fence(ctx, "host-1")
		if err != nil || r.Off || !strings.Contains(r.Text, "stopped before it was done") || time.Since(began) != 5*time.Second {
			t.Errorf("after %s: %v %+v", time.Since(began), err, r)
		}
		// Nothing runs on for a caller who has gone, and nothing is tried for one who was never there.
		looks := b.looks
		time.Sleep(time.Minute)
		if _, err := fencerOf(b).Fence(ctx, "host-1"); err == nil || b.looks != looks || len(b.orders) != 1 {
			t.Errorf("%v, %d looks after the end", err, b.looks-looks)
		}
	})
}

func TestNotConfigured(t *testing.T) {
	f := New(func(string) ([]Method, error) { return nil, fmt.Errorf("%w for it", ErrNotConfigured) })
	_, err := f.Fence(t.Context(), "host-1")
	if f.Configured("host-1") || !errors.Is(err, ErrNotConfigured) {
		t.Errorf("%v", err)
	}
}
