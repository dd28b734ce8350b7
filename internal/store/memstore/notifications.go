package memstore

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// Notifications lists notifications.
func (s *Store) Notifications(ctx context.Context, f ha.NotificationFilter, p ha.Page) (page []ha.Notification, err error) {
	err = s.run(ctx, "Notifications", func(*tx) error {
		var all []ha.Notification
		var mark *ha.Notification
		for _, n := range s.noteOrder {
			if marks(p.Marker, n.ID, n.UUID) {
				mark = &n.Notification
			}
			if is(f.SourceHostUUID, n.SourceHostUUID) && is(f.Type, string(n.Type)) && is(f.Status, string(n.Status)) &&
				(f.GeneratedSince == nil || !n.GeneratedTime.Before(rules.Micro(*f.GeneratedSince))) {
				all = append(all, n.Notification)
			}
		}
		page, err = cut(all, rules.NotificationField, p, mark)
		return err
	})
	return page, err
}

// Notification returns a notification.
func (s *Store) Notification(ctx context.Context, uuid string) (found ha.Notification, err error) {
	err = s.run(ctx, "Notification", func(t *tx) error {
		n, err := t.note(uuid)
		if err == nil {
			found = n.Notification
		}
		return err
	})
	return found, err
}

func (t *tx) note(uuid string) (*note, error) {
	if n := t.notes[uuid]; n != nil {
		return n, nil
	}
	return nil, &ha.NotFoundError{Kind: ha.KindNotification, ID: uuid}
}

// Admit decides about a report and stores it (rules A1 to A7).
func (s *Store) Admit(ctx context.Context, r ha.Report, interval time.Duration) (admitted ha.Notification, err error) {
	err = s.run(ctx, "Admit", func(t *tx) error {
		if own := t.notes[r.UUID]; own != nil {
			admitted = own.Notification
			return nil
		}
		row := t.hostNames[rules.Fold(r.Hostname)]
		if row == nil {
			return &ha.NotFoundError{Kind: ha.KindHost, ID: r.Hostname}
		}
		h := row.Host
		if h.OnMaintenance && ha.OperatorMaintenance(h, values(t.claimsOn[h.UUID])) {
			return &ha.MaintenanceError{Host: r.Hostname, Type: r.Type}
		}
		n := rules.Admitted(r, h, t.now)
		_, key := n.UnitKey()
		if verdict, twin := ha.Admission(r, t.recent(r, key, h.UUID, rules.AdmissionFrom(r, interval)), interval); verdict == ha.Duplicate {
			return &ha.DuplicateError{Host: r.Hostname, Type: r.Type, Twin: twin.UUID}
		}
		n.ID = t.id()
		t.addNote(&note{Notification: n, key: key})
		t.signal(rules.Signals(n)...)
		t.tell(rules.Around(ha.Event{Action: ha.ActionCreate, Notification: &n})...)
		admitted = n
		return nil
	})
	return admitted, s.told(err)
}

func (t *tx) addNote(n *note) {
	t.notes[n.UUID] = n
	t.noteOrder = append(t.noteOrder, n)
	t.notesOf[n.key] = append(t.notesOf[n.key], n)
	t.open[n.UUID] = n
	t.fresh = append(t.fresh, n)
}

// recent are the notifications that admission compares a report with.
func (t *tx) recent(r ha.Report, key, host string, from time.Time) []ha.Notification {
	var recent []ha.Notification
	for _, n := range t.notesOf[key] {
		if n.SourceHostUUID == host && (n.Status.Open() || !n.GeneratedTime.Before(from)) {
			recent = append(recent, n.Notification)
		}
	}
	if death := ha.OpenDeath(r, recent); death != nil {
		for _, n := range t.notesOf[key] {
			if n.ID > death.ID && n.Payload.Started() {
				return append(recent, n.Notification)
			}
		}
	}
	return recent
}

// setNote writes a notification's row, and keeps the indexes.
func (t *tx) setNote(n *note, next ha.Notification) {
	t.index(n, n.Status, next.Status)
	old := n.Notification
	t.undone(func() {
		t.index(n, next.Status, old.Status)
		n.Notification = old
	})
	n.Notification = next
}

// index moves n between the indexes of open and new ones.
func (s *Store) index(n *note, from, to ha.Status) {
	if to.Open() {
		s.open[n.UUID] = n
	} else {
		delete(s.open, n.UUID)
	}
	at, there := slices.BinarySearchFunc(s.fresh, n.ID, func(e *note, id int64) int { return int(e.ID - id) })
	switch {
	case from == to:
	case there && to != ha.StatusNew:
		s.fresh = slices.Delete(s.fresh, at, at+1)
	case !there && to == ha.StatusNew:
		s.fresh = slices.Insert(s.fresh, at, n)
	}
}

// values copies rows out.
func values[T any](rows []*T) []T {
	out := make([]T, len(rows))
	for i, r := range rows {
		out[i] = *r
	}
	return out
}

// VMoves lists the moves of a notification.
func (s *Store) VMoves(ctx context.Context, f ha.VMoveFilter, p ha.Page) (page []ha.VMove, err error) {
	err = s.run(ctx, "VMoves", func(*tx) error {
		var all []ha.VMove
		var mark *ha.VMove
		for _, m := range s.moveUUIDs {
			if marks(p.Marker, m.ID, m.UUID) {
				mark = m
			}
		}
		for _, m := range s.moves[f.NotificationUUID] {
			if is(f.Type, m.Type) && is(f.Status, string(m.Status)) {
				all = append(all, *m)
			}
		}
		page, err = cut(all, rules.VMoveField, p, mark)
		return err
	})
	return page, err
}

// VMove returns a move of a notification.
func (s *Store) VMove(ctx context.Context, notification, uuid string) (found ha.VMove, err error) {
	err = s.run(ctx, "VMove", func(*tx) error {
		m := s.moveUUIDs[uuid]
		if m == nil || m.NotificationUUID != notification {
			return &ha.NotFoundError{Kind: ha.KindVMove, ID: uuid, Under: notification}
		}
		found = *m
		return nil
	})
	return found, err
}

// Journal returns the newest entries of a notification, or of those before an entry, at most limit, in true order.
func (s *Store) Journal(ctx context.Context, notification string, before int64, limit int) (entries []ha.Entry, err error) {
	err = s.run(ctx, "Journal", func(*tx) error {
		for _, w := range s.worksOf[notification] {
			for _, e := range s.journal[w.ID] {
				if e.NotificationUUID == notification {
					entries = append(entries, *e)
				}
			}
		}
		slices.SortFunc(entries, trueOrder)
		if before != 0 && limit > 0 {
			at := slices.IndexFunc(entries, func(e ha.Entry) bool { return e.ID == before })
			if at < 0 {
				return &ha.MarkerError{Marker: strconv.FormatInt(before, 10)}
			}
			entries = entries[:at]
		}
		entries = entries[max(0, len(entries)-max(0, limit)):]
		return nil
	})
	return entries, err
}
