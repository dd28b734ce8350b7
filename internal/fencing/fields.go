package fencing

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/salvor-ha/salvor/internal/config"
)

// reader reads the nodes of a file and collects what is wrong in it. Its messages have no values
// that could be secrets.
type reader struct {
	file    string
	environ []string
	errs    []error
}

// quoted is what YAML's own errors have of the text, such as a password that begins with an asterisk.
var quoted = regexp.MustCompile(`'[^']*'`)

// document reads the only document of a file.
func (r *reader) document(text []byte) *yaml.Node {
	in := yaml.NewDecoder(bytes.NewReader(text))
	var doc, second yaml.Node
	switch err := in.Decode(&doc); {
	case errors.Is(err, io.EOF):
		r.errs = append(r.errs, fmt.Errorf("%s is empty: it needs hosts", r.file))
		return nil
	case err != nil:
		r.errs = append(r.errs, fmt.Errorf("%s: %s", r.file, quoted.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), "'…'")))
		return nil
	}
	if in.Decode(&second) == nil {
		r.fail(&second, "a second document; put all hosts into one")
	}
	return doc.Content[0]
}

// maxErrors: whoever has more has the wrong file.
const maxErrors = 20

func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, fmt.Errorf("%s:%d: %s", r.file, n.Line, fmt.Sprintf(format, args...)))
	}
}

// resolve follows an alias (*name) to what it stands for.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// fields are a mapping of the file, and what of it has been asked for.
type fields struct {
	r     *reader
	what  string
	node  *yaml.Node
	order []*yaml.Node // keys
	at    map[string]*yaml.Node
	asked map[string]bool
}

// mapping reads a mapping; nil is an empty one.
func (r *reader) mapping(n *yaml.Node, what string) fields {
	f := fields{r: r, what: what, node: n, at: map[string]*yaml.Node{}, asked: map[string]bool{}}
	if n == nil {
		return f
	}
	f.node = resolve(n)
	if f.node.Kind != yaml.MappingNode {
		r.fail(n, "%s: expected NAME: VALUE lines", what)
		return f
	}
	for i := 0; i+1 < len(f.node.Content); i += 2 {
		key := f.node.Content[i]
		switch _, twice := f.at[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			r.fail(key, "%s: a key must be a name", what)
		case twice:
			r.fail(key, "%s: %s is there twice", what, key.Value)
		default:
			f.order = append(f.order, key)
			f.at[key.Value] = resolve(f.node.Content[i+1])
		}
	}
	return f
}

// take returns a key's value, nil when it is not there.
func (f fields) take(key string) *yaml.Node {
	f.asked[key] = true
	return f.at[key]
}

func (f fields) has(key string) bool { return f.take(key) != nil }

// fail complains of a key's value, or of the mapping that lacks it.
func (f fields) fail(key, format string, args ...any) {
	n := f.at[key]
	if n == nil {
		n = f.node
	}
	f.r.fail(n, "%s: %s: %s", f.what, key, fmt.Sprintf(format, args...))
}

func (f fields) need(key string) *yaml.Node {
	n := f.take(key)
	if n == nil && f.node != nil {
		f.fail(key, "is missing")
	}
	return n
}

// known complains of every key that nobody has asked for.
func (f fields) known() {
	var names []string
	for key := range f.asked {
		names = append(names, key)
	}
	slices.Sort(names)
	for _, key := range f.order {
		if !slices.Contains(names, key.Value) {
			f.r.fail(key, "%s: %s is unknown; known are: %s", f.what, key.Value, strings.Join(slices.Compact(names), ", "))
		}
	}
}

// text reads a value in one line; def when it is not there.
func (f fields) text(key, def string) string {
	n := f.take(key)
	if n == nil {
		return def
	}
	if n.Tag == "!!null" {
		return ""
	}
	if n.Kind != yaml.ScalarNode || strings.ContainsAny(n.Value, "\x00\r\n") {
		f.fail(key, "expected a value in one line")
		return def
	}
	return n.Value
}

func (f fields) choice(key, def string, words ...string) string {
	v := f.text(key, def)
	if !slices.Contains(words, v) {
		f.fail(key, "expected %s", strings.Join(words, " or "))
		return def
	}
	return v
}

func (f fields) flag(key string, def bool) bool {
	switch strings.ToLower(f.text(key, strconv.FormatBool(def))) {
	case "true", "yes", "on", "1":
		return true
	case "false", "no", "off", "0":
		return false
	}
	f.fail(key, "expected true or false")
	return def
}

// span reads a duration: 90s, 2m, or a number of seconds.
func (f fields) span(key string, def, low, high time.Duration) time.Duration {
	text := f.text(key, "")
	if text == "" {
		return def
	}
	d, err := time.ParseDuration(text)
	if n, bad := strconv.ParseFloat(text, 64); bad == nil {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d < low || d > high {
		f.fail(key, "expected a duration from %s to %s, such as 90s", low, high)
		return def
	}
	return d
}

func (f fields) number(key string, def, low, high int) int {
	n, err := strconv.Atoi(f.text(key, strconv.Itoa(def)))
	if err != nil || n < low || n > high {
		f.fail(key, "expected a number from %d to %d", low, high)
		return def
	}
	return n
}

// secret reads key inline or as env:NAME, or the file that key_file names.
func (f fields) secret(key string) config.Secret {
	n, file := f.take(key), f.text(key+"_file", "")
	switch {
	case n != nil && file != "":
		f.fail(key, "%s_file is set too", key)
	case file != "":
		return f.fromFile(key+"_file", file)
	case n != nil:
		return f.hidden(key, f.text(key, ""))
	}
	return config.Secret{}
}

// hidden is text, or the variable that env:NAME names.
func (f fields) hidden(key, text string) config.Secret {
	name, variable := strings.CutPrefix(text, "env:")
	if !variable {
		return config.NewSecret(text)
	}
	for _, e := range f.r.environ {
		if value, ok := strings.CutPrefix(e, name+"="); ok && value != "" {
			return config.NewSecret(value)
		}
	}
	f.fail(key, "the environment variable that env: names is not set")
	return config.Secret{}
}

// maxSecret is how long a file with a secret may be, in bytes.
const maxSecret = 4096

func (f fields) fromFile(key, file string) config.Secret {
	text, err := readPrivate(file, maxSecret)
	if err != nil {
		f.fail(key, "%v", err)
		return config.Secret{}
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" || strings.ContainsAny(secret, "\x00\r\n") {
		f.fail(key, "expected one line in %s", file)
	}
	return config.NewSecret(secret)
}
