package storetest

import (
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

func segments(f *fixture) {
	want := ha.Segment{
		UUID: id(), Name: "Gang Süd 1", ServiceType: "COMPUTE", RecoveryMethod: ha.MethodRHPriority, Description: ptr("zwei\nZeilen"),
		TrustReports: ptr(true),
	}
	made, err := f.CreateSegment(f.ctx, want)
	f.must(err)
	if made.ID == 0 || made.CreatedAt.IsZero() || made.UpdatedAt != nil {
		f.Fatalf("created segment has id %d, created_at %v, updated_at %v", made.ID, made.CreatedAt, made.UpdatedAt)
	}
	got, err := f.Segment(f.ctx, want.UUID)
	f.must(err)
	if d := cmp.Diff(made, got); d != "" {
		f.Fatalf("segment read again differs:\n%s", d)
	}
	want.ID, want.Stamps = got.ID, got.Stamps
	if d := cmp.Diff(want, got); d != "" {
		f.Fatalf("segment differs from what was stored:\n%s", d)
	}

	same, err := f.UpdateSegment(f.ctx, want.UUID, ha.SegmentPatch{Name: ptr(want.Name), Description: ptr(ptr("zwei\nZeilen"))})
	f.must(err)
	if same.UpdatedAt != nil {
		f.Fatal("an update that changes nothing set updated_at")
	}
	_, err = f.UpdateSegment(f.ctx, want.UUID, ha.SegmentPatch{
		Name: ptr("rack"), ServiceType: ptr("other"), Description: ptr((*string)(nil)), RecoveryMethod: ptr(ha.MethodAuto), Enabled: ptr(true),
	})
	f.must(err)
	got, err = f.Segment(f.ctx, want.UUID)
	f.must(err)
	if got.Name != "rack" || got.ServiceType != "other" || got.Description != nil || got.RecoveryMethod != ha.MethodAuto || !got.Enabled || got.UpdatedAt == nil {
		f.Fatalf("updated segment is %+v", got)
	}
	if got.TrustReports == nil {
		f.Fatal("an update lost what it does not know of")
	}

	h := f.host(want.UUID)
	f.must(f.DeleteSegment(f.ctx, want.UUID))
	_, err = f.Segment(f.ctx, want.UUID)
	fails[*ha.NotFoundError](f, err)
	_, err = f.Host(f.ctx, want.UUID, h.UUID)
	fails[*ha.NotFoundError](f, err)
	_, err = f.CreateHost(f.ctx, ha.Host{UUID: id(), Name: "x", SegmentUUID: want.UUID})
	equal(f, "what is missing", fails[*ha.NotFoundError](f, err).Kind, ha.KindSegment)
	fails[*ha.NotFoundError](f, f.DeleteSegment(f.ctx, want.UUID))
}

func segmentNames(f *fixture) {
	create := func(name string) (ha.Segment, error) {
		return f.CreateSegment(f.ctx, ha.Segment{UUID: id(), Name: name, ServiceType: "C", RecoveryMethod: ha.MethodAuto})
	}
	first, err := create("Größe-Σ")
	f.must(err)
	for _, name := range []string{"Größe-Σ", "gRÖßE-ς"} {
		_, err := create(name)
		e := fails[*ha.ExistsError](f, err)
		if e.Kind != ha.KindSegment || e.Name != name {
			f.Fatalf("clash is %+v, want one of segment %q", e, name)
		}
	}
	second, err := create("other")
	f.must(err)
	_, err = f.UpdateSegment(f.ctx, second.UUID, ha.SegmentPatch{Name: ptr("GRÖßE-σ")})
	fails[*ha.ExistsError](f, err)
	got, err := f.UpdateSegment(f.ctx, first.UUID, ha.SegmentPatch{Name: ptr("GRÖßE-Σ")})
	f.must(err)
	equal(f, "the spelling", got.Name, "GRÖßE-Σ")

	f.must(f.DeleteSegment(f.ctx, first.UUID))
	again, err := create("Größe-Σ")
	f.must(err)
	f.must(f.DeleteSegment(f.ctx, again.UUID)) // two deleted ones of a name are no clash
	_, err = create("größe-σ")
	f.must(err)
}

func segmentInUse(f *fixture) {
	s := f.segment()
	h := f.host(s.UUID)
	n := f.admit(death(h, 0))
	_, err := f.UpdateSegment(f.ctx, s.UUID, ha.SegmentPatch{Enabled: ptr(false)})
	equal(f, "who uses the segment", fails[*ha.InUseError](f, err).By, n.UUID)
	equal(f, "who uses the segment", fails[*ha.InUseError](f, f.DeleteSegment(f.ctx, s.UUID)).By, n.UUID)
	f.host(s.UUID) // creating a host in a busy segment is allowed

	l, _ := f.claim("a", n)
	f.commit(l, ha.SetNotification{UUID: n.UUID, Status: ha.StatusRunning}, ha.SetNotification{UUID: n.UUID, Status: ha.StatusError})
	fails[*ha.InUseError](f, f.DeleteSegment(f.ctx, s.UUID))
	f.commit(l, ha.SetNotification{UUID: n.UUID, Status: ha.StatusFailed})
	_, err = f.UpdateSegment(f.ctx, s.UUID, ha.SegmentPatch{Enabled: ptr(false)})
	f.must(err)
	f.must(f.DeleteSegment(f.ctx, s.UUID))
}

func hosts(f *fixture) {
	s := f.segment()
	want := ha.Host{UUID: id(), Name: "Cmp Ä1", SegmentUUID: s.UUID, Type: "COMPUTE", ControlAttributes: "SSH\nfoo", Reserved: true, OnMaintenance: true}
	made, err := f.CreateHost(f.ctx, want)
	f.must(err)
	got, err := f.Host(f.ctx, s.UUID, want.UUID)
	f.must(err)
	if d := cmp.Diff(made, got); d != "" {
		f.Fatalf("host read again differs:\n%s", d)
	}
	want.ID, want.Stamps = got.ID, got.Stamps
	if d := cmp.Diff(want, got); d != "" || got.ID == 0 || got.CreatedAt.IsZero() || got.UpdatedAt != nil {
		f.Fatalf("host %+v differs from what was stored:\n%s", got, d)
	}
	same, err := f.UpdateHost(f.ctx, s.UUID, want.UUID, ha.HostPatch{Name: ptr(want.Name), Reserved: ptr(true), OnMaintenance: ptr(true)})
	f.must(err)
	if same.UpdatedAt != nil {
		f.Fatal("an update that changes nothing set updated_at")
	}
	_, err = f.UpdateHost(f.ctx, s.UUID, want.UUID, ha.HostPatch{
		Name: ptr("n"), Type: ptr("T"), ControlAttributes: ptr("none"), Reserved: ptr(false), OnMaintenance: ptr(false),
	})
	f.must(err)
	got, err = f.Host(f.ctx, s.UUID, want.UUID)
	f.must(err)
	if got.Name != "n" || got.Type != "T" || got.ControlAttributes != "none" || got.Reserved || got.OnMaintenance || got.UpdatedAt == nil {
		f.Fatalf("updated host is %+v", got)
	}
	f.must(f.DeleteHost(f.ctx, s.UUID, want.UUID))
	_, err = f.Host(f.ctx, s.UUID, want.UUID)
	fails[*ha.NotFoundError](f, err)
	_, err = f.HostByName(f.ctx, "n")
	fails[*ha.NotFoundError](f, err)
}

func hostNames(f *fixture) {
	s, other := f.segment(), f.segment()
	create := func(segment, name string) (ha.Host, error) {
		return f.CreateHost(f.ctx, ha.Host{UUID: id(), Name: name, SegmentUUID: segment, Type: "C", ControlAttributes: "x"})
	}
	h, err := create(s.UUID, "Cmp-ÄÖ")
	f.must(err)
	_, err = create(other.UUID, "cmp-äö")
	equal(f, "the clash", *fails[*ha.ExistsError](f, err), ha.ExistsError{Kind: ha.KindHost, Name: "cmp-äö"})
	got, err := f.HostByName(f.ctx, "CMP-äÖ")
	f.must(err)
	equal(f, "the host's spelling", got.Name, "Cmp-ÄÖ")
	if _, err = create(s.UUID, "cmp-ao"); err != nil {
		f.Fatalf("accents make another name: %v", err)
	}
	_, err = f.UpdateHost(f.ctx, s.UUID, got.UUID, ha.HostPatch{Name: ptr("CMP-AO")})
	fails[*ha.ExistsError](f, err)
	f.must(f.DeleteHost(f.ctx, s.UUID, h.UUID))
	_, err = create(other.UUID, "cmp-äö")
	f.must(err)
	name := strings.Repeat("長", 255)
	h, err = create(s.UUID, name)
	f.must(err)
	equal(f, "a long name", h.Name, name)
}

func hostInUse(f *fixture) {
	s := f.segment()
	h, neighbour := f.host(s.UUID), f.host(s.UUID)
	n := f.admit(vm(h, 0, id()))
	_, err := f.UpdateHost(f.ctx, s.UUID, h.UUID, ha.HostPatch{OnMaintenance: ptr(true)})
	equal(f, "who uses the host", fails[*ha.InUseError](f, err).By, n.UUID)
	_, err = f.UpdateHost(f.ctx, s.UUID, h.UUID, ha.HostPatch{Name: ptr(h.Name)})
	fails[*ha.InUseError](f, err) // also when nothing would change
	equal(f, "who uses the host", fails[*ha.InUseError](f, f.DeleteHost(f.ctx, s.UUID, h.UUID)).By, n.UUID)

	reserved, err := f.UpdateHost(f.ctx, s.UUID, neighbour.UUID, ha.HostPatch{Reserved: ptr(true)})
	f.must(err) // a neighbour's incident does not matter
	l, _ := f.claim("a", n)
	f.commit(l, ha.Reserve{HostUUID: reserved.UUID})
	_, err = f.UpdateHost(f.ctx, s.UUID, reserved.UUID, ha.HostPatch{Reserved: ptr(false)})
	equal(f, "who uses the reserved host", fails[*ha.InUseError](f, err).By, n.UUID)
	fails[*ha.InUseError](f, f.DeleteHost(f.ctx, s.UUID, reserved.UUID))
	f.end(l, n, ha.StatusFinished)
	f.must(f.DeleteHost(f.ctx, s.UUID, reserved.UUID))
	f.must(f.DeleteHost(f.ctx, s.UUID, h.UUID))
}

// hostMaintenance is what a PUT does to claims, and what claims keep it from (RECOVERY section 7, rule A4).
func hostMaintenance(f *fixture) {
	h, n, l := f.incident()
	claim := func(what ha.What) ha.Change {
		return ha.PutClaim{Claim: ha.Claim{HostUUID: h.UUID, What: what, Reason: ha.ReasonRecovery, Prior: "false"}}
	}
	f.commit(l, ha.SetHost{UUID: h.UUID, OnMaintenance: ptr(true)}, claim(ha.WhatMaintenance), claim(ha.WhatForcedDown))
	f.end(l, n, ha.StatusFinished)

	// Unchanged, it stays salvor's: reports are admitted.
	_, err := f.UpdateHost(f.ctx, h.SegmentUUID, h.UUID, ha.HostPatch{OnMaintenance: ptr(true), Type: ptr("X")})
	f.must(err)
	back := f.admit(start(h, 500))
	l, u := f.claim("a", back)
	equal(f, "claims after a PUT that leaves the flag", len(u.Claims), 2)
	f.end(l, back, ha.StatusFinished)

	// Cleared, all claims to it go, and what remains is taken back.
	_, err = f.UpdateHost(f.ctx, h.SegmentUUID, h.UUID, ha.HostPatch{OnMaintenance: ptr(false)})
	f.must(err)
	p := f.poll("b")
	if len(p.Units) != 1 || p.Units[0].Key != ha.UnitTakeBack.Key(h.UUID) || !p.Units[0].Due {
		f.Fatalf("units after maintenance was cleared: %+v, want the take-back, due", p.Units)
	}
	tb := p.Units[0]
	l, u = f.takeOver("b", ha.Lease{WorkID: tb.WorkID, Epoch: tb.Epoch, Beat: tb.Beat})
	if len(u.Claims) != 1 || u.Claims[0].What != ha.WhatForcedDown || u.Host.OnMaintenance {
		f.Fatalf("claims after maintenance was cleared: %+v", u.Claims)
	}
	equal(f, "the take-back's segment", u.Segment.UUID, h.SegmentUUID)

	// Set by the operator, it is the operator's.
	_, err = f.UpdateHost(f.ctx, h.SegmentUUID, h.UUID, ha.HostPatch{OnMaintenance: ptr(true)})
	f.must(err)
	_, err = f.Admit(f.ctx, death(h, 1000), interval)
	fails[*ha.MaintenanceError](f, err)
	u = f.load(l)
	if !u.Peers[0].Operator || u.Signal == 0 {
		f.Fatalf("peers %+v, want the operator's maintenance", u.Peers)
	}
	// Cleared again, an active take-back is woken.
	before := u.Signal
	_, err = f.UpdateHost(f.ctx, h.SegmentUUID, h.UUID, ha.HostPatch{OnMaintenance: ptr(false)})
	f.must(err)
	if b := f.commit(l); b.Signal == before {
		f.Fatal("clearing maintenance did not signal the take-back")
	}
	// While salvor holds forced_down, the host keeps its name: by that it is taken back (invariant I9). It may be deleted.
	_, err = f.UpdateHost(f.ctx, h.SegmentUUID, h.UUID, ha.HostPatch{Name: ptr("another-name")})
	fails[*ha.ConflictError](f, err)
	before = f.load(l).Signal
	f.must(f.DeleteHost(f.ctx, h.SegmentUUID, h.UUID))
	if u := f.load(l); u.Signal == before || !u.HostDeleted || len(u.Claims) == 0 {
		f.Fatalf("the take-back of the deleted host: %+v", u)
	}
}

func unknown(f *fixture) {
	s := f.segment()
	for _, uuid := range []string{id(), "7", "", "'; --", "ü\x00\xff"} {
		_, err := f.Segment(f.ctx, uuid)
		equal(f, "what is missing", fails[*ha.NotFoundError](f, err).Kind, ha.KindSegment)
		_, err = f.UpdateSegment(f.ctx, uuid, ha.SegmentPatch{Name: ptr("x")})
		fails[*ha.NotFoundError](f, err)
		fails[*ha.NotFoundError](f, f.DeleteSegment(f.ctx, uuid))
		_, err = f.Host(f.ctx, s.UUID, uuid)
		equal(f, "where it is missing", fails[*ha.NotFoundError](f, err).Under, s.UUID)
		_, err = f.HostByName(f.ctx, uuid)
		fails[*ha.NotFoundError](f, err)
		_, err = f.UpdateHost(f.ctx, uuid, uuid, ha.HostPatch{})
		equal(f, "what is missing", fails[*ha.NotFoundError](f, err).Kind, ha.KindHost)
		fails[*ha.NotFoundError](f, f.DeleteHost(f.ctx, s.UUID, uuid))
		_, err = f.Notification(f.ctx, uuid)
		fails[*ha.NotFoundError](f, err)
		_, err = f.VMove(f.ctx, uuid, uuid)
		fails[*ha.NotFoundError](f, err)
		_, err = f.Recovery(f.ctx, uuid)
		equal(f, "what is missing", fails[*ha.NotFoundError](f, err).Kind, ha.KindRecovery)
		fails[*ha.NotFoundError](f, f.Wish(f.ctx, uuid, ha.Wish{Kind: ha.WishCancel, By: "x"}))
		_, err = f.Admit(f.ctx, report(ha.Host{Name: uuid}, ha.TypeVM, 0, ha.Payload{}), interval)
		equal(f, "what is missing", *fails[*ha.NotFoundError](f, err), ha.NotFoundError{Kind: ha.KindHost, ID: uuid})
		entries, err := f.Journal(f.ctx, uuid, 0, 10)
		f.must(err)
		equal(f, "journal entries", len(entries), 0)
	}
	other := f.host(f.segment().UUID)
	_, err := f.Host(f.ctx, s.UUID, other.UUID)
	fails[*ha.NotFoundError](f, err) // of another segment
}

// lostCreate: who creates again under the same uuid gets what is there.
func lostCreate(f *fixture) {
	s := f.segment()
	again, err := f.CreateSegment(f.ctx, ha.Segment{UUID: s.UUID, Name: s.Name, ServiceType: s.ServiceType, RecoveryMethod: s.RecoveryMethod})
	f.must(err)
	equal(f, "the segment's id", again.ID, s.ID)
	h := f.host(s.UUID)
	hostAgain, err := f.CreateHost(f.ctx, ha.Host{UUID: h.UUID, Name: h.Name, SegmentUUID: s.UUID, Type: h.Type})
	f.must(err)
	equal(f, "the host's id", hostAgain.ID, h.ID)
}
