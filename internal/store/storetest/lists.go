package storetest

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// walk reads a list page after page, by integer and by uuid markers in turn, and returns the uuids in order.
func walk[T any](f *fixture, size int, sort []ha.Sort, page func(ha.Page) ([]T, error), ids func(T) (int64, string)) []string {
	f.Helper()
	var all []string
	marker := ""
	for n := 0; ; n++ {
		got, err := page(ha.Page{Limit: size, Marker: marker, Sort: sort})
		f.must(err)
		for _, o := range got {
			_, uuid := ids(o)
			all = append(all, uuid)
		}
		if len(got) < size {
			return all
		}
		num, uuid := ids(got[len(got)-1])
		if marker = uuid; n%2 == 0 {
			marker = strconv.FormatInt(num, 10)
		}
		if len(all) > 1000 {
			f.Fatal("the pages never end")
		}
	}
}

// pages: every sort key, both ways, page by page, gives the same as the list in one piece, and each row once.
func pages(f *fixture) {
	s := f.segment()
	for i := range 23 {
		h, err := f.CreateHost(f.ctx, ha.Host{
			UUID: id(), Name: fmt.Sprintf("%c-%d", "AaÄb"[i%2], i*7%23), SegmentUUID: s.UUID, Type: []string{"A", "a", "B"}[i%3],
			ControlAttributes: strconv.Itoa(i % 2), Reserved: i%2 == 0,
		})
		f.must(err)
		if i%4 == 0 {
			_, err = f.UpdateHost(f.ctx, s.UUID, h.UUID, ha.HostPatch{OnMaintenance: ptr(true)})
			f.must(err)
		}
	}
	list := func(p ha.Page) ([]ha.Host, error) { return f.Hosts(f.ctx, ha.HostFilter{SegmentUUID: s.UUID}, p) }
	ids := func(h ha.Host) (int64, string) { return h.ID, h.UUID }
	for _, field := range []ha.Field{
		ha.FieldID, ha.FieldUUID, ha.FieldCreatedAt, ha.FieldUpdatedAt, ha.FieldDeletedAt, ha.FieldDeleted, ha.FieldName, ha.FieldType,
		ha.FieldReserved, ha.FieldControl, ha.FieldSegment, ha.FieldOnMaintenance,
	} {
		for _, desc := range []bool{false, true} {
			sort := []ha.Sort{{Field: field, Desc: desc}, {Field: ha.FieldCreatedAt, Desc: !desc}, {Field: ha.FieldID, Desc: desc}}
			whole := walk(f, 1000, sort, list, ids)
			equal(f, "hosts in one piece", len(whole), 23)
			for _, size := range []int{1, 5} {
				if got := walk(f, size, sort, list, ids); !slices.Equal(got, whole) {
					f.Fatalf("by %s (desc %v), %d at a time:\n%v\nin one piece:\n%v", field, desc, size, got, whole)
				}
			}
		}
	}
	byName, err := list(ha.Page{Limit: 100, Sort: []ha.Sort{{Field: ha.FieldName}, {Field: ha.FieldID}}})
	f.must(err)
	if !slices.IsSortedFunc(byName, func(a, b ha.Host) int { return slices.Compare([]byte(a.Name), []byte(b.Name)) }) {
		f.Fatal("names are not sorted by code point")
	}
	none, err := list(ha.Page{Limit: 0, Sort: byID.Sort})
	f.must(err)
	equal(f, "elements of a page of none", len(none), 0)
	_, err = list(ha.Page{Limit: 1, Sort: []ha.Sort{{Field: ha.FieldStatus}, {Field: ha.FieldID}}})
	fails[*ha.InvalidError](f, err)
}

