package ha

import (
	"maps"
	"time"
)

// Type is what a notification reports about.
type Type string

const (
	TypeComputeHost Type = "COMPUTE_HOST"
	TypeVM          Type = "VM"
	TypeProcess     Type = "PROCESS"
)

// Status is a notification's state. No other word reaches the wire (RECOVERY, head).
type Status string

const (
	StatusNew      Status = "new"
	StatusRunning  Status = "running"
	StatusError    Status = "error"
	StatusFailed   Status = "failed"
	StatusFinished Status = "finished"
	StatusIgnored  Status = "ignored"
)

// Open reports whether a recovery is still owed: new, running or error (rule A2).
func (s Status) Open() bool { return s == StatusNew || s == StatusRunning || s == StatusError }

// notificationMoves are the legal transitions. error goes back to running when it is retried (RECOVERY section 5); an
// ended notification goes back to running only by an operator's retry.
var notificationMoves = map[Status][]Status{
	StatusNew:      {StatusRunning, StatusIgnored, StatusFinished, StatusFailed, StatusError},
	StatusRunning:  {StatusFinished, StatusIgnored, StatusError, StatusFailed},
	StatusError:    {StatusRunning, StatusFinished, StatusIgnored, StatusFailed},
	StatusFailed:   {StatusRunning},
	StatusFinished: {},
	StatusIgnored:  {},
}

// CanBecome reports whether a notification may go from s to next. Staying is always legal.
func (s Status) CanBecome(next Status) bool {
	if s == next {
		return true
	}
	for _, to := range notificationMoves[s] {
		if to == next {
			return true
		}
	}
	return false
}

// Payload keys and words (contract section 3).
const (
	KeyEvent          = "event"
	KeyHostStatus     = "host_status"
	KeyClusterStatus  = "cluster_status"
	KeyProcessName    = "process_name"
	KeyInstanceUUID   = "instance_uuid"
	KeyVirDomainEvent = "vir_domain_event"

	// KeyConfirmedBy marks a report that salvor itself files for an operator's confirm-off. It is refused from outside.
	KeyConfirmedBy = "salvor_confirmed_by"

	EventStarted = "STARTED"
	EventStopped = "STOPPED"

	HostStatusNormal = "NORMAL"

	ProcessNovaCompute = "nova-compute"
)

// Payload is a notification's payload; admission has checked it against the type's rules.
type Payload map[string]string

// Equal compares payloads as objects (rule A3).
func (p Payload) Equal(q Payload) bool { return maps.Equal(p, q) }

// Stopped and Started read the event of a host or process report.
func (p Payload) Stopped() bool { return p[KeyEvent] == EventStopped }
func (p Payload) Started() bool { return p[KeyEvent] == EventStarted }

// Normal reports that the monitor calls the host's state certain.
func (p Payload) Normal() bool { return p[KeyHostStatus] == HostStatusNormal }

// vmActedOn are the (event, vir_domain_event) pairs that lead to an instance recovery (RECOVERY section 3, row 1).
var vmActedOn = map[[2]string]bool{
	{"LIFECYCLE", "STOPPED_FAILED"}:              true,
	{"IO_ERROR", "IO_ERROR_REPORT"}:              true,
	{"QEMU_GUEST_AGENT_ERROR", "STOPPED_FAILED"}: true,
}

// VMActedOn reports whether the VM event leads to a recovery; all others are ignored.
func (p Payload) VMActedOn() bool { return vmActedOn[[2]string{p[KeyEvent], p[KeyVirDomainEvent]}] }

// Notification is one admitted report and how its recovery stands.
type Notification struct {
	Stamps         // CreatedAt is the receipt, by the database's clock
	ID             int64
	UUID           string
	GeneratedTime  time.Time // the sender's clock: compared with other GeneratedTimes only (rule A7)
	SourceHostUUID string
	SegmentUUID    *string
	Type           Type
	Payload        Payload
	Status         Status
	Message        *string
}

// Report is what a monitor posts. UUID is fixed before the transaction, so that a lost commit answer is looked up and
// not replayed (rule A1).
type Report struct {
	UUID          string
	Type          Type
	Hostname      string
	GeneratedTime time.Time
	Payload       Payload
}

// UnitKey names the unit of work that would handle n (RECOVERY section 4, "Units of work").
func (n Notification) UnitKey() (kind UnitKind, key string) {
	switch n.Type {
	case TypeVM:
		return UnitInstance, UnitInstance.Key(n.Payload[KeyInstanceUUID])
	case TypeProcess:
		return UnitProcess, UnitProcess.Key(n.SourceHostUUID)
	default:
		return UnitHost, UnitHost.Key(n.SourceHostUUID)
	}
}
