package storetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

func admitStores(f *fixture) {
	s := f.segment()
	h := f.host(s.UUID)
	r := death(ha.Host{Name: "CMP" + h.Name[3:]}, 0) // any case
	n := f.admit(r)
	want := ha.Notification{
		Stamps: n.Stamps, ID: n.ID, UUID: r.UUID, GeneratedTime: r.GeneratedTime, SourceHostUUID: h.UUID, SegmentUUID: &s.UUID,
		Type: ha.TypeComputeHost, Payload: r.Payload, Status: ha.StatusNew,
	}
	if d := cmp.Diff(want, n); d != "" || n.ID == 0 || n.CreatedAt.IsZero() || n.UpdatedAt != nil {
		f.Fatalf("admitted notification differs:\n%s", d)
	}
	got, err := f.Notification(f.ctx, n.UUID)
	f.must(err)
	if d := cmp.Diff(n, got); d != "" {
		f.Fatalf("notification read again differs:\n%s", d)
	}
	odd := ha.Payload{"event": "LIFECYCLE", "instance_uuid": id(), "vir_domain_event": "STOPPED_FAILED", `we"ird k\ey`: "v'al \\ ? ü 🐳 \n"}
	n = f.admit(report(h, ha.TypeVM, 0, odd))
	got, err = f.Notification(f.ctx, n.UUID)
	f.must(err)
	if !got.Payload.Equal(odd) {
		f.Fatalf("payload came back as %q, want %q", got.Payload, odd)
	}
}

// admitRules are rules A2 and A3, case by case. Times are generated_time in seconds.
func admitRules(f *fixture) {
	type step struct {
		report ha.Report
		twin   string // the duplicate's twin by step name, "" when it is admitted
	}
	proc := func(h ha.Host, at int, name, event string) ha.Report {
		return report(h, ha.TypeProcess, at, ha.Payload{ha.KeyEvent: event, ha.KeyProcessName: name})
	}
	confirmed := func(h ha.Host, at int) ha.Report {
		r := death(h, at)
		r.Payload[ha.KeyConfirmedBy] = "alice"
		return r
	}
	instance := id()
	for _, c := range []struct {
		name  string
		ended bool // the first is ended, finished, before the others come
		steps func(h ha.Host) map[string]step
		order []string
	}{
		{name: "A2: a second death of an open one, whatever it says", order: []string{"a", "b", "c"}, steps: func(h ha.Host) map[string]step {
			other := death(h, 9000)
			other.Payload[ha.KeyClusterStatus] = "ONLINE"
			return map[string]step{"a": {death(h, 0), ""}, "b": {other, "a"}, "c": {death(h, 1), "a"}}
		}},
		{name: "A2: the first that brings NORMAL", order: []string{"a", "b", "c"}, steps: func(h ha.Host) map[string]step {
			return map[string]step{"a": {unsureDeath(h, 0), ""}, "b": {death(h, 10), ""}, "c": {death(h, 20), "b"}}
		}},
		{name: "A2: an operator's word", order: []string{"a", "b", "c"}, steps: func(h ha.Host) map[string]step {
			return map[string]step{"a": {death(h, 0), ""}, "b": {confirmed(h, 10), ""}, "c": {confirmed(h, 20), "b"}}
		}},
		{name: "A2: after a STARTED that came later", order: []string{"a", "s", "b", "c"}, steps: func(h ha.Host) map[string]step {
			return map[string]step{"a": {death(h, 0), ""}, "s": {start(h, 30), ""}, "b": {death(h, 60), ""}, "c": {death(h, 61), "b"}}
		}},
		{name: "A3: a resend of an ended one", ended: true, order: []string{"a", "b", "c"}, steps: func(h ha.Host) map[string]step {
			return map[string]step{"a": {death(h, 0), ""}, "b": {death(h, 5), "a"}, "c": {death(h, 6), ""}}
		}},
		{name: "A3: an older one that comes late", ended: true, order: []string{"a", "b"}, steps: func(h ha.Host) map[string]step {
			return map[string]step{"a": {death(h, 800), ""}, "b": {death(h, 0), "a"}}
		}},
		{name: "A3: one much older than an ended twin, whose clock was ahead", ended: true, order: []string{"a", "b"}, steps: func(h ha.Host) map[string]step {
			return map[string]step{"a": {death(h, 1000), ""}, "b": {death(h, 0), ""}}
		}},
		{name: "A3: a second death within the interval of a finished one", ended: true, order: []string{"a", "b"}, steps: func(h ha.Host) map[string]step {
			return map[string]step{"a": {death(h, 0), ""}, "b": {death(h, 100), ""}}
		}},
		{name: "A3: an opposite event between", ended: true, order: []string{"a", "s", "b"}, steps: func(h ha.Host) map[string]step {
			return map[string]step{"a": {death(h, 0), ""}, "s": {start(h, 2), ""}, "b": {death(h, 4), ""}}
		}},
		{name: "A3: processes, by interval and name", order: []string{"a", "b", "c", "d", "e"}, steps: func(h ha.Host) map[string]step {
			return map[string]step{
				"a": {proc(h, 0, "nova-compute", ha.EventStopped), ""}, "b": {proc(h, 179, "nova-compute", ha.EventStopped), "a"},
				"c": {proc(h, 179, "libvirtd", ha.EventStopped), ""}, "d": {proc(h, 180, "nova-compute", ha.EventStopped), ""},
				"e": {proc(h, 181, "nova-compute", ha.EventStarted), ""},
			}
		}},
		{name: "A3: an instance's events", order: []string{"a", "b", "c", "d"}, steps: func(h ha.Host) map[string]step {
			return map[string]step{
				"a": {vm(h, 0, instance), ""}, "b": {vm(h, 100, instance), "a"}, "c": {vm(h, 100, id()), ""}, "d": {vm(h, 181, instance), ""},
			}
		}},
		{name: "A3: a host's events are no process's", order: []string{"a", "b"}, steps: func(h ha.Host) map[string]step {
			return map[string]step{"a": {proc(h, 0, "x", ha.EventStopped), ""}, "b": {death(h, 0), ""}}
		}},
	} {
		h := f.host(f.segment().UUID)
		steps, made := c.steps(h), map[string]ha.Notification{}
		for i, name := range c.order {
			s := steps[name]
			n, err := f.Admit(f.ctx, s.report, interval)
			if s.twin != "" {
				var dup *ha.DuplicateError
				if !errors.As(err, &dup) || dup.Twin != made[s.twin].UUID || dup.Host != h.Name {
					f.Fatalf("%s: report %s: %v, want a duplicate of %s", c.name, name, err, s.twin)
				}
				continue
			}
			if err != nil {
				f.Fatalf("%s: report %s: %v, want it admitted", c.name, name, err)
			}
			made[name] = n
			if i == 0 && c.ended {
				l, _ := f.claim("a", n)
				f.end(l, n, ha.StatusFinished)
			}
		}
	}
	h := f.host(f.segment().UUID)
	dead, err := f.Admit(f.ctx, death(h, 0), interval)
	f.must(err)
	back, err := f.Admit(f.ctx, start(h, 30), interval)
	f.must(err)
	l, _ := f.claim("a", dead)
	f.commit(l, ha.SetNotification{UUID: back.UUID, Status: ha.StatusFinished})
	again, err := f.Admit(f.ctx, death(h, 1000), interval) // A2: the host was back, be it longer ago than the interval
	f.must(err)
	var dup *ha.DuplicateError
	if err := errOf(f.Admit(f.ctx, death(h, 1001), interval)); !errors.As(err, &dup) || dup.Twin != again.UUID {
		f.Fatalf("a death reported twice after the host was back: %v, want a duplicate of the first", err)
	}
	h = f.host(f.segment().UUID)
	f.must(errOf(f.Admit(f.ctx, vm(h, 0, instance), 0)))
	fails[*ha.DuplicateError](f, errOf(f.Admit(f.ctx, vm(h, 0, instance), 0))) // an interval of 0: same or newer twins only
	f.must(errOf(f.Admit(f.ctx, vm(h, 1, instance), 0)))
}

