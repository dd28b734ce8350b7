package storetest

import (
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// earlier: an instance's unit knows its earlier restarts, a take-back its host's earlier recoveries: each notification once, those
// that never began not at all, the newest first.
func earlier(f *fixture) {
	s := f.segment()
	h := f.host(s.UUID)
	instance := id()
	var at []time.Time
	for i := range 3 {
		n := f.admit(vm(h, 3600*i, instance))
		l, u := f.claim("a", n)
		same(f, "earlier restarts", u.Earlier, at)
		if i != 1 { // that one was not restarted
			f.commit(l, ha.SetRecovery{Recovery: ha.Recovery{StartedAt: ptr(u.Now)}})
			at = append([]time.Time{u.Now}, at...)
		}
		f.end(l, n, ha.StatusFinished)
	}
	l, u := f.claim("a", f.admit(vm(h, 5*3600, instance)))
	same(f, "earlier restarts", u.Earlier, at)
	f.commit(l, ha.SetRecovery{Recovery: ha.Recovery{StartedAt: ptr(u.Now)}})
	same(f, "its own does not count", f.load(l).Earlier, at)
	_, u = f.claim("a", f.admit(vm(h, 0, id())))
	equal(f, "another instance's", len(u.Earlier), 0)

	n := f.admit(death(h, 0))
	l, u = f.claim("a", n)
	equal(f, "a host unit counts none", len(u.Earlier), 0)
	started := u.Now
	f.commit(l, ha.SetRecovery{Recovery: ha.Recovery{StartedAt: &started}},
		ha.PutClaim{Claim: ha.Claim{HostUUID: h.UUID, What: ha.WhatDisabled, Reason: ha.ReasonRecovery}},
		ha.StartUnit{Kind: ha.UnitTakeBack, HostUUID: h.UUID, SegmentUUID: s.UUID})
	f.end(l, n, ha.StatusFailed)
	f.must(f.Wish(f.ctx, n.UUID, ha.Wish{Kind: ha.WishRetry, By: "op"}))
	retry, _ := f.sighted(ha.UnitHost.Key(h.UUID))
	f.commit(retry, ha.SetRecovery{Recovery: ha.Recovery{StartedAt: ptr(started.Add(time.Minute))}})
	f.end(retry, n, ha.StatusFinished)
	_, u = f.sighted(ha.UnitTakeBack.Key(h.UUID))
	same(f, "the host's earlier recoveries", u.Earlier, []time.Time{started.Add(time.Minute)})
}

// sighted claims the unit with this key that nobody holds.
func (f *fixture) sighted(key string) (*ha.Lease, ha.Unit) {
	f.Helper()
	for _, s := range f.poll("b").Units {
		if s.Key == key {
			return f.takeOver("b", ha.Lease{WorkID: s.WorkID, Epoch: s.Epoch, Beat: s.Beat})
		}
	}
	f.Fatalf("no unit %s to be seen", key)
	return nil, ha.Unit{}
}

func same(f *fixture, what string, got, want []time.Time) {
	f.Helper()
	if !slices.EqualFunc(got, want, time.Time.Equal) {
		f.Fatalf("%s are %v, want %v", what, got, want)
	}
}
