package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// storageRows are the rows of storage health. Values are replaced whole, so that an undone transaction leaves no trace.
type storageRows struct {
	health   map[string]ha.HostHealth // by host, with checks
	agents   map[string]agent         // by host
	episodes map[string]ha.Episode
	order    []string             // of episodes, by id
	runs     map[string][]ha.Run  // by episode
	items    map[string][]ha.Item // by episode
	itemAt   map[itemKey]int      // places in items
	actions  map[string]string    // by segment
}

type agent struct {
	ha.Agent
	ticketKey []byte
}

type itemKey struct {
	episode string
	version int
	kind    ha.ObjectKind
	id      string
}

func newStorageRows() storageRows {
	return storageRows{
		health: map[string]ha.HostHealth{}, agents: map[string]agent{}, episodes: map[string]ha.Episode{},
		runs: map[string][]ha.Run{}, items: map[string][]ha.Item{}, itemAt: map[itemKey]int{}, actions: map[string]string{},
	}
}

func (t *tx) liveHost(uuid string) (ha.Host, error) {
	h := t.hosts[uuid]
	if h == nil || h.deletedAt != nil {
		return ha.Host{}, &ha.NotFoundError{Kind: ha.KindHost, ID: uuid}
	}
	return h.Host, nil
}

// failedStorage are the hosts whose storage is in error.
func (t *tx) failedStorage() map[string]bool {
	failed := map[string]bool{}
	for uuid, h := range t.storage.health {
		failed[uuid] = h.State == ha.HealthError
	}
	return failed
}

func (t *tx) healthOf(host string) ha.HostHealth {
	h, known := t.storage.health[host]
	if !known {
		h = ha.HostHealth{HostUUID: host, State: ha.HealthUnknown}
	}
	h.Checks = slices.Clone(h.Checks)
	return h
}

// openEpisode is the host's open episode, nil when it has none.
func (t *tx) openEpisode(host string) *ha.Episode {
	for _, uuid := range slices.Backward(t.storage.order) {
		if e := t.storage.episodes[uuid]; e.HostUUID == host && e.Open() {
			return &e
		}
	}
	return nil
}

func (t *tx) agentOf(host string, key []byte) agent {
	a := t.storage.agents[host]
	if a.ticketKey == nil {
		a.HostUUID, a.ticketKey = host, slices.Clone(key)
		putKey(t, t.storage.agents, host, a)
	}
	return a
}

// ReportStorage decides about an agent's report and stores it.
func (s *Store) ReportStorage(ctx context.Context, r ha.AgentReport) (accepted ha.Accepted, err error) {
	err = s.run(ctx, "ReportStorage", func(t *tx) error {
		h, err := t.liveHost(r.HostUUID)
		if err != nil {
			return err
		}
		a := t.agentOf(h.UUID, r.TicketKey)
		open := t.openEpisode(h.UUID)
		done, err := rules.Report(t.healthOf(h.UUID), open, r, h, t.now)
		if err != nil {
			return err
		}
		accepted = ha.Accepted{Health: done.Health, Ignored: done.Ignored, TicketKey: a.ticketKey}
		if done.Ignored {
			return nil
		}
		if done.Episode != nil {
			accepted.Opened = done.Episode.UUID
		}
		t.putReported(h, open, done)
		return t.reportBlobs(r)
	})
	return accepted, err
}

// FailStorage is an operator's word that a host's storage is broken.
func (s *Store) FailStorage(ctx context.Context, f ha.Fail) (e ha.Episode, err error) {
	err = s.run(ctx, "FailStorage", func(t *tx) error {
		h, err := t.liveHost(f.HostUUID)
		if err != nil {
			return err
		}
		open := t.openEpisode(h.UUID)
		done := rules.Fail(t.healthOf(h.UUID), open, f, h, t.now)
		t.putReported(h, open, done)
		e = *t.openEpisode(h.UUID)
		e.HostName = h.Name
		return nil
	})
	return e, err
}

// putReported writes the health, the episode and its new runs, and has its unit look.
func (t *tx) putReported(h ha.Host, open *ha.Episode, done rules.Reported) {
	putKey(t, t.storage.health, h.UUID, done.Health)
	if e := done.Episode; e != nil {
		if open == nil {
			e.ID = t.id()
			put(t, &t.storage.order, append(slices.Clone(t.storage.order), e.UUID))
		}
		putKey(t, t.storage.episodes, e.UUID, *e)
		runs := slices.Clone(t.storage.runs[e.UUID])
		for _, r := range done.Runs {
			r.UpdatedAt = t.now
			runs = append(runs, r)
		}
		putKey(t, t.storage.runs, e.UUID, runs)
		t.wakeStorage(h)
		w := t.active[ha.UnitStorage.Key(h.UUID)]
		t.write(w, rules.EpisodeEntry(*e, open == nil, w.ID, t.now))
	}
	for _, o := range t.sharers(h.UUID, false) {
		if t.openEpisode(o.HostUUID) != nil {
			t.signal(ha.UnitStorage.Key(o.HostUUID))
		}
	}
}

