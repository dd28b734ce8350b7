package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/salvor-ha/salvor/internal/ha"
)

// StorageBackend is what the use cases need of the rows of storage health.
type StorageBackend interface {
	ReportStorage(ctx context.Context, r ha.AgentReport) (ha.Accepted, error)
	FailStorage(ctx context.Context, f ha.Fail) (ha.Episode, error)
	StorageHealth(ctx context.Context, host string) (ha.HostHealth, *ha.Episode, error)
	Episodes(ctx context.Context, f ha.EpisodeFilter, limit int, marker string) ([]ha.Episode, error)
	Episode(ctx context.Context, uuid string) (ha.EpisodeDetails, error)
	HoldStorage(ctx context.Context, h ha.Hold) error
	ClearStorage(ctx context.Context, c ha.Clear) (ha.Episode, error)
	Agent(ctx context.Context, host string) (ha.Agent, error)
	SetAgentKey(ctx context.Context, host, hash, by string, ticketKey []byte) error
	SetAgentUser(ctx context.Context, host, user, by string, ticketKey []byte) error
	SetStorageAction(ctx context.Context, segment, action string) error
	StorageAction(ctx context.Context, segment string) (string, error)
	StorageActions(ctx context.Context, after string, limit int) ([]ha.StorageAction, error)
	HostByUUID(ctx context.Context, uuid string) (ha.Host, error)
}

// says makes a report of a host's agent about two resources: instances and uploads.
func says(h ha.Host, seq int64, instances, uploads ha.CheckStatus) ha.AgentReport {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return ha.AgentReport{
		HostUUID: h.UUID, EpisodeUUID: id(), TicketKey: []byte("0123456789abcdef0123456789abcdef"), Epoch: 1, Seq: seq, URL: "http://127.0.0.1:9",
		TotalBytes: 100, FreeBytes: 50, Checks: []ha.Check{
			{Resource: "instances", Path: "/i", Kinds: []ha.ObjectKind{ha.ObjectInstance}, Status: instances, Detail: "d", FilesystemID: "f-" + h.UUID, CheckedAt: at},
			{Resource: "uploads", Path: "/u", Kinds: []ha.ObjectKind{ha.ObjectUpload}, Status: uploads, FilesystemID: "u-" + h.UUID, CheckedAt: at},
		},
	}
}

func (f *fixture) said(r ha.AgentReport) ha.Accepted {
	f.Helper()
	a, err := f.ReportStorage(f.ctx, r)
	f.must(err)
	return a
}

// storageUnit claims the storage unit of a host.
func (f *fixture) storageUnit(owner string, h ha.Host) (*ha.Lease, ha.Unit) {
	f.Helper()
	for _, s := range f.poll(owner).Units {
		if s.Key == ha.UnitStorage.Key(h.UUID) {
			l, u, err := f.Claim(f.ctx, ha.ClaimRequest{Owner: owner, TTL: ttl, WorkID: s.WorkID, Epoch: s.Epoch, Beat: s.Beat})
			f.must(err)
			return &l, u
		}
	}
	f.Fatal("there is no storage unit")
	return nil, ha.Unit{}
}

