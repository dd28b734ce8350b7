package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// turn is one pass over a view: working copies of what may change, and what has been decided so far.
type turn struct {
	View
	rec     ha.Recovery
	moves   []ha.VMove
	note    ha.Notification // the unit's own, as it shall be
	changes []ha.Change
	acts    []ha.Act
	looks   []Look
	wake    time.Time
	park    time.Duration
	reload  bool
	starved bool
	ended   bool
	acting  map[string]bool // keys with an act in flight or decided in this turn
	guarded bool            // GiveWay is among the changes
	proved  bool            // the proof was taken in this turn
	index   index
}

func begin(v View) *turn {
	t := &turn{View: v, rec: v.Unit.Recovery, note: v.Unit.Notification, acting: map[string]bool{}}
	t.moves = slices.Clone(v.Unit.Moves)
	t.Memory.Dests = cloned(v.Memory.Dests)
	t.Memory.Heard = cloned(v.Memory.Heard)
	t.Memory.Doubt = cloned(v.Memory.Doubt)
	t.Memory.Tries = cloned(v.Memory.Tries)
	t.Memory.NotBefore = cloned(v.Memory.NotBefore)
	t.Memory.Since = cloned(v.Memory.Since)
	t.Memory.Said = cloned(v.Memory.Said)
	t.Memory.Unclear = cloned(v.Memory.Unclear)
	t.since(keyOwner)
	for k := range v.InFlight {
		t.acting[k] = true
	}
	if t.rec.ProofAt.Sub(v.Now) > clocksApart { // the database's clock was put back: nobody knows how old the proof is
		t.rec.ProofAt = time.Time{}
	}
	if t.note.Message == nil {
		t.note.Message = new(string)
	} else {
		m := *t.note.Message
		t.note.Message = &m
	}
	return t
}

// clocksApart is how far the clocks of a cluster's nodes may be apart.
const clocksApart = 10 * time.Second

// keyOwner: since when this owner has the unit.
const keyOwner = "owner"

// doubtOver is when nothing can come any more of what was sent, or whose answer was lost, at. What a former owner wrote is counted from this
// one's first turn, as invariant I10 allows: the database's clock may have been set between the two, and ahead of an order that is still
// on its way it would end the wait for it.
func (t *turn) doubtOver(at time.Time) time.Time {
	if mine := t.Memory.Since[keyOwner]; at.Before(mine) || at.Sub(t.Now) > clocksApart {
		at = mine
	}
	return at.Add(t.Rules.OrderInDoubt)
}

// decision gathers the turn: rows that differ are written, the rest is left alone.
func (t *turn) decision() Decision {
	var changes []ha.Change
	for i, m := range t.moves {
		if i >= len(t.Unit.Moves) || m != t.Unit.Moves[i] && !reflect.DeepEqual(m, t.Unit.Moves[i]) {
			changes = append(changes, ha.PutMove{Move: m})
		}
	}
	if !reflect.DeepEqual(t.rec, t.Unit.Recovery) {
		changes = append(changes, ha.SetRecovery{Recovery: t.rec})
	}
	changes = append(changes, t.changes...)
	was := text(t.Unit.Notification.Message)
	if had := t.Unit.Notification.Status; t.note.UUID != "" && !had.CanBecome(t.note.Status) { // what had failed and was retried is over in its first turn
		changes = append(changes, ha.SetNotification{UUID: t.note.UUID, Status: ha.StatusRunning, Message: was})
	}
	if t.note.UUID != "" && (t.note.Status != t.Unit.Notification.Status || *t.note.Message != was) { // after an Adopt
		changes = append(changes, ha.SetNotification{UUID: t.note.UUID, Status: t.note.Status, Message: *t.note.Message})
	}
	if t.ended {
		changes = append(changes, ha.EndUnit{})
	}
	return Decision{Changes: changes, Acts: t.acts, Looks: t.looks, Wake: t.wake, Park: t.park, Starved: t.starved, Reload: t.reload, Ended: t.ended, Memory: t.Memory}
}

