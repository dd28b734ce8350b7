package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/wire"
)

// reply is a whole answer: nothing is sent before everything has gone well.
type reply struct {
	status      int
	version     string // what VersionHeader says; "": it is not sent
	challenge   string // WWW-Authenticate of a 401
	contentType string
	body        []byte
}

// head adds the reply's own headers.
func (rep reply) head(h http.Header) {
	if rep.version != "" {
		h.Set("Vary", wire.VersionHeader)
		h[wire.VersionHeader] = []string{rep.version} // with the capitals of the contract
	}
	if rep.challenge != "" {
		h.Set("WWW-Authenticate", rep.challenge)
	}
}

const faultType = "application/json; charset=UTF-8"

// success renders the body of an action.
func (a *api) success(c *call, r *http.Request, status int, body any) reply {
	rep := reply{status: status, version: c.version.Header(), contentType: answerType(r)}
	if status != http.StatusNoContent { // whose type is told all the same, as Masakari does
		rep.body = wire.EncodeInto(*bodies.Get().(*[]byte), body)
	}
	return rep
}

// answerType is the content type of the answer to r, when all goes well. A path that ends in .json asks for just that.
func answerType(r *http.Request) string {
	if strings.HasSuffix(r.URL.Path, ".json") {
		return wire.MediaJSON
	}
	return wire.AnswerType(r.Header.Get("Accept"))
}

// fault is the one place where an error becomes an answer.
func (a *api) fault(c *call, err error) reply {
	f, known := wire.FaultOf(c.op, c.asAsked(err))
	if !known {
		a.troubled(c, slog.LevelError, "a request failed unexpectedly", "error", err, "resource", c.op.Resource, "action", c.op.Action, "request_id", c.id)
		f = unexpected(c)
	} else if f.Status >= http.StatusInternalServerError {
		a.troubled(c, slog.LevelWarn, "a request cannot be served now", "error", err, "resource", c.op.Resource, "action", c.op.Action, "request_id", c.id)
	}
	return reply{status: f.Status, version: c.version.Header(), contentType: faultType, body: wire.Encode(f)}
}

// asAsked gives the ids in a refusal the spelling that the client used: objects are looked up by the stored one, by which Masakari calls
// only a host in use.
func (c *call) asAsked(err error) error {
	spelling := func(id string, of ...string) string {
		for _, name := range of {
			asked := c.params[name]
			if stored, ok := ha.CanonicalUUID(asked); ok && stored == id {
				return asked
			}
		}
		return id
	}
	var missing *ha.NotFoundError
	var inUse *ha.InUseError
	switch {
	case errors.As(err, &missing):
		told := *missing
		told.ID, told.Under = spelling(told.ID, "id", "segment_id", "notification_id"), spelling(told.Under, "segment_id", "notification_id")
		return &told
	case errors.As(err, &inUse) && inUse.Kind == ha.KindSegment:
		told := *inUse
		told.ID = spelling(told.ID, "id")
		return &told
	default:
		return err
	}
}

// troubled logs what kept a request from being served, at the level, unless its client has gone away: then whatever was
// under way was cut off, and nobody need look.
func (a *api) troubled(c *call, level slog.Level, msg string, args ...any) {
	if errors.Is(c.ctx.Err(), context.Canceled) {
		level, msg = slog.LevelInfo, "a client went away before its answer"
	}
	a.cfg.Log.Log(c.ctx, level, msg, args...)
}

// panicked answers what no code foresaw.
func (a *api) panicked(c *call, p any) reply {
	a.cfg.Log.Error("a request hit a defect in salvor", "panic", p, "resource", c.op.Resource, "action", c.op.Action, "request_id", c.id, "stack", string(debug.Stack()))
	f := unexpected(c)
	rep := reply{status: f.Status, contentType: faultType, body: wire.Encode(f)}
	if c.version != (wire.Version{}) { // the request had come so far
		rep.version = c.version.Header()
	}
	return rep
}

func unexpected(c *call) *wire.Fault {
	return faultf(http.StatusInternalServerError, "An unexpected error stopped this request. The log of salvor has it under %s: please report it.", c.id)
}

// badVersion answers a microversion that is malformed (400, no version header) or not offered (406, echoed).
func (a *api) badVersion(c *call, err error) reply {
	var outside *wire.VersionRangeError
	if errors.As(err, &outside) {
		return reply{
			status: http.StatusNotAcceptable, version: outside.Header(), contentType: faultType,
			body: wire.Encode(faultf(http.StatusNotAcceptable, "%s", outside.Error())),
		}
	}
	rep := a.fault(c, err)
	rep.version = ""
	return rep
}

// unauthorized is keystonemiddleware's 401 (contract 4.1).
func (a *api) unauthorized(r *http.Request) reply {
	rep := reply{status: http.StatusUnauthorized, contentType: wire.MediaJSON, body: wire.Encode(wire.Unauthorized())}
	if a.cfg.DelayAuthDecision {
		rep = plain(r, wire.NotAuthorized())
	}
	rep.challenge = fmt.Sprintf("Keystone uri=%q", a.cfg.WWWAuthenticate)
	return rep
}

// plain is an answer from below the API, in the shape that the client accepts.
func plain(r *http.Request, p wire.Plain) reply {
	contentType, body := p.Render(r.Header.Get("Accept"))
	if r.Method == http.MethodHead { // a body that is not sent is told to be HTML, as WebOb does
		contentType, body = "text/html; charset=UTF-8", nil
	}
	return reply{status: p.Status, contentType: contentType, body: body}
}

func faultf(status int, format string, args ...any) *wire.Fault {
	return &wire.Fault{Status: status, Message: fmt.Sprintf(format, args...)}
}

func writeJSON(w http.ResponseWriter, status int, contentType string, v any) {
	write(w, status, contentType, wire.Encode(v))
}

// bodies is the space of answers that were sent: a page of a list is more than all else that a request needs.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// mostKept bounds the space that is kept of one answer: about a page of the default length.
const mostKept = 1 << 20

// write sends an answer, whose body is nobody's any more. A client that has gone away is no concern of anybody.
func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	if status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
	if n := cap(body); 0 < n && n <= mostKept {
		bodies.Put(&body)
	}
}
