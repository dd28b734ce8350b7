package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/salvor-ha/salvor/internal/wire"
)

// NewSegment is the body of a segment that is to be made.
type NewSegment struct {
	Name           string `json:"name"`
	ServiceType    string `json:"service_type"`
	RecoveryMethod string `json:"recovery_method"` // auto, reserved_host, auto_priority, rh_priority
	Description    string `json:"description,omitempty"`
}

// CreateSegment makes a failover segment.
func (c *Client) CreateSegment(ctx context.Context, s NewSegment) (wire.Segment, error) {
	var out wire.SegmentBody
	err := c.call(ctx, http.MethodPost, "/segments", map[string]any{"segment": s}, &out)
	return out.Segment, err
}

// Segments lists segments, one page of at most the server's osapi_max_limit.
func (c *Client) Segments(ctx context.Context) ([]wire.Segment, error) {
	var out wire.SegmentList
	err := c.call(ctx, http.MethodGet, "/segments", nil, &out)
	return out.Segments, err
}

// NewHost is the body of a host that is to be registered. Name must be that of its compute service in Nova.
type NewHost struct {
	Name              string `json:"name"`
	Type              string `json:"type"`
	ControlAttributes string `json:"control_attributes"`
	Reserved          bool   `json:"reserved"`
}

// CreateHost registers a host in a segment.
func (c *Client) CreateHost(ctx context.Context, segment string, h NewHost) (wire.Host, error) {
	var out wire.HostBody
	err := c.call(ctx, http.MethodPost, "/segments/"+url.PathEscape(segment)+"/hosts", map[string]any{"host": h}, &out)
	return out.Host, err
}

// Hosts lists a segment's hosts, one page.
func (c *Client) Hosts(ctx context.Context, segment string) ([]wire.Host, error) {
	var out wire.HostList
	err := c.call(ctx, http.MethodGet, "/segments/"+url.PathEscape(segment)+"/hosts", nil, &out)
	return out.Hosts, err
}

// SetMaintenance sets or clears a host's maintenance.
func (c *Client) SetMaintenance(ctx context.Context, segment, host string, on bool) error {
	path := "/segments/" + url.PathEscape(segment) + "/hosts/" + url.PathEscape(host)
	return c.call(ctx, http.MethodPut, path, map[string]any{"host": map[string]any{"on_maintenance": on}}, nil)
}

// Report is what a monitor saw.
type Report struct {
	Type          string            `json:"type"` // COMPUTE_HOST, VM or PROCESS
	Hostname      string            `json:"hostname"`
	GeneratedTime time.Time         `json:"-"`
	Payload       map[string]string `json:"payload"`
}

// Report posts a notification, as monitors do.
func (c *Client) Report(ctx context.Context, r Report) (wire.Notification, error) {
	body := struct {
		Report
		GeneratedTime string `json:"generated_time"`
	}{r, r.GeneratedTime.UTC().Format("2006-01-02T15:04:05.000000")}
	var out wire.NotificationBody
	err := c.call(ctx, http.MethodPost, "/notifications", map[string]any{"notification": body}, &out)
	return out.Notification, err
}

// Notification shows one, with recovery_workflow_details.
func (c *Client) Notification(ctx context.Context, id string) (wire.Notification, error) {
	var out wire.NotificationBody
	err := c.call(ctx, http.MethodGet, "/notifications/"+url.PathEscape(id), nil, &out)
	return out.Notification, err
}

// VMoves lists the moves of a host's notification, one page.
func (c *Client) VMoves(ctx context.Context, notification string) ([]wire.VMove, error) {
	var out wire.VMoveList
	err := c.call(ctx, http.MethodGet, "/notifications/"+url.PathEscape(notification)+"/vmoves", nil, &out)
	return out.VMoves, err
}
