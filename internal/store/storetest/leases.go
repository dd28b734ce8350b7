package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

func pollFresh(f *fixture) {
	s := f.segment()
	h, other := f.host(s.UUID), f.host(s.UUID)
	first := f.admit(unsureDeath(h, 0))
	f.admit(death(h, 10)) // the same key: not before the first
	second := f.admit(vm(other, 0, id()))
	third := f.admit(process(other, 0, ha.EventStopped))
	want := []ha.Fresh{freshOf(first), freshOf(second), freshOf(third)}
	if d := cmp.Diff(want, f.poll("a").Fresh); d != "" {
		f.Fatalf("fresh work differs:\n%s", d)
	}
	l, _ := f.claim("a", first)
	if d := cmp.Diff(want[1:], f.poll("a").Fresh); d != "" {
		f.Fatalf("fresh work differs after a claim:\n%s", d)
	}
	f.end(l, first, ha.StatusFinished)
	fresh := f.poll("a").Fresh
	if len(fresh) != 3 || fresh[0].Key != want[0].Key {
		f.Fatalf("fresh work after the unit's end is %+v, want the second notification of the key too", fresh)
	}
	for i := range 220 {
		f.admit(vm(h, i, id()))
	}
	equal(f, "fresh work of many", len(f.poll("a").Fresh), 200)
}

func pollUnits(f *fixture) {
	_, n, l := f.incident()
	p := f.poll("a")
	if len(p.Units) != 0 || len(p.Mine) != 1 {
		f.Fatalf("engine a sees %+v, want the unit as its own", p)
	}
	_, key := n.UnitKey()
	want := ha.Sighting{WorkID: l.WorkID, Key: key, Owner: "a", Epoch: l.Epoch, Beat: l.Beat, TTL: ttl}
	p = f.poll("b")
	if len(p.Units) != 1 || len(p.Mine) != 0 || p.Units[0] != want {
		f.Fatalf("engine b sees %+v, want %+v", p.Units, want)
	}
	f.commit(l)
	equal(f, "the beat seen", f.poll("b").Units[0].Beat, l.Beat)
	seen := f.poll("a").Mine[0].Signal
	f.commit(l, ha.Signal{Key: key})
	equal(f, "signals seen by the owner", f.poll("a").Mine[0].Signal, seen+1)

	// What beat longest ago comes first: a dead owner's is never beyond the limit.
	_, _, young := f.incident()
	time.Sleep(time.Millisecond)
	f.commit(l)
	equal(f, "the unit seen first", f.poll("b").Units[0].WorkID, young.WorkID)
	f.commit(young, ha.Park{After: time.Hour})
	p = f.poll("b")
	if p.Units[1].WorkID != young.WorkID || p.Units[1].Due || p.Units[1].Owner != "" {
		f.Fatalf("units are %+v, want the parked one last, owned by nobody and not due", p.Units)
	}
	f.end(l, n, ha.StatusIgnored)
	equal(f, "units after an end", len(f.poll("b").Units), 1)
}

func engines(f *fixture) {
	began := time.Date(2026, 11, 29, 11, 0, 0, 123456000, time.UTC)
	a := ha.Engine{Name: "h1:1:x", Host: "h1", Version: "1", StartedAt: began, Beat: 1}
	b := ha.Engine{Name: "h2:1:y", Host: "h2", Version: "1", StartedAt: began, Beat: 7}
	f.must(f.BeatEngine(f.ctx, b))
	f.must(f.BeatEngine(f.ctx, a))
	a.Beat = 2
	f.must(f.BeatEngine(f.ctx, a))
	got, err := f.Engines(f.ctx)
	f.must(err)
	if d := cmp.Diff([]ha.Engine{a, b}, got); d != "" {
		f.Fatalf("engines differ:\n%s", d)
	}
}

func claimFresh(f *fixture) {
	s := f.segment()
	h := f.host(s.UUID)
	n := f.admit(death(h, 0))
	l, u := f.claim("a", n)
	if l.Owner != "a" || l.Epoch != 1 || l.Beat != u.Beat || l.WorkID == 0 {
		f.Fatalf("lease is %+v", l)
	}
	if u.ID != l.WorkID || u.Owner != "a" || u.TTL != ttl || u.Kind != ha.UnitHost || u.Key != ha.UnitHost.Key(h.UUID) || u.HostUUID != h.UUID ||
		u.SegmentUUID != s.UUID || u.NotificationUUID != n.UUID || u.CreatedAt.IsZero() || u.EndedAt != nil || u.Due {
		f.Fatalf("unit is %+v", u.Work)
	}
	lost := func(fresh ha.Fresh) {
		f.Helper()
		_, _, err := f.Claim(f.ctx, ha.ClaimRequest{Owner: "b", TTL: ttl, Fresh: fresh})
		f.is(err, ha.ErrLost)
	}
	lost(freshOf(n)) // its key is taken
	f.end(l, n, ha.StatusFinished)
	lost(freshOf(n)) // it is no longer new
	gone := freshOf(n)
	gone.NotificationUUID = id()
	lost(gone)
	equal(f, "units", len(f.poll("x").Units), 0)

	next := f.admit(death(h, 1000))
	l2, _ := f.claim("b", next)
	if l2.WorkID == l.WorkID {
		f.Fatal("a new death got the old unit")
	}
	_, err := f.Commit(f.ctx, l)
	f.is(err, ha.ErrFenced)
}

