package api

import (
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/wire"
)

func listEngines(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.ExtRule("engines", "index")); err != nil {
		return nil, err
	}
	states, err := a.service.Engines(c.ctx)
	return wire.NewEngines(states), err
}

func listPauses(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.ExtRule("pauses", "index")); err != nil {
		return nil, err
	}
	return a.pauses(c)
}

func (a *api) pauses(c *call) (any, error) {
	pauses, err := a.service.Pauses(c.ctx)
	return wire.NewPauses(pauses), err
}

// pauseOrResume pauses or resumes the segment in the path, without one everything, and shows what then is paused.
func pauseOrResume(a *api, c *call) (any, error) {
	order, err := c.body.OrderOf(c.op.Action)
	if err != nil {
		return nil, err
	}
	if err := a.allow(c, policy.ExtRule("pauses", c.op.Action)); err != nil {
		return nil, err
	}
	segment := c.params["segment_id"]
	if c.op.Action == "pause" {
		err = a.service.Pause(c.ctx, ha.Pause{Segment: segment, By: c.user.Name(), Reason: order.Reason, Until: order.Until})
	} else {
		err = a.service.Resume(c.ctx, segment, c.user.Name())
	}
	if err != nil {
		return nil, err
	}
	return a.pauses(c)
}