// sortNulls: NULL comes first going up and last going down, also when it is the marker's.
func sortNulls(f *fixture) {
	_, n, l := f.incident()
	var want []string
	for i := range 9 {
		m := ha.VMove{UUID: id(), NotificationUUID: n.UUID, InstanceUUID: id(), InstanceName: "i", Type: ha.MoveEvacuation, Status: ha.MovePending}
		if i >= 5 {
			m.DestHost, m.StartTime, m.Message = ptr(fmt.Sprint("d", i)), ptr(time.Unix(int64(1e9+i), 0).UTC()), ptr("m")
		}
		f.commit(l, ha.PutMove{Move: m})
		want = append(want, m.UUID)
	}
	list := func(p ha.Page) ([]ha.VMove, error) {
		return f.VMoves(f.ctx, ha.VMoveFilter{NotificationUUID: n.UUID}, p)
	}
	ids := func(m ha.VMove) (int64, string) { return m.ID, m.UUID }
	for _, field := range []ha.Field{ha.FieldDestHost, ha.FieldStartTime} {
		for _, size := range []int{1, 2, 100} {
			if got := walk(f, size, []ha.Sort{{Field: field}, {Field: ha.FieldID}}, list, ids); !slices.Equal(got, want) {
				f.Fatalf("up by %s, %d at a time: %v, want %v", field, size, got, want)
			}
			down := slices.Clone(want)
			slices.Reverse(down)
			if got := walk(f, size, []ha.Sort{{Field: field, Desc: true}, {Field: ha.FieldID, Desc: true}}, list, ids); !slices.Equal(got, down) {
				f.Fatalf("down by %s, %d at a time: %v, want %v", field, size, got, down)
			}
		}
	}
	for _, field := range []ha.Field{
		ha.FieldNotification, ha.FieldInstance, ha.FieldInstanceName, ha.FieldSourceHost, ha.FieldEndTime, ha.FieldType, ha.FieldStatus, ha.FieldMessage,
		ha.FieldUpdatedAt, ha.FieldUUID,
	} {
		equal(f, "moves by "+string(field), len(walk(f, 2, []ha.Sort{{Field: field}, {Field: ha.FieldID}}, list, ids)), 9)
	}
	all := func(p ha.Page) ([]ha.Notification, error) {
		return f.Notifications(f.ctx, ha.NotificationFilter{}, p)
	}
	for range 3 {
		f.admit(vm(f.host(f.segment().UUID), 0, id()))
	}
	for _, field := range []ha.Field{
		ha.FieldGeneratedTime, ha.FieldSourceHostUUID, ha.FieldSegment, ha.FieldType, ha.FieldPayload, ha.FieldStatus, ha.FieldMessage, ha.FieldUpdatedAt,
	} {
		for _, desc := range []bool{false, true} {
			sort := []ha.Sort{{Field: field, Desc: desc}, {Field: ha.FieldID, Desc: desc}}
			got := walk(f, 2, sort, all, func(n ha.Notification) (int64, string) { return n.ID, n.UUID })
			equal(f, "notifications by "+string(field), len(got), 4)
		}
	}
	segs := func(p ha.Page) ([]ha.Segment, error) { return f.Segments(f.ctx, ha.SegmentFilter{}, p) }
	for _, field := range []ha.Field{ha.FieldName, ha.FieldServiceType, ha.FieldDescription, ha.FieldRecoveryMethod, ha.FieldEnabled} {
		got := walk(f, 1, []ha.Sort{{Field: field, Desc: true}, {Field: ha.FieldID}}, segs, func(s ha.Segment) (int64, string) { return s.ID, s.UUID })
		equal(f, "segments by "+string(field), len(got), 4)
	}
}

func badMarkers(f *fixture) {
	s := f.segment()
	gone := f.segment()
	f.must(f.DeleteSegment(f.ctx, gone.UUID))
	sort := []ha.Sort{{Field: ha.FieldCreatedAt, Desc: true}, {Field: ha.FieldID, Desc: true}}
	for _, marker := range []string{"0", "-1", "999999", "99999999999999999999", "x", "1x", id(), " ", gone.UUID, fmt.Sprint(gone.ID), "\x00"} {
		_, err := f.Segments(f.ctx, ha.SegmentFilter{}, ha.Page{Limit: 10, Marker: marker, Sort: sort})
		equal(f, "the marker complained of", fails[*ha.MarkerError](f, err).Marker, marker)
	}
	// The marker need not satisfy the filters.
	got, err := f.Segments(f.ctx, ha.SegmentFilter{Enabled: ptr(false)}, ha.Page{Limit: 10, Marker: s.UUID, Sort: sort})
	f.must(err)
	equal(f, "segments", len(got), 0)
}