// beats renews the leases that still are the owner's, together, and nobody else's.
func beats(f *fixture) {
	s := f.segment()
	var mine []ha.Lease
	for range 3 {
		l, _ := f.claim("a", f.admit(death(f.host(s.UUID), 0)))
		mine = append(mine, *l)
	}
	others, _ := f.claim("b", f.admit(death(f.host(s.UUID), 0)))
	l, _, err := f.Claim(f.ctx, ha.ClaimRequest{Owner: "a", TTL: ttl, WorkID: mine[1].WorkID, Epoch: mine[1].Epoch, Beat: mine[1].Beat})
	f.must(err) // in a new epoch
	taken := ha.Lease{WorkID: others.WorkID, Owner: "a", Epoch: others.Epoch, Beat: others.Beat}
	got, err := f.Beats(f.ctx, append(mine, taken))
	f.must(err)
	equal(f, "leases renewed", len(got), 2)
	for _, i := range []int{0, 2} {
		if b := got[mine[i].WorkID]; b.Beat != mine[i].Beat+1 || b.Now.IsZero() {
			f.Fatalf("beat %d is %+v after beat %d", i, b, mine[i].Beat)
		}
	}
	got, err = f.Beats(f.ctx, []ha.Lease{mine[0], l})
	f.must(err)
	if got[mine[0].WorkID].Beat != mine[0].Beat+2 || got[l.WorkID].Beat != l.Beat+1 {
		f.Fatalf("beats in two epochs are %+v", got)
	}
	f.commit(others) // nobody has touched it
	equal(f, "the beat of another's unit", others.Beat, taken.Beat+1)
}

// claimRace: of 20 claimers, one wins.
func claimRace(f *fixture) {
	backends := []Backend{f.Backend, f.open(f.T), f.open(f.T)}
	h := f.host(f.segment().UUID)
	for round := range 3 {
		n := f.admit(death(h, round*1000))
		wins := race(f, 20, func(i int) error {
			_, _, err := backends[i%3].Claim(f.ctx, ha.ClaimRequest{Owner: fmt.Sprint("e", i), TTL: ttl, Fresh: freshOf(n)})
			return err
		})
		equal(f, "winners", len(wins), 1)
		mine := f.poll(fmt.Sprint("e", wins[0])).Mine
		equal(f, "the winner's units", len(mine), 1)
		l, _ := f.takeOver("z", ha.Lease{WorkID: mine[0].WorkID, Epoch: mine[0].Epoch, Beat: mine[0].Beat})
		f.end(l, n, ha.StatusFinished)
	}
}

// takeoverRace: of 20 that saw the same dead owner, one takes over; so it goes for an unowned one.
func takeoverRace(f *fixture) {
	backends := []Backend{f.Backend, f.open(f.T), f.open(f.T)}
	_, _, l := f.incident()
	sight := *l
	for range 3 {
		wins := race(f, 20, func(i int) error {
			_, _, err := backends[i%3].Claim(f.ctx, ha.ClaimRequest{Owner: fmt.Sprint("e", i), TTL: ttl, WorkID: sight.WorkID, Epoch: sight.Epoch, Beat: sight.Beat})
			return err
		})
		equal(f, "winners", len(wins), 1)
		now := f.poll("x").Units[0]
		if now.Epoch != sight.Epoch+1 || now.Owner != fmt.Sprint("e", wins[0]) {
			f.Fatalf("the unit is %+v after a takeover from epoch %d by e%d", now, sight.Epoch, wins[0])
		}
		sight.Epoch, sight.Beat = now.Epoch, now.Beat
	}
}

// race runs n calls at once and returns those that won; others may only have lost.
func race(f *fixture, n int, call func(i int) error) []int {
	f.Helper()
	var mu sync.Mutex
	var wins []int
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			err := call(i)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				wins = append(wins, i)
			case !errors.Is(err, ha.ErrLost):
				f.Errorf("call %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if f.Failed() {
		f.FailNow()
	}
	return wins
}

