package wire

import (
	"slices"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Segment is a failover segment in a response (contract 1.7). Its keys do not depend on the microversion.
type Segment struct {
	ID             int64   `json:"id"`
	UUID           string  `json:"uuid"`
	Name           string  `json:"name"`
	ServiceType    string  `json:"service_type"`
	Enabled        bool    `json:"enabled"`
	Description    *string `json:"description"`
	RecoveryMethod string  `json:"recovery_method"`
	Stamps
}

// SegmentBody and SegmentList are the response bodies.
type (
	SegmentBody struct {
		Segment Segment `json:"segment"`
	}
	SegmentList struct {
		Segments []Segment `json:"segments"`
	}
)

// NewSegment renders s.
func NewSegment(s ha.Segment) Segment {
	return Segment{
		ID: s.ID, UUID: s.UUID, Name: s.Name, ServiceType: s.ServiceType, Enabled: s.Enabled, Description: s.Description,
		RecoveryMethod: string(s.RecoveryMethod), Stamps: stamps(s.Stamps),
	}
}

// NewSegmentList renders a page of segments.
func NewSegmentList(segments []ha.Segment) SegmentList {
	list := make([]Segment, len(segments))
	for i, s := range segments {
		list[i] = NewSegment(s)
	}
	return SegmentList{list}
}

var methodRule = func() rule {
	names, values := make([]string, len(ha.Methods)), make([]any, len(ha.Methods))
	for i, m := range ha.Methods {
		names[i], values[i] = string(m), string(m)
	}
	return all(typed("string"), oneOf(pythonList(names), values...))
}()

var segmentProperties = []property{
	{"name", nameRule},
	{"description", descriptionRule},
	{"recovery_method", methodRule},
	{"service_type", nameRule},
}

// segmentRule gives the rule of a body: create or update, with or without `enabled` (from 1.2).
func segmentRule(update bool, v Version) rule {
	s := shape{properties: segmentProperties, any: update}
	if !update {
		s.required = []string{"name", "recovery_method", "service_type"}
	}
	if v.AtLeast(EnabledSince) {
		s.properties = slices.Concat(segmentProperties, []property{{"enabled", booleanRule}})
	}
	return wrapped("segment", s.rule())
}

// SegmentCreate reads the body of POST segments.
func (b Body) SegmentCreate(v Version) (ha.Segment, error) {
	p, err := b.segment(false, v)
	if err != nil {
		return ha.Segment{}, err
	}
	s := ha.Segment{Name: *p.Name, ServiceType: *p.ServiceType, RecoveryMethod: *p.RecoveryMethod, Enabled: true}
	if p.Description != nil {
		s.Description = *p.Description
	}
	if p.Enabled != nil {
		s.Enabled = *p.Enabled
	}
	return s, nil
}

// SegmentUpdate reads the body of PUT segments/{uuid}.
func (b Body) SegmentUpdate(v Version) (ha.SegmentPatch, error) { return b.segment(true, v) }

func (b Body) segment(update bool, v Version) (ha.SegmentPatch, error) {
	o, err := b.check("segment", segmentRule(update, v))
	if err != nil {
		return ha.SegmentPatch{}, err
	}
	p := ha.SegmentPatch{Name: o.text("name"), ServiceType: o.text("service_type"), Enabled: o.flag("enabled")}
	if m := o.text("recovery_method"); m != nil {
		method := ha.Method(*m)
		p.RecoveryMethod = &method
	}
	if _, ok := o.get("description"); ok {
		d := o.text("description") // nil when it is null
		p.Description = &d
	}
	return p, nil
}

// text returns a string property, nil when it is absent or null.
func (o *object) text(key string) *string {
	v, _ := o.get(key)
	if s, ok := v.(string); ok {
		return &s
	}
	return nil
}

// flag returns a boolean property in any of its spellings, nil when it is absent.
func (o *object) flag(key string) *bool {
	v, ok := o.get(key)
	if !ok {
		return nil
	}
	b := truth(v)
	return &b
}
