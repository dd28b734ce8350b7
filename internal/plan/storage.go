package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Paces of a storage unit. storageProbe is the interval at which agents probe; storageIdle how often an episode whose cascade is done is
// looked at again, for late arrivals.
const (
	storageProbe = time.Minute
	storageIdle  = time.Minute
	storageSoon  = 5 * time.Second
)

// suspectBatch is how many copies turn suspect in one transaction.
const suspectBatch = 500

// StorageReason is the disabled_reason by which salvor knows its own work again.
const StorageReason = "salvor: the host's storage failed"

// storage is a turn over a host's episodes (STORAGE-HEALTH, "The engine").
type storage struct {
	*turn
	st    ha.StorageUnit
	doubt map[string]doubt // by instance: resets whose end nobody knows
	busy  bool             // something is under way: no parking
}

// doubt is a reset whose answer was lost, or whose owner was.
type doubt struct {
	text  string
	since time.Time
}

// Storage is the plan of a host's storage unit. It lives as long as the host has an episode that is not ended, and has no notification.
func Storage(v View) Decision {
	t := begin(v)
	s := &storage{turn: t, doubt: map[string]doubt{}}
	if v.Unit.Storage == nil {
		t.reload = true
		return t.decision()
	}
	s.st = *v.Unit.Storage
	s.st.Episodes, s.st.Runs, s.st.Items = slices.Clone(s.st.Episodes), slices.Clone(s.st.Runs), slices.Clone(s.st.Items)
	s.keepDoubts()
	t.orphans()
	for _, o := range t.Results {
		s.digest(o)
	}
	if s.Unit.HostDeleted {
		s.endDeleted()
	} else {
		s.episodes()
	}
	s.write(*v.Unit.Storage)
	return t.decision()
}

// keepDoubts keeps the intents of resets from being closed before it is known what they did: only then is their item written.
func (s *storage) keepDoubts() {
	var others []ha.Entry
	for _, e := range s.Unit.Open {
		if e.Act != ha.ActResetState || s.acting[e.Key] {
			others = append(others, e)
			continue
		}
		s.inDoubt(e.InstanceUUID, e.Text, s.Now)
	}
	s.Unit.Open = others
	for id, said := range s.Memory.Unclear { // this owner's own
		if _, known := s.doubt[id]; !known && !s.acting[id] {
			s.inDoubt(id, said, s.Now)
		}
	}
}

func (s *storage) inDoubt(id, text string, now time.Time) {
	key := doubtKey(ha.ActResetState, id)
	since, known := s.Memory.Doubt[key]
	if !known {
		since = now
		s.Memory.Doubt[key] = since
	}
	s.doubt[id] = doubt{text, since}
}

func (s *storage) episodes() {
	open := -1
	for i := range s.st.Episodes {
		switch e := &s.st.Episodes[i]; {
		case e.Open():
			open = i
		case e.EndedAt == nil:
			s.windUp(e)
		}
	}
	if open >= 0 {
		s.open(&s.st.Episodes[open])
	}
	left := slices.ContainsFunc(s.st.Episodes, func(e ha.Episode) bool { return e.EndedAt == nil })
	switch {
	case !left && len(s.acting) == 0:
		s.ended = true
	case !s.busy && len(s.acting) == 0 && s.park == 0:
		s.park = storageIdle
	case s.busy:
		s.park = 0
		s.wakeAt(s.Now.Add(time.Second))
	}
}

// soon asks for a turn again without giving up the lease.
func (s *storage) soon() { s.busy = true }

