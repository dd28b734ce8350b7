package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/engine"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/service"
	"github.com/salvor-ha/salvor/internal/store/memstore"
	"github.com/salvor-ha/salvor/internal/store/storetest"
)

var (
	_ engine.Store  = (*memstore.Store)(nil)
	_ service.Store = (*memstore.Store)(nil)
)

func TestSuite(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Open {
		s := memstore.New(memstore.Config{})
		return func(*testing.T) storetest.Backend { return s }
	})
}

func TestVirtualTime(t *testing.T) {
	storetest.RunVirtual(t, func(*testing.T) (storetest.Open, func()) {
		s := memstore.New(memstore.Config{})
		return func(*testing.T) storetest.Backend { return s }, func() {}
	})
}

// incident is a store with one claimed unit.
func incident(tb testing.TB, c memstore.Config) (*memstore.Store, ha.Notification, *ha.Lease) {
	tb.Helper()
	ctx := context.Background()
	s := memstore.New(c)
	seg, err := s.CreateSegment(ctx, ha.Segment{UUID: "s", Name: "s"})
	must(tb, err)
	h, err := s.CreateHost(ctx, ha.Host{UUID: "h", Name: "h", SegmentUUID: seg.UUID})
	must(tb, err)
	n, err := s.Admit(ctx, ha.Report{UUID: "n", Type: ha.TypeComputeHost, Hostname: "h", Payload: ha.Payload{ha.KeyEvent: ha.EventStopped}}, time.Minute)
	must(tb, err)
	l, _, err := s.Claim(ctx, ha.ClaimRequest{Owner: "a", TTL: time.Second, Fresh: ha.Fresh{
		NotificationUUID: "n", Kind: ha.UnitHost, Key: ha.UnitHost.Key("h"), HostUUID: h.UUID, SegmentUUID: seg.UUID}})
	must(tb, err)
	return s, n, &l
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := memstore.None
		s, n, l := incident(t, memstore.Config{Fault: func(op string) memstore.FaultAction {
			if op != "Commit" {
				return memstore.None
			}
			action := next
			next = memstore.None
			return action
		}})
		status := func(want ha.Status) {
			t.Helper()
			got, err := s.Notification(t.Context(), n.UUID)
			must(t, err)
			if got.Status != want {
				t.Fatalf("status is %s, want %s", got.Status, want)
			}
		}
		commit := func(ctx context.Context, action memstore.FaultAction, to ha.Status) error {
			next = action
			_, err := s.Commit(ctx, l, ha.SetNotification{UUID: n.UUID, Status: to})
			return err
		}
		away := func(err error) {
			t.Helper()
			var e *ha.UnavailableError
			if !errors.As(err, &e) {
				t.Fatalf("error is %v, want an UnavailableError", err)
			}
		}
		away(commit(t.Context(), memstore.FailBefore, ha.StatusRunning))
		status(ha.StatusNew)
		was := *l
		away(commit(t.Context(), memstore.LoseAnswer, ha.StatusRunning))
		status(ha.StatusRunning)
		if *l != was {
			t.Fatal("the owner learned of a commit whose answer was lost")
		}
		must(t, commit(t.Context(), memstore.LoseAnswerLookUp, ha.StatusError))
		status(ha.StatusError)
		if l.Beat != was.Beat+2 {
			t.Fatalf("the lease is at beat %d, want %d", l.Beat, was.Beat+2)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		away(commit(ctx, memstore.Block, ha.StatusRunning))
		if time.Since(began) != time.Minute {
			t.Fatalf("a blocked call ended after %v, want it to last as long as its context", time.Since(began))
		}
		status(ha.StatusError)
		must(t, commit(t.Context(), memstore.None, ha.StatusRunning))
	})
}

func BenchmarkBeat(b *testing.B) {
	s, _, l := incident(b, memstore.Config{})
	ctx := b.Context()
	for b.Loop() {
		if _, err := s.Commit(ctx, l); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPoll polls a store with many ended units behind one that is active.
func BenchmarkPoll(b *testing.B) {
	s, _, _ := incident(b, memstore.Config{})
	ctx := b.Context()
	for i := range 20000 {
		uuid := fmt.Sprint("vm", i)
		_, err := s.Admit(ctx, ha.Report{UUID: uuid, Type: ha.TypeVM, Hostname: "h", Payload: ha.Payload{ha.KeyInstanceUUID: uuid}}, 0)
		must(b, err)
		vl, _, err := s.Claim(ctx, ha.ClaimRequest{Owner: "a", Fresh: ha.Fresh{NotificationUUID: uuid, Kind: ha.UnitInstance, Key: ha.UnitInstance.Key(uuid), HostUUID: "h"}})
		must(b, err)
		_, err = s.Commit(ctx, &vl, ha.SetNotification{UUID: uuid, Status: ha.StatusFinished}, ha.EndUnit{})
		must(b, err)
	}
	for b.Loop() {
		if _, err := s.Poll(ctx, "b"); err != nil {
			b.Fatal(err)
		}
	}
}
