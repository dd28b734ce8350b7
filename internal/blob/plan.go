package blob

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// one is one blob being decided.
type one struct {
	*pass
	ha.BlobState
	plan    ha.PlanBlob
	moving  map[int64]bool // locations that change state in this plan
	running []ha.Transfer  // that go on
	changed bool           // anything but what is counted
	waits   bool           // the limits let it wait: it stays due
}

// blob decides about one blob. write is false when the rows are as they should be.
func (p *pass) blob(b ha.BlobState, due bool) (c ha.PlanBlob, write bool) {
	o := one{pass: p, BlobState: b, plan: ha.PlanBlob{BlobUUID: b.UUID, Seen: b.Touch}, moving: map[int64]bool{}}
	o.plan.Copies = o.copies()
	o.transfers()
	if b.LostBy == "" {
		o.verify()
		o.makeCopies()
		o.trim()
	}
	o.plan.Why = o.why()
	differs := o.changed || o.plan.Copies != b.Copies || o.plan.Why != b.Why ||
		b.Durability != ha.DurabilityOf(b.WantCopies, o.plan.Copies, b.LostBy)
	if !o.waits {
		return o.plan, due || differs
	}
	// It stays due, and so first in line, unless others wait behind it that could go.
	if due && !differs && (!p.crowded || p.running >= p.rules.Total) {
		return o.plan, false
	}
	if o.plan.Again == 0 {
		o.plan.Again = crowdedOut
	}
	return o.plan, due || differs
}

func (o *one) copies() int {
	n := 0
	for _, l := range o.Locations {
		if o.counts(l) {
			n++
		}
	}
	return n
}

// sureBut are the copies that are sure, but for one and for those that change in this plan.
func (o *one) sureBut(but int64, since time.Time) (sure []ha.Location) {
	for _, l := range o.Locations {
		if l.ID != but && !o.moving[l.ID] && o.sure(l, since) {
			sure = append(sure, l)
		}
	}
	return sure
}

// spares reports whether a location can be given up. What others would suffice if only their hashes were younger has them hashed again.
func (o *one) spares(l ha.Location, needs int) bool {
	since := o.now.Add(-ha.HashTrust)
	if len(o.sureBut(l.ID, since)) >= needs {
		return true
	}
	if known := o.sureBut(l.ID, time.Time{}); len(known) >= needs {
		for _, k := range known {
			if !k.HashedSince(since) {
				o.move(k, ha.LocationPresent, ha.WhyRehash)
			}
		}
	}
	return false
}

func (o *one) move(l ha.Location, to ha.LocationState, why string) {
	o.plan.Move = append(o.plan.Move, ha.MoveLocation{ID: l.ID, To: to, Why: why})
	o.moving[l.ID], o.changed = true, true
}

func (o *one) cancel(t ha.Transfer, why string) {
	o.plan.Cancel = append(o.plan.Cancel, ha.Transfer{UUID: t.UUID, Why: why})
	o.release(t)
	o.changed = true
}

// transfers sorts out what is under way: what cannot go on is cancelled, a source that is gone is replaced.
func (o *one) transfers() {
	for _, t := range o.Transfers {
		if t.State != ha.TransferRunning {
			continue
		}
		to := o.hosts[t.To]
		switch {
		case o.LostBy != "":
			o.cancel(t, "the blob was given up by "+o.LostBy)
			continue
		case to == nil, !to.heard:
			o.cancel(t, "the agent of its target is silent")
			continue
		case to.Errored || to.Failed:
			o.cancel(t, "the storage of its target is in error")
			continue
		case !to.takes():
			o.cancel(t, "its target has no place for blobs any more")
			continue
		case o.now.Sub(t.MovedAt) >= forgotten:
			o.cancel(t, "the agent of its target says nothing about it")
			continue
		}
		if o.source(t.From, t.Rescue) {
			o.running = append(o.running, t)
			continue
		}
		from, rescue := o.least(o.given, noLimit), false
		if from == nil && o.plan.Copies == 0 {
			from, rescue = o.least(o.rescues, noLimit), true
		}
		if from == nil {
			o.cancel(t, "its source is gone, and there is no other")
			continue
		}
		if h := o.hosts[t.From]; h != nil {
			h.from--
		}
		from.from++
		t.From, t.Rescue = from.UUID, rescue
		o.plan.Replace = append(o.plan.Replace, t)
		o.running = append(o.running, t)
		o.changed = true
	}
}

// source reports whether the host still can be asked for the blob.
func (o *one) source(uuid string, rescue bool) bool {
	return slices.ContainsFunc(o.Locations, func(l ha.Location) bool {
		if l.HostUUID != uuid {
			return false
		}
		return o.given(l) || rescue && o.rescues(l)
	})
}

// rescues reports whether a copy that does not count may be read all the same: a disk that is read-only often still reads. What arrives
// is hashed, so nothing is lost by trying.
func (o *one) rescues(l ha.Location) bool {
	h := o.hosts[l.HostUUID]
	if h == nil || !h.heard || h.URL == "" {
		return false
	}
	switch l.State {
	case ha.LocationSuspect, ha.LocationPresent:
		return true
	case ha.LocationVerifying: // its agent is asked first
		return o.now.Sub(l.Since) >= settles
	default:
		return false
	}
}

// given reports whether the copy counts and its host can be asked for it.
func (o *one) given(l ha.Location) bool {
	return l.State == ha.LocationPresent && o.hosts[l.HostUUID].gives()
}

// noLimit is for a source that takes the place of one that is gone.
const noLimit = math.MaxInt

