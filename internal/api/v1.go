package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/wire"
)

// requestIDHeader carries request ids both ways. One that a client sends is the global id of a chain of requests; the
// one in the answer is always new (contract 5.3).
const requestIDHeader = "X-Openstack-Request-Id"

var requestID = regexp.MustCompile(`^req-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// call is one request on its way through the checks.
type call struct {
	ctx     context.Context
	id      string // X-Openstack-Request-Id of the answer
	global  string // the client's, "" when there is none
	user    policy.Identity
	op      wire.Op
	params  map[string]string
	version wire.Version
	query   url.Values
	body    wire.Body
	base    string // of links

	agentKey string // a host's own, in place of a user
}

// serveV1 is the pipeline below /v1: CORS, request id, time limit, log.
func (a *api) serveV1(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	c := &call{id: "req-" + uuid.NewString(), base: a.base(r)}
	if global := r.Header.Get(requestIDHeader); requestID.MatchString(global) {
		c.global = global
	}
	ctx, cancel := a.outlast(r.Context())
	defer cancel()
	c.ctx = ha.WithRequestID(ctx, c.outward())

	w.Header().Set(requestIDHeader, c.id)
	var rep reply
	if r.Method == http.MethodOptions {
		a.cfg.CORS.preflight(w.Header(), r)
		rep = reply{status: http.StatusOK}
	} else {
		rep = a.answer(c, w, r)
		rep.head(w.Header())
		a.cfg.CORS.actual(w.Header(), r)
	}
	write(w, rep.status, rep.contentType, rep.body)
	a.cfg.Log.LogAttrs(c.ctx, slog.LevelInfo, "request", slog.String("method", r.Method), slog.String("path", r.URL.Path),
		slog.Int("status", rep.status), slog.Duration("took", time.Since(started)), slog.String("request_id", c.id),
		slog.String("global_request_id", c.global), slog.String("user", c.user.UserID), slog.String("project", c.user.ProjectID),
		slog.String("remote", r.RemoteAddr))
}

// outlast bounds a request. A client that closes its sending side after the request looks to net/http as one that is gone, and may wait for
// its answer all the same: what it asked for goes on for a while, during a stop too. Whoever is gone loses nothing by that, and costs one
// request. What the end of the stop finds under way ends with its server.
func (a *api) outlast(client context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(client), a.cfg.RequestTimeout)
	cut := func() bool { return true }
	if server, ok := client.Value(serverKey{}).(context.Context); ok {
		cut = context.AfterFunc(server, cancel)
	}
	stop := context.AfterFunc(client, func() {
		wait := time.NewTimer(a.cfg.SilentClient)
		defer wait.Stop()
		select {
		case <-wait.C:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); cut(); cancel() }
}

// outward is the request id that other services see.
func (c *call) outward() string {
	if c.global != "" {
		return c.global
	}
	return c.id
}

// answer is the order of checks of contract 1.1: each step wins over all later ones. What comes after step 8 is the
// action's: schema, policy, query, and then the use case.
func (a *api) answer(c *call, w http.ResponseWriter, r *http.Request) (rep reply) {
	defer func() {
		if p := recover(); p != nil {
			rep = a.panicked(c, p)
		}
	}()
	if r.ContentLength > a.cfg.MaxBody {
		return a.tooLarge(r)
	}
	user, ok, err := a.authenticate(c, r)
	switch {
	case err != nil:
		a.troubled(c, slog.LevelWarn, "cannot tell who sends a request", "error", err, "request_id", c.id)
		return plain(r, wire.KeystoneAway())
	case !ok:
		return a.unauthorized(r)
	}
	if c.user = user; !user.IsAdmin {
		c.user = a.policy.Identify(user)
	}
	rt, params, project := a.match(r.Method, r.URL.Path)
	if rt == nil {
		return plain(r, wire.NotFound())
	}
	c.op, c.params = rt.op, params
	if c.version, err = wire.ParseVersion(r.Header.Values(wire.VersionHeader)); err != nil {
		return a.badVersion(c, err)
	}
	body, err := a.act(c, rt, project, w, r)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return a.tooLarge(r)
	case err != nil:
		return a.fault(c, err)
	}
	return a.success(c, r, rt.status, body)
}

func (a *api) act(c *call, rt *route, project string, w http.ResponseWriter, r *http.Request) (any, error) {
	if !knownContentType(r.Header.Get("Content-Type")) {
		return nil, faultf(http.StatusUnsupportedMediaType, "Unsupported Content-Type")
	}
	if rt.do == nil {
		return nil, faultf(http.StatusMethodNotAllowed, "The request method: '%s' with action: '%s' is not allowed on this resource", r.Method, rt.op.Action)
	}
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		raw, err := readBody(http.MaxBytesReader(w, r.Body, a.cfg.MaxBody))
		if err != nil {
			return nil, err
		}
		if c.body, err = wire.ParseBody(raw); err != nil {
			return nil, err
		}
	}
	if project != "" && project != c.user.ProjectID {
		return nil, faultf(http.StatusBadRequest, "Malformed request URL: URL's project_id '%s' doesn't match Context's project_id '%s'", project, orNone(c.user.ProjectID))
	}
	c.query = wire.ParseQuery(r.URL.RawQuery)
	return rt.do(a, c)
}

// readBody reads a request's body. What the client does wrong with it is a *wire.Fault, or *http.MaxBytesError.
func readBody(body io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(body)
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil, errors.As(err, &tooLarge):
		return raw, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, faultf(http.StatusRequestTimeout, "The request's body did not come in time.")
	default: // cut off, or chunks that are none
		return nil, faultf(http.StatusBadRequest, "Malformed request body")
	}
}

// drained is how much of a refused body is read at most, so that its sender comes to read the answer: many send all before
// they read anything, and a connection closed on them is all they would see. The read timeout bounds how long it takes.
const drained = 64 << 20

// tooLarge answers a body that is not taken. A client that asks first whether to send it (Expect) is not waited for.
func (a *api) tooLarge(r *http.Request) reply {
	if r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, drained)
	}
	return plain(r, wire.TooLarge(a.cfg.MaxBody))
}

func orNone(s string) string {
	if s == "" {
		return "None"
	}
	return s
}

// knownContentType reports whether a body's type is one that is read. None at all is, and text/plain, which some clients
// send for nothing; parameters do not count.
func knownContentType(header string) bool {
	mediaType, _, _ := strings.Cut(header, ";")
	switch strings.TrimSpace(mediaType) {
	case "", "text/plain", wire.MediaJSON, wire.MediaVendor:
		return true
	default:
		return false
	}
}

// allow is step 10: what the policy says of the rule.
func (a *api) allow(c *call, rule string) error {
	if a.policy.Allows(rule, c.user) {
		return nil
	}
	return faultf(http.StatusForbidden, "Policy doesn't allow %s to be performed.", rule)
}

// list is the query of a list request.
func (a *api) list(c *call) wire.Query { return wire.Query{Values: c.query, Max: a.cfg.MaxLimit} }
