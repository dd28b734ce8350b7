package blob

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/memstore"
)

var (
	seeds = flag.Int("seeds", 15, "how many random worlds")
	seed  = flag.Uint64("seed", 0, "only this one")
)

// TestRandomFaults lives through random faults in virtual time: agents die, disks fail and are repaired, bytes vanish and rot, transfers
// fail, reports are lost, the replicator's engine dies between two of its steps. After each step the promises are looked at, and when the
// faults have ended every blob of which one good copy is left is where it should be.
func TestRandomFaults(t *testing.T) {
	first, n := uint64(1), *seeds
	if *seed != 0 {
		first, n = *seed, 1
	}
	for i := range n {
		s := first + uint64(i)
		t.Run(fmt.Sprint("seed", s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, s)
				for range 150 {
					w.fault()
					w.step()
				}
				w.heal()
				for range 250 {
					w.step()
				}
				w.settled()
			})
		})
	}
}

// disk is what really lies on a host.
type disk struct {
	host     ha.Host
	alive    bool // its agent is
	broken   bool // its disk has failed
	readable bool // though it is broken
	good     map[string]bool
	bad      map[string]bool          // rotten, not noticed yet
	aside    map[string]bool          // quarantined
	gone     map[string]bool          // taken by somebody, not noticed yet
	news     map[string]ha.CopyReport // not accepted yet
	moves    map[string]ha.TransferReport
	half     map[string]int64 // of a copy that was broken off
	epoch    int64
	seq      int64
}

type world struct {
	*testing.T
	*memstore.Store
	ctx    context.Context
	rnd    *rand.Rand
	disks  []*disk
	blobs  []ha.Blob
	rules  Rules
	lease  *ha.Lease
	old    []*ha.Lease // of engines that are dead, and may not know it
	healed bool        // nothing goes wrong any more
	rotten bool        // bytes rot and vanish in this world: what is only believed good may not be
}

const sizeOfAll = 1000

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{T: t, Store: memstore.New(memstore.Config{}), ctx: t.Context(), rnd: rand.New(rand.NewPCG(seed, 7)), rotten: seed%3 == 0,
		rules: Rules{Total: 12, PerSource: 6, PerTarget: 4, Grace: 20 * time.Minute}}
	seg, err := w.CreateSegment(w.ctx, ha.Segment{UUID: uuid.NewString(), Name: "s", RecoveryMethod: ha.MethodAuto, ServiceType: "c", Enabled: true})
	w.must(err)
	for i := range 4 + w.rnd.IntN(3) {
		h, err := w.CreateHost(w.ctx, ha.Host{UUID: uuid.NewString(), Name: fmt.Sprint("h", i), SegmentUUID: seg.UUID, Type: "c", ControlAttributes: "c"})
		w.must(err)
		w.disks = append(w.disks, &disk{host: h, alive: true, good: map[string]bool{}, bad: map[string]bool{}, aside: map[string]bool{}, gone: map[string]bool{},
			news: map[string]ha.CopyReport{}, moves: map[string]ha.TransferReport{}, half: map[string]int64{}, epoch: 1})
	}
	for range 12 {
		d := w.disks[w.rnd.IntN(len(w.disks))]
		b := ha.Blob{UUID: uuid.NewString(), Size: sizeOfAll, SHA256: strings.Repeat("a", 64), WantCopies: 1 + w.rnd.IntN(3)}
		d.good[b.UUID] = true
		added, err := w.AddBlob(w.ctx, b, []string{d.host.UUID})
		w.must(err)
		w.blobs = append(w.blobs, added)
	}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) chance(percent int) bool { return w.rnd.IntN(100) < percent }

// fault lets something go wrong, or be mended.
func (w *world) fault() {
	d := w.disks[w.rnd.IntN(len(w.disks))]
	b := w.blobs[w.rnd.IntN(len(w.blobs))].UUID
	switch w.rnd.IntN(12) {
	case 0:
		d.alive = false
	case 1, 2:
		if !d.alive {
			d.alive = true
			d.epoch++
		}
	case 3:
		d.broken, d.readable = true, w.chance(50)
	case 4, 5:
		w.mend(d)
	case 6:
		if w.rotten && d.good[b] && w.copies(b) > 1 { // by somebody's hand, but not the last one
			delete(d.good, b)
			d.gone[b] = true
		}
	case 7:
		if w.rotten && d.good[b] {
			delete(d.good, b)
			d.bad[b] = true
		}
	case 8:
		if w.lease != nil { // its engine dies, or only believes so
			w.old, w.lease = append(w.old, w.lease), nil
		}
	}
}

