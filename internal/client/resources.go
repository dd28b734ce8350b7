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
	Enabled        *bool  `json:"enabled,omitempty"` // nil: enabled
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

// Segment shows one.
func (c *Client) Segment(ctx context.Context, id string) (wire.Segment, error) {
	var out wire.SegmentBody
	err := c.call(ctx, http.MethodGet, "/segments/"+url.PathEscape(id), nil, &out)
	return out.Segment, err
}

// Changes are the properties of a segment or a host that are to be changed, by their names on the wire.
type Changes map[string]any

// UpdateSegment changes a segment, and shows it as it then is.
func (c *Client) UpdateSegment(ctx context.Context, id string, changes Changes) (wire.Segment, error) {
	var out wire.SegmentBody
	err := c.call(ctx, http.MethodPut, "/segments/"+url.PathEscape(id), map[string]any{"segment": changes}, &out)
	return out.Segment, err
}

// DeleteSegment removes a segment with its hosts.
func (c *Client) DeleteSegment(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/segments/"+url.PathEscape(id), nil, nil)
}

// NewHost is the body of a host that is to be registered. Name must be that of its compute service in Nova.
type NewHost struct {
	Name              string `json:"name"`
	Type              string `json:"type"`
	ControlAttributes string `json:"control_attributes"`
	Reserved          bool   `json:"reserved"`
	OnMaintenance     bool   `json:"on_maintenance,omitempty"`
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

// Host shows one of a segment's hosts.
func (c *Client) Host(ctx context.Context, segment, id string) (wire.Host, error) {
	var out wire.HostBody
	err := c.call(ctx, http.MethodGet, hostPath(segment, id), nil, &out)
	return out.Host, err
}

// UpdateHost changes a host, and shows it as it then is.
func (c *Client) UpdateHost(ctx context.Context, segment, id string, changes Changes) (wire.Host, error) {
	var out wire.HostBody
	err := c.call(ctx, http.MethodPut, hostPath(segment, id), map[string]any{"host": changes}, &out)
	return out.Host, err
}

// DeleteHost takes a host out of its segment.
func (c *Client) DeleteHost(ctx context.Context, segment, id string) error {
	return c.call(ctx, http.MethodDelete, hostPath(segment, id), nil, nil)
}

func hostPath(segment, id string) string {
	return "/segments/" + url.PathEscape(segment) + "/hosts/" + url.PathEscape(id)
}

// SetMaintenance sets or clears a host's maintenance.
func (c *Client) SetMaintenance(ctx context.Context, segment, host string, on bool) error {
	_, err := c.UpdateHost(ctx, segment, host, Changes{"on_maintenance": on})
	return err
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

// VMove shows one of them.
func (c *Client) VMove(ctx context.Context, notification, id string) (wire.VMove, error) {
	var out wire.VMoveBody
	err := c.call(ctx, http.MethodGet, "/notifications/"+url.PathEscape(notification)+"/vmoves/"+url.PathEscape(id), nil, &out)
	return out.VMove, err
}
