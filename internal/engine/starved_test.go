package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// slowServers takes its time to show an instance.
type slowServers struct {
	Cloud
	now, most atomic.Int32
}

func (c *slowServers) Server(context.Context, string) (ha.Server, error) {
	if n := c.now.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	time.Sleep(time.Second)
	c.now.Add(-1)
	return ha.Server{}, nil
}

// Looks at single instances leave half of the calls to acts, however many units want them.
func TestSingleLooksLeaveRoomForActs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &slowServers{}
		e := New(Config{Name: "engine", CallTimeout: 30 * time.Second, Concurrency: 8}, nil, c, nil)
		var units []*unit
		for i := range 20 {
			u := newUnit(e, ha.Lease{}, ha.Unit{}, nil)
			u.acts = t.Context()
			var want []plan.Look
			for k := range 10 {
				want = append(want, plan.Look{Kind: plan.LookServer, ID: fmt.Sprintf("%d-%d", i, k)})
			}
			u.lookAt(want)
			units = append(units, u)
		}
		time.Sleep(time.Millisecond)
		if n := e.limiter.free(); n != 4 {
			t.Errorf("%d of 8 slots are free for acts", n)
		}
		for _, u := range units {
			u.group.Wait()
			u.collect()
			if len(u.facts.Server) != 10 {
				t.Errorf("%d of 10 looked at", len(u.facts.Server))
			}
		}
		if n := c.most.Load(); n != 4 {
			t.Errorf("%d at once", n)
		}
	})
}

// rung takes the wake of a unit, if it has one.
func rung(u *unit) bool {
	select {
	case <-u.wake:
		return true
	default:
		return false
	}
}

// Units whose acts find no slot are woken when one is free, each in its turn, and as many as there are slots.
func TestStarvedUnitsAreWokenInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Config{Name: "engine", Concurrency: 2}, nil, nil, nil)
		l := e.limiter
		take(t, l, 2)
		one := func() *unit { return newUnit(e, ha.Lease{}, ha.Unit{}, nil) }
		a, b, c, gone := one(), one(), one(), one()
		for _, u := range []*unit{a, a, gone, b, c} {
			l.await(u)
		}
		l.forget(gone)
		if rung(a) || rung(b) || rung(c) {
			t.Fatal("woken with no slot free")
		}
		l.release("")
		if !rung(a) || rung(b) || rung(c) {
			t.Fatal("one slot is free: the first is woken, and nobody else")
		}
		l.promise(1) // by the first
		l.release("")
		if !rung(b) || rung(c) || rung(a) {
			t.Fatal("the second slot is the second's")
		}
		if err := l.acquirePromised(t.Context()); err != nil || l.free() != 1 {
			t.Fatalf("%v, %d free", err, l.free())
		}
		if !rung(c) {
			t.Fatal("what is left of the two is the third's")
		}
		if l.await(a); !rung(a) {
			t.Fatal("a slot is free already, and who waits for one is not woken")
		}
	})
}
