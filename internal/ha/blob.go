package ha

import (
	"slices"
	"strings"
	"time"
)

// A blob is an immutable file that is wanted in some places (STORAGE-HEALTH, "Words"). The replicator keeps it there: one unit of work for
// the whole cloud, whose decisions are in package blob.

// UnitReplicator is the unit that keeps blobs in enough places. There is one, under ReplicatorKey; it begins with the first blob and
// never ends.
const UnitReplicator UnitKind = "replicator"

// ReplicatorKey is the key of the only replicator: who changes what it decides by signals it.
var ReplicatorKey = UnitReplicator.Key("")

// Kinds of object in errors.
const (
	KindBlob     Kind = "blob"
	KindLocation Kind = "location" // of a blob on a host
	KindTransfer Kind = "transfer"
)

// Durability is how a blob stands.
type Durability string

const (
	DurabilityOK     Durability = "ok"      // at least want_copies good copies
	DurabilityUnder  Durability = "under"   // some, not enough
	DurabilityAtRisk Durability = "at_risk" // none: it is read from what is suspect, if that can be read
	DurabilityLost   Durability = "lost"    // an operator's word, and only an operator's
)

// DurabilityOf is the durability of a blob with so many good copies.
func DurabilityOf(want, copies int, lostBy string) Durability {
	switch {
	case lostBy != "":
		return DurabilityLost
	case copies >= want:
		return DurabilityOK
	case copies > 0:
		return DurabilityUnder
	default:
		return DurabilityAtRisk
	}
}

// Blob is a row of the catalogue. Copies, Durability and Why are as last counted.
type Blob struct {
	Stamps
	ID         int64
	UUID       string
	Size       int64  // bytes
	SHA256     string // hex, lower case
	WantCopies int    // at least 1
	InUse      bool   // somebody works on it: it is copied before others
	Durability Durability
	Copies     int    // present, on hosts that are not away for long
	Why        string // why it is not ok, for people
	LostBy     string // the operator who has given it up, "" otherwise
	// Touch moves with every change of the blob, its locations or its transfers: what was decided by an older one is not written.
	Touch int64
}

// LocationState is how a copy stands.
type LocationState string

const (
	LocationPresent     LocationState = "present"     // the agent has hashed it: a copy that counts
	LocationSuspect     LocationState = "suspect"     // its disk has failed: it may read or not, and does not count
	LocationVerifying   LocationState = "verifying"   // said to be there: the agent is to hash it
	LocationDropping    LocationState = "dropping"    // the agent is to unlink it: enough others were there when that was decided
	LocationDropped     LocationState = "dropped"     // gone, by the agent's word
	LocationQuarantined LocationState = "quarantined" // its bytes are not the blob's; kept aside until enough others are there
)

// Location says that a host holds, or held, a blob. One row per pair.
type Location struct {
	ID          int64
	BlobUUID    string
	HostUUID    string
	State       LocationState
	EpisodeUUID string // which made it suspect
	Why         string // for people
	Version     int64  // moves with each change of state; orders are named by it
	Since       time.Time
	VerifiedAt  *time.Time // when its agent last hashed it and found the blob's bytes
}

// TransferState is how a transfer stands.
type TransferState string

const (
	TransferRunning   TransferState = "running"   // ordered; its target's agent fetches it
	TransferDone      TransferState = "done"      // the target has the bytes, hashed
	TransferFailed    TransferState = "failed"    // the target's agent gave up
	TransferCancelled TransferState = "cancelled" // by the replicator or an operator; the agent is told
)

// Transfer is one copy on its way.
type Transfer struct {
	ID        int64
	UUID      string
	BlobUUID  string
	From      string // the host that is asked first
	To        string
	State     TransferState
	Rescue    bool  // from a copy that does not count, since there is no other
	Size      int64 // of the blob: reserved on the target while it runs
	Bytes     int64 // arrived, as of the last report
	Why       string
	StartedAt time.Time
	MovedAt   time.Time // of the last report about it
	EndedAt   *time.Time
}