// open carries an open episode on: what holds it, then scheduling, then the runs.
func (s *storage) open(e *ha.Episode) {
	s.once(e, "opened", ha.AlarmStorage, "storage of host %s failed: %s; radius: %s (episode %s)", s.Unit.Host.Name, e.Why, ha.JoinKinds(e.Radius), e.UUID)
	if len(e.Radius) == 0 {
		s.once(e, "unknown", ha.AlarmStorageUnknown, "nobody has said what needs the storage of host %s that failed: nothing is touched. "+
			"State it: salvor host fail %[1]s --radius instance,blob --reason WHY", s.Unit.Host.Name)
	}
	e.Waiting = ""
	if why := s.stopped(e); why != "" {
		e.Waiting = why
		s.hold(e, why)
		return
	}
	settled := s.scheduling(e)
	switch {
	case len(e.Radius) == 0:
		e.Waiting = "the radius is unknown: nothing is touched until an operator states it"
		return
	case e.Held.By != "":
		e.Waiting = fmt.Sprintf("held by %s: %s", e.Held.By, e.Held.Why)
		s.hold(e, e.Waiting)
		return
	}
	for i := range s.st.Runs {
		r := &s.st.Runs[i]
		if r.EpisodeUUID != e.UUID || r.State == ha.RunStopped {
			continue
		}
		if r.State == ha.RunHeld {
			r.State, r.Why = ha.RunOpen, ""
			if r.Kind == ha.ObjectBlob { // a batch goes by the row: it must be open there first, and not be written over in the same commit
				s.reload = true
				s.soon()
				s.wakeAt(s.Now)
				continue
			}
		}
		switch {
		case r.Kind == ha.ObjectBlob && r.State == ha.RunOpen:
			s.suspects(e, r)
		case r.Kind == ha.ObjectInstance:
			s.instances(e, r, settled)
		}
	}
}

// stopped says what keeps even the compute service from being touched: a pause, or a brake.
func (s *storage) stopped(e *ha.Episode) string {
	switch {
	case !s.Unit.Segment.Enabled:
		return "the segment is disabled"
	case ha.OperatorMaintenance(s.Unit.Host, s.Unit.Claims):
		return "the host is on an operator's maintenance"
	}
	if p := s.Unit.Segment.Pause; p.Active(s.Now) {
		if p.Until != nil {
			s.wakeAt(*p.Until)
		}
		return fmt.Sprintf("paused by %s: %s", p.By, p.Reason)
	}
	if e.WaivedBy != "" {
		return ""
	}
	if e.Braked == "" && s.begins(e) {
		e.Braked = s.brake(e)
	}
	if e.Braked != "" {
		s.once(e, "braked", ha.AlarmStorageBrake, "the cascade of host %s is held, nothing is touched: %s. If it is this host's own failure: salvor episode resume %s",
			s.Unit.Host.Name, e.Braked, e.UUID)
		return "held by the brake: " + e.Braked
	}
	if !s.begins(e) {
		return ""
	}
	return s.unsure(e)
}

// begins reports whether there is anything left that a brake could hold.
func (s *storage) begins(e *ha.Episode) bool {
	return e.Service == ha.ServiceUntouched || slices.ContainsFunc(s.st.Runs, func(r ha.Run) bool {
		return r.EpisodeUUID == e.UUID && (r.State == ha.RunOpen || r.State == ha.RunHeld)
	})
}

// brake finds a failure that is not this host's alone (STORAGE-HEALTH, "Brakes"). What it has found stays until an operator says otherwise.
func (s *storage) brake(e *ha.Episode) string {
	for _, o := range s.st.Sharers {
		if o.Status.Failed() {
			return fmt.Sprintf("host %s has reported the same filesystem, and it fails there too (%s: %s)", o.HostName, o.Resource, o.Status)
		}
	}
	for _, k := range []ha.ObjectKind{ha.ObjectInstance, ha.ObjectBlob} {
		n, failing := s.st.Hosts[k], s.st.Failing[k]
		if e.Has(k) && failing >= 2 && 100*failing > 30*n {
			return fmt.Sprintf("%d of %d hosts with storage for %ss failed within ten minutes", failing, n, k)
		}
	}
	return ""
}

