package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/salvor-ha/salvor/internal/wire"
)

// EachCoverage gives all hosts' coverage to use, a page at a time, by name after the marker.
func (c *Client) EachCoverage(ctx context.Context, marker string, use func([]wire.HostCoverage) error) error {
	for {
		var body wire.CoverageBody
		if err := c.call(ctx, http.MethodGet, "/ext/coverage?"+url.Values{"marker": {marker}}.Encode(), nil, &body); err != nil {
			return err
		}
		if err := use(body.Coverage); err != nil || body.Next == nil {
			return err
		}
		marker = *body.Next
	}
}

// CoverageOf is that of one host, by name, or of one instance, by uuid; which is "host" or "instance".
func (c *Client) CoverageOf(ctx context.Context, which, id string) ([]wire.HostCoverage, error) {
	var body wire.CoverageBody
	err := c.call(ctx, http.MethodGet, "/ext/coverage?"+url.Values{which: {id}}.Encode(), nil, &body)
	return body.Coverage, err
}

// Plan is what a report of the host's death would come to now.
func (c *Client) Plan(ctx context.Context, host string) (wire.Plan, error) {
	var body wire.PlanBody
	err := c.call(ctx, http.MethodGet, "/ext/hosts/"+url.PathEscape(host)+"/plan", nil, &body)
	return body.Plan, err
}
