package blob

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// makeCopies starts what is needed: want_copies, less what is present, less what is under way.
func (o *one) makeCopies() {
	need := o.WantCopies - o.plan.Copies - len(o.running)
	if coming, wait := o.coming(); need > 0 && coming > 0 {
		need -= coming
		o.plan.Again = wait
	}
	if need < 0 && len(o.running) > 0 { // others came first
		for _, t := range slices.Backward(slices.Clone(o.running)) {
			if need++; need > 0 {
				break
			}
			o.cancel(t, "there are enough copies")
			o.running = o.running[:len(o.running)-1]
		}
		return
	}
	if need <= 0 {
		return
	}
	if wait := o.backOff(); wait > 0 {
		o.plan.Again = wait
		return
	}
	rescue := o.plan.Copies == 0
	if rescue {
		need = 1 // the others are copied from what arrives
		if len(o.running) > 0 {
			return
		}
	}
	for range need {
		if !o.start(rescue) {
			return
		}
	}
}

// coming counts the copies that are being hashed and so may count soon, and how long the first of them is waited for. A blob of which no copy
// counts waits for none.
func (o *one) coming() (n int, wait time.Duration) {
	if o.plan.Copies == 0 {
		return 0, 0
	}
	for _, l := range o.Locations {
		if left := settles - o.now.Sub(l.Since); l.State == ha.LocationVerifying && left > 0 && o.hosts[l.HostUUID].gives() {
			if n++; n == 1 || left < wait {
				wait = left
			}
		}
	}
	return n, wait
}

// start begins one transfer, false when there is none to begin now.
func (o *one) start(rescue bool) bool {
	fits := o.given
	if rescue {
		fits = o.rescues
	}
	if !slices.ContainsFunc(o.Locations, fits) {
		o.plan.Again = noRoom
		return false
	}
	from := o.least(fits, o.rules.PerSource)
	if from == nil || o.pass.running >= o.rules.Total {
		o.waits = true
		return false
	}
	to, full := o.target()
	if to == nil {
		o.waits = full
		if !full {
			o.plan.Again = noRoom
		}
		return false
	}
	t := ha.Transfer{UUID: o.newID(), BlobUUID: o.UUID, From: from.UUID, To: to.UUID, State: ha.TransferRunning, Rescue: rescue, Size: o.Size}
	o.pass.running++
	o.reserve(t)
	o.plan.Start = append(o.plan.Start, t)
	o.running = append(o.running, t)
	o.changed = true
	return true
}

// target is the best host for one more copy: where a part of it has arrived already, then in a failure domain without a copy, then the
// roomiest. full: there would be one, but for the limit per target.
func (o *one) target() (best *host, full bool) {
	taken, domains := map[string]bool{}, map[string]bool{}
	for _, l := range o.Locations {
		taken[l.HostUUID] = true
		if h := o.hosts[l.HostUUID]; h != nil && o.counts(l) {
			domains[h.Domain] = true
		}
	}
	for _, t := range o.running {
		taken[t.To] = true
		if h := o.hosts[t.To]; h != nil {
			domains[h.Domain] = true
		}
	}
	parts, failures := o.tried()
	rank := func(a, b *host) int {
		return cmp.Or(
			cmp.Compare(part(parts, failures, b), part(parts, failures, a)),
			cmp.Compare(failures[a.UUID], failures[b.UUID]),
			compareBool(domains[a.Domain], domains[b.Domain]))
	}
	var equal []*host // the best, but for their room
	for _, h := range o.order {
		if taken[h.UUID] || !h.takes() || h.room < o.Size-parts[h.UUID] {
			continue
		}
		if h.to >= o.rules.PerTarget {
			full = true
			continue
		}
		if len(equal) > 0 && rank(h, equal[0]) < 0 {
			equal = equal[:0]
		}
		if len(equal) == 0 || rank(h, equal[0]) == 0 {
			equal = append(equal, h)
		}
	}
	return roomiest(equal), full
}

// roomiest is the host with the most room left; among those that have less by a tenth at most it is the one that fewest bytes are on their way to:
// what agents say of their room is up to a minute old, and many copies are made soonest when all hosts take their share. nil when there is none.
func roomiest(hosts []*host) (best *host) {
	var most int64
	for _, h := range hosts {
		most = max(most, h.room)
	}
	for _, h := range hosts {
		if h.room >= most-most/10 && (best == nil || cmp.Or(cmp.Compare(h.comes, best.comes), cmp.Compare(best.room, h.room)) < 0) {
			best = h
		}
	}
	return best
}

// noTarget says why target finds none.
func (o *one) noTarget() string {
	taken := map[string]bool{}
	for _, l := range o.Locations {
		taken[l.HostUUID] = true
	}
	for _, t := range o.running {
		taken[t.To] = true
	}
	parts, _ := o.tried()
	taking, others, roomy := false, false, false
	for _, h := range o.order {
		if !h.takes() {
			continue
		}
		if taken[h.UUID] {
			taking = true
			continue
		}
		others = true
		roomy = roomy || h.room+o.rules.Reserve >= o.Size-parts[h.UUID]
	}
	switch {
	case roomy:
		return fmt.Sprintf("no other host that is well has %s free beyond what [salvor] blob_reserved_mb keeps free", size(o.Size))
	case others:
		return fmt.Sprintf("no other host that is well has %s free, less what copies under way need", size(o.Size))
	case taking:
		return "every host that is well and holds blobs has a copy already, good or not: add a host, or want fewer copies"
	default:
		return "no other host that holds blobs is well and heard"
	}
}

// resumes is how often a host that has a part of the blob is tried again before others are.
const resumes = 3

func part(parts map[string]int64, failures map[string]int, h *host) int64 {
	if failures[h.UUID] > resumes {
		return 0
	}
	return parts[h.UUID]
}

// tried is what has arrived on each host by transfers that failed lately, and how many did.
func (o *one) tried() (parts map[string]int64, failures map[string]int) {
	parts, failures = map[string]int64{}, map[string]int{}
	for _, t := range o.Transfers {
		if t.State == ha.TransferFailed {
			parts[t.To] = max(parts[t.To], min(t.Bytes, o.Size))
			failures[t.To]++
		}
	}
	return parts, failures
}

// backOff is how long the next transfer waits after those that failed lately.
func (o *one) backOff() time.Duration {
	var last time.Time
	wait := time.Duration(0)
	for _, t := range o.Transfers {
		if t.State != ha.TransferFailed || t.EndedAt == nil {
			continue
		}
		wait = min(max(2*wait, backOffFirst), backOffMost)
		if t.EndedAt.After(last) {
			last = *t.EndedAt
		}
	}
	return max(0, wait-o.now.Sub(last))
}
