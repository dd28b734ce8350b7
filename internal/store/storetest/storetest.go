// Package storetest is the one suite that every store passes: in memory, SQLite, MariaDB, PostgreSQL.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// Backend is a store: what the engine and the use cases need of the rows, and what operators do to them.
type Backend interface {
	Poll(ctx context.Context, me string) (ha.Poll, error)
	BeatEngine(ctx context.Context, e ha.Engine) error
	Engines(ctx context.Context) ([]ha.Engine, error)
	LeaveEngine(ctx context.Context, name string) error
	EngineStates(ctx context.Context) ([]ha.EngineState, error)
	Pauses(ctx context.Context) ([]ha.Pause, error)
	SetPause(ctx context.Context, p ha.Pause) error
	EndPause(ctx context.Context, segment string) error
	Claim(ctx context.Context, r ha.ClaimRequest) (ha.Lease, ha.Unit, error)
	Load(ctx context.Context, l *ha.Lease) (ha.Unit, error)
	Commit(ctx context.Context, l *ha.Lease, changes ...ha.Change) (ha.Beat, error)
	Beats(ctx context.Context, leases []ha.Lease) (map[int64]ha.Beat, error)

	Segments(ctx context.Context, f ha.SegmentFilter, p ha.Page) ([]ha.Segment, error)
	Segment(ctx context.Context, uuid string) (ha.Segment, error)
	CreateSegment(ctx context.Context, s ha.Segment) (ha.Segment, error)
	UpdateSegment(ctx context.Context, uuid string, p ha.SegmentPatch) (ha.Segment, error)
	DeleteSegment(ctx context.Context, uuid string) error
	Hosts(ctx context.Context, f ha.HostFilter, p ha.Page) ([]ha.Host, error)
	Host(ctx context.Context, segment, uuid string) (ha.Host, error)
	HostByName(ctx context.Context, name string) (ha.Host, error)
	CreateHost(ctx context.Context, h ha.Host) (ha.Host, error)
	UpdateHost(ctx context.Context, segment, uuid string, p ha.HostPatch) (ha.Host, error)
	DeleteHost(ctx context.Context, segment, uuid string) error
	Admit(ctx context.Context, r ha.Report, interval time.Duration) (ha.Notification, error)
	Notifications(ctx context.Context, f ha.NotificationFilter, p ha.Page) ([]ha.Notification, error)
	Notification(ctx context.Context, uuid string) (ha.Notification, error)
	VMoves(ctx context.Context, f ha.VMoveFilter, p ha.Page) ([]ha.VMove, error)
	VMove(ctx context.Context, notification, uuid string) (ha.VMove, error)
	Journal(ctx context.Context, notification string, before int64, limit int) ([]ha.Entry, error)
	Recovery(ctx context.Context, notification string) (ha.Work, error)
	Wish(ctx context.Context, notification string, w ha.Wish) error
	Outlook(ctx context.Context, segment string) (ha.Outlook, error)
	Ping(ctx context.Context) error

	StorageBackend

	Purge(ctx context.Context, ageDays, maxRows int) (rules.Purged, error)

	BlobBackend
}

// Open opens a database once more, as another process would.
type Open func(t *testing.T) Backend