func (t *tx) wakeStorage(h ha.Host) {
	key := ha.UnitStorage.Key(h.UUID)
	t.startUnit(ha.Work{Kind: ha.UnitStorage, Key: key, HostUUID: h.UUID, SegmentUUID: h.SegmentUUID})
	t.signal(key)
}

// sharers are what other hosts said of this host's filesystems: of those of failed resources alone, or of all.
func (t *tx) sharers(host string, failed bool) []ha.Sharer {
	mine := map[string]bool{}
	for _, c := range t.storage.health[host].Checks {
		if c.FilesystemID != "" && (!failed || c.Status.Failed()) {
			mine[c.FilesystemID] = true
		}
	}
	var sharers []ha.Sharer
	if len(mine) == 0 {
		return nil
	}
	for uuid, health := range t.storage.health {
		h := t.hosts[uuid]
		if uuid == host || h == nil || h.deletedAt != nil {
			continue
		}
		for _, c := range health.Checks {
			if mine[c.FilesystemID] {
				sharers = append(sharers, ha.Sharer{HostUUID: uuid, HostName: h.Name, Resource: c.Resource, Status: c.Status, ReportedAt: health.ReportedAt})
			}
		}
	}
	slices.SortFunc(sharers, func(a, b ha.Sharer) int {
		return cmp.Or(cmp.Compare(a.HostUUID, b.HostUUID), cmp.Compare(a.Resource, b.Resource))
	})
	return sharers[:min(len(sharers), rules.SharersLimit)]
}

// StorageHealth shows what is known of a host's storage.
func (s *Store) StorageHealth(ctx context.Context, host string) (h ha.HostHealth, open *ha.Episode, err error) {
	err = s.run(ctx, "StorageHealth", func(t *tx) error {
		h, open = rules.Aged(t.healthOf(host), t.now), t.openEpisode(host)
		return nil
	})
	return h, open, err
}

// Episodes lists episodes, the newest first.
func (s *Store) Episodes(ctx context.Context, f ha.EpisodeFilter, limit int, marker string) (list []ha.Episode, err error) {
	err = s.run(ctx, "Episodes", func(t *tx) error {
		marked := marker == ""
		for _, uuid := range slices.Backward(t.storage.order) {
			e := t.storage.episodes[uuid]
			if marked && len(list) < min(limit, rules.EpisodesLimit) && is(f.HostUUID, e.HostUUID) && (f.Open == nil || *f.Open == e.Open()) {
				list = append(list, t.named(e))
			}
			marked = marked || uuid == marker
		}
		if !marked {
			return &ha.MarkerError{Marker: marker}
		}
		return nil
	})
	return list, err
}

func (t *tx) named(e ha.Episode) ha.Episode {
	if h := t.hosts[e.HostUUID]; h != nil {
		e.HostName = h.Name
	}
	return e
}

// Episode shows an episode with its runs and items.
func (s *Store) Episode(ctx context.Context, uuid string) (d ha.EpisodeDetails, err error) {
	err = s.run(ctx, "Episode", func(t *tx) error {
		e, known := t.storage.episodes[uuid]
		if !known {
			return &ha.NotFoundError{Kind: ha.KindEpisode, ID: uuid}
		}
		d = ha.EpisodeDetails{Episode: t.named(e), Runs: slices.Clone(t.storage.runs[uuid]), Items: slices.Clone(t.storage.items[uuid])}
		slices.SortFunc(d.Runs, func(a, b ha.Run) int { return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind)) })
		slices.SortFunc(d.Items, func(a, b ha.Item) int {
			return cmp.Or(-cmp.Compare(a.Version, b.Version), -cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
		})
		d.Items = d.Items[:min(len(d.Items), ha.ItemsShown)]
		return nil
	})
	return d, err
}

// HoldStorage holds an episode's cascade or a host's cascades, or lets them go on.
func (s *Store) HoldStorage(ctx context.Context, hold ha.Hold) error {
	return s.run(ctx, "HoldStorage", func(t *tx) error {
		host := hold.HostUUID
		if hold.EpisodeUUID != "" {
			e, known := t.storage.episodes[hold.EpisodeUUID]
			if !known {
				return &ha.NotFoundError{Kind: ha.KindEpisode, ID: hold.EpisodeUUID}
			}
			host = e.HostUUID
		}
		h, err := t.liveHost(host)
		if err != nil {
			return err
		}
		open := t.openEpisode(host)
		if hold.EpisodeUUID == "" {
			health := t.healthOf(host)
			health.Held = rules.HostHold(health.Held, hold, t.now)
			putKey(t, t.storage.health, host, health)
			if open == nil || rules.HoldRefused(*open, hold) != nil { // the host's switch is what was asked for
				open = nil
			}
		} else {
			e := t.storage.episodes[hold.EpisodeUUID]
			if err := rules.HoldRefused(e, hold); err != nil {
				return err
			}
			open = &e
		}
		if open == nil {
			return nil
		}
		rules.ApplyHold(open, hold, t.now)
		putKey(t, t.storage.episodes, open.UUID, *open)
		t.wakeStorage(h)
		return nil
	})
}

