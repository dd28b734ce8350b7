package conformance

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The language of answers: objects match by subset, lists need the same length, and objects with $ keys are matchers.

var (
	uuidText = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	timeText = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$`)
)

// match returns why got is not what is wanted, nil when it is.
func match(want, got any, path string) error {
	switch want := want.(type) {
	case map[string]any:
		if isMatcher(want) {
			return matchAll(want, got, path)
		}
		return matchObject(want, got, path)
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Errorf("%s: want %d elements, got %s", path, len(want), short(got))
		}
		for i, w := range want {
			if err := match(w, list[i], fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		return nil
	default:
		if !equal(want, got) {
			return fmt.Errorf("%s: want %s, got %s", path, short(want), short(got))
		}
		return nil
	}
}

func isMatcher(m map[string]any) bool {
	for k := range m {
		if strings.HasPrefix(k, "$") {
			return true
		}
	}
	return false
}

func matchObject(want map[string]any, got any, path string) error {
	object, ok := got.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: want an object, got %s", path, short(got))
	}
	for k, w := range want {
		value, there := object[k]
		if m, ok := w.(map[string]any); ok && m["$absent"] == true {
			if there {
				return fmt.Errorf("%s.%s: must be absent, got %s", path, k, short(value))
			}
			continue
		}
		if !there {
			return fmt.Errorf("%s.%s: missing in %s", path, k, short(got))
		}
		if err := match(w, value, path+"."+k); err != nil {
			return err
		}
	}
	return nil
}

func matchAll(want map[string]any, got any, path string) error {
	for k, w := range want {
		if err := matchOne(k, w, got, path); err != nil {
			return err
		}
	}
	return nil
}

func matchOne(matcher string, want, got any, path string) error {
	ok := true
	switch matcher {
	case "$type":
		ok = isType(want.(string), got)
	case "$regex":
		s, isText := got.(string)
		ok = isText && regexp.MustCompile("(?s)"+want.(string)).MatchString(s)
	case "$len", "$min_len":
		n, measurable := length(got)
		w, err := want.(json.Number).Int64()
		ok = measurable && err == nil && (n == int(w) || matcher == "$min_len" && n > int(w))
	case "$keys":
		ok = hasKeys(want.([]any), got)
	case "$contains":
		list, isList := got.([]any)
		ok = isList && slices.ContainsFunc(list, func(e any) bool { return match(want, e, path) == nil })
	case "$any_of":
		ok = slices.ContainsFunc(want.([]any), func(w any) bool { return match(w, got, path) == nil })
	case "$not":
		ok = match(want, got, path) != nil
	case "$and":
		for _, w := range want.([]any) {
			if err := match(w, got, path); err != nil {
				return err
			}
		}
	case "$present":
	case "$absent":
		ok = false
	default:
		return fmt.Errorf("%s: the runner knows no matcher %s", path, matcher)
	}
	if !ok {
		return fmt.Errorf("%s: want %s %s, got %s", path, matcher, short(want), short(got))
	}
	return nil
}

func isType(name string, v any) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "bool"
	case json.Number:
		return name == "float" || name == "int" && !strings.ContainsAny(v.String(), ".eE")
	case string:
		return name == "str" || name == "uuid" && uuidText.MatchString(v) || name == "timestamp" && timeText.MatchString(v)
	case []any:
		return name == "list"
	default:
		return name == "object"
	}
}

func length(v any) (int, bool) {
	switch v := v.(type) {
	case string:
		return len([]rune(v)), true
	case []any:
		return len(v), true
	case map[string]any:
		return len(v), true
	default:
		return 0, false
	}
}

func hasKeys(want []any, got any) bool {
	object, ok := got.(map[string]any)
	if !ok || len(object) != len(want) {
		return false
	}
	return !slices.ContainsFunc(want, func(k any) bool { _, there := object[k.(string)]; return !there })
}

func equal(want, got any) bool {
	w, isNumber := want.(json.Number)
	g, alsoNumber := got.(json.Number)
	if !isNumber || !alsoNumber {
		return want == got
	}
	a, err1 := strconv.ParseFloat(w.String(), 64)
	b, err2 := strconv.ParseFloat(g.String(), 64)
	return err1 == nil && err2 == nil && a == b
}

func short(v any) string {
	s, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			return err.Error()
		}
		s = string(b)
	}
	if len(s) > 300 {
		return s[:300] + "..."
	}
	return s
}
