package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

func setHost(f *fixture) {
	h, _, l := f.incident()
	read := func() ha.Host {
		got, err := f.Host(f.ctx, h.SegmentUUID, h.UUID)
		f.must(err)
		return got
	}
	f.commit(l, ha.SetHost{UUID: h.UUID, OnMaintenance: ptr(false), Reserved: ptr(false)})
	if got := read(); got.UpdatedAt != nil {
		f.Fatal("flags set as they were moved updated_at")
	}
	f.commit(l, ha.SetHost{UUID: h.UUID, OnMaintenance: ptr(true)})
	if got := read(); !got.OnMaintenance || got.Reserved || got.UpdatedAt == nil || got.StartedAt != nil {
		f.Fatalf("host is %+v", got)
	}
	b := f.commit(l, ha.SetHost{UUID: h.UUID, Reserved: ptr(true), Started: true})
	if got := read(); !got.OnMaintenance || !got.Reserved || got.StartedAt == nil || !got.StartedAt.Equal(b.Now) {
		f.Fatalf("host is %+v, want it started at %v", got, b.Now)
	}
	f.commit(l, ha.StartUnit{Kind: ha.UnitTakeBack, HostUUID: h.UUID, SegmentUUID: h.SegmentUUID})
	tb := f.poll("a").Units[0]
	back, _ := f.takeOver("b", ha.Lease{WorkID: tb.WorkID, Epoch: tb.Epoch, Beat: tb.Beat})
	f.commit(back, ha.Park{After: time.Hour})
	f.commit(l, ha.SetHost{UUID: h.UUID, Started: true})
	if u := f.poll("a").Units; !u[0].Due {
		f.Fatal("a STARTED acted upon does not wake the host's take-back")
	}
}

func adopt(f *fixture) {
	h := f.host(f.segment().UUID)
	old := f.admit(unsureDeath(h, 0))
	l, _ := f.claim("a", old)
	proof := f.admit(death(h, 10))
	later := f.admit(start(h, 20))
	f.commit(l, ha.SetNotification{UUID: old.UUID, Status: ha.StatusRunning}, ha.PutMove{Move: ha.VMove{UUID: id(), InstanceUUID: id()}},
		ha.Write{Entry: ha.Entry{Seq: 1, Text: "before"}})
	changes := []ha.Change{
		ha.SetNotification{UUID: old.UUID, Status: ha.StatusIgnored, Message: "adopted"}, ha.Write{Entry: ha.Entry{Seq: 2, Text: "adopting"}},
		ha.Adopt{NotificationUUID: proof.UUID},
		ha.SetNotification{UUID: proof.UUID, Status: ha.StatusRunning}, ha.Write{Entry: ha.Entry{Seq: 3, Text: "after"}},
	}
	f.commit(l, changes...)
	f.commit(l, changes...) // applied twice, it is the same
	u := f.load(l)
	if u.NotificationUUID != proof.UUID || u.Notification.Status != ha.StatusRunning || u.ID != l.WorkID || u.Epoch != l.Epoch {
		f.Fatalf("unit after adoption is %+v", u.Work)
	}
	if len(u.Queue) != 1 || u.Queue[0].UUID != later.UUID || len(u.Moves) != 1 || u.Moves[0].NotificationUUID != proof.UUID {
		f.Fatalf("queue %d, moves %+v", len(u.Queue), u.Moves)
	}
	entries, err := f.Journal(f.ctx, proof.UUID, 0, 10)
	f.must(err)
	equal(f, "journal entries of the adopted", len(entries), 3)
	w, err := f.Recovery(f.ctx, proof.UUID)
	f.must(err)
	equal(f, "its recovery", w.ID, l.WorkID)
	_, err = f.Recovery(f.ctx, old.UUID)
	fails[*ha.NotFoundError](f, err)
	if _, err := f.Commit(f.ctx, l, ha.Adopt{NotificationUUID: f.admit(vm(h, 0, id())).UUID}); err == nil {
		f.Fatal("a notification of another key was adopted")
	}
}

