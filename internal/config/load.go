package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Warning is something in the configuration that has no effect, or not for long.
type Warning struct {
	File   string // or "environment"
	Line   int    // 0 for the environment
	Group  string
	Option string // "" for a whole group
	Text   string
	Older  bool   // it has its effect, under an older name
	Do     string // what to do, where that is not to mend a name
}

func (w Warning) String() string { return place(w.File, w.Line) + ": " + w.Text }

// ValueError is an option whose value cannot be taken.
type ValueError struct {
	Source   string // file:line, or environment variable
	Group    string
	Option   string
	Value    string // *** for a secret
	Expected string
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("%s: [%s] %s = %.200q: %s", e.Source, e.Group, e.Option, e.Value, e.Expected)
}

// Load reads the configuration. All errors are returned at once, joined; each names where it stands and what is
// expected. Warnings are returned with and without an error. A Config that comes with an error is good for nothing but
// being shown: it lacks what is wrong.
func Load(s Sources) (*Config, []Warning, error) { return load(s, Options()) }

func load(s Sources, options []Option) (*Config, []Warning, error) {
	files, err := s.files()
	if err != nil {
		return nil, nil, err
	}
	l := loader{options: options, host: hostname(), stateDir: s.stateDir(), values: map[[2]string]*value{}}
	var failures []error
	for _, f := range files {
		found, masked, err := readFile(f)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		l.files = append(l.files, parsedFile{path: f, found: found, masked: masked})
	}
	l.env = s.Env
	l.indexOptions()
	l.redirectPlugin()
	c := &Config{index: map[[2]string]int{}, dirs: beside(files, s)}
	failures = append(failures, l.apply(c)...)
	failures = append(failures, c.finish()...)
	for _, path := range s.unread() {
		l.warnings = append(l.warnings, Warning{File: path, Text: "Masakari's own program reads it beside masakari.conf, salvor does not",
			Do: "name the files to read with --config-file and --config-dir, or move its options into masakari.conf"})
	}
	l.warnUnknown()
	l.warnComments(failures)
	l.warnMasked()
	if err := errors.Join(failures...); err != nil {
		return c, l.warnings, err
	}
	return c, l.warnings, nil
}

type parsedFile struct {
	path   string
	found  []assignment
	masked []assignment
}

// value is the text of an option and where it came from.
type value struct {
	texts  []string // raw; several for a repeated option
	source string
	set    bool
	line   int
	file   string

	busy     bool     // being interpolated: a reference back to it is a loop
	done     bool     // resolved holds the result
	resolved []string // interpolated
	err      error
}

type loader struct {
	options  []Option
	files    []parsedFile
	env      []string
	host     string
	stateDir string

	known    map[[2]string]int // (group, name or alias) to option
	values   map[[2]string]*value
	warnings []Warning
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "localhost"
	}
	return name
}

