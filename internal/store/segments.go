package store

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

type segmentRow struct {
	bun.BaseModel `bun:"table:failover_segments,alias:t"`
	common
	UUID           string  `bun:"uuid"`
	Name           string  `bun:"name"`
	ServiceType    string  `bun:"service_type"`
	Description    *string `bun:"description"`
	RecoveryMethod string  `bun:"recovery_method"`
	Enabled        *bool   `bun:"enabled"` // NULL, in rows from before the column, is true (contract section 7)
	NameKey        string  `bun:"name_key"`
	TrustReports   *bool   `bun:"trust_reports"`
	Touch          int64   `bun:"touch"`
}

func (r segmentRow) segment() ha.Segment {
	return ha.Segment{
		Stamps: r.stamps(), ID: r.ID, UUID: r.UUID, Name: r.Name, ServiceType: r.ServiceType, Description: r.Description,
		RecoveryMethod: ha.Method(r.RecoveryMethod), Enabled: r.Enabled == nil || *r.Enabled, TrustReports: r.TrustReports, Touch: r.Touch,
	}
}

func rowOfSegment(s ha.Segment) segmentRow {
	return segmentRow{
		UUID: s.UUID, Name: s.Name, ServiceType: s.ServiceType, Description: s.Description, RecoveryMethod: string(s.RecoveryMethod),
		Enabled: &s.Enabled, NameKey: rules.Fold(s.Name), TrustReports: s.TrustReports,
	}
}

func readSegment(c *columns) ha.Segment {
	s := ha.Segment{}
	s.ID, s.Stamps = c.stamps()
	s.UUID, s.Name, s.ServiceType, s.Description, s.RecoveryMethod = c.text(), c.text(), c.text(), c.textOrNull(), ha.Method(c.text())
	enabled := c.flagOrNull()
	s.Enabled, s.TrustReports, s.Touch = enabled == nil || *enabled, c.flagOrNull(), c.number()
	return s
}

var segmentList = list[ha.Segment]{
	table:  "failover_segments",
	names:  stampNames + ", uuid, name, service_type, description, recovery_method, enabled, trust_reports, touch",
	read:   readSegment,
	fields: rules.SegmentField,
	uuid:   "uuid",
	byTime: []string{"segments_list_idx"},
	columns: map[ha.Field]column{
		ha.FieldName: {name: "name"}, ha.FieldServiceType: {name: "service_type"}, ha.FieldDescription: {name: "description", null: true},
		ha.FieldRecoveryMethod: {name: "recovery_method"}, ha.FieldEnabled: {name: "COALESCE(enabled, TRUE)"},
	},
}

// Segments lists live segments.
func (s *Store) Segments(ctx context.Context, f ha.SegmentFilter, p ha.Page) ([]ha.Segment, error) {
	return segmentList.page(ctx, s, "listing segments", p, true, func(q *question) {
		q.equal("recovery_method", f.RecoveryMethod)
		q.equal("service_type", f.ServiceType)
		if f.Enabled != nil {
			q.and("COALESCE(enabled, TRUE) = ?", *f.Enabled)
		}
	})
}

// Segment returns a live segment.
func (s *Store) Segment(ctx context.Context, uuid string) (ha.Segment, error) {
	found, err := segmentList.show(ctx, s, "reading a segment", "uuid = ? AND deleted = 0", uuid)
	switch {
	case err != nil:
		return ha.Segment{}, err
	case found == nil:
		return ha.Segment{}, &ha.NotFoundError{Kind: ha.KindSegment, ID: uuid}
	default:
		return *found, nil
	}
}

// CreateSegment stores s. One with its uuid that is already there is the caller's own, whose answer was lost.
func (s *Store) CreateSegment(ctx context.Context, seg ha.Segment) (ha.Segment, error) {
	var row segmentRow
	err := s.write(ctx, "creating a segment", func(ctx context.Context, tx bun.Tx) error {
		row = rowOfSegment(seg)
		now, err := s.clock(ctx, tx)
		if err != nil {
			return err
		}
		row.CreatedAt = stamp{rules.Second(now)}
		if _, err = tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		made := row.segment()
		return s.tell(ctx, tx, now, rules.Around(ha.Event{Action: ha.ActionCreate, Segment: &made})...)
	}, func(ctx context.Context) (bool, error) {
		_, err := s.Segment(ctx, seg.UUID)
		return err == nil, err
	})
	if s.duplicate(err) {
		if own, oerr := s.Segment(ctx, seg.UUID); oerr == nil {
			return own, nil
		}
		err = &ha.ExistsError{Kind: ha.KindSegment, Name: seg.Name}
	}
	if s.told(err) != nil {
		return ha.Segment{}, s.tellFailed(ctx, ha.Event{Action: ha.ActionCreate, Segment: &seg}, err)
	}
	return row.segment(), nil
}