// fence is invariant I1: after a takeover the old owner writes nothing.
func fence(f *fixture) {
	_, n, old := f.incident()
	stale := *old
	f.commit(old, ha.SetNotification{UUID: n.UUID, Status: ha.StatusRunning, Message: "by a"})
	_, _, err := f.Claim(f.ctx, ha.ClaimRequest{Owner: "b", TTL: ttl, WorkID: stale.WorkID, Epoch: stale.Epoch, Beat: stale.Beat})
	f.is(err, ha.ErrLost) // the owner has beaten since
	now, u := f.takeOver("b", *old)
	equal(f, "the epoch", now.Epoch, old.Epoch+1)
	equal(f, "the message", *u.Notification.Message, "by a")

	_, err = f.Commit(f.ctx, old)
	f.is(err, ha.ErrFenced)
	_, err = f.Commit(f.ctx, old, ha.SetNotification{UUID: n.UUID, Status: ha.StatusFailed, Message: "late"}, ha.Write{Entry: ha.Entry{Seq: 1, Kind: ha.EntryNote}}, ha.EndUnit{})
	f.is(err, ha.ErrFenced)
	_, err = f.Load(f.ctx, old)
	f.is(err, ha.ErrFenced)
	imposter := ha.Lease{WorkID: now.WorkID, Epoch: now.Epoch, Owner: "a"}
	_, err = f.Commit(f.ctx, &imposter, ha.EndUnit{})
	f.is(err, ha.ErrFenced)
	f.commit(now, ha.Park{})
	nobody := ha.Lease{WorkID: now.WorkID, Epoch: now.Epoch}
	_, err = f.Commit(f.ctx, &nobody, ha.EndUnit{})
	f.is(err, ha.ErrFenced)
	_, err = f.Commit(f.ctx, &nobody)
	f.is(err, ha.ErrFenced)

	got, err := f.Notification(f.ctx, n.UUID)
	f.must(err)
	if got.Status != ha.StatusRunning || *got.Message != "by a" {
		f.Fatalf("a deposed owner wrote: %s %q", got.Status, *got.Message)
	}
	entries, err := f.Journal(f.ctx, n.UUID, 0, 10)
	f.must(err)
	equal(f, "journal entries", len(entries), 0)
}

// fenceRace: owners write as fast as they can while others take the unit over; what is written after a takeover was
// committed is the new owner's.
func fenceRace(f *fixture) {
	other := f.open(f.T)
	_, n, l := f.incident()
	var holder atomic.Pointer[ha.Lease]
	first := *l
	holder.Store(&first)
	f.commit(l, ha.SetNotification{UUID: n.UUID, Status: ha.StatusRunning})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var writes atomic.Int64
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(rand.N(4 * time.Millisecond)): // room for a takeover between two beats
			}
			mine := *holder.Load()
			_, err := f.Commit(f.ctx, &mine, ha.SetNotification{UUID: n.UUID, Status: ha.StatusRunning, Message: fmt.Sprintf("%08d", mine.Epoch)})
			var away *ha.UnavailableError // a cluster in trouble may refuse; it may not write late
			switch {
			case err == nil:
				writes.Add(1)
			case !errors.Is(err, ha.ErrFenced) && !errors.As(err, &away):
				f.Error(err)
				return
			}
		}
	})
	for takeovers := 0; takeovers < 30 && !f.Failed(); {
		sight := f.poll("x").Units[0]
		next, _, err := other.Claim(f.ctx, ha.ClaimRequest{Owner: fmt.Sprint("t", takeovers), TTL: ttl, WorkID: sight.WorkID, Epoch: sight.Epoch, Beat: sight.Beat})
		var away *ha.UnavailableError
		if errors.Is(err, ha.ErrLost) || errors.As(err, &away) {
			continue
		}
		f.must(err)
		// From here on, no message of an older epoch may appear.
		before, err := other.Notification(f.ctx, n.UUID)
		f.must(err)
		for range 3 {
			now, err := other.Notification(f.ctx, n.UUID)
			f.must(err)
			if *now.Message != *before.Message && *now.Message < fmt.Sprintf("%08d", next.Epoch) {
				f.Fatalf("epoch %s wrote after epoch %d had taken over", *now.Message, next.Epoch)
			}
		}
		holder.Store(&next)
		for wrote := writes.Load(); writes.Load() == wrote && !f.Failed(); { // until the new owner has written
			runtime.Gosched()
		}
		takeovers++
	}
	close(stop)
	wg.Wait()
	if writes.Load() == 0 {
		f.Fatal("nobody wrote: the race proved nothing")
	}
}

func beat(f *fixture) {
	_, _, l := f.incident()
	was := l.Beat
	one := f.commit(l)
	equal(f, "the beat", one.Beat, was+1)
	equal(f, "the lease's beat", l.Beat, one.Beat)
	two := f.commit(l, ha.Signal{Key: "nobody"})
	equal(f, "the beat of a commit", two.Beat, was+2)
	u := f.load(l)
	equal(f, "the beat of a load", u.Beat, was+3)
	equal(f, "the lease's beat", l.Beat, u.Beat)
	if two.Now.Before(one.Now) || u.Now.Before(two.Now) || one.Now.Location() != time.UTC {
		f.Fatalf("the database's clock reads %v, %v, %v", one.Now, two.Now, u.Now)
	}
}
