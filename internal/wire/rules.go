package wire

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText bounds texts that are stored in a TEXT column of MySQL, in bytes (contract 12, row 32).
const maxText = 65535

// typed is the rule "type": one of JSON's type names.
func typed(names ...string) rule {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = "'" + n + "'"
	}
	text := " is not of type " + strings.Join(quoted, ", ")
	return func(field string, v any) *violation {
		if slices.Contains(names, typeOf(v)) {
			return nil
		}
		return &violation{field: field, value: v, text: repr(v) + text}
	}
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	default:
		return "object"
	}
}

// forText makes a rule about strings from a function that returns the text of a violation, "" when there is none. Values
// of other types pass: their type is another rule's matter.
func forText(f func(s string) string) rule {
	return func(field string, v any) *violation {
		s, ok := v.(string)
		if !ok {
			return nil
		}
		if text := f(s); text != "" {
			return &violation{field: field, value: v, text: text}
		}
		return nil
	}
}

// length bounds a string in code points.
func length(least, most int) rule {
	return forText(func(s string) string {
		switch n := utf8.RuneCountInString(s); {
		case n < least:
			return repr(s) + " is too short"
		case n > most:
			return repr(s) + " is too long"
		default:
			return ""
		}
	})
}

// oneOf is the rule "enum"; list is the spelling of the choice in errors.
func oneOf(list string, values ...any) rule {
	return func(field string, v any) *violation {
		if slices.Contains(values, v) {
			return nil
		}
		return &violation{field: field, value: v, text: repr(v) + " is not one of " + list}
	}
}

// word is a string out of a closed list, shown as a Python tuple.
func word(words ...string) rule {
	values := make([]any, len(words))
	for i, w := range words {
		values[i] = w
	}
	return all(typed("string"), oneOf(pythonTuple(words), values...))
}

func pythonTuple(words []string) string { return "(" + quotedList(words) + ")" }
func pythonList(words []string) string  { return "[" + quotedList(words) + "]" }

func quotedList(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = pythonString(w)
	}
	return strings.Join(quoted, ", ")
}

// matching is the rule "pattern". Go's $ does not let a trailing newline through, Python's does (contract 12, row 11).
func matching(pattern string) rule {
	re := regexp.MustCompile(pattern)
	return forText(func(s string) string {
		if re.MatchString(s) {
			return ""
		}
		return fmt.Sprintf("%s does not match '%s'", repr(s), pattern)
	})
}

// format is the rule "format".
func format(name string, ok func(string) bool) rule {
	return forText(func(s string) string {
		if ok(s) {
			return ""
		}
		return fmt.Sprintf("%s is not a '%s'", repr(s), name)
	})
}

// printable is contract 1.4: in the BMP, and no control, format, surrogate, private or unassigned character, no line or
// paragraph separator.
func printable(r rune) bool { return r <= 0xFFFE && unicode.IsGraphic(r) }

const invalidName = "An invalid 'name' value was provided. The name must be: printable characters. Can not start or end with whitespace."

// nameRule is for segment and host names and a segment's service_type.
var nameRule = all(typed("string"), length(1, 255), func(field string, v any) *violation {
	if s := v.(string); validName(s) {
		return nil
	}
	return &violation{field: field, value: v, text: invalidName, bare: true}
})

func validName(s string) bool {
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(s)
	if unicode.Is(unicode.Zs, first) || unicode.Is(unicode.Zs, last) {
		return false
	}
	for _, r := range s {
		if !printable(r) {
			return false
		}
	}
	return true
}

// descriptionRule is for texts of several lines; null is another rule's matter.
var descriptionRule = all(typed("string", "null"), forText(func(s string) string {
	for _, r := range s {
		if r != '\n' && !printable(r) {
			return repr(s) + " does not match '^[printable characters and newlines]*$'"
		}
	}
	if len(s) > maxText {
		return repr(s) + " is too long"
	}
	return ""
}))

// notNull refuses what Masakari's schema lets through and its database then refuses with a 500 (contract 12, row 5).
var notNull = func(field string, v any) *violation {
	if v != nil {
		return nil
	}
	return &violation{field: field, value: v, text: "None is not of type 'string'"}
}

var (
	trueWords  = []any{true, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes"}
	falseWords = []any{false, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no"}
)

// booleanRule is for flags in bodies.
var booleanRule = func() rule {
	words := append(slices.Clone(trueWords), falseWords...)
	return all(typed("boolean", "string"), oneOf(repr(words), words...))
}()

// truth reads a value that booleanRule has passed.
func truth(v any) bool { return slices.Contains(trueWords, v) }
