package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/salvor-ha/salvor/internal/ha"
)

// maxDepth bounds the nesting of a body. No legal body is deeper than three.
const maxDepth = 64

var errMalformed = &ha.InvalidError{Text: "Malformed request body"}

// object is a JSON object whose keys keep the order in which they first came, as Python's do: errors are reported in it.
type object struct {
	keys   []string
	values map[string]any
}

func (o *object) get(key string) (any, bool) {
	v, ok := o.values[key]
	return v, ok
}

func (o *object) set(key string, v any) {
	if _, ok := o.values[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.values[key] = v
}

// Body is a parsed request body of any shape: nil, bool, string, json.Number, []any or *object inside.
type Body struct{ value any }

// ParseBody reads a request body (contract 1.2). An empty one counts as null. Of duplicate keys the last wins. It fails
// with *ha.InvalidError.
func ParseBody(raw []byte) (Body, error) {
	if len(raw) == 0 {
		return Body{}, nil
	}
	if !utf8.Valid(raw) || !json.Valid(raw) {
		return Body{}, errMalformed
	}
	dec := json.NewDecoder(bytes.NewReader(markLoneSurrogates(raw)))
	dec.UseNumber()
	v, err := readValue(dec, 0)
	if err != nil {
		return Body{}, errMalformed
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Body{}, errMalformed
	}
	return Body{v}, nil
}

func readValue(dec *json.Decoder, depth int) (any, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return tok, nil
	}
	if depth == maxDepth {
		return nil, errMalformed
	}
	if delim == '[' {
		return readList(dec, depth)
	}
	return readObject(dec, depth)
}

func readList(dec *json.Decoder, depth int) (any, error) {
	list := []any{}
	for dec.More() {
		v, err := readValue(dec, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := dec.Token()
	return list, err
}

func readObject(dec *json.Decoder, depth int) (any, error) {
	o := &object{values: map[string]any{}}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		v, err := readValue(dec, depth+1)
		if err != nil {
			return nil, err
		}
		o.set(key.(string), v) // json.Valid has seen to it that keys are strings
	}
	_, err := dec.Token()
	return o, err
}

// markLoneSurrogates replaces an escaped half of a surrogate pair by U+FFFF, which every text rule refuses. Python keeps
// such halves, and its rules refuse them; Go's decoder would turn them into a legal character.
func markLoneSurrogates(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`\u`)) {
		return raw
	}
	out := bytes.Clone(raw)
	for i := 0; i+1 < len(out); i++ {
		if out[i] != '\\' {
			continue
		}
		r, ok := escapedRune(out[i:])
		switch {
		case !ok:
			i++ // the escaped character
		case r >= 0xD800 && r < 0xDC00:
			if low, ok := escapedRune(out[i+6:]); ok && low >= 0xDC00 && low < 0xE000 {
				i += 11
				continue
			}
			copy(out[i:], `\uffff`)
			i += 5
		case r >= 0xDC00 && r < 0xE000:
			copy(out[i:], `\uffff`)
			i += 5
		default:
			i += 5
		}
	}
	return out
}

// escapedRune reads a \uXXXX at the start of b.
func escapedRune(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		r <<= 4
		switch {
		case c >= '0' && c <= '9':
			r |= rune(c - '0')
		case c >= 'a' && c <= 'f':
			r |= rune(c-'a') + 10
		case c >= 'A' && c <= 'F':
			r |= rune(c-'A') + 10
		default:
			return 0, false
		}
	}
	return r, true
}