// BlobHost is a host as far as blobs go.
type BlobHost struct {
	UUID   string
	Name   string
	URL    string // where its agent serves blobs; "" when it has none
	Domain string // failure domain; the host's uuid when it has reported none
	// Free is what its agent reported last, in bytes; what is under way to it is not taken off.
	Free int64
	// Failed: the blobs of this host are in the radius of an open episode. Errored: the host is in error, whatever the radius:
	// nothing is copied to it.
	Failed  bool
	Errored bool
	Silent  time.Duration // since its agent's last report; negative when there was none
}

// BlobState is a blob with all that a decision about it rests on.
type BlobState struct {
	Blob
	Locations []Location // none that is dropped
	Transfers []Transfer // running; and those that failed lately: where their bytes are, and how long to wait
}

// BlobWork is what the replicator sees: the hosts, all that is under way, and a bounded page of blobs, those first that need it most.
type BlobWork struct {
	Hosts   []BlobHost
	Running []Transfer
	Due     []BlobState
	More    bool        // there are more that are due
	Swept   []BlobState // a page of the rest, so that each blob is looked at again every now and then, whoever forgot to say so
	Cursor  int64       // the id of the last blob swept; 0 when the sweep has come to its end
	Blobs   int         // how many there are
}

// PlanBlob writes what was decided about one blob, if the blob still is as it was Seen, else nothing of it: the next pass decides anew.
// It is the only way in which the replicator changes rows of blobs.
type PlanBlob struct {
	BlobUUID string
	Seen     int64      // Blob.Touch
	Start    []Transfer // UUID, From, To, Rescue
	Replace  []Transfer // UUID and the new From, of running ones
	Cancel   []Transfer // UUID and Why
	Move     []MoveLocation
	Copies   int
	Why      string
	// Again is when the blob is to be looked at without anything having happened; 0: when something happens, or by the sweep.
	Again time.Duration
}

// MoveLocation changes the state of one location. One to dropping is written only while at least want_copies others of the blob
// are present, verified within HashTrust, and on hosts that are well and were heard lately: counted in the same transaction, behind the blob's touched row. Of
// one that was set aside one such other is enough: its own bytes are no copy. One of a present copy to present has it hashed again: it counts,
// but as one whose hash nobody knows.
type MoveLocation struct {
	ID  int64
	To  LocationState
	Why string
}

// WakeBlobs has the replicator look at blobs in its next pass.
type WakeBlobs struct{ UUIDs []string }

// SetSweep keeps how far the sweep over all blobs has come.
type SetSweep struct{ Cursor int64 }

// SuspectLocations makes copies of a host suspect: the first Limit of those with an id above Cursor that still are present or verifying
// (a copy that is suspect already is not found again, so each turns once, whoever repeats this). Its blobs are counted again and the
// replicator is signalled. VerifyLocations is the way back, when the episode is cleared: suspect ones become verifying, and the host's
// agent is ordered to hash them; what it finds makes them present. The replicator does the same by itself with whatever it finds suspect on
// a host without an open episode, a little later.
type (
	SuspectLocations struct {
		HostUUID    string
		EpisodeUUID string
		Cursor      int64
		Limit       int
	}
	VerifyLocations struct {
		HostUUID    string
		EpisodeUUID string
		Cursor      int64
		Limit       int
	}
)

func (PlanBlob) change()         {}
func (SetSweep) change()         {}
func (WakeBlobs) change()        {}
func (SuspectLocations) change() {}
func (VerifyLocations) change()  {}

// CopyState is what an agent found of a copy.
type CopyState string

const (
	CopyPresent CopyState = "present" // hashed
	CopyCorrupt CopyState = "corrupt" // hashed, and not what it should be: set aside
	CopyMissing CopyState = "missing"
)

// CopyReport is an agent's word on one copy; TransferReport on one transfer to it.
type (
	CopyReport struct {
		BlobUUID string
		State    CopyState
		Size     int64
		SHA256   string
	}
	TransferReport struct {
		UUID  string
		State TransferState // running, done or failed
		Bytes int64
		Error string
	}
)

