package config

import (
	"fmt"
	"regexp"
	"strings"
)

// reference matches what Python's string.Template matches with oslo.config's idpattern: $$, $name, ${name}, where a
// name may have dots: [group.]option.
var reference = regexp.MustCompile(`(?i)\$(?:(\$)|([_a-z][._a-z0-9]*)|\{([_a-z][._a-z0-9]*)\})`)

// maxExpanded bounds a value with what its references stand for: a few lines of them, each several times the one before, would fill the memory.
const maxExpanded = 1 << 20

var errExpanded = fmt.Errorf("with what its references stand for, the value is longer than %d bytes", maxExpanded)

// interpolate replaces the references of value by what lookup returns for (group or "", option). "\$" counts as "$$"; a
// dollar that starts no reference stays. What is put in is not looked at again.
func interpolate(value string, lookup func(group, option string) (string, error)) (string, error) {
	if !strings.Contains(value, "$") {
		return value, nil
	}
	value = strings.ReplaceAll(value, `\$`, "$$")
	var out strings.Builder
	last := 0
	for _, m := range reference.FindAllStringSubmatchIndex(value, -1) {
		out.WriteString(value[last:m[0]])
		last = m[1]
		if m[2] >= 0 {
			out.WriteByte('$')
			continue
		}
		name := submatch(value, m, 2) + submatch(value, m, 3)
		group, option, dotted := strings.Cut(name, ".")
		if !dotted {
			group, option = "", name
		}
		text, err := lookup(group, option)
		if err != nil {
			return "", fmt.Errorf("$%s: %w", name, err)
		}
		if out.WriteString(text); out.Len() > maxExpanded {
			return "", fmt.Errorf("$%s: %w", name, errExpanded)
		}
	}
	out.WriteString(value[last:])
	return out.String(), nil
}

func submatch(s string, m []int, n int) string {
	if m[2*n] < 0 {
		return ""
	}
	return s[m[2*n]:m[2*n+1]]
}