// least is the host with such a copy that has the fewest transfers under way from it, less than limit; nil when there is none.
func (o *one) least(fits func(ha.Location) bool, limit int) *host {
	var best *host
	for _, l := range o.Locations {
		if o.moving[l.ID] || !fits(l) {
			continue
		}
		if h := o.hosts[l.HostUUID]; h.from < limit && (best == nil || h.from < best.from || h.from == best.from && h.UUID < best.UUID) {
			best = h
		}
	}
	return best
}

// verify asks for the hash of what was suspect on a host that is well again, and of what has been set aside when nothing else is left.
func (o *one) verify() {
	for _, l := range o.Locations {
		h := o.hosts[l.HostUUID]
		switch {
		case h == nil || !h.heard || h.Failed:
		case l.State == ha.LocationSuspect && (l.EpisodeUUID != "" || o.now.Sub(l.Since) >= settles):
			o.move(l, ha.LocationVerifying, "its host's storage is well again")
		case l.State == ha.LocationDropping && o.plan.Copies < l.DropNeeds(o.Blob):
			o.move(l, ha.LocationVerifying, "copies elsewhere were lost: it is needed again")
		case l.State == ha.LocationQuarantined && o.plan.Copies == 0 && l.Why != ha.WhyRestore && o.now.Sub(l.Since) >= settles && !o.hopes():
			o.move(l, ha.LocationQuarantined, ha.WhyRestore)
		}
	}
}

// hopes reports whether there still is a copy that may prove good.
func (o *one) hopes() bool {
	return slices.ContainsFunc(o.Locations, func(l ha.Location) bool {
		return l.State == ha.LocationSuspect || l.State == ha.LocationVerifying || l.State == ha.LocationDropping
	})
}

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

// target is the best host for one more copy: where a part of it has arrived already, then in a failure domain without a copy, then with
// the most room left. full: there would be one, but for the limit per target.
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
	better := func(a, b *host) bool {
		return cmp.Or(
			cmp.Compare(part(parts, failures, b), part(parts, failures, a)),
			cmp.Compare(failures[a.UUID], failures[b.UUID]),
			compareBool(domains[a.Domain], domains[b.Domain]),
			cmp.Compare(b.room, a.room)) < 0
	}
	for _, h := range o.order {
		if taken[h.UUID] || !h.takes() || h.room < o.Size-parts[h.UUID] {
			continue
		}
		if h.to >= o.rules.PerTarget {
			full = true
			continue
		}
		if best == nil || better(h, best) {
			best = h
		}
	}
	return best, full
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

// trim gives up what is more than enough, and what was set aside once a good copy is elsewhere. Each is counted again when it is
// written, so that no two go at once.
func (o *one) trim() {
	for _, l := range o.Locations {
		h := o.hosts[l.HostUUID]
		switch {
		case h == nil || !h.heard || h.Failed || o.moving[l.ID]:
		case l.State == ha.LocationQuarantined && o.spares(l, 1):
			o.move(l, ha.LocationDropping, ha.WhySetAside)
		case l.State == ha.LocationDropping && !l.DropHashed(o.now).IsZero():
			o.spares(l, l.DropNeeds(o.Blob)) // it may have waited for its agent until the others' hashes were old
		}
	}
	extra := o.sureBut(0, time.Time{})
	if len(extra) <= o.WantCopies || len(o.plan.Start) > 0 {
		return
	}
	for _, l := range o.leastWanted(extra)[:len(extra)-o.WantCopies] {
		if !o.spares(l, o.WantCopies) {
			return
		}
		o.move(l, ha.LocationDropping, "there are more copies than are wanted")
		o.plan.Copies--
	}
}

// leastWanted orders copies: those in a failure domain that has another first, then those where room is scarcest.
func (o *one) leastWanted(locations []ha.Location) []ha.Location {
	rest := slices.Clone(locations)
	slices.SortFunc(rest, func(a, b ha.Location) int {
		return cmp.Or(cmp.Compare(o.hosts[a.HostUUID].room, o.hosts[b.HostUUID].room), cmp.Compare(a.HostUUID, b.HostUUID))
	})
	var first, then []ha.Location
	left := map[string]int{}
	for _, l := range rest {
		left[o.hosts[l.HostUUID].Domain]++
	}
	for _, l := range rest {
		if d := o.hosts[l.HostUUID].Domain; left[d] > 1 {
			left[d]--
			first = append(first, l)
		} else {
			then = append(then, l)
		}
	}
	return append(first, then...)
}

// why says for people why the blob is not ok, without numbers that move.
func (o *one) why() string {
	coming, _ := o.coming()
	switch {
	case o.LostBy != "":
		return "given up by " + o.LostBy
	case o.plan.Copies >= o.WantCopies:
		return ""
	case len(o.running) > 0 && o.running[0].Rescue:
		return "it is read from a copy that does not count: there is no other"
	case o.plan.Copies+len(o.running) >= o.WantCopies:
		return "it is being copied"
	case o.plan.Copies+len(o.running)+coming >= o.WantCopies:
		return "a copy that is said to be there is being hashed"
	case o.waits:
		return "it waits for its turn: as much is being copied as the limits allow"
	}
	failed := ""
	for _, t := range o.Transfers {
		if t.State == ha.TransferFailed {
			failed = t.Why
		}
	}
	switch {
	case failed != "":
		return "it could not be copied, and will be tried again: " + failed
	case o.plan.Copies == 0 && !slices.ContainsFunc(o.Locations, o.rescues):
		return "no host that can be asked has a copy"
	case o.plan.Copies > 0 && !slices.ContainsFunc(o.Locations, o.given):
		return "no host that has a copy can be asked for it"
	default:
		return fmt.Sprintf("no other host that is well has %s free beyond what is reserved", size(o.Size))
	}
}

func size(n int64) string {
	const unit = 1 << 10
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n), -1
	for f >= unit && i < 4 {
		f, i = f/unit, i+1
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGTP"[i])
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
