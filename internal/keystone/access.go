package keystone

import (
	"regexp"
	"slices"
	"strings"
)

// accessRule is a request that an application credential with access rules may make. A path has {name} and * for one element
// of it, ** for any rest.
type accessRule struct{ Service, Method, Path string }

// permits reports whether a token may make the request, as far as its application credential's rules say. Without rules it may.
func (v verdict) permits(service, method, path string) bool {
	if v.rules == nil {
		return true
	}
	return service != "" && slices.ContainsFunc(*v.rules, func(r accessRule) bool {
		return r.Service == service && r.Method == method && pathMatches(r.Path, path)
	})
}

var pathMark = regexp.MustCompile(`\{[^}]*\}|\*\*|\*`)

func pathMatches(pattern, path string) bool {
	var b strings.Builder
	last := 0
	for _, m := range pathMark.FindAllStringIndex(pattern, -1) {
		b.WriteString(regexp.QuoteMeta(pattern[last:m[0]]))
		if pattern[m[0]:m[1]] == "**" {
			b.WriteString(`.*`)
		} else {
			b.WriteString(`[^/]+`)
		}
		last = m[1]
	}
	b.WriteString(regexp.QuoteMeta(pattern[last:]))
	whole, err := regexp.Compile("^(?:" + b.String() + ")$")
	return err == nil && whole.MatchString(path)
}
