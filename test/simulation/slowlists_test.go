package simulation

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/engine"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/sim"
	"github.com/salvor-ha/salvor/internal/store/memstore"
)

// slowLists is a Nova that takes its time to list what is on a host.
type slowLists struct {
	*sim.Nova
	takes time.Duration
}

func (s slowLists) Servers(ctx context.Context, host string) ([]ha.Server, error) {
	list, err := s.Nova.Servers(ctx, host)
	return list, s.late(ctx, err)
}

func (s slowLists) Migrations(ctx context.Context, host string) ([]ha.Migration, error) {
	list, err := s.Nova.Migrations(ctx, host)
	return list, s.late(ctx, err)
}

func (s slowLists) late(ctx context.Context, err error) error {
	select {
	case <-time.After(s.takes):
		return err
	case <-ctx.Done():
		return &ha.CloudError{Class: ha.ClassBroken, Op: "list", Text: ctx.Err().Error()}
	}
}

// TestSlowLists: while many hosts die at once and Nova is slow to list what is on them, the lists leave room for orders; and lists that take as
// long as a call may are not too old for an order when both have come.
func TestSlowLists(t *testing.T) {
	for name, c := range map[string]struct {
		dead           int
		takes, timeout time.Duration
		within         time.Duration
	}{
		"many hosts":     {48, 4 * time.Second, 30 * time.Second, 2 * time.Minute},
		"a long timeout": {2, 80 * time.Second, 90 * time.Second, 6 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				w := newWorld(t, 1, plantNone)
				w.ctx, w.store, w.cloud = ctx, memstore.New(memstore.Config{}), sim.New(sim.Options{Seed: 1, Hosts: 2 * c.dead})
				defer w.cloud.Close()
				seg, err := w.store.CreateSegment(ctx, ha.Segment{UUID: uuid.NewString(), Name: "rack", ServiceType: "COMPUTE", RecoveryMethod: ha.MethodAuto, Enabled: true})
				if err != nil {
					t.Fatal(err)
				}
				died := map[string]bool{}
				for i := range c.dead {
					died[hostName(i)] = true
					w.put(hostName(i), 4)
					if _, err := w.store.CreateHost(ctx, ha.Host{UUID: uuid.NewString(), Name: hostName(i), SegmentUUID: seg.UUID, Type: "COMPUTE", ControlAttributes: "SSH"}); err != nil {
						t.Fatal(err)
					}
					_ = w.cloud.Kill(hostName(i))
				}
				r := rules()
				r.BrakePercent, r.RecoveryRate, r.NovaTimeout, r.WaitEvacuation = 0, 0, c.timeout, 10*time.Minute
				nova := slowLists{w.cloud.Nova(sim.ClientOptions{Name: "engine", MinLatency: 5 * time.Millisecond, MaxLatency: 120 * time.Millisecond}), c.takes}
				e := engine.New(engine.Config{Name: "engine", Host: "ctl", TTL: leaseTTL, Tick: time.Second, Poll: 500 * time.Millisecond, DrainTimeout: 5 * time.Second,
					CallTimeout: c.timeout, Concurrency: 32, Rules: r, Log: slog.New(slog.DiscardHandler)}, w.store, nova, nil)
				done := make(chan struct{})
				go func() { defer close(done); e.Run(ctx) }()
				time.Sleep(90 * time.Second) // Nova sees them down
				for host := range died {
					w.report(host, ha.EventStopped, ha.HostStatusNormal, 1)
				}
				left := -1
				for began := time.Now(); left != 0 && time.Since(began) < c.within; {
					time.Sleep(5 * time.Second)
					left = 0
					for _, i := range w.instances() {
						if died[i.Host] {
							left++
						}
					}
				}
				if left > 0 {
					t.Errorf("%d of %d instances are left after %s", left, 4*c.dead, c.within)
				}
				cancel()
				<-done
			})
		})
	}
}
