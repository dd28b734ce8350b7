package ha

import "time"

// Method is a segment's recovery method (RECOVERY section 2, "Methods").
type Method string

const (
	MethodAuto         Method = "auto"
	MethodReservedHost Method = "reserved_host"
	MethodAutoPriority Method = "auto_priority"
	MethodRHPriority   Method = "rh_priority"
)

// Methods lists the legal methods in the order in which errors name them (contract 1.5).
var Methods = []Method{MethodAuto, MethodReservedHost, MethodAutoPriority, MethodRHPriority}

// Pass is one way to choose destinations: a method is one or two passes, tried in order.
type Pass string

const (
	PassAuto     Pass = "auto"     // Nova's scheduler chooses
	PassReserved Pass = "reserved" // a reserved host of the segment is the target
)

// Passes returns the passes of m in the order they are tried. An unknown method counts as auto.
func (m Method) Passes() []Pass {
	switch m {
	case MethodReservedHost:
		return []Pass{PassReserved}
	case MethodAutoPriority:
		return []Pass{PassAuto, PassReserved}
	case MethodRHPriority:
		return []Pass{PassReserved, PassAuto}
	default:
		return []Pass{PassAuto}
	}
}

// Stamps are the times that every stored object has. UpdatedAt is nil until the first change.
type Stamps struct {
	CreatedAt time.Time
	UpdatedAt *time.Time
}

// Segment is a failover segment: hosts that are recovered by one method.
type Segment struct {
	Stamps
	ID             int64
	UUID           string
	Name           string
	ServiceType    string
	Description    *string
	RecoveryMethod Method
	Enabled        bool

	// TrustReports lets a monitor's NORMAL stand as proof of death; nil means the option trust_reports decides.
	TrustReports *bool
	// Pause is an operator's order to begin nothing in this segment, or anywhere; nil when there is none. Only a unit of work
	// is loaded with it.
	Pause *Pause
	// Touch counts the decisions made for the segment; whoever decides moves it (DESIGN section 3).
	Touch int64
}

// Pause says who stopped recoveries, why, and until when (nil: until it is ended).
type Pause struct {
	Segment    string // uuid; "" for everything
	By, Reason string
	Since      time.Time
	Until      *time.Time
}

// Active reports whether the pause holds at now. A nil pause never does.
func (p *Pause) Active(now time.Time) bool {
	return p != nil && (p.Until == nil || now.Before(*p.Until))
}

// SegmentPatch changes the fields that are not nil (contract 1.7). Description may be set to null: its outer pointer
// says "change it", its inner one is the value.
type SegmentPatch struct {
	Name           *string
	ServiceType    *string
	Description    **string
	RecoveryMethod *Method
	Enabled        *bool
}

// Host is a hypervisor of a segment. Name must equal the name of its compute service in Nova.
type Host struct {
	Stamps
	ID                int64
	UUID              string
	Name              string
	SegmentUUID       string
	Type              string
	ControlAttributes string
	Reserved          bool
	OnMaintenance     bool

	// ReservedFor is the unit of work that holds this reserved host as its target, 0 when none does (invariant I8).
	ReservedFor int64
	// StartedAt is when the latest STARTED of the host was acted upon, by the database's clock; nil when none was.
	StartedAt *time.Time
}

// HostPatch changes the fields that are not nil (contract 1.8).
type HostPatch struct {
	Name              *string
	Type              *string
	ControlAttributes *string
	Reserved          *bool
	OnMaintenance     *bool
}