// storageReports: newer reports are kept, older ones ignored or refused; a failure opens an episode with its runs and its unit, another kind
// grows it, the same opens nothing.
func storageReports(f *fixture) {
	h := f.host(f.segment().UUID)
	a := f.said(says(h, 1, ha.CheckOK, ha.CheckFull))
	if a.Opened != "" || a.Health.State != ha.HealthOK || string(a.TicketKey) != "0123456789abcdef0123456789abcdef" {
		f.Fatalf("a healthy report came to %+v", a)
	}
	if p := f.poll("a"); len(p.Units) != 0 {
		f.Fatalf("a full disk began %+v", p.Units)
	}
	bad := says(h, 2, ha.CheckIOError, ha.CheckOK)
	bad.TicketKey = []byte("another key that is not taken over")
	a = f.said(bad)
	if a.Opened != bad.EpisodeUUID || a.Health.State != ha.HealthError || string(a.TicketKey) != "0123456789abcdef0123456789abcdef" {
		f.Fatalf("a failure came to %+v", a)
	}
	if a := f.said(says(h, 2, ha.CheckOK, ha.CheckOK)); !a.Ignored || a.Health.State != ha.HealthError {
		f.Fatalf("a report that is not newer came to %+v", a)
	}
	old := says(h, 9, ha.CheckOK, ha.CheckOK)
	old.Epoch = 0
	_, err := f.ReportStorage(f.ctx, old)
	fails[*ha.StaleEpochError](f, err)
	if a := f.said(says(h, 3, ha.CheckIOError, ha.CheckOK)); a.Opened != "" {
		f.Fatalf("the same failure opened %+v", a)
	}
	f.said(says(h, 4, ha.CheckIOError, ha.CheckMissing))
	d, err := f.Episode(f.ctx, bad.EpisodeUUID)
	f.must(err)
	if d.Version != 2 || !slices.Equal(d.Radius, []ha.ObjectKind{ha.ObjectInstance, ha.ObjectUpload}) || len(d.Runs) != 1 || d.HostName != h.Name ||
		d.Runs[0].Kind != ha.ObjectInstance || d.Runs[0].Version != 1 || d.Runs[0].State != ha.RunOpen {
		f.Fatalf("the episode has grown to %+v", d)
	}
	health, open, err := f.StorageHealth(f.ctx, h.UUID)
	f.must(err)
	want := says(h, 4, ha.CheckIOError, ha.CheckMissing)
	if diff := cmp.Diff(want.Checks, health.Checks); diff != "" || open == nil || health.AgentURL != want.URL || health.FreeBytes != 50 || health.Silent {
		f.Fatalf("health is %+v\n%s", health, diff)
	}
	_, u := f.storageUnit("a", h)
	if u.Storage == nil || len(u.Storage.Episodes) != 1 || len(u.Storage.Runs) != 1 || u.Storage.Hosts[ha.ObjectInstance] != 1 || u.Storage.Failing[ha.ObjectInstance] != 1 {
		f.Fatalf("the unit is loaded with %+v", u.Storage)
	}
	_, err = f.ReportStorage(f.ctx, ha.AgentReport{HostUUID: id(), Epoch: 1, Seq: 1})
	fails[*ha.NotFoundError](f, err)
}

// storageOnce: many reports of one failure at once open one episode.
func storageOnce(f *fixture) {
	h := f.host(f.segment().UUID)
	var wg sync.WaitGroup
	for i := range 8 {
		db := f.open(f.T)
		wg.Go(func() {
			_, err := db.ReportStorage(f.ctx, says(h, int64(i+1), ha.CheckTimeout, ha.CheckOK))
			var away *ha.UnavailableError
			if err != nil && !errors.As(err, &away) {
				f.Error(err)
			}
		})
	}
	wg.Wait()
	list, err := f.Episodes(f.ctx, ha.EpisodeFilter{HostUUID: &h.UUID}, 10, "")
	f.must(err)
	if len(list) != 1 {
		f.Fatalf("%d episodes were opened", len(list))
	}
}

