package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

// unitIsWhole: a claim and a load bring all rows that a plan needs.
func unitIsWhole(f *fixture) {
	s, err := f.CreateSegment(f.ctx, ha.Segment{
		UUID: id(), Name: "s", ServiceType: "C", RecoveryMethod: ha.MethodReservedHost, Enabled: true, TrustReports: ptr(true),
	})
	f.must(err)
	h, peer := f.host(s.UUID), f.host(s.UUID)
	n := f.admit(unsureDeath(h, 0))
	l, u := f.claim("a", n)
	if d := cmp.Diff(n, u.Notification); d != "" {
		f.Fatalf("notification differs:\n%s", d)
	}
	s.Touch = u.Segment.Touch
	if d := cmp.Diff(s, u.Segment); d != "" {
		f.Fatalf("segment differs:\n%s", d)
	}
	if d := cmp.Diff(h, u.Host); d != "" {
		f.Fatalf("host differs:\n%s", d)
	}
	if len(u.Queue) != 0 || len(u.Moves) != 0 || len(u.Claims) != 0 || len(u.Open) != 0 || len(u.Peers) != 2 {
		f.Fatalf("a new unit has %+v", u)
	}
	if u.Now.IsZero() || u.Age < 0 || u.Age > time.Minute || u.Age != u.Now.Sub(n.CreatedAt) {
		f.Fatalf("now is %v, age %v", u.Now, u.Age)
	}

	q1, q2 := f.admit(death(h, 10)), f.admit(start(h, 20))
	f.admit(vm(h, 20, id())) // another key
	f.commit(l,
		ha.PutMove{Move: ha.VMove{UUID: id(), InstanceUUID: id(), InstanceName: "i"}},
		ha.PutClaim{Claim: ha.Claim{HostUUID: h.UUID, What: ha.WhatForcedDown, Reason: ha.ReasonRecovery}},
		ha.PutClaim{Claim: ha.Claim{HostUUID: peer.UUID, What: ha.WhatEnabled, Reason: ha.ReasonRecovery}},
		ha.Write{Entry: ha.Entry{Seq: 1, Kind: ha.EntryIntent, Key: "k1", Open: true}},
		ha.Write{Entry: ha.Entry{Seq: 2, Kind: ha.EntryIntent, Key: "k2", Open: true}},
		ha.CloseIntent{Key: "k2"})
	u = f.load(l)
	if len(u.Queue) != 2 || u.Queue[0].UUID != q1.UUID || u.Queue[1].UUID != q2.UUID {
		f.Fatalf("queue is %+v, want the two that came later, oldest first", u.Queue)
	}
	if len(u.Moves) != 1 || len(u.Claims) != 2 || len(u.Open) != 1 || u.Open[0].Key != "k1" {
		f.Fatalf("moves %d, claims %d, open %+v", len(u.Moves), len(u.Claims), u.Open)
	}
	equal(f, "the signal", u.Signal, 2) // two notifications of its key
	f.commit(l, ha.CloseIntent{Key: "k1"}, ha.Write{Entry: ha.Entry{Seq: 3, Kind: ha.EntryIntent, Key: "k1", Open: true}},
		ha.Write{Entry: ha.Entry{Seq: 4, Kind: ha.EntryIntent, Key: "k4", Open: true}}, ha.CloseIntent{Key: "k4"})
	u = f.load(l)
	if len(u.Open) != 1 || u.Open[0].Key != "k1" || u.Open[0].Seq != 3 {
		f.Fatalf("open intents are %+v, want the one written after the close of its key", u.Open)
	}

	l2, u2 := f.takeOver("b", *l)
	u2.Work, u2.Now, u2.Age = u.Work, u.Now, u.Age
	if d := cmp.Diff(u, u2); d != "" {
		f.Fatalf("a takeover loads something else:\n%s", d)
	}
	f.commit(l2, ha.SetNotification{UUID: q2.UUID, Status: ha.StatusFinished})
	equal(f, "the queue's length", len(f.load(l2).Queue), 1)
}

