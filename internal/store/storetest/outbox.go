package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// OutboxBackend is a store whose changes are told of.
type OutboxBackend interface {
	Backend
	Waiting(ctx context.Context, sink string, most int) ([]ha.Message, error)
	Backlog(ctx context.Context, sink string) (ha.Backlog, error)
	Shipped(ctx context.Context, l ha.Shipping, ids []int64) error
	DropOldest(ctx context.Context, l ha.Shipping, n int) (int, error)
	Shipping(ctx context.Context, sink string) (ha.Shipping, error)
	ClaimShipping(ctx context.Context, seen ha.Shipping, owner string, ttl time.Duration) (ha.Shipping, error)
	ReleaseShipping(ctx context.Context, l ha.Shipping) error
}

// OpenOutbox opens a database as a process does that tells of its changes; with nil, as one that does not.
type OpenOutbox func(t *testing.T, a *rules.Announce) OutboxBackend

// RunOutbox runs the suite of the outbox. fresh makes an empty database for one test.
func RunOutbox(t *testing.T, fresh func(t *testing.T) OpenOutbox) {
	for _, c := range []struct {
		name string
		run  func(*outboxFixture)
	}{
		{"ToldByTheAPI", toldByTheAPI}, {"ToldByTheEngine", toldByTheEngine}, {"ToldOfRefusals", toldOfRefusals},
		{"NothingWithoutAnnouncing", nothingWithoutAnnouncing}, {"NothingOfARollback", nothingOfARollback},
		{"ShippedAndFenced", shippedAndFenced}, {"ShippingIsClaimedOnce", shippingIsClaimedOnce}, {"OldestAreDropped", oldestAreDropped},
		{"PurgedByAge", outboxPurged},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := fresh(t)
			o := &outboxFixture{open: open}
			backend := open(t, &rules.Announce{Sinks: []string{sinkA, sinkB}, Wake: func() { o.woken++ }, Render: rendered})
			o.rows = backend
			o.fixture = &fixture{T: t, ctx: t.Context(), Backend: backend, open: func(t *testing.T) Backend { return open(t, nil) }}
			c.run(o)
		})
	}
}

const sinkA, sinkB = "bus", "hook"

