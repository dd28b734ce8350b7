package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// settle is how long a call to Nova whose answer was lost may still be carried out: a reset is one write.
const settle = 5 * time.Second

// maxResets is how often Nova may refuse to set one instance to error before it is given up.
const maxResets = 3

// instances is the run over the host's instances: each one that looks usable is set to error, once. A run that is done goes on looking,
// so that late arrivals are caught.
func (s *storage) instances(e *ha.Episode, r *ha.Run, settled bool) {
	if s.Unit.HostUnit != 0 { // a host recovery has precedence, and moves them
		r.Why = "a recovery of the host is under way"
		s.park = storageSoon
		return
	}
	s.look(LookServers, "")
	list := s.Facts.Servers
	if list.At.IsZero() || list.Err != nil || !list.After(s.Now.Add(-storageSoon)) {
		if list.Err != nil {
			r.Why = "waiting: Nova does not answer: " + ha.TextOf(list.Err)
		}
		s.soon()
		return
	}
	r.Why = ""
	s.resolve(e, r)
	var healthy []ha.Server
	var waits []string
	for _, srv := range list.Value {
		if s.item(e, srv.ID) != nil || s.acting[srv.ID] { // its answer says what became of it
			continue
		}
		skip, wait := StorageOutlook(srv)
		switch {
		case wait != "":
			waits = append(waits, srv.ID+" is "+wait)
		case skip != "":
			s.done(r, e, srv.ID, ha.ItemSkipped, skip)
		default:
			healthy = append(healthy, srv)
		}
	}
	if len(healthy) > 0 {
		delete(s.Memory.Since, "clean")
		if s.action() == "evacuate" {
			s.evacuate(e, r, healthy)
			return
		}
		for _, srv := range healthy {
			s.setError(e, srv)
		}
		s.soon()
		return
	}
	s.clean(r, settled, waits)
}

// clean ends the run when two lists in a row, taken after the host has left scheduling, show nothing that is left to do.
func (s *storage) clean(r *ha.Run, settled bool, waits []string) {
	if len(waits) > 0 {
		r.Why = "waiting for what is in transition: " + strings.Join(waits[:min(len(waits), 3)], ", ")
		delete(s.Memory.Since, "clean")
		if r.State == ha.RunOpen { // what Nova does may take its time: nothing hurries
			s.park = storageSoon
		}
		return
	}
	if r.State == ha.RunDone {
		return
	}
	s.soon()
	if !settled || len(s.acting) > 0 || len(s.doubt) > 0 {
		return
	}
	if first := s.since("clean"); s.Facts.Servers.At.After(first) {
		r.State = ha.RunDone
		s.busy = false
	}
}

// StorageOutlook tells apart what a host with a dead disk has: skip says why an instance needs nothing, wait why it is not judged yet. What is left
// looks usable to its owner and is not: active, stopped, paused, suspended, rescued, resized.
func StorageOutlook(srv ha.Server) (skip, wait string) {
	switch srv.VMState {
	case ha.VMError:
		return "in error already", ""
	case ha.VMDeleted, ha.VMSoftDeleted:
		return "deleted", ""
	case ha.VMShelved, ha.VMShelvedOffloaded:
		return "shelved: its image is not on the host", ""
	case ha.VMBuilding:
		return "", ha.VMBuilding
	}
	task := srv.TaskState
	if task == ha.TaskStateMigrating || task == "deleting" || strings.HasPrefix(task, "resize") || strings.HasPrefix(task, "rebuild") {
		return "", task // Nova ends it, one way or the other
	}
	return "", ""
}

func (s *storage) action() string {
	if s.st.Action != "" {
		return s.st.Action
	}
	return s.Rules.StorageAction
}

func (s *storage) item(e *ha.Episode, instance string) *ha.Item {
	for i := range s.st.Items {
		if it := &s.st.Items[i]; it.EpisodeUUID == e.UUID && it.ID == instance && it.Kind == ha.ObjectInstance {
			return it
		}
	}
	return nil
}

// done writes an item and counts it.
func (s *storage) done(r *ha.Run, e *ha.Episode, instance string, state ha.ItemState, text string) {
	s.put(ha.Item{EpisodeUUID: e.UUID, Kind: ha.ObjectInstance, ID: instance, Version: r.Version, State: state, Text: text})
	if r.Cursor != filedMark {
		r.Cursor = instance
	}
	switch state {
	case ha.ItemDone:
		r.Done++
	case ha.ItemFailed:
		r.Failed++
	default:
		r.Skipped++
	}
}

// resetMark is what a reset's intent says, so that its outcome finds its episode again.
func resetMark(e *ha.Episode, was string) string {
	return fmt.Sprintf("episode %s: it was %s", e.UUID, was)
}

