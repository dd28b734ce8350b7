package memstore

import (
	"context"
	"strings"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// Segments lists live segments.
func (s *Store) Segments(ctx context.Context, f ha.SegmentFilter, p ha.Page) (page []ha.Segment, err error) {
	err = s.run(ctx, "Segments", func(*tx) error {
		var all []ha.Segment
		var mark *ha.Segment
		for _, seg := range s.segmentNames {
			if marks(p.Marker, seg.ID, seg.UUID) {
				m := seg.Segment
				mark = &m
			}
			if is(f.RecoveryMethod, string(seg.RecoveryMethod)) && is(f.ServiceType, seg.ServiceType) && is(f.Enabled, seg.Enabled) {
				all = append(all, seg.Segment)
			}
		}
		page, err = cut(all, rules.SegmentField, p, mark)
		return err
	})
	return page, err
}

// is reports whether a filter lets v pass.
func is[T comparable](want *T, v T) bool { return want == nil || *want == v }

// marks reports whether a marker names the row.
func marks(marker string, id int64, uuid string) bool {
	if marker == "" {
		return false
	}
	if n, ok := rules.MarkerID(marker); ok {
		return n == id
	}
	return strings.ToLower(marker) == uuid
}

func cut[T any](all []T, fields rules.Fields[T], p ha.Page, mark *T) ([]T, error) {
	if p.Marker != "" && mark == nil {
		return nil, &ha.MarkerError{Marker: p.Marker}
	}
	return rules.Cut(all, fields, p, mark)
}

func (t *tx) segment(uuid string) (*segment, error) {
	if seg := t.segments[uuid]; seg != nil && seg.deletedAt == nil {
		return seg, nil
	}
	return nil, &ha.NotFoundError{Kind: ha.KindSegment, ID: uuid}
}

// Segment returns a live segment.
func (s *Store) Segment(ctx context.Context, uuid string) (found ha.Segment, err error) {
	err = s.run(ctx, "Segment", func(t *tx) error {
		seg, err := t.segment(uuid)
		if err == nil {
			found = seg.Segment
		}
		return err
	})
	return found, err
}

// CreateSegment stores seg.
func (s *Store) CreateSegment(ctx context.Context, seg ha.Segment) (made ha.Segment, err error) {
	err = s.run(ctx, "CreateSegment", func(t *tx) error {
		if own := t.segments[seg.UUID]; own != nil && own.deletedAt == nil {
			made = own.Segment
			return nil
		}
		name := rules.Fold(seg.Name)
		if t.segmentNames[name] != nil {
			return &ha.ExistsError{Kind: ha.KindSegment, Name: seg.Name}
		}
		seg.ID, seg.Stamps, seg.Touch = t.id(), ha.Stamps{CreatedAt: rules.Second(t.now)}, 0
		row := &segment{Segment: seg}
		t.segments[seg.UUID], t.segmentNames[name] = row, row
		made = seg
		t.tell(rules.Around(ha.Event{Action: ha.ActionCreate, Segment: &made})...)
		return nil
	})
	if err != nil {
		return ha.Segment{}, s.tellFailed(ha.Event{Action: ha.ActionCreate, Segment: &seg}, err)
	}
	return made, s.told(nil)
}

// UpdateSegment changes a live segment that is not in use.
func (s *Store) UpdateSegment(ctx context.Context, uuid string, p ha.SegmentPatch) (seg ha.Segment, err error) {
	err = s.run(ctx, "UpdateSegment", func(t *tx) error {
		row, err := t.segment(uuid)
		if err != nil {
			return err
		}
		if err := t.segmentUnused(uuid); err != nil {
			return err
		}
		seg = row.Segment
		changed := rules.PatchSegment(&seg, p)
		seg.Touch++
		if changed {
			name := rules.Fold(seg.Name)
			if other := t.segmentNames[name]; other != nil && other != row {
				return &ha.ExistsError{Kind: ha.KindSegment, Name: seg.Name}
			}
			seg.UpdatedAt = second(t.now)
			delete(t.segmentNames, rules.Fold(row.Name))
			t.segmentNames[name] = row
		}
		row.Segment = seg
		t.tell(rules.Around(ha.Event{Action: ha.ActionUpdate, Segment: &seg})...)
		return nil
	})
	if err != nil {
		return ha.Segment{}, s.tellFailed(ha.Event{Action: ha.ActionUpdate, Segment: &seg}, err)
	}
	return seg, s.told(nil)
}

// DeleteSegment soft-deletes a segment that is not in use, and its hosts with it.
func (s *Store) DeleteSegment(ctx context.Context, uuid string) error {
	err := s.run(ctx, "DeleteSegment", func(t *tx) error {
		row, err := t.segment(uuid)
		if err != nil {
			return err
		}
		if err := t.segmentUnused(uuid); err != nil {
			return err
		}
		for _, h := range t.hostsOf[uuid] {
			t.deleteHost(h)
		}
		row.deletedAt = second(t.now)
		delete(t.segmentNames, rules.Fold(row.Name))
		t.tell(rules.Around(ha.Event{Action: ha.ActionDelete, Segment: &row.Segment})...)
		return nil
	})
	return s.told(err)
}

// deleteHost deletes a host, if that has not been done; what salvor holds of it in Nova is taken back, or told, by its take-back.
func (t *tx) deleteHost(h *host) {
	if h.deletedAt != nil {
		return
	}
	h.deletedAt = second(t.now)
	delete(t.hostNames, rules.Fold(h.Name))
	if len(t.held(func(of *host) bool { return of == h })) > 0 {
		t.startTakeBack(h.Host)
		t.signal(ha.UnitTakeBack.Key(h.UUID))
	}
}

func (t *tx) segmentUnused(uuid string) error {
	for _, n := range t.open {
		if h := t.hosts[n.SourceHostUUID]; h != nil && h.deletedAt == nil && h.SegmentUUID == uuid {
			return &ha.InUseError{Kind: ha.KindSegment, ID: uuid, By: n.UUID}
		}
	}
	return nil
}

// touchSegment moves a segment's touch, if it exists.
func (t *tx) touchSegment(uuid string) {
	if seg := t.segments[uuid]; seg != nil {
		seg.Touch++
	}
}
