// Package plan decides. Given what the rows say, what the cloud was seen to be and the time, it says what to write, what to
// do and what to look at next. It is pure: no I/O, no clock, no goroutine, no randomness; the same view gives the same
// decision, so that all of RECOVERY.md can be read and tested here, and a takeover is just the next call by someone else.
//
// A turn: the engine hands in a View; the plan digests the outcomes of acts, heeds wishes and later reports, takes as many
// steps as it can without waiting, and returns a Decision. The engine commits the changes, and only then sends the acts.
package plan

import (
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Rules are the options that decide (RECOVERY section 8 and contract section 6).
type Rules struct {
	MetadataKey     string // host_failure.ha_enabled_instance_metadata_key
	EvacuateAll     bool
	IgnoreError     bool // ignore_instances_in_error_state
	AddToAggregate  bool // add_reserved_host_to_aggregate
	LeaveLocalDisk  bool // local_disk = leave: an instance whose disk is on the dead host is not made anew from its image
	DisableReason   string
	Threads         int // host_failure_recovery_threads when the file sets it; 0: unlimited
	VMMetadataKey   string
	StorageAction   string // storage_failure_action: error or evacuate
	ProcessAll      bool   // instance_failure.process_all_instances
	ProcessReason   string
	WaitService     time.Duration // wait_period_after_service_update
	WaitEvacuation  time.Duration
	WaitPowerOff    time.Duration
	WaitPowerOn     time.Duration
	RetryInterval   time.Duration // process_unfinished_notifications_interval
	Expiry          time.Duration // notifications_expired_interval
	ForceDown       bool
	TrustReports    bool
	ReportInterval  time.Duration // nova_report_interval
	ProofMaxAge     time.Duration
	OrderInDoubt    time.Duration
	NovaTimeout     time.Duration
	BrakePercent    int
	RecoveryRate    int // host_recovery_rate
	MaxAttempts     int
	AutoReturn      bool
	HealthyDelay    time.Duration
	VerifyInterval  time.Duration
	ProcessesOfNova []string // process names that mean nova-compute
	NoPeriodic      bool     // periodic_enable is off: nothing is retried or expires by itself
	Classes         []ha.InstanceClass
	RestartLimit    int           // instance_restart_limit; 0: none
	RestartWindow   time.Duration // instance_restart_window
	ReturnLimit     int           // auto_return_limit; 0: none
	ReturnWindow    time.Duration // auto_return_window
}

// Choice are the rules by which a failed host's instances are chosen.
func (r Rules) Choice() ha.Choice {
	return ha.Choice{Key: r.MetadataKey, All: r.EvacuateAll, IgnoreError: r.IgnoreError, LeaveLocal: r.LeaveLocalDisk, Classes: r.Classes}
}

// Restarting are the rules by which a VM report restarts an instance.
func (r Rules) Restarting() ha.Choice {
	return ha.Choice{Key: r.VMMetadataKey, All: r.ProcessAll, Classes: r.Classes}
}

// Seen is a fact with the time at which the look that brought it STARTED, on the database's clock: what happened later it
// cannot know. At is zero before the first look; after a look that failed, Value and At are still the last good ones.
type Seen[T any] struct {
	Value T
	At    time.Time // when the look began: the value is no older
	Came  time.Time // when its answer had come: the value is no newer
	Err   error     // of the latest look, nil when it worked
	Tried time.Time // when the latest look started
}

// until is the latest moment of which the value can tell.
func (s Seen[T]) until() time.Time {
	if s.Came.Before(s.At) {
		return s.At
	}
	return s.Came
}

// After reports whether the fact was looked for at or after t.
func (s Seen[T]) After(t time.Time) bool { return !s.At.IsZero() && !s.At.Before(t) }

// Facts are what the cloud was seen to be.
type Facts struct {
	Services   Seen[[]ha.Service]
	Servers    Seen[[]ha.Server] // of the unit's host
	Lists      int               // how many server lists have come
	Migrations Seen[[]ha.Migration]
	Aggregates Seen[[]ha.Aggregate]
	Server     map[string]Seen[ha.Server] // by instance: those that left the list, or of an instance unit
	Actions    map[string]Seen[[]ha.ServerAction]
	Providers  map[string]Seen[[]string]
}

// PutService digests what a PUT of ours answered: newer than any look that started before it. It tells of this service alone, and
// nothing where no list was seen: only one of the unit's own host makes the fact younger.
func (f *Facts) PutService(s ha.Service, at time.Time, own bool) {
	i := slices.IndexFunc(f.Services.Value, func(have ha.Service) bool { return have.ID == s.ID && !have.CellAway })
	if i < 0 {
		return
	}
	f.Services.Value = slices.Clone(f.Services.Value)
	f.Services.Value[i] = s
	if own && at.After(f.Services.At) {
		f.Services.At = at
	}
}

// LookKind names a question to the cloud.
type LookKind string

const (
	LookServices   LookKind = "services"
	LookServers    LookKind = "servers"
	LookMigrations LookKind = "migrations"
	LookAggregates LookKind = "aggregates"
	LookServer     LookKind = "server"
	LookActions    LookKind = "actions"
	LookProviders  LookKind = "providers"
)

// Look is a fact that the plan wants (again). The engine looks at once if the fact was never seen, else at its own pace
// (once a second for one host, stretched under load).
type Look struct {
	Kind LookKind
	ID   string // the instance, for the last three kinds
}

// Memory is what an owner remembers between turns and may lose at any time: a takeover begins without it.
type Memory struct {
	Heart     Heart
	Dests     map[string]Heart     // of hosts that orders which have not ended went to
	Heard     map[string]heard     // of hosts that count for the brake, and that Nova hears
	Doubt     map[string]time.Time // act kind and key -> when its answer was lost: it may still be done
	EmptySeen int                  // value of Facts.Lists when the host's list was first seen empty, plus one
	Tries     map[string]int       // act key -> failures in a row, for back-off
	NotBefore map[string]time.Time // act key -> when it may be tried again
	Since     map[string]time.Time // when something that is awaited began, by what it is
	Said      map[string]bool      // alarms and progress written, so that an owner writes each once
	Unclear   map[string]string    // resets of a storage unit whose answer was lost, by instance: what they were
	Room      []string             // the hosts that could take instances when the wait for room began
}

// View is all that a decision rests on.
type View struct {
	Unit     ha.Unit
	Now      time.Time // the database's clock
	Facts    Facts
	Results  []ha.Outcome          // acts that ended since the last turn
	InFlight map[string]ha.ActKind // acts sent by this owner that have not ended, by key
	Memory   Memory
	Rules    Rules
	Slots    int  // acts on instances that may be sent now: the process's limit towards Nova less what is in flight
	Draining bool // the engine stops: outcomes are digested, nothing is sent
	Fencing  bool // a fencing method is configured for the host

	FencingUnknown bool // of a rehearsal alone: Fencing is not known where it is made
}

// Decision is what a turn came to. When Ended the changes end the unit. Otherwise the next turn comes at Wake at the latest
// (zero: when something happens), and if Park is set and nothing is in flight the lease may be given up that long.
type Decision struct {
	Changes []ha.Change
	Acts    []ha.Act
	Looks   []Look
	Wake    time.Time
	Park    time.Duration
	Starved bool // acts wait for slots: a turn is wanted when one is free
	Reload  bool // the next turn needs the rows of others as they are then: load the unit again
	Ended   bool
	Memory  Memory
}

// Decide is the plan of any unit of work.
func Decide(v View) Decision {
	switch v.Unit.Kind {
	case ha.UnitHost:
		return Host(v)
	case ha.UnitInstance:
		return VM(v)
	case ha.UnitProcess:
		return Process(v)
	case ha.UnitStorage:
		return Storage(v)
	default:
		return TakeBack(v)
	}
}
