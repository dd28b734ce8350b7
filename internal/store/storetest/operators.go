package storetest

import (
	"context"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

func wishes(f *fixture) {
	_, n, l := f.incident()
	_, err := f.Recovery(f.ctx, id())
	fails[*ha.NotFoundError](f, err)
	until := time.Date(2030, 1, 2, 3, 4, 5, 678901000, time.UTC)
	wish := func(w ha.Wish) ha.Wishes {
		f.Helper()
		before := f.load(l)
		f.must(f.Wish(f.ctx, n.UUID, w))
		after := f.commit(l)
		equal(f, "the signal after a wish", after.Signal, before.Signal+1)
		u := f.load(l)
		if d := cmp.Diff(before.Recovery, u.Recovery); d != "" {
			f.Fatalf("a wish changed what is the owner's:\n%s", d)
		}
		return u.Wishes
	}
	f.commit(l, ha.SetRecovery{Recovery: ha.Recovery{Step: ha.StepMove, Released: 7}})
	want := ha.Wishes{HoldBy: "alice", HoldReason: "wait", HoldUntil: &until}
	got := wish(ha.Wish{Kind: ha.WishHold, By: "alice", Reason: "wait", Until: &until})
	if d := cmp.Diff(want, got); d != "" {
		f.Fatalf("wishes after a hold differ:\n%s", d)
	}
	want = ha.Wishes{ReleaseBy: "bob", Releases: 1}
	if d := cmp.Diff(want, wish(ha.Wish{Kind: ha.WishRelease, By: "bob"})); d != "" {
		f.Fatalf("wishes after a release differ:\n%s", d)
	}
	want.RetryBy, want.Retries = "carol", 1
	if d := cmp.Diff(want, wish(ha.Wish{Kind: ha.WishRetry, By: "carol"})); d != "" {
		f.Fatalf("wishes after a retry differ:\n%s", d)
	}
	want.CancelBy = "dave: the host is back"
	if d := cmp.Diff(want, wish(ha.Wish{Kind: ha.WishCancel, By: "dave", Reason: "the host is back"})); d != "" {
		f.Fatalf("wishes after a cancel differ:\n%s", d)
	}
	fails[*ha.InvalidError](f, f.Wish(f.ctx, n.UUID, ha.Wish{Kind: "dance", By: "x"}))

	// A parked unit is due when it is wished for; the owner's own writes keep the wishes.
	f.load(l)
	f.commit(l, ha.SetRecovery{Recovery: ha.Recovery{Step: ha.StepWait}}, ha.Park{After: time.Hour})
	f.must(f.Wish(f.ctx, n.UUID, ha.Wish{Kind: ha.WishRelease, By: "bob"}))
	sight := f.poll("b").Units[0]
	if !sight.Due {
		f.Fatal("a wish does not wake a parked unit")
	}
	_, u := f.takeOver("b", ha.Lease{WorkID: sight.WorkID, Epoch: sight.Epoch, Beat: sight.Beat})
	if u.Wishes.CancelBy != "dave: the host is back" || u.Wishes.Releases != 2 || u.Step != ha.StepWait {
		f.Fatalf("unit is %+v", u.Work)
	}
}

func wishesOfEnded(f *fixture) {
	h, n, l := f.incident()
	waiting := f.admit(process(h, 0, ha.EventStopped))
	err := f.Wish(f.ctx, waiting.UUID, ha.Wish{Kind: ha.WishCancel, By: "x"})
	equal(f, "what is missing", fails[*ha.NotFoundError](f, err).Kind, ha.KindRecovery)

	f.must(f.Wish(f.ctx, n.UUID, ha.Wish{Kind: ha.WishRetry, By: "x"}))
	f.load(l)
	f.commit(l, ha.SetRecovery{Recovery: ha.Recovery{Attempt: 3, Retried: 1, Failures: 3}})
	f.end(l, n, ha.StatusFailed)
	for _, kind := range []ha.WishKind{ha.WishCancel, ha.WishHold, ha.WishRelease, ha.WishRetryMove} {
		e := fails[*ha.ConflictError](f, f.Wish(f.ctx, n.UUID, ha.Wish{Kind: kind, By: "x"}))
		if !strings.Contains(e.Text, n.UUID) {
			f.Fatalf("conflict says %q", e.Text)
		}
	}
	f.must(f.Wish(f.ctx, n.UUID, ha.Wish{Kind: ha.WishRetry, By: "alice"}))
	units := f.poll("b").Units
	if len(units) != 1 || !units[0].Due || units[0].WorkID == l.WorkID {
		f.Fatalf("units after a retry are %+v", units)
	}
	equal(f, "the notification's status", f.status(n), ha.StatusFailed)
	again, u := f.takeOver("b", ha.Lease{WorkID: units[0].WorkID, Epoch: units[0].Epoch, Beat: units[0].Beat})
	if u.NotificationUUID != n.UUID || u.Key != ha.UnitHost.Key(h.UUID) || u.Wishes.Retries <= u.Retried || u.Wishes.RetryBy != "alice" ||
		u.Attempt != 0 || u.HostUUID != h.UUID || u.SegmentUUID != h.SegmentUUID {
		f.Fatalf("the new unit is %+v", u.Work)
	}
	latest, err := f.Recovery(f.ctx, n.UUID)
	f.must(err)
	equal(f, "the latest recovery", latest.ID, again.WorkID)
	f.must(f.Wish(f.ctx, n.UUID, ha.Wish{Kind: ha.WishRetry, By: "alice"})) // of an active one: a wish
	f.load(again)
	f.commit(again, ha.SetNotification{UUID: n.UUID, Status: ha.StatusRunning}, ha.SetNotification{UUID: n.UUID, Status: ha.StatusFailed}, ha.EndUnit{})

	// While another recovery of the host is at work, it cannot be retried.
	next := f.admit(death(h, 5000))
	l, _ = f.claim("c", next)
	fails[*ha.ConflictError](f, f.Wish(f.ctx, n.UUID, ha.Wish{Kind: ha.WishRetry, By: "x"}))
	f.end(l, next, ha.StatusFinished)
	fails[*ha.ConflictError](f, f.Wish(f.ctx, next.UUID, ha.Wish{Kind: ha.WishRetry, By: "x"})) // it did not fail
}

// What failed on a host that was deleted since is not retried: it is salvor's no more.
func retryOfDeletedHost(f *fixture) {
	h, n, l := f.incident()
	f.end(l, n, ha.StatusFailed)
	f.must(f.DeleteHost(f.ctx, h.SegmentUUID, h.UUID))
	e := fails[*ha.ConflictError](f, f.Wish(f.ctx, n.UUID, ha.Wish{Kind: ha.WishRetry, By: "alice"}))
	if !strings.Contains(e.Text, "its host was deleted") {
		f.Fatalf("conflict says %q", e.Text)
	}
	if units := f.poll("b").Units; len(units) != 0 {
		f.Fatalf("units after a retry that was refused: %+v", units)
	}
}

func (f *fixture) status(n ha.Notification) ha.Status {
	f.Helper()
	got, err := f.Notification(f.ctx, n.UUID)
	f.must(err)
	return got.Status
}

func retryMove(f *fixture) {
	_, n, l := f.incident()
	m := ha.VMove{UUID: id(), InstanceUUID: id(), Status: ha.MoveFailed}
	f.commit(l, ha.PutMove{Move: m})
	before := f.load(l)
	f.must(f.Wish(f.ctx, n.UUID, ha.Wish{Kind: ha.WishRetryMove, By: "x", VMove: m.UUID}))
	err := f.Wish(f.ctx, n.UUID, ha.Wish{Kind: ha.WishRetryMove, By: "x", VMove: id()})
	equal(f, "what is missing", fails[*ha.NotFoundError](f, err).Kind, ha.KindVMove)
	m.Attempts, m.RetryWish = 1, 0
	f.commit(l, ha.PutMove{Move: m}) // the owner, who has not seen the wish, does not undo it
	after := f.load(l)
	equal(f, "the signal", after.Signal, before.Signal+1)
	if got := after.Moves[0]; got.RetryWish != 1 || got.RetryDone != 0 || got.Attempts != 1 {
		f.Fatalf("move is %+v", got)
	}
	if after.Wishes != before.Wishes {
		f.Fatal("retrying one move asked for the whole recovery")
	}
}

func purge(f *fixture) {
	h, n, l := f.incident()
	s := h.SegmentUUID
	f.commit(l, ha.PutMove{Move: ha.VMove{UUID: id(), InstanceUUID: id()}}, ha.Write{Entry: ha.Entry{Seq: 1}},
		ha.StartUnit{Kind: ha.UnitTakeBack, HostUUID: h.UUID},
		ha.PutClaim{Claim: ha.Claim{HostUUID: h.UUID, What: ha.WhatForcedDown, Reason: ha.ReasonRecovery}})
	f.end(l, n, ha.StatusFailed)
	open := f.admit(death(f.host(f.segment().UUID), 0))
	retried := f.admit(death(f.host(*open.SegmentUUID), 0))
	rl, _ := f.claim("a", retried)
	f.end(rl, retried, ha.StatusFailed)
	f.must(f.Wish(f.ctx, retried.UUID, ha.Wish{Kind: ha.WishRetry, By: "x"})) // at work again
	f.must(f.DeleteSegment(f.ctx, s))
	f.must(f.DeleteHost(f.ctx, *open.SegmentUUID, f.host(*open.SegmentUUID).UUID))

	count := func(days int, want rules.Purged) {
		f.Helper()
		removed, err := f.Purge(f.ctx, days, -1)
		f.must(err)
		equal(f, "what was removed", removed, want)
	}
	count(1, rules.Purged{}) // all too young
	for !f.load(f.fresh()).Now.After(f.load(f.fresh()).Now.Truncate(time.Second)) {
		continue // what was deleted in this very second is not yet older than now
	}
	count(0, rules.Purged{Notifications: 1, VMoves: 1, Hosts: 1, Entries: 1, Units: 1, Bounded: 2})
	back, u := f.sighted(ha.UnitTakeBack.Key(h.UUID)) // what it is to take back has stayed
	equal(f, "claims of a deleted host", len(u.Claims), 1)
	f.commit(back, ha.Write{Entry: ha.Entry{Seq: 1}}, ha.EndUnit{})
	count(0, rules.Purged{Hosts: 1, Segments: 1, Entries: 1, Units: 1, Claims: 1, Bounded: 2})
	_, err := f.Notification(f.ctx, n.UUID)
	fails[*ha.NotFoundError](f, err)
	moves, err := f.VMoves(f.ctx, ha.VMoveFilter{NotificationUUID: n.UUID}, byID)
	f.must(err)
	entries, err := f.Journal(f.ctx, n.UUID, 0, 10)
	f.must(err)
	if len(moves) != 0 || len(entries) != 0 {
		f.Fatalf("%d moves and %d journal entries stayed behind", len(moves), len(entries))
	}
	_, err = f.Recovery(f.ctx, n.UUID)
	fails[*ha.NotFoundError](f, err)
	equal(f, "the open notification", f.status(open), ha.StatusNew)
	equal(f, "the retried notification", f.status(retried), ha.StatusFailed)
	count(0, rules.Purged{})
}

// purgeStorage: of episodes only those that are done with go, and of transfers all but what is under way, what an agent is still to be told
// of, and the last of each blob.
func purgeStorage(f *fixture) {
	count := func(days, rows int, want rules.Purged) {
		f.Helper()
		removed, err := f.Purge(f.ctx, days, rows)
		f.must(err)
		equal(f, "what was removed", removed, want)
	}
	c := f.blobCloud(2)
	b := c.placed(2, 0)
	c.pass()
	failed := c.show(b).Transfers[0].UUID
	c.report(1, ha.AgentReport{Transfers: []ha.TransferReport{{UUID: failed, State: ha.TransferFailed}}})
	count(0, -1, rules.Purged{}) // it is the blob's last
	f.must(c.RescueBlob(c.ctx, b.UUID))
	c.pass()
	cancelled := c.show(b).Transfers[0].UUID
	count(0, 1, rules.Purged{Transfers: 1, Bounded: 1}) // the failed one
	c.finds(1, b, ha.CopyPresent)
	c.pass()
	c.finds(1, b, ha.CopyMissing)
	c.pass()
	d := c.show(b)
	if len(d.Transfers) != 2 || d.Transfers[0].State != ha.TransferRunning || d.Transfers[1].UUID != cancelled || d.Transfers[1].State != ha.TransferCancelled {
		f.Fatalf("transfers are %+v", d.Transfers)
	}
	count(0, -1, rules.Purged{}) // its agent is still to be told
	c.report(1, ha.AgentReport{Transfers: []ha.TransferReport{{UUID: cancelled, State: ha.TransferFailed}}})
	count(1, -1, rules.Purged{}) // too young
	count(0, -1, rules.Purged{Transfers: 1, Bounded: 1})
	equal(f, "what is under way", c.show(b).Transfers[0].State, ha.TransferRunning)

	c = f.blobCloud(3)
	ended, cleared, open := c.broken(0), c.broken(1), c.broken(2)
	for h, uuid := range []string{ended, cleared} {
		l, _ := f.storageUnit("s", c.hosts[h])
		var items []ha.Change
		for range map[string]int{ended: 1001, cleared: 1}[uuid] { // more than go in one transaction
			items = append(items, ha.PutItem{Item: ha.Item{EpisodeUUID: uuid, Kind: ha.ObjectBlob, ID: id(), Version: 1, State: ha.ItemDone}})
		}
		f.commit(l, items...)
		_, err := f.ClearStorage(f.ctx, ha.Clear{HostUUID: c.hosts[h].UUID, By: "op", Force: true})
		f.must(err)
		if uuid == ended {
			f.commit(l, ha.SetEpisode{UUID: uuid, Ended: true})
		}
	}
	count(1, -1, rules.Purged{}) // too young
	count(0, 1, rules.Purged{Episodes: 1, Runs: 1, Items: 1001, Bounded: 1})
	count(0, -1, rules.Purged{})
	_, err := f.Episode(f.ctx, ended)
	fails[*ha.NotFoundError](f, err)
	for _, uuid := range []string{cleared, open} {
		d, err := f.Episode(f.ctx, uuid)
		f.must(err)
		if len(d.Runs) != 1 || uuid == cleared && len(d.Items) == 0 {
			f.Fatalf("what is not done with has lost its parts: %+v", d)
		}
	}
}

// purgeHosts: with a deleted host goes what was known of it, but not while it may have the last copy of a blob.
func purgeHosts(f *fixture) {
	c := f.blobCloud(3)
	spare, last := c.placed(2, 0, 1), c.placed(1, 0)
	gone, other := c.hosts[0], c.hosts[2]
	for _, h := range []ha.Host{gone, other} {
		f.must(f.SetAgentKey(f.ctx, h.UUID, "hash", "alice", []byte("key")))
		f.must(f.DeleteHost(f.ctx, h.SegmentUUID, h.UUID))
	}
	f.must(f.SetStorageAction(f.ctx, gone.SegmentUUID, "evacuate"))
	for !f.load(f.fresh()).Now.After(f.load(f.fresh()).Now.Truncate(time.Second)) {
		continue // what was deleted in this very second is not yet older than now
	}
	count := func(days int, want rules.Purged) {
		f.Helper()
		removed, err := f.Purge(f.ctx, days, -1)
		f.must(err)
		equal(f, "what was removed", removed, want)
	}
	count(1, rules.Purged{}) // too young
	count(0, rules.Purged{Hosts: 1, Copies: 1, Kept: 1, Bounded: 1})
	at := func(b ha.Blob, hosts ...ha.Host) {
		f.Helper()
		d := c.show(b)
		if len(d.Locations) != len(hosts) {
			f.Fatalf("locations are %+v", d.Locations)
		}
		for i, h := range hosts {
			equal(f, "host of a copy", d.Hosts[d.Locations[i].HostUUID], h.Name)
		}
	}
	at(spare, c.hosts[1])
	at(last, gone) // by its name it can be found
	a, err := f.Agent(f.ctx, other.UUID)
	f.must(err)
	equal(f, "who speaks for a host that is no more", a, ha.Agent{})
	a, err = f.Agent(f.ctx, gone.UUID)
	f.must(err)
	equal(f, "the key of one that was kept", a.KeyHash, "hash")
	c.pass()
	equal(f, "the blob's state", c.show(last).Durability, ha.DurabilityAtRisk)
	f.must(f.LoseBlob(f.ctx, last.UUID, "op"))
	count(0, rules.Purged{Hosts: 1, Copies: 1, Bounded: 1})
	at(last)
	count(0, rules.Purged{})
	equal(f, "the blob's state", c.show(last).Durability, ha.DurabilityLost)
}

// broken has a host's disk fail, and returns its episode.
func (c *blobCloud) broken(host int) string {
	c.Helper()
	c.breaks(host)
	_, e, err := c.StorageHealth(c.ctx, c.hosts[host].UUID)
	c.must(err)
	return e.UUID
}

// fresh is the lease of some unit, by which the database's clock can be read.
func (f *fixture) fresh() *ha.Lease {
	f.Helper()
	_, _, l := f.incident()
	return l
}

func purgeBounds(f *fixture) {
	for _, c := range []struct {
		days, rows int
		text       string
	}{
		{30, 0, "Must supply value greater than 0 for max_rows."}, {30, -2, "Invalid input received: max_rows must be >= -1"},
		{-1, -1, "Must supply a non-negative value for age."}, {1 << 30, -1, "Maximal age is count of days since epoch."},
	} {
		_, err := f.Purge(f.ctx, c.days, c.rows)
		equal(f, "the refusal", fails[*ha.InvalidError](f, err).Text, c.text)
	}
	s := f.segment()
	for range 120 {
		f.must(f.DeleteHost(f.ctx, s.UUID, f.host(s.UUID).UUID))
	}
	time.Sleep(time.Millisecond)
	for _, want := range []int{70, 50, 0} {
		removed, err := f.Purge(f.ctx, 0, 70)
		f.must(err)
		if want == 50 && removed.Bounded < 50 { // those deleted in this very second
			time.Sleep(time.Second)
			more, err := f.Purge(f.ctx, 0, 70)
			f.must(err)
			removed.Add(more)
		}
		equal(f, "rows removed", removed.Bounded, want)
	}
}

// texts: free text is stored whatever it holds, cut where it is too long, and nothing breaks on quotes.
func texts(f *fixture) {
	_, n, l := f.incident()
	for _, c := range []struct{ text, want string }{
		{"it's \\ a \"test\" ? ?0 %s 🐳 ü\r\n\t`x`;--", "it's \\ a \"test\" ? ?0 %s 🐳 ü\r\n\t`x`;--"},
		{"nul\x00 and bad \xff utf-8", "nul and bad \uFFFD utf-8"},
		{"", ""},
	} {
		f.commit(l, ha.SetNotification{UUID: n.UUID, Status: ha.StatusRunning, Message: c.text})
		equal(f, "the message", *f.load(l).Notification.Message, c.want)
	}
	f.commit(l, ha.SetNotification{UUID: n.UUID, Status: ha.StatusRunning, Message: strings.Repeat("äx", 40000)},
		ha.Write{Entry: ha.Entry{Seq: 1, Text: strings.Repeat("🐳", 20000)}},
		ha.PutMove{Move: ha.VMove{UUID: id(), InstanceUUID: id(), InstanceName: strings.Repeat("n", 300), Message: ptr(strings.Repeat("m", 70000))}})
	u := f.load(l)
	if got := *u.Notification.Message; len(got) > 65535 || len(got) < 65000 || !strings.HasSuffix(got, "…") {
		f.Fatalf("a long message came back with %d bytes", len(got))
	}
	if m := u.Moves[0]; len(*m.Message) > 65535 || len(m.InstanceName) != 255 {
		f.Fatalf("a long move message came back with %d bytes, a name with %d", len(*m.Message), len(m.InstanceName))
	}
}

// times: ours keep microseconds, Masakari's whole seconds, all are UTC.
func times(f *fixture) {
	h := f.host(f.segment().UUID)
	r := death(h, 0)
	r.GeneratedTime = time.Date(2026, 11, 29, 13, 0, 0, 123456789, time.FixedZone("x", 7200))
	n := f.admit(r)
	got, err := f.Notification(f.ctx, n.UUID)
	f.must(err)
	want := time.Date(2026, 11, 29, 11, 0, 0, 123456000, time.UTC)
	if got.GeneratedTime != want || n.GeneratedTime != want {
		f.Fatalf("generated_time came back as %v and %v, want %v", n.GeneratedTime, got.GeneratedTime, want)
	}
	if got.CreatedAt.Nanosecond() != 0 || got.CreatedAt.Location() != time.UTC || h.CreatedAt.Nanosecond() != 0 {
		f.Fatalf("created_at is %v", got.CreatedAt)
	}
	l, u := f.claim("a", n)
	if d := u.Now.Sub(got.CreatedAt); d < 0 || d > time.Minute {
		f.Fatalf("received at %v, now %v", got.CreatedAt, u.Now)
	}
	at := time.Date(2026, 11, 29, 13, 0, 0, 123456789, time.FixedZone("x", 7200))
	f.commit(l, ha.SetRecovery{Recovery: ha.Recovery{ProofAt: at, WakeAt: &at}})
	if u = f.load(l); u.ProofAt != want || *u.WakeAt != want || u.HeldSince != nil {
		f.Fatalf("times came back as %v, %v, %v", u.ProofAt, u.WakeAt, u.HeldSince)
	}
}

// endedContext: a call whose context has ended is temporary trouble (rule A5), and writes nothing.
func endedContext(f *fixture) {
	h := f.host(f.segment().UUID)
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err := f.Admit(ctx, death(h, 0), interval)
	fails[*ha.UnavailableError](f, err)
	f.is(err, context.Canceled)
	_, err = f.Poll(ctx, "a")
	fails[*ha.UnavailableError](f, err)
	all, err := f.Notifications(f.ctx, ha.NotificationFilter{}, byID)
	f.must(err)
	equal(f, "notifications", len(all), 0)
	f.must(f.Ping(f.ctx))
}