func filters(f *fixture) {
	s := f.segment()
	off, err := f.CreateSegment(f.ctx, ha.Segment{UUID: id(), Name: "off", ServiceType: "compute", RecoveryMethod: ha.MethodReservedHost})
	f.must(err)
	count := func(filter ha.SegmentFilter, want ...string) {
		f.Helper()
		got, err := f.Segments(f.ctx, filter, byID)
		f.must(err)
		var uuids []string
		for _, s := range got {
			uuids = append(uuids, s.UUID)
		}
		if !slices.Equal(uuids, want) {
			f.Fatalf("segments %v, want %v", uuids, want)
		}
	}
	count(ha.SegmentFilter{}, s.UUID, off.UUID)
	count(ha.SegmentFilter{Enabled: ptr(true)}, s.UUID)
	count(ha.SegmentFilter{Enabled: ptr(false)}, off.UUID)
	count(ha.SegmentFilter{RecoveryMethod: ptr("reserved_host")}, off.UUID)
	count(ha.SegmentFilter{RecoveryMethod: ptr("nonsense")})
	count(ha.SegmentFilter{ServiceType: ptr("COMPUTE")}, s.UUID) // exact
	count(ha.SegmentFilter{ServiceType: ptr("a\x00' OR 1=1 --")})

	h, other := f.host(s.UUID), f.host(off.UUID)
	_, err = f.UpdateHost(f.ctx, off.UUID, other.UUID, ha.HostPatch{Reserved: ptr(true), OnMaintenance: ptr(true), Type: ptr("x")})
	f.must(err)
	for i, c := range []struct {
		filter ha.HostFilter
		want   int
	}{
		{ha.HostFilter{SegmentUUID: s.UUID}, 1}, {ha.HostFilter{SegmentUUID: off.UUID, Reserved: ptr(true)}, 1},
		{ha.HostFilter{SegmentUUID: off.UUID, Reserved: ptr(false)}, 0}, {ha.HostFilter{SegmentUUID: off.UUID, OnMaintenance: ptr(true)}, 1},
		{ha.HostFilter{SegmentUUID: off.UUID, Type: ptr("COMPUTE")}, 0}, {ha.HostFilter{SegmentUUID: off.UUID, Type: ptr("x")}, 1},
	} {
		got, err := f.Hosts(f.ctx, c.filter, byID)
		f.must(err)
		equal(f, fmt.Sprint("hosts of filter ", i), len(got), c.want)
	}

	n := f.admit(death(h, 0))
	f.admit(vm(h, 60, id()))
	at := func(s int) *time.Time { return ptr(death(h, s).GeneratedTime) }
	for i, c := range []struct {
		filter ha.NotificationFilter
		want   int
	}{
		{ha.NotificationFilter{}, 2}, {ha.NotificationFilter{SourceHostUUID: &h.UUID}, 2}, {ha.NotificationFilter{SourceHostUUID: &other.UUID}, 0},
		{ha.NotificationFilter{Type: ptr("VM")}, 1}, {ha.NotificationFilter{Type: ptr("vm")}, 0}, {ha.NotificationFilter{Status: ptr("new")}, 2},
		{ha.NotificationFilter{Status: ptr("finished")}, 0}, {ha.NotificationFilter{GeneratedSince: at(60)}, 1},
		{ha.NotificationFilter{GeneratedSince: at(0)}, 2}, {ha.NotificationFilter{GeneratedSince: at(61)}, 0},
	} {
		got, err := f.Notifications(f.ctx, c.filter, byID)
		f.must(err)
		equal(f, fmt.Sprint("notifications of filter ", i), len(got), c.want)
	}
	l, _ := f.claim("a", n)
	f.commit(l, ha.PutMove{Move: ha.VMove{UUID: id(), InstanceUUID: id(), Type: ha.MoveEvacuation, Status: ha.MoveOngoing}})
	for i, c := range []struct {
		filter ha.VMoveFilter
		want   int
	}{
		{ha.VMoveFilter{NotificationUUID: n.UUID}, 1}, {ha.VMoveFilter{NotificationUUID: id()}, 0},
		{ha.VMoveFilter{NotificationUUID: n.UUID, Type: ptr("evacuation"), Status: ptr("ongoing")}, 1},
		{ha.VMoveFilter{NotificationUUID: n.UUID, Status: ptr("failed")}, 0}, {ha.VMoveFilter{NotificationUUID: n.UUID, Type: ptr("migration")}, 0},
	} {
		got, err := f.VMoves(f.ctx, c.filter, byID)
		f.must(err)
		equal(f, fmt.Sprint("vmoves of filter ", i), len(got), c.want)
	}
}
