package memstore

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// Commit is the fence: it moves the beat and applies the changes in order, or writes nothing.
func (s *Store) Commit(ctx context.Context, l *ha.Lease, changes ...ha.Change) (beat ha.Beat, err error) {
	err = s.run(ctx, "Commit", func(t *tx) error {
		w, err := t.fence(*l)
		if err != nil {
			return err
		}
		if len(changes) == 0 { // nothing can fail: nothing to undo
			w.Beat++
			w.nextLook = t.now
			beat = ha.Beat{Beat: w.Beat, Signal: w.Signal, Now: t.now}
			return nil
		}
		put(t, &w.Beat, w.Beat+1)
		put(t, &w.nextLook, t.now)
		beat = ha.Beat{Beat: w.Beat, Signal: w.Signal, Now: t.now}
		for _, c := range changes {
			if err := t.apply(w, *l, c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return ha.Beat{}, err
	}
	l.Beat = beat.Beat
	if len(changes) > 0 {
		_ = s.told(nil)
	}
	return beat, nil
}

// Beats renews leases that are still their owner's.
func (s *Store) Beats(ctx context.Context, leases []ha.Lease) (beats map[int64]ha.Beat, err error) {
	beats = map[int64]ha.Beat{}
	err = s.run(ctx, "Beats", func(t *tx) error {
		for _, l := range leases {
			if w, err := t.fence(l); err == nil {
				w.Beat++
				w.nextLook = t.now
				beats[l.WorkID] = ha.Beat{Beat: w.Beat, Signal: w.Signal, Now: t.now}
			}
		}
		return nil
	})
	return beats, err
}

func (t *tx) apply(w *work, l ha.Lease, change ha.Change) error {
	switch c := change.(type) {
	case ha.SetNotification:
		return t.setNotification(w, c)
	case ha.PutMove:
		t.putMove(w, c.Move)
	case ha.SetRecovery:
		t.setRecovery(w, c.Recovery)
	case ha.SetHost:
		t.setHost(c)
	case ha.PutClaim:
		claim := c.Claim
		claim.WorkID = w.ID
		t.putClaim(claim)
	case ha.DropClaim:
		t.dropClaim(c)
	case ha.Write:
		t.write(w, rules.FillEntry(c.Entry, l, w.Work, t.now))
	case ha.CloseIntent:
		for _, e := range w.open {
			if e.Key == c.Key {
				put(t, &e.Open, false)
			}
		}
		put(t, &w.open, slices.DeleteFunc(slices.Clone(w.open), func(e *ha.Entry) bool { return !e.Open }))
	case ha.StartUnit:
		t.startUnit(ha.Work{Kind: c.Kind, Key: c.Kind.Key(c.HostUUID), HostUUID: c.HostUUID, SegmentUUID: c.SegmentUUID})
	case ha.Signal:
		t.signal(c.Key)
	case ha.Adopt:
		return t.adopt(w, c)
	case ha.EndUnit:
		return t.end(w)
	case ha.Park:
		put(t, &w.Owner, "")
		if w.Signal == w.seen {
			put(t, &w.nextLook, t.now.Add(c.After))
		}
	default:
		return t.blobChange(w, change)
	}
	return nil
}

func (t *tx) guard(w *work, change ha.Change) error {
	switch c := change.(type) {
	case ha.TouchSegment:
		seg := t.segments[c.UUID]
		if seg == nil || seg.Touch != c.Seen {
			return ha.ErrStale
		}
		put(t, &seg.Touch, seg.Touch+1)
	case ha.GiveWay:
		if o := t.active[ha.UnitHost.Key(c.HostUUID)]; o != nil && o != w {
			return ha.ErrSuperseded
		}
		if w.Signal != w.seen {
			return ha.ErrStale
		}
	case ha.Reserve:
		h := t.hosts[c.HostUUID]
		if h == nil || h.deletedAt != nil || !h.Reserved || h.OnMaintenance || (h.ReservedFor != 0 && h.ReservedFor != w.ID) {
			return ha.ErrTaken
		}
		put(t, &h.ReservedFor, w.ID)
		for _, claim := range t.claimsOf(c.HostUUID) {
			if c.Ends(claim, w.ID) {
				t.dropClaim(ha.DropClaim{HostUUID: claim.HostUUID, What: claim.What, Reason: claim.Reason, Detail: claim.Detail})
			}
		}
	case ha.Free:
		if h := t.hosts[c.HostUUID]; h != nil && h.ReservedFor == w.ID {
			put(t, &h.ReservedFor, 0)
		}
	default:
		return fmt.Errorf("the store knows no change %T: nothing was written", change)
	}
	return nil
}

func (t *tx) setNotification(w *work, c ha.SetNotification) error {
	n, err := t.note(c.UUID)
	if err != nil {
		return err
	}
	if err := rules.CheckSet(n.Notification, w.Key, c); err != nil {
		return err
	}
	message := rules.Text(c.Message, rules.MaxText)
	if n.Status == c.Status && n.Message != nil && *n.Message == message {
		return nil
	}
	next := n.Notification
	next.Status, next.Message, next.UpdatedAt = c.Status, &message, second(t.now)
	t.tell(rules.Processed(n.Notification, c.Status, message)...)
	t.setNote(n, next)
	return nil
}

func (t *tx) putMove(w *work, m ha.VMove) {
	if m.NotificationUUID == "" {
		m.NotificationUUID = w.NotificationUUID
	}
	m = rules.OwnedMove(m)
	moves := t.moves[m.NotificationUUID]
	i := slices.IndexFunc(moves, func(have *ha.VMove) bool { return have.InstanceUUID == m.InstanceUUID })
	if i < 0 {
		m.ID, m.Stamps, m.RetryWish = t.id(), ha.Stamps{CreatedAt: rules.Second(t.now)}, 0
		putKey(t, t.moves, m.NotificationUUID, append(moves, &m))
		putKey(t, t.moveUUIDs, m.UUID, &m)
		return
	}
	have := moves[i]
	m.ID, m.UUID, m.Stamps, m.RetryWish = have.ID, have.UUID, have.Stamps, have.RetryWish
	if !reflect.DeepEqual(m, *have) {
		m.UpdatedAt = second(t.now)
		put(t, have, m)
	}
}

func (t *tx) setRecovery(w *work, r ha.Recovery) {
	put(t, &w.Recovery, rules.OwnedRecovery(r))
	if w.Kind == ha.UnitHost && r.StartedAt != nil && !slices.Contains(t.started[w.SegmentUUID], w) {
		putKey(t, t.started, w.SegmentUUID, append(t.started[w.SegmentUUID], w))
	}
}

func (t *tx) setHost(c ha.SetHost) {
	h := t.hosts[c.UUID]
	if h == nil {
		return
	}
	next := h.Host
	if rules.PatchHost(&next, ha.HostPatch{OnMaintenance: c.OnMaintenance, Reserved: c.Reserved}) {
		next.UpdatedAt = second(t.now)
		t.tellOfHost(ha.ActionUpdate, next)
	}
	if c.Started {
		now := t.now
		next.StartedAt = &now
		t.signal(ha.UnitTakeBack.Key(c.UUID))
	}
	put(t, &h.Host, next)
}

func (t *tx) putClaim(c ha.Claim) {
	c.Detail, c.Prior = rules.Name(c.Detail), rules.Text(c.Prior, rules.MaxText)
	if !c.Seen.IsZero() {
		c.Seen = rules.Micro(c.Seen)
	}
	k := claimKey{c.HostUUID, c.What, c.Reason, c.Detail}
	if have := t.claims[k]; have != nil {
		put(t, &have.Seen, c.Seen)
		return
	}
	if c.Since = rules.Micro(c.Since); c.Since.IsZero() {
		c.Since = t.now
	}
	c.ID = t.id()
	putKey(t, t.claims, k, &c)
	putKey(t, t.claimsOn, c.HostUUID, append(t.claimsOn[c.HostUUID], &c))
}

func (t *tx) dropClaim(c ha.DropClaim) {
	k := claimKey{c.HostUUID, c.What, c.Reason, rules.Name(c.Detail)}
	have := t.claims[k]
	if have == nil {
		return
	}
	deleteKey(t, t.claims, k)
	rest := slices.DeleteFunc(slices.Clone(t.claimsOn[c.HostUUID]), func(e *ha.Claim) bool { return e == have })
	putKey(t, t.claimsOn, c.HostUUID, rest)
}

func (t *tx) write(w *work, e ha.Entry) {
	k := entryKey{e.WorkID, e.Epoch, e.Seq}
	if t.written[k] {
		return
	}
	e.ID = t.id()
	putKey(t, t.written, k, true)
	putKey(t, t.journal, w.ID, append(t.journal[w.ID], &e))
	if e.Open {
		put(t, &w.open, append(w.open, &e))
	}
}

func (t *tx) adopt(w *work, c ha.Adopt) error {
	n := t.notes[c.NotificationUUID]
	if n == nil || n.key != w.Key {
		return fmt.Errorf("notification %s is not in the queue of unit %s: nothing was written", c.NotificationUUID, w.Key)
	}
	old := w.NotificationUUID
	if old == n.UUID {
		return nil
	}
	for _, m := range t.moves[old] {
		put(t, &m.NotificationUUID, n.UUID)
	}
	putKey(t, t.moves, n.UUID, append(t.moves[n.UUID], t.moves[old]...))
	deleteKey(t, t.moves, old)
	for _, e := range t.journal[w.ID] {
		if e.NotificationUUID == old {
			put(t, &e.NotificationUUID, n.UUID)
		}
	}
	putKey(t, t.worksOf, old, slices.DeleteFunc(slices.Clone(t.worksOf[old]), func(o *work) bool { return o == w }))
	putKey(t, t.worksOf, n.UUID, append(t.worksOf[n.UUID], w))
	put(t, &w.NotificationUUID, n.UUID)
	return nil
}

func (t *tx) end(w *work) error {
	if w.Signal != w.seen {
		return ha.ErrStale
	}
	for _, h := range t.hosts {
		if h.ReservedFor == w.ID {
			put(t, &h.ReservedFor, 0)
		}
	}
	now := t.now
	put(t, &w.EndedAt, &now)
	put(t, &w.Owner, "")
	deleteKey(t, t.active, w.Key)
	deleteKey(t, t.activeOn[w.HostUUID], w.ID)
	return nil
}
