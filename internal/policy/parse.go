package policy

import (
	"errors"
	"fmt"
	"strings"
)

// maxNesting bounds parentheses and nots.
const maxNesting = 100

var errNesting = errors.New("too many parentheses")

// parse reads an expression: checks joined by `or`, `and` (which binds more closely), `not` and parentheses. An empty one
// always allows; one of blanks, which allows nobody in oslo.policy, is refused.
func parse(expression string) (check, error) {
	if expression == "" {
		return constant(true), nil
	}
	p := parser{words: words(expression)}
	if len(p.words) == 0 {
		return nil, errors.New("it is blank; write @ for everybody, ! for nobody")
	}
	c, err := p.or(0)
	if err != nil {
		return nil, err
	}
	if p.at < len(p.words) {
		return nil, fmt.Errorf("%q is not expected", p.words[p.at])
	}
	return c, nil
}

// words splits at blanks, and parentheses off the ends of words: inside of a word they belong to it, as in %(x)s.
func words(expression string) []string {
	var out []string
	for _, w := range strings.Fields(expression) {
		inner := strings.TrimLeft(w, "(")
		for range len(w) - len(inner) {
			out = append(out, "(")
		}
		bare := strings.TrimRight(inner, ")")
		if bare != "" {
			out = append(out, bare)
		}
		for range len(inner) - len(bare) {
			out = append(out, ")")
		}
	}
	return out
}

type parser struct {
	words []string
	at    int
}

// next takes the next word if it is the keyword.
func (p *parser) next(keyword string) bool {
	if p.at < len(p.words) && strings.EqualFold(p.words[p.at], keyword) {
		p.at++
		return true
	}
	return false
}

func (p *parser) or(depth int) (check, error) {
	first, err := p.and(depth)
	if err != nil {
		return nil, err
	}
	list := anyOf{first}
	for p.next("or") {
		c, err := p.and(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	if len(list) == 1 {
		return first, nil
	}
	return list, nil
}

func (p *parser) and(depth int) (check, error) {
	first, err := p.operand(depth)
	if err != nil {
		return nil, err
	}
	list := allOf{first}
	for p.next("and") {
		c, err := p.operand(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	if len(list) == 1 {
		return first, nil
	}
	return list, nil
}

func (p *parser) operand(depth int) (check, error) {
	switch {
	case depth > maxNesting:
		return nil, errNesting
	case p.next("not"):
		c, err := p.operand(depth + 1)
		if err != nil {
			return nil, err
		}
		return not{c}, nil
	case p.next("("):
		c, err := p.or(depth + 1)
		if err != nil {
			return nil, err
		}
		if !p.next(")") {
			return nil, errors.New("a parenthesis is not closed")
		}
		return c, nil
	case p.at == len(p.words):
		return nil, errors.New("it ends where a check is expected")
	}
	word := p.words[p.at]
	p.at++
	return parseCheck(word)
}
