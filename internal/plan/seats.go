package plan

import (
	"slices"
	"strings"

	"github.com/salvor-ha/salvor/internal/ha"
)

// seats gives the instances of a rehearsal their places, in the order in which they would be ordered: what one takes of a host the
// next does not have.
type seats struct {
	t     *turn
	rooms map[ha.Needs]Room
	used  map[string]map[string]int64 // by host and resource class
	deaf  []string                    // why Placement could not be asked
}

// seat walks the instance through the passes of the segment's method, as a recovery does.
func (b *seats) seat(m *ha.VMove, p *ha.Prospect) {
	t := b.t
	room, asked := b.rooms[p.Server.Needs]
	p.Asked = asked && room.Err == ""
	if asked && !p.Asked && !slices.Contains(b.deaf, room.Err) {
		b.deaf = append(b.deaf, room.Err)
	}
	var lacks []ha.Finding
	for on := true; on; {
		pass := m.Pass
		var why ha.Finding
		if p.Pass = t.pass(m); p.Pass == ha.PassReserved {
			why = b.reserved(m, p) // moves on to the next pass itself, or waits
		} else {
			why = b.auto(p)
		}
		if p.Choices > 0 {
			p.Protected = true
			b.take(p)
			return
		}
		lacks = append(lacks, why)
		on = m.Pass != pass || m.NotBefore == nil && t.nextPass(m)
	}
	all := lacks[0]
	for _, l := range lacks[1:] {
		all.Text += "; " + l.Text
		all.Fix += "; or " + l.Fix
	}
	p.Why = &all
}

// auto finds the host with the most room among those that Nova may choose.
func (b *seats) auto(p *ha.Prospect) ha.Finding {
	open := b.t.room()
	p.Target, p.Choices = "", 0
	if !p.Asked {
		p.Choices = len(open)
		if len(open) > 0 {
			return ha.Finding{}
		}
		return b.nobody()
	}
	var most int64
	for _, h := range open {
		left, fits := b.left(h, p.Server.Needs)
		if !fits {
			continue
		}
		p.Choices++
		if p.Target == "" || left > most {
			p.Target, most = h, left
		}
	}
	switch {
	case p.Target != "":
		return ha.Finding{}
	case len(open) == 0:
		return b.nobody()
	}
	why := finding(ha.FindingNoValidHost, "free or add capacity",
		"no valid host: none of the %d enabled hosts that are up has room for %s", len(open), p.Server.Needs.Resources)
	if p.Server.Needs.Traits != "" {
		why.Text += " with " + p.Server.Needs.Traits
	}
	if shut := b.shut(func(h string) bool { _, fits := b.left(h, p.Server.Needs); return fits }); len(shut) > 0 {
		why.Fix += ": " + strings.Join(shut, ", ")
	}
	return why
}

// nobody is the lack of any other host.
func (b *seats) nobody() ha.Finding {
	why := finding(ha.FindingNoHost, "add a host", "no other host in the cloud is enabled and up")
	if shut := b.shut(func(string) bool { return true }); len(shut) > 0 {
		why.Fix = strings.Join(shut, ", ")
	}
	return why
}

// shut says how the first few hosts that cannot be chosen could be.
func (b *seats) shut(which func(host string) bool) []string {
	var out []string
	for _, s := range b.t.Facts.Services.Value {
		if s.Binary != ha.BinaryCompute || s.Host == b.t.Unit.Host.Name || s.Up && s.Enabled || !which(s.Host) {
			continue
		}
		if len(out) == 3 {
			return append(out, "…")
		}
		if s.Up {
			out = append(out, "enable "+s.Host)
		} else {
			out = append(out, "start "+s.Host)
		}
	}
	return out
}

// reserved asks the recovery's own choice for spares until one has room.
func (b *seats) reserved(m *ha.VMove, p *ha.Prospect) ha.Finding {
	t := b.t
	p.Target, p.Choices = "", 0
	var full []string
	for {
		name, _ := t.target(m)
		if name == "" {
			break
		}
		if _, fits := b.left(name, p.Server.Needs); !p.Asked || fits {
			p.Target, p.Choices = name, 1
			return ha.Finding{}
		}
		full = append(full, name)
		m.RefusedBy = name
	}
	why := ha.Finding{Rule: ha.FindingNoReserved, Text: "no reserved host is left"}
	var reasons, fixes []string
	for _, peer := range t.sparesByAge() {
		if !t.spare(peer) {
			continue
		}
		_, bad := t.unfit(peer)
		switch {
		case bad == "" && slices.Contains(full, peer.Name):
			bad = "has no room for " + p.Server.Needs.Resources
		case peer.OnMaintenance:
			fixes = append(fixes, "salvor host update "+peer.Name+" --on-maintenance=false")
		case bad == "down":
			fixes = append(fixes, "start "+peer.Name)
		}
		reasons = append(reasons, peer.Name+" "+bad)
	}
	if len(reasons) > 0 {
		why.Text += ": " + strings.Join(reasons, ", ")
	} else {
		why.Text = "segment " + t.Unit.Segment.Name + " has no reserved host"
	}
	why.Fix = strings.Join(append(fixes, "salvor host create NAME --segment "+t.Unit.Segment.Name+" --reserved"), "; or ")
	return why
}

// left is how much the scarcest class of the needs would still have on the host, in instances of this kind.
func (b *seats) left(host string, n ha.Needs) (times int64, fits bool) {
	for _, r := range b.rooms[n].Hosts {
		if r.Host != host {
			continue
		}
		times = -1
		for class, amount := range n.Amounts() {
			k := (r.Free[class] - b.used[host][class]) / amount
			if times < 0 || k < times {
				times = k
			}
		}
		return times, times > 0
	}
	return 0, false
}

// take books what the instance needs on its target.
func (b *seats) take(p *ha.Prospect) {
	if p.Target == "" {
		return
	}
	if b.used[p.Target] == nil {
		b.used[p.Target] = map[string]int64{}
	}
	for class, amount := range p.Server.Needs.Amounts() {
		b.used[p.Target][class] += amount
	}
}

// sameShort reports whether two hosts' names are the same but for case or domain.
func sameShort(a, b string) bool {
	shortA, _, longA := strings.Cut(a, ".")
	shortB, _, longB := strings.Cut(b, ".")
	return strings.EqualFold(a, b) || longA != longB && strings.EqualFold(shortA, shortB)
}