// Run runs the suite. fresh makes an empty database for one test.
func Run(t *testing.T, fresh func(t *testing.T) Open) {
	for _, c := range []struct {
		name string
		run  func(*fixture)
	}{
		{"Segments", segments}, {"SegmentNames", segmentNames}, {"SegmentInUse", segmentInUse},
		{"Hosts", hosts}, {"HostNames", hostNames}, {"HostInUse", hostInUse}, {"HostMaintenance", hostMaintenance},
		{"Pauses", pauses}, {"EngineStates", engineStates}, {"Outlook", outlook},
		{"Unknown", unknown}, {"LostCreate", lostCreate},
		{"Pages", pages}, {"SortNulls", sortNulls}, {"Filters", filters}, {"BadMarkers", badMarkers},
		{"AdmitStores", admitStores}, {"AdmitRules", admitRules}, {"AdmitMaintenance", admitMaintenance}, {"AdmitSignals", admitSignals},
		{"AdmitOnce", admitOnce}, {"AdmitAgain", admitAgain}, {"AdmitWhileDeleted", admitWhileDeleted},
		{"PollFresh", pollFresh}, {"PollUnits", pollUnits}, {"Engines", engines},
		{"ClaimFresh", claimFresh}, {"Beats", beats}, {"ClaimRace", claimRace}, {"TakeoverRace", takeoverRace}, {"Fence", fence}, {"FenceRace", fenceRace},
		{"Beat", beat}, {"UnitIsWhole", unitIsWhole}, {"UnitOfDeleted", unitOfDeleted}, {"DeletedWithClaims", deletedWithClaims}, {"RegisteredAgain", registeredAgain}, {"RenamedToDeleted", renamedToDeleted}, {"SpareAgain", spareAgain}, {"Peers", peers}, {"Others", others}, {"Earlier", earlier},
		{"SetNotification", setNotification}, {"Moves", moves}, {"PlannedMoves", plannedMoves}, {"MoveFields", moveFields}, {"RecoveryFields", recoveryFields},
		{"Journal", journal}, {"Claims", claims}, {"SetHost", setHost}, {"Adopt", adopt}, {"EndUnit", endUnit}, {"Park", park},
		{"StartUnit", startUnit}, {"TouchSegment", touchSegment}, {"GiveWay", giveWay}, {"GiveWayRace", giveWayRace},
		{"Reserve", reserve}, {"AllOrNothing", allOrNothing},
		{"StorageReports", storageReports}, {"StorageOnce", storageOnce}, {"StorageCascade", storageCascade}, {"StorageOperators", storageOperators},
		{"BlobCatalogue", blobCatalogue}, {"BlobCopied", blobCopied}, {"BlobStalePlan", blobStalePlan}, {"BlobDropsCount", blobDropsCount}, {"BlobRehashed", blobRehashed},
		{"BlobSuspected", blobSuspected}, {"BlobReports", blobReports}, {"BlobFailures", blobFailures},
		{"Wishes", wishes}, {"WishesOfEnded", wishesOfEnded}, {"RetryOfDeletedHost", retryOfDeletedHost}, {"RetryMove", retryMove},
		{"Purge", purge}, {"PurgeBounds", purgeBounds}, {"PurgeStorage", purgeStorage}, {"PurgeHosts", purgeHosts}, {"Texts", texts}, {"Times", times}, {"EndedContext", endedContext},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := fresh(t)
			c.run(&fixture{T: t, ctx: t.Context(), Backend: open(t), open: open})
		})
	}
}

// fixture is one test's database, and the short ways to fill it.
type fixture struct {
	*testing.T
	Backend
	ctx  context.Context
	open Open
	n    int
}

// interval is duplicate_notification_detection_interval in these tests.
const interval = 180 * time.Second

// ttl is the lease of the engines in these tests.
const ttl = 5 * time.Second

// byID lists everything, the oldest first.
var byID = ha.Page{Limit: 1000, Sort: []ha.Sort{{Field: ha.FieldID}}}

func id() string { return uuid.NewString() }

func ptr[T any](v T) *T { return &v }

// must ends the test on an error.
func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// fails wants err to be of type E, and returns it.
func fails[E error](f *fixture, err error) E {
	f.Helper()
	var e E
	if !errors.As(err, &e) {
		f.Fatalf("error is %v (%T), want %T", err, err, e)
	}
	return e
}

func (f *fixture) is(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("error is %v, want %v", err, want)
	}
}

func equal[T comparable](f *fixture, what string, got, want T) {
	f.Helper()
	if got != want {
		f.Fatalf("%s is %v, want %v", what, got, want)
	}
}

func (f *fixture) segment() ha.Segment {
	f.Helper()
	f.n++
	s, err := f.CreateSegment(f.ctx, ha.Segment{
		UUID: id(), Name: fmt.Sprintf("rack-%d", f.n), ServiceType: "COMPUTE", RecoveryMethod: ha.MethodAuto, Enabled: true,
	})
	f.must(err)
	return s
}

func (f *fixture) host(segment string) ha.Host {
	f.Helper()
	f.n++
	h, err := f.CreateHost(f.ctx, ha.Host{
		UUID: id(), Name: fmt.Sprintf("cmp-%03d", f.n), SegmentUUID: segment, Type: "COMPUTE", ControlAttributes: "SSH",
	})
	f.must(err)
	return h
}

