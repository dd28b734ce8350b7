package policy

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// check is a node of a rule's expression.
type check interface {
	allows(q question) bool
	// refers calls f with the name of every rule that the check refers to.
	refers(f func(rule string))
}

// question is one look at a set of rules.
type question struct {
	id     Identity
	target map[string]string
	rules  ruleset
	admin  bool // whether who asks is admin is what is asked: neither is_admin:True nor is_admin:False holds yet
}

type (
	constant bool
	not      struct{ inner check }
	allOf    []check
	anyOf    []check
	ruleRef  string
	role     struct{ pattern }
	isAdmin  bool
	// literal compares 'text':%(x)s, credential compares attr:%(x)s.
	literal struct {
		text string
		pattern
	}
	credential struct {
		name string
		pattern
	}
)

func (c constant) allows(question) bool { return bool(c) }
func (c not) allows(q question) bool    { return !c.inner.allows(q) }
func (c isAdmin) allows(q question) bool {
	return !q.admin && bool(c) == q.id.IsAdmin
}

func (c allOf) allows(q question) bool {
	for _, inner := range c {
		if !inner.allows(q) {
			return false
		}
	}
	return true
}

func (c anyOf) allows(q question) bool {
	for _, inner := range c {
		if inner.allows(q) {
			return true
		}
	}
	return false
}

func (c ruleRef) allows(q question) bool { return q.rules.allows(string(c), q) }

func (c role) allows(q question) bool {
	want, ok := c.fill(q.target)
	if !ok {
		return false
	}
	for _, r := range q.id.Roles {
		if strings.EqualFold(r, want) {
			return true
		}
	}
	return false
}

func (c literal) allows(q question) bool {
	got, ok := c.fill(q.target)
	return ok && got == c.text
}

func (c credential) allows(q question) bool {
	want, ok := c.fill(q.target)
	return ok && q.id.credential(c.name, want)
}

func (constant) refers(func(string))   {}
func (isAdmin) refers(func(string))    {}
func (role) refers(func(string))       {}
func (literal) refers(func(string))    {}
func (credential) refers(func(string)) {}
func (c not) refers(f func(string))    { c.inner.refers(f) }
func (c ruleRef) refers(f func(string)) {
	f(string(c))
}
func (c allOf) refers(f func(string)) {
	for _, inner := range c {
		inner.refers(f)
	}
}
func (c anyOf) refers(f func(string)) {
	for _, inner := range c {
		inner.refers(f)
	}
}

// pattern is a check's right side: text with %(name)s for the target's values.
type pattern string

var placeholder = regexp.MustCompile(`%\(([A-Za-z0-9_.]+)\)s|%%`)

func parsePattern(s string) (pattern, error) {
	if strings.Contains(placeholder.ReplaceAllString(s, ""), "%") {
		return "", fmt.Errorf("%q: %% stands only in %%(name)s and %%%%", s)
	}
	return pattern(s), nil
}

// fill puts the target's values in; false when one is missing.
func (p pattern) fill(target map[string]string) (string, bool) {
	ok := true
	s := placeholder.ReplaceAllStringFunc(string(p), func(m string) string {
		if m == "%%" {
			return "%"
		}
		v, found := target[m[2:len(m)-2]]
		ok = ok && found
		return v
	})
	return s, ok
}

// parseCheck reads one word of an expression: @, !, or kind:match.
func parseCheck(word string) (check, error) {
	switch word {
	case "@":
		return constant(true), nil
	case "!":
		return constant(false), nil
	}
	kind, match, ok := strings.Cut(word, ":")
	if !ok || kind == "" {
		return nil, fmt.Errorf("%q is no check: kind:match, @ and ! are", word)
	}
	if kind == "http" || kind == "https" {
		return nil, fmt.Errorf("%q: salvor asks no other server for a decision", word)
	}
	if kind == "rule" {
		return ruleRef(match), nil
	}
	if kind == "is_admin" {
		return isAdmin(strings.EqualFold(match, "true")), nil
	}
	p, err := parsePattern(match)
	if err != nil {
		return nil, err
	}
	if kind == "role" {
		return role{p}, nil
	}
	if text, ok := literalOf(kind); ok {
		return literal{text, p}, nil
	}
	return credential{kind, p}, nil
}

// literalOf reads a kind that is a Python literal: a quoted text, a number, True, False or None.
func literalOf(kind string) (string, bool) {
	if n := len(kind); n >= 2 && (kind[0] == '\'' || kind[0] == '"') && kind[n-1] == kind[0] {
		return kind[1 : n-1], true
	}
	if _, err := strconv.ParseFloat(kind, 64); err == nil {
		return kind, true
	}
	return kind, kind == "True" || kind == "False" || kind == "None"
}