// unsure says for what an episode of a filesystem that others have reported too waits: one probe interval, and a fresh report of each of them.
func (s *storage) unsure(e *ha.Episode) string {
	if len(s.st.Sharers) == 0 {
		return ""
	}
	since := e.OpenedAt
	if e.Version > 1 {
		since = s.since(fmt.Sprintf("%s version %d", e.UUID, e.Version))
	}
	var silent []string
	for _, o := range s.st.Sharers {
		if !o.ReportedAt.After(since) && !slices.Contains(silent, o.HostName) {
			silent = append(silent, o.HostName)
		}
	}
	if len(silent) == 0 && s.Now.Sub(since) >= storageProbe {
		return ""
	}
	s.soon()
	s.reload = true
	why := "other hosts have reported the same filesystem: waiting for one probe interval"
	if len(silent) > 0 {
		why = "other hosts have reported the same filesystem: waiting for a fresh report of " + strings.Join(silent, ", ")
	}
	return why
}

// hold shows at each run of an episode what it is held by.
func (s *storage) hold(e *ha.Episode, why string) {
	for i := range s.st.Runs {
		if r := &s.st.Runs[i]; r.EpisodeUUID == e.UUID && (r.State == ha.RunOpen || r.State == ha.RunHeld) {
			r.State, r.Why = ha.RunHeld, why
		}
	}
}

// suspects turns the host's copies of blobs suspect, a batch a turn. Only the store knows how far it came.
func (s *storage) suspects(e *ha.Episode, r *ha.Run) {
	var cursor int64
	if r.Cursor != "" {
		if _, err := fmt.Sscan(r.Cursor, &cursor); err != nil {
			r.Why = "its cursor cannot be read: " + r.Cursor
			return
		}
	}
	s.whileOpen(e)
	s.change(ha.SuspectLocations{HostUUID: e.HostUUID, EpisodeUUID: e.UUID, Cursor: cursor, Limit: suspectBatch})
	s.reload = true
	s.soon()
	s.wakeAt(s.Now)
}

// once writes an alarm once per episode, whoever owns it: that it was said is kept in the unit's row.
func (s *storage) once(e *ha.Episode, what string, kind ha.Alarm, format string, args ...any) {
	said, rest, _ := strings.Cut(s.rec.HeldWhy, "|")
	if said != e.UUID {
		rest = ""
	}
	words := strings.Split(rest, ",")
	if slices.Contains(words, what) {
		return
	}
	s.rec.HeldWhy = e.UUID + "|" + strings.Trim(rest+","+what, ",")
	s.alarm(kind, "", format, args...)
}

// write gathers what differs from the rows.
func (s *storage) write(was ha.StorageUnit) {
	for i, e := range s.st.Episodes {
		w := was.Episodes[i]
		if e.Braked != w.Braked || e.Waiting != w.Waiting || e.Service != w.Service || (e.EndedAt == nil) != (w.EndedAt == nil) {
			c := ha.SetEpisode{UUID: e.UUID, Braked: e.Braked, Waiting: e.Waiting, Service: e.Service, Ended: e.EndedAt != nil}
			if w.Open() && !e.Open() {
				c.ClearedBy = e.ClearedBy
			}
			s.change(c)
		}
	}
	for i, r := range s.st.Runs {
		if r != was.Runs[i] {
			s.change(ha.PutRun{Run: r})
		}
	}
	for i, it := range s.st.Items {
		if i >= len(was.Items) || it != was.Items[i] {
			s.change(ha.PutItem{Item: it})
		}
	}
}

// put writes an item into the view; write makes it a change.
func (s *storage) put(i ha.Item) {
	for at, have := range s.st.Items {
		if have.Same(i) {
			s.st.Items[at].State, s.st.Items[at].Text = i.State, i.Text
			return
		}
	}
	s.st.Items = append(s.st.Items, i)
}

// digest takes in how an act ended.
func (s *storage) digest(o ha.Outcome) {
	switch o.Act.Kind {
	case ha.ActResetState:
		s.resetEnded(o)
	case ha.ActFence:
		s.outcome(o)
		if o.Fence == nil { // it was not sent, or cut short: that says nothing of the host
			return
		}
		s.rec.Proof, s.rec.ProofText = ha.ProofNone, o.Fence.Text
		if o.Fence.Off {
			s.rec.Proof, s.rec.ProofAt = ha.ProofFenced, o.At
		}
	default:
		s.outcome(o)
		s.look(LookServices, "")
	}
}