func (t *turn) change(c ...ha.Change) { t.changes = append(t.changes, c...) }

// say sets the notification's message, which is what an operator reads first.
func (t *turn) say(format string, args ...any) { *t.note.Message = fmt.Sprintf(format, args...) }

// log writes a note for the timeline.
func (t *turn) log(instance, format string, args ...any) {
	t.change(ha.Write{Entry: ha.Entry{Kind: ha.EntryNote, InstanceUUID: instance, Text: fmt.Sprintf(format, args...)}})
}

// alarm writes an alarm once per owner and text. Its kind is what docs/alerts.md and the metric know it by.
func (t *turn) alarm(kind ha.Alarm, instance, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if t.Memory.Said[text] {
		return
	}
	t.Memory.Said[text] = true
	t.change(ha.Write{Entry: ha.Entry{Kind: ha.EntryAlarm, Task: string(kind), InstanceUUID: instance, Text: text}})
}

// look asks for a fact once.
func (t *turn) look(k LookKind, id string) {
	l := Look{Kind: k, ID: id}
	if !slices.Contains(t.looks, l) {
		t.looks = append(t.looks, l)
	}
}

// wakeAt asks for a turn at w, or earlier. What was due already waits for an answer: it is asked for again a little later.
func (t *turn) wakeAt(w time.Time) {
	if soon := t.Now.Add(100 * time.Millisecond); w.Before(soon) && !w.After(t.Now) {
		w = soon
	}
	if t.wake.IsZero() || w.Before(t.wake) {
		t.wake = w
	}
}

// reloadAfter asks for the rows of others when those at hand are older than age: looks and answers bring many turns meanwhile, and a
// load is what costs most of all.
func (t *turn) reloadAfter(age time.Duration) {
	if due := t.Unit.Now.Add(age); t.Now.Before(due) {
		t.wakeAt(due)
		return
	}
	t.reload = true
}

// rowsStand is how old the rows of others may be when a recovery starts by their numbers: while its host's death was being proven, others
// died and were reported.
const rowsStand = time.Second

const keyRows = "rows"

// recentRows reports whether the rows are that young, or were loaded since it was asked first; else it has them loaded.
func (t *turn) recentRows() bool {
	old, waiting := t.Memory.Since[keyRows]
	if t.Now.Sub(t.Unit.Now) <= rowsStand || waiting && !t.Unit.Now.Equal(old) {
		delete(t.Memory.Since, keyRows)
		return true
	}
	t.Memory.Since[keyRows] = t.Unit.Now
	t.reload = true
	t.wakeAt(t.Now)
	return false
}

// act decides an act: its intent is journaled with the changes of this turn, and sent only when they are committed. At most
// one per key is in flight; false when one is, when its back-off is not over, or when Nova has as much to do as it may have.
func (t *turn) act(a ha.Act) bool {
	if t.acting[a.Key] || t.Draining {
		return false
	}
	if a.Instance != "" && t.Slots <= 0 {
		t.starved = true // its end is an event; the wake is for one that was missed
		t.wakeAt(t.Now.Add(time.Second))
		return false
	}
	if nb, ok := t.Memory.NotBefore[a.Key]; ok && t.Now.Before(nb) {
		t.wakeAt(nb)
		return false
	}
	t.acting[a.Key] = true
	if a.Instance != "" {
		t.Slots--
	}
	t.giveWay()
	t.acts = append(t.acts, a)
	t.change(ha.Write{Entry: ha.Entry{Kind: ha.EntryIntent, Key: a.Key, Act: a.Kind, InstanceUUID: a.Instance, Open: true, Text: describe(a)}})
	return true
}

// giveWay has this turn's changes refused if a unit of the host has become active that the rows at hand do not tell of.
func (t *turn) giveWay() {
	if t.Unit.Kind != ha.UnitHost && !t.guarded {
		t.guarded = true
		t.changes = slices.Insert(t.changes, 0, ha.Change(ha.GiveWay{HostUUID: t.Unit.HostUUID}))
	}
}