// unitOfDeleted: the host and the segment may be deleted while their take-back goes on, and a cascade of the host's storage.
func unitOfDeleted(f *fixture) {
	h, n, l := f.incident()
	equal(f, "the host is deleted", f.load(l).HostDeleted, false)
	e, err := f.FailStorage(f.ctx, ha.Fail{HostUUID: h.UUID, EpisodeUUID: id(), Radius: []ha.ObjectKind{ha.ObjectInstance}, By: "op"})
	f.must(err)
	f.commit(l, ha.StartUnit{Kind: ha.UnitTakeBack, HostUUID: h.UUID, SegmentUUID: h.SegmentUUID},
		ha.PutClaim{Claim: ha.Claim{HostUUID: h.UUID, What: ha.WhatForcedDown, Reason: ha.ReasonRecovery}})
	f.end(l, n, ha.StatusFinished)
	f.must(f.DeleteSegment(f.ctx, h.SegmentUUID))
	sl, su := f.storageUnit("b", h)
	equal(f, "the host of the cascade is deleted", su.HostDeleted, true)
	f.commit(sl, ha.SetEpisode{UUID: e.UUID, Ended: true, ClearedBy: "salvor"}, ha.EndUnit{})
	if d, err := f.Episode(f.ctx, e.UUID); err != nil || d.ClearedAt == nil || d.ClearedBy != "salvor" || d.EndedAt == nil {
		f.Fatalf("the episode is %+v, %v", d.Episode, err)
	}
	tb := f.poll("b").Units[0]
	_, u := f.takeOver("b", ha.Lease{WorkID: tb.WorkID, Epoch: tb.Epoch, Beat: tb.Beat})
	if u.Host.Name != h.Name || !u.HostDeleted || u.Segment.UUID != h.SegmentUUID || len(u.Claims) != 1 || len(u.Peers) != 0 {
		f.Fatalf("unit of a deleted host is %+v", u)
	}
	if u.NotificationUUID != "" || u.Notification.UUID != "" || u.Age != 0 || len(u.Queue) != 0 {
		f.Fatalf("a take-back has a notification: %+v", u.Notification)
	}
}

// deletedWithClaims: a host is deleted, alone or with its segment, whatever salvor holds of it in Nova; its take-back goes on, or begins, at once.
func deletedWithClaims(f *fixture) {
	held := ha.Claim{What: ha.WhatForcedDown, Reason: ha.ReasonRecovery}
	process := ha.Claim{What: ha.WhatDisabled, Reason: ha.ReasonProcess, Detail: "process failed"}
	for name, c := range map[string]struct {
		claim   ha.Claim
		unit    bool // its recovery has started one
		segment bool
		want    int // take-backs afterwards
	}{
		"forced down":                   {held, true, false, 1},
		"forced down, with its segment": {held, true, true, 1},
		"disabled for a process":        {process, false, false, 1},
		"disabled, with its segment":    {process, false, true, 1},
		"on maintenance":                {ha.Claim{What: ha.WhatMaintenance, Reason: ha.ReasonRecovery}, false, false, 0},
		"storage's":                     {ha.Claim{What: ha.WhatDisabled, Reason: ha.ReasonStorage, Detail: "x"}, false, true, 0},
	} {
		h, n, l := f.incident()
		f.load(l)
		c.claim.HostUUID = h.UUID
		f.commit(l, ha.PutClaim{Claim: c.claim})
		if c.unit {
			f.commit(l, ha.StartUnit{Kind: ha.UnitTakeBack, HostUUID: h.UUID, SegmentUUID: h.SegmentUUID})
		}
		f.end(l, n, ha.StatusFinished)
		for _, sight := range f.poll("b").Units {
			l, _ := f.takeOver("b", ha.Lease{WorkID: sight.WorkID, Epoch: sight.Epoch, Beat: sight.Beat})
			f.commit(l, ha.Park{After: time.Hour})
		}
		if c.segment {
			f.must(f.DeleteSegment(f.ctx, h.SegmentUUID))
		} else {
			f.must(f.DeleteHost(f.ctx, h.SegmentUUID, h.UUID))
		}
		units := f.poll("b").Units
		if len(units) != c.want {
			f.Fatalf("%s: units %+v, want %d", name, units, c.want)
		}
		if c.want == 0 {
			continue
		}
		if units[0].Key != ha.UnitTakeBack.Key(h.UUID) || !units[0].Due {
			f.Fatalf("%s: unit %+v", name, units[0])
		}
		tl, u := f.takeOver("b", ha.Lease{WorkID: units[0].WorkID, Epoch: units[0].Epoch, Beat: units[0].Beat})
		if u.Host.Name != h.Name || !u.HostDeleted || u.SegmentUUID != h.SegmentUUID || len(u.Claims) != 1 || u.Claims[0].What != c.claim.What {
			f.Fatalf("%s: unit of a deleted host is %+v", name, u)
		}
		f.commit(tl, ha.EndUnit{})
	}
}