// storageCascade: what the owner of a storage unit writes, and what forbids it.
func storageCascade(f *fixture) {
	h := f.host(f.segment().UUID)
	f.must(f.SetStorageAction(f.ctx, h.SegmentUUID, "evacuate"))
	r := says(h, 1, ha.CheckIOError, ha.CheckOK)
	f.said(r)
	l, u := f.storageUnit("a", h)
	equal(f, "action", u.Storage.Action, "evacuate")
	e := u.Storage.Episodes[0]
	run := u.Storage.Runs[0]
	run.Done, run.Cursor, run.Why = 1, "i-1", "waits"
	item := ha.Item{EpisodeUUID: e.UUID, Kind: ha.ObjectInstance, ID: "i-1", Version: 1, State: ha.ItemDone, Text: "it was active"}
	open := ha.WhileOpen{EpisodeUUID: e.UUID, Version: 1}
	f.commit(l, open, ha.PutRun{Run: run}, ha.PutItem{Item: item}, ha.SetEpisode{UUID: e.UUID, Waiting: "w", Service: ha.ServiceDisabled, Braked: "b"})
	item.Text = "again"
	f.commit(l, ha.PutItem{Item: item})
	u = f.load(l)
	if diff := cmp.Diff([]ha.Item{item}, u.Storage.Items, cmpopts.IgnoreFields(ha.Item{}, "At")); diff != "" {
		f.Fatal(diff)
	}
	if diff := cmp.Diff([]ha.Run{run}, u.Storage.Runs, cmpopts.IgnoreFields(ha.Run{}, "UpdatedAt")); diff != "" {
		f.Fatal(diff)
	}
	if got := u.Storage.Episodes[0]; got.Waiting != "w" || got.Service != ha.ServiceDisabled || got.Braked != "b" {
		f.Fatalf("the episode is %+v", got)
	}
	fresh := ha.Unit{Work: ha.Work{Kind: ha.UnitStorage}, Storage: &ha.StorageUnit{Episodes: []ha.Episode{e}, Runs: []ha.Run{{EpisodeUUID: e.UUID, Version: 1, Kind: ha.ObjectInstance}}}}
	fresh.Apply(ha.PutRun{Run: run}, ha.PutItem{Item: item})
	if len(fresh.Storage.Items) != 1 || fresh.Storage.Runs[0] != run {
		f.Fatalf("applied: %+v", fresh.Storage)
	}

	// An operator lets it pass the brakes: the owner does not put one on again.
	f.must(f.HoldStorage(f.ctx, ha.Hold{EpisodeUUID: e.UUID, Off: true, By: "alice"}))
	f.commit(l, ha.SetEpisode{UUID: e.UUID, Braked: "again"})
	if got := f.load(l).Storage.Episodes[0]; got.Braked != "" || got.WaivedBy != "alice" {
		f.Fatalf("the episode is %+v", got)
	}
	f.must(f.HoldStorage(f.ctx, ha.Hold{EpisodeUUID: e.UUID, By: "bob", Reason: "wait"}))
	_, err := f.Commit(f.ctx, l, open)
	f.is(err, ha.ErrStale)
	f.must(f.HoldStorage(f.ctx, ha.Hold{HostUUID: h.UUID, Off: true, By: "bob"}))
	f.load(l)
	f.commit(l, open)
	_, err = f.Commit(f.ctx, l, ha.WhileOpen{EpisodeUUID: e.UUID, Version: 2})
	f.is(err, ha.ErrStale)
	_, err = f.Commit(f.ctx, &ha.Lease{WorkID: l.WorkID, Owner: "b", Epoch: l.Epoch}, ha.PutItem{Item: item})
	f.is(err, ha.ErrFenced)

	// A host that was fenced for its storage is reported, once.
	for range 2 {
		f.commit(l, ha.FileDeath{NotificationUUID: id(), HostUUID: h.UUID, Text: "fenced"})
	}
	notes, err := f.Notifications(f.ctx, ha.NotificationFilter{SourceHostUUID: &h.UUID}, byID)
	f.must(err)
	if len(notes) != 1 || notes[0].Payload[ha.KeyConfirmedBy] != "fenced" || !notes[0].Payload.Stopped() {
		f.Fatalf("filed: %+v", notes)
	}

	// Cleared: refused while the agent reports failure, then the run stops, and nothing begins any more.
	_, err = f.ClearStorage(f.ctx, ha.Clear{HostUUID: h.UUID, By: "alice"})
	fails[*ha.ConflictError](f, err)
	cleared, err := f.ClearStorage(f.ctx, ha.Clear{HostUUID: h.UUID, By: "alice", Reason: "r", Force: true, ResetInstances: true})
	f.must(err)
	equal(f, "cleared", cleared.UUID, e.UUID)
	_, err = f.Commit(f.ctx, l, open)
	f.is(err, ha.ErrStale)
	run.State = ha.RunOpen
	_, err = f.Commit(f.ctx, l, ha.PutRun{Run: run})
	f.is(err, ha.ErrStale)
	u = f.load(l)
	if got := u.Storage.Episodes[0]; got.Open() || got.ClearedBy != "alice" || !got.ResetInstances || u.Storage.Runs[0].State != ha.RunStopped {
		f.Fatalf("cleared: %+v, %+v", got, u.Storage.Runs)
	}
	_, err = f.ClearStorage(f.ctx, ha.Clear{HostUUID: h.UUID, By: "alice", Force: true})
	fails[*ha.ConflictError](f, err)
	fails[*ha.ConflictError](f, f.HoldStorage(f.ctx, ha.Hold{EpisodeUUID: e.UUID, By: "bob", Reason: "late"}))
	f.commit(l, ha.SetEpisode{UUID: e.UUID, Ended: true})
	if u = f.load(l); len(u.Storage.Episodes) != 0 {
		f.Fatalf("an ended episode is loaded: %+v", u.Storage.Episodes)
	}
	if a := f.said(says(h, 2, ha.CheckIOError, ha.CheckOK)); a.Opened != "" {
		f.Fatal("what an operator knew when he forced a clear opens an episode")
	}
	f.said(says(h, 3, ha.CheckOK, ha.CheckOK))
	if a := f.said(says(h, 4, ha.CheckIOError, ha.CheckOK)); a.Opened == "" {
		f.Fatal("a new failure opens no episode")
	}
}