// ClearStorage clears the host's open episode.
func (s *Store) ClearStorage(ctx context.Context, c ha.Clear) (cleared ha.Episode, err error) {
	err = s.run(ctx, "ClearStorage", func(t *tx) error {
		h, err := t.liveHost(c.HostUUID)
		if err != nil {
			return err
		}
		open, health := t.openEpisode(h.UUID), t.healthOf(h.UUID)
		if err := rules.ClearRefused(health, open, c, h.Name); err != nil {
			return err
		}
		e, now := *open, t.now
		e.ClearedAt, e.ClearedBy, e.ClearReason, e.ResetInstances = &now, rules.Name(c.By), rules.Text(c.Reason, rules.MaxText), c.ResetInstances
		e.Waiting = ""
		putKey(t, t.storage.episodes, e.UUID, e)
		runs := slices.Clone(t.storage.runs[e.UUID])
		for i, r := range runs {
			if r.State == ha.RunOpen || r.State == ha.RunHeld {
				runs[i].State, runs[i].UpdatedAt = ha.RunStopped, t.now
			}
		}
		putKey(t, t.storage.runs, e.UUID, runs)
		health.State = rules.StateOf(health, false)
		putKey(t, t.storage.health, h.UUID, health)
		cleared = t.named(e)
		t.wakeStorage(h)
		return nil
	})
	return cleared, err
}

// Agent returns who may speak for a host.
func (s *Store) Agent(ctx context.Context, host string) (a ha.Agent, err error) {
	err = s.run(ctx, "Agent", func(t *tx) error {
		a = t.storage.agents[host].Agent
		return nil
	})
	return a, err
}

// SetAgentKey keeps the hash of a host's key.
func (s *Store) SetAgentKey(ctx context.Context, host, hash, by string, ticketKey []byte) error {
	return s.setAgent(ctx, host, ticketKey, func(t *tx, a *agent) {
		a.KeyHash, a.KeyBy, a.KeyAt = hash, rules.Name(by), t.now
		if health, known := t.storage.health[host]; known { // the epochs of its agent begin anew
			health.Epoch, health.Seq = 0, 0
			putKey(t, t.storage.health, host, health)
		}
	})
}

// SetAgentUser binds a Keystone user to a host.
func (s *Store) SetAgentUser(ctx context.Context, host, user, by string, ticketKey []byte) error {
	return s.setAgent(ctx, host, ticketKey, func(_ *tx, a *agent) { a.UserID, a.UserBy = rules.Name(user), rules.Name(by) })
}

func (s *Store) setAgent(ctx context.Context, host string, ticketKey []byte, set func(*tx, *agent)) error {
	return s.run(ctx, "SetAgent", func(t *tx) error {
		if _, err := t.liveHost(host); err != nil {
			return err
		}
		a := t.agentOf(host, ticketKey)
		set(t, &a)
		putKey(t, t.storage.agents, host, a)
		return nil
	})
}

// SetStorageAction has a segment's instances treated otherwise than the option says.
func (s *Store) SetStorageAction(ctx context.Context, segment, action string) error {
	return s.run(ctx, "SetStorageAction", func(t *tx) error {
		if _, err := t.segment(segment); err != nil {
			return err
		}
		deleteKey(t, t.storage.actions, segment)
		if action != "" {
			putKey(t, t.storage.actions, segment, action)
		}
		return nil
	})
}

// StorageAction returns a segment's own storage_failure_action, "" when the option decides.
func (s *Store) StorageAction(ctx context.Context, segment string) (action string, err error) {
	err = s.run(ctx, "StorageAction", func(t *tx) error {
		action = t.storage.actions[segment]
		return nil
	})
	return action, err
}

// StorageActions returns the segments with an action of their own, at most limit, by uuid and behind the one that is named.
func (s *Store) StorageActions(ctx context.Context, after string, limit int) (found []ha.StorageAction, err error) {
	err = s.run(ctx, "StorageActions", func(t *tx) error {
		for _, uuid := range slices.Sorted(maps.Keys(t.storage.actions)) {
			if _, err := t.segment(uuid); err == nil && uuid > after && len(found) < limit {
				found = append(found, ha.StorageAction{SegmentUUID: uuid, Action: t.storage.actions[uuid]})
			}
		}
		return nil
	})
	return found, err
}

// HostByUUID returns the live host of that uuid.
func (s *Store) HostByUUID(ctx context.Context, uuid string) (h ha.Host, err error) {
	err = s.run(ctx, "HostByUUID", func(t *tx) error {
		h, err = t.liveHost(uuid)
		return err
	})
	return h, err
}
