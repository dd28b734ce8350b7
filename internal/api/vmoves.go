package api

import (
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/wire"
)

func listVMoves(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.Rule("vmoves", "index")); err != nil {
		return nil, err
	}
	filter, page, err := a.list(c).VMoveList()
	if err != nil {
		return nil, err
	}
	moves, err := a.service.VMoves(c.ctx, c.params["notification_id"], filter, page)
	return wire.NewVMoveList(moves), err
}

func showVMove(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.Rule("vmoves", "detail")); err != nil {
		return nil, err
	}
	move, err := a.service.VMove(c.ctx, c.params["notification_id"], c.params["id"])
	return wire.VMoveBody{VMove: wire.NewVMove(move)}, err
}
