package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// maxShown bounds how much of a client's value an error repeats, in characters.
const maxShown = 2000

// shown is Python's str(v), as errors show values: strings bare, everything else as repr.
func shown(v any) string {
	if s, ok := v.(string); ok {
		return cut(s)
	}
	return repr(v)
}

// repr is Python's repr(v) of a JSON value.
func repr(v any) string {
	var b strings.Builder
	writeRepr(&b, v)
	return cut(b.String())
}

func cut(s string) string {
	if len(s) <= maxShown {
		return s
	}
	n := 0
	for i := range s {
		if n == maxShown {
			return s[:i] + "..."
		}
		n++
	}
	return s
}

func writeRepr(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		if v {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case json.Number:
		b.WriteString(pythonNumber(v))
	case string:
		b.WriteString(pythonString(v))
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			writeRepr(b, e)
		}
		b.WriteByte(']')
	case *object:
		b.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(pythonString(k))
			b.WriteString(": ")
			writeRepr(b, v.values[k])
		}
		b.WriteByte('}')
	}
}

func pythonNumber(n json.Number) string {
	s := n.String()
	if !strings.ContainsAny(s, ".eE") {
		if s == "-0" {
			return "0"
		}
		return s
	}
	f, err := n.Float64()
	if err != nil { // out of range: an infinity
		if strings.HasPrefix(s, "-") {
			return "-inf"
		}
		return "inf"
	}
	return pythonFloat(f)
}

// pythonFloat is repr of a float: the shortest text that reads back, always with a point or an exponent.
func pythonFloat(f float64) string {
	s := strconv.FormatFloat(f, 'e', -1, 64)
	if exp, err := strconv.Atoi(s[strings.IndexByte(s, 'e')+1:]); err == nil && exp >= -4 && exp < 16 {
		s = strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
	}
	return s
}

func pythonString(s string) string {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteRune(quote)
	return b.String()
}
