package plan_test

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// decide asks the plan twice: the same view gives the same decision, and neither changes the view.
func decide(t rapid.TB, v plan.View) plan.Decision {
	t.Helper()
	d := plan.Decide(v)
	if again := plan.Decide(v); !reflect.DeepEqual(d, again) {
		t.Fatalf("the same view gave two decisions:\n%+v\n%+v", d, again)
	}
	return d
}

// check holds what is so of every turn, whatever it is about.
func (w *world) check(v plan.View, d plan.Decision) {
	t := w.t
	t.Helper()
	if v.Draining && len(d.Acts) > 0 {
		t.Fatalf("acts while draining: %v", d.Acts)
	}
	if !d.Ended && !v.Draining && d.Wake.IsZero() && d.Park == 0 && len(d.Looks) == 0 && len(d.Acts) == 0 && len(v.InFlight) == 0 {
		t.Fatalf("nothing will wake this unit again\n%s", w.story())
	}
	keys := map[string]bool{}
	for _, a := range d.Acts {
		if _, flies := v.InFlight[a.Key]; flies && !came(v.Results, a.Key) || keys[a.Key] {
			t.Fatalf("a second act on %s while one is in flight: %s", a.Key, actText(a))
		}
		keys[a.Key] = true
		if !journaled(d.Changes, a) {
			t.Fatalf("%s without its intent in the same commit", actText(a))
		}
		if a.Kind == ha.ActEvacuate {
			w.checkOrder(v, d, a)
		}
		if age := v.Now.Sub(v.Facts.Services.At); a.Kind == ha.ActFence && age > min(2100*time.Millisecond+w.slow, 15*time.Second) {
			t.Fatalf("I2: %s by what Nova said %s ago: the host may be back\n%s", actText(a), age, w.story())
		}
	}
	if v.Unit.Kind != ha.UnitHost && len(d.Acts) > 0 && !slices.Contains(d.Changes, ha.Change(ha.GiveWay{HostUUID: v.Unit.HostUUID})) {
		t.Fatalf("a %s unit acts without giving way to the host unit", v.Unit.Kind)
	}
	w.checkRows(v, d)
}

func came(results []ha.Outcome, key string) bool {
	return slices.ContainsFunc(results, func(o ha.Outcome) bool { return o.Act.Key == key })
}

func journaled(changes []ha.Change, a ha.Act) bool {
	return slices.ContainsFunc(changes, func(c ha.Change) bool {
		w, is := c.(ha.Write)
		return is && w.Entry.Kind == ha.EntryIntent && w.Entry.Open && w.Entry.Key == a.Key && w.Entry.Act == a.Kind
	})
}

// checkOrder: I2, a proof that is no older than ProofMaxAge; I4, no second order while one is open.
func (w *world) checkOrder(v plan.View, d plan.Decision, a ha.Act) {
	w.t.Helper()
	after := v.Unit
	after.Apply(d.Changes...)
	switch age := v.Now.Sub(after.ProofAt); {
	case after.Proof == ha.ProofNone:
		w.t.Fatalf("I2: %s without a proof", actText(a))
	case age > v.Rules.ProofMaxAge:
		w.t.Fatalf("I2: %s on a proof that is %s old", actText(a), age)
	}
	closed := slices.Contains(d.Changes, ha.Change(ha.CloseIntent{Key: a.Key})) // its end became known in this very turn
	for _, m := range v.Unit.Moves {
		if m.InstanceUUID == a.Instance && m.Order.Open() && !closed {
			w.t.Fatalf("I4: %s while its order of %s is open", actText(a), m.Order.At)
		}
		if m.InstanceUUID == a.Instance && m.Status == ha.MoveSucceeded {
			w.t.Fatalf("I4: %s after it succeeded", actText(a))
		}
	}
	for _, m := range after.Moves {
		if m.InstanceUUID == a.Instance && (!m.Order.At.Equal(v.Now) || m.Stage != ha.StageOrdered) {
			w.t.Fatalf("I4: %s, but the row does not say so: %+v", actText(a), m.Order)
		}
	}
}

