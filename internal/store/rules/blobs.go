package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Bounds of what the replicator sees in one pass, and of an answer to an agent.
const (
	DuePage      = 400
	SweepPage    = 100
	BlobHosts    = 10000
	RunningLimit = 10000
	TriedLimit   = 20000
	// FailedKept is how long a failed transfer tells what has arrived, and makes the next one wait.
	FailedKept = time.Hour
	// CancelKept is how long an agent is told that a transfer was cancelled.
	CancelKept = 24 * time.Hour
	// SpareHeard is how lately an agent must have been heard for its host's copies to make those of a host that is no more needless.
	SpareHeard = 24 * time.Hour

	CopyOrders, CancelOrders, VerifyOrders, RehashOrders, DropOrders, RestoreOrders, StaleOrders = 100, 30, 40, 10, 20, 5, 5
)

// CopyFound is what an agent's word about a copy makes of its location. was is nil when there is none; failed says that the blobs of its
// host are in the radius of an open episode. write is false when nothing is to be written; counts when the blob has to be counted again.
func CopyFound(b ha.Blob, was *ha.Location, host string, r ha.CopyReport, failed bool, now time.Time) (l ha.Location, write, counts bool) {
	if was == nil {
		l = ha.Location{BlobUUID: b.UUID, HostUUID: host, State: ha.LocationDropped}
	} else {
		l = *was
	}
	right := r.State == ha.CopyPresent && r.Size == b.Size && r.SHA256 == b.SHA256
	to, why := l.State, l.Why
	switch {
	case right:
		l.VerifiedAt = &now
		switch {
		case l.State == ha.LocationDropping: // the order stands
		case failed: // it reads, but its disk has failed: it does not count until an operator clears that
			to, why = ha.LocationSuspect, "the storage of its host is in error"
			if l.State == ha.LocationSuspect {
				why = l.Why
			}
		default:
			to, why = ha.LocationPresent, ""
		}
	case r.State == ha.CopyPresent: // the agent does not know what it should be: an order to verify tells it
		if l.State != ha.LocationDropping && l.State != ha.LocationSuspect {
			to, why = ha.LocationVerifying, "its agent found something else than the blob"
		}
	case r.State == ha.CopyCorrupt:
		if l.State != ha.LocationDropping {
			to, why, l.VerifiedAt = ha.LocationQuarantined, "its bytes are not the blob's", nil
		}
	case was == nil, l.State == ha.LocationDropped:
	case failed && l.State == ha.LocationSuspect: // an unmounted disk has nothing; that says nothing about what is on it
	default:
		why = "its agent no longer has it"
		if l.State == ha.LocationDropping {
			why = l.Why
		}
		to, l.VerifiedAt = ha.LocationDropped, nil
	}
	// What was to be hashed again, and is right, may spare another copy.
	again := right && to == ha.LocationPresent && was != nil && was.VerifiedAt == nil
	if to != l.State || to == ha.LocationQuarantined && why != l.Why || again {
		l.State, l.Why, l.Since = to, why, now
		l.Version++
		if to != ha.LocationSuspect {
			l.EpisodeUUID = ""
		}
		return l, true, true
	}
	return l, right && was != nil, false
}

// TransferTold is what an agent's word about a transfer makes of it; write is false when nothing is to be written. counts: its blob
// has to be looked at again. told: the agent knows that it was cancelled.
func TransferTold(t ha.Transfer, r ha.TransferReport, now time.Time) (next ha.Transfer, write, counts, told bool) {
	next = t
	ended := r.State != ha.TransferRunning
	if t.State != ha.TransferRunning {
		return next, false, false, ended && t.State == ha.TransferCancelled
	}
	next.Bytes, next.MovedAt, next.Why = min(max(r.Bytes, 0), t.Size), now, Text(r.Error, MaxText)
	if !ended {
		return next, true, false, false
	}
	next.State, next.EndedAt = ha.TransferDone, &now
	if r.State == ha.TransferFailed {
		next.State = ha.TransferFailed
	} else {
		next.Bytes = t.Size
	}
	return next, true, true, false
}

// Names of orders about a location: its id and version, so that what was carried out once is not asked for again by the same name.
func LocationOrder(kind ha.OrderKind, l ha.Location) string {
	return fmt.Sprintf("%s-%d-%d", kind, l.ID, l.Version)
}

