package ha

import "time"

// UnitKind is a kind of work that one engine does at a time (RECOVERY section 4, "Units of work").
type UnitKind string

const (
	UnitHost     UnitKind = "host"
	UnitProcess  UnitKind = "process"
	UnitInstance UnitKind = "instance"
	UnitTakeBack UnitKind = "takeback"
	UnitStorage  UnitKind = "storage" // a host's episodes (STORAGE-HEALTH, "The engine")
)

// Key returns the key under which at most one unit of this kind is active: of an instance's uuid for UnitInstance, of
// a host's for the others.
func (k UnitKind) Key(uuid string) string { return string(k) + ":" + uuid }

// Proof is how death is known (RECOVERY section 2). The zero value is no proof.
type Proof string

const (
	ProofNone      Proof = ""
	ProofFenced    Proof = "fenced"
	ProofNovaDown  Proof = "nova_down"
	ProofConfirmed Proof = "confirmed"
	ProofReported  Proof = "reported"
)

// Step is where a unit of work stands; it is shown to operators and kept for the next owner.
type Step string

const (
	StepGates   Step = "gates"   // asking whether the recovery may run
	StepPrepare Step = "prepare" // maintenance, force down, disable
	StepMove    Step = "move"    // instances are on their way
	StepWait    Step = "wait"    // between attempts
	StepReturn  Step = "return"  // the host is back: orders in flight end, nothing new is ordered
	StepWatch   Step = "watch"   // a take-back waiting for its host
)

// Gate names a gate of RECOVERY section 2.
type Gate string

const (
	GateSegment   Gate = "segment"
	GateNova      Gate = "nova"
	GateBrake     Gate = "brake"
	GateRate      Gate = "rate"
	GateProof     Gate = "proof"
	GateHeartbeat Gate = "heartbeat" // the host was heard while forced down
	GateOperator  Gate = "operator"  // held by hand
	GateHeard     Gate = "heard"     // an operator confirmed that it is off, and Nova still hears it
	GateFlapping  Gate = "flapping"  // a returned host has failed too often to be given back by itself
)

// Lease is the right to write for one unit of work. Store.Commit is the fence: it writes only while Owner and Epoch are
// still those of the row (DESIGN section 3). Beat is the row's after the last successful commit.
type Lease struct {
	WorkID int64
	Owner  string
	Epoch  int64
	Beat   int64
}

// Work is the row of a unit of work.
type Work struct {
	ID               int64
	Kind             UnitKind
	Key              string
	HostUUID         string
	SegmentUUID      string
	NotificationUUID string // "" for a take-back
	Owner            string // "" when nobody holds it
	Epoch            int64
	Beat             int64
	TTL              time.Duration
	CreatedAt        time.Time
	EndedAt          *time.Time
	Due              bool // nobody holds it and its next look has come, by the database's clock

	// Signal counts what the owner must know of: wishes, and new notifications of its key. It reads it with each beat
	// and loads the unit again when it has moved.
	Signal int64
	Wishes Wishes
	Recovery
}

// Wishes are what operators ask of a unit. Only the api writes them, only the owner acts on them (RECOVERY section 5).
type Wishes struct {
	CancelBy   string
	HoldBy     string
	HoldReason string
	HoldUntil  *time.Time
	ReleaseBy  string // lets the unit pass the gate that it is held at
	Releases   int64  // counts releases; compare Recovery.Released
	RetryBy    string
	Retries    int64 // counts retries; compare Recovery.Retried
}

// Recovery is what the owner keeps of a unit between steps: its own state, in the row.
type Recovery struct {
	Step      Step
	Attempt   int        // attempts begun, 1 for the first
	StartedAt *time.Time // when the gates were passed: the rate gate and the brake count it
	Proof     Proof
	ProofAt   time.Time // when the proof was last taken
	ProofText string    // what was seen, for people
	Prepared  bool      // the host was seen forced down and disabled in this attempt (RECOVERY section 2, step 2)
	HeldAt    Gate      // the gate it waits at, "" when it does not
	HeldWhy   string
	HeldSince *time.Time
	Listed    bool       // the host's servers were listed once and chosen from (RECOVERY section 2, step 3)
	Failures  int        // attempts that ended in error
	WakeAt    *time.Time // when a wait between attempts ends
	Released  int64      // of Wishes.Releases, those honoured
	Retried   int64      // of Wishes.Retries, those honoured
	Waived    []Gate     // gates that an operator let this unit pass
	Returned  bool       // a STARTED came in the middle: nothing new is ordered
	Seq       int64      // last journal number used in this epoch; not stored
}

