package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

func trueOrder(a, b ha.Entry) int {
	return cmp.Or(cmp.Compare(a.WorkID, b.WorkID), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Seq, b.Seq))
}

// BeatEngine writes that e is alive.
func (s *Store) BeatEngine(ctx context.Context, e ha.Engine) error {
	return s.run(ctx, "BeatEngine", func(t *tx) error {
		row := t.engines[e.Name]
		if row == nil {
			for name, old := range t.engines {
				if t.now.Sub(old.seen) > rules.EnginesKept {
					delete(t.engines, name)
				}
			}
			e.StartedAt = rules.Micro(e.StartedAt)
			row = &engine{Engine: e}
			t.engines[e.Name] = row
		}
		row.Beat, row.seen = e.Beat, t.now
		return nil
	})
}

// Engines lists the engines seen within the last hour.
func (s *Store) Engines(ctx context.Context) (engines []ha.Engine, err error) {
	err = s.run(ctx, "Engines", func(t *tx) error {
		engines = []ha.Engine{}
		for _, e := range t.engines {
			if t.now.Sub(e.seen) <= rules.EnginesWindow {
				engines = append(engines, e.Engine)
			}
		}
		slices.SortFunc(engines, func(a, b ha.Engine) int { return cmp.Compare(a.Name, b.Name) })
		engines = engines[:min(len(engines), rules.EnginesLimit)]
		return nil
	})
	return engines, err
}

// view is the unit as of now.
func (w *work) view(now time.Time) ha.Work {
	v := w.Work
	v.Due = w.EndedAt == nil && w.Owner == "" && !w.nextLook.After(now)
	return v
}

// Poll looks for work.
func (s *Store) Poll(ctx context.Context, me string) (p ha.Poll, err error) {
	err = s.run(ctx, "Poll", func(t *tx) error {
		taken := make(map[string]bool)
		for _, n := range t.fresh {
			if len(p.Fresh) == rules.FreshLimit {
				break
			}
			if taken[n.key] || t.active[n.key] != nil {
				continue
			}
			taken[n.key] = true
			p.Fresh = append(p.Fresh, t.freshOf(n))
		}
		units := make([]*work, 0, len(t.active))
		for _, w := range t.active {
			units = append(units, w)
		}
		slices.SortFunc(units, func(a, b *work) int { return cmp.Or(a.nextLook.Compare(b.nextLook), cmp.Compare(a.ID, b.ID)) })
		for _, w := range units[:min(len(units), rules.UnitsLimit)] {
			sight := ha.Sighting{WorkID: w.ID, Key: w.Key, Owner: w.Owner, Epoch: w.Epoch, Beat: w.Beat, TTL: w.TTL, Signal: w.Signal, Due: w.view(t.now).Due}
			if w.Owner == me {
				p.Mine = append(p.Mine, sight)
			} else {
				p.Units = append(p.Units, sight)
			}
		}
		return nil
	})
	return p, err
}

func (t *tx) freshOf(n *note) ha.Fresh {
	kind, key := n.UnitKey()
	f := ha.Fresh{NotificationUUID: n.UUID, Kind: kind, Key: key, HostUUID: n.SourceHostUUID}
	if n.SegmentUUID != nil {
		f.SegmentUUID = *n.SegmentUUID
	}
	return f
}

// Claim takes a unit and loads it.
func (s *Store) Claim(ctx context.Context, r ha.ClaimRequest) (ha.Lease, ha.Unit, error) {
	var unit ha.Unit
	err := s.run(ctx, "Claim", func(t *tx) error {
		w := t.works[r.WorkID]
		if r.WorkID == 0 {
			f := r.Fresh
			n := t.notes[f.NotificationUUID]
			if t.active[f.Key] != nil || n == nil || n.Status != ha.StatusNew {
				return ha.ErrLost
			}
			w = t.addWork(ha.Work{Kind: f.Kind, Key: f.Key, HostUUID: f.HostUUID, SegmentUUID: f.SegmentUUID, NotificationUUID: f.NotificationUUID})
		} else if w == nil || w.EndedAt != nil || w.Epoch != r.Epoch || w.Beat != r.Beat {
			return ha.ErrLost
		}
		w.Owner, w.TTL, w.Epoch, w.Beat = r.Owner, r.TTL.Truncate(time.Millisecond), w.Epoch+1, w.Beat+1
		w.nextLook, w.seen = t.now, w.Signal
		unit = t.load(w)
		return nil
	})
	if err != nil {
		return ha.Lease{}, ha.Unit{}, err
	}
	return ha.Lease{WorkID: unit.ID, Owner: unit.Owner, Epoch: unit.Epoch, Beat: unit.Beat}, unit, nil
}

// addWork creates an active unit; its key is free.
func (t *tx) addWork(v ha.Work) *work {
	v.ID, v.CreatedAt, v.Recovery = t.id(), t.now, rules.OwnedRecovery(v.Recovery)
	w := &work{Work: v, nextLook: t.now}
	putKey(t, t.works, w.ID, w)
	putKey(t, t.active, w.Key, w)
	putKey(t, t.worksOf, w.NotificationUUID, append(t.worksOf[w.NotificationUUID], w))
	on := t.activeOn[w.HostUUID]
	if on == nil {
		on = make(map[int64]*work)
		t.activeOn[w.HostUUID] = on
	}
	putKey(t, on, w.ID, w)
	return w
}

