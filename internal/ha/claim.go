package ha

import "time"

// What names a thing that salvor changes and takes back (RECOVERY section 7).
type What string

const (
	WhatMaintenance What = "maintenance" // hosts.on_maintenance
	WhatDisabled    What = "disabled"    // the compute service's status
	WhatForcedDown  What = "forced_down" // the compute service's forced_down
	WhatEnabled     What = "enabled"     // a reserved host's service, which we enabled
	WhatAggregate   What = "aggregate"   // a reserved host's membership; Detail is the aggregate's id
	WhatReserved    What = "reserved"    // hosts.reserved, which we cleared
	// WhatOrder is an evacuate order that was given up since its destination, the claim's host, was off: Nova carries it out when
	// nova-compute starts there. Detail is the instance.
	WhatOrder What = "order"
)

// Reason says for what a claim was made.
type Reason string

const (
	ReasonRecovery Reason = "recovery" // a host recovery
	ReasonProcess  Reason = "process"  // a process failure
	ReasonStorage  Reason = "storage"
	ReasonOperator Reason = "operator"
)

// Claim is one thing that somebody changed on a host. A flag is on while any claim to it exists; Prior is the value
// before the first one. (host, what, reason, detail) is unique.
type Claim struct {
	ID       int64
	HostUUID string
	What     What
	Reason   Reason
	Detail   string // aggregate id, or the disabled_reason that we set, by which we know our own work again
	Prior    string // value before, as text
	WorkID   int64
	Since    time.Time
	// Seen is the service's updated_at that our own PUT answered: a later one without a change is a heartbeat.
	Seen time.Time
}

// Claimed reports whether claims hold w, for any reason but the operator's.
func Claimed(claims []Claim, w What) bool {
	for _, c := range claims {
		if c.What == w && c.Reason != ReasonOperator {
			return true
		}
	}
	return false
}

// OperatorMaintenance reports whether maintenance of h is the operator's (rule A4): on, and not only by salvor's
// claims. A flag without any claim, such as an imported one, is the operator's.
func OperatorMaintenance(h Host, claims []Claim) bool {
	if !h.OnMaintenance {
		return false
	}
	ours := false
	for _, c := range claims {
		if c.HostUUID != h.UUID || c.What != WhatMaintenance {
			continue
		}
		if c.Reason == ReasonOperator {
			return true
		}
		ours = true
	}
	return !ours
}
