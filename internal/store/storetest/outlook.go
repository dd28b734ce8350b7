package storetest

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/salvor-ha/salvor/internal/ha"
)

// outlook: what a dry run sees of a segment is what a recovery in it is loaded with, and looking changes nothing.
func outlook(f *fixture) {
	h, n, l := f.incident()
	spare := f.host(h.SegmentUUID)
	on := true
	_, err := f.UpdateHost(f.ctx, h.SegmentUUID, spare.UUID, ha.HostPatch{OnMaintenance: &on})
	f.must(err)
	f.must(f.SetPause(f.ctx, ha.Pause{Segment: h.SegmentUUID, By: "alice", Reason: "rack moves"}))
	rec := f.load(l).Recovery
	now := f.load(l).Now
	rec.StartedAt = &now
	f.commit(l, ha.SetRecovery{Recovery: rec}, ha.PutClaim{Claim: ha.Claim{HostUUID: h.UUID, What: ha.WhatForcedDown, Reason: ha.ReasonRecovery, WorkID: l.WorkID}})

	o, err := f.Outlook(f.ctx, h.SegmentUUID)
	f.must(err)
	u := f.load(l)
	if d := cmp.Diff(u.Peers, o.Peers); d != "" {
		f.Errorf("the peers differ from those of a unit:\n%s", d)
	}
	if d := cmp.Diff(u.Segment, o.Segment); d != "" || o.Segment.Pause == nil {
		f.Errorf("the segment differs from that of a unit:\n%s", d)
	}
	if len(o.Peers) != 2 || !o.Peers[0].OpenIncident || !o.Peers[0].Claimed || !o.Peers[1].Operator || o.RecentStarts != 1 {
		f.Errorf("outlook: %+v", o)
	}
	if o.Now.Before(now) {
		f.Errorf("its clock %v is behind %v", o.Now, now)
	}
	would := o.Unit(o.Peers[0], ha.Payload{ha.KeyEvent: ha.EventStopped})
	if d := cmp.Diff(u.Claims, would.Claims, cmpopts.EquateEmpty()); d != "" {
		f.Errorf("the host's claims differ from those of a unit:\n%s", d)
	}
	equal(f, "the recovery's host", would.Host.UUID, h.UUID)
	equal(f, "the report's status, after a look", f.status(n), ha.StatusNew)
	_, err = f.Outlook(f.ctx, id())
	equal(f, "what is missing", fails[*ha.NotFoundError](f, err).Kind, ha.KindSegment)
}
