package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// knowsAggregates reports whether what the classes ask of the host's aggregates is known. Without it nothing is chosen: a guess
// would move what is to be left.
func (t *turn) knowsAggregates() bool {
	if !ha.NeedsAggregates(t.Rules.Classes) || !t.Facts.Aggregates.At.IsZero() {
		return true
	}
	t.look(LookAggregates, "")
	t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
	if err := t.Facts.Aggregates.Err; err != nil {
		t.say("waiting: an instance class asks for the host's aggregates, and Nova does not tell them: %s", ha.TextOf(err))
	}
	return false
}

// stage is a priority that is waited for, as its instances stand.
type stage struct {
	ha.PriorityStage
	until time.Time // when it lets the next priority begin; zero while that is not known
	open  bool      // it does not, yet
}

// stages judges the priorities that others wait for (RECOVERY section 6). What is known of them is in the moves' rows, so a takeover
// waits no longer and no shorter.
func (t *turn) stages() []stage {
	if t.index.staged {
		return t.index.stages
	}
	t.index.staged = true
	for _, p := range t.Rules.Choice().Stages() {
		s := stage{PriorityStage: p}
		var began, last time.Time
		for _, m := range t.moves {
			if !m.HA || m.Priority != p.Priority || m.Stage == ha.StageError || m.Stage == ha.StageDone && m.StartTime == nil {
				continue
			}
			if m.StartTime != nil && (began.IsZero() || m.StartTime.Before(began)) {
				began = *m.StartTime
			}
			if m.EndTime != nil && m.EndTime.After(last) {
				last = *m.EndTime
			}
			s.open = s.open || m.Stage != ha.StageDone
		}
		switch {
		case s.open && began.IsZero(): // none has begun
		case s.open:
			s.until = began.Add(p.Cap)
		case !last.IsZero():
			s.until = last.Add(p.Wait)
			if limit := began.Add(p.Cap); limit.Before(s.until) {
				s.until = limit
			}
		}
		s.open = s.open && s.until.IsZero() || t.Now.Before(s.until)
		t.index.stages = append(t.index.stages, s)
	}
	return t.index.stages
}

// awaitsOthers reports whether the instance waits for one of a higher priority, and says so in its row.
func (t *turn) awaitsOthers(m *ha.VMove) bool {
	for _, s := range t.stages() {
		if !s.open || m.HA && m.Priority >= s.Priority {
			continue
		}
		if !s.until.IsZero() {
			t.wakeAt(s.until)
		}
		m.Message = ptr(fmt.Sprintf("waiting for the instances of priority %d (class %s)", s.Priority, strings.Join(s.Classes, ", ")))
		return true
	}
	return false
}

// setError sets an instance to error where it is, as its class says. Like an order, it is sent only while the host is known to be
// off; it may be sent again, as it does nothing to what is in error already.
func (t *turn) setError(m *ha.VMove, may bool, stop string) bool {
	switch {
	case t.acting[m.InstanceUUID]:
		return false
	case stop != "":
		t.settle(m, ha.MoveIgnored, text(m.Message)+"; it was not: "+stop)
		return true
	case !may:
		return false
	}
	if _, young := t.youngLists(); !young {
		return false
	}
	s, seen := t.server(m.InstanceUUID, m.Lost.At)
	switch {
	case seen == unseen:
		return false
	case seen == gone:
		t.settle(m, ha.MoveIgnored, deleted)
	case s.Host != m.SourceHost:
		t.settle(m, ha.MoveIgnored, "is on "+s.Host+" already")
	case s.VMState == ha.VMError:
		t.settle(m, ha.MoveIgnored, "")
	case t.othersOrder(m) != nil: // a reset would wreck it when it arrives
		t.settle(m, ha.MoveIgnored, text(m.Message)+"; it was not: somebody evacuates it")
	default:
		if t.act(ha.Act{Key: m.InstanceUUID, Kind: ha.ActResetState, Instance: m.InstanceUUID, Host: m.SourceHost, State: ha.VMError}) && m.StartTime == nil {
			m.Status, m.StartTime = ha.MoveOngoing, ptr(t.Now)
		}
		return false
	}
	return true
}

// errorSet digests the answer to that. Whatever it is, the move ends ignored: a failed one would be tried again, as a move.
func (t *turn) errorSet(m *ha.VMove, class ha.Class, o ha.Outcome) {
	switch class {
	case "":
		t.settle(m, ha.MoveIgnored, "")
	case ha.ClassGone:
		t.settle(m, ha.MoveIgnored, deleted)
	case ha.ClassRefused:
		t.settle(m, ha.MoveIgnored, text(m.Message)+"; Nova refused that: "+refusal(o.Err))
	}
}
