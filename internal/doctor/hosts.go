package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// computes are Nova's compute services by host.
func (f *facts) computes() map[string]ha.Service {
	all := map[string]ha.Service{}
	for _, s := range f.services.value {
		if s.Binary == ha.BinaryCompute {
			all[s.Host] = s
		}
	}
	return all
}

func (f *facts) segmentName(uuid string) string {
	for _, s := range f.segments.value {
		if s.UUID == uuid {
			return s.Name
		}
	}
	return uuid
}

func (f *facts) judgeSegments(p Patient) []Check {
	if !f.segments.good() || !f.hosts.good() {
		return nil
	}
	s := subject{CheckSegments, ""}
	var out []Check
	for _, pause := range f.pauses.value {
		where := "everywhere"
		if pause.Segment != "" {
			where = "in segment " + f.segmentName(pause.Segment)
		}
		out = append(out, subject{CheckSegments, "pause " + where}.warn("salvor resume, when it is over",
			"recoveries are paused %s by %s: %s", where, pause.By, pause.Reason))
	}
	for _, seg := range f.segments.value {
		s := subject{CheckSegments, seg.Name}
		if !seg.Enabled {
			out = append(out, s.warn("salvor segment update "+seg.Name+" --enabled=true", "is disabled: what is reported of its hosts is ignored"))
			continue
		}
		look := f.outlooks[seg.UUID]
		if look.err != nil {
			out = append(out, s.warn("ask again; if it stays so, see the findings on the database", "whether the brake would hold the next death is not known: %s", textOf(look.err)))
			continue
		}
		// Who is heard again, a recovery's owner knows, who listens: here such a host still counts.
		n, down := plan.Down(look.value.Peers, f.services.value, "", nil)
		if b := p.Rules.BrakePercent; len(down) > 0 && plan.Brakes(b, len(down)+1, n) {
			out = append(out, s.warn("bring them back; if the next one is known to be dead, let it pass: salvor recovery release HOST --reason WHY",
				"%d of %d hosts are down (%s): the next death is held by the brake (more than %d %%)", len(down), n, named(down), b))
		}
	}
	switch {
	case len(f.hosts.value) == 0:
		out = append(out, s.warn("salvor segment create, salvor host create", "no host is registered: nothing is protected"))
	case len(out) == 0:
		out = append(out, s.ok("%d, with %d hosts", len(f.segments.value), len(f.hosts.value)))
	}
	return out
}

