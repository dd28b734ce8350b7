package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// loadBlobs reads what the replicator needs.
func (t *tx) loadBlobs(w *work, u *ha.Unit) {
	if w.Kind != ha.UnitReplicator {
		return
	}
	b := &ha.BlobWork{}
	u.Blobs = b
	var due, waited []blobRow
	for _, uuid := range t.blobs.order {
		switch r := t.blobs.blobs[uuid]; {
		case r.due:
			due = append(due, r)
		case !r.retry.IsZero() && !r.retry.After(t.now):
			waited = append(waited, r)
		}
	}
	slices.SortStableFunc(due, func(a, b blobRow) int {
		return cmp.Or(cmp.Compare(a.Copies, b.Copies), cmp.Compare(unused(a), unused(b)), cmp.Compare(a.Size, b.Size))
	})
	slices.SortStableFunc(waited, func(a, b blobRow) int { return a.retry.Compare(b.retry) })
	due = append(due, waited...)
	b.More = len(due) > rules.DuePage
	due = due[:min(len(due), rules.DuePage)]
	for _, r := range due {
		b.Due = append(b.Due, t.blobState(r))
	}
	for _, uuid := range t.blobs.order {
		if r := t.blobs.blobs[uuid]; r.ID > t.blobs.cursor && len(b.Swept) < rules.SweepPage {
			b.Swept = append(b.Swept, t.blobState(r))
		}
	}
	if n := len(b.Swept); n == rules.SweepPage {
		b.Cursor = b.Swept[n-1].ID
	}
	for uuid := range t.storage.health {
		if h, known := t.blobHost(uuid); known {
			b.Hosts = append(b.Hosts, h)
		}
	}
	slices.SortFunc(b.Hosts, func(a, b ha.BlobHost) int { return cmp.Compare(a.UUID, b.UUID) })
	for _, id := range t.blobs.torder {
		if r := t.blobs.transfers[id]; r.State == ha.TransferRunning {
			b.Running = append(b.Running, r.Transfer)
		}
	}
}

func unused(r blobRow) int {
	if r.InUse {
		return 0
	}
	return 1
}

func (t *tx) blobState(r blobRow) ha.BlobState {
	s := ha.BlobState{Blob: r.Blob}
	for _, l := range t.blobs.locations[r.UUID] {
		if l.State != ha.LocationDropped {
			s.Locations = append(s.Locations, l)
		}
	}
	slices.SortFunc(s.Locations, func(a, b ha.Location) int { return cmp.Compare(a.HostUUID, b.HostUUID) })
	for _, id := range t.blobs.tof[r.UUID] {
		x := t.blobs.transfers[id]
		if x.State == ha.TransferRunning || x.State == ha.TransferFailed && x.EndedAt.After(t.now.Add(-rules.FailedKept)) {
			s.Transfers = append(s.Transfers, x.Transfer)
		}
	}
	slices.SortFunc(s.Transfers, func(a, b ha.Transfer) int {
		return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(endedID(a), endedID(b)))
	})
	return s
}

func endedID(x ha.Transfer) int64 {
	if x.EndedAt == nil {
		return 0
	}
	return x.ID
}

// blobChange applies the replicator's changes.
func (t *tx) blobChange(w *work, change ha.Change) error {
	switch c := change.(type) {
	case ha.PlanBlob:
		t.planBlob(c)
	case ha.WakeBlobs:
		for _, uuid := range c.UUIDs {
			if b, known := t.blobs.blobs[uuid]; known {
				b.due, b.retry = true, time.Time{}
				putKey(t, t.blobs.blobs, uuid, b)
			}
		}
	case ha.SetSweep:
		put(t, &t.blobs.cursor, c.Cursor)
	case ha.VerifyLocations:
		t.turnLocations(c.HostUUID, "", c.Cursor, c.Limit, ha.LocationVerifying, "its host's storage is well again", func(l ha.Location) bool {
			return l.State == ha.LocationSuspect && l.EpisodeUUID == c.EpisodeUUID
		})
	default:
		return t.storageChange(w, change)
	}
	return nil
}

// suspectLocations makes a batch of a host's copies suspect and returns them, by their ids in order.
func (t *tx) suspectLocations(c ha.SuspectLocations) []ha.Location {
	return t.turnLocations(c.HostUUID, c.EpisodeUUID, c.Cursor, c.Limit, ha.LocationSuspect, "the storage of its host is in error", func(l ha.Location) bool {
		return l.State == ha.LocationPresent || l.State == ha.LocationVerifying
	})
}