// storageOperators: an operator's episode, holds of a host, lists, agents and sharers of a filesystem.
func storageOperators(f *fixture) {
	s := f.segment()
	h, o := f.host(s.UUID), f.host(s.UUID)
	f.must(f.HoldStorage(f.ctx, ha.Hold{HostUUID: h.UUID, By: "alice", Reason: "swap"}))
	e, err := f.FailStorage(f.ctx, ha.Fail{HostUUID: h.UUID, EpisodeUUID: id(), By: "bob", Reason: "smoke"})
	f.must(err)
	if e.Held.By != "alice" || len(e.Radius) != 0 || e.OpenedBy != "bob" || e.HostName != h.Name {
		f.Fatalf("opened: %+v", e)
	}
	grown, err := f.FailStorage(f.ctx, ha.Fail{HostUUID: h.UUID, EpisodeUUID: id(), By: "bob", Radius: []ha.ObjectKind{ha.ObjectBlob}})
	f.must(err)
	if grown.UUID != e.UUID || grown.Version != 2 {
		f.Fatalf("grown: %+v", grown)
	}
	same, err := f.FailStorage(f.ctx, ha.Fail{HostUUID: h.UUID, EpisodeUUID: id(), By: "bob", Radius: []ha.ObjectKind{ha.ObjectBlob}})
	f.must(err)
	equal(f, "version", same.Version, 2)
	second, err := f.FailStorage(f.ctx, ha.Fail{HostUUID: o.UUID, EpisodeUUID: id(), By: "bob", Radius: []ha.ObjectKind{ha.ObjectUpload}})
	f.must(err)
	list, err := f.Episodes(f.ctx, ha.EpisodeFilter{}, 1, "")
	f.must(err)
	rest, err := f.Episodes(f.ctx, ha.EpisodeFilter{Open: ptr(true)}, 10, second.UUID)
	f.must(err)
	if len(list) != 1 || list[0].UUID != second.UUID || len(rest) != 1 || rest[0].UUID != e.UUID || rest[0].HostName != h.Name {
		f.Fatalf("pages: %+v, %+v", list, rest)
	}
	_, err = f.Episodes(f.ctx, ha.EpisodeFilter{}, 10, id())
	fails[*ha.MarkerError](f, err)
	_, err = f.Episode(f.ctx, id())
	fails[*ha.NotFoundError](f, err)
	fails[*ha.NotFoundError](f, f.HoldStorage(f.ctx, ha.Hold{EpisodeUUID: id(), By: "x"}))

	_, err = f.ReportStorage(f.ctx, ha.AgentReport{HostUUID: h.UUID, EpisodeUUID: id(), TicketKey: []byte("k"), Epoch: 1 << 60, Seq: 1})
	f.must(err)
	f.must(f.SetAgentKey(f.ctx, h.UUID, "hash", "alice", []byte("k")))
	again, err := f.ReportStorage(f.ctx, ha.AgentReport{HostUUID: h.UUID, EpisodeUUID: id(), TicketKey: []byte("k"), Epoch: 1})
	f.must(err)
	equal(f, "epoch after a new key, of an agent whose clock had been ahead", again.Health.Epoch, int64(1))
	f.must(f.SetAgentUser(f.ctx, h.UUID, "user", "bob", []byte("other")))
	a, err := f.Agent(f.ctx, h.UUID)
	f.must(err)
	if a.KeyHash != "hash" || a.KeyBy != "alice" || a.KeyAt.IsZero() || a.UserID != "user" || a.UserBy != "bob" {
		f.Fatalf("agent is %+v", a)
	}
	none, err := f.Agent(f.ctx, o.UUID)
	f.must(err)
	equal(f, "agent of another host", none, ha.Agent{})
	fails[*ha.NotFoundError](f, f.SetAgentKey(f.ctx, id(), "hash", "alice", nil))
	fails[*ha.NotFoundError](f, f.SetStorageAction(f.ctx, id(), "error"))
	f.must(f.SetStorageAction(f.ctx, s.UUID, "error"))
	action, err := f.StorageAction(f.ctx, s.UUID)
	f.must(err)
	equal(f, "action", action, "error")
	gone := f.segment()
	f.must(f.SetStorageAction(f.ctx, gone.UUID, "evacuate"))
	f.must(f.DeleteSegment(f.ctx, gone.UUID))
	listed := func(after string, limit int) []ha.StorageAction {
		f.Helper()
		own, err := f.StorageActions(f.ctx, after, limit)
		f.must(err)
		return slices.DeleteFunc(own, func(a ha.StorageAction) bool { return a.SegmentUUID != s.UUID && a.SegmentUUID != gone.UUID })
	}
	if diff := cmp.Diff([]ha.StorageAction{{SegmentUUID: s.UUID, Action: "error"}}, listed("", 1000)); diff != "" {
		f.Fatalf("segments with an action of their own: %s", diff)
	}
	if own := listed(s.UUID, 1000); len(own) != 0 {
		f.Fatalf("behind it are %+v", own)
	}
	f.must(f.SetStorageAction(f.ctx, s.UUID, ""))
	action, err = f.StorageAction(f.ctx, s.UUID)
	f.must(err)
	equal(f, "action", action, "")
	same2, err := f.HostByUUID(f.ctx, h.UUID)
	f.must(err)
	equal(f, "host", same2.Name, h.Name)

	// A filesystem that both have reported, also when the failed probe cannot tell it any more; a fresh report wakes the unit.
	shared := func(host ha.Host, seq int64, st ha.CheckStatus, fs string) {
		f.Helper()
		r := says(host, seq, st, ha.CheckOK)
		r.Checks[0].FilesystemID = fs
		f.said(r)
	}
	shared(h, 1, ha.CheckOK, "nfs")
	shared(o, 1, ha.CheckOK, "nfs")
	shared(h, 2, ha.CheckMissing, "")
	l, u := f.storageUnit("a", h)
	if len(u.Storage.Sharers) != 1 || u.Storage.Sharers[0].HostName != o.Name || u.Storage.Sharers[0].Status != ha.CheckOK {
		f.Fatalf("sharers are %+v", u.Storage.Sharers)
	}
	before := f.commit(l).Signal
	shared(o, 2, ha.CheckOK, "nfs")
	if after := f.commit(l).Signal; after == before {
		f.Fatal("a fresh report of a host with the same filesystem wakes nobody")
	}
}