// Unit is a unit of work with all rows that its plan needs, as of one transaction.
type Unit struct {
	Work
	Notification Notification // zero for a take-back
	// Queue are the later open notifications of the same key that were received while this unit was at work, oldest
	// first: a STARTED, a NORMAL for one that lacked it, a death after a return.
	Queue   []Notification
	Segment Segment
	Host    Host
	// HostDeleted says that the host was deleted from salvor meanwhile.
	HostDeleted bool
	Peers       []Peer // every live host of the segment, this one included
	Moves       []VMove
	Claims      []Claim // of this host, and those that this unit made elsewhere (a reserved host enabled, an aggregate joined)
	Open        []Entry // intents without an outcome
	// RecentStarts are the host recoveries started in this segment in the last minute, this one not counted.
	RecentStarts int
	// Earlier are the starts of the latest units of this key that have ended, newest first, at most 100: of an instance, its restarts.
	// For a take-back they are those of its host's recoveries. Other kinds of unit have none.
	Earlier []time.Time
	// HostUnit says that a host unit of the same host is active: the other kinds give way to it. 0 when none is.
	HostUnit int64
	Storage  *StorageUnit // of a UnitStorage
	Blobs    *BlobWork    // of the UnitReplicator
	// InFlight counts open intents of other kinds of unit on this host: a host unit waits for them.
	InFlight int
	Age      time.Duration // of the notification since its receipt, when read
	Now      time.Time     // the database's clock when read
}

// Peer is a host of the segment as the brake sees it (RECOVERY section 2, gates).
type Peer struct {
	Host
	OpenIncident bool // it has an open COMPUTE_HOST STOPPED notification
	Claimed      bool // salvor holds forced_down of a host recovery on it: not returned yet
	Operator     bool // on maintenance by an operator: not counted at all
	StorageError bool // its storage has an open episode: nothing may be sent there
}

// Engine is an engine process as the others see it.
type Engine struct {
	Name      string
	Host      string
	Version   string
	StartedAt time.Time
	Beat      int64
}

// EngineState is an engine as operators see it: Idle is how long ago it beat, by the database's clock; Units are the keys of the
// units of work that it holds.
type EngineState struct {
	Engine
	Idle  time.Duration
	Units []string
}

// Silent reports whether it has not beaten for so long that it is stopped, stalled or cut off: a beat is due each lease_tick.
func (e EngineState) Silent() bool { return e.Idle > 15*time.Second }

// Beat is what a commit tells its owner beside "written".
type Beat struct {
	Beat   int64
	Signal int64     // load the unit again when it differs from the loaded one
	Now    time.Time // the database's clock
}

// Fresh is an admitted notification that no unit handles yet and whose key is free.
type Fresh struct {
	NotificationUUID string
	Kind             UnitKind
	Key              string
	HostUUID         string
	SegmentUUID      string
}

// Sighting is an active unit as a watcher sees it: (Epoch, Beat) that does not move is a dead owner's (DESIGN section 3).
type Sighting struct {
	WorkID int64
	Key    string
	Owner  string
	Epoch  int64
	Beat   int64
	TTL    time.Duration
	Signal int64
	Due    bool // nobody owns it and its next look has come
}

// Poll is what an engine sees when it looks for work: bounded, oldest first.
type Poll struct {
	Fresh []Fresh
	Units []Sighting // active, not the asking engine's
	Mine  []Sighting // active and bearing its name: any that it does not hold is one whose claim's answer was lost
}

// ClaimRequest asks for a unit: a fresh one (WorkID 0, Fresh set), or a sighted one by compare-and-set on (Epoch, Beat).
type ClaimRequest struct {
	Owner  string
	TTL    time.Duration
	Fresh  Fresh
	WorkID int64
	Epoch  int64
	Beat   int64
}

// WishKind is what an operator asks of a recovery (RECOVERY section 5).
type WishKind string

const (
	WishCancel    WishKind = "cancel"
	WishHold      WishKind = "hold"
	WishRelease   WishKind = "release"
	WishRetry     WishKind = "retry"
	WishRetryMove WishKind = "retry-move"
)

// Wish is an operator's order about one recovery, named by its notification. By is never empty: it is the audit.
type Wish struct {
	Kind   WishKind
	By     string
	Reason string
	Until  *time.Time // hold: when it ends by itself
	VMove  string     // retry-move: the vmove's uuid
}
