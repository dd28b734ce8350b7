package ha

import "time"

// GateAnswer is how a gate would answer now, with its numbers.
type GateAnswer struct {
	Gate Gate
	Says Says
	Text string
}

// Says is a gate's answer in a word.
type Says string

const (
	SaysPass    Says = "pass"
	SaysWait    Says = "wait"    // what it needs comes by itself
	SaysHold    Says = "hold"    // an operator or the numbers must change
	SaysIgnore  Says = "ignore"  // the report would be ignored
	SaysFail    Says = "fail"    // the attempt would fail
	SaysUnknown Says = "unknown" // what it asks was not seen
)

// Finding is a rule, or a lack, that keeps something from being recovered, or that an operator should know of.
type Finding struct {
	Rule string
	Text string
	Fix  string // what would end it, "" when nothing needs to
}

// Rules of findings, beside those of Rule.
const (
	FindingNoSegment     = "no_segment"
	FindingNoEngine      = "no_engine"
	FindingMaintenance   = "maintenance"
	FindingSegment       = "segment_disabled"
	FindingPaused        = "paused"
	FindingUnknownToNova = "unknown_to_nova"
	FindingNova          = "nova"
	FindingBrake         = "brake"
	FindingOpen          = "open_recovery"
	FindingNotReturned   = "not_returned"
	FindingStaleOrder    = "stale_order"
	FindingUnreported    = "down_unreported"
	FindingFencing       = "no_fencing"

	// FindingFencingUnknown: the process that was asked has no fencing file; the engines may have one.
	FindingFencingUnknown = "fencing_unknown"

	FindingMigrating     = "live_migration"
	FindingElsewhere     = "not_here"
	FindingNoHost        = "no_host"
	FindingNoReserved    = "no_reserved_host"
	FindingNoValidHost   = "no_valid_host"
	FindingPlacement     = "placement_unknown"
	FindingInstanceState = "instance_state"
)

// Prospect is what an instance would come to if its host's death were reported now.
type Prospect struct {
	Server    Server
	Fate      Fate
	Order     int  // its place in the order of evacuations, from 1; 0 when it would not be ordered
	Protected bool // it would be moved
	Wanted    bool // it is to be protected: by its metadata, its class, or evacuate_all_instances
	Want      Want
	Reset     bool   // its state is reset to error first
	Pass      Pass   // by which it would be moved
	Target    string // the host, as far as it can be told: Nova's scheduler has the last word where it chooses
	Choices   int    // hosts that could take it, this one's included
	Asked     bool   // Placement has said so; otherwise only the services' states are known
	DataLost  bool   // its disk is on the host itself
	Why       *Finding
	Restart   *Finding // why a failure of the instance alone would not restart it; nil when it would
}

// Rehearsal is what a report of a host's death would come to now.
type Rehearsal struct {
	Gates   []GateAnswer
	Blocks  []Finding // each keeps everything on the host from being recovered now
	Notes   []Finding // these do not
	Moves   []Prospect
	Silence time.Duration // how long it would take at least until the proof of death, after a report that the host is dead
}

// Estimate is how long something is expected to take, and how that was reckoned.
type Estimate struct {
	Known bool
	Moves time.Duration // from the first order to the last arrival
	Text  string
}

// HostProspect is who is protected on a host, and why not.
type HostProspect struct {
	Name    string
	Host    *Host    // nil: not registered
	Segment *Segment // nil: in none
	Service *Service // nil: Nova has none of that name
	Rehearsal
	Err string // its instances could not be listed, so nothing is known of them
}

// Wanted and Protected count the instances that are to be protected, and those of them that are.
func (h HostProspect) Wanted() (n int) {
	for _, p := range h.Moves {
		if p.Wanted {
			n++
		}
	}
	return n
}

func (h HostProspect) Protected() (n int) {
	for _, p := range h.Moves {
		if p.Wanted && p.Protected {
			n++
		}
	}
	return n
}