func (t *tx) turnLocations(host, episode string, cursor int64, limit int, to ha.LocationState, why string, from func(ha.Location) bool) []ha.Location {
	var turned []ha.Location
	for _, uuid := range t.blobs.order {
		if l := t.locationAt(uuid, host); l != nil && l.ID > cursor && from(*l) {
			turned = append(turned, *l)
		}
	}
	slices.SortFunc(turned, func(a, b ha.Location) int { return cmp.Compare(a.ID, b.ID) })
	turned = turned[:min(len(turned), limit)]
	if len(turned) == 0 {
		return nil
	}
	t.wakeReplicator()
	for i := range turned {
		l := &turned[i]
		l.State, l.EpisodeUUID, l.Why, l.Since = to, episode, why, t.now
		l.Version++
		t.putLocation(*l)
		t.recount(l.BlobUUID)
	}
	return turned
}

// planBlob writes what was decided about a blob that still is as it was seen.
func (t *tx) planBlob(p ha.PlanBlob) {
	b, known := t.blobs.blobs[p.BlobUUID]
	if !known {
		return
	}
	fits := b.Touch == p.Seen
	b.Touch++
	putKey(t, t.blobs.blobs, p.BlobUUID, b)
	if !fits {
		return
	}
	refused := false
	for _, m := range p.Move {
		i := slices.IndexFunc(t.blobs.locations[p.BlobUUID], func(l ha.Location) bool { return l.ID == m.ID })
		if i < 0 {
			continue
		}
		l := t.blobs.locations[p.BlobUUID][i]
		if m.To == ha.LocationDropping && !t.spares(b.Blob, ha.Location{ID: m.ID, Why: m.Why}) {
			refused = true
			continue
		}
		l.State, l.EpisodeUUID, l.Why, l.Since = m.To, "", m.Why, t.now
		if m.To == ha.LocationPresent {
			l.VerifiedAt = nil
		}
		l.Version++
		t.putLocation(l)
	}
	for _, x := range p.Cancel {
		if r, known := t.blobs.transfers[x.UUID]; known && r.State == ha.TransferRunning {
			now := t.now
			r.State, r.Why, r.EndedAt = ha.TransferCancelled, rules.Text(x.Why, rules.MaxText), &now
			putKey(t, t.blobs.transfers, x.UUID, r)
		}
	}
	for _, x := range p.Replace {
		if r, known := t.blobs.transfers[x.UUID]; known && r.State == ha.TransferRunning {
			r.From, r.Rescue = x.From, x.Rescue
			putKey(t, t.blobs.transfers, x.UUID, r)
		}
	}
	for _, x := range p.Start {
		if slices.ContainsFunc(t.blobs.tof[p.BlobUUID], func(id string) bool {
			r := t.blobs.transfers[id]
			return r.State == ha.TransferRunning && r.To == x.To
		}) {
			continue
		}
		r := transferRow{Transfer: ha.Transfer{ID: t.id(), UUID: x.UUID, BlobUUID: p.BlobUUID, From: x.From, To: x.To, State: ha.TransferRunning,
			Rescue: x.Rescue, Size: b.Size, StartedAt: t.now, MovedAt: t.now}}
		putKey(t, t.blobs.transfers, x.UUID, r)
		putKey(t, t.blobs.tof, p.BlobUUID, append(slices.Clone(t.blobs.tof[p.BlobUUID]), x.UUID))
		put(t, &t.blobs.torder, append(slices.Clone(t.blobs.torder), x.UUID))
	}
	b = t.blobs.blobs[p.BlobUUID]
	b.Copies, b.Durability, b.Why = p.Copies, ha.DurabilityOf(b.WantCopies, p.Copies, b.LostBy), rules.Text(p.Why, rules.MaxText)
	b.due, b.retry = refused, time.Time{}
	if p.Again > 0 {
		b.retry = t.now.Add(p.Again)
	}
	now := t.now
	b.UpdatedAt = &now
	putKey(t, t.blobs.blobs, p.BlobUUID, b)
}

// reportBlobs takes in what an agent says of its copies, transfers and orders.
func (t *tx) reportBlobs(r ha.AgentReport) error {
	if r.Domain != "" {
		putKey(t, t.blobs.domains, r.HostUUID, rules.Name(r.Domain))
	}
	host, _ := t.blobHost(r.HostUUID)
	counts := map[string]bool{}
	last := map[string]ha.CopyReport{}
	for _, c := range r.Copies {
		last[c.BlobUUID] = c
	}
	for _, c := range r.Copies {
		b, known := t.blobs.blobs[c.BlobUUID]
		if !known || last[c.BlobUUID] != c {
			continue
		}
		l, write, again := rules.CopyFound(b.Blob, t.locationAt(c.BlobUUID, r.HostUUID), r.HostUUID, c, host.Failed, t.now)
		if write {
			t.putLocation(l)
		}
		if again {
			counts[c.BlobUUID] = true
		}
	}
	for _, x := range r.Transfers {
		if id, version, ok := rules.OrderedLocation(x.UUID); ok {
			t.orderFailed(r.HostUUID, id, version, x, last, counts)
			continue
		}
		row, known := t.blobs.transfers[x.UUID]
		if !known || row.To != r.HostUUID {
			continue
		}
		next, write, again, told := rules.TransferTold(row.Transfer, x, t.now)
		if write || told {
			putKey(t, t.blobs.transfers, x.UUID, transferRow{next, row.told || told})
		}
		if again {
			counts[row.BlobUUID] = true
		}
	}
	if len(counts) > 0 {
		t.wakeReplicator()
	}
	for uuid := range counts {
		t.recount(uuid)
	}
	return nil
}