// checkRows: only words that reach the wire, only legal transitions, an end that is one.
func (w *world) checkRows(v plan.View, d plan.Decision) {
	t := w.t
	t.Helper()
	status := map[string]ha.Status{v.Unit.Notification.UUID: v.Unit.Notification.Status}
	for _, q := range v.Unit.Queue {
		status[q.UUID] = q.Status
	}
	for _, c := range d.Changes {
		switch c := c.(type) {
		case ha.SetNotification:
			from, known := status[c.UUID]
			if !known || !from.CanBecome(c.Status) {
				t.Fatalf("notification %s may not go from %q to %q", c.UUID, from, c.Status)
			}
			status[c.UUID] = c.Status
		case ha.PutMove:
			if c.Move.Stage == ha.StageDone && !c.Move.Status.Ended() {
				t.Fatalf("%s is done and %s", c.Move.InstanceUUID, c.Move.Status)
			}
			if c.Move.Status.Ended() && c.Move.Locked {
				t.Fatalf("I5: %s is %s and still locked by us", c.Move.InstanceUUID, c.Move.Status)
			}
			if c.Move.Attempts < 0 {
				t.Fatalf("%s: %d attempts", c.Move.InstanceUUID, c.Move.Attempts)
			}
		}
	}
	after := v.Unit
	after.Apply(d.Changes...)
	if d.Ended && after.Notification.UUID != "" && after.Notification.Status.Open() {
		t.Fatalf("I6: the unit ends with its notification %s", after.Notification.Status)
	}
	if d.Ended && after.Notification.UUID != "" && after.HeldAt != "" {
		t.Fatalf("it has ended, and says that it is held at gate %s: %s", after.HeldAt, after.HeldWhy)
	}
	if d.Ended && !slices.Contains(d.Changes, ha.Change(ha.EndUnit{})) {
		t.Fatal("ended without EndUnit")
	}
	if n := after.Notification; n.UUID != "" && n.Status != status[n.UUID] {
		t.Fatalf("the rows say %s, the owner's view %s", status[n.UUID], n.Status)
	}
}

// end asserts how the unit ended.
func (w *world) end(s ha.Status, has string) {
	w.t.Helper()
	n := w.unit.Notification
	if !w.ended || n.Status != s || !strings.Contains(text(n.Message), has) {
		w.t.Errorf("ended %v, %s %q; want %s, %q\n%s", w.ended, n.Status, text(n.Message), s, has, w.story())
	}
}

// waiting asserts that the recovery waits, visibly and without an end.
func (w *world) waiting(has string) {
	w.t.Helper()
	n := w.unit.Notification
	if w.ended || n.Status != ha.StatusRunning || !strings.Contains(text(n.Message), has) {
		w.t.Errorf("%s %q, ended %v; want running, %q\n%s", n.Status, text(n.Message), w.ended, has, w.story())
	}
}

func (w *world) move(id string) ha.VMove {
	for _, m := range w.unit.Moves {
		if m.InstanceUUID == id {
			return m
		}
	}
	return ha.VMove{Status: "no such move"}
}

// moved asserts how a vmove stands.
func (w *world) moved(id string, s ha.MoveStatus, has string) {
	w.t.Helper()
	if m := w.move(id); m.Status != s || !strings.Contains(text(m.Message), has) {
		w.t.Errorf("vmove of %s: %s %q; want %s, %q\n%s", id, m.Status, text(m.Message), s, has, w.story())
	}
}

// acts asserts what was sent, all of it, in order.
func (w *world) acts(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.sent, want) {
		w.t.Errorf("sent:\n  %s\nwant:\n  %s\n%s", strings.Join(w.sent, "\n  "), strings.Join(want, "\n  "), w.story())
	}
}

// count counts the acts that begin with prefix.
func (w *world) count(prefix string) (n int) {
	for _, s := range w.sent {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

// when is when the first act that begins with prefix was sent, since the start; -1 when none was.
func (w *world) when(prefix string) time.Duration {
	for i, s := range w.sent {
		if strings.HasPrefix(s, prefix) {
			return w.sentAt[i].Sub(w.start)
		}
	}
	return -1
}

// wrote counts journal entries of a kind whose text has a part.
func (w *world) wrote(k ha.EntryKind, has string) (n int) {
	for _, e := range w.journal {
		if e.Kind == k && strings.Contains(e.Text, has) {
			n++
		}
	}
	return n
}

// claims are the claims as text: host what reason prior.
func (w *world) claims() string {
	var list []string
	for _, c := range w.unit.Claims {
		list = append(list, strings.TrimSpace(strings.Join([]string{strings.TrimPrefix(c.HostUUID, "uuid-"), string(c.What), string(c.Reason), c.Prior}, " ")))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
