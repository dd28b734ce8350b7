package service

import (
	"context"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Hosts lists a page of a segment's hosts, and the segment. NotFoundError of the segment, MarkerError.
func (s *Service) Hosts(ctx context.Context, segment string, f ha.HostFilter, p ha.Page) ([]ha.Host, ha.Segment, error) {
	seg, err := s.Segment(ctx, segment)
	if err != nil {
		return nil, ha.Segment{}, err
	}
	f.SegmentUUID = seg.UUID
	hosts, err := s.store.Hosts(ctx, f, p)
	return hosts, seg, err
}

// Host shows a host and its segment. An id that cannot be a uuid is a NotFoundError by itself; a pair that is not there
// is one that names both, and the segment alone is never looked up (contract 1.8).
func (s *Service) Host(ctx context.Context, segment, id string) (ha.Host, ha.Segment, error) {
	if _, err := canonical(ha.KindHost, id); err != nil {
		return ha.Host{}, ha.Segment{}, err
	}
	seg, uuid, err := hostPair(segment, id)
	if err != nil {
		return ha.Host{}, ha.Segment{}, err
	}
	h, err := s.store.Host(ctx, seg, uuid)
	return s.withSegment(ctx, h, err)
}

// CreateHost stores a host of the segment, after Nova has said that it has a compute service of that name, whatever its
// state. NotFoundError of the segment or of the compute service, CloudError, ExistsError.
func (s *Service) CreateHost(ctx context.Context, segment string, h ha.Host) (ha.Host, ha.Segment, error) {
	seg, err := s.Segment(ctx, segment)
	if err != nil {
		return ha.Host{}, ha.Segment{}, err
	}
	if err := s.checkCompute(ctx, h.Name); err != nil {
		return ha.Host{}, ha.Segment{}, err
	}
	h.UUID, h.SegmentUUID = newUUID(), seg.UUID
	h, err = s.store.CreateHost(ctx, h)
	return h, seg, err
}

// UpdateHost changes what the patch names. NotFoundError, InUseError; when a name is given, even the present one, Nova is
// asked as for CreateHost, after the host was found and is not in use; ExistsError.
func (s *Service) UpdateHost(ctx context.Context, segment, id string, p ha.HostPatch) (ha.Host, ha.Segment, error) {
	seg, uuid, err := hostPair(segment, id)
	if err != nil {
		return ha.Host{}, ha.Segment{}, err
	}
	if p.Name != nil {
		if err := s.checkUnused(ctx, seg, uuid); err != nil {
			return ha.Host{}, ha.Segment{}, err
		}
		if err := s.checkCompute(ctx, *p.Name); err != nil {
			return ha.Host{}, ha.Segment{}, err
		}
	}
	h, err := s.store.UpdateHost(ctx, seg, uuid, p)
	if err == nil && p.OnMaintenance != nil {
		s.cfg.Poke() // cleared maintenance wakes the take-back (RECOVERY section 7)
	}
	return s.withSegment(ctx, h, err)
}

// checkUnused looks whether a host is there and not in use, so that Nova is not asked in vain. It only reads: the store
// decides, in the transaction of the change.
func (s *Service) checkUnused(ctx context.Context, segment, uuid string) error {
	h, err := s.store.Host(ctx, segment, uuid)
	if err != nil {
		return err
	}
	if h.ReservedFor != 0 {
		return &ha.InUseError{Kind: ha.KindHost, ID: uuid}
	}
	for _, status := range []ha.Status{ha.StatusNew, ha.StatusRunning, ha.StatusError} {
		word := string(status)
		open, err := s.store.Notifications(ctx, ha.NotificationFilter{SourceHostUUID: &uuid, Status: &word},
			ha.Page{Limit: 1, Sort: []ha.Sort{{Field: ha.FieldID, Desc: true}}})
		if err != nil {
			return err
		}
		if len(open) > 0 {
			return &ha.InUseError{Kind: ha.KindHost, ID: uuid, By: open[0].UUID}
		}
	}
	return nil
}

// DeleteHost deletes a host. NotFoundError, InUseError.
func (s *Service) DeleteHost(ctx context.Context, segment, id string) error {
	seg, uuid, err := hostPair(segment, id)
	if err != nil {
		return err
	}
	return s.store.DeleteHost(ctx, seg, uuid)
}

func (s *Service) withSegment(ctx context.Context, h ha.Host, err error) (ha.Host, ha.Segment, error) {
	if err != nil {
		return ha.Host{}, ha.Segment{}, err
	}
	seg, err := s.store.Segment(ctx, h.SegmentUUID)
	return h, seg, err
}

func (s *Service) checkCompute(ctx context.Context, name string) error {
	found, err := s.compute.HasComputeService(ctx, name)
	if err != nil {
		return err
	}
	if !found {
		return &ha.NotFoundError{Kind: ha.KindCompute, ID: name}
	}
	return nil
}

// hostPair returns the stored spelling of a segment's and a host's uuid, looked up together.
func hostPair(segment, id string) (seg, uuid string, err error) {
	seg, okSeg := ha.CanonicalUUID(segment)
	uuid, okHost := ha.CanonicalUUID(id)
	if !okSeg || !okHost {
		return "", "", &ha.NotFoundError{Kind: ha.KindHost, ID: id, Under: segment}
	}
	return seg, uuid, nil
}