// report makes a report of a host; at is its generated_time, in seconds from a fixed moment.
func report(h ha.Host, typ ha.Type, at int, payload ha.Payload) ha.Report {
	return ha.Report{
		UUID: id(), Type: typ, Hostname: h.Name, Payload: payload,
		GeneratedTime: time.Date(2026, 11, 29, 11, 0, 0, 123456000, time.UTC).Add(time.Duration(at) * time.Second),
	}
}

func death(h ha.Host, at int) ha.Report {
	return report(h, ha.TypeComputeHost, at, ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyHostStatus: ha.HostStatusNormal, ha.KeyClusterStatus: "OFFLINE"})
}

func unsureDeath(h ha.Host, at int) ha.Report {
	return report(h, ha.TypeComputeHost, at, ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyHostStatus: "UNKNOWN", ha.KeyClusterStatus: "OFFLINE"})
}

func start(h ha.Host, at int) ha.Report {
	return report(h, ha.TypeComputeHost, at, ha.Payload{ha.KeyEvent: ha.EventStarted, ha.KeyHostStatus: ha.HostStatusNormal, ha.KeyClusterStatus: "ONLINE"})
}

func process(h ha.Host, at int, event string) ha.Report {
	return report(h, ha.TypeProcess, at, ha.Payload{ha.KeyEvent: event, ha.KeyProcessName: "nova-compute"})
}

func vm(h ha.Host, at int, instance string) ha.Report {
	return report(h, ha.TypeVM, at, ha.Payload{ha.KeyEvent: "LIFECYCLE", ha.KeyInstanceUUID: instance, ha.KeyVirDomainEvent: "STOPPED_FAILED"})
}

func (f *fixture) admit(r ha.Report) ha.Notification {
	f.Helper()
	n, err := f.Admit(f.ctx, r, interval)
	f.must(err)
	return n
}

// freshOf is the fresh work that a notification is.
func freshOf(n ha.Notification) ha.Fresh {
	kind, key := n.UnitKey()
	return ha.Fresh{NotificationUUID: n.UUID, Kind: kind, Key: key, HostUUID: n.SourceHostUUID, SegmentUUID: *n.SegmentUUID}
}

func (f *fixture) claim(owner string, n ha.Notification) (*ha.Lease, ha.Unit) {
	f.Helper()
	l, u, err := f.Claim(f.ctx, ha.ClaimRequest{Owner: owner, TTL: ttl, Fresh: freshOf(n)})
	f.must(err)
	return &l, u
}

// takeOver claims a unit that somebody else has or had.
func (f *fixture) takeOver(owner string, l ha.Lease) (*ha.Lease, ha.Unit) {
	f.Helper()
	got, u, err := f.Claim(f.ctx, ha.ClaimRequest{Owner: owner, TTL: ttl, WorkID: l.WorkID, Epoch: l.Epoch, Beat: l.Beat})
	f.must(err)
	return &got, u
}

func (f *fixture) commit(l *ha.Lease, changes ...ha.Change) ha.Beat {
	f.Helper()
	b, err := f.Commit(f.ctx, l, changes...)
	f.must(err)
	return b
}

func (f *fixture) load(l *ha.Lease) ha.Unit {
	f.Helper()
	u, err := f.Load(f.ctx, l)
	f.must(err)
	return u
}

func (f *fixture) poll(me string) ha.Poll {
	f.Helper()
	p, err := f.Poll(f.ctx, me)
	f.must(err)
	return p
}

// incident is a host whose death was admitted and claimed by engine "a".
func (f *fixture) incident() (ha.Host, ha.Notification, *ha.Lease) {
	f.Helper()
	h := f.host(f.segment().UUID)
	n := f.admit(death(h, 0))
	l, _ := f.claim("a", n)
	return h, n, l
}

// end ends a notification and its unit.
func (f *fixture) end(l *ha.Lease, n ha.Notification, s ha.Status) {
	f.Helper()
	f.load(l)
	f.commit(l, ha.SetNotification{UUID: n.UUID, Status: ha.StatusRunning}, ha.SetNotification{UUID: n.UUID, Status: s}, ha.EndUnit{})
}
