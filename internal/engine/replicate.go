package engine

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/blob"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// The replicator's pace: a pass at least that often, though nobody says that anything has happened, and at most that often, though all do; where
// a pass takes long, with so many times its length between two.
const (
	passesAtMost  = 250 * time.Millisecond
	passesAtLeast = 5 * time.Second
	passesApart   = 4
)

// passes is when the replicator looks. Its loop alone uses it.
type passes struct {
	next    time.Time // at the latest
	began   time.Time // of the load of the one to come, where it is for that alone
	soonest time.Time
}

// replicate is a turn of the replicator: what it sees is loaded anew for each pass, and decided upon once. Its unit never ends.
func (u *unit) replicate(draining bool) plan.Decision {
	now := time.Now()
	if u.hurry.Swap(false) {
		u.passes.next = u.passes.soonest
	}
	switch {
	case draining:
		return plan.Decision{}
	case u.rows.Blobs != nil && now.Before(u.passes.soonest): // loaded for a signal right after a pass
		u.rows.Blobs, u.passes.next = nil, u.passes.soonest
		return plan.Decision{Wake: u.now().Add(u.passes.soonest.Sub(now))}
	case u.rows.Blobs == nil && now.Before(u.passes.next):
		return plan.Decision{Wake: u.now().Add(u.passes.next.Sub(now))}
	case u.rows.Blobs == nil:
		u.reload, u.passes.began = true, now // and the next turn decides
		return plan.Decision{Wake: u.now()}
	}
	d := blob.Decide(*u.rows.Blobs, u.e.cfg.Blobs, u.now(), uuid.NewString)
	u.rows.Blobs = nil
	u.passes.soonest = now.Add(passesAtMost)
	if began := u.passes.began; !began.IsZero() { // what was loaded for it, it has loaded itself
		u.passes.soonest = now.Add(min(max(passesAtMost, passesApart*now.Sub(began)), passesAtLeast))
		u.passes.began = time.Time{}
	}
	u.passes.next = now.Add(passesAtLeast)
	if d.Busy {
		u.passes.next = now.Add(max(u.e.cfg.Poll, u.passes.soonest.Sub(now)))
	}
	return plan.Decision{Changes: d.Changes, Wake: u.now().Add(u.passes.next.Sub(now))}
}

// hurryUnits has the replicator look at once, if this engine holds it.
func (e *Engine) hurryUnits() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, u := range e.units {
		u.hurryUp()
	}
}

// hurryUp brings the replicator's next pass forward. Other units learn of a signal with their beat.
func (u *unit) hurryUp() {
	if u.key == ha.ReplicatorKey {
		u.hurry.Store(true)
		u.ring()
	}
}

// movesBlobs reports whether there is news that the replicator waits for.
func movesBlobs(changes []ha.Change) bool {
	return slices.ContainsFunc(changes, func(c ha.Change) bool {
		switch c.(type) {
		case ha.SuspectLocations, ha.VerifyLocations:
			return true
		default:
			return false
		}
	})
}