// end gives the notification its last word and ends the unit, which is held at no gate any more. What Nova shows of the host may be
// the work of the host's own unit: then the last word is not this one.
func (t *turn) end(s ha.Status, format string, args ...any) {
	if t.Unit.HostUnit == 0 {
		t.giveWay()
	}
	t.unhold()
	t.note.Status = s
	t.say(format, args...)
	t.ended = true
}

// outcome journals how an act ended and closes its intent. It returns the class of what went wrong, "" for success, and
// keeps the back-off of the key.
func (t *turn) outcome(o ha.Outcome) ha.Class {
	delete(t.acting, o.Act.Key)
	class := ha.ClassOf(o.Err)
	if class == ha.ClassBroken { // an act that failed without a certain answer may have been done
		class = ha.ClassInDoubt
	}
	text := describe(o.Act) + ": done"
	if o.Err != nil {
		text = fmt.Sprintf("%s: %v", describe(o.Act), o.Err)
	}
	t.change(ha.Write{Entry: ha.Entry{Kind: ha.EntryOutcome, Key: o.Act.Key, Act: o.Act.Kind, InstanceUUID: o.Act.Instance, Text: text}})
	if o.Act.Kind != ha.ActEvacuate || class != ha.ClassInDoubt { // an order in doubt stays open until its record tells
		t.change(ha.CloseIntent{Key: o.Act.Key})
	}
	switch {
	case class == "" || class == ha.ClassGone && o.Act.Kind != ha.ActUnlock: // a look must agree with the 404 to an unlock
		delete(t.Memory.Tries, o.Act.Key)
		delete(t.Memory.NotBefore, o.Act.Key)
	default:
		t.Memory.Tries[o.Act.Key]++
		t.Memory.NotBefore[o.Act.Key] = t.Now.Add(backoff(t.Memory.Tries[o.Act.Key]))
		if class == ha.ClassInDoubt {
			t.Memory.Doubt[doubtKey(o.Act.Kind, o.Act.Key)] = o.At
		}
	}
	return class
}

// backoff grows from half a second to thirty seconds.
func backoff(failures int) time.Duration {
	return min(30*time.Second, 250*time.Millisecond<<min(failures, 10))
}

// orphans closes the open intents of former owners: what they did is found by looking, not by their word. An evacuate
// order is not closed here: it is in doubt until its record shows (confirm).
func (t *turn) orphans() {
	for _, e := range t.Unit.Open {
		if t.acting[e.Key] || e.Act == ha.ActEvacuate {
			continue
		}
		t.change(
			ha.Write{Entry: ha.Entry{Kind: ha.EntryOutcome, Key: e.Key, Act: e.Act, InstanceUUID: e.InstanceUUID,
				Text: e.Text + ": its owner ended without an answer; looking"}},
			ha.CloseIntent{Key: e.Key})
		t.Memory.Doubt[doubtKey(e.Act, e.Key)] = t.Now
		for i := range t.moves {
			if m := &t.moves[i]; m.InstanceUUID == e.InstanceUUID && lastsLong(e.Act) {
				m.Lost = ha.Lost{Act: e.Act, At: t.Now}
			}
		}
	}
	t.Unit.Open = nil
}

// since is when this owner began to await what: now, when it begins.
func (t *turn) since(what string) time.Time {
	began, ok := t.Memory.Since[what]
	if !ok {
		began = t.Now
		t.Memory.Since[what] = began
	}
	return began
}

// doubtKey names an act whose answer was lost.
func doubtKey(k ha.ActKind, key string) string { return string(k) + " " + key }

