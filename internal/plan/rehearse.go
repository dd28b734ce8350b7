package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

var says = map[verdict]ha.Says{passed: ha.SaysPass, asks: ha.SaysUnknown, waits: ha.SaysWait, held: ha.SaysHold, ignored: ha.SaysIgnore, failed: ha.SaysFail}

// Room is what Placement answered for some needs.
type Room struct {
	Hosts []ha.Room
	Err   string // it could not be asked
}

func finding(rule, fix, format string, args ...any) ha.Finding {
	return ha.Finding{Rule: rule, Text: fmt.Sprintf(format, args...), Fix: fix}
}

// Rehearse says what a report of the host's death (RECOVERY section 2) would come to now. It is decided by what decides in earnest:
// the gates, the choice and the order are those of Host, on a unit that is in no row. Nothing is changed; what a turn would write
// and do is dropped. rooms are Placement's answers; needs that are not in it are judged by the services' states alone.
//
// A unit without a segment is a host that is not registered. blocks are what else is known to be in the way.
func Rehearse(v View, rooms map[ha.Needs]Room, blocks ...ha.Finding) ha.Rehearsal {
	v.Draining, v.Slots = false, 1<<20
	t := begin(v)
	if _, ok := t.service(t.Unit.Host.Name); !ok { // one whole list is enough for a rehearsal
		t.Memory.Since = cloned(t.Memory.Since)
		t.Memory.Since[keyVanished] = t.Now.Add(-time.Minute)
	}
	r := ha.Rehearsal{Blocks: blocks}
	registered := t.Unit.SegmentUUID != ""
	if registered {
		t.rehearseGates(&r)
	} else {
		r.Blocks = append(r.Blocks, finding(ha.FindingNoSegment, "salvor host create "+t.Unit.Host.Name+" --segment SEGMENT",
			"host %s is in no segment: reports about it are refused (400)", t.Unit.Host.Name))
	}
	t.choose(t.Facts.Servers.Value)
	b := seats{t: t, rooms: rooms, used: map[string]map[string]int64{}}
	on := ha.AggregatesOf(t.Facts.Aggregates.Value, t.Unit.Host.Name)
	order := 0
	for i := range t.moves {
		m := &t.moves[i]
		s := t.listed(m.InstanceUUID)
		p := ha.Prospect{Server: *s, Fate: t.Rules.Choice().Decide(*s, on), Want: m.Want, DataLost: s.ImageBooted}
		// In no segment, evacuate_all_instances is no wish: whoever left the host out meant it.
		p.Wanted = p.Fate.Move && (registered || p.Fate.HA) || p.Fate.Wanted() && p.Fate.Fix != ""
		p.Restart = t.restart(*s, on)
		if m.Stage == ha.StageChosen && m.Status == ha.MovePending {
			if p.Why = t.inTheWay(m, *s); p.Why == nil {
				order++
				p.Order, p.Reset = order, needsReset(s.VMState)
				b.seat(m, &p)
			}
		} else {
			p.Why = &ha.Finding{Rule: string(p.Fate.Rule), Text: text(m.Message), Fix: p.Fate.Fix}
		}
		if len(r.Blocks) > 0 && p.Why == nil {
			p.Protected, p.Why = false, &r.Blocks[0]
		}
		r.Moves = append(r.Moves, p)
	}
	for _, room := range b.deaf {
		r.Notes = append(r.Notes, finding(ha.FindingPlacement, "", "Placement cannot be asked who has room, so only the services' states are known: %s", room))
	}
	return r
}