// mend repairs a disk, and an operator clears the episode.
func (w *world) mend(d *disk) {
	if !d.broken {
		return
	}
	d.broken = false
	_, err := w.ClearStorage(w.ctx, ha.Clear{HostUUID: d.host.UUID, By: "op", Force: true})
	var none *ha.ConflictError
	if err != nil && !errors.As(err, &none) {
		w.Fatal(err)
	}
}

func (w *world) heal() {
	w.healed = true
	for _, d := range w.disks {
		if !d.alive {
			d.alive = true
			d.epoch++
		}
		w.mend(d)
	}
	w.agents() // whoever has reported the failure late
	for _, d := range w.disks {
		d.broken = true
		w.mend(d)
	}
}

// copies counts the good ones that there are in the whole world, on dead hosts and broken disks too.
func (w *world) copies(blob string) (n int) {
	for _, d := range w.disks {
		if d.good[blob] {
			n++
		}
	}
	return n
}

func (w *world) step() {
	time.Sleep(5 * time.Second) // of virtual time
	w.agents()
	w.cascades()
	w.replicate()
	w.check()
}

// agents report and carry out orders.
func (w *world) agents() {
	for _, d := range w.disks {
		if !d.alive {
			continue
		}
		w.scrub(d)
		w.report(d)
		if w.chance(80) {
			w.carryOut(d)
		}
	}
}

// scrub hashes something in the background.
func (w *world) scrub(d *disk) {
	if d.broken {
		return
	}
	for _, b := range w.blobs {
		switch {
		case !w.chance(20):
		case d.bad[b.UUID]:
			delete(d.bad, b.UUID)
			d.aside[b.UUID] = true
			d.find(b, ha.CopyCorrupt)
		case d.good[b.UUID]:
			d.find(b, ha.CopyPresent)
		case d.gone[b.UUID]:
			d.find(b, ha.CopyMissing)
		}
		if d.news[b.UUID].State == ha.CopyMissing {
			delete(d.gone, b.UUID)
		}
	}
}

func (d *disk) find(b ha.Blob, s ha.CopyState) {
	d.news[b.UUID] = ha.CopyReport{BlobUUID: b.UUID, State: s, Size: b.Size, SHA256: b.SHA256}
}

func (w *world) report(d *disk) {
	if w.chance(10) { // lost on its way
		return
	}
	d.seq++
	r := ha.AgentReport{HostUUID: d.host.UUID, Epoch: d.epoch, Seq: d.seq, URL: "http://" + d.host.Name, FreeBytes: 1 << 30,
		EpisodeUUID: uuid.NewString(), TicketKey: []byte("key of " + d.host.Name)}
	check := ha.Check{Resource: "blobs", Path: "/b", Kinds: []ha.ObjectKind{ha.ObjectBlob}, Status: ha.CheckOK}
	if d.broken {
		check.Status = ha.CheckIOError
	}
	r.Checks = []ha.Check{check}
	for _, c := range d.news {
		r.Copies = append(r.Copies, c)
	}
	for _, t := range d.moves {
		r.Transfers = append(r.Transfers, t)
	}
	_, err := w.ReportStorage(w.ctx, r)
	w.must(err)
	if w.chance(10) { // the answer was lost: all of it is told again
		return
	}
	clear(d.news)
	clear(d.moves)
}

