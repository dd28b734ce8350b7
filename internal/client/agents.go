package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/salvor-ha/salvor/internal/wire"
)

// AgentReport tells what the agent of a host has found, and returns what the API says to it: orders among it. A report of a former start of the
// agent is a *wire.Fault with status 409.
func (c *Client) AgentReport(ctx context.Context, host string, r wire.AgentReport) (wire.AgentAnswer, error) {
	var out wire.AgentAnswerBody
	err := c.call(ctx, http.MethodPost, "/ext/agents/"+url.PathEscape(host)+"/report", wire.AgentReportBody{Report: r}, &out)
	return out.Report, err
}

// AgentOrders returns what is open for the agent of a host. While that is the version that is known, the API waits, at most for so long (whole
// seconds); with version "" it does not. The HTTP client's time limit must be longer.
func (c *Client) AgentOrders(ctx context.Context, host, version string, wait time.Duration) (wire.OrdersBody, error) {
	var out wire.OrdersBody
	path := fmt.Sprintf("/ext/agents/%s/orders?wait=%d&version=%s", url.PathEscape(host), int(wait.Seconds()), url.QueryEscape(version))
	err := c.call(ctx, http.MethodGet, path, nil, &out)
	return out, err
}
