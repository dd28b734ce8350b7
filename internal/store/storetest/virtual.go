package storetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// RunVirtual tests what hours do, for stores whose clock is the process's: in a bubble, hours are nothing. fresh makes the
// store, within the bubble, and close ends it.
func RunVirtual(t *testing.T, fresh func(t *testing.T) (open Open, close func())) {
	synctest.Test(t, func(t *testing.T) {
		open, close := fresh(t)
		defer close()
		f := &fixture{T: t, ctx: t.Context(), Backend: open(t), open: open}
		hours(f)
	})
	synctest.Test(t, func(t *testing.T) {
		open, close := fresh(t)
		defer close()
		hashesGrowOld(&fixture{T: t, ctx: t.Context(), Backend: open(t), open: open})
	})
}

// hashesGrowOld: bytes rot, so a copy is given up for another one's sake only when that was hashed lately; when it is decided, and once more
// when it is ordered.
func hashesGrowOld(f *fixture) {
	c := f.blobCloud(2)
	b := c.placed(2, 0, 1)
	c.pass()
	later := func() {
		time.Sleep(ha.HashTrust + time.Minute)
		c.report(0, ha.AgentReport{})
		c.report(1, ha.AgentReport{})
	}
	orders := func(host int, kind ha.OrderKind) (n int) {
		all, err := c.AgentOrders(c.ctx, c.hosts[host].UUID, time.Time{})
		f.must(err)
		for _, o := range all {
			if o.Kind == kind {
				n++
			}
		}
		return n
	}
	later()
	_, err := c.AddBlob(c.ctx, ha.Blob{UUID: b.UUID, Size: b.Size, SHA256: b.SHA256, WantCopies: 1}, nil)
	f.must(err)
	c.pass()
	kept := 0
	if orders(1, ha.OrderVerify) == 1 {
		kept = 1
	}
	equal(f, "copies that count", c.show(b).Copies, 2)
	equal(f, "hashes ordered of the one that is kept", orders(kept, ha.OrderVerify), 1)
	c.pass()
	equal(f, "drops ordered before it was hashed", orders(1-kept, ha.OrderDrop), 0)
	c.finds(kept, b, ha.CopyPresent)
	c.pass()
	equal(f, "drops ordered once it was", orders(1-kept, ha.OrderDrop), 1)

	later() // and nobody has carried it out
	equal(f, "drops ordered for a hash that has grown old", orders(1-kept, ha.OrderDrop), 0)
	c.pass()
	c.finds(kept, b, ha.CopyPresent)
	equal(f, "drops ordered once it was hashed again", orders(1-kept, ha.OrderDrop), 1)
	c.finds(1-kept, b, ha.CopyMissing)
	c.pass()
	equal(f, "durability", c.show(b).Durability, ha.DurabilityOK)
}

func hours(f *fixture) {
	h, n, l := f.incident()
	l2, _ := f.claim("b", f.admit(death(f.host(h.SegmentUUID), 0)))
	f.must(f.BeatEngine(f.ctx, ha.Engine{Name: "old", StartedAt: time.Now()}))
	u := f.load(l)
	if !u.Now.Equal(time.Now().Truncate(time.Microsecond)) {
		f.Fatalf("the store's clock is %v, the bubble's %v", u.Now, time.Now())
	}
	f.commit(l, ha.SetRecovery{Recovery: ha.Recovery{StartedAt: ptr(u.Now)}})
	time.Sleep(59 * time.Second)
	equal(f, "recent starts after 59 s", f.load(l2).RecentStarts, 1)
	time.Sleep(2 * time.Second)
	equal(f, "recent starts after 61 s", f.load(l2).RecentStarts, 0)
	equal(f, "the age", f.load(l).Age, 61*time.Second)

	f.commit(l, ha.Park{After: time.Hour})
	due := func() bool {
		for _, s := range f.poll("x").Units {
			if s.WorkID == l.WorkID {
				return s.Due
			}
		}
		f.Fatal("the parked unit is gone")
		return false
	}
	time.Sleep(time.Hour - time.Second)
	equal(f, "due a second early", due(), false)
	time.Sleep(time.Second)
	equal(f, "due", due(), true)

	f.must(f.BeatEngine(f.ctx, ha.Engine{Name: "young", StartedAt: time.Now()}))
	engines, err := f.Engines(f.ctx)
	f.must(err)
	if len(engines) != 1 || engines[0].Name != "young" {
		f.Fatalf("engines are %+v, want the one seen within the hour", engines)
	}
	time.Sleep(25 * time.Hour)
	f.must(f.BeatEngine(f.ctx, ha.Engine{Name: "third", StartedAt: time.Now()}))

	l, _ = f.takeOver("c", f.sight(l.WorkID))
	f.end(l, n, ha.StatusFinished)
	f.must(f.DeleteHost(f.ctx, h.SegmentUUID, h.UUID))
	removed, err := f.Purge(f.ctx, 30, -1)
	f.must(err)
	equal(f, "rows removed while young", removed.Bounded, 0)
	time.Sleep(30*24*time.Hour + time.Second)
	removed, err = f.Purge(f.ctx, 30, -1)
	f.must(err)
	equal(f, "rows removed after 30 days", removed.Bounded, 2)
}

// sight is the lease by which a unit can be claimed.
func (f *fixture) sight(work int64) ha.Lease {
	f.Helper()
	for _, s := range f.poll("nobody").Units {
		if s.WorkID == work {
			return ha.Lease{WorkID: s.WorkID, Epoch: s.Epoch, Beat: s.Beat}
		}
	}
	f.Fatalf("no unit %d", work)
	return ha.Lease{}
}
