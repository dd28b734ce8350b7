package telemetry

import (
	"net/http"
	"strings"
	"time"
)

// Middleware counts what next answers, by route.
func (m *Metrics) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		s := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		name := routeOf(r)
		defer func() { m.Request(name, r.Method, s.status, time.Since(began)) }()
		next.ServeHTTP(s, r)
	})
}

type statusWriter struct {
	http.ResponseWriter
	status  int
	written bool
}

func (s *statusWriter) WriteHeader(status int) {
	if !s.written && status >= http.StatusOK {
		s.status, s.written = status, true
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *statusWriter) Write(p []byte) (int, error) {
	s.written = true
	return s.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach what is beneath.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// other is the route of whatever is none.
const other = "other"

// collections are the resources below /v1, and what may stand below one member of each.
var collections = map[string]string{"segments": "hosts", "notifications": "vmoves", "extensions": "", "versions": ""}

// routeOf names a request of the API by its shape: /v1/segments/{id}/hosts. A project id in front does not matter. What
// fits nothing is "other", so that no client can make names.
func routeOf(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "":
		return "/"
	case len(parts) == 1 && (parts[0] == "healthcheck" || parts[0] == "metrics" || parts[0] == "v1"):
		return "/" + parts[0]
	case parts[0] != "v1":
		return other
	}
	parts = parts[1:]
	if _, ok := collections[parts[0]]; !ok && parts[0] != "ext" {
		parts = parts[1:] // a project id
	}
	if len(parts) == 0 {
		return "/v1"
	}
	if parts[0] == "ext" {
		return "/v1/ext"
	}
	below, ok := collections[parts[0]]
	name := "/v1/" + parts[0]
	switch {
	case !ok:
		return other
	case len(parts) == 1:
		return name
	case len(parts) == 2:
		return name + "/{id}"
	case below == "" || parts[2] != below || len(parts) > 4:
		return other
	case len(parts) == 3:
		return name + "/{id}/" + below
	default:
		return name + "/{id}/" + below + "/{id}"
	}
}

func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodHead, http.MethodOptions, http.MethodPatch:
		return method
	}
	return other
}
