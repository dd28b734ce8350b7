package api

import (
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/wire"
)

// listCoverage shows one host's, one instance's, or a page of all.
func listCoverage(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.ExtRule("coverage", "index")); err != nil {
		return nil, err
	}
	q, err := a.list(c).Coverage()
	if err != nil {
		return nil, err
	}
	switch {
	case q.Host != "":
		h, err := a.service.CoverageOfHost(c.ctx, q.Host)
		return wire.NewCoverage([]ha.HostProspect{h}, ""), err
	case q.Instance != "":
		h, err := a.service.CoverageOfInstance(c.ctx, q.Instance)
		return wire.NewCoverage([]ha.HostProspect{h}, ""), err
	}
	hosts, next, err := a.service.Coverage(c.ctx, q.Marker, q.Limit)
	return wire.NewCoverage(hosts, next), err
}

func showPlan(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.ExtRule("hosts", "plan")); err != nil {
		return nil, err
	}
	h, e, err := a.service.Plan(c.ctx, c.params["host"])
	return wire.NewPlan(h, e), err
}
