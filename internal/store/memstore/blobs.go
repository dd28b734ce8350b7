package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// blobRows are the catalogue of blobs. Values are replaced whole, so that an undone transaction leaves no trace.
type blobRows struct {
	blobs     map[string]blobRow
	order     []string                 // of blobs, by id
	locations map[string][]ha.Location // by blob
	blobOf    map[int64]string         // by a location's id
	transfers map[string]transferRow
	torder    []string            // of transfers, by id
	tof       map[string][]string // transfers by blob
	domains   map[string]string   // by host
	cursor    int64
}

type blobRow struct {
	ha.Blob
	due   bool
	retry time.Time
}

type transferRow struct {
	ha.Transfer
	told bool
}

func newBlobRows() blobRows {
	return blobRows{
		blobs: map[string]blobRow{}, locations: map[string][]ha.Location{}, blobOf: map[int64]string{}, transfers: map[string]transferRow{},
		tof: map[string][]string{}, domains: map[string]string{},
	}
}

func (t *tx) blobHost(uuid string) (ha.BlobHost, bool) {
	h := t.hosts[uuid]
	health, known := t.storage.health[uuid]
	if h == nil || h.deletedAt != nil || !known {
		return ha.BlobHost{}, false
	}
	b := ha.BlobHost{UUID: uuid, Name: h.Name, URL: health.AgentURL, Domain: t.blobs.domains[uuid], Free: health.FreeBytes, Silent: -1,
		Errored: health.State == ha.HealthError}
	if e := t.openEpisode(uuid); e != nil {
		b.Errored, b.Failed = true, e.Has(ha.ObjectBlob)
	}
	if !health.ReportedAt.IsZero() {
		b.Silent = max(0, t.now.Sub(health.ReportedAt))
	}
	return b, true
}

// wakeReplicator has the replicator look, and begins it with the first blob.
func (t *tx) wakeReplicator() {
	t.startUnit(ha.Work{Kind: ha.UnitReplicator, Key: ha.ReplicatorKey})
	t.signal(ha.ReplicatorKey)
}

// touchBlob moves a blob's touch; counted anew it is due.
func (t *tx) recount(uuids ...string) {
	for _, uuid := range uuids {
		b, known := t.blobs.blobs[uuid]
		if !known {
			continue
		}
		b.Touch++
		b.Copies = 0
		for _, l := range t.blobs.locations[uuid] {
			if l.State == ha.LocationPresent {
				b.Copies++
			}
		}
		b.Durability, b.due, b.retry = ha.DurabilityOf(b.WantCopies, b.Copies, b.LostBy), true, time.Time{}
		now := t.now
		b.UpdatedAt = &now
		putKey(t, t.blobs.blobs, uuid, b)
	}
}

func (t *tx) locationAt(blob, host string) *ha.Location {
	for _, l := range t.blobs.locations[blob] {
		if l.HostUUID == host {
			return &l
		}
	}
	return nil
}

// putLocation writes a location; one without an id is new.
func (t *tx) putLocation(l ha.Location) {
	l.Why = rules.Text(l.Why, rules.MaxText)
	list := slices.Clone(t.blobs.locations[l.BlobUUID])
	i := slices.IndexFunc(list, func(have ha.Location) bool { return have.HostUUID == l.HostUUID })
	if i < 0 {
		l.ID = t.id()
		list = append(list, l)
		putKey(t, t.blobs.blobOf, l.ID, l.BlobUUID)
	} else {
		l.ID = list[i].ID
		list[i] = l
	}
	putKey(t, t.blobs.locations, l.BlobUUID, list)
}

