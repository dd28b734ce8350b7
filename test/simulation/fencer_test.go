package simulation

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// fencer is one engine's way to the hosts' power: slow, sometimes dark, and it does not ask whether a host lives.
type fencer struct {
	w   *world
	p   *process
	mu  sync.Mutex
	rng *rand.Rand
}

func (f *fencer) Configured(string) bool { return f.w.fencing }

// justBack is how long a host may have lived when it is fenced: five seconds until its first heartbeat, two that Nova's word may be old,
// five in which the intent is committed (engine: fenceWithin), and the order itself.
const justBack = 5*time.Second + 2*time.Second + 5*time.Second + slowestOrder

// slowestOrder is how long a controller takes at most, here.
const slowestOrder = 4500 * time.Millisecond

func (f *fencer) Fence(ctx context.Context, host string) (ha.FenceResult, error) {
	f.mu.Lock()
	takes, dark := time.Duration(500+f.rng.IntN(int(slowestOrder/time.Millisecond)-500))*time.Millisecond, f.rng.IntN(4) == 0
	f.mu.Unlock()
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ha.FenceResult{}, ctx.Err()
	}
	if dark {
		return ha.FenceResult{Text: "simulated: dark", Sights: []ha.PowerSight{{Method: "bmc", Power: ha.PowerUnknown}}}, nil
	}
	f.w.mu.Lock()
	since, lives := f.w.alive[host]
	if lives {
		f.w.dead[host] = time.Now()
		delete(f.w.alive, host)
	}
	f.w.mu.Unlock()
	f.w.tell("%s fences %s", f.p.name, host)
	if lives {
		if age := time.Since(since); age > justBack {
			f.w.violated("I2", "%s was fenced, which Nova has heard for %s", host, age)
		}
		_ = f.w.cloud.Kill(host)
	}
	off := ha.PowerSight{Method: "bmc", Power: ha.PowerOff, At: time.Now()}
	return ha.FenceResult{Off: true, Text: "simulated: off", Sights: []ha.PowerSight{off, off}}, nil
}
