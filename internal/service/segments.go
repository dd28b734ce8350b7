package service

import (
	"context"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Segments lists a page of segments. MarkerError.
func (s *Service) Segments(ctx context.Context, f ha.SegmentFilter, p ha.Page) ([]ha.Segment, error) {
	return s.store.Segments(ctx, f, p)
}

// Segment shows one. NotFoundError.
func (s *Service) Segment(ctx context.Context, id string) (ha.Segment, error) {
	uuid, err := canonical(ha.KindSegment, id)
	if err != nil {
		return ha.Segment{}, err
	}
	return s.store.Segment(ctx, uuid)
}

// CreateSegment stores a segment under a new uuid. ExistsError.
func (s *Service) CreateSegment(ctx context.Context, seg ha.Segment) (ha.Segment, error) {
	seg.UUID = newUUID()
	return s.store.CreateSegment(ctx, seg)
}

// UpdateSegment changes what the patch names. NotFoundError, InUseError, ExistsError.
func (s *Service) UpdateSegment(ctx context.Context, id string, p ha.SegmentPatch) (ha.Segment, error) {
	uuid, err := canonical(ha.KindSegment, id)
	if err != nil {
		return ha.Segment{}, err
	}
	return s.store.UpdateSegment(ctx, uuid, p)
}

// DeleteSegment deletes a segment with its hosts. NotFoundError, InUseError.
func (s *Service) DeleteSegment(ctx context.Context, id string) error {
	uuid, err := canonical(ha.KindSegment, id)
	if err != nil {
		return err
	}
	return s.store.DeleteSegment(ctx, uuid)
}
