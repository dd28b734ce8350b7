package nova

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/salvor-ha/salvor/internal/ha"
)

var okCodes = []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNonAuthoritativeInfo,
	http.StatusNoContent, http.StatusPartialContent}

// op is one call: its name for metrics, and what errors call it.
type op struct {
	name   string // few in number: "servers", "evacuate"
	method string
	path   string // below the service's root
	what   string // of an action, its name
}

func (o op) String() string {
	s := o.method + " " + o.path
	if o.what != "" {
		s += " " + o.what
	}
	return s
}

// get reads path below Nova's root into out, with as much time as one call has.
func (c *Client) get(ctx context.Context, name, path string, query url.Values, out any) error {
	return c.read(ctx, op{name: name, method: http.MethodGet, path: path}, query, out, func(e *endpoints) (string, map[string]string, error) {
		return e.compute, novaHeaders(e), nil
	})
}

type rootOf func(*endpoints) (root string, headers map[string]string, err error)

func (c *Client) read(ctx context.Context, o op, query url.Values, out any, root rootOf) (err error) {
	ctx, end := c.observed(ctx, o)
	defer func() { end(err) }()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	e, err := c.ready(ctx)
	if err != nil {
		return c.readError(o, err)
	}
	base, headers, err := root(e)
	if err != nil {
		return c.readError(o, err)
	}
	full := base + o.path
	if len(query) > 0 {
		full += "?" + query.Encode()
	}
	resp, err := c.provider.Request(ctx, o.method, full, &gophercloud.RequestOpts{ //nolint:bodyclose // decode does
		MoreHeaders: c.tagged(ctx, headers), KeepResponseBody: true, OkCodes: okCodes,
	})
	if err != nil {
		if statusOf(err) == http.StatusNotAcceptable {
			c.forget(e) // Nova no longer offers this microversion
		}
		return c.readError(o, err)
	}
	if err := decode(resp, out); err != nil {
		return c.readError(o, err)
	}
	return nil
}

// send carries an act out, and reads the answer's body into out unless that is nil.
func (c *Client) send(ctx context.Context, o op, body any, sendBy time.Time, out any) (err error) {
	ctx, end := c.observed(ctx, o)
	defer func() { end(err) }()
	f := &flight{ctx: ctx, sendBy: sendBy, order: o.name == string(ha.ActEvacuate)}
	if err := f.check(); err != nil {
		return c.actError(o, f, err)
	}
	bounded, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	e, err := c.ready(bounded)
	if err != nil {
		return c.actError(o, f, err)
	}
	f.ctx = bounded
	resp, err := c.provider.Request(context.WithValue(bounded, flightKey{}, f), o.method, e.compute+o.path, &gophercloud.RequestOpts{
		JSONBody: body, MoreHeaders: c.tagged(ctx, novaHeaders(e)), KeepResponseBody: true, OkCodes: okCodes,
	})
	if err != nil {
		if statusOf(err) == http.StatusNotAcceptable {
			c.forget(e)
		}
		return c.actError(o, f, err)
	}
	if out == nil {
		discard(resp) // Nova has said yes; an evacuation's body is empty, or an adminPass that nobody wants
		return nil
	}
	if err := decode(resp, out); err != nil {
		return c.actError(o, f, err)
	}
	return nil
}

func novaHeaders(e *endpoints) map[string]string { return versionHeaders(e.minor) }

func versionHeaders(minor int) map[string]string {
	v := fmt.Sprintf("2.%d", minor)
	return map[string]string{"OpenStack-API-Version": "compute " + v, "X-OpenStack-Nova-API-Version": v}
}

func (c *Client) tagged(ctx context.Context, headers map[string]string) map[string]string {
	if c.cfg.RequestID != nil {
		if id := c.cfg.RequestID(ctx); id != "" {
			headers["X-OpenStack-Request-ID"] = id
		}
	}
	return headers
}

// observed begins to watch a call, for metrics and traces; end takes its error.
func (c *Client) observed(ctx context.Context, o op) (_ context.Context, end func(error)) {
	began := time.Now()
	spanned := func(ha.Class) {}
	if c.cfg.Trace != nil {
		ctx, spanned = c.cfg.Trace(ctx, o.name)
	}
	return ctx, func(err error) {
		class := ha.ClassOf(err)
		spanned(class)
		if c.cfg.Observe != nil {
			c.cfg.Observe(o.name, class, time.Since(began))
		}
	}
}

func decode(resp *http.Response, out any) error {
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("the answer cannot be read: %w", err)
	}
	discard(resp)
	return nil
}

// discard reads the rest of an answer, so that its connection can be used again.
func discard(resp *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close()
}
