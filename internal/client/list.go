package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/salvor-ha/salvor/internal/wire"
)

// pageSize is how many elements are asked for at a time. A server whose osapi_max_limit is lower gives fewer.
const pageSize = 500

// Query filters, orders and bounds a list (contract 1.6).
type Query struct {
	Filters url.Values
	Sort    []string // KEY, KEY:asc or KEY:desc; none: the newest first
	Marker  string   // uuid, or integer id, of the last element that was already seen
	Limit   int      // elements in all; 0: all there are
}

// values are the query's parameters for a page of n behind the marker.
func (q Query) values(marker string, n int) (url.Values, error) {
	v := url.Values{}
	for name, values := range q.Filters {
		v[name] = values
	}
	for _, s := range q.Sort {
		key, dir, given := strings.Cut(s, ":")
		if !given {
			dir = "desc"
		}
		if dir != "asc" && dir != "desc" {
			return nil, fmt.Errorf("sort %q: expected KEY, KEY:asc or KEY:desc", s)
		}
		v.Add("sort_key", key)
		v.Add("sort_dir", dir)
	}
	if marker != "" {
		v.Set("marker", marker)
	}
	v.Set("limit", strconv.Itoa(n))
	return v, nil
}

// each gives a list's elements to use, page by page: never more than one page is held. use may keep a page, and change it. more:
// there are elements behind the last that was given.
func each[B, T any](ctx context.Context, c *Client, path string, q Query, elements func(B) []T, id func(T) int64, use func([]T) error) (more bool, err error) {
	marker := q.Marker
	for left := q.Limit; ; {
		n := pageSize
		if q.Limit > 0 {
			n = min(n, left+1) // one more, to know whether there are more
		}
		values, err := q.values(marker, n)
		if err != nil {
			return false, err
		}
		var body B
		if err := c.call(ctx, http.MethodGet, path+"?"+values.Encode(), nil, &body); err != nil {
			return false, err
		}
		page := elements(body)
		if len(page) == 0 {
			return false, nil
		}
		if q.Limit > 0 && len(page) > left {
			page, more = page[:left], true
		}
		left -= len(page)
		if len(page) > 0 {
			marker = strconv.FormatInt(id(page[len(page)-1]), 10) // before the page is use's, who may change it
			if err := use(page); err != nil {
				return false, err
			}
		}
		if more {
			return true, nil
		}
	}
}

// EachSegment gives the segments of a list to use, a page at a time; more says that there are others behind Limit.
func (c *Client) EachSegment(ctx context.Context, q Query, use func([]wire.Segment) error) (more bool, err error) {
	return each(ctx, c, "/segments", q, func(b wire.SegmentList) []wire.Segment { return b.Segments },
		func(s wire.Segment) int64 { return s.ID }, use)
}

// EachHost does so with a segment's hosts.
func (c *Client) EachHost(ctx context.Context, segment string, q Query, use func([]wire.Host) error) (more bool, err error) {
	return each(ctx, c, "/segments/"+url.PathEscape(segment)+"/hosts", q, func(b wire.HostList) []wire.Host { return b.Hosts },
		func(h wire.Host) int64 { return h.ID }, use)
}

// EachNotification does so with notifications.
func (c *Client) EachNotification(ctx context.Context, q Query, use func([]wire.Notification) error) (more bool, err error) {
	return each(ctx, c, "/notifications", q, func(b wire.NotificationList) []wire.Notification { return b.Notifications },
		func(n wire.Notification) int64 { return n.ID }, use)
}

// EachVMove does so with the moves of a host's notification.
func (c *Client) EachVMove(ctx context.Context, notification string, q Query, use func([]wire.VMove) error) (more bool, err error) {
	return each(ctx, c, "/notifications/"+url.PathEscape(notification)+"/vmoves", q, func(b wire.VMoveList) []wire.VMove { return b.VMoves },
		func(m wire.VMove) int64 { return m.ID }, use)
}
