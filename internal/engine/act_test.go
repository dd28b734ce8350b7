package engine

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/lease"
	"github.com/salvor-ha/salvor/internal/plan"
)

type power struct {
	asked int
	looks time.Duration // how long other methods are asked after the host was seen off
}

func (*power) Configured(string) bool { return true }

func (p *power) Fence(context.Context, string) (ha.FenceResult, error) {
	p.asked++
	seen := ha.FenceResult{Off: true, Sights: []ha.PowerSight{{Power: ha.PowerOff, At: time.Now()}}}
	time.Sleep(p.looks)
	return seen, nil
}

// slowRows takes its time to load a unit, whose signal has moved at each commit.
type slowRows struct{ Store }

func (slowRows) Commit(context.Context, *ha.Lease, ...ha.Change) (ha.Beat, error) {
	return ha.Beat{Signal: 1}, nil
}

func (slowRows) Load(context.Context, *ha.Lease) (ha.Unit, error) {
	time.Sleep(2 * time.Second)
	return ha.Unit{}, nil
}

type taker struct {
	Cloud
	took int
}

func (c *taker) Do(_ context.Context, a ha.Act) (ha.Outcome, error) {
	c.took++
	return ha.Outcome{Act: a}, nil
}

// An order leaves within a second of the commit of its intent, whatever its owner does meanwhile: it is in doubt from then on.
func TestOrderWithinASecondOfItsIntent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &taker{}
		e := New(Config{Name: "engine", Tick: time.Second, CallTimeout: 30 * time.Second, Concurrency: 8}, slowRows{}, c, nil)
		ctx, guard := lease.NewGuard(t.Context(), time.Now(), time.Minute, time.Second)
		defer guard.End(nil)
		u := newUnit(e, ha.Lease{}, ha.Unit{}, guard)
		u.acts = ctx
		d := plan.Decision{Changes: []ha.Change{ha.SetRecovery{}},
			Acts: []ha.Act{{Key: "i1", Kind: ha.ActEvacuate, Instance: "i1"}, {Key: "i2", Kind: ha.ActLock, Instance: "i2"}}}
		decided := time.Now()
		if done, again := u.commit(ctx, d, false); done || again {
			t.Fatalf("done %v, again %v", done, again)
		}
		u.send(d.Acts, decided)
		u.group.Wait()
		u.collect()
		for _, o := range u.ended {
			if late := o.Act.Kind == ha.ActEvacuate; late != (ha.ClassOf(o.Err) == ha.ClassNotSent) {
				t.Errorf("%s: %v", o.Act.Kind, o.Err)
			}
		}
		if len(u.ended) != 2 || c.took != 1 {
			t.Errorf("%d ended, %d sent", len(u.ended), c.took)
		}
	})
}

// The age of a fence's proof is that of the sight of off, whatever was asked after it (I2).
func TestFenceIsAsOldAsItsSight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnit(&Engine{fencer: &power{looks: time.Minute}, log: slog.New(slog.DiscardHandler)}, ha.Lease{}, ha.Unit{Now: time.Unix(1000, 0)}, nil)
		u.acts = t.Context()
		time.Sleep(time.Second)
		out := u.fence(t.Context(), ha.Act{Key: "fence:host-1", Kind: ha.ActFence, Host: "host-1", SendBy: time.Now()})
		if out.Err != nil || !out.At.Equal(time.Unix(1001, 0)) {
			t.Errorf("%v at %s", out.Err, out.At)
		}
	})
}

// A fence whose intent took too long to commit is not sent: by then the host may be back (I2).
func TestFenceTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &power{}
		u := &unit{e: &Engine{fencer: p}, acts: t.Context()}
		a := ha.Act{Key: "fence:host-1", Kind: ha.ActFence, Host: "host-1", SendBy: time.Now().Add(fenceWithin)}
		time.Sleep(fenceWithin)
		if out := u.fence(t.Context(), a); out.Err != nil || p.asked != 1 {
			t.Fatalf("in time: %v, asked %d times", out.Err, p.asked)
		}
		time.Sleep(time.Nanosecond)
		if out := u.fence(t.Context(), a); ha.ClassOf(out.Err) != ha.ClassNotSent || out.Fence != nil || p.asked != 1 {
			t.Fatalf("too late: %v, asked %d times", out.Err, p.asked)
		}
	})
}
