package ha

import (
	"errors"
	"fmt"
	"time"
)

// Service is a Nova service as os-services shows it at 2.53 and up.
type Service struct {
	ID             string
	Binary         string // nova-compute, nova-scheduler, nova-conductor
	Host           string
	Enabled        bool
	Up             bool // state; false at once when forced down
	ForcedDown     bool
	DisabledReason string
	UpdatedAt      time.Time // moves with every heartbeat, and with every PUT
	// CellAway says that Host has a compute service in a cell that Nova cannot reach: it is there, and nothing else is known of it.
	// Binary is "" then, so that it counts neither as up nor as down.
	CellAway bool
}

const BinaryCompute = "nova-compute"

// Server is an instance as Nova shows it to an admin.
type Server struct {
	ID   string
	Name string
	Host string // OS-EXT-SRV-ATTR:host, the compute service's name; never the hypervisor's (field finding S01)
	// Hypervisor is the name of the host's hypervisor, often its full one; "" where Nova does not show it. It is shown, never decided by.
	Hypervisor string
	VMState    string
	TaskState  string // "" for null
	Running    bool   // power_state 1
	Locked     bool
	Metadata   map[string]string
	CreatedAt  time.Time
	Fault      string // Nova's message, when it is in error
	Project    string
	// ImageBooted says that the root disk was made from an image and is not a volume: unless the hosts share their instance
	// store, it dies with its host, and an evacuation makes it anew from the image.
	ImageBooted bool
	Needs       Needs // of its flavor, in Placement's words
	// Flavor is its name, ExtraSpecs what it asks for; "" and nil when Nova does not show them.
	Flavor     string
	ExtraSpecs map[string]string
	// Image is the image's id, "" of one that boots from a volume. ImageProperties are nil when Nova does not show them (before 2.98).
	Image           string
	ImageProperties map[string]string
}

// vm_states as Nova names them.
const (
	VMActive           = "active"
	VMStopped          = "stopped"
	VMError            = "error"
	VMPaused           = "paused"
	VMSuspended        = "suspended"
	VMRescued          = "rescued"
	VMResized          = "resized"
	VMBuilding         = "building"
	VMShelved          = "shelved"
	VMShelvedOffloaded = "shelved_offloaded"
	VMDeleted          = "deleted"
	VMSoftDeleted      = "soft-delete"

	TaskStateMigrating = "migrating"
)

// Migration is a record of os-migrations.
type Migration struct {
	ID         int64
	InstanceID string
	Type       string // evacuation, live-migration, migration, resize
	Status     string
	Source     string // source_compute
	Dest       string // dest_compute, "" while Nova has not chosen
	CreatedAt  time.Time
}

const (
	MigrationEvacuation    = "evacuation"
	MigrationLiveMigration = "live-migration"
)

// Done, Failed and UnderWay sort the statuses of a record (NOVA-OBSERVATIONS, "Records of an evacuation").
func (m Migration) Done() bool { return m.Status == "done" || m.Status == "completed" }
func (m Migration) Failed() bool {
	return m.Status == "error" || m.Status == "failed" || m.Status == "cancelled"
}
func (m Migration) UnderWay() bool { return !m.Done() && !m.Failed() }

// ServerAction is a record of os-instance-actions: who asked for what.
type ServerAction struct {
	Action    string // stop, start, reboot, evacuate
	UserID    string
	StartedAt time.Time
	Message   string
}

// Aggregate is a host aggregate.
type Aggregate struct {
	ID    string
	Name  string
	Hosts []string
}

// ActKind is a kind of external act on the cloud.
type ActKind string

const (
	ActLock            ActKind = "lock"
	ActUnlock          ActKind = "unlock"
	ActEvacuate        ActKind = "evacuate" // the one act that must never be sent twice (invariant I4)
	ActResetState      ActKind = "reset-state"
	ActStop            ActKind = "stop"
	ActStart           ActKind = "start"
	ActService         ActKind = "service" // PUT os-services: any of forced_down, status, reason in one call
	ActAggregateAdd    ActKind = "aggregate-add"
	ActAggregateRemove ActKind = "aggregate-remove"
	ActFence           ActKind = "fence" // not Nova's: power the host off, and see it off
)

// Act is one external act. Key names what it acts upon, so that at most one per key is in flight: the instance's uuid,
// or "service:<host>", "aggregate:<id>:<host>".
type Act struct {
	Key      string
	Kind     ActKind
	Host     string // the failed host, or the host whose service or aggregate is changed
	Instance string
	Target   string // evacuate: the named destination, "" for Nova's choice
	State    string // reset-state: error or active
	Reason   string // lock and disable: why, naming salvor

	ServiceID  string
	ForcedDown *bool // service: nil leaves it
	Enable     *bool // service: nil leaves status
	Aggregate  string

	// SendBy is the last moment at which an evacuate order may leave: 1 s after its intent was committed (RECOVERY
	// section 2, "Never two orders"). The engine sets it on its own clock; zero: no bound.
	SendBy time.Time
}

// Outcome is how an act ended. Err is nil when the cloud took it; a *CloudError otherwise.
type Outcome struct {
	Act     Act
	Err     error
	Service *Service     // of ActService: the whole service that the PUT answered
	Fence   *FenceResult // of ActFence: what was seen; Err is nil only when the host was seen off
	At      time.Time    // when the answer came
}

// Class sorts what can go wrong with a call to the cloud (RECOVERY section 5).
type Class string

const (
	ClassGone    Class = "gone"     // 404: the object does not exist
	ClassRefused Class = "refused"  // any other 4xx: this call will not be taken as it stands
	ClassBusy    Class = "busy"     // 429, or 503 for a call that changes nothing: try again later, nothing was done
	ClassBroken  Class = "broken"   // a call that changes nothing failed: network, 5xx, unreadable answer
	ClassInDoubt Class = "in doubt" // a call that changes something failed without a certain answer: it may have been done
	ClassNotSent Class = "not sent" // the lease or the order's deadline ended before it left: certainly not done
)

// CloudError is a failed call to the cloud. Text is the cloud's own, without secrets.
type CloudError struct {
	Class  Class
	Op     string // what was called, e.g. "POST servers/ID/action evacuate"
	Status int    // HTTP status, 0 when there was no answer
	Text   string
}

func (e *CloudError) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s: %d %s (%s)", e.Op, e.Status, e.Text, e.Class)
	}
	return fmt.Sprintf("%s: %s (%s)", e.Op, e.Text, e.Class)
}

// ClassOf returns the class of err: "" for nil, broken for an error that is no CloudError.
func ClassOf(err error) Class {
	if err == nil {
		return ""
	}
	var ce *CloudError
	if errors.As(err, &ce) {
		return ce.Class
	}
	return ClassBroken
}

// StatusOf returns the HTTP status of err, 0 when it has none.
func StatusOf(err error) int {
	var ce *CloudError
	if errors.As(err, &ce) {
		return ce.Status
	}
	return 0
}

// TextOf returns the cloud's own words of err.
func TextOf(err error) string {
	if err == nil {
		return ""
	}
	var ce *CloudError
	if errors.As(err, &ce) {
		return ce.Text
	}
	return err.Error()
}
