package policy

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// entry is one `key: value` of a file.
type entry struct {
	key, value string
	line       int
}

// readFlat reads the YAML that policy files are made of: one flat mapping of texts, plain, quoted or as a block, over one
// line or several, with comments; or {}, which deployment tools write where there are no rules. Everything else is refused
// with its line.
func readFlat(text string) ([]entry, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	r := flatReader{lines: strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")}
	for i, line := range r.lines {
		if !utf8.ValidString(line) {
			r.at = i
			return nil, r.fail("not UTF-8 text")
		}
	}
	var entries []entry
	for r.skipBlank() {
		if r.empty() && len(entries) == 0 {
			r.at++
			if r.skipBlank() {
				return nil, r.fail("after {}, which is no rules at all, no rule can follow")
			}
			return nil, nil
		}
		line := r.at + 1
		e, err := r.entry(len(entries) == 0)
		if err != nil {
			return nil, err
		}
		if e != nil {
			e.line = line
			entries = append(entries, *e)
		}
	}
	return entries, nil
}

// flatReader walks over lines; at is the current one.
type flatReader struct {
	lines []string
	at    int
}

func (r *flatReader) fail(format string, args ...any) error {
	return fmt.Errorf("line %d: %s", min(r.at+1, len(r.lines)), fmt.Sprintf(format, args...))
}

// skipBlank goes to the next line that says something, and reports whether there is one.
func (r *flatReader) skipBlank() bool {
	for ; r.at < len(r.lines); r.at++ {
		if rest := strings.TrimSpace(r.lines[r.at]); rest != "" && rest[0] != '#' {
			return true
		}
	}
	return false
}

// empty reports whether the current line is a mapping of nothing.
func (r *flatReader) empty() bool {
	bare, _, _ := strings.Cut(r.lines[r.at], " #")
	return strings.TrimSpace(bare) == "{}"
}

// indented reports whether the current line goes on with what an earlier one began.
func (r *flatReader) indented() bool {
	return r.at < len(r.lines) && strings.HasPrefix(r.lines[r.at], " ")
}

// entry reads one entry, or a document mark (nil).
func (r *flatReader) entry(first bool) (*entry, error) {
	line := r.lines[r.at]
	switch mark, _, _ := strings.Cut(line, " "); {
	case mark == "---" && first:
		r.at++
		return nil, nil
	case mark == "---":
		return nil, r.fail("a second document; put all rules into one")
	case mark == "...":
		r.at++
		if r.skipBlank() {
			return nil, r.fail("behind the end of the document; remove the line ...")
		}
		return nil, nil
	}
	switch line[0] {
	case '{', '[':
		return nil, r.fail("this is JSON or YAML in braces; JSON policy files are no longer read, convert it: oslopolicy-convert-json-to-yaml")
	case ' ', '\t':
		return nil, r.fail("indented, but it belongs to no rule above")
	case '-', '?', '%', '&', '*', '!', '|', '>', '@', '`':
		return nil, r.fail("%q does not begin a rule's name; quote the name", line[:1])
	}
	key, rest, err := r.key(line)
	if err != nil {
		return nil, err
	}
	value, err := r.value(strings.TrimLeft(rest, " "))
	if err != nil {
		return nil, err
	}
	return &entry{key: key, value: value}, nil
}

// key splits a line at the colon behind its key.
func (r *flatReader) key(line string) (key, rest string, err error) {
	if line[0] == '\'' || line[0] == '"' {
		key, rest, ok := unquote(line)
		if !ok {
			return "", "", r.fail("the quotes around the name are not closed or not readable")
		}
		rest = strings.TrimLeft(rest, " ")
		if !strings.HasPrefix(rest, ":") || len(rest) > 1 && rest[1] != ' ' {
			return "", "", r.fail("a colon and a blank must follow the name %q", key)
		}
		return key, rest[1:], nil
	}
	name, rest, found := strings.Cut(line, ": ")
	if !found {
		name, found = strings.CutSuffix(strings.TrimSpace(line), ":")
	}
	if name = strings.TrimSpace(name); found && name != "" {
		return name, rest, nil
	}
	return "", "", r.fail("no colon and blank behind a rule's name")
}

const noExpression = `a rule without an expression would allow everybody; write "@" if that is meant, "!" for nobody`

// value reads what stands behind the colon and on the lines that go on with it, and goes behind them.
func (r *flatReader) value(rest string) (string, error) {
	if rest == "" || rest[0] == '#' {
		r.at++
		if !r.skipBlank() || !r.indented() {
			r.at--
			return "", r.fail(noExpression)
		}
		rest = strings.TrimLeft(r.lines[r.at], " ")
	}
	switch rest[0] {
	case '\'', '"':
		return r.quoted(rest)
	case '|', '>':
		return r.block(rest)
	case '{', '[':
		return "", r.fail("lists and mappings are no expressions; write it with and, or and parentheses")
	case '&', '*':
		return "", r.fail("anchors and aliases are not read; write the expression out, or refer to a rule with rule:NAME")
	case '@', '!', '%', '`', '\t':
		return "", r.fail("an expression that begins with %q must be in quotes", rest[:1])
	}
	return r.plain(rest)
}

// quoted reads a quoted text that may go on over indented lines.
func (r *flatReader) quoted(rest string) (string, error) {
	text := rest
	start := r.at
	for {
		value, behind, ok := unquote(text)
		if ok {
			if behind = strings.TrimSpace(behind); behind != "" && behind[0] != '#' {
				return "", r.fail("%q behind the closing quote", behind)
			}
			r.at++
			return value, nil
		}
		r.at++
		if !r.indented() && (r.at >= len(r.lines) || strings.TrimSpace(r.lines[r.at]) != "") {
			r.at = start
			return "", r.fail("the quotes are not closed, or an escape in them is not readable")
		}
		text = strings.TrimRight(text, " ") + " " + strings.TrimSpace(r.lines[r.at])
	}
}

// block reads a literal or folded block. Its line breaks are blanks to an expression.
func (r *flatReader) block(header string) (string, error) {
	if mark, _, _ := strings.Cut(header, " #"); strings.Trim(mark[1:], "+-123456789 ") != "" {
		return "", r.fail("%q is no head of a block", header)
	}
	start := r.at
	r.at++
	var parts []string
	for r.at < len(r.lines) && (r.indented() || strings.TrimSpace(r.lines[r.at]) == "") {
		parts = append(parts, strings.TrimSpace(r.lines[r.at]))
		r.at++
	}
	value := strings.TrimSpace(strings.Join(parts, " "))
	if value == "" {
		r.at = start
		return "", r.fail(noExpression)
	}
	return value, nil
}

// plain reads a text without quotes, which ends at a comment.
func (r *flatReader) plain(rest string) (string, error) {
	var parts []string
	for {
		part, _, commented := strings.Cut(rest, " #")
		part = strings.TrimSpace(part)
		if strings.Contains(part, ": ") || strings.HasSuffix(part, ":") {
			return "", r.fail("a colon and a blank inside of an expression; put it in quotes")
		}
		parts = append(parts, part)
		r.at++
		if commented || !r.indented() || strings.TrimSpace(r.lines[r.at]) == "" {
			return strings.Join(parts, " "), nil
		}
		if rest = strings.TrimSpace(r.lines[r.at]); rest[0] == '#' {
			return strings.Join(parts, " "), nil
		}
	}
}

// unquote reads a quoted text at the start of s and returns it and what follows; false when it does not end in s, or has
// an escape that policy files have no use for.
func unquote(s string) (text, rest string, ok bool) {
	var b strings.Builder
	quote := s[0]
	for i := 1; i < len(s); i++ {
		c := s[i]
		switch {
		case c == quote && quote == '\'' && i+1 < len(s) && s[i+1] == '\'':
			b.WriteByte('\'')
			i++
		case c == quote:
			return b.String(), s[i+1:], true
		case c == '\\' && quote == '"':
			i++
			if i == len(s) || !strings.ContainsRune(`"\/ nt`, rune(s[i])) {
				return "", "", false
			}
			if s[i] == 'n' || s[i] == 't' {
				b.WriteByte(' ')
			} else {
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}