// doubtful reports whether an act of this kind may still be done by the cloud, long after it was sent.
func (t *turn) doubtful(k ha.ActKind, key string) bool {
	since, ok := t.Memory.Doubt[doubtKey(k, key)]
	if !ok {
		return false
	}
	if t.Now.Sub(since) >= t.Rules.OrderInDoubt {
		delete(t.Memory.Doubt, doubtKey(k, key))
		return false
	}
	t.wakeAt(since.Add(t.Rules.OrderInDoubt))
	return true
}

// describe renders an act for people.
func describe(a ha.Act) string {
	switch a.Kind {
	case ha.ActEvacuate:
		if a.Target != "" {
			return fmt.Sprintf("evacuate %s from %s to %s", a.Instance, a.Host, a.Target)
		}
		return fmt.Sprintf("evacuate %s from %s", a.Instance, a.Host)
	case ha.ActResetState:
		if a.Reason != "" {
			return fmt.Sprintf("reset state of %s to %s (%s)", a.Instance, a.State, a.Reason)
		}
		return fmt.Sprintf("reset state of %s to %s", a.Instance, a.State)
	case ha.ActService:
		s := "compute service of " + a.Host + ":"
		if a.ForcedDown != nil {
			s += fmt.Sprintf(" forced_down %v", *a.ForcedDown)
		}
		if a.Enable != nil && *a.Enable {
			s += " enable"
		} else if a.Enable != nil {
			s += " disable"
		}
		return s
	case ha.ActFence:
		return "fence " + a.Host
	case ha.ActAggregateAdd, ha.ActAggregateRemove:
		return fmt.Sprintf("%s %s %s", a.Kind, a.Aggregate, a.Host)
	default:
		return fmt.Sprintf("%s %s", a.Kind, a.Instance)
	}
}

// service returns the host's compute service as last seen; false when Nova has none, cannot reach its cell, or none was seen. Of two
// rows, as a host that was moved to another cell leaves them, it is the one that was heard last.
func (t *turn) service(host string) (svc ha.Service, found bool) {
	for _, s := range t.Facts.Services.Value {
		if s.CellAway && s.Host == host { // what another cell still has of it says nothing
			return ha.Service{}, false
		}
		if s.Binary == ha.BinaryCompute && s.Host == host && (!found || s.UpdatedAt.After(svc.UpdatedAt)) {
			svc, found = s, true
		}
	}
	return svc, found
}

// claim returns this host's claim of that kind made for the reason.
func (t *turn) claim(host string, w ha.What, r ha.Reason) (ha.Claim, bool) {
	for _, c := range t.Unit.Claims {
		if c.HostUUID == host && c.What == w && c.Reason == r {
			return c, true
		}
	}
	return ha.Claim{}, false
}

// putClaim writes a claim and keeps it in the view, so that later steps of this turn see it.
func (t *turn) putClaim(c ha.Claim) {
	c.WorkID = t.Unit.ID
	if c.Since.IsZero() {
		c.Since = t.Now
	}
	t.change(ha.PutClaim{Claim: c})
	for i, have := range t.Unit.Claims {
		if have.HostUUID == c.HostUUID && have.What == c.What && have.Reason == c.Reason && have.Detail == c.Detail {
			t.Unit.Claims = slices.Clone(t.Unit.Claims)
			t.Unit.Claims[i].Seen = c.Seen
			return
		}
	}
	t.Unit.Claims = append(slices.Clone(t.Unit.Claims), c)
}

// dropClaim removes a claim from the rows and the view.
func (t *turn) dropClaim(c ha.Claim) {
	t.change(ha.DropClaim{HostUUID: c.HostUUID, What: c.What, Reason: c.Reason, Detail: c.Detail})
	t.Unit.Claims = slices.DeleteFunc(slices.Clone(t.Unit.Claims), func(h ha.Claim) bool {
		return h.HostUUID == c.HostUUID && h.What == c.What && h.Reason == c.Reason && h.Detail == c.Detail
	})
}

func ptr[T any](v T) *T { return &v }

// cloned copies a map, so that a turn that cannot be committed changes nothing.
func cloned[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m))
	maps.Copy(c, m)
	return c
}