// OrderedLocation reads such a name.
func OrderedLocation(id string) (location, version int64, ok bool) {
	parts := strings.Split(id, "-")
	if len(parts) != 3 {
		return 0, 0, false
	}
	switch ha.OrderKind(parts[0]) {
	case ha.OrderVerify, ha.OrderDrop, ha.OrderRestore:
	default:
		return 0, 0, false
	}
	location, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return 0, 0, false
	}
	version, err = strconv.ParseInt(parts[2], 10, 64)
	return location, version, err == nil
}

// OrderFailed is what an agent's word that it could not carry out an order about a location makes of it: what could neither be read nor
// unlinked is suspect, and is asked for again later. So is a present copy that was to be hashed again.
func OrderFailed(l ha.Location, version int64, r ha.TransferReport, now time.Time) (next ha.Location, write bool) {
	next = l
	asked := l.State == ha.LocationVerifying || l.State == ha.LocationDropping || l.State == ha.LocationPresent && l.VerifiedAt == nil
	if r.State != ha.TransferFailed || l.Version != version || !asked {
		return next, false
	}
	next.State, next.EpisodeUUID, next.Why, next.Since = ha.LocationSuspect, "", Text("its agent could not carry out an order: "+r.Error, MaxText), now
	next.Version++
	return next, true
}

// CheckBlob refuses a blob that cannot be one.
func CheckBlob(b ha.Blob) error {
	switch {
	case b.WantCopies < 1 || b.WantCopies > 100:
		return &ha.InvalidError{Text: "want_copies must be from 1 to 100"}
	case b.Size < 0:
		return &ha.InvalidError{Text: "size must not be negative"}
	}
	return nil
}

// OtherBlob: the uuid is another file's.
func OtherBlob(b ha.Blob) error {
	return &ha.ConflictError{Text: fmt.Sprintf("Blob %s is in the catalogue with another size or sha256, and a blob never changes: give the new file a uuid of its own.", b.UUID)}
}

// DropRefused says why an operator may not have a copy dropped: others must be there that are sure to be good.
func DropRefused(b ha.Blob, l ha.Location, sure int, force bool) error {
	switch {
	case l.State == ha.LocationDropped || l.State == ha.LocationDropping:
		return &ha.ConflictError{Text: fmt.Sprintf("The copy of blob %s is %s already.", b.UUID, l.State)}
	case b.LostBy != "" || sure >= b.WantCopies, force && sure > 0:
		return nil
	case force:
		return &ha.ConflictError{Text: fmt.Sprintf("No other copy of blob %s is known to be good, so this one may be the last: it is not dropped, not by force either. "+
			"If the blob is to be given up: salvor blob lost %s.", b.UUID, b.UUID)}
	default:
		return &ha.ConflictError{Text: fmt.Sprintf("Blob %s has %d other copies that are known to be good, and %d are wanted. "+
			"Wait for them, or drop it with --force (\"force\": true): then one is enough.", b.UUID, sure, b.WantCopies)}
	}
}

// LoseRefused says why a blob may not be given up: there is a copy.
func LoseRefused(b ha.Blob) error {
	if b.Copies > 0 {
		return &ha.ConflictError{Text: fmt.Sprintf("Blob %s is not lost: good copies: %d.", b.UUID, b.Copies)}
	}
	return nil
}

// StaleOrder names an order to hash a present copy again by when it was hashed last.
func StaleOrder(o ha.AgentOrder, l ha.Location) ha.AgentOrder {
	if l.VerifiedAt != nil {
		o.ID = fmt.Sprintf("again-%d-%d", l.ID, l.VerifiedAt.Unix())
	}
	return o
}

// Sources are the hosts that a copy can be fetched from: first the one that was chosen, then the others. Of copies that do not count only the
// one that was chosen for a rescue, and others like it, are given.
func Sources(at []ha.Location, hosts map[string]ha.BlobHost, keys map[string][]byte, first string, rescue bool) []ha.OrderSource {
	var sources []ha.OrderSource
	for _, l := range at {
		h, known := hosts[l.HostUUID]
		good := l.State == ha.LocationPresent && !h.Failed
		if !known || h.URL == "" || keys[l.HostUUID] == nil || h.Silent < 0 || h.Silent > ha.AgentSilence || !good && !rescue {
			continue
		}
		s := ha.OrderSource{Host: h.UUID, Name: h.Name, URL: h.URL, Key: keys[l.HostUUID]}
		if l.HostUUID == first {
			sources = append([]ha.OrderSource{s}, sources...)
		} else {
			sources = append(sources, s)
		}
	}
	return sources[:min(len(sources), maxSources)]
}

// maxSources bounds the sources of one order.
const maxSources = 8
