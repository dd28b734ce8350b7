package simhttp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/internal/sim"
)

const maxBody = 1 << 20

// request is a request with what its handlers need.
type request struct {
	method string
	path   []string // segments
	query  url.Values
	body   []byte
	header http.Header
	base   string // scheme and host as the client addressed them
	self   string // path, for links
	token  *token // nil: none, or not valid
	minor  int    // Nova's microversion 2.minor
}

func (r *request) who() sim.Caller { return r.token.caller() }

// is reports whether the path, from the segment on, is what the pattern says; * is any segment.
func (r *request) is(from int, method, pattern string) bool {
	if r.method != method && !(method == "GET" && r.method == "HEAD") || len(r.path) < from {
		return false
	}
	for _, have := range r.path[from:] {
		want, rest, _ := strings.Cut(pattern, "/")
		if want != "*" && want != have {
			return false
		}
		pattern = rest
	}
	return pattern == ""
}

// ServeHTTP notes the request, lets a fault hit it, and carries it out.
func (s *Server) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	r, err := s.parse(w, hr)
	if err != nil {
		write(w, hr, refusal(http.StatusRequestEntityTooLarge, "overLimit", "Request is too large."))
		return
	}
	if len(r.path) > 0 && r.path[0] == "sim" {
		write(w, hr, s.control(r))
		return
	}
	n, fault := s.cloud.Receive(s.note(r))
	if fault == nil {
		fault = &sim.FaultRule{}
	}
	if fault.Status != 0 {
		s.cloud.Answered(n, fault.Status)
		write(w, hr, simulated(r, fault.Status))
		return
	}
	if fault.ActAfter > 0 {
		s.after(fault.ActAfter, func() { s.carryOut(r) })
		wait(hr.Context(), fault.ActAfter)
		panic(http.ErrAbortHandler) // the documented way to drop a connection
	}
	out := s.carryOut(r)
	if fault.Drop {
		panic(http.ErrAbortHandler)
	}
	s.cloud.Answered(n, out.status)
	if out.never {
		<-hr.Context().Done()
		panic(http.ErrAbortHandler)
	}
	if !wait(hr.Context(), out.late+fault.Delay) {
		return
	}
	write(w, hr, out)
}

// wait waits for d; false when the client has gone before.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Server) parse(w http.ResponseWriter, hr *http.Request) (*request, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, maxBody))
	if err != nil {
		return nil, err
	}
	r := &request{
		method: hr.Method,
		path:   strings.FieldsFunc(hr.URL.Path, func(c rune) bool { return c == '/' }),
		query:  hr.URL.Query(),
		body:   body,
		header: hr.Header,
		base:   s.opt.URL,
		self:   hr.URL.Path,
		token:  s.tokens.valid(hr.Header.Get("X-Auth-Token")),
	}
	if r.base == "" {
		r.base = "http://" + hr.Host
	}
	return r, nil
}

// note is the request as the log of calls and the faults know it. Keystone's bodies have passwords: they are not kept.
func (s *Server) note(r *request) sim.Request {
	out := sim.Request{Method: r.method, Path: "/" + strings.Join(r.path, "/"), Query: r.query.Encode()}
	if r.token != nil {
		out.Client = r.token.user.name
	}
	if len(r.path) > 0 && r.path[0] == "compute" {
		out.Body = string(r.body[:min(len(r.body), 1000)])
		out.Host = r.query.Get("host")
		if out.Host == "" {
			out.Host = r.query.Get("source_compute")
		}
		if i := strings.Index(out.Path, "/servers/"); i >= 0 {
			out.Instance, _, _ = strings.Cut(out.Path[i+len("/servers/"):], "/")
		}
		if r.path[len(r.path)-1] == "action" {
			out.Action, _ = onlyKey(r.body)
		}
	}
	if len(r.path) > 3 && r.path[0] == "redfish" {
		out.Host = r.path[3]
	}
	return out
}

// onlyKey returns the only key of a JSON object and its value.
func onlyKey(body []byte) (string, json.RawMessage) {
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil || len(object) != 1 {
		return "", nil
	}
	for key, value := range object {
		return key, value
	}
	return "", nil
}

// carryOut hands the request to the API that its path names.
func (s *Server) carryOut(r *request) reply {
	switch {
	case len(r.path) == 0:
		return identityVersions(r)
	case r.path[0] == "v3":
		return s.identity(r)
	case r.path[0] == "compute":
		return s.compute(r)
	case r.path[0] == "placement":
		return s.placement(r)
	case r.path[0] == "redfish":
		return s.redfish(r)
	}
	return refusal(http.StatusNotFound, "itemNotFound", "The resource could not be found.")
}

// reply is an answer: body as JSON, nil for none.
type reply struct {
	status int
	header map[string]string
	body   any
	late   time.Duration
	never  bool // nothing is answered, until the client has gone
}

func ok(body any) reply { return reply{status: http.StatusOK, body: body} }

type object = map[string]any

// refusal is an error as Nova words it.
func refusal(status int, name, text string) reply {
	return reply{status: status, body: object{name: object{"code": status, "message": text}}}
}

// simulated is the body of a fault of kind status.
func simulated(r *request, status int) reply {
	if len(r.path) > 0 && r.path[0] == "v3" {
		return identityError(status, "Simulated fault")
	}
	name := faultNames[status]
	if name == "" {
		name = "computeFault"
	}
	return refusal(status, name, "Simulated fault")
}

// faultNames are Nova's names for the statuses that have one.
var faultNames = map[int]string{
	400: "badRequest", 401: "unauthorized", 403: "forbidden", 404: "itemNotFound", 405: "badMethod", 409: "conflictingRequest",
	413: "overLimit", 415: "badMediaType", 429: "overLimit", 501: "notImplemented", 503: "serviceUnavailable",
}

// bodies are spaces for answers, which are used again.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

func write(w http.ResponseWriter, hr *http.Request, out reply) {
	var body []byte
	if out.body != nil {
		space := bodies.Get().(*[]byte)
		defer bodies.Put(space)
		var err error
		if body, err = appendJSON((*space)[:0], out.body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		*space = body
	}
	w.Header().Set("Content-Type", "application/json")
	for key, value := range out.header {
		w.Header().Set(key, value)
	}
	w.WriteHeader(out.status)
	if hr.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that has gone is no error
	}
}