func endUnit(f *fixture) {
	h, n, l := f.incident()
	f.admit(start(h, 5)) // the owner has not seen it
	_, err := f.Commit(f.ctx, l, ha.SetNotification{UUID: n.UUID, Status: ha.StatusFinished}, ha.EndUnit{})
	f.is(err, ha.ErrStale)
	equal(f, "the status", f.load(l).Notification.Status, ha.StatusNew)
	f.commit(l, ha.SetNotification{UUID: n.UUID, Status: ha.StatusFinished}, ha.EndUnit{})
	_, err = f.Commit(f.ctx, l)
	f.is(err, ha.ErrFenced)
	_, err = f.Commit(f.ctx, l, ha.EndUnit{})
	f.is(err, ha.ErrFenced)
	w, err := f.Recovery(f.ctx, n.UUID)
	f.must(err)
	if w.EndedAt == nil || w.Owner != "" || w.Due {
		f.Fatalf("ended unit is %+v", w)
	}
	_, _, err = f.Claim(f.ctx, ha.ClaimRequest{Owner: "b", TTL: ttl, WorkID: l.WorkID, Epoch: w.Epoch, Beat: w.Beat})
	f.is(err, ha.ErrLost)
	equal(f, "fresh work", len(f.poll("b").Fresh), 1) // the key is free for the STARTED
}

func park(f *fixture) {
	h, _, l := f.incident()
	f.commit(l, ha.Park{After: time.Hour})
	if u := f.poll("b").Units[0]; u.Owner != "" || u.Due {
		f.Fatalf("parked unit is %+v", u)
	}
	_, err := f.Commit(f.ctx, l)
	f.is(err, ha.ErrFenced)
	f.admit(start(h, 5))
	if u := f.poll("b").Units[0]; !u.Due {
		f.Fatal("a signalled unit is not due")
	}
	sight := f.poll("b").Units[0]
	l, _ = f.takeOver("b", ha.Lease{WorkID: sight.WorkID, Epoch: sight.Epoch, Beat: sight.Beat})
	f.commit(l, ha.Park{})
	if u := f.poll("c").Units[0]; !u.Due {
		f.Fatal("a unit parked for no time is not due")
	}
	sight = f.poll("c").Units[0]
	l, _ = f.takeOver("c", ha.Lease{WorkID: sight.WorkID, Epoch: sight.Epoch, Beat: sight.Beat})
	f.admit(death(h, 100)) // a signal that the owner does not see before it parks
	f.commit(l, ha.Park{After: time.Hour})
	if u := f.poll("c").Units[0]; !u.Due {
		f.Fatal("a wake was lost: the unit was signalled before it was parked")
	}
}

func startUnit(f *fixture) {
	h, _, l := f.incident()
	start := ha.StartUnit{Kind: ha.UnitTakeBack, HostUUID: h.UUID, SegmentUUID: h.SegmentUUID}
	f.commit(l, start, start)
	f.commit(l, start)
	units := f.poll("a").Units
	if len(units) != 1 || units[0].Owner != "" || !units[0].Due || units[0].Key != "takeback:"+h.UUID {
		f.Fatalf("units are %+v, want one take-back, due", units)
	}
	lease := ha.Lease{WorkID: units[0].WorkID, Epoch: units[0].Epoch, Beat: units[0].Beat}
	back, u := f.takeOver("b", lease)
	if u.Kind != ha.UnitTakeBack || u.HostUUID != h.UUID || u.SegmentUUID != h.SegmentUUID {
		f.Fatalf("take-back is %+v", u.Work)
	}
	before := u.Signal
	f.commit(l, ha.Signal{Key: u.Key}, ha.Signal{Key: "takeback:none"})
	equal(f, "the signal", f.commit(back).Signal, before+1)
	f.load(back)
	f.commit(back, ha.EndUnit{})
	f.commit(l, start)
	if again := f.poll("a").Units; len(again) != 1 || again[0].WorkID == units[0].WorkID {
		f.Fatalf("units are %+v, want a new take-back", again)
	}
}

func touchSegment(f *fixture) {
	h, _, l := f.incident()
	l2, _ := f.claim("b", f.admit(death(f.host(h.SegmentUUID), 0)))
	u, u2 := f.load(l), f.load(l2)
	f.commit(l, ha.TouchSegment{UUID: h.SegmentUUID, Seen: u.Segment.Touch})
	_, err := f.Commit(f.ctx, l2, ha.Write{Entry: ha.Entry{Seq: 1}}, ha.TouchSegment{UUID: h.SegmentUUID, Seen: u2.Segment.Touch})
	f.is(err, ha.ErrStale)
	u2 = f.load(l2)
	equal(f, "the touch", u2.Segment.Touch, u.Segment.Touch+1)
	f.host(h.SegmentUUID) // one more host: the numbers that were decided by have changed
	_, err = f.Commit(f.ctx, l2, ha.TouchSegment{UUID: h.SegmentUUID, Seen: u2.Segment.Touch})
	f.is(err, ha.ErrStale)
	f.commit(l2, ha.TouchSegment{UUID: h.SegmentUUID, Seen: f.load(l2).Segment.Touch})
}