// rendered says of an event what the tests look at.
func rendered(e ha.Event) string {
	s := e.Type()
	switch {
	case e.Notification != nil:
		s += fmt.Sprintf(" %s %s", e.Notification.UUID, e.Notification.Status)
	case e.Host != nil:
		s += fmt.Sprintf(" %s in %s on_maintenance=%v reserved=%v", e.Host.UUID, e.Segment.Name, e.Host.OnMaintenance, e.Host.Reserved)
	default:
		s += fmt.Sprintf(" %s %s", e.Segment.UUID, e.Segment.RecoveryMethod)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

type outboxFixture struct {
	*fixture
	rows  OutboxBackend
	open  OpenOutbox
	woken int
}

// told wants these to be the next messages, for both sinks alike, and takes them out.
func (o *outboxFixture) told(what string, want ...string) {
	o.Helper()
	for _, sink := range []string{sinkA, sinkB} {
		messages, err := o.rows.Waiting(o.ctx, sink, 1000)
		o.must(err)
		var got []string
		var ids []int64
		for _, m := range messages {
			got, ids = append(got, m.Body), append(ids, m.ID)
			if m.UUID == "" || !strings.HasPrefix(m.Body, m.Type+" ") || m.Age < 0 || m.Age > time.Minute {
				o.Errorf("message %+v", m)
			}
		}
		if !slices.Equal(got, want) {
			o.Fatalf("%s: %s is told\n%s\nwant\n%s", what, sink, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		o.must(o.rows.Shipped(o.ctx, o.ship(sink, "test"), ids))
	}
}

// ship makes owner the shipper.
func (o *outboxFixture) ship(sink, owner string) ha.Shipping {
	o.Helper()
	seen, err := o.rows.Shipping(o.ctx, sink)
	o.must(err)
	l, err := o.rows.ClaimShipping(o.ctx, seen, owner, ttl)
	o.must(err)
	return l
}

// around are the two messages of a change.
func around(action, rest string) []string {
	return []string{action + ".start " + rest, action + ".end " + rest}
}

func toldByTheAPI(o *outboxFixture) {
	seg := o.segment()
	o.told("a segment is made", around("segment.create", seg.UUID+" auto")...)
	method := ha.MethodReservedHost
	for range 2 { // also of an update that changes nothing
		_, err := o.UpdateSegment(o.ctx, seg.UUID, ha.SegmentPatch{RecoveryMethod: &method})
		o.must(err)
		o.told("it is changed", around("segment.update", seg.UUID+" reserved_host")...)
	}
	h := o.host(seg.UUID)
	is := func(maintenance bool) string {
		return fmt.Sprintf("%s in %s on_maintenance=%v reserved=false", h.UUID, seg.Name, maintenance)
	}
	o.told("a host is made", around("host.create", is(false))...)
	on := true
	for range 2 {
		_, err := o.UpdateHost(o.ctx, seg.UUID, h.UUID, ha.HostPatch{OnMaintenance: &on})
		o.must(err)
		o.told("it is changed", around("host.update", is(true))...)
	}
	o.must(o.DeleteHost(o.ctx, seg.UUID, h.UUID))
	o.told("it is deleted", around("host.delete", is(true))...)
	h = o.host(seg.UUID)
	r := death(h, 0)
	n := o.admit(r)
	o.told("a report is admitted", append(around("host.create", is(false)), around("notification.create", n.UUID+" new")...)...)
	if _, err := o.Admit(o.ctx, r, interval); err != nil { // the same once more: its answer was lost
		o.Fatal(err)
	}
	o.told("the same report again")
	if _, err := o.Admit(o.ctx, death(h, 1), interval); err == nil {
		o.Fatal("a duplicate was admitted")
	}
	_, err := o.UpdateHost(o.ctx, seg.UUID, h.UUID, ha.HostPatch{OnMaintenance: &on})
	fails[*ha.InUseError](o.fixture, err)
	fails[*ha.InUseError](o.fixture, o.DeleteSegment(o.ctx, seg.UUID))
	o.told("a refusal before the write")
	l, _ := o.claim("a", n)
	o.end(l, n, ha.StatusFinished)
	o.told("a recovery", "notification.process.start "+n.UUID+" new", "notification.process.end "+n.UUID+" running")
	o.must(o.DeleteSegment(o.ctx, seg.UUID))
	o.told("a segment is deleted with its host", around("segment.delete", seg.UUID+" reserved_host")...)
	if o.woken == 0 {
		o.Error("nobody was woken")
	}
}

func toldByTheEngine(o *outboxFixture) {
	h, n, l := o.incident()
	seg, err := o.Segment(o.ctx, h.SegmentUUID)
	o.must(err)
	o.must(o.skipAll())
	set := func(s ha.Status, message string) {
		o.Helper()
		o.commit(l, ha.SetNotification{UUID: n.UUID, Status: s, Message: message})
	}
	began := func(from string) string { return "notification.process.start " + n.UUID + " " + from }
	last := func(phase string) string { return "notification.process." + phase + " " + n.UUID + " running" }
	set(ha.StatusRunning, "gates")
	set(ha.StatusRunning, "moving")
	o.told("it runs, and goes on running", began("new"))
	set(ha.StatusError, "attempt 1 of 3 failed")
	set(ha.StatusRunning, "again")
	o.told("an attempt failed, the next began", last("error")+": attempt 1 of 3 failed", began("error"))
	on := true
	o.commit(l, ha.SetHost{UUID: h.UUID, OnMaintenance: &on}, ha.SetHost{UUID: h.UUID, OnMaintenance: &on, Started: true})
	o.told("a flag is set, and set again", around("host.update", fmt.Sprintf("%s in %s on_maintenance=true reserved=false", h.UUID, seg.Name))...)
	set(ha.StatusFailed, "given up")
	o.told("given up while it ran", last("error")+": given up")
	set(ha.StatusRunning, "an operator retries")
	set(ha.StatusError, "no")
	o.must(o.skipAll())
	set(ha.StatusFailed, "expired")
	o.told("an error expires")
	set(ha.StatusRunning, "an operator retries")
	set(ha.StatusIgnored, "host returned")
	o.told("ignored", began("failed"), last("end"))

	h2 := o.host(seg.UUID)
	n2 := o.admit(start(h2, 0))
	l2, _ := o.claim("a", n2)
	o.must(o.skipAll())
	o.commit(l2, ha.SetNotification{UUID: n2.UUID, Status: ha.StatusFinished})
	o.told("ended without having run", "notification.process.start "+n2.UUID+" new", "notification.process.end "+n2.UUID+" running")
	woken := o.woken
	o.commit(l2)
	if o.woken != woken {
		o.Error("a beat wakes the shipper")
	}
}

// skipAll takes out what waits.
func (o *outboxFixture) skipAll() error {
	for _, sink := range []string{sinkA, sinkB} {
		if _, err := o.rows.DropOldest(o.ctx, o.ship(sink, "test"), 1000); err != nil {
			return err
		}
	}
	return nil
}

func toldOfRefusals(o *outboxFixture) {
	seg, other := o.segment(), o.segment()
	h, otherHost := o.host(seg.UUID), o.host(seg.UUID)
	o.must(o.skipAll())
	again := seg
	again.UUID = id()
	_, err := o.CreateSegment(o.ctx, again)
	exists := fails[*ha.ExistsError](o.fixture, err).Error()
	o.told("a name is taken", "segment.create.start "+again.UUID+" auto", "segment.create.error "+again.UUID+" auto: "+exists)
	_, err = o.UpdateSegment(o.ctx, other.UUID, ha.SegmentPatch{Name: &seg.Name})
	fails[*ha.ExistsError](o.fixture, err)
	o.told("a name is taken", "segment.update.start "+other.UUID+" auto", "segment.update.error "+other.UUID+" auto: "+exists)
	twin := h
	twin.UUID = id()
	_, err = o.CreateHost(o.ctx, twin)
	exists = fails[*ha.ExistsError](o.fixture, err).Error()
	is := func(uuid string) string { return uuid + " in " + seg.Name + " on_maintenance=false reserved=false" }
	o.told("a host's name is taken", "host.create.start "+is(twin.UUID), "host.create.error "+is(twin.UUID)+": "+exists)
	_, err = o.UpdateHost(o.ctx, seg.UUID, otherHost.UUID, ha.HostPatch{Name: &h.Name})
	fails[*ha.ExistsError](o.fixture, err)
	o.told("a host's name is taken", "host.update.start "+is(otherHost.UUID), "host.update.error "+is(otherHost.UUID)+": "+exists)
	_, err = o.UpdateHost(o.ctx, seg.UUID, id(), ha.HostPatch{Name: &h.Name})
	fails[*ha.NotFoundError](o.fixture, err)
	_, err = o.CreateHost(o.ctx, ha.Host{UUID: id(), Name: "x", SegmentUUID: id()})
	fails[*ha.NotFoundError](o.fixture, err)
	o.told("what does not exist")
}

func nothingWithoutAnnouncing(o *outboxFixture) {
	o.Backend = o.open(o.T, nil)
	if same, ok := o.Backend.(OutboxBackend); ok && same == o.rows {
		o.Skip("one process only")
	}
	_, n, l := o.incident()
	o.end(l, n, ha.StatusFinished)
	o.told("nobody is announced to")
}

// nothingOfARollback: what was not written is not told.
func nothingOfARollback(o *outboxFixture) {
	h, n, l := o.incident()
	o.must(o.skipAll())
	on := true
	_, err := o.Commit(o.ctx, l, ha.SetNotification{UUID: n.UUID, Status: ha.StatusRunning}, ha.SetHost{UUID: h.UUID, OnMaintenance: &on},
		ha.TouchSegment{UUID: h.SegmentUUID, Seen: 99})
	o.is(err, ha.ErrStale)
	fenced := *l
	fenced.Epoch++
	_, err = o.Commit(o.ctx, &fenced, ha.SetNotification{UUID: n.UUID, Status: ha.StatusRunning})
	o.is(err, ha.ErrFenced)
	o.told("a commit that failed whole")
}

func shippedAndFenced(o *outboxFixture) {
	for range 3 {
		o.segment()
	}
	a := o.ship(sinkA, "a")
	first, err := o.rows.Waiting(o.ctx, sinkA, 4)
	o.must(err)
	equal(o.fixture, "bounded", len(first), 4)
	o.must(o.rows.Shipped(o.ctx, a, []int64{first[0].ID, first[1].ID}))
	b, err := o.rows.Backlog(o.ctx, sinkA)
	o.must(err)
	equal(o.fixture, "left", b.Rows, 4)
	other, err := o.rows.Backlog(o.ctx, sinkB)
	o.must(err)
	equal(o.fixture, "left for the other", other.Rows, 6)
	if b.Oldest < 0 || b.Oldest > time.Minute {
		o.Errorf("oldest %s", b.Oldest)
	}
	seen, err := o.rows.Shipping(o.ctx, sinkA)
	o.must(err)
	if seen.Owner != "a" || seen.Epoch != a.Epoch || seen.Beat <= a.Beat || seen.TTL != ttl {
		o.Errorf("a beat moves the row: %+v after %+v", seen, a)
	}
	taken := o.ship(sinkA, "b")
	o.is(o.rows.Shipped(o.ctx, a, []int64{first[2].ID}), ha.ErrFenced)
	_, err = o.rows.DropOldest(o.ctx, a, 1)
	o.is(err, ha.ErrFenced)
	o.must(o.rows.ReleaseShipping(o.ctx, a)) // of what it no longer has: nothing
	rest, err := o.rows.Waiting(o.ctx, sinkA, 10)
	o.must(err)
	equal(o.fixture, "nothing was removed behind the fence", len(rest), 4)
	equal(o.fixture, "order", rest[0].ID, first[2].ID)
	o.must(o.rows.ReleaseShipping(o.ctx, taken))
	seen, err = o.rows.Shipping(o.ctx, sinkA)
	o.must(err)
	equal(o.fixture, "owner after a release", seen.Owner, "")
	o.is(o.rows.Shipped(o.ctx, taken, nil), ha.ErrFenced)
}

func shippingIsClaimedOnce(o *outboxFixture) {
	none, err := o.rows.Shipping(o.ctx, sinkA)
	o.must(err)
	equal(o.fixture, "nobody's", none, ha.Shipping{Sink: sinkA})
	for range 2 { // the first time there is no row
		seen, err := o.rows.Shipping(o.ctx, sinkA)
		o.must(err)
		won := make(chan bool, 8)
		for i := range cap(won) {
			go func() {
				_, err := o.rows.ClaimShipping(o.ctx, seen, fmt.Sprint("p", i), ttl)
				won <- err == nil
			}()
		}
		wins := 0
		for range cap(won) {
			if <-won {
				wins++
			}
		}
		equal(o.fixture, "claims that won", wins, 1)
	}
}

func oldestAreDropped(o *outboxFixture) {
	for range 5 {
		o.segment()
	}
	l := o.ship(sinkA, "a")
	all, err := o.rows.Waiting(o.ctx, sinkA, 100)
	o.must(err)
	n, err := o.rows.DropOldest(o.ctx, l, 7)
	o.must(err)
	equal(o.fixture, "dropped", n, 7)
	rest, err := o.rows.Waiting(o.ctx, sinkA, 100)
	o.must(err)
	equal(o.fixture, "left", len(rest), 3)
	equal(o.fixture, "first", rest[0].ID, all[7].ID)
	n, err = o.rows.DropOldest(o.ctx, l, 7)
	o.must(err)
	equal(o.fixture, "dropped of three", n, 3)
}

// outboxPurged: rows for a destination that nobody ships to are not kept for ever, and younger ones are.
func outboxPurged(o *outboxFixture) {
	o.segment()
	_, err := o.Purge(o.ctx, 1, -1)
	o.must(err)
	b, err := o.rows.Backlog(o.ctx, sinkA)
	o.must(err)
	equal(o.fixture, "left when young", b.Rows, 2)
	for range 1000 { // by the database's clock it is older than no time at all, soon
		_, err = o.Purge(o.ctx, 0, -1)
		o.must(err)
		if b, err = o.rows.Backlog(o.ctx, sinkA); err != nil || b.Rows == 0 {
			break
		}
	}
	o.must(err)
	equal(o.fixture, "left when old", b.Rows, 0)
}