func (w *world) carryOut(d *disk) {
	orders, err := w.AgentOrders(w.ctx, d.host.UUID, time.Now().Add(-time.Hour))
	w.must(err)
	for _, o := range orders {
		b := ha.Blob{UUID: o.Blob, Size: o.Size, SHA256: o.SHA256}
		switch o.Kind {
		case ha.OrderDrop:
			w.orderedDrop(d, o)
			if !d.broken {
				delete(d.good, b.UUID)
				delete(d.bad, b.UUID)
				delete(d.aside, b.UUID)
				d.find(b, ha.CopyMissing)
			}
		case ha.OrderVerify, ha.OrderRestore:
			switch {
			case d.broken:
				d.moves[o.ID] = ha.TransferReport{UUID: o.ID, State: ha.TransferFailed, Error: "input/output error"}
			case d.bad[b.UUID], d.aside[b.UUID]:
				delete(d.bad, b.UUID)
				d.aside[b.UUID] = true
				d.find(b, ha.CopyCorrupt)
			case d.good[b.UUID]:
				d.find(b, ha.CopyPresent)
			default:
				d.find(b, ha.CopyMissing)
			}
		case ha.OrderCancel:
			d.moves[o.ID] = ha.TransferReport{UUID: o.ID, State: ha.TransferFailed, Bytes: d.half[b.UUID]}
		case ha.OrderCopy:
			w.copy(d, o, b)
		}
	}
}

// copy fetches some of a blob, from the first source that gives it.
func (w *world) copy(d *disk, o ha.AgentOrder, b ha.Blob) {
	tell := func(s ha.TransferState, why string) {
		d.moves[o.ID] = ha.TransferReport{UUID: o.ID, State: s, Bytes: d.half[b.UUID], Error: why}
	}
	if d.broken || !w.healed && w.chance(10) {
		tell(ha.TransferFailed, "broken off")
		return
	}
	for _, s := range o.Sources {
		from := w.disks[slices.IndexFunc(w.disks, func(x *disk) bool { return x.host.UUID == s.Host })]
		if !from.alive || from.broken && !from.readable || !from.good[b.UUID] {
			continue
		}
		if d.half[b.UUID] += 300; d.half[b.UUID] < b.Size {
			tell(ha.TransferRunning, "")
			return
		}
		delete(d.half, b.UUID)
		delete(d.bad, b.UUID)
		d.good[b.UUID] = true
		d.find(b, ha.CopyPresent)
		tell(ha.TransferDone, "")
		return
	}
	tell(ha.TransferFailed, "no source gives it")
}

// orderedDrop is the promise: never the last good copy, never below want_copies by our own hand.
func (w *world) orderedDrop(d *disk, o ha.AgentOrder) {
	show, err := w.Blob(w.ctx, o.Blob)
	w.must(err)
	sure, quarantined := 0, false
	for _, l := range show.Locations {
		if l.HostUUID == d.host.UUID {
			quarantined = l.Why == ha.WhySetAside
			continue
		}
		health, open, err := w.StorageHealth(w.ctx, l.HostUUID)
		w.must(err)
		if l.State == ha.LocationPresent && l.VerifiedAt != nil && open == nil && time.Since(health.ReportedAt) <= ha.AgentSilence {
			sure++
		}
	}
	if sure < 1 || !quarantined && sure < show.WantCopies {
		w.Fatalf("%s is ordered to drop blob %s, of which %d other copies are known to be good and %d are wanted", d.host.Name, o.Blob, sure, show.WantCopies)
	}
	if !w.rotten && d.good[o.Blob] && !d.broken && w.copies(o.Blob) < 2 {
		w.Fatalf("%s is ordered to drop the last good copy of blob %s", d.host.Name, o.Blob)
	}
}

// cascades are the engine's over the hosts whose disks have failed: batches of suspect copies.
func (w *world) cascades() {
	poll, err := w.Poll(w.ctx, "cascade")
	w.must(err)
	for _, u := range append(poll.Units, poll.Mine...) {
		if !strings.HasPrefix(u.Key, string(ha.UnitStorage)) || u.Owner != "" && u.Owner != "cascade" {
			continue
		}
		l, unit, err := w.Claim(w.ctx, ha.ClaimRequest{Owner: "cascade", TTL: time.Second, WorkID: u.WorkID, Epoch: u.Epoch, Beat: u.Beat})
		w.must(err)
		for _, r := range unit.Storage.Runs {
			if r.Kind != ha.ObjectBlob || r.State != ha.RunOpen {
				continue
			}
			var cursor int64
			_, _ = fmt.Sscan(r.Cursor, &cursor)
			_, err := w.Commit(w.ctx, &l, ha.SuspectLocations{HostUUID: unit.HostUUID, EpisodeUUID: r.EpisodeUUID, Cursor: cursor, Limit: 2})
			w.must(err)
			break
		}
		_, err = w.Commit(w.ctx, &l, ha.Park{})
		w.must(err)
	}
}

