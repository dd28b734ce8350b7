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
	// It is looked at again with the next pass, unless others wait behind it that could go.
	again := crowdedOut
	if !p.crowded || p.full() {
		if again = itsTurn; due && !differs {
			return o.plan, false
		}
	}
	if o.plan.Again == 0 {
		o.plan.Again = again
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
		return o.noTarget()
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