// markOf returns the episode of a reset, nil when it is not this unit's any more.
func (s *storage) markOf(mark string) *ha.Episode {
	for i := range s.st.Episodes {
		if e := &s.st.Episodes[i]; strings.Contains(mark, e.UUID) {
			return e
		}
	}
	return nil
}

func (s *storage) setError(e *ha.Episode, srv ha.Server) {
	if d, unclear := s.doubt[srv.ID]; unclear && !s.Facts.Servers.After(d.since.Add(settle)) {
		return // it may be done yet
	}
	s.closeDoubt(srv.ID, "it was not carried out: sent again")
	if s.act(ha.Act{Key: srv.ID, Kind: ha.ActResetState, Host: s.Unit.Host.Name, Instance: srv.ID, State: ha.VMError, Reason: resetMark(e, srv.VMState)}) {
		s.whileOpen(e)
	}
}

// resolve finds out what a former owner's resets did: seen in error, it was done.
func (s *storage) resolve(e *ha.Episode, r *ha.Run) {
	if len(s.doubt) == 0 {
		return
	}
	here := map[string]ha.Server{}
	for _, srv := range s.Facts.Servers.Value {
		here[srv.ID] = srv
	}
	for id, d := range s.doubt {
		srv, there := here[id]
		switch {
		case !strings.Contains(d.text, e.UUID):
		case s.item(e, id) != nil:
			s.closeDoubt(id, "its item is written")
		case there && srv.VMState == ha.VMError:
			s.done(r, e, id, ha.ItemDone, "set to error; "+d.text)
			s.closeDoubt(id, "seen in error")
		case !there && s.Facts.Servers.After(d.since.Add(settle)):
			s.done(r, e, id, ha.ItemSkipped, "no longer on the host")
			s.closeDoubt(id, "no longer on the host")
		}
	}
}

// closeDoubt journals what became of a reset whose end was not known.
func (s *storage) closeDoubt(id, text string) {
	d, unclear := s.doubt[id]
	if !unclear {
		return
	}
	delete(s.doubt, id)
	delete(s.Memory.Doubt, doubtKey(ha.ActResetState, id))
	delete(s.Memory.Unclear, id)
	s.change(ha.Write{Entry: ha.Entry{Kind: ha.EntryOutcome, Key: id, Act: ha.ActResetState, InstanceUUID: id, Text: d.text + ": " + text}},
		ha.CloseIntent{Key: id})
}

// resetEnded digests a reset. One whose answer was lost stays open in the journal until it is seen what it did.
func (s *storage) resetEnded(o ha.Outcome) {
	id := o.Act.Instance
	e := s.markOf(o.Act.Reason)
	class := ha.ClassOf(o.Err)
	if class == ha.ClassInDoubt || class == ha.ClassBroken {
		delete(s.acting, o.Act.Key)
		s.Memory.Unclear[id] = describe(o.Act)
		s.Memory.Doubt[doubtKey(ha.ActResetState, id)] = s.Now
		s.inDoubt(id, describe(o.Act), s.Now)
		s.Memory.Tries[o.Act.Key]++
		s.Memory.NotBefore[o.Act.Key] = s.Now.Add(backoff(s.Memory.Tries[o.Act.Key]))
		return
	}
	tries := s.Memory.Tries[o.Act.Key]
	s.outcome(o)
	if e == nil {
		return
	}
	r := s.run(e)
	switch {
	case o.Act.State == ha.VMActive:
		s.activated(e, id, o, class)
	case r == nil:
	case class == "":
		s.done(r, e, id, ha.ItemDone, "set to error; "+o.Act.Reason)
	case class == ha.ClassGone:
		s.done(r, e, id, ha.ItemSkipped, "deleted meanwhile")
	case class == ha.ClassRefused && tries+1 >= maxResets:
		s.done(r, e, id, ha.ItemFailed, "Nova refuses to set it to error: "+refusal(o.Err))
		s.alarm(ha.AlarmStorageStuck, id, "instance %s on host %s, whose storage failed, cannot be set to error: %s", id, s.Unit.Host.Name, refusal(o.Err))
	}
}

// run is the episode's run over instances.
func (s *storage) run(e *ha.Episode) *ha.Run {
	for i := range s.st.Runs {
		if r := &s.st.Runs[i]; r.EpisodeUUID == e.UUID && r.Kind == ha.ObjectInstance {
			return r
		}
	}
	return nil
}

