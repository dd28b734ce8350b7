package ha

import (
	"slices"
	"time"
)

// Change is one state-to-state change that the owner of a unit writes. Store.Commit applies all changes of a call in one
// transaction behind the fence, or none. Applying one twice gives the same rows.
type Change interface{ change() }

// SetNotification writes a notification's status and message: of the unit's own, or of one in its queue.
type SetNotification struct {
	UUID    string
	Status  Status
	Message string
}

// PutMove inserts the move, or writes all of the owner's fields of the one with the same notification and instance.
// UUID is fixed by the planner. RetryWish is the api's and is not written.
type PutMove struct{ Move VMove }

// SetRecovery writes what the owner keeps of the unit.
type SetRecovery struct{ Recovery Recovery }

// SetHost changes flags of a host: nil leaves one as it is. Started writes the database's now into StartedAt.
type SetHost struct {
	UUID          string
	OnMaintenance *bool
	Reserved      *bool
	Started       bool
}

// PutClaim inserts the claim, or keeps the one with the same host, what, reason and detail, writing Seen. Prior, Since
// and WorkID of an existing one stay.
type PutClaim struct{ Claim Claim }

// DropClaim removes a claim; removing what is not there is no error.
type DropClaim struct {
	HostUUID string
	What     What
	Reason   Reason
	Detail   string
}

// Write appends an entry. Store fills WorkID, Epoch, At and the uuids left empty; Seq is the owner's.
type Write struct{ Entry Entry }

// CloseIntent marks the open intent with this key of this unit as ended. Nothing to close is no error.
type CloseIntent struct{ Key string }

// StartUnit creates an active unit that nobody owns, unless one with its key is active.
type StartUnit struct {
	Kind        UnitKind
	HostUUID    string
	SegmentUUID string
}

// Signal moves the signal of the active unit with this key, if there is one: its owner looks again.
type Signal struct{ Key string }

// Adopt makes a queued notification the unit's own; the old one is ended by a SetNotification in the same commit.
type Adopt struct{ NotificationUUID string }

// EndUnit ends the unit: no commit after it succeeds. Its key is free again.
type EndUnit struct{}

// Park gives the lease up with a next look after the delay, or when the unit is signalled. Zero: at once.
type Park struct{ After time.Duration }

// Guards make the whole commit fail with their error, so that the owner loads the unit again and plans anew.
//
// TouchSegment decides for a segment: it moves the segment's touch if it still is Seen, else the commit fails with
// ErrStale (DESIGN section 3).
type TouchSegment struct {
	UUID string
	Seen int64
}

// GiveWay touches the host's row and finds no active host unit of it, else the commit fails with ErrSuperseded
// (RECOVERY section 4: the host unit has precedence); and with ErrStale where the unit was signalled since its owner loaded it.
// In every commit of an intent by the other kinds, of the last word of a process's or an instance's report, and of a take-back that
// drops a claim.
type GiveWay struct{ HostUUID string }

// Reserve claims a reserved host for this unit if it is reserved, not on maintenance and not another unit's, else the
// commit fails with ErrTaken. What earlier recoveries have kept of their use of it is dropped (Ends): what this one changes
// is its own to undo. Free ends the claim, if it is this unit's.
type (
	Reserve struct{ HostUUID string }
	Free    struct{ HostUUID string }
)

// UsesOfSpare are what a recovery changes on a reserved host to use it.
var UsesOfSpare = []What{WhatEnabled, WhatAggregate, WhatReserved}

// Ends reports whether c is what another unit than this one has kept of its use of the host.
func (r Reserve) Ends(c Claim, unit int64) bool {
	return c.HostUUID == r.HostUUID && c.Reason == ReasonRecovery && c.WorkID != unit && slices.Contains(UsesOfSpare, c.What)
}

func (SetNotification) change() {}
func (PutMove) change()         {}
func (SetRecovery) change()     {}
func (SetHost) change()         {}
func (PutClaim) change()        {}
func (DropClaim) change()       {}
func (Write) change()           {}
func (CloseIntent) change()     {}
func (StartUnit) change()       {}
func (Signal) change()          {}
func (Adopt) change()           {}
func (EndUnit) change()         {}
func (Park) change()            {}
func (TouchSegment) change()    {}
func (GiveWay) change()         {}
func (Reserve) change()         {}
func (Free) change()            {}
