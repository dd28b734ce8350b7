package engine

import (
	"context"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Store is what the engine needs of the rows. Every method is one transaction; transient failures (deadlocks, Galera
// certification, busy) are retried inside; what is left is an error that says so.
type Store interface {
	// Poll looks for work that me could claim. At most two statements, both by index, however many rows there are.
	Poll(ctx context.Context, me string) (ha.Poll, error)
	// BeatEngine writes that e is alive (one statement); Engines lists those whose beat the caller compares; LeaveEngine takes
	// one out of that list when it stops.
	BeatEngine(ctx context.Context, e ha.Engine) error
	LeaveEngine(ctx context.Context, name string) error
	Engines(ctx context.Context) ([]ha.Engine, error)
	// Claim takes a unit and loads it, in one transaction; ErrLost when another engine was first, the unit has ended, or a
	// fresh notification is no longer new.
	Claim(ctx context.Context, r ha.ClaimRequest) (ha.Lease, ha.Unit, error)
	// Load reads the unit again, in one transaction that fences like Commit; it is a beat.
	Load(ctx context.Context, l *ha.Lease) (ha.Unit, error)
	// Commit is the fence: in one transaction it moves the beat where id, owner and epoch still are the lease's, then
	// applies the changes in order. ErrFenced, or a guard's error, and nothing written. On success l.Beat is the row's.
	// An answer that was lost is looked up by (epoch, beat), never replayed. Without changes it is a beat.
	Commit(ctx context.Context, l *ha.Lease, changes ...ha.Change) (ha.Beat, error)
	// Beats renews leases of this owner of which none has a commit under way, in one statement, and returns the beats by WorkID.
	// About one that is not among them Commit tells.
	Beats(ctx context.Context, leases []ha.Lease) (map[int64]ha.Beat, error)
}

// Cloud is what the engine needs of Nova. Errors are *ha.CloudError. Every call ends by ctx.
type Cloud interface {
	// Services lists all compute services, schedulers and conductors.
	Services(ctx context.Context) ([]ha.Service, error)
	// Servers lists ALL servers whose OS-EXT-SRV-ATTR:host is host, all projects, all pages, all cells. A server without
	// that attribute is an error.
	Servers(ctx context.Context, host string) ([]ha.Server, error)
	// Server reads one; ClassGone when it does not exist.
	Server(ctx context.Context, id string) (ha.Server, error)
	// Migrations lists the records whose source is host (evacuations and live migrations), newest first, all pages.
	Migrations(ctx context.Context, host string) ([]ha.Migration, error)
	// Actions lists what was asked of an instance, newest first.
	Actions(ctx context.Context, instance string) ([]ha.ServerAction, error)
	// Providers names the hosts in whose resource providers Placement holds allocations for the instance.
	Providers(ctx context.Context, instance string) ([]string, error)
	// Aggregates lists all host aggregates.
	Aggregates(ctx context.Context) ([]ha.Aggregate, error)
	// Do carries out one act. It is sent at most once: no retry inside for acts that change something.
	Do(ctx context.Context, act ha.Act) (ha.Outcome, error)
}

// Fencer is what the engine needs of power control.
type Fencer interface {
	// Configured reports whether there is a way to power that host off.
	Configured(host string) bool
	// Fence powers the host off and looks until it is seen off twice; "off already" is success. It may be called again and
	// again. An error only when nothing could be tried, such as the end of ctx; otherwise the result tells what was seen.
	Fence(ctx context.Context, host string) (ha.FenceResult, error)
}
