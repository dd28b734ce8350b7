package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

type power struct{ asked int }

func (*power) Configured(string) bool { return true }

func (p *power) Fence(context.Context, string) (ha.FenceResult, error) {
	p.asked++
	return ha.FenceResult{Off: true}, nil
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