// rehearseGates asks the gates as Host does; unlike it, each is asked, whatever the ones before it say.
func (t *turn) rehearseGates(r *ha.Rehearsal) {
	h, seg := t.Unit.Host, t.Unit.Segment
	block := func(rule, fix, format string, args ...any) {
		r.Blocks = append(r.Blocks, finding(rule, fix, format, args...))
	}
	note := func(rule, fix, format string, args ...any) {
		r.Notes = append(r.Notes, finding(rule, fix, format, args...))
	}
	self, _ := t.peer(h.Name)
	if self.Operator {
		block(ha.FindingMaintenance, "salvor host update "+h.Name+" --on-maintenance=false",
			"host %s is on an operator's maintenance: its reports are refused (409)", h.Name)
	}
	if t.heldByOperator() {
		fix := "salvor resume " + seg.Name
		if seg.Pause != nil && seg.Pause.Segment == "" {
			fix = "salvor resume"
		}
		block(ha.FindingPaused, fix, "%s", t.rec.HeldWhy)
		r.Gates = append(r.Gates, ha.GateAnswer{Gate: ha.GateOperator, Says: ha.SaysHold, Text: t.rec.HeldWhy})
		t.rec.HeldAt, t.rec.HeldWhy, t.rec.HeldSince = "", "", nil
	}
	for _, ask := range []func() answer{t.gateSegment, t.gateNova, t.gateBrake, t.gateRate, t.gateProof} {
		a := ask()
		r.Gates = append(r.Gates, ha.GateAnswer{Gate: a.gate, Says: says[a.verdict], Text: a.text})
		stops := a.verdict != passed && a.verdict != asks
		switch {
		case a.gate == ha.GateSegment && stops:
			block(ha.FindingSegment, "salvor segment update "+seg.Name+" --enabled=true", "segment %s is disabled: its reports are ignored", seg.Name)
		case a.gate == ha.GateNova && stops:
			block(ha.FindingNova, "bring it back: a recovery waits for it", "%s", a.text)
		case a.gate == ha.GateBrake && stops:
			block(ha.FindingBrake, "bring the other hosts back, or release it when it comes: salvor recovery release "+h.Name, "the brake would hold it: %s", a.text)
		case a.gate == ha.GateProof && a.verdict == failed:
			fix := "rename the host: salvor host update " + h.Name + " --name NAME; openstack compute service list has the names"
			if near := t.namesake(); near != "" {
				fix = "salvor host update " + h.Name + " --name " + near
			}
			block(ha.FindingUnknownToNova, fix, "Nova has no compute service named %s", h.Name)
		case a.gate == ha.GateProof && stops:
			r.Silence = t.silence()
		}
	}
	t.rehearseNotes(self, note)
}

func (t *turn) rehearseNotes(self ha.Peer, note func(rule, fix, format string, args ...any)) {
	h := t.Unit.Host.Name
	svc, known := t.service(h)
	stale, instances := t.staleOrders()
	first := ""
	if len(stale) > 0 {
		first = "purge its queue (" + ha.FindingStaleOrder + "), then "
		note(ha.FindingStaleOrder, "before nova-compute is started there: "+purge(h),
			"evacuate orders from before %s died lie in its queue, and are carried out when nova-compute starts there: %s", h, instances)
	}
	switch {
	case self.OpenIncident:
		note(ha.FindingOpen, "salvor recovery show "+h, "a recovery of %s is open: another report of its death is a duplicate (409)", h)
	case self.Claimed:
		if sign := t.returning(svc); sign != "" {
			until := "salvor takes that back, and tries on while Nova refuses"
			if sign == heardAgain {
				until = fmt.Sprintf("salvor takes that back once it was heard for %s, or is reported STARTED", t.Rules.HealthyDelay)
			}
			note(ha.FindingNotReturned, first+until+"; if it stays so, restart nova-compute there, which cleans up what was moved away, and look at what runs there: virsh list",
				"%s is back since its recovery (%s), and salvor still holds it forced down: as long as Nova refuses to end that, old copies of what was moved may run there", h, sign)
			break
		}
		note(ha.FindingNotReturned, first+"start it again; salvor recovery show "+h+" tells what was moved", "%s has not returned since its recovery: salvor holds it forced down", h)
	case known && !svc.Up:
		note(ha.FindingUnreported, "see whether it is dead, and whether its monitors run; salvor host confirm-off "+h+" --reason WHY has it recovered",
			"Nova sees %s down, and nobody has reported it", h)
	}
	switch {
	case t.FencingUnknown:
		note(ha.FindingFencingUnknown, "set [salvor] fencing_file for the api, too, to have coverage count it",
			"whether %s can be fenced is not known here: the fencing file is the engines'", h)
	case !t.Fencing:
		note(ha.FindingFencing, "[salvor] fencing_file", "nothing can fence %s: a report of its death that is not sure (host_status UNKNOWN) would be ignored", h)
	}
}