func giveWay(f *fixture) {
	h := f.host(f.segment().UUID)
	p, _ := f.claim("p", f.admit(process(h, 0, ha.EventStopped)))
	intent := ha.Write{Entry: ha.Entry{Seq: 1, Kind: ha.EntryIntent, Key: "k", Open: true}}
	f.commit(p, ha.GiveWay{HostUUID: h.UUID}, intent)
	n := f.admit(death(h, 0))
	l, u := f.claim("a", n)
	equal(f, "acts in flight that the host unit sees", u.InFlight, 1)
	_, err := f.Commit(f.ctx, p, ha.GiveWay{HostUUID: h.UUID}, ha.Write{Entry: ha.Entry{Seq: 2, Open: true}})
	f.is(err, ha.ErrSuperseded)
	f.commit(l, ha.GiveWay{HostUUID: h.UUID}) // it does not give way to itself
	f.end(l, n, ha.StatusFinished)
	_, err = f.Load(f.ctx, p)
	f.must(err)
	f.commit(p, ha.GiveWay{HostUUID: h.UUID})
	o, _ := f.claim("o", f.admit(vm(h, 0, id())))
	f.commit(o, ha.Signal{Key: ha.UnitProcess.Key(h.UUID)})
	_, err = f.Commit(f.ctx, p, ha.GiveWay{HostUUID: h.UUID}) // what it was told of since it was loaded comes first
	f.is(err, ha.ErrStale)
	_, err = f.Load(f.ctx, p)
	f.must(err)
	f.commit(p, ha.GiveWay{HostUUID: h.UUID})
}

// giveWayRace: an intent of another unit is either seen by the host unit that begins, or refused because of it.
func giveWayRace(f *fixture) {
	other := f.open(f.T)
	s := f.segment()
	for range 10 {
		h := f.host(s.UUID)
		v, _ := f.claim("v", f.admit(vm(h, 0, id())))
		n := f.admit(death(h, 0))
		var wg sync.WaitGroup
		var intentErr, claimErr error
		var u ha.Unit
		wg.Go(func() {
			_, intentErr = f.Commit(f.ctx, v, ha.GiveWay{HostUUID: h.UUID}, ha.Write{Entry: ha.Entry{Seq: 1, Key: "k", Open: true}})
		})
		wg.Go(func() {
			_, u, claimErr = other.Claim(f.ctx, ha.ClaimRequest{Owner: "a", TTL: ttl, Fresh: freshOf(n)})
		})
		wg.Wait()
		f.must(claimErr)
		switch {
		case intentErr == nil && u.InFlight == 1:
		case errors.Is(intentErr, ha.ErrSuperseded) && u.InFlight == 0:
		default:
			f.Fatalf("the intent ended with %v, the host unit sees %d acts in flight", intentErr, u.InFlight)
		}
	}
}