func errOf(_ ha.Notification, err error) error { return err }

// admitMaintenance is rule A4.
func admitMaintenance(f *fixture) {
	h, n, l := f.incident()
	f.commit(l, ha.SetHost{UUID: h.UUID, OnMaintenance: ptr(true)},
		ha.PutClaim{Claim: ha.Claim{HostUUID: h.UUID, What: ha.WhatMaintenance, Reason: ha.ReasonRecovery, Prior: "false"}})
	f.admit(start(h, 10)) // salvor's own maintenance refuses nothing
	f.load(l)
	f.commit(l, ha.PutClaim{Claim: ha.Claim{HostUUID: h.UUID, What: ha.WhatMaintenance, Reason: ha.ReasonOperator}})
	for _, r := range []ha.Report{start(h, 500), process(h, 500, ha.EventStopped), vm(h, 500, id())} {
		e := fails[*ha.MaintenanceError](f, errOf(f.Admit(f.ctx, r, interval)))
		equal(f, "the refusal", *e, ha.MaintenanceError{Host: h.Name, Type: r.Type})
	}
	_ = n
	imported := ha.Host{UUID: id(), Name: "imported", SegmentUUID: h.SegmentUUID, Type: "C", OnMaintenance: true}
	_, err := f.CreateHost(f.ctx, imported)
	f.must(err)
	fails[*ha.MaintenanceError](f, errOf(f.Admit(f.ctx, death(imported, 0), interval)))
}