// UpdateSegment changes a live segment that no open notification of its hosts keeps in use (contract 1.7).
func (s *Store) UpdateSegment(ctx context.Context, uuid string, p ha.SegmentPatch) (ha.Segment, error) {
	var seg ha.Segment
	err := s.write(ctx, "updating a segment", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.touchSegment(ctx, tx, uuid)
		if err != nil {
			return err
		}
		if err := s.segmentUnused(ctx, tx, uuid); err != nil {
			return err
		}
		seg = row.segment()
		written := rules.PatchSegment(&seg, p)
		if !written && s.announce == nil {
			return nil
		}
		now, err := s.clock(ctx, tx)
		if err != nil {
			return err
		}
		tell := func() error {
			return s.tell(ctx, tx, now, rules.Around(ha.Event{Action: ha.ActionUpdate, Segment: &seg})...)
		}
		if !written { // told of all the same, as Masakari does
			return tell()
		}
		second := rules.Second(now)
		seg.UpdatedAt = &second
		next := rowOfSegment(seg)
		if _, err = changed(ctx, tx, "UPDATE failover_segments SET name = ?, name_key = ?, service_type = ?, description = ?, "+
			"recovery_method = ?, enabled = ?, updated_at = ? WHERE id = ?", next.Name, next.NameKey, next.ServiceType,
			next.Description, next.RecoveryMethod, seg.Enabled, literal(second), row.ID); err != nil {
			return err
		}
		return tell()
	}, nil)
	if s.duplicate(err) {
		err = &ha.ExistsError{Kind: ha.KindSegment, Name: seg.Name}
	}
	if s.told(err) != nil {
		return ha.Segment{}, s.tellFailed(ctx, ha.Event{Action: ha.ActionUpdate, Segment: &seg}, err)
	}
	return seg, nil
}

// DeleteSegment soft-deletes a segment that is not in use, and its hosts with it (contract 1.7).
func (s *Store) DeleteSegment(ctx context.Context, uuid string) error {
	var seg ha.Segment
	err := s.write(ctx, "deleting a segment", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.touchSegment(ctx, tx, uuid)
		if err != nil {
			return err
		}
		// Admission touches the host: one that is under way is waited for, a later one finds no host.
		if _, err := changed(ctx, tx, "UPDATE hosts SET touch = touch + 1 WHERE failover_segment_id = ? AND deleted = 0", uuid); err != nil {
			return err
		}
		if err := s.segmentUnused(ctx, tx, uuid); err != nil {
			return err
		}
		if err := s.leaveBehind(ctx, tx, uuid, "failover_segment_id = ? AND h.deleted = 0", uuid); err != nil {
			return err
		}
		now, err := s.clock(ctx, tx)
		if err != nil {
			return err
		}
		at := literal(rules.Second(now))
		if _, err := changed(ctx, tx, "UPDATE hosts SET deleted = id, deleted_at = ? WHERE failover_segment_id = ? AND deleted = 0", at, uuid); err != nil {
			return err
		}
		if _, err = changed(ctx, tx, "UPDATE failover_segments SET deleted = id, deleted_at = ? WHERE id = ?", at, row.ID); err != nil {
			return err
		}
		seg = row.segment()
		return s.tell(ctx, tx, now, rules.Around(ha.Event{Action: ha.ActionDelete, Segment: &seg})...)
	}, nil)
	return s.told(err)
}

// touchSegment is how a decision about a segment begins: its row is moved, then read.
func (s *Store) touchSegment(ctx context.Context, tx bun.Tx, uuid string) (*segmentRow, error) {
	missing := &ha.NotFoundError{Kind: ha.KindSegment, ID: uuid}
	if !rules.Storable(uuid) {
		return nil, missing
	}
	n, err := changed(ctx, tx, "UPDATE failover_segments SET touch = touch + 1 WHERE uuid = ? AND deleted = 0", uuid)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, missing
	}
	return one[segmentRow](ctx, tx, "uuid = ? AND deleted = 0", uuid)
}

// segmentUnused refuses a change of a segment while a live host of it has an open notification.
func (s *Store) segmentUnused(ctx context.Context, tx bun.Tx, uuid string) error {
	by, err := one[notificationRow](ctx, tx, openStatus+" AND source_host_uuid IN (SELECT uuid FROM hosts WHERE failover_segment_id = ? AND deleted = 0)", uuid)
	if err != nil {
		return err
	}
	if by != nil {
		return &ha.InUseError{Kind: ha.KindSegment, ID: uuid, By: by.UUID}
	}
	return nil
}
