package disks

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Resource is a directory, and the kinds of objects that need it.
type Resource struct {
	Name  string
	Path  string
	Kinds []ha.ObjectKind // none: nobody said what needs it; a failure then has an unknown radius
}

var resourceName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// ParseResource reads NAME:PATH:KIND[,KIND…], as the option [agent] resource has it. What comes of KINDs may be left away.
func ParseResource(text string) (Resource, error) {
	wrong := func(format string, args ...any) (Resource, error) {
		return Resource{}, fmt.Errorf("resource %q: "+format+"; expected NAME:PATH:KIND,KIND, such as blobs:/srv/blobs:instance,blob", append([]any{text}, args...)...)
	}
	name, rest, ok := strings.Cut(text, ":")
	if !ok || !resourceName.MatchString(name) {
		return wrong("%q is no name of lower-case letters, digits, - and _", name)
	}
	path, kinds, _ := strings.Cut(rest, ":")
	r := Resource{Name: name, Path: path}
	switch {
	case !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/":
		return wrong("%q is not the plain absolute path of a directory (no trailing slash, no .., not / itself)", path)
	case len(path) > 1000 || strings.ContainsFunc(path, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }):
		return wrong("the path has characters that cannot be printed, or more than 1000 bytes")
	}
	for _, k := range strings.Split(kinds, ",") {
		kind := ha.ObjectKind(strings.TrimSpace(k))
		if kind == "" {
			continue
		}
		if !slices.Contains(ha.ObjectKinds, kind) {
			return wrong("%q is no kind: instance, blob and upload are", k)
		}
		r.Kinds = append(r.Kinds, kind)
	}
	r.Kinds = ha.SortKinds(r.Kinds)
	return r, nil
}

// ParseResources reads all of them. No two may have one name or one path: there are never two probes of one path.
func ParseResources(texts []string) ([]Resource, error) {
	var all []Resource
	for _, t := range texts {
		r, err := ParseResource(t)
		if err != nil {
			return nil, err
		}
		for _, o := range all {
			if o.Name == r.Name || o.Path == r.Path {
				return nil, fmt.Errorf("resources %q and %q have one name, or one path: say once what needs it", o.Name, r.Name)
			}
		}
		all = append(all, r)
	}
	return all, nil
}