// registeredAgain: what salvor holds of a deleted host is held of the one that is registered under its name, and taken back from that.
func registeredAgain(f *fixture) {
	h, n, l := f.incident()
	held := func(w ha.What, detail, prior string) ha.Change {
		return ha.PutClaim{Claim: ha.Claim{HostUUID: h.UUID, What: w, Reason: ha.ReasonRecovery, Detail: detail, Prior: prior, WorkID: l.WorkID}}
	}
	f.load(l)
	process := ha.PutClaim{Claim: ha.Claim{HostUUID: h.UUID, What: ha.WhatDisabled, Reason: ha.ReasonProcess, Detail: "process failed", Prior: "enabled", WorkID: l.WorkID}}
	f.commit(l, held(ha.WhatForcedDown, "", "false"), held(ha.WhatDisabled, "host failed", "enabled"), process, held(ha.WhatMaintenance, "", "false"),
		ha.StartUnit{Kind: ha.UnitTakeBack, HostUUID: h.UUID, SegmentUUID: h.SegmentUUID})
	f.end(l, n, ha.StatusFinished)
	take := func(host ha.Host) ha.Unit {
		f.Helper()
		for _, sight := range f.poll("b").Units {
			l, u := f.takeOver("b", ha.Lease{WorkID: sight.WorkID, Epoch: sight.Epoch, Beat: sight.Beat})
			f.commit(l, ha.Park{After: time.Hour})
			if u.HostUUID == host.UUID {
				return u
			}
		}
		f.Fatalf("no unit of %s %s", host.Name, host.UUID)
		return ha.Unit{}
	}
	before := take(h)
	f.must(f.DeleteSegment(f.ctx, h.SegmentUUID))
	other := f.host(f.segment().UUID) // of another name: nothing of it
	again, err := f.CreateHost(f.ctx, ha.Host{UUID: id(), Name: h.Name, SegmentUUID: other.SegmentUUID, Type: "COMPUTE", ControlAttributes: "SSH"})
	f.must(err)
	if units := f.poll("b").Units; len(units) != 2 || !units[0].Due || !units[1].Due {
		f.Fatalf("the new host's unit is to look, and the deleted host's to look again at what it holds: %+v", units)
	}
	after := take(again)
	if after.Kind != ha.UnitTakeBack || after.SegmentUUID != other.SegmentUUID || len(after.Claims) != 3 {
		f.Fatalf("the new host's unit is %+v with %+v", after.Work, after.Claims)
	}
	for i, c := range after.Claims {
		was := before.Claims[i]
		if c.HostUUID != again.UUID || c.What != was.What || c.Reason != was.Reason || c.Detail != was.Detail || c.Prior != was.Prior || c.WorkID != was.WorkID || !c.Since.Equal(was.Since) {
			f.Fatalf("claim %+v became %+v", was, c)
		}
	}
	if left := take(h).Claims; len(left) != 1 || left[0].What != ha.WhatMaintenance {
		f.Fatalf("the deleted host keeps %+v", left)
	}
}

