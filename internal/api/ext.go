package api

import (
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/wire"
)

func showRecovery(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.ExtRule("recoveries", "detail")); err != nil {
		return nil, err
	}
	before, limit, err := a.list(c).Timeline()
	if err != nil {
		return nil, err
	}
	return a.recovery(c, before, limit)
}

func (a *api) recovery(c *call, before int64, limit int) (any, error) {
	r, err := a.service.Recovery(c.ctx, c.params["notification_id"], before, limit)
	return wire.NewRecovery(r.Notification, r.Work, r.Journal, r.Earlier), err
}

// wishForRecovery passes cancel, hold, release or retry on, and shows the recovery as it then stands.
func wishForRecovery(a *api, c *call) (any, error) {
	kinds := map[string]ha.WishKind{"cancel": ha.WishCancel, "hold": ha.WishHold, "release": ha.WishRelease, "retry": ha.WishRetry}
	return a.wish(c, ha.Wish{Kind: kinds[c.op.Action]})
}

// wishForMove asks for one move again.
func wishForMove(a *api, c *call) (any, error) {
	return a.wish(c, ha.Wish{Kind: ha.WishRetryMove, VMove: c.params["id"]})
}

func (a *api) wish(c *call, w ha.Wish) (any, error) {
	order, err := c.body.OrderOf(c.op.Action)
	if err != nil {
		return nil, err
	}
	if err := a.allow(c, policy.ExtRule("recoveries", c.op.Action)); err != nil {
		return nil, err
	}
	w.By, w.Reason, w.Until = c.user.Name(), order.Reason, order.Until
	if err := a.service.Wish(c.ctx, c.params["notification_id"], w); err != nil {
		return nil, err
	}
	return a.recovery(c, 0, a.cfg.MaxLimit)
}

func confirmOff(a *api, c *call) (any, error) {
	order, err := c.body.OrderOf(c.op.Action)
	if err != nil {
		return nil, err
	}
	if err := a.allow(c, policy.ExtRule("hosts", c.op.Action)); err != nil {
		return nil, err
	}
	notification, err := a.service.ConfirmOff(c.ctx, c.params["host"], c.user.Name(), order.Reason)
	return wire.NotificationBody{Notification: wire.NewNotification(notification)}, err
}