// admitSignals: an admitted report wakes the unit that handles its kind, and a STARTED the host's take-back.
func admitSignals(f *fixture) {
	h, n, l := f.incident()
	before := f.commit(l, ha.StartUnit{Kind: ha.UnitTakeBack, HostUUID: h.UUID, SegmentUUID: h.SegmentUUID}).Signal
	tb := f.poll("a").Units[0]
	back, u := f.takeOver("b", ha.Lease{WorkID: tb.WorkID, Epoch: tb.Epoch, Beat: tb.Beat})
	f.commit(back, ha.Park{After: 1e12})
	f.admit(start(h, 10))
	if b := f.commit(l); b.Signal == before {
		f.Fatal("the host's unit was not signalled")
	}
	f.load(l)
	for _, s := range f.poll("x").Units {
		if s.WorkID == u.ID && !s.Due {
			f.Fatal("the parked take-back is not due after a STARTED")
		}
	}
	before = f.load(l).Signal
	fails[*ha.DuplicateError](f, errOf(f.Admit(f.ctx, start(h, 10), interval)))
	f.admit(vm(h, 10, id())) // another unit's business
	equal(f, "the signal after a duplicate and another's report", f.commit(l).Signal, before)
	_ = n
	// A unit that no report has begun hears of the first one.
	other := f.host(h.SegmentUUID)
	f.commit(l, ha.StartUnit{Kind: ha.UnitHost, HostUUID: other.UUID, SegmentUUID: other.SegmentUUID})
	for _, s := range f.poll("a").Units {
		if s.Key != ha.UnitHost.Key(other.UUID) {
			continue
		}
		begun, _ := f.takeOver("b", ha.Lease{WorkID: s.WorkID, Epoch: s.Epoch, Beat: s.Beat})
		before := f.commit(begun).Signal
		f.admit(death(other, 0))
		if f.commit(begun).Signal == before {
			f.Fatal("the unit that no report has begun was not signalled")
		}
		return
	}
	f.Fatal("the unit was not begun")
}

// admitOnce is invariant I7: of 20 identical reports at once, through three processes, one is admitted.
func admitOnce(f *fixture) {
	backends := []Backend{f.Backend, f.open(f.T), f.open(f.T)}
	s := f.segment()
	for round := range 5 {
		h := f.host(s.UUID)
		makers := []func() ha.Report{
			func() ha.Report { return death(h, 0) },
			func() ha.Report { return process(h, 0, ha.EventStopped) },
		}
		for _, make := range makers {
			var wg sync.WaitGroup
			var mu sync.Mutex
			admitted, duplicates := 0, 0
			var others []error
			for i := range 20 {
				wg.Go(func() {
					_, err := backends[i%3].Admit(f.ctx, make(), interval)
					mu.Lock()
					defer mu.Unlock()
					var dup *ha.DuplicateError
					switch {
					case err == nil:
						admitted++
					case errors.As(err, &dup):
						duplicates++
					default:
						others = append(others, err)
					}
				})
			}
			wg.Wait()
			if admitted != 1 || duplicates != 19 {
				f.Fatalf("round %d: %d admitted, %d duplicates, others: %v; want 1 and 19", round, admitted, duplicates, others)
			}
		}
	}
	all, err := f.Notifications(f.ctx, ha.NotificationFilter{}, byID)
	f.must(err)
	equal(f, "notifications stored", len(all), 10)
}

// admitAgain: a report whose uuid is stored is the caller's own, whatever has become of it or of the host.
func admitAgain(f *fixture) {
	h := f.host(f.segment().UUID)
	r := death(h, 0)
	n := f.admit(r)
	again := f.admit(r)
	equal(f, "the notification admitted again", again.ID, n.ID)
	l, _ := f.claim("a", n)
	f.end(l, n, ha.StatusFinished)
	again = f.admit(r)
	equal(f, "its status", again.Status, ha.StatusFinished)
	_, err := f.UpdateHost(f.ctx, h.SegmentUUID, h.UUID, ha.HostPatch{OnMaintenance: ptr(true)})
	f.must(err)
	equal(f, "the notification admitted again, on maintenance", f.admit(r).ID, n.ID)
	equal(f, "fresh work", len(f.poll("x").Fresh), 0)
}

// admitWhileDeleted: a host is deleted while its death is reported; either the report finds no host, or the host is in use.
func admitWhileDeleted(f *fixture) {
	s := f.segment()
	other := f.open(f.T)
	for range 10 {
		h := f.host(s.UUID)
		var wg sync.WaitGroup
		var admitErr, deleteErr error
		wg.Go(func() { _, admitErr = f.Admit(f.ctx, death(h, 0), interval) })
		wg.Go(func() { deleteErr = other.DeleteHost(f.ctx, s.UUID, h.UUID) })
		wg.Wait()
		var missing *ha.NotFoundError
		var inUse *ha.InUseError
		refused := errors.As(admitErr, &missing) && deleteErr == nil
		kept := admitErr == nil && errors.As(deleteErr, &inUse)
		if !refused && !kept {
			f.Fatalf("admit: %v, delete: %v; want one of them refused", admitErr, fmt.Sprint(deleteErr))
		}
	}
}
