package api

import (
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/wire"
)

func listSegments(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.Rule("segments", "index")); err != nil {
		return nil, err
	}
	filter, page, err := a.list(c).SegmentList()
	if err != nil {
		return nil, err
	}
	segments, err := a.service.Segments(c.ctx, filter, page)
	return wire.NewSegmentList(segments), err
}

func createSegment(a *api, c *call) (any, error) {
	segment, err := c.body.SegmentCreate(c.version)
	if err != nil {
		return nil, err
	}
	if err := a.allow(c, policy.Rule("segments", "create")); err != nil {
		return nil, err
	}
	segment, err = a.service.CreateSegment(c.ctx, segment)
	return wire.SegmentBody{Segment: wire.NewSegment(segment)}, err
}

func showSegment(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.Rule("segments", "detail")); err != nil {
		return nil, err
	}
	segment, err := a.service.Segment(c.ctx, c.params["id"])
	return wire.SegmentBody{Segment: wire.NewSegment(segment)}, err
}

func updateSegment(a *api, c *call) (any, error) {
	patch, err := c.body.SegmentUpdate(c.version)
	if err != nil {
		return nil, err
	}
	if err := a.allow(c, policy.Rule("segments", "update")); err != nil {
		return nil, err
	}
	segment, err := a.service.UpdateSegment(c.ctx, c.params["id"], patch)
	return wire.SegmentBody{Segment: wire.NewSegment(segment)}, err
}

func deleteSegment(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.Rule("segments", "delete")); err != nil {
		return nil, err
	}
	return nil, a.service.DeleteSegment(c.ctx, c.params["id"])
}
