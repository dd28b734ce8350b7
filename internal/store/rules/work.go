package rules

import (
	"fmt"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// RateWindow is how far back the rate gate counts host recoveries (RECOVERY section 2, gates).
const RateWindow = time.Minute

// EnginesWindow is how long an engine that no longer beats is still listed, and EnginesKept how long its row is kept.
const (
	EnginesWindow = time.Hour
	EnginesKept   = 24 * time.Hour
)

// Bounds of what one look for work, or one load, returns.
const (
	FreshLimit   = 200
	UnitsLimit   = 1000
	QueueLimit   = 200
	EnginesLimit = 1000
	PausesLimit  = 1000
	EarlierLimit = 100
)

// EarlierKey is the key of the units whose starts the plan of w counts, "" when it counts none.
func EarlierKey(w ha.Work) string {
	switch w.Kind {
	case ha.UnitInstance:
		return w.Key
	case ha.UnitTakeBack:
		return ha.UnitHost.Key(w.HostUUID)
	}
	return ""
}

// Start is when a unit's work began.
type Start struct {
	At           time.Time
	Notification string
}

// Starts counts each notification once, by its latest unit: an operator's retry is no new failure. The order stays.
func Starts(all []Start) (at []time.Time) {
	seen := make(map[string]bool, len(all))
	for _, s := range all {
		if !seen[s.Notification] {
			seen[s.Notification] = true
			at = append(at, s.At)
		}
	}
	return at
}

// IllegalMove is the error for a notification's status that may not follow the present one.
func IllegalMove(uuid string, from, to ha.Status) error {
	return fmt.Errorf("notification %s may not go from %s to %s: nothing was written", uuid, from, to)
}

// CheckSet refuses a SetNotification that the owner of the unit with this key may not write.
func CheckSet(n ha.Notification, key string, c ha.SetNotification) error {
	if _, k := n.UnitKey(); k != key {
		return fmt.Errorf("notification %s belongs to unit %s, not to %s: nothing was written", n.UUID, k, key)
	}
	if !n.Status.CanBecome(c.Status) {
		return IllegalMove(n.UUID, n.Status, c.Status)
	}
	return nil
}

// Wish writes an operator's order into the wishes of an active unit (RECOVERY section 5). A release also ends a hold.
func Wish(w *ha.Wishes, wish ha.Wish) error {
	switch wish.Kind {
	case ha.WishCancel:
		w.CancelBy = who(wish)
	case ha.WishHold:
		w.HoldBy, w.HoldReason, w.HoldUntil = wish.By, Text(wish.Reason, MaxText), MicroPtr(wish.Until)
	case ha.WishRelease:
		w.ReleaseBy, w.Releases = who(wish), w.Releases+1
		w.HoldBy, w.HoldReason, w.HoldUntil = "", "", nil
	case ha.WishRetry:
		w.RetryBy, w.Retries = who(wish), w.Retries+1
	case ha.WishRetryMove:
		// the move's own column carries it
	default:
		return &ha.InvalidError{Text: fmt.Sprintf("Unknown order %q: one of cancel, hold, release, retry, retry-move.", wish.Kind)}
	}
	return nil
}

// who is the name that an order is kept under, and its reason where one was given.
func who(wish ha.Wish) string {
	if wish.Reason == "" {
		return Name(wish.By)
	}
	return Name(wish.By + ": " + wish.Reason)
}

// WishOfEnded says what a wish does to a unit that has ended: a retry of a failed recovery makes a new unit, anything
// else does not fit.
func WishOfEnded(n ha.Notification, wish ha.Wish) error {
	switch {
	case wish.Kind != ha.WishRetry && wish.Kind != ha.WishRetryMove:
		return &ha.ConflictError{Text: fmt.Sprintf("The recovery of notification %s has ended (%s): there is nothing to %s.", n.UUID, n.Status, wish.Kind)}
	case n.Status != ha.StatusFailed:
		return &ha.ConflictError{Text: fmt.Sprintf("The recovery of notification %s has ended %s: only a failed one can be retried. "+
			"If it is needed again, report it again.", n.UUID, n.Status)}
	case wish.Kind == ha.WishRetryMove:
		return &ha.ConflictError{Text: fmt.Sprintf("The recovery of notification %s has ended: retry the whole recovery instead.", n.UUID)}
	}
	return nil
}

// KeyTaken is the refusal of a retry while another recovery of the same host or instance is at work.
func KeyTaken(notification string) error {
	return &ha.ConflictError{Text: fmt.Sprintf("Notification %s cannot be retried: another recovery of the same host or instance is active.", notification)}
}

// HostGone is the refusal of a retry for a host that was deleted: reports of it are refused, too.
func HostGone(notification string) error {
	return &ha.ConflictError{Text: fmt.Sprintf("Notification %s cannot be retried: its host was deleted from salvor. "+
		"Register the host again; if it is dead: salvor host confirm-off HOST --reason WHY.", notification)}
}

// Again is the unit that retries one that ended in failure: same work, fresh state, its retries counted.
func Again(old ha.Work, wish ha.Wish) ha.Work {
	return ha.Work{
		Kind: old.Kind, Key: old.Key, HostUUID: old.HostUUID, SegmentUUID: old.SegmentUUID, NotificationUUID: old.NotificationUUID,
		Wishes:   ha.Wishes{RetryBy: who(wish), Retries: old.Wishes.Retries + 1, Releases: old.Wishes.Releases},
		Recovery: ha.Recovery{Retried: old.Wishes.Retries, Released: old.Wishes.Releases},
	}
}

// FillEntry fills what the owner of a unit leaves open in a journal entry, and makes its text storable.
func FillEntry(e ha.Entry, l ha.Lease, w ha.Work, now time.Time) ha.Entry {
	e.WorkID, e.Epoch, e.At = l.WorkID, l.Epoch, now
	if e.NotificationUUID == "" {
		e.NotificationUUID = w.NotificationUUID
	}
	if e.HostUUID == "" {
		e.HostUUID = w.HostUUID
	}
	e.Text = Text(e.Text, MaxText)
	return e
}

// OwnedMove is m with the owner's fields as they are stored: what the api writes stays, free text is made storable.
func OwnedMove(m ha.VMove) ha.VMove {
	m.InstanceName = Name(m.InstanceName)
	m.Message = TextPtr(m.Message, MaxText)
	m.StartTime, m.EndTime, m.NotBefore = MicroPtr(m.StartTime), MicroPtr(m.EndTime), MicroPtr(m.NotBefore)
	if !m.Born.IsZero() {
		m.Born = Micro(m.Born)
	}
	if !m.Order.At.IsZero() {
		m.Order.At = Micro(m.Order.At)
	}
	if !m.Lost.At.IsZero() {
		m.Lost.At = Micro(m.Lost.At)
	}
	return m
}

// OwnedRecovery is r as it is stored.
func OwnedRecovery(r ha.Recovery) ha.Recovery {
	r.StartedAt, r.HeldSince, r.WakeAt = MicroPtr(r.StartedAt), MicroPtr(r.HeldSince), MicroPtr(r.WakeAt)
	if !r.ProofAt.IsZero() {
		r.ProofAt = Micro(r.ProofAt)
	}
	r.ProofText, r.HeldWhy = Text(r.ProofText, MaxText), Text(r.HeldWhy, MaxText)
	r.Seq = 0
	return r
}