// AddBlob puts a blob into the catalogue.
func (s *Store) AddBlob(ctx context.Context, b ha.Blob, hosts []string) (added ha.Blob, err error) {
	if err := rules.CheckBlob(b); err != nil {
		return ha.Blob{}, err
	}
	err = s.run(ctx, "AddBlob", func(t *tx) error {
		t.wakeReplicator()
		row, known := t.blobs.blobs[b.UUID]
		if known && (row.Size != b.Size || row.SHA256 != b.SHA256) {
			return rules.OtherBlob(b)
		}
		if !known {
			row = blobRow{Blob: b}
			row.ID, row.CreatedAt, row.Touch = t.id(), t.now, 1
			put(t, &t.blobs.order, append(t.blobs.order, b.UUID))
		}
		row.WantCopies, row.InUse = b.WantCopies, b.InUse
		putKey(t, t.blobs.blobs, b.UUID, row)
		for _, h := range hosts {
			was := t.locationAt(b.UUID, h)
			if was != nil && was.State != ha.LocationDropped {
				continue
			}
			l := ha.Location{BlobUUID: b.UUID, HostUUID: h, Version: 1}
			if was != nil {
				l = *was
				l.Version++
			}
			l.State, l.Why, l.Since = ha.LocationVerifying, "said to be there when the blob was added", t.now
			t.putLocation(l)
		}
		t.recount(b.UUID)
		added = t.blobs.blobs[b.UUID].Blob
		return nil
	})
	return added, err
}

// Blobs lists blobs, the oldest first.
func (s *Store) Blobs(ctx context.Context, f ha.BlobFilter, limit int, marker string) (list []ha.Blob, err error) {
	err = s.run(ctx, "Blobs", func(t *tx) error {
		list = []ha.Blob{}
		m, known := t.blobs.blobs[marker]
		if id, ok := rules.MarkerID(marker); ok {
			for _, b := range t.blobs.blobs {
				if b.ID == id {
					m, known = b, true
				}
			}
		}
		if marker != "" && !known {
			return &ha.MarkerError{Marker: marker}
		}
		for _, uuid := range t.blobs.order {
			b := t.blobs.blobs[uuid]
			if len(list) >= limit {
				break
			}
			if b.ID <= m.ID || f.Durability != nil && string(b.Durability) != *f.Durability {
				continue
			}
			if f.HostUUID != nil {
				if l := t.locationAt(uuid, *f.HostUUID); l == nil || l.State == ha.LocationDropped {
					continue
				}
			}
			list = append(list, b.Blob)
		}
		return nil
	})
	return list, err
}

// Blob shows one blob.
func (s *Store) Blob(ctx context.Context, uuid string) (d ha.BlobDetails, err error) {
	err = s.run(ctx, "Blob", func(t *tx) error {
		b, known := t.blobs.blobs[uuid]
		if !known {
			return &ha.NotFoundError{Kind: ha.KindBlob, ID: uuid}
		}
		d = ha.BlobDetails{Blob: b.Blob, Locations: slices.Clone(t.blobs.locations[uuid]), Hosts: map[string]string{}}
		slices.SortFunc(d.Locations, func(a, b ha.Location) int { return cmp.Compare(a.ID, b.ID) })
		for _, l := range d.Locations {
			t.nameHost(d.Hosts, l.HostUUID)
		}
		for _, id := range slices.Backward(t.blobs.tof[uuid]) {
			r := t.blobs.transfers[id]
			d.Transfers = append(d.Transfers, r.Transfer)
			t.nameHost(d.Hosts, r.From)
			t.nameHost(d.Hosts, r.To)
		}
		return nil
	})
	return d, err
}

func (t *tx) nameHost(names map[string]string, uuid string) {
	if h := t.hosts[uuid]; h != nil {
		names[uuid] = h.Name
	}
}

// Transfers lists transfers, the newest first.
func (s *Store) Transfers(ctx context.Context, f ha.TransferFilter, limit int, marker string) (list []ha.Transfer, names map[string]string, err error) {
	err = s.run(ctx, "Transfers", func(t *tx) error {
		list, names = []ha.Transfer{}, map[string]string{}
		m, known := t.blobs.transfers[marker]
		if id, ok := rules.MarkerID(marker); ok {
			for _, x := range t.blobs.transfers {
				if x.ID == id {
					m, known = x, true
				}
			}
		}
		if marker != "" && !known {
			return &ha.MarkerError{Marker: marker}
		}
		for _, id := range slices.Backward(t.blobs.torder) {
			r := t.blobs.transfers[id]
			if len(list) >= limit {
				break
			}
			if marker != "" && r.ID >= m.ID || f.State != nil && string(r.State) != *f.State || f.BlobUUID != nil && r.BlobUUID != *f.BlobUUID ||
				f.HostUUID != nil && r.To != *f.HostUUID {
				continue
			}
			list = append(list, r.Transfer)
			t.nameHost(names, r.From)
			t.nameHost(names, r.To)
		}
		return nil
	})
	return list, names, err
}