// renamedToDeleted: a host that is given the name of a deleted one has what salvor holds under that name, as one that is registered under it.
func renamedToDeleted(f *fixture) {
	h, n, l := f.incident()
	f.load(l)
	f.commit(l, ha.PutClaim{Claim: ha.Claim{HostUUID: h.UUID, What: ha.WhatForcedDown, Reason: ha.ReasonRecovery, Prior: "false"}})
	f.end(l, n, ha.StatusFinished)
	other := f.host(h.SegmentUUID)
	f.must(f.DeleteHost(f.ctx, h.SegmentUUID, h.UUID))
	_, err := f.UpdateHost(f.ctx, h.SegmentUUID, other.UUID, ha.HostPatch{Name: ptr(h.Name)})
	f.must(err)
	if _, u := f.sighted(ha.UnitTakeBack.Key(other.UUID)); len(u.Claims) != 1 || u.Claims[0].What != ha.WhatForcedDown {
		f.Fatalf("claims of the renamed host are %+v", u.Claims)
	}
	if _, u := f.sighted(ha.UnitTakeBack.Key(h.UUID)); len(u.Claims) != 0 {
		f.Fatalf("the deleted host keeps %+v", u.Claims)
	}
}

// spareAgain: a spare that was used and made one again, or could not be given back, is the next recovery's to give back as it found it.
func spareAgain(f *fixture) {
	yes := true
	var spare ha.Host
	for i, used := range []bool{false, true, true} {
		h, n, l := f.incident()
		if i == 0 {
			spare = f.host(f.segment().UUID)
			_, err := f.UpdateHost(f.ctx, spare.SegmentUUID, spare.UUID, ha.HostPatch{Reserved: &yes})
			f.must(err)
		}
		claim := func(w ha.What, detail string) ha.Change {
			return ha.PutClaim{Claim: ha.Claim{HostUUID: spare.UUID, What: w, Reason: ha.ReasonRecovery, Detail: detail, WorkID: l.WorkID}}
		}
		f.load(l)
		f.commit(l, ha.Reserve{HostUUID: spare.UUID}, claim(ha.WhatEnabled, ""), claim(ha.WhatAggregate, "1"))
		f.commit(l, ha.Reserve{HostUUID: spare.UUID}) // again: its own stay
		want := 2
		if used {
			want = 3
			f.commit(l, claim(ha.WhatReserved, ""), ha.SetHost{UUID: spare.UUID, Reserved: ptr(false)}, ha.Free{HostUUID: spare.UUID})
		} else {
			f.commit(l, ha.Free{HostUUID: spare.UUID})
		}
		claims := f.load(l).Claims
		if len(claims) != want {
			f.Fatalf("use %d of the spare: the recovery of %s has the claims %+v, want %d", i+1, h.Name, claims, want)
		}
		f.end(l, n, ha.StatusFinished)
		if used {
			_, err := f.UpdateHost(f.ctx, spare.SegmentUUID, spare.UUID, ha.HostPatch{Reserved: &yes})
			f.must(err)
		}
	}
}

