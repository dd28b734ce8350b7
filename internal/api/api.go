package api

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/service"
	"github.com/salvor-ha/salvor/internal/wire"
)

// api is the handler of all paths (contract 1.1).
type api struct {
	cfg       Config
	service   *service.Service
	auth      Authenticator
	policy    *policy.Enforcer
	routes    []route
	projectID *regexp.Regexp
	prefix    *url.URL // of links, nil when the request's own are used
}

// New returns the handler of the API. It fails on a configuration that cannot be used.
func New(cfg Config, svc *service.Service, auth Authenticator, rules *policy.Enforcer) (http.Handler, error) {
	cfg = cfg.withDefaults()
	projectID, prefix, err := cfg.compile()
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	return &api{cfg: cfg, service: svc, auth: auth, policy: rules, routes: routes(), projectID: projectID, prefix: prefix}, nil
}

// ServeHTTP picks who answers by the path alone. Paths are taken as they are: nothing is cleaned or redirected.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.cfg.ParseProxy {
		r = behindProxy(r)
	}
	switch path := r.URL.Path; {
	case path == "/":
		writeJSON(w, http.StatusOK, answerType(r), wire.Versions(a.base(r)))
	case path == "/v1" || strings.HasPrefix(path, "/v1/"):
		a.serveV1(w, r)
	case path == "/healthcheck" || path == "/healthcheck/":
		a.serveHealth(w, r)
	default:
		writeJSON(w, http.StatusMultipleChoices, answerType(r), wire.Choices(a.base(r), (&url.URL{Path: "/" + strings.Trim(path, "/")}).EscapedPath()))
	}
}

// base is what links begin with: as the client sees the API, or as the configuration says. A port that goes without saying is not said.
func (a *api) base(r *http.Request) string {
	if a.prefix != nil {
		return a.prefix.String()
	}
	scheme, usual := "http", ":80"
	if r.URL.Scheme == "https" || r.URL.Scheme == "" && r.TLS != nil { // a proxy's word, else our own
		scheme, usual = "https", ":443"
	}
	host := r.Host
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && host == "" { // a client of HTTP/1.0
		host = local.String()
	}
	return scheme + "://" + strings.TrimSuffix(host, usual) + forwardedPrefix(r)
}