func (t *tx) orderFailed(host string, id, version int64, x ha.TransferReport, copies map[string]ha.CopyReport, counts map[string]bool) {
	blob := t.blobs.blobOf[id]
	l := t.locationAt(blob, host)
	if _, also := copies[blob]; also || l == nil || l.ID != id {
		return
	}
	if next, write := rules.OrderFailed(*l, version, x, t.now); write {
		t.putLocation(next)
		counts[blob] = true
	}
}

// AgentOrders derives from the rows what is open for a host.
func (s *Store) AgentOrders(ctx context.Context, host string, verifiedBefore time.Time) (orders []ha.AgentOrder, err error) {
	err = s.run(ctx, "AgentOrders", func(t *tx) error {
		orders = nil
		var cancels, copies []ha.AgentOrder
		for _, id := range t.blobs.torder {
			r := t.blobs.transfers[id]
			switch {
			case r.To != host:
			case r.State == ha.TransferCancelled && !r.told && len(cancels) < rules.CancelOrders && r.EndedAt.After(t.now.Add(-rules.CancelKept)):
				cancels = append(cancels, ha.AgentOrder{ID: r.UUID, Kind: ha.OrderCancel, Blob: r.BlobUUID, Size: r.Size})
			case r.State == ha.TransferRunning && len(copies) < rules.CopyOrders:
				if o := t.copyOrder(r.Transfer); len(o.Sources) > 0 {
					copies = append(copies, o)
				}
			}
		}
		orders = append(append(orders, cancels...), copies...)
		var kinds [5][]ha.AgentOrder
		for _, uuid := range t.blobs.order {
			if l := t.locationAt(uuid, host); l != nil {
				if at, o := t.locationOrder(t.blobs.blobs[uuid].Blob, *l, verifiedBefore); at >= 0 && len(kinds[at]) < orderLimits[at] {
					kinds[at] = append(kinds[at], o)
				}
			}
		}
		for _, k := range kinds {
			orders = append(orders, k...)
		}
		return nil
	})
	return orders, err
}

var orderLimits = [5]int{rules.VerifyOrders, rules.RehashOrders, rules.DropOrders, rules.RestoreOrders, rules.StaleOrders}

// locationOrder is what is to be done about a copy, and its place among the kinds of orders; below 0: nothing.
func (t *tx) locationOrder(b ha.Blob, l ha.Location, verifiedBefore time.Time) (int, ha.AgentOrder) {
	kind, at := ha.OrderVerify, -1
	switch {
	case l.State == ha.LocationVerifying:
		at = 0
	case l.State == ha.LocationPresent && l.VerifiedAt == nil:
		at = 1
	case l.State == ha.LocationDropping && t.spares(b, l):
		kind, at = ha.OrderDrop, 2
	case l.State == ha.LocationQuarantined && l.Why == ha.WhyRestore:
		kind, at = ha.OrderRestore, 3
	case l.State == ha.LocationPresent && l.VerifiedAt.Before(verifiedBefore):
		at = 4
	}
	o := ha.AgentOrder{ID: rules.LocationOrder(kind, l), Kind: kind, Blob: b.UUID, Size: b.Size, SHA256: b.SHA256}
	if at == 4 {
		o = rules.StaleOrder(o, l)
	}
	return at, o
}

func (t *tx) copyOrder(x ha.Transfer) ha.AgentOrder {
	b := t.blobs.blobs[x.BlobUUID]
	hosts, keys := map[string]ha.BlobHost{}, map[string][]byte{}
	var at []ha.Location
	for _, l := range t.blobState(b).Locations {
		if l.HostUUID == x.To || l.State != ha.LocationPresent && l.State != ha.LocationSuspect && l.State != ha.LocationVerifying {
			continue
		}
		at = append(at, l)
		if h, known := t.blobHost(l.HostUUID); known {
			hosts[l.HostUUID], keys[l.HostUUID] = h, t.storage.agents[l.HostUUID].ticketKey
		}
	}
	return ha.AgentOrder{ID: x.UUID, Kind: ha.OrderCopy, Blob: x.BlobUUID, Size: b.Size, SHA256: b.SHA256, Sources: rules.Sources(at, hosts, keys, x.From, x.Rescue)}
}
