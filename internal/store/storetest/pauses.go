package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/salvor-ha/salvor/internal/ha"
)

// pauses: set, replaced, ended and running out; a unit is loaded with the one that stands over it, and its owner is told.
func pauses(f *fixture) {
	h, _, l := f.incident()
	other := f.segment()
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	all := ha.Pause{By: "alice", Reason: "power work", Until: &until}
	own := ha.Pause{Segment: h.SegmentUUID, By: "bob", Reason: "rack moves"}
	stand := func(want ...ha.Pause) {
		f.Helper()
		got, err := f.Backend.Pauses(f.ctx)
		f.must(err)
		if d := cmp.Diff(want, got, cmpopts.IgnoreFields(ha.Pause{}, "Since"), cmpopts.EquateEmpty()); d != "" {
			f.Fatalf("the pauses that stand differ:\n%s", d)
		}
		for _, p := range got {
			if p.Since.IsZero() {
				f.Fatal("a pause does not say since when")
			}
		}
	}
	loaded := func(by string) {
		f.Helper()
		if p := f.load(l).Segment.Pause; by == "" && p != nil || by != "" && (p == nil || p.By != by) {
			f.Fatalf("the unit is loaded with pause %+v, want that of %q", p, by)
		}
	}
	signal := func() int64 { return f.commit(l).Signal }

	stand()
	loaded("")
	before := signal()
	f.must(f.SetPause(f.ctx, own))
	equal(f, "the signal after a pause", signal(), before+1)
	loaded("bob")
	f.must(f.SetPause(f.ctx, all))
	stand(all, own)
	loaded("alice")
	own.Reason = "it still moves"
	f.must(f.SetPause(f.ctx, own))
	stand(all, own)
	f.must(f.EndPause(f.ctx, ""))
	loaded("bob")
	f.must(f.SetPause(f.ctx, ha.Pause{Segment: other.UUID, By: "carol"}))
	equal(f, "signals: another segment's pause is not this unit's", signal(), before+4)
	f.must(f.EndPause(f.ctx, other.UUID))
	f.must(f.EndPause(f.ctx, own.Segment))
	loaded("")
	equal(f, "the signal after the end", signal(), before+5)
	equal(f, "what is missing", fails[*ha.NotFoundError](f, f.EndPause(f.ctx, own.Segment)).Kind, ha.KindPause)
	equal(f, "what is missing", fails[*ha.NotFoundError](f, f.SetPause(f.ctx, ha.Pause{Segment: id(), By: "x"})).Kind, ha.KindSegment)

	past := time.Now().Add(-time.Hour)
	own.Until = &past
	f.must(f.SetPause(f.ctx, own))
	stand()
	loaded("")
}

// engineStates: who beat, how long ago, and what each holds; one that has left is not there.
func engineStates(f *fixture) {
	_, _, l := f.incident()
	began := time.Now().UTC().Truncate(time.Microsecond)
	f.must(f.BeatEngine(f.ctx, ha.Engine{Name: l.Owner, Host: "h1", Version: "1", StartedAt: began, Beat: 1}))
	f.must(f.BeatEngine(f.ctx, ha.Engine{Name: "idle", Host: "h2", Version: "2", StartedAt: began, Beat: 1}))
	got, err := f.EngineStates(f.ctx)
	f.must(err)
	unit := f.load(l)
	byName := map[string]ha.EngineState{}
	for _, e := range got {
		byName[e.Name] = e
		if e.Idle < 0 || e.Idle > time.Minute {
			f.Fatalf("%s beat %v ago", e.Name, e.Idle)
		}
	}
	if d := cmp.Diff([]string{unit.Key}, byName[l.Owner].Units); d != "" || len(byName) != 2 || len(byName["idle"].Units) != 0 || byName["idle"].Version != "2" {
		f.Fatalf("engines are %+v", got)
	}
	f.must(f.LeaveEngine(f.ctx, "idle"))
	f.must(f.LeaveEngine(f.ctx, "idle"))
	list, err := f.Engines(f.ctx)
	f.must(err)
	if len(list) != 1 || list[0].Name != l.Owner {
		f.Fatalf("after one has left: %+v", list)
	}
}
