package ha

import (
	"crypto/sha256"
	"fmt"
	"time"
)

// MoveStatus is a vmove's state on the wire.
type MoveStatus string

const (
	MovePending   MoveStatus = "pending"
	MoveOngoing   MoveStatus = "ongoing"
	MoveSucceeded MoveStatus = "succeeded"
	MoveFailed    MoveStatus = "failed"
	MoveIgnored   MoveStatus = "ignored"
)

// Ended reports whether the move needs nothing more in this attempt.
func (s MoveStatus) Ended() bool { return s == MoveSucceeded || s == MoveFailed || s == MoveIgnored }

// MoveEvacuation is the only type of vmove that salvor makes.
const MoveEvacuation = "evacuation"

// Stage is the step of RECOVERY section 2 step 7 that an instance stands at. Stages only go forward within an attempt.
type Stage string

const (
	StageChosen  Stage = "chosen"  // nothing done yet
	StageLock    Stage = "lock"    // being locked
	StageFit     Stage = "fit"     // state being reset so that Nova takes the order
	StageOrder   Stage = "order"   // ready to be ordered
	StageOrdered Stage = "ordered" // an order's intent is committed: confirmed, failed or in doubt, never forgotten
	StageRestore Stage = "restore" // arrived; wanted state being restored
	StageUnlock  Stage = "unlock"  // outcome known; being unlocked until done
	StageError   Stage = "error"   // by its class not moved: being set to error where it is
	StageDone    Stage = "done"
)

// Want is the state that an instance is to have afterwards. It is decided by its state before the FIRST try.
type Want string

const (
	WantActive  Want = "active"
	WantStopped Want = "stopped"
	WantError   Want = "error"
)

// Order is one evacuate order: from the commit of its intent until Nova's record tells its end.
type Order struct {
	At     time.Time // when the intent was planned; zero: no order
	Base   int64     // highest migration id of the instance known when the intent was committed; only a greater one is this order's
	Record int64     // the migration id found for it, 0 until seen
	Target string    // the named destination, "" when Nova chooses
	// Answered says that Nova took the order (200). False while open: in doubt.
	Answered bool
}

// Open reports whether there is an order whose end is not known.
func (o Order) Open() bool { return !o.At.IsZero() }

// Lost is an act whose answer was lost, and when that was noticed.
type Lost struct {
	Act ActKind
	At  time.Time
}

// VMove is one instance's evacuation in one recovery: a row per instance and notification, attempts counted in it.
type VMove struct {
	Stamps
	ID               int64
	UUID             string
	NotificationUUID string
	InstanceUUID     string
	InstanceName     string
	SourceHost       string
	DestHost         *string
	StartTime        *time.Time
	EndTime          *time.Time
	Type             string
	Status           MoveStatus
	Message          *string

	Stage     Stage
	Attempts  int  // orders that Nova took or may have taken
	Pass      int  // index into Method.Passes()
	HA        bool // HA-enabled by metadata: ordered first
	Priority  int  // HA_Priority, higher first
	Born      time.Time
	PriorVM   string // vm_state before the first try
	PriorOn   bool   // power_state was running before the first try
	Want      Want
	WasLocked bool // somebody else's lock: never ours to remove
	Locked    bool // our lock's intent is committed; false again once the unlock is seen or the instance is gone
	Order     Order
	// Lost is the last lock or reset whose answer was lost: the cloud may still carry it out, order_in_doubt later at most.
	Lost      Lost
	RefusedBy string // name of the reserved host that refused it last: the next one in age is tried
	Final     bool   // failed for good: tried again only by an operator's retry
	// NotBefore and Waits are the wait for room after "no valid host" under the last pass: it uses up no attempt.
	NotBefore *time.Time
	Waits     int
	// Outcome is the status that the move gets once it is unlocked (stages unlock and done).
	Outcome MoveStatus
	// RetryWish counts an operator's requests to try this move again; RetryDone those honoured.
	RetryWish, RetryDone int
}

// MoveUUID makes a move's uuid from what the move is, so that a plan made twice is the same row.
func MoveUUID(notification, instance string) string {
	h := sha256.Sum256([]byte(notification + "/" + instance))
	h[6] = h[6]&0x0f | 0x80 // version 8: made from a hash of our own
	h[8] = h[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
