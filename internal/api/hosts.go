package api

import (
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/wire"
)

func listHosts(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.Rule("os-hosts", "index")); err != nil {
		return nil, err
	}
	filter, page, err := a.list(c).HostList()
	if err != nil {
		return nil, err
	}
	hosts, segment, err := a.service.Hosts(c.ctx, c.params["segment_id"], filter, page)
	return wire.NewHostList(hosts, segment), err
}

func createHost(a *api, c *call) (any, error) {
	host, err := c.body.HostCreate()
	if err != nil {
		return nil, err
	}
	if err := a.allow(c, policy.Rule("os-hosts", "create")); err != nil {
		return nil, err
	}
	host, segment, err := a.service.CreateHost(c.ctx, c.params["segment_id"], host)
	return wire.HostBody{Host: wire.NewHost(host, segment)}, err
}

func showHost(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.Rule("os-hosts", "detail")); err != nil {
		return nil, err
	}
	host, segment, err := a.service.Host(c.ctx, c.params["segment_id"], c.params["id"])
	return wire.HostBody{Host: wire.NewHost(host, segment)}, err
}

func updateHost(a *api, c *call) (any, error) {
	patch, err := c.body.HostUpdate()
	if err != nil {
		return nil, err
	}
	if err := a.allow(c, policy.Rule("os-hosts", "update")); err != nil {
		return nil, err
	}
	host, segment, err := a.service.UpdateHost(c.ctx, c.params["segment_id"], c.params["id"], patch)
	return wire.HostBody{Host: wire.NewHost(host, segment)}, err
}

func deleteHost(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.Rule("os-hosts", "delete")); err != nil {
		return nil, err
	}
	return nil, a.service.DeleteHost(c.ctx, c.params["segment_id"], c.params["id"])
}
