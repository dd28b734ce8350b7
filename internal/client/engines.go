package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/salvor-ha/salvor/internal/wire"
)

// Engines lists the engine processes seen within the last hour, and what each holds.
func (c *Client) Engines(ctx context.Context) ([]wire.Engine, error) {
	var out wire.EnginesBody
	err := c.call(ctx, http.MethodGet, "/ext/engines", nil, &out)
	return out.Engines, err
}

// Pauses lists what is paused.
func (c *Client) Pauses(ctx context.Context) ([]wire.Pause, error) {
	return c.pauses(ctx, http.MethodGet, "/ext/pauses", nil)
}

// Pause lets no recovery begin anything new in a segment, with "" anywhere. It returns what then is paused.
func (c *Client) Pause(ctx context.Context, segment string, w Words) ([]wire.Pause, error) {
	return c.pauses(ctx, http.MethodPost, scope(segment)+"/pause", w.body())
}

// Resume ends a pause. It returns what then is still paused.
func (c *Client) Resume(ctx context.Context, segment string) ([]wire.Pause, error) {
	return c.pauses(ctx, http.MethodPost, scope(segment)+"/resume", Words{}.body())
}

func scope(segment string) string {
	if segment == "" {
		return "/ext"
	}
	return "/ext/segments/" + url.PathEscape(segment)
}

func (c *Client) pauses(ctx context.Context, method, path string, body any) ([]wire.Pause, error) {
	var out wire.PausesBody
	err := c.call(ctx, method, path, body, &out)
	return out.Pauses, err
}