// evacuate hands the instances to a host recovery, once the host was seen off: its disk must not come back under them.
func (s *storage) evacuate(e *ha.Episode, r *ha.Run, healthy []ha.Server) {
	if filed := s.since("filed " + e.UUID); strings.HasPrefix(r.Cursor, filedMark) {
		if s.Now.Sub(filed) < 2*storageSoon { // the recovery is about to begin
			s.park = storageSoon
			return
		}
		for _, srv := range healthy {
			s.done(r, e, srv.ID, ha.ItemSkipped, "left to the recovery of the host")
		}
		r.Cursor = filedMark
		s.soon()
		return
	}
	delete(s.Memory.Since, "filed "+e.UUID)
	host := s.Unit.Host.Name
	if !s.Fencing {
		r.State, r.Why = ha.RunHeld, EvacuationHeld(host)
		s.once(e, "fencing", ha.AlarmStorageStuck, "the instances of %s, whose storage failed, are not evacuated: no fencing is configured for it", host)
		return
	}
	if s.rec.Proof != ha.ProofFenced || s.Now.Sub(s.rec.ProofAt) > s.Rules.ProofMaxAge {
		r.Why = "fencing " + host
		if s.rec.Proof == ha.ProofNone && s.rec.ProofText != "" {
			r.Why = fmt.Sprintf("%s could not be fenced, and is tried again: %s", host, s.rec.ProofText)
			s.once(e, "fenced", ha.AlarmStorageStuck, "host %s, whose storage failed, could not be fenced: %s", host, s.rec.ProofText)
		}
		s.soon()
		if s.act(ha.Act{Key: fenceKey(host), Kind: ha.ActFence, Host: host}) {
			s.whileOpen(e)
		}
		return
	}
	for _, srv := range healthy {
		s.done(r, e, srv.ID, ha.ItemDone, fmt.Sprintf("it was %s; the host was seen off, and its recovery moves it", srv.VMState))
	}
	r.Cursor, r.Why = filedMark, ""
	s.since("filed " + e.UUID)
	s.whileOpen(e)
	s.change(ha.FileDeath{NotificationUUID: ha.MoveUUID(e.UUID, fmt.Sprint("death ", e.Version)), HostUUID: s.Unit.HostUUID,
		Text: fmt.Sprintf("salvor: fenced for its storage, episode %s: %s", e.UUID, s.rec.ProofText)})
	s.reload = true
	s.soon()
}

// filedMark is the cursor of a run whose instances were handed to a host recovery.
const filedMark = "host recovery"

// tell says of each instance that a cleared episode has set to error how it is now, and resets it if that was asked. It reports whether all is said.
func (s *storage) tell(e *ha.Episode) bool {
	r := s.run(e)
	if r == nil {
		return true
	}
	var left []int
	for i, it := range s.st.Items {
		if it.EpisodeUUID == e.UUID && it.Kind == ha.ObjectInstance && it.State == ha.ItemDone && !strings.HasPrefix(r.Cursor, filedMark) {
			left = append(left, i)
		}
	}
	if s.resetting() {
		return false
	}
	if len(left) == 0 && len(s.doubt) == 0 {
		return true
	}
	if !s.Facts.Servers.After(*e.ClearedAt) || s.Facts.Servers.Err != nil || !s.Facts.Servers.After(s.Now.Add(-storageSoon)) {
		s.look(LookServers, "")
		return false
	}
	s.resolve(e, r)
	here := map[string]ha.Server{}
	for _, srv := range s.Facts.Servers.Value {
		here[srv.ID] = srv
	}
	all := true
	for _, i := range left {
		it := &s.st.Items[i]
		srv, there := here[it.ID]
		switch {
		case s.acting[it.ID]:
			all = false
		case !there || srv.VMState != ha.VMError:
			it.State, it.Text = ha.ItemMoved, it.Text+"; when the episode was cleared it was no longer in error here"
		case !e.ResetInstances:
			it.State, it.Text = ha.ItemLeft, it.Text+"; still in error when the episode was cleared"
		case s.broken():
			it.State, it.Text = ha.ItemLeft, it.Text+"; not reset, the host's storage failed again"
		default:
			all = false
			s.act(ha.Act{Key: it.ID, Kind: ha.ActResetState, Host: s.Unit.Host.Name, Instance: it.ID, State: ha.VMActive, Reason: resetMark(e, ha.VMError)})
		}
	}
	if !all || len(s.doubt) > 0 {
		s.look(LookServers, "")
		all = false
	}
	return all
}

// resetting reports whether a reset is under way.
func (s *storage) resetting() bool {
	for _, kind := range s.InFlight {
		if kind == ha.ActResetState {
			return true
		}
	}
	return false
}

// activated digests the reset to active after a clear.
func (s *storage) activated(e *ha.Episode, id string, o ha.Outcome, class ha.Class) {
	it := s.item(e, id)
	if it == nil {
		return
	}
	switch class {
	case "":
		it.State, it.Text = ha.ItemReset, it.Text+"; reset to active by "+e.ClearedBy
	case ha.ClassGone:
		it.State, it.Text = ha.ItemMoved, it.Text+"; deleted"
	case ha.ClassRefused:
		it.State, it.Text = ha.ItemLeft, it.Text+"; Nova refused to reset it: "+refusal(o.Err)
	}
}