// replicate is a pass of whoever holds the replicator; sometimes its engine dies in the middle of it.
func (w *world) replicate() {
	if w.lease == nil {
		poll, err := w.Poll(w.ctx, "nobody")
		w.must(err)
		for _, u := range poll.Units {
			if u.Key == ha.ReplicatorKey {
				l, _, err := w.Claim(w.ctx, ha.ClaimRequest{Owner: uuid.NewString(), TTL: time.Second, WorkID: u.WorkID, Epoch: u.Epoch, Beat: u.Beat})
				w.must(err)
				w.lease = &l
			}
		}
	}
	unit, err := w.Load(w.ctx, w.lease)
	w.must(err)
	if w.chance(10) { // somebody speaks between the look and the commit
		w.agents()
	}
	d := Decide(*unit.Blobs, w.rules, unit.Now, uuid.NewString)
	if w.chance(5) {
		return // dead before it could write
	}
	for _, l := range w.old { // those that are dead write nothing
		if _, err := w.Commit(w.ctx, l, d.Changes...); !errors.Is(err, ha.ErrFenced) {
			w.Fatalf("a dead engine's commit ended with %v", err)
		}
	}
	_, err = w.Commit(w.ctx, w.lease, d.Changes...)
	w.must(err)
	for _, c := range d.Changes {
		if p, is := c.(ha.PlanBlob); is && len(p.Start) > 0 {
			w.noMoreThanNeeded(p)
		}
	}
}

// noMoreThanNeeded: need = want_copies - present - under way.
func (w *world) noMoreThanNeeded(p ha.PlanBlob) {
	b, err := w.Blob(w.ctx, p.BlobUUID)
	w.must(err)
	if n := running(b.Transfers); b.Touch == p.Seen+1 && p.Copies+n > b.WantCopies {
		w.Fatalf("%d copies and %d transfers of a blob that is wanted in %d places", p.Copies, n, b.WantCopies)
	}
}

func running(transfers []ha.Transfer) (n int) {
	for _, t := range transfers {
		if t.State == ha.TransferRunning {
			n++
		}
	}
	return n
}

// check looks at the limits.
func (w *world) check() {
	state := string(ha.TransferRunning)
	list, _, err := w.Transfers(w.ctx, ha.TransferFilter{State: &state}, 1000, "")
	w.must(err)
	to := map[string]int{}
	for _, t := range list {
		to[t.To]++
		if to[t.To] > w.rules.PerTarget {
			w.Fatalf("%d transfers to one host", to[t.To])
		}
	}
	if len(list) > w.rules.Total {
		w.Fatalf("%d transfers", len(list))
	}
}

// settled: long after the last fault everything is as it should be.
func (w *world) settled() {
	for _, was := range w.blobs {
		b, err := w.Blob(w.ctx, was.UUID)
		w.must(err)
		left := w.copies(b.UUID)
		switch {
		case b.LostBy != "" || b.Durability == ha.DurabilityLost:
			w.Errorf("blob %s was given up by nobody", b.UUID)
		case left == 0 && b.Durability != ha.DurabilityAtRisk:
			w.Errorf("blob %s of which nothing is left is %s", b.UUID, b.Durability)
		case left > 0 && (b.Durability != ha.DurabilityOK || left != min(b.WantCopies, len(w.disks)) || running(b.Transfers) > 0):
			w.Errorf("blob %s, wanted in %d places, is in %d, %s (%s), %d under way: %+v", b.UUID, b.WantCopies, left, b.Durability, b.Why, running(b.Transfers), b.Locations)
		}
		if left == 0 && !w.rotten {
			w.Errorf("the last copy of blob %s is gone, and no fault took it", b.UUID)
		}
	}
}
