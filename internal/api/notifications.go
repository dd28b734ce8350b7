package api

import (
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/wire"
)

func listNotifications(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.Rule("notifications", "index")); err != nil {
		return nil, err
	}
	filter, page, err := a.list(c).NotificationList()
	if err != nil {
		return nil, err
	}
	notifications, err := a.service.Notifications(c.ctx, filter, page)
	return wire.NewNotificationList(notifications), err
}

func createNotification(a *api, c *call) (any, error) {
	report, err := c.body.NotificationCreate()
	if err != nil {
		return nil, err
	}
	if err := a.allow(c, policy.Rule("notifications", "create")); err != nil {
		return nil, err
	}
	notification, err := a.service.Report(c.ctx, report)
	return wire.NotificationBody{Notification: wire.NewNotification(notification)}, err
}

// showNotification adds recovery_workflow_details from 1.1 on, also when there are none.
func showNotification(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.Rule("notifications", "detail")); err != nil {
		return nil, err
	}
	id := c.params["id"]
	if !c.version.AtLeast(wire.DetailsSince) {
		notification, err := a.service.Notification(c.ctx, id)
		return wire.NotificationBody{Notification: wire.NewNotification(notification)}, err
	}
	notification, journal, err := a.service.NotificationDetails(c.ctx, id)
	body := wire.NewNotification(notification)
	details := wire.NewWorkflow(journal)
	body.Details = &details
	return wire.NotificationBody{Notification: body}, err
}
