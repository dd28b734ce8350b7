package wire

import (
	"fmt"
	"slices"
	"strings"

	"github.com/salvor-ha/salvor/internal/ha"
)

// violation is the first broken rule of a body. field is the last element of the path to the value, "" at the root. text
// alone is the message when bare is set or at the root (contract 1.5).
type violation struct {
	field string
	value any
	text  string
	bare  bool
}

func (v *violation) error() error {
	if v.bare || v.field == "" {
		return &ha.InvalidError{Text: v.text}
	}
	return &ha.InvalidError{Text: fmt.Sprintf("Invalid input for field/attribute %s. Value: %s. %s", v.field, shown(v.value), v.text)}
}

// rule checks one value and returns its first violation, nil when it holds. field is the value's name in its parent.
type rule func(field string, v any) *violation

// all is rules in order: the first violation wins.
func all(rules ...rule) rule {
	return func(field string, v any) *violation {
		for _, r := range rules {
			if bad := r(field, v); bad != nil {
				return bad
			}
		}
		return nil
	}
}

// property is one declared property of an object.
type property struct {
	name string
	rule rule
}

// shape declares an object: its properties in the order in which they are checked, which of them are required, whether
// at least one must be there, and whether required comes before unknown keys, as in the outermost object and in notifications.
type shape struct {
	properties    []property
	required      []string
	any           bool
	requiredFirst bool
}

func (s shape) rule() rule {
	order := []rule{s.unknownKeys, s.requiredKeys}
	if s.requiredFirst {
		slices.Reverse(order)
	}
	return all(append([]rule{typed("object"), s.declared}, order...)...)
}

func (s shape) declared(_ string, v any) *violation {
	o := v.(*object)
	for _, p := range s.properties {
		val, ok := o.get(p.name)
		if !ok {
			continue
		}
		if bad := p.rule(p.name, val); bad != nil {
			return bad
		}
	}
	return nil
}

func (s shape) unknownKeys(field string, v any) *violation {
	var unknown []string
	for _, k := range v.(*object).keys {
		if !slices.ContainsFunc(s.properties, func(p property) bool { return p.name == k }) {
			unknown = append(unknown, pythonString(k))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	verb := "was"
	if len(unknown) > 1 {
		verb = "were"
	}
	return &violation{field: field, value: v, text: fmt.Sprintf("Additional properties are not allowed (%s %s unexpected)", cut(strings.Join(unknown, ", ")), verb)}
}

func (s shape) requiredKeys(field string, v any) *violation {
	o := v.(*object)
	for _, k := range s.required {
		if _, ok := o.get(k); !ok {
			return &violation{field: field, value: v, text: fmt.Sprintf("'%s' is a required property", k)}
		}
	}
	if !s.any {
		return nil
	}
	for _, p := range s.properties {
		if _, ok := o.get(p.name); ok {
			return nil
		}
	}
	return &violation{field: field, value: v, text: repr(v) + " is not valid under any of the given schemas"}
}

// wrapped is a body with one key around what matters.
func wrapped(key string, inner rule) rule {
	return shape{properties: []property{{key, inner}}, required: []string{key}, requiredFirst: true}.rule()
}

// check applies r to the body's root and returns what is under key.
func (b Body) check(key string, r rule) (*object, error) {
	if bad := r("", b.value); bad != nil {
		return nil, bad.error()
	}
	inner, _ := b.value.(*object).get(key)
	return inner.(*object), nil
}