// judgeHosts compares the registered names with Nova's, and says who is down, disabled, or left out.
func (f *facts) judgeHosts(p Patient) []Check {
	if !f.hosts.good() || !f.services.good() {
		return nil
	}
	computes := f.computes()
	var out []Check
	var down, forced, disabled, ours, operators, recovered, kept, gone []string
	good := 0
	for _, h := range f.hosts.value {
		svc, known := computes[h.Name]
		switch {
		case !known:
			out = append(out, unknownHost(h, f.segmentName(h.SegmentUUID), computes))
			continue
		case h.OnMaintenance:
			switch operator, sure := f.byOperator(h); {
			case !sure:
				kept = append(kept, h.Name)
			case operator:
				operators = append(operators, h.Name)
			default:
				recovered = append(recovered, h.Name)
			}
		case svc.ForcedDown:
			forced = append(forced, h.Name)
		case !svc.Up:
			down = append(down, h.Name)
		case bySalvor(svc) && !h.Reserved:
			ours = append(ours, h.Name)
		case !svc.Enabled && !h.Reserved:
			disabled = append(disabled, h.Name)
		default:
			good++
		}
	}
	for name, svc := range computes {
		registered := slices.ContainsFunc(f.hosts.value, func(h ha.Host) bool { return h.Name == name })
		if !registered && svc.ForcedDown && svc.DisabledReason == p.Rules.DisableReason {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	add := func(of string, names []string, do, text string) {
		if len(names) > 0 {
			out = append(out, subject{CheckHosts, of}.warn(do, "%s: %s", text, named(names)))
		}
	}
	add("down", down, "look at them, and at nova-compute there", "down in Nova: they count for the brake, and take no instances")
	add("forced down", forced, "salvor takes its own back when the host returns; somebody else's: openstack compute service set --up HOST nova-compute", "forced down in Nova: they take no instances")
	add("deleted", gone, "if they are scrapped: openstack compute service delete SERVICE; if they are to be used: start them, or openstack compute service set --up HOST nova-compute",
		"forced down in Nova by salvor, and deleted from salvor since: it looks each minute whether they are back, and takes that back then")
	add("disabled", disabled, "openstack compute service set --enable HOST nova-compute", "disabled in Nova: they take no instances")
	add("disabled by salvor", ours, lookAtStorage("HOST"), "disabled in Nova by salvor, for their storage: they take no instances until their episodes are cleared")
	over := "look at the host; when it is over: salvor host update HOST --on-maintenance=false"
	add("on maintenance", operators, over, "on maintenance, by an operator or by Masakari before an import: reports of them are refused, and nobody recovers them")
	add("recovered", recovered, over, "on maintenance by salvor, by a recovery or a failure of their nova-compute: reports of them are taken, and they get no instances while they are disabled in Nova")
	add("on maintenance, in a segment that was not looked over", kept, over, "on maintenance, by a recovery, or by an operator (then reports of them are refused, and nobody recovers them)")
	if good > 0 {
		out = append(out, subject{CheckHosts, ""}.ok("%d of %d are up, under the names that Nova has", good, len(f.hosts.value)))
	}
	return out
}

// byOperator reports whether it is an operator who has put the host on maintenance, and whether that is known: of a disabled segment, or
// one that could not be looked over, it is not.
func (f *facts) byOperator(h ha.Host) (operator, sure bool) {
	for _, p := range f.outlooks[h.SegmentUUID].value.Peers {
		if p.UUID == h.UUID {
			return p.Operator, true
		}
	}
	return false, false
}

// bySalvor reports whether salvor itself disabled the service, for the host's storage: whoever enables it has Nova schedule onto a disk that failed.
func bySalvor(svc ha.Service) bool {
	return !svc.Enabled && strings.HasPrefix(svc.DisabledReason, "salvor")
}

// lookAtStorage is the mend for a host that salvor has disabled.
func lookAtStorage(host string) string {
	return "salvor host health " + host + ": what failed there; when it is repaired: salvor host clear " + host + " --reason TEXT, and salvor enables it"
}

// unknownHost says which of Nova's hosts is probably meant.
func unknownHost(h ha.Host, segment string, computes map[string]ha.Service) Check {
	s := subject{CheckHosts, h.Name}
	var near []string
	for name := range computes {
		// As for fencing: two full names of different domains are different hosts.
		sameShort := short(name) == short(h.Name) && (short(name) == strings.ToLower(name) || short(h.Name) == strings.ToLower(h.Name))
		if strings.EqualFold(name, h.Name) || sameShort {
			near = append(near, name)
		}
	}
	text := fmt.Sprintf("host %s of segment %s is not known to Nova", h.Name, segment)
	switch len(near) {
	case 0:
		return s.fail("salvor host delete "+h.Name+", or correct its name: salvor host update "+h.Name+" --name NAME (openstack compute service list)",
			"%s: nothing of it can be recovered", text)
	case 1:
		return s.fail("salvor host update "+h.Name+" --name "+near[0]+", and let its monitor report that name ([DEFAULT] host there)",
			"%s; Nova has %s: nothing of it can be recovered", text, near[0])
	default:
		return s.fail("salvor host update "+h.Name+" --name NAME", "%s; Nova has %s", text, named(near))
	}
}

func short(name string) string {
	first, _, _ := strings.Cut(strings.ToLower(name), ".")
	return first
}

// judgeReserved looks at each spare as a recovery would.
func (f *facts) judgeReserved() []Check {
	if !f.hosts.good() || !f.services.good() || !f.segments.good() {
		return nil
	}
	computes := f.computes()
	var out []Check
	usable := map[string]int{} // by segment
	for _, h := range f.hosts.value {
		svc, known := computes[h.Name]
		if !h.Reserved || !known {
			continue
		}
		s := subject{CheckReserved, h.Name}
		switch {
		case h.OnMaintenance:
			out = append(out, s.warn("salvor host update "+h.Name+" --on-maintenance=false, when it is over", "reserved host %s is on maintenance: recoveries pass it over", h.Name))
		case svc.ForcedDown || !svc.Up:
			out = append(out, s.fail("start it, and nova-compute there", "reserved host %s is down: recoveries pass it over", h.Name))
		case svc.Enabled:
			usable[h.SegmentUUID]++
			out = append(out, s.warn("openstack compute service set --disable "+h.Name+" nova-compute",
				"reserved host %s is enabled in Nova: the scheduler fills it, and in need it has no room", h.Name))
		case bySalvor(svc):
			out = append(out, s.fail(lookAtStorage(h.Name), "reserved host %s is disabled by salvor, for its storage: recoveries pass it over", h.Name))
		case svc.DisabledReason != "":
			usable[h.SegmentUUID]++
			out = append(out, s.warn("if it must not be used: salvor host update "+h.Name+" --on-maintenance=true, or --reserved=false",
				"reserved host %s is disabled in Nova, with the reason %q: a recovery enables it all the same", h.Name, svc.DisabledReason))
		default:
			usable[h.SegmentUUID]++
			out = append(out, s.ok("reserved host %s is up and disabled, as it should be: a recovery enables it", h.Name))
		}
	}
	for _, seg := range f.segments.value {
		if !seg.Enabled || usable[seg.UUID] > 0 || !slices.Contains(seg.RecoveryMethod.Passes(), ha.PassReserved) {
			continue
		}
		s := subject{CheckReserved, "segment " + seg.Name}
		do := "salvor host create HOST --segment " + seg.Name + " --reserved, or another --recovery-method"
		if seg.RecoveryMethod == ha.MethodReservedHost {
			out = append(out, s.fail(do, "segment %s recovers onto reserved hosts only, and none can be used: its recoveries would wait", seg.Name))
		} else {
			out = append(out, s.warn(do, "segment %s (%s) has no reserved host that can be used", seg.Name, seg.RecoveryMethod))
		}
	}
	return out
}
