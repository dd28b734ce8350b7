package fencing

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// maxFile is how long a fencing file may be, in bytes; maxMethods how many methods a host may have.
const (
	maxFile    = 4 << 20
	maxMethods = 8
)

const (
	defaultDeadline = time.Minute
	defaultPause    = 2 * time.Second
)

// File says how each host is fenced. It is made by Load and does not change.
type File struct {
	path    string
	entries []entry
	index   map[string]int   // an entry by the host's name
	short   map[string][]int // entries by the first label of the name, in small letters
	globs   []int
}

// entry is one key below `hosts`.
type entry struct {
	host    string // name or pattern
	line    int
	methods []recipe
}

// recipe is a method as it stands in the file; build makes it one of a host.
type recipe struct {
	name            string
	deadline, pause time.Duration
	build           func(host string) (Controller, error)
}

// Load reads a fencing file. environ are the variables (NAME=VALUE) that `env:NAME` may name. All that is wrong is told at
// once, each with its line, without any value: a secret may stand in the wrong place.
func Load(file string, environ []string) (*File, error) {
	text, err := readPrivate(file, maxFile)
	if err != nil {
		return nil, fmt.Errorf("fencing file: %w", err)
	}
	f, err := parse(file, text, environ)
	if err != nil {
		return nil, fmt.Errorf("fencing file: %w", err)
	}
	return f, nil
}

// readPrivate reads a file that others than its owner and group must have no access to.
func readPrivate(file string, most int64) ([]byte, error) {
	text, mode, err := readRegular(file, most)
	if err == nil && mode.Perm()&0o007 != 0 {
		return nil, fmt.Errorf("%s is open to everybody (mode %04o), and credentials are in it: chmod o= %s", file, mode.Perm(), file)
	}
	return text, err
}

// readRegular reads a file of at most so many bytes; opening a pipe or a device might never end.
func readRegular(file string, most int64) ([]byte, os.FileMode, error) {
	is, err := os.Stat(file)
	if err != nil {
		return nil, 0, err
	}
	if !is.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is no regular file", file)
	}
	in, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = in.Close() }()
	if is, err = in.Stat(); err != nil { // the one that was opened
		return nil, 0, err
	}
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s is longer than %d bytes", file, most)
	}
	return text, is.Mode(), err
}

func parse(file string, text []byte, environ []string) (*File, error) {
	r := &reader{file: file, environ: environ}
	f := &File{path: file, index: map[string]int{}, short: map[string][]int{}}
	if doc := r.document(text); doc != nil {
		top := r.mapping(doc, "the file")
		base := r.mapping(top.take("defaults"), "defaults")
		defaults := shared{deadline: defaultDeadline, pause: defaultPause}.with(base)
		base.known()
		hosts := r.mapping(top.need("hosts"), "hosts")
		for _, key := range hosts.order {
			f.add(r, key, hosts.take(key.Value), defaults)
		}
		top.known()
	}
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	return f, nil
}

// add reads the methods of one host or pattern.
func (f *File) add(r *reader, key, list *yaml.Node, defaults shared) {
	host := strings.TrimSpace(key.Value)
	if _, err := path.Match(host, ""); host == "" || err != nil {
		r.fail(key, "%q is neither a host's name nor a pattern", host)
		return
	}
	e := entry{host: host, line: key.Line}
	list = resolve(list)
	if list.Kind != yaml.SequenceNode || len(list.Content) > maxMethods {
		r.fail(key, "%s: expected a list of at most %d methods; [] for a host that is not fenced", host, maxMethods)
		return
	}
	for i, n := range list.Content {
		m := r.method(n, fmt.Sprintf("%s, method %d", host, i+1), defaults)
		if slices.ContainsFunc(e.methods, func(o recipe) bool { return o.name == m.name }) {
			m.name = fmt.Sprintf("%s-%d", m.name, i+1)
		}
		e.methods = append(e.methods, m)
	}
	at := len(f.entries)
	f.entries = append(f.entries, e)
	if strings.ContainsAny(host, `*?[\`) {
		f.globs = append(f.globs, at)
		return
	}
	f.index[host] = at
	short := strings.ToLower(shortName(host))
	f.short[short] = append(f.short[short], at)
}

// Hosts are the names in the file, without the patterns, in its order.
func (f *File) Hosts() []string {
	var out []string
	for i, e := range f.entries {
		if at, named := f.index[e.host]; named && at == i {
			out = append(out, e.host)
		}
	}
	return out
}

// Methods are a host's: those of its own name; else of the only one that differs in case; else of the only name with the same first
// label, short against full (field finding F159); else of the first pattern, in the file's order, that matches.
func (f *File) Methods(host string) ([]Method, error) {
	e, err := f.find(host)
	if err != nil {
		return nil, err
	}
	if !hostName.MatchString(host) {
		return nil, fmt.Errorf("%s:%d: the name %q has other characters than letters, digits, dots, hyphens and underscores: %w", f.path, e.line, host, ErrCannot)
	}
	methods := make([]Method, 0, len(e.methods))
	for _, p := range e.methods {
		c, err := p.build(host)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %s, for host %s: %w", f.path, e.line, p.name, host, err)
		}
		methods = append(methods, Method{Name: p.name, Deadline: p.deadline, Pause: p.pause, Controller: c})
	}
	return methods, nil
}

func (f *File) find(host string) (entry, error) {
	if at, ok := f.index[host]; ok {
		return f.some(at, host)
	}
	var same, folded []int
	for _, at := range f.short[strings.ToLower(shortName(host))] {
		other := f.entries[at].host
		if strings.EqualFold(other, host) { // as salvor compares hosts' names everywhere
			folded = append(folded, at)
		}
		// Two full names of different domains are different hosts.
		if isShort(host) || isShort(other) {
			same = append(same, at)
		}
	}
	if len(folded) > 0 {
		same = folded
	}
	switch len(same) {
	case 0:
	case 1:
		return f.some(same[0], host)
	default:
		return entry{}, fmt.Errorf("%s: host %s may be %s or %s: write its name as Nova has it", f.path, host, f.entries[same[0]].host, f.entries[same[1]].host)
	}
	for _, at := range f.globs {
		if ok, err := path.Match(strings.ToLower(f.entries[at].host), strings.ToLower(host)); ok && err == nil {
			return f.some(at, host)
		}
	}
	return entry{}, fmt.Errorf("%w: no entry of %s is for host %s", ErrNotConfigured, f.path, host)
}

func (f *File) some(at int, host string) (entry, error) {
	e := f.entries[at]
	if len(e.methods) == 0 {
		return e, fmt.Errorf("%w: %s:%d says that host %s is not fenced", ErrNotConfigured, f.path, e.line, host)
	}
	return e, nil
}

func shortName(host string) string {
	short, _, _ := strings.Cut(host, ".")
	return short
}

func isShort(host string) bool { return !strings.Contains(host, ".") }
