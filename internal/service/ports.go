package service

import (
	"context"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Store is what the use cases need of the rows. Every method is one transaction and durable when it returns nil.
// Errors are ha's typed errors; what is temporary is *ha.UnavailableError.
type Store interface {
	StorageStore

	Segments(ctx context.Context, f ha.SegmentFilter, p ha.Page) ([]ha.Segment, error)
	Segment(ctx context.Context, uuid string) (ha.Segment, error)
	// CreateSegment stores s (UUID set by the caller) and returns it with ID and CreatedAt; ExistsError by name, without
	// regard to case.
	CreateSegment(ctx context.Context, s ha.Segment) (ha.Segment, error)
	// UpdateSegment and DeleteSegment: NotFoundError, then InUseError (contract 1.7). Delete takes the hosts along.
	UpdateSegment(ctx context.Context, uuid string, p ha.SegmentPatch) (ha.Segment, error)
	DeleteSegment(ctx context.Context, uuid string) error

	Hosts(ctx context.Context, f ha.HostFilter, p ha.Page) ([]ha.Host, error)
	Host(ctx context.Context, segment, uuid string) (ha.Host, error)
	HostByName(ctx context.Context, name string) (ha.Host, error)
	CreateHost(ctx context.Context, h ha.Host) (ha.Host, error)
	// UpdateHost and DeleteHost: InUseError for a host with an open notification and for a reserved host in use (contract 12,
	// row 18). A PUT that changes on_maintenance changes the operator's claim; one that clears it drops salvor's
	// maintenance claims too and wakes the take-back (RECOVERY section 7).
	UpdateHost(ctx context.Context, segment, uuid string, p ha.HostPatch) (ha.Host, error)
	DeleteHost(ctx context.Context, segment, uuid string) error

	// Admit decides and stores a report in one transaction whose first statement touches the host's row (rule A1):
	// NotFoundError for an unknown host, MaintenanceError (A4), DuplicateError (A2, A3). It signals the active unit of
	// the notification's key, and for a STARTED host report also the host's take-back. A report whose uuid is already
	// stored is the caller's own after a lost answer: it is returned.
	Admit(ctx context.Context, r ha.Report, interval time.Duration) (ha.Notification, error)
	Notifications(ctx context.Context, f ha.NotificationFilter, p ha.Page) ([]ha.Notification, error)
	Notification(ctx context.Context, uuid string) (ha.Notification, error)
	VMoves(ctx context.Context, f ha.VMoveFilter, p ha.Page) ([]ha.VMove, error)
	VMove(ctx context.Context, notification, uuid string) (ha.VMove, error)
	// Journal returns the newest entries of a notification in true order, at most limit; with before, the id of one of
	// them, those before it. MarkerError for an id that is none of them.
	Journal(ctx context.Context, notification string, before int64, limit int) ([]ha.Entry, error)
	// Recovery returns the latest unit of work of a notification; NotFoundError when there was none.
	Recovery(ctx context.Context, notification string) (ha.Work, error)
	// Wish writes an operator's order into the unit's wishes and signals it. A retry of an ended, failed recovery makes a
	// new unit for it. ConflictError says why an order does not fit.
	Wish(ctx context.Context, notification string, w ha.Wish) error
	// EngineStates lists the engines seen within the last hour with what each holds.
	EngineStates(ctx context.Context) ([]ha.EngineState, error)
	// Pauses lists the pauses that stand. SetPause writes one in place of another with its scope: NotFoundError of the segment.
	// EndPause: NotFoundError when none stands. Both signal the active units under it.
	Pauses(ctx context.Context) ([]ha.Pause, error)
	SetPause(ctx context.Context, p ha.Pause) error
	EndPause(ctx context.Context, segment string) error
	// Outlook reads what a recovery of any host of the segment would begin with. NotFoundError.
	Outlook(ctx context.Context, segment string) (ha.Outlook, error)
	Ping(ctx context.Context) error

	BlobStore
}

// ComputeServices is what the use cases need of Nova.
type ComputeServices interface {
	// HasComputeService reports whether Nova has a nova-compute of that host, whatever its state.
	HasComputeService(ctx context.Context, host string) (bool, error)
}

// Cloud is what coverage and plans need of Nova: looks, as the engine takes them. Errors are *ha.CloudError. Each call ends in its time.
type Cloud interface {
	Services(ctx context.Context) ([]ha.Service, error)
	Servers(ctx context.Context, host string) ([]ha.Server, error)
	Server(ctx context.Context, id string) (ha.Server, error)
	Migrations(ctx context.Context, host string) ([]ha.Migration, error)
	Aggregates(ctx context.Context) ([]ha.Aggregate, error)
	// Room lists the hosts that Placement offers for the needs, whatever their services' states.
	Room(ctx context.Context, needs ha.Needs) ([]ha.Room, error)
}
