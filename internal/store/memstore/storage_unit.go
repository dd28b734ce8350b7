package memstore

import (
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// loadStorage reads what the plan of a storage unit needs.
func (t *tx) loadStorage(w *work, u *ha.Unit) {
	if w.Kind != ha.UnitStorage {
		return
	}
	st := &ha.StorageUnit{Health: t.healthOf(w.HostUUID), Action: t.storage.actions[w.SegmentUUID]}
	u.Storage = st
	for _, uuid := range t.storage.order {
		e := t.storage.episodes[uuid]
		if e.HostUUID != w.HostUUID || e.EndedAt != nil {
			continue
		}
		st.Episodes = append(st.Episodes, e)
		st.Runs = append(st.Runs, t.storage.runs[uuid]...)
		for _, i := range t.storage.items[uuid] {
			if i.Kind == ha.ObjectInstance {
				st.Items = append(st.Items, i)
			}
		}
	}
	if n := len(st.Episodes); n == 0 || !st.Episodes[n-1].Open() {
		return
	}
	st.Sharers = t.sharers(w.HostUUID, true)
	checks, open := map[string][]ha.Check{}, map[string]time.Time{}
	for uuid, h := range t.storage.health {
		if at := t.hosts[uuid]; at != nil && at.deletedAt == nil && len(h.Checks) > 0 {
			checks[uuid] = h.Checks
		}
	}
	for _, e := range t.storage.episodes {
		if e.Open() {
			open[e.HostUUID] = e.OpenedAt
		}
	}
	st.Hosts, st.Failing = rules.Tally(checks, open, st.Episodes[len(st.Episodes)-1].OpenedAt)
}

// storageChange applies the changes of a storage unit.
func (t *tx) storageChange(w *work, change ha.Change) error {
	switch c := change.(type) {
	case ha.WhileOpen:
		if e, known := t.storage.episodes[c.EpisodeUUID]; !known || !e.Open() || e.Held.By != "" || e.Version != c.Version {
			return ha.ErrStale
		}
	case ha.SetEpisode:
		e, known := t.storage.episodes[c.UUID]
		if !known {
			return &ha.NotFoundError{Kind: ha.KindEpisode, ID: c.UUID}
		}
		rules.SetEpisode(&e, c, t.now)
		putKey(t, t.storage.episodes, c.UUID, e)
	case ha.PutRun:
		return t.putRun(c.Run)
	case ha.PutItem:
		t.putItem(c.Item)
	case ha.SuspectLocations:
		return t.suspect(c)
	case ha.FileDeath:
		t.fileDeath(c)
	default:
		return t.guard(w, change)
	}
	return nil
}

func (t *tx) putRun(r ha.Run) error {
	runs := slices.Clone(t.storage.runs[r.EpisodeUUID])
	i := slices.IndexFunc(runs, func(have ha.Run) bool {
		return have.Version == r.Version && have.Kind == r.Kind && (have.State != ha.RunStopped || r.State == ha.RunStopped)
	})
	if i < 0 {
		return ha.ErrStale
	}
	r.Why, r.UpdatedAt = rules.Text(r.Why, rules.MaxText), t.now
	runs[i] = r
	putKey(t, t.storage.runs, r.EpisodeUUID, runs)
	return nil
}

func (t *tx) putItem(i ha.Item) {
	i.Text, i.At = rules.Text(i.Text, rules.MaxText), t.now
	k := itemKey{i.EpisodeUUID, i.Version, i.Kind, i.ID}
	items := t.storage.items[i.EpisodeUUID]
	if at, known := t.storage.itemAt[k]; known {
		items = slices.Clone(items)
		items[at] = i
	} else {
		putKey(t, t.storage.itemAt, k, len(items))
		items = append(items[:len(items):len(items)], i)
	}
	putKey(t, t.storage.items, i.EpisodeUUID, items)
}

func (t *tx) suspect(c ha.SuspectLocations) error {
	runs := t.storage.runs[c.EpisodeUUID]
	i := slices.IndexFunc(runs, func(r ha.Run) bool { return r.Kind == ha.ObjectBlob && r.State == ha.RunOpen })
	if i < 0 || runs[i].Cursor != rules.Cursor(c.Cursor) {
		return ha.ErrStale
	}
	turned := t.suspectLocations(c)
	run := rules.AfterBatch(runs[i], turned, c)
	for _, l := range turned {
		t.putItem(rules.SuspectItem(run, l))
	}
	return t.putRun(run)
}

func (t *tx) fileDeath(c ha.FileDeath) {
	h := t.hosts[c.HostUUID]
	if h == nil || h.deletedAt != nil {
		return
	}
	key := ha.UnitHost.Key(c.HostUUID)
	if !slices.ContainsFunc(t.notesOf[key], func(n *note) bool { return n.Status.Open() }) {
		n := rules.Admitted(rules.StorageDeath(c, h.Host, t.now), h.Host, t.now)
		n.ID = t.id()
		added := &note{Notification: n, key: key}
		t.addNote(added) // nothing that follows in a commit of FileDeath can fail
		t.tell(rules.Around(ha.Event{Action: ha.ActionCreate, Notification: &n})...)
	}
	t.signal(key)
}