// peers is what the brake counts.
func peers(f *fixture) {
	h, _, l := f.incident()
	s := h.SegmentUUID
	dying, started, busy, claimed, mine, theirs := f.host(s), f.host(s), f.host(s), f.host(s), f.host(s), f.host(s)
	f.host(f.segment().UUID) // of another segment
	f.must(f.DeleteHost(f.ctx, s, f.host(s).UUID))
	f.admit(death(dying, 0))
	f.admit(start(started, 0))
	f.admit(vm(busy, 0, id()))
	f.admit(process(busy, 0, ha.EventStopped))
	f.commit(l,
		ha.PutClaim{Claim: ha.Claim{HostUUID: claimed.UUID, What: ha.WhatForcedDown, Reason: ha.ReasonRecovery}},
		ha.PutClaim{Claim: ha.Claim{HostUUID: busy.UUID, What: ha.WhatDisabled, Reason: ha.ReasonRecovery}},
		ha.PutClaim{Claim: ha.Claim{HostUUID: started.UUID, What: ha.WhatDisabled, Reason: ha.ReasonProcess}},
		ha.SetHost{UUID: mine.UUID, OnMaintenance: ptr(true)},
		ha.PutClaim{Claim: ha.Claim{HostUUID: mine.UUID, What: ha.WhatMaintenance, Reason: ha.ReasonRecovery}})
	_, err := f.UpdateHost(f.ctx, s, theirs.UUID, ha.HostPatch{OnMaintenance: ptr(true)})
	f.must(err)
	_, err = f.FailStorage(f.ctx, ha.Fail{HostUUID: busy.UUID, EpisodeUUID: id(), Radius: []ha.ObjectKind{ha.ObjectInstance}, By: "op"})
	f.must(err)
	want := map[string]ha.Peer{
		h.Name: {OpenIncident: true}, dying.Name: {OpenIncident: true}, started.Name: {}, busy.Name: {StorageError: true},
		claimed.Name: {Claimed: true}, mine.Name: {}, theirs.Name: {Operator: true},
	}
	got := map[string]ha.Peer{}
	for _, p := range f.load(l).Peers {
		got[p.Name] = ha.Peer{OpenIncident: p.OpenIncident, Claimed: p.Claimed, Operator: p.Operator, StorageError: p.StorageError}
	}
	if d := cmp.Diff(want, got); d != "" {
		f.Fatalf("peers differ:\n%s", d)
	}
}

// others: recent starts of the segment, the host unit that others give way to, their acts in flight.
func others(f *fixture) {
	h, n, l := f.incident()
	h2 := f.host(h.SegmentUUID)
	l2, u2 := f.claim("b", f.admit(death(h2, 0)))
	p, up := f.claim("c", f.admit(process(h, 0, ha.EventStopped)))
	v, uv := f.claim("d", f.admit(vm(h, 0, id())))
	equal(f, "the process unit's host unit", up.HostUnit, l.WorkID)
	equal(f, "the instance unit's host unit", uv.HostUnit, l.WorkID)
	equal(f, "another host unit's host unit", u2.HostUnit, int64(0))
	equal(f, "the host unit's own", f.load(l).HostUnit, int64(0))

	intent := func(seq int64) ha.Change {
		return ha.Write{Entry: ha.Entry{Seq: seq, Kind: ha.EntryIntent, Key: "k", Open: true}}
	}
	f.commit(l, intent(1))
	f.commit(p, intent(1))
	f.commit(v, intent(1), ha.Write{Entry: ha.Entry{Seq: 2, Kind: ha.EntryNote}})
	f.commit(l2, intent(1))
	equal(f, "acts in flight beside the host unit", f.load(l).InFlight, 2)
	f.commit(v, ha.CloseIntent{Key: "k"})
	equal(f, "acts in flight beside the host unit", f.load(l).InFlight, 1)

	now := f.load(l).Now
	f.commit(l, ha.SetRecovery{Recovery: ha.Recovery{StartedAt: ptr(now)}})
	f.commit(p, ha.SetRecovery{Recovery: ha.Recovery{StartedAt: ptr(now)}}) // no host's
	equal(f, "recent starts, seen by the other", f.load(l2).RecentStarts, 1)
	equal(f, "recent starts, its own not counted", f.load(l).RecentStarts, 0)
	f.end(l, n, ha.StatusFinished)
	equal(f, "recent starts, an ended one too", f.load(l2).RecentStarts, 1)
	equal(f, "the process unit's host unit after its end", f.load(p).HostUnit, int64(0))
	l3, _ := f.claim("e", f.admit(death(h, 1000)))
	f.commit(l3, ha.SetRecovery{Recovery: ha.Recovery{StartedAt: ptr(now.Add(-2 * time.Minute))}})
	equal(f, "recent starts, not those of long ago", f.load(l2).RecentStarts, 1)
	elsewhere := f.host(f.segment().UUID)
	l4, _ := f.claim("f", f.admit(death(elsewhere, 0)))
	equal(f, "recent starts of another segment", f.load(l4).RecentStarts, 0)
}
