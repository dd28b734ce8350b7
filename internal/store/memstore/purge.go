package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// Purge removes for good what is older than ageDays, as package store does.
func (s *Store) Purge(ctx context.Context, ageDays, maxRows int) (removed rules.Purged, err error) {
	err = s.run(ctx, "Purge", func(t *tx) error {
		if err := rules.CheckPurge(ageDays, maxRows, t.now); err != nil {
			return err
		}
		before := t.now.AddDate(0, 0, -ageDays)
		full := func() bool { return maxRows > 0 && removed.Bounded == maxRows }
		for _, n := range slices.Clone(t.noteOrder) {
			if !full() && !n.Status.Open() && n.UpdatedAt != nil && n.UpdatedAt.Before(before) && !t.atWork(n.UUID) {
				t.purgeNote(n, &removed)
				removed.Notifications++
				removed.Bounded++
			}
		}
		for uuid, h := range t.hosts {
			if !full() && h.deletedAt != nil && h.deletedAt.Before(before) && len(t.activeOn[uuid]) == 0 {
				if !t.purgeCopies(uuid, &removed) {
					removed.Kept++
					continue
				}
				t.purgeHost(h, &removed)
				delete(t.hosts, uuid)
				removed.Hosts++
				removed.Bounded++
			}
		}
		for uuid, seg := range t.segments {
			if !full() && seg.deletedAt != nil && seg.deletedAt.Before(before) && len(t.hostsOf[uuid]) == 0 {
				delete(t.segments, uuid)
				deleteKey(t, t.storage.actions, uuid)
				deleteKey(t, t.pauses, uuid)
				removed.Segments++
				removed.Bounded++
			}
		}
		for _, uuid := range slices.Clone(t.storage.order) {
			if e := t.storage.episodes[uuid]; !full() && !e.Open() && e.EndedAt != nil && e.EndedAt.Before(before) {
				t.purgeEpisode(uuid, &removed)
				removed.Bounded++
			}
		}
		for _, uuid := range slices.Clone(t.blobs.torder) {
			if r := t.blobs.transfers[uuid]; !full() && t.oldTransfer(r, before) {
				t.purgeTransfer(r)
				removed.Transfers++
				removed.Bounded++
			}
		}
		t.purgeUnits(before, &removed)
		for sink, letters := range t.outbox {
			left := slices.DeleteFunc(letters, func(l letter) bool { return l.at.Before(before) })
			removed.Messages += len(letters) - len(left)
			t.outbox[sink] = left
		}
		return nil
	})
	return removed, err
}

func (t *tx) atWork(notification string) bool {
	return slices.ContainsFunc(t.worksOf[notification], func(w *work) bool { return w.EndedAt == nil })
}

func (t *tx) purgeNote(n *note, removed *rules.Purged) {
	removed.VMoves += len(t.moves[n.UUID])
	for _, m := range t.moves[n.UUID] {
		delete(t.moveUUIDs, m.UUID)
	}
	delete(t.moves, n.UUID)
	for _, w := range t.worksOf[n.UUID] {
		t.purgeWork(w, removed)
	}
	delete(t.worksOf, n.UUID)
	delete(t.notes, n.UUID)
	same := func(e *note) bool { return e == n }
	t.noteOrder = slices.DeleteFunc(t.noteOrder, same)
	t.notesOf[n.key] = slices.DeleteFunc(t.notesOf[n.key], same)
}

func (t *tx) purgeWork(w *work, removed *rules.Purged) {
	removed.Entries += len(t.journal[w.ID])
	removed.Units++
	for _, e := range t.journal[w.ID] {
		delete(t.written, entryKey{e.WorkID, e.Epoch, e.Seq})
	}
	delete(t.journal, w.ID)
	delete(t.works, w.ID)
}

func (t *tx) purgeHost(h *host, removed *rules.Purged) {
	removed.Claims += len(t.claimsOn[h.UUID])
	for _, c := range t.claimsOn[h.UUID] {
		delete(t.claims, claimKey{c.HostUUID, c.What, c.Reason, c.Detail})
	}
	delete(t.claimsOn, h.UUID)
	deleteKey(t, t.storage.health, h.UUID)
	deleteKey(t, t.storage.agents, h.UUID)
	deleteKey(t, t.blobs.domains, h.UUID)
	t.hostsOf[h.SegmentUUID] = slices.DeleteFunc(t.hostsOf[h.SegmentUUID], func(e *host) bool { return e == h })
}

// purgeCopies removes a deleted host's copies of blobs that nobody needs to look for; it is false when others are left.
func (t *tx) purgeCopies(host string, removed *rules.Purged) (all bool) {
	all = true
	for blob, list := range t.blobs.locations {
		i := slices.IndexFunc(list, func(l ha.Location) bool { return l.HostUUID == host })
		if i < 0 {
			continue
		}
		b, known := t.blobs.blobs[blob]
		elsewhere := slices.ContainsFunc(list, func(l ha.Location) bool {
			_, err := t.liveHost(l.HostUUID)
			return err == nil && l.State == ha.LocationPresent && t.storage.health[l.HostUUID].ReportedAt.After(t.now.Add(-rules.SpareHeard))
		})
		if known && b.LostBy == "" && list[i].State != ha.LocationDropped && !elsewhere {
			all = false
			continue
		}
		t.wakeReplicator()
		deleteKey(t, t.blobs.blobOf, list[i].ID)
		putKey(t, t.blobs.locations, blob, slices.Delete(slices.Clone(list), i, i+1))
		t.recount(blob)
		removed.Copies++
	}
	return all
}

// purgeUnits removes ended take-backs, which have no notification to go with.
func (t *tx) purgeUnits(before time.Time, removed *rules.Purged) {
	t.worksOf[""] = slices.DeleteFunc(t.worksOf[""], func(w *work) bool {
		old := w.EndedAt != nil && w.EndedAt.Before(before)
		if old {
			t.purgeWork(w, removed)
		}
		return old
	})
}

func (t *tx) purgeEpisode(uuid string, removed *rules.Purged) {
	removed.Episodes++
	removed.Runs += len(t.storage.runs[uuid])
	removed.Items += len(t.storage.items[uuid])
	for _, i := range t.storage.items[uuid] {
		delete(t.storage.itemAt, itemKey{i.EpisodeUUID, i.Version, i.Kind, i.ID})
	}
	delete(t.storage.items, uuid)
	delete(t.storage.runs, uuid)
	delete(t.storage.episodes, uuid)
	t.storage.order = slices.DeleteFunc(slices.Clone(t.storage.order), func(have string) bool { return have == uuid })
}

// oldTransfer reports whether a transfer may go: not the last one of a blob that there is, nor what an agent is still to be told of.
func (t *tx) oldTransfer(r transferRow, before time.Time) bool {
	if r.EndedAt == nil || !r.EndedAt.Before(before) ||
		r.State == ha.TransferCancelled && !r.told && r.EndedAt.After(t.now.Add(-rules.CancelKept)) {
		return false
	}
	_, there := t.blobs.blobs[r.BlobUUID]
	of := t.blobs.tof[r.BlobUUID]
	return !there || of[len(of)-1] != r.UUID
}

func (t *tx) purgeTransfer(r transferRow) {
	same := func(uuid string) bool { return uuid == r.UUID }
	delete(t.blobs.transfers, r.UUID)
	t.blobs.torder = slices.DeleteFunc(slices.Clone(t.blobs.torder), same)
	t.blobs.tof[r.BlobUUID] = slices.DeleteFunc(slices.Clone(t.blobs.tof[r.BlobUUID]), same)
}
