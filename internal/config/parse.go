package config

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxFileSize bounds a configuration file; a real masakari.conf has some 60 kB with all comments.
const maxFileSize = 4 << 20

// assignment is one "name = value" of a file.
type assignment struct {
	group string // normalised
	name  string
	value string // lines joined by \n, not interpolated
	line  int    // of the name

	comment bool // a comment seems to stand behind it: outside quotes, a # after a blank
}

// SyntaxError is a line that oslo.config would not take either.
type SyntaxError struct {
	File string
	Line int
	Text string // what is wrong, and what to do
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text) }

// readFile reads and parses one file. masked are the lines that `config show` has made comments of, as they have a secret.
func readFile(path string) (found, masked []assignment, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read configuration file: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read configuration file: %w", err)
	}
	if len(text) > maxFileSize {
		return nil, nil, fmt.Errorf("configuration file %s is larger than %d bytes: is it one?", path, maxFileSize)
	}
	p := parser{file: path}
	if err := p.read(string(text)); err != nil {
		return nil, nil, err
	}
	return p.found, p.masked, nil
}

// parse reads text as oslo.config's iniparser does: a line that starts with blank space continues the value before it,
// an empty line ends a value, '#' and ';' start a comment only at the beginning of a line, and a value in matching
// quotes loses them. Repeated names are kept, in order.
func parse(file, text string) ([]assignment, error) {
	p := parser{file: file}
	if err := p.read(text); err != nil {
		return nil, err
	}
	return p.found, nil
}

func (p *parser) read(text string) error {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	for line := range strings.SplitSeq(text, "\n") {
		p.line++
		if err := p.feed(line); err != nil {
			return err
		}
	}
	p.flush()
	return nil
}

// ownLine is added where a comment seems to stand behind something, which oslo.config takes as part of it too.
const ownLine = "a comment must stand on its own line"

type parser struct {
	file  string
	line  int
	group string
	found []assignment

	masked []assignment // comments of the form in which Setting.Lines shows a secret; no values

	open    bool // a name was read and its value may go on
	current assignment
	value   []string
}

func (p *parser) feed(raw string) error {
	if !utf8.ValidString(raw) {
		return p.errorf("not UTF-8 text")
	}
	line := strings.TrimRightFunc(raw, unicode.IsSpace)
	switch {
	case line == "":
		p.flush()
		return nil
	case line[0] == ' ' || line[0] == '\t':
		if !p.open {
			return p.errorf("unexpected continuation line: no option before it (remove the blank space at its start)")
		}
		more := strings.TrimLeftFunc(line, unicode.IsSpace)
		p.current.comment = p.current.comment || more[0] == '#' || looksCommented(more)
		p.value = append(p.value, more)
		return nil
	}
	p.flush()
	switch line[0] {
	case '[':
		return p.section(line)
	case '#', ';':
		name, value, ok := strings.Cut(line[1:], " = ")
		if ok && line[0] == '#' && isMasked(value) {
			p.masked = append(p.masked, assignment{group: p.group, name: name, line: p.line})
		}
		return nil
	default:
		return p.assign(line)
	}
}

func (p *parser) section(line string) error {
	if !strings.HasSuffix(line, "]") {
		hint := ""
		if strings.Contains(line, "]") {
			hint = "; " + ownLine
		}
		return p.errorf("invalid section %q: it must end with ]%s", line, hint)
	}
	if len(line) <= 2 {
		return p.errorf("empty section name")
	}
	p.group = normalGroup(line[1 : len(line)-1])
	return nil
}

func (p *parser) assign(line string) error {
	at := strings.IndexAny(line, ":=")
	if at < 0 {
		// The line is not quoted in the error: it may be the rest of a password.
		return p.errorf("no ':' or '=' found: expected NAME = VALUE")
	}
	name, value := strings.TrimSpace(line[:at]), strings.TrimSpace(line[at+1:])
	if name == "" {
		return p.errorf("the name before the '%c' is empty", line[at])
	}
	if p.group == "" {
		return p.errorf("option %q stands before any section: write [DEFAULT] above it", name)
	}
	p.open = true
	p.current = assignment{group: p.group, name: name, line: p.line}
	bare := unquote(value)
	p.current.comment = bare == value && looksCommented(value)
	p.value = append(p.value[:0], bare)
	return nil
}

func (p *parser) flush() {
	if !p.open {
		return
	}
	p.open = false
	p.current.value = strings.Join(p.value, "\n")
	p.found = append(p.found, p.current)
}

func (p *parser) errorf(format string, args ...any) error {
	return &SyntaxError{File: p.file, Line: p.line, Text: fmt.Sprintf(format, args...)}
}

// unquote takes matching quotes off. A single quote character alone becomes nothing, as in oslo.config.
func unquote(v string) string {
	if v == "" || (v[0] != '"' && v[0] != '\'') || v[len(v)-1] != v[0] {
		return v
	}
	if len(v) == 1 {
		return ""
	}
	return v[1 : len(v)-1]
}

func looksCommented(value string) bool {
	return strings.HasPrefix(value, "#") || strings.Contains(value, " #") || strings.Contains(value, "\t#")
}

// normalGroup: names of groups are compared without case, but for DEFAULT.
func normalGroup(name string) string {
	if name == groupDefault {
		return name
	}
	return strings.ToLower(name)
}