// returning is the sign that a host which is still forced down by its recovery is back, "" when there is none: that of its take-back, or
// that Nova has heard it since, and still did lately by Nova's own clock. A take-back wants more of that before it acts; people look now.
func (t *turn) returning(svc ha.Service) string {
	forced, _ := t.claim(t.Unit.HostUUID, ha.WhatForcedDown, ha.ReasonRecovery)
	if back, sign := t.isBack(forced, forced); back {
		return sign
	}
	late := func(s ha.Service) bool { return s.UpdatedAt.Sub(svc.UpdatedAt) >= t.silence() }
	if !forced.Seen.IsZero() && svc.UpdatedAt.After(forced.Seen) && !slices.ContainsFunc(t.Facts.Services.Value, late) {
		return heardAgain
	}
	return ""
}

const heardAgain = "Nova hears it"

// namesake is the only compute service in Nova whose name is the host's but for case or domain, "" when there is none.
func (t *turn) namesake() string {
	var found []string
	for _, s := range t.Facts.Services.Value {
		if s.Binary == ha.BinaryCompute && sameShort(s.Host, t.Unit.Host.Name) {
			found = append(found, s.Host)
		}
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// inTheWay says why an instance that is chosen would not be ordered.
func (t *turn) inTheWay(m *ha.VMove, s ha.Server) *ha.Finding {
	if where := t.migrating(s); where != "" {
		f := finding(ha.FindingMigrating, "wait until the migration has ended", "in a live migration: it would not be ordered, as it may run on %s", where)
		return &f
	}
	if s.Host != m.SourceHost {
		return &ha.Finding{Rule: ha.FindingElsewhere, Text: "is on " + s.Host}
	}
	return nil
}

// restart says why a VM report (RECOVERY section 3) would not restart the instance.
func (t *turn) restart(s ha.Server, on []ha.Aggregate) *ha.Finding {
	key := t.Rules.VMMetadataKey
	if ok, why := t.Rules.Restarting().Restarts(s, on); !ok {
		return &ha.Finding{Rule: string(ha.RuleNotEnabled), Text: why,
			Fix: "set the metadata " + key + " of the instance to True, or [instance_failure] process_all_instances = true"}
	}
	if vmIgnored(s) {
		return &ha.Finding{Rule: ha.FindingInstanceState, Text: "it is " + s.VMState}
	}
	return nil
}

// vmIgnored are the states of RECOVERY section 3, rule 4.
func vmIgnored(s ha.Server) bool { return s.VMState == ha.VMPaused || s.VMState == ha.VMRescued }

// EvacuationHeld is why an episode whose instances are to be evacuated is held where nothing can fence its host.
func EvacuationHeld(host string) string {
	return "storage_failure_action is evacuate, which needs fencing, and none is configured for " + host
}

// Needs are those of the servers that would be ordered: what to ask Placement about.
func (v View) Needs() []ha.Needs {
	t := begin(v)
	t.choose(t.Facts.Servers.Value)
	var out []ha.Needs
	for i := range t.moves {
		m := &t.moves[i]
		if n := t.listed(m.InstanceUUID).Needs; m.Stage == ha.StageChosen && n.Known() && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}
