package wire

import "github.com/salvor-ha/salvor/internal/ha"

// Host is a host in a response, with its whole segment (contract 1.8).
type Host struct {
	ID                int64   `json:"id"`
	UUID              string  `json:"uuid"`
	Name              string  `json:"name"`
	FailoverSegmentID string  `json:"failover_segment_id"`
	FailoverSegment   Segment `json:"failover_segment"`
	Type              string  `json:"type"`
	Reserved          bool    `json:"reserved"`
	ControlAttributes string  `json:"control_attributes"`
	OnMaintenance     bool    `json:"on_maintenance"`
	Stamps
}

// HostBody and HostList are the response bodies.
type (
	HostBody struct {
		Host Host `json:"host"`
	}
	HostList struct {
		Hosts []Host `json:"hosts"`
	}
)

// NewHost renders h, which belongs to s.
func NewHost(h ha.Host, s ha.Segment) Host {
	return Host{
		ID: h.ID, UUID: h.UUID, Name: h.Name, FailoverSegmentID: s.UUID, FailoverSegment: NewSegment(s), Type: h.Type,
		Reserved: h.Reserved, ControlAttributes: h.ControlAttributes, OnMaintenance: h.OnMaintenance, Stamps: stamps(h.Stamps),
	}
}

// NewHostList renders a page of hosts, all of s.
func NewHostList(hosts []ha.Host, s ha.Segment) HostList {
	list := make([]Host, len(hosts))
	for i, h := range hosts {
		list[i] = NewHost(h, s)
	}
	return HostList{list}
}

var hostProperties = []property{
	{"name", nameRule},
	{"type", all(typed("string", "null"), notNull, length(0, 255), matching(`^[a-zA-Z0-9]*$`))},
	{"control_attributes", all(descriptionRule, notNull)},
	{"reserved", booleanRule},
	{"on_maintenance", booleanRule},
}

var (
	hostCreateRule = wrapped("host", shape{properties: hostProperties, required: []string{"name", "type", "control_attributes"}}.rule())
	hostUpdateRule = wrapped("host", shape{properties: hostProperties, any: true}.rule())
)

// HostCreate reads the body of POST hosts. The segment is the URL's.
func (b Body) HostCreate() (ha.Host, error) {
	p, err := b.host(hostCreateRule)
	if err != nil {
		return ha.Host{}, err
	}
	h := ha.Host{Name: *p.Name, Type: *p.Type, ControlAttributes: *p.ControlAttributes}
	if p.Reserved != nil {
		h.Reserved = *p.Reserved
	}
	if p.OnMaintenance != nil {
		h.OnMaintenance = *p.OnMaintenance
	}
	return h, nil
}

// HostUpdate reads the body of PUT hosts/{uuid}.
func (b Body) HostUpdate() (ha.HostPatch, error) { return b.host(hostUpdateRule) }

func (b Body) host(r rule) (ha.HostPatch, error) {
	o, err := b.check("host", r)
	if err != nil {
		return ha.HostPatch{}, err
	}
	return ha.HostPatch{
		Name: o.text("name"), Type: o.text("type"), ControlAttributes: o.text("control_attributes"),
		Reserved: o.flag("reserved"), OnMaintenance: o.flag("on_maintenance"),
	}, nil
}
