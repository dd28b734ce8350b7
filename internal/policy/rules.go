package policy

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ruleset is a parsed set of rules, and the name of the one that stands in for those that are missing.
type ruleset struct {
	checks   map[string]check
	origins  map[string]origin // of each check
	fallback string
}

// origin is where a rule stands, and its text.
type origin struct {
	text   string
	source string // file:line, or "default"
}

func (s ruleset) allows(rule string, q question) bool {
	c, ok := s.checks[rule]
	if !ok {
		if c, ok = s.checks[s.fallback]; !ok {
			return false
		}
	}
	return c.allows(q)
}

// admin reports whether the identity is an administrator.
func (s ruleset) admin(id Identity) bool {
	return s.allows(AdminContext, question{id: id, target: id.target(), rules: s, admin: true})
}

// load reads the default rules and, over them, those of the files in order.
func load(files []string, fallback string) (ruleset, error) {
	s := ruleset{checks: map[string]check{}, origins: map[string]origin{}, fallback: fallback}
	for name, expression := range defaults() {
		c, err := parse(expression)
		if err != nil {
			return s, fmt.Errorf("default rule %s: %w", name, err)
		}
		s.checks[name], s.origins[name] = c, origin{expression, "default"}
	}
	for _, f := range files {
		if err := s.addFile(f); err != nil {
			return s, fmt.Errorf("policy file %s: %w", f, err)
		}
	}
	return s, s.checkReferences()
}

// maxFile bounds a policy file, in bytes.
const maxFile = 1 << 20

func (s ruleset) addFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() > maxFile {
		return fmt.Errorf("%d bytes are more than the %d that a policy file may have", info.Size(), maxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if filepath.Ext(path) == ".json" {
		if bare := strings.Join(strings.Fields(string(text)), ""); bare == "" || bare == "{}" { // as deployment tools write it: no rule is lost
			return nil
		}
		return errors.New("JSON policy files are no longer read; convert it: oslopolicy-convert-json-to-yaml --namespace masakari --policy-file OLD --output-file NEW")
	}
	entries, err := readFlat(string(text))
	if err != nil {
		return err
	}
	for _, e := range entries {
		c, err := parse(e.value)
		if err != nil {
			return fmt.Errorf("line %d: rule %s: %w", e.line, e.key, err)
		}
		s.checks[e.key], s.origins[e.key] = c, origin{e.value, fmt.Sprintf("%s:%d", path, e.line)}
	}
	return nil
}

// maxReferences bounds the rules that one decision may have to ask, each as often as it is referred to.
const maxReferences = 100000

// checkReferences refuses rules that refer to themselves, which could never be decided, and those that refer to others, and these to
// others, so often that a decision would take for ever.
func (s ruleset) checkReferences() error {
	inWork, asks := map[string]bool{}, map[string]int{}
	var visit func(name string, path []string) (int, error)
	visit = func(name string, path []string) (int, error) {
		if inWork[name] {
			return 0, fmt.Errorf("policy rules refer to each other in a circle: %s", strings.Join(append(path, name), " -> "))
		}
		if n, done := asks[name]; done {
			return n, nil
		}
		c, ok := s.checks[name]
		if !ok {
			if name == s.fallback || s.checks[s.fallback] == nil {
				return 1, nil
			}
			return visit(s.fallback, append(path, name))
		}
		inWork[name] = true
		n := 1
		var err error
		c.refers(func(rule string) {
			if err == nil {
				var more int
				more, err = visit(rule, append(path, name))
				n += more
			}
		})
		if err == nil && n > maxReferences {
			err = fmt.Errorf("policy rule %s asks more than %d rules, counting those that they ask: it would take too long to decide", name, maxReferences)
		}
		inWork[name], asks[name] = false, n
		return n, err
	}
	for name := range s.checks {
		if _, err := visit(name, nil); err != nil {
			return err
		}
	}
	return nil
}

// undefined lists the rules that others refer to but that nobody defines: usually a typing error. They stand for the
// fallback, or allow nobody.
func (s ruleset) undefined() []string {
	missing := map[string]bool{}
	for _, c := range s.checks {
		c.refers(func(rule string) {
			if s.checks[rule] == nil {
				missing[rule] = true
			}
		})
	}
	return slices.Sorted(maps.Keys(missing))
}

// Found is the policy file that is there, "" for none.
func (c Config) Found() string { return first(c.File) }

// first is the first of the paths where something is, be it unreadable.
func first(paths []string) string {
	for _, p := range paths {
		if there(p) {
			return p
		}
	}
	return ""
}

func there(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

// found is what there is to read.
type found struct {
	files   []string // in order
	sources []string // the policy file, and the directories that have files
}

// gone is the first of the sources that is there no more, "" for none.
func (f found) gone() string {
	for _, s := range f.sources {
		if !there(s) {
			return s
		}
	}
	return ""
}

// find lists the policy file, if there is one, and the files of the directories by name, hidden ones left out.
func (c Config) find() (f found, err error) {
	if file := c.Found(); file != "" {
		if _, err := os.Stat(file); err != nil {
			return found{}, fmt.Errorf("policy file: %w", err)
		}
		f.files, f.sources = append(f.files, file), append(f.sources, file)
	}
	for _, places := range c.Dirs {
		dir := first(places)
		if dir == "" {
			continue
		}
		entries, err := os.ReadDir(dir) // sorted by name
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return found{}, fmt.Errorf("policy directory: %w", err)
		}
		before := len(f.files)
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if info, err := os.Stat(path); strings.HasPrefix(e.Name(), ".") || err == nil && info.IsDir() {
				continue
			}
			f.files = append(f.files, path)
		}
		if len(f.files) > before {
			f.sources = append(f.sources, dir)
		}
	}
	return f, nil
}