func (s *Store) onBlob(ctx context.Context, op, uuid string, fn func(*tx, blobRow) error) error {
	return s.run(ctx, op, func(t *tx) error {
		b, known := t.blobs.blobs[uuid]
		if !known {
			return &ha.NotFoundError{Kind: ha.KindBlob, ID: uuid}
		}
		t.wakeReplicator()
		if err := fn(t, b); err != nil {
			return err
		}
		t.recount(uuid)
		return nil
	})
}

// RescueBlob has the replicator try again at once whatever may still give the blob.
func (s *Store) RescueBlob(ctx context.Context, uuid string) error {
	return s.onBlob(ctx, "RescueBlob", uuid, func(t *tx, b blobRow) error {
		b.LostBy = ""
		putKey(t, t.blobs.blobs, uuid, b)
		for _, id := range t.blobs.tof[uuid] {
			if r := t.blobs.transfers[id]; r.State == ha.TransferFailed {
				at := t.now.Add(-rules.FailedKept)
				r.EndedAt = &at
				putKey(t, t.blobs.transfers, id, r)
			}
		}
		for _, l := range t.blobs.locations[uuid] {
			if b.Copies == 0 && l.State == ha.LocationQuarantined {
				l.Why = ha.WhyRestore
				l.Version++
				t.putLocation(l)
			}
		}
		return nil
	})
}

// LoseBlob gives a blob up, by an operator's word.
func (s *Store) LoseBlob(ctx context.Context, uuid, by string) error {
	return s.onBlob(ctx, "LoseBlob", uuid, func(t *tx, b blobRow) error {
		if err := rules.LoseRefused(b.Blob); err != nil {
			return err
		}
		b.LostBy = rules.Name(by)
		putKey(t, t.blobs.blobs, uuid, b)
		return nil
	})
}

// DropLocation has a copy dropped by an operator's order.
func (s *Store) DropLocation(ctx context.Context, d ha.DropLocation) error {
	return s.onBlob(ctx, "DropLocation", d.BlobUUID, func(t *tx, b blobRow) error {
		l := t.locationAt(d.BlobUUID, d.HostUUID)
		if l == nil {
			return &ha.NotFoundError{Kind: ha.KindLocation, ID: d.HostUUID, Under: d.BlobUUID}
		}
		if err := rules.DropRefused(b.Blob, *l, t.sureBut(d.BlobUUID, l.ID, time.Time{}), d.Force); err != nil {
			return err
		}
		l.State = ha.LocationDropping
		if h, known := t.blobHost(d.HostUUID); !known || h.Silent < 0 || h.Silent > ha.AgentSilence {
			l.State = ha.LocationDropped
		}
		l.EpisodeUUID, l.Why, l.Since = "", ha.WhyOrdered+d.By+": "+d.Reason, t.now
		l.Version++
		t.putLocation(*l)
		return nil
	})
}

// sureBut counts the other copies that are sure to be good, hashed since then.
func (t *tx) sureBut(blob string, but int64, since time.Time) int {
	n := 0
	for _, l := range t.blobs.locations[blob] {
		if l.ID == but || !l.HashedSince(since) {
			continue
		}
		if h, known := t.blobHost(l.HostUUID); known && !h.Errored && !h.Failed && h.Silent >= 0 && h.Silent <= ha.AgentSilence {
			n++
		}
	}
	return n
}

// spares reports whether a copy may be dropped.
func (t *tx) spares(b ha.Blob, l ha.Location) bool {
	return t.sureBut(b.UUID, l.ID, l.DropHashed(t.now)) >= l.DropNeeds(b)
}

// BlobCounts are for metrics.
func (s *Store) BlobCounts(ctx context.Context) (c ha.BlobCounts, err error) {
	err = s.run(ctx, "BlobCounts", func(t *tx) error {
		c = ha.BlobCounts{Blobs: map[ha.Durability]int64{}, Bytes: map[ha.Durability]int64{}}
		for b := range maps.Values(t.blobs.blobs) {
			c.Blobs[b.Durability]++
			c.Bytes[b.Durability] += b.Size
		}
		for r := range maps.Values(t.blobs.transfers) {
			if r.State == ha.TransferRunning {
				c.Transfers++
				c.Left += r.Size - r.Bytes
			}
		}
		return nil
	})
	return c, err
}