// reserve is invariant I8.
func reserve(f *fixture) {
	h, n, l := f.incident()
	spare := f.host(h.SegmentUUID)
	take := func(l *ha.Lease) error {
		_, err := f.Commit(f.ctx, l, ha.Reserve{HostUUID: spare.UUID})
		return err
	}
	f.is(take(l), ha.ErrTaken) // not reserved
	_, err := f.UpdateHost(f.ctx, spare.SegmentUUID, spare.UUID, ha.HostPatch{Reserved: ptr(true), OnMaintenance: ptr(true)})
	f.must(err)
	f.is(take(l), ha.ErrTaken) // on maintenance
	_, err = f.UpdateHost(f.ctx, spare.SegmentUUID, spare.UUID, ha.HostPatch{OnMaintenance: ptr(false)})
	f.must(err)

	rivals := []*ha.Lease{l}
	for i := range 4 {
		r, _ := f.claim(fmt.Sprint("r", i), f.admit(death(f.host(h.SegmentUUID), 0)))
		rivals = append(rivals, r)
	}
	var won atomic.Int64
	var winner, loser atomic.Pointer[ha.Lease]
	var wg sync.WaitGroup
	for _, r := range rivals {
		wg.Go(func() {
			switch err := take(r); {
			case err == nil:
				won.Add(1)
				winner.Store(r)
			case errors.Is(err, ha.ErrTaken):
				loser.Store(r)
			default:
				f.Error(err)
			}
		})
	}
	wg.Wait()
	equal(f, "rivals that got the host", won.Load(), 1)
	f.must(take(winner.Load())) // again is no error
	f.commit(loser.Load(), ha.Free{HostUUID: spare.UUID})
	f.is(take(loser.Load()), ha.ErrTaken) // another's cannot be freed
	got, err := f.Host(f.ctx, spare.SegmentUUID, spare.UUID)
	f.must(err)
	equal(f, "whose it is", got.ReservedFor, winner.Load().WorkID)
	f.commit(winner.Load(), ha.Free{HostUUID: spare.UUID})
	f.must(take(l))
	f.end(l, n, ha.StatusFinished) // the end of a unit frees it too
	f.must(take(rivals[1]))
	_, err = f.Commit(f.ctx, rivals[1], ha.Reserve{HostUUID: id()})
	f.is(err, ha.ErrTaken)
}

// allOrNothing: a commit whose last change fails has written nothing.
func allOrNothing(f *fixture) {
	h, n, l := f.incident()
	queued := f.admit(start(h, 5))
	spare := f.host(h.SegmentUUID)
	_, err := f.UpdateHost(f.ctx, spare.SegmentUUID, spare.UUID, ha.HostPatch{Reserved: ptr(true)})
	f.must(err)
	kept := ha.Claim{HostUUID: h.UUID, What: ha.WhatDisabled, Reason: ha.ReasonRecovery}
	f.commit(l, ha.PutClaim{Claim: kept}, ha.PutMove{Move: ha.VMove{UUID: id(), InstanceUUID: "i1"}},
		ha.Write{Entry: ha.Entry{Seq: 1, Key: "k", Open: true}})
	before := f.load(l)
	was := *l
	_, err = f.Commit(f.ctx, l,
		ha.SetNotification{UUID: n.UUID, Status: ha.StatusRunning}, ha.SetNotification{UUID: queued.UUID, Status: ha.StatusIgnored},
		ha.PutMove{Move: ha.VMove{UUID: id(), InstanceUUID: "i1", Status: ha.MoveFailed}}, ha.PutMove{Move: ha.VMove{UUID: id(), InstanceUUID: "i2"}},
		ha.SetRecovery{Recovery: ha.Recovery{Step: ha.StepMove, StartedAt: ptr(before.Now)}}, ha.SetHost{UUID: h.UUID, OnMaintenance: ptr(true), Started: true},
		ha.PutClaim{Claim: ha.Claim{HostUUID: h.UUID, What: ha.WhatForcedDown, Reason: ha.ReasonRecovery}}, ha.DropClaim{HostUUID: h.UUID, What: kept.What, Reason: kept.Reason},
		ha.Write{Entry: ha.Entry{Seq: 2, Key: "k2", Open: true}}, ha.CloseIntent{Key: "k"}, ha.StartUnit{Kind: ha.UnitTakeBack, HostUUID: h.UUID},
		ha.Reserve{HostUUID: spare.UUID}, ha.Signal{Key: before.Key}, ha.TouchSegment{UUID: h.SegmentUUID, Seen: before.Segment.Touch},
		ha.Adopt{NotificationUUID: queued.UUID}, ha.Park{After: time.Hour}, ha.TouchSegment{UUID: h.SegmentUUID, Seen: before.Segment.Touch})
	f.is(err, ha.ErrStale)
	equal(f, "the lease", *l, was)
	after := f.load(l)
	equal(f, "the beat", after.Beat, before.Beat+1)
	after.Beat, after.Now, after.Age = before.Beat, before.Now, before.Age
	if d := cmp.Diff(before, after); d != "" {
		f.Fatalf("a failed commit left traces:\n%s", d)
	}
	equal(f, "units", len(f.poll("a").Units), 0)
	got, err := f.Host(f.ctx, spare.SegmentUUID, spare.UUID)
	f.must(err)
	equal(f, "whose the spare host is", got.ReservedFor, int64(0))
}