// startUnit creates an active unit that is due at once, unless one with its key is active.
func (t *tx) startUnit(v ha.Work) {
	if t.active[v.Key] == nil {
		t.addWork(v)
	}
}

// signal moves the signals of the active units with these keys; a parked one is due at once.
func (t *tx) signal(keys ...string) {
	for _, k := range keys {
		if w := t.active[k]; w != nil {
			put(t, &w.Signal, w.Signal+1)
			put(t, &w.nextLook, t.now)
		}
	}
}

// fence moves the beat of the unit whose lease this is, or forbids to write.
func (t *tx) fence(l ha.Lease) (*work, error) {
	w := t.works[l.WorkID]
	if w == nil || w.Epoch != l.Epoch || w.Owner != l.Owner || l.Owner == "" {
		return nil, ha.ErrFenced
	}
	return w, nil
}

// Load reads the unit again, fenced.
func (s *Store) Load(ctx context.Context, l *ha.Lease) (unit ha.Unit, err error) {
	err = s.run(ctx, "Load", func(t *tx) error {
		w, err := t.fence(*l)
		if err != nil {
			return err
		}
		w.Beat++
		w.nextLook, w.seen = t.now, w.Signal
		unit = t.load(w)
		return nil
	})
	if err != nil {
		return ha.Unit{}, err
	}
	l.Beat = unit.Beat
	return unit, nil
}

// load gathers all rows that a unit's plan needs.
func (t *tx) load(w *work) ha.Unit {
	u := ha.Unit{Work: w.view(t.now), Now: t.now}
	if seg := t.segments[w.SegmentUUID]; seg != nil {
		u.Segment = seg.Segment
		u.Segment.Pause = t.pauseOf(w.SegmentUUID)
	}
	if h := t.hosts[w.HostUUID]; h != nil {
		u.Host, u.HostDeleted = h.Host, h.deletedAt != nil
	}
	if n := t.notes[w.NotificationUUID]; n != nil {
		u.Notification, u.Age = n.Notification, t.now.Sub(n.CreatedAt)
		for _, q := range t.notesOf[w.Key] {
			if q.ID > n.ID && q.Status.Open() && len(u.Queue) < rules.QueueLimit {
				u.Queue = append(u.Queue, q.Notification)
			}
		}
		for _, m := range t.moves[w.NotificationUUID] {
			u.Moves = append(u.Moves, *m)
		}
	}
	t.loadPeers(w, &u)
	for _, e := range w.open {
		u.Open = append(u.Open, *e)
	}
	slices.SortFunc(u.Open, trueOrder)
	t.loadOthers(w, &u)
	t.loadStorage(w, &u)
	t.loadBlobs(w, &u)
	return u
}

func (t *tx) loadPeers(w *work, u *ha.Unit) {
	var peers []ha.Host
	var claims []ha.Claim
	for _, h := range t.hostsOf[w.SegmentUUID] {
		if h.deletedAt == nil {
			peers = append(peers, h.Host)
			claims = append(claims, values(t.claimsOn[h.UUID])...)
		}
	}
	down := make(map[string]bool)
	for _, n := range t.open {
		if n.Type == ha.TypeComputeHost && n.Payload.Stopped() {
			down[n.SourceHostUUID] = true
		}
	}
	u.Peers = rules.Peers(peers, claims, down, t.failedStorage())
	for _, c := range t.claims {
		if c.HostUUID == w.HostUUID || c.WorkID == w.ID {
			u.Claims = append(u.Claims, *c)
		}
	}
	slices.SortFunc(u.Claims, func(a, b ha.Claim) int { return cmp.Compare(a.ID, b.ID) })
}

func (t *tx) loadOthers(w *work, u *ha.Unit) {
	since := t.now.Add(-rules.RateWindow)
	late := func(o *work) bool { return o.StartedAt == nil || o.StartedAt.Before(since) }
	t.started[w.SegmentUUID] = slices.DeleteFunc(t.started[w.SegmentUUID], late)
	for _, o := range t.started[w.SegmentUUID] {
		if o != w {
			u.RecentStarts++
		}
	}
	if key := rules.EarlierKey(w.Work); key != "" {
		var ended []*work
		for _, o := range t.works {
			if o.Key == key && o.EndedAt != nil && o.StartedAt != nil && o != w {
				ended = append(ended, o)
			}
		}
		slices.SortFunc(ended, func(a, b *work) int { return cmp.Compare(b.ID, a.ID) })
		starts := make([]rules.Start, 0, len(ended))
		for _, o := range ended[:min(len(ended), rules.EarlierLimit)] {
			starts = append(starts, rules.Start{At: *o.StartedAt, Notification: o.NotificationUUID})
		}
		u.Earlier = rules.Starts(starts)
	}
	if o := t.active[ha.UnitHost.Key(w.HostUUID)]; o != nil && o != w {
		u.HostUnit = o.ID
	}
	for _, o := range t.activeOn[w.HostUUID] {
		if o != w {
			u.InFlight += len(o.open)
		}
	}
}
