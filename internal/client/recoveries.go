package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/wire"
)

// Order is an operator's order about a recovery (RECOVERY section 5).
type Order string

const (
	Cancel  Order = "cancel"
	Hold    Order = "hold"
	Release Order = "release"
	Retry   Order = "retry"
)

// Words go with an order. Reason is needed for Hold and for ConfirmOff; Until ends a hold by itself.
type Words struct {
	Reason string
	Until  time.Time // zero: until released
}

func (w Words) body() map[string]any {
	b := map[string]any{}
	if w.Reason != "" {
		b["reason"] = w.Reason
	}
	if !w.Until.IsZero() {
		b["until"] = w.Until.UTC().Format(time.RFC3339)
	}
	return b
}

// Recovery shows where the recovery of a notification stands, and its whole timeline.
func (c *Client) Recovery(ctx context.Context, notification string) (wire.Recovery, error) {
	path := "/ext/recoveries/" + url.PathEscape(notification)
	r, err := c.recovery(ctx, path)
	for earlier := r.Earlier && len(r.Timeline) > 0; err == nil && earlier; {
		var page wire.Recovery
		page, err = c.recovery(ctx, fmt.Sprintf("%s?marker=%d", path, r.Timeline[0].ID))
		r.Timeline = slices.Concat(page.Timeline, r.Timeline)
		earlier = page.Earlier && len(page.Timeline) > 0
	}
	r.Earlier = false
	return r, err
}

func (c *Client) recovery(ctx context.Context, path string) (wire.Recovery, error) {
	var out wire.RecoveryBody
	err := c.call(ctx, http.MethodGet, path, nil, &out)
	return out.Recovery, err
}

// Order passes an order on to whoever works on the notification, and shows the recovery as it then stands.
func (c *Client) Order(ctx context.Context, notification string, o Order, w Words) (wire.Recovery, error) {
	var out wire.RecoveryBody
	err := c.call(ctx, http.MethodPost, "/ext/recoveries/"+url.PathEscape(notification)+"/"+string(o), w.body(), &out)
	return out.Recovery, err
}

// RetryMove asks for one instance's move again.
func (c *Client) RetryMove(ctx context.Context, notification, vmove string, w Words) (wire.Recovery, error) {
	var out wire.RecoveryBody
	path := "/ext/recoveries/" + url.PathEscape(notification) + "/vmoves/" + url.PathEscape(vmove) + "/retry"
	err := c.call(ctx, http.MethodPost, path, w.body(), &out)
	return out.Recovery, err
}

// ConfirmOff files the caller's word that a host is off, which is proof enough to recover it.
func (c *Client) ConfirmOff(ctx context.Context, host, reason string) (wire.Notification, error) {
	var out wire.NotificationBody
	err := c.call(ctx, http.MethodPost, "/ext/hosts/"+url.PathEscape(host)+"/confirm-off", Words{Reason: reason}.body(), &out)
	return out.Notification, err
}
