package api

import (
	"context"
	"net"
	"net/http"
	"strings"
)

type prefixKey struct{}

// forwardedPrefix is the path that a proxy has cut off.
func forwardedPrefix(r *http.Request) string {
	prefix, _ := r.Context().Value(prefixKey{}).(string)
	return prefix
}

// behindProxy returns the request as the client sent it to the proxies in front, by RFC 7239's Forwarded or, without it,
// the X-Forwarded headers. Only with enable_proxy_headers_parsing: a client could forge them.
func behindProxy(r *http.Request) *http.Request {
	f := forwarded(r.Header)
	out := r.WithContext(context.WithValue(r.Context(), prefixKey{}, strings.TrimRight(f["prefix"], "/")))
	link := *r.URL
	if proto := strings.ToLower(f["proto"]); proto == "http" || proto == "https" {
		link.Scheme = proto
	}
	if host := f["host"]; host != "" {
		out.Host = host
	}
	if port := f["port"]; port != "" {
		name, _, err := net.SplitHostPort(out.Host)
		if err != nil { // no port; an IPv6 address keeps its brackets, which JoinHostPort puts there again
			name = strings.Trim(out.Host, "[]")
		}
		out.Host = net.JoinHostPort(name, port)
	}
	if client := f["for"]; client != "" {
		out.RemoteAddr = client
	}
	out.URL = &link
	return out
}

// forwarded reads the first hop, which the client's own proxy wrote.
func forwarded(h http.Header) map[string]string {
	f := map[string]string{"prefix": first(h.Get("X-Forwarded-Prefix"))}
	if line := h.Get("Forwarded"); line != "" {
		for pair := range strings.SplitSeq(first(line), ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
			f[strings.ToLower(name)] = strings.Trim(value, `"`)
		}
		return f
	}
	for _, name := range []string{"proto", "host", "port", "for"} {
		f[name] = first(h.Get("X-Forwarded-" + name))
	}
	return f
}

// first is the first element of a comma-separated list.
func first(list string) string {
	element, _, _ := strings.Cut(list, ",")
	return strings.TrimSpace(element)
}