// MovesBlobs reports whether there is news that the replicator waits for.
func (r AgentReport) MovesBlobs() bool {
	return len(r.Copies) > 0 || slices.ContainsFunc(r.Transfers, func(t TransferReport) bool { return t.State != TransferRunning })
}

// OrderKind is what an agent is asked to do.
type OrderKind string

const (
	OrderCopy    OrderKind = "copy"    // fetch a blob from the first source that gives it
	OrderVerify  OrderKind = "verify"  // hash the copy, say what was found
	OrderDrop    OrderKind = "drop"    // unlink the copy, or what was set aside of it
	OrderRestore OrderKind = "restore" // hash what was set aside; if it is the blob after all, put it back
	OrderCancel  OrderKind = "cancel"  // give a transfer up
)

// AgentOrder is for one agent. It stands until the agent's report shows that it was carried out; carried out twice it does no more than once.
type AgentOrder struct {
	ID      string // of a copy or a cancel the transfer's
	Kind    OrderKind
	Blob    string
	Size    int64
	SHA256  string
	Sources []OrderSource // of a copy, best first
}

// OrderSource is where a copy can be fetched; Host is a host's uuid. Key signs its ticket and is not shown to the agent.
type OrderSource struct {
	Host   string
	Name   string
	URL    string
	Key    []byte
	Ticket string
}

// Reasons of locations that others go by: of a present one that is to be hashed again; of one that was set aside and that its agent is ordered to hash again; of one that was set aside and
// is dropped; and the beginning of that of one that an operator has dropped.
const (
	WhyRehash   = "to be hashed again before another copy is given up"
	WhyRestore  = "to be hashed again: no other copy is left"
	WhySetAside = "its bytes were not the blob's, and another copy is good"
	WhyOrdered  = "dropped by order of "
)

// DropNeeds is how many other sure copies a blob must have for this location to be dropped: want_copies; one when its own bytes are no copy,
// or an operator says so; none of a blob that was given up.
func (l Location) DropNeeds(b Blob) int {
	switch {
	case b.LostBy != "":
		return 0
	case l.Why == WhySetAside, l.State == LocationQuarantined, strings.HasPrefix(l.Why, WhyOrdered):
		return 1
	default:
		return b.WantCopies
	}
}

// HashTrust is how old the hash of a copy may be for another one to be given up for its sake, where nobody has ordered that: bytes rot. An
// older one is hashed again first.
const HashTrust = 24 * time.Hour

// DropHashed is since when those other copies must have been hashed. An operator's order trusts each that ever was.
func (l Location) DropHashed(now time.Time) time.Time {
	if strings.HasPrefix(l.Why, WhyOrdered) {
		return time.Time{}
	}
	return now.Add(-HashTrust)
}

// HashedSince reports whether the copy is present and was hashed since then.
func (l Location) HashedSince(since time.Time) bool {
	return l.State == LocationPresent && l.VerifiedAt != nil && !l.VerifiedAt.Before(since)
}

// BlobFilter selects blobs and transfers in lists; nil: all.
type (
	BlobFilter struct {
		Durability *string
		HostUUID   *string // with a copy there that is not dropped
	}
	TransferFilter struct {
		State    *string
		BlobUUID *string
		HostUUID *string // to it
	}
)

// BlobDetails is a blob with its locations, dropped ones too, and its latest transfers, the newest first. Hosts are the names of all hosts in
// them, by uuid.
type BlobDetails struct {
	Blob
	Locations []Location
	Transfers []Transfer
	Hosts     map[string]string
}

// DropLocation is an operator's order to drop a copy. Force: although fewer than want_copies others are sure to be good; never the last.
type DropLocation struct {
	BlobUUID string
	HostUUID string
	By       string
	Reason   string
	Force    bool
}

// BlobCounts are for metrics: blobs and bytes by durability, and transfers under way.
type BlobCounts struct {
	Blobs     map[Durability]int64
	Bytes     map[Durability]int64
	Transfers int64
	Left      int64 // bytes of them that have not arrived
}
