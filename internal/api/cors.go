package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// simpleHeaders may be sent from any origin without being allowed.
var simpleHeaders = []string{"Accept", "Accept-Language", "Content-Type", "Cache-Control", "Content-Language", "Expires", "Last-Modified", "Pragma"}

// allowed returns the origin to name in answers to the request, "" when CORS has no part in it.
func (c CORS) allowed(r *http.Request) string {
	origin := r.Header.Get("Origin")
	switch {
	case origin == "":
		return ""
	case slices.Contains(c.AllowedOrigin, origin):
		return origin
	case slices.Contains(c.AllowedOrigin, "*"):
		return "*"
	default:
		return ""
	}
}

// preflight adds the headers of an answer to OPTIONS (contract 5.4), none when the request would not be allowed.
func (c CORS) preflight(h http.Header, r *http.Request) {
	origin := c.allowed(r)
	method := r.Header.Get("Access-Control-Request-Method")
	if origin == "" || !slices.Contains(c.AllowMethods, method) {
		return
	}
	var names []string
	for name := range strings.SplitSeq(strings.Join(r.Header.Values("Access-Control-Request-Headers"), ","), ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if !contains(c.AllowHeaders, name) && !contains(simpleHeaders, name) {
			return
		}
		names = append(names, name)
	}
	c.name(h, origin)
	if c.MaxAge > 0 {
		h.Set("Access-Control-Max-Age", strconv.Itoa(int(c.MaxAge.Seconds())))
	}
	h.Set("Access-Control-Allow-Methods", method)
	if len(names) > 0 {
		h.Set("Access-Control-Allow-Headers", strings.Join(names, ","))
	}
}

// actual adds the headers of any other answer.
func (c CORS) actual(h http.Header, r *http.Request) {
	origin := c.allowed(r)
	if origin == "" {
		return
	}
	c.name(h, origin)
	if len(c.ExposeHeaders) > 0 {
		h.Set("Access-Control-Expose-Headers", strings.Join(c.ExposeHeaders, ","))
	}
}

func (c CORS) name(h http.Header, origin string) {
	vary := "Origin"
	if before := h.Get("Vary"); before != "" {
		vary = before + "," + vary
	}
	h.Set("Vary", vary)
	h.Set("Access-Control-Allow-Origin", origin)
	if c.AllowCredentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
}

func contains(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}