func beside(files []string, s Sources) []string {
	var dirs []string
	dirs = append(dirs, s.Dirs...)
	for _, f := range slices.Backward(files) {
		if d := filepath.Dir(f); !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return append(dirs, s.searchDirs()...)
}

// indexOptions maps every name that an option answers to. A current name wins over another option's alias.
func (l *loader) indexOptions() {
	l.known = map[[2]string]int{}
	for i := range l.options {
		o := &l.options[i]
		for _, a := range o.Aliases {
			g, n := o.aliasOf(a)
			l.known[[2]string{g, n}] = i
		}
	}
	for i := range l.options {
		l.known[[2]string{l.options[i].Group, l.options[i].Name}] = i
	}
}

// redirectPlugin makes the credentials be read from [keystone_authtoken] auth_section, where it is set.
func (l *loader) redirectPlugin() {
	section := normalGroup(strings.TrimSpace(l.raw("keystone_authtoken", "auth_section")))
	if section == "" || section == "keystone_authtoken" {
		return
	}
	for i := range l.options {
		if o := &l.options[i]; o.plugin {
			o.Group = section
		}
	}
	l.values = map[[2]string]*value{}
	l.indexOptions()
}

func (l *loader) raw(group, name string) string {
	i, ok := l.known[[2]string{group, name}]
	if !ok {
		return ""
	}
	v := l.lookup(&l.options[i])
	if len(v.texts) == 0 {
		return ""
	}
	return v.texts[len(v.texts)-1]
}

// lookup finds the option's text: environment, then files from the last to the first, then the default.
func (l *loader) lookup(o *Option) *value {
	key := [2]string{o.Group, o.Name}
	if v, ok := l.values[key]; ok {
		return v
	}
	v := l.find(o)
	l.values[key] = v
	return v
}

func (l *loader) find(o *Option) *value {
	if text, ok := l.fromEnv(o); ok {
		return &value{texts: []string{text}, source: "environment " + envName(o), file: "environment", set: true}
	}
	var all value
	for _, f := range slices.Backward(l.files) {
		texts, line, name := f.lookup(o)
		if texts == nil {
			continue
		}
		if name != o.Name {
			l.warnings = append(l.warnings, Warning{File: f.path, Line: line, Group: o.Group, Option: o.Name, Older: true,
				Text: fmt.Sprintf("%s is an older name: write [%s] %s", name, o.Group, o.Name)})
		}
		if !o.multi { // the last counts
			return &value{texts: texts[len(texts)-1:], source: place(f.path, line), file: f.path, line: line, set: true}
		}
		all.texts = append(slices.Clone(texts), all.texts...)
		if !all.set {
			all.source, all.file, all.line, all.set = place(f.path, line), f.path, line, true
		}
	}
	if all.set {
		return &all
	}
	return &value{texts: []string{l.defaultOf(o)}, source: "default"}
}

func (l *loader) defaultOf(o *Option) string {
	switch {
	case o.Group == groupDefault && o.Name == "host":
		return strings.ReplaceAll(l.host, "$", "$$")
	case o.Group == groupDefault && o.Name == "pybasedir":
		return strings.ReplaceAll(l.stateDir, "$", "$$")
	}
	return o.Default
}

// lookup returns all values of the option in this file, under its name or else under an older one, and the last line.
func (f parsedFile) lookup(o *Option) (texts []string, line int, name string) {
	names := [][3]string{{o.Group, o.Name, o.Name}}
	for _, a := range o.Aliases {
		g, n := o.aliasOf(a)
		shown := n
		if g != o.Group {
			shown = "[" + g + "] " + n
		}
		names = append(names, [3]string{g, n, shown})
	}
	for _, n := range names {
		for _, a := range f.found {
			if a.group == n[0] && a.name == n[1] {
				texts, line = append(texts, a.value), a.line
			}
		}
		if texts != nil {
			return texts, line, n[2]
		}
	}
	return nil, 0, ""
}

func envName(o *Option) string {
	return "OS_" + strings.ToUpper(o.Group) + "__" + strings.ToUpper(o.Name)
}

func (l *loader) fromEnv(o *Option) (string, bool) {
	want := envName(o) + "="
	for _, e := range slices.Backward(l.env) {
		if text, ok := strings.CutPrefix(e, want); ok {
			return text, true
		}
	}
	return "", false
}

func place(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// warnMasked tells of secrets that `config show` has masked, in a file that was made of what it printed: without them the defaults hold.
func (l *loader) warnMasked() {
	for _, f := range l.files {
		for _, a := range f.masked {
			i, known := l.known[[2]string{a.group, a.name}]
			if !known || !l.options[i].Secret {
				continue
			}
			l.warnings = append(l.warnings, Warning{File: f.path, Line: a.line, Group: a.group, Option: a.name,
				Text: fmt.Sprintf("[%s] %s was masked by config show: the line is a comment, and without effect", a.group, a.name),
				Do:   "put the secret in and take the # away, or remove the line"})
		}
	}
}
