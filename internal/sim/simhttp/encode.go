package simhttp

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
)

// appendJSON appends v as JSON, with the keys of objects in order. It knows the types that answers are made of: a list of
// servers takes a fraction of the time that reflection needs, so that a simulated cloud keeps up with many engines.
func appendJSON(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case string:
		return appendString(b, v)
	case object:
		return appendObject(b, v, appendJSON)
	case record:
		return appendRecord(b, v)
	case map[string]string:
		return appendObject(b, v, appendString)
	case []object:
		return appendList(b, v, func(b []byte, o object) ([]byte, error) { return appendObject(b, o, appendJSON) })
	case []record:
		return appendList(b, v, appendRecord)
	case []string:
		return appendList(b, v, appendString)
	default:
		return appendOther(b, v)
	}
}

func appendObject[V any](b []byte, o map[string]V, value func([]byte, V) ([]byte, error)) ([]byte, error) {
	if o == nil {
		return append(b, "null"...), nil
	}
	keys := make([]string, 0, 64)
	for key := range o {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendString(b, key); err != nil {
			return nil, err
		}
		if b, err = value(append(b, ':'), o[key]); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// record is an object whose members keep their order: it costs less than an object, and is for what answers have many of.
type record []member

type member struct {
	key   string
	value any
}

func appendRecord(b []byte, r record) ([]byte, error) {
	b = append(b, '{')
	for i, m := range r {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendString(b, m.key); err != nil {
			return nil, err
		}
		if b, err = appendJSON(append(b, ':'), m.value); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendList[V any](b []byte, list []V, value func([]byte, V) ([]byte, error)) ([]byte, error) {
	if list == nil {
		return append(b, "null"...), nil
	}
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = value(b, v); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendString(b []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return appendOther(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"'), nil
}

func appendOther(b []byte, v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...), nil
}
