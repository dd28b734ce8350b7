package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// resolve interpolates the option's text. References are looked up in the option's own group, then in [DEFAULT].
func (l *loader) resolve(o *Option) ([]string, error) {
	v := l.lookup(o)
	if v.done {
		return v.resolved, v.err
	}
	if v.busy {
		return nil, errors.New("the reference leads back to itself")
	}
	v.busy = true
	added := 0
	for _, t := range v.texts {
		text, err := interpolate(t, func(group, name string) (string, error) { return l.reference(o.Group, group, name) })
		if added += len(text) - len(t); err == nil && added > maxExpanded {
			err = errExpanded
		}
		if err != nil {
			v.err = err
			if o.Secret { // the reference may be a part of it
				v.err = errors.New("holds a $ that refers to no option; write $$ for a dollar sign")
			}
			break
		}
		v.resolved = append(v.resolved, text)
	}
	v.busy, v.done = false, true
	return v.resolved, v.err
}

func (l *loader) reference(own, group, name string) (string, error) {
	groups := []string{own, groupDefault}
	if group != "" {
		groups = []string{normalGroup(group)}
	}
	for _, g := range groups {
		i, ok := l.known[[2]string{g, name}]
		if !ok || l.options[i].Group != g || l.options[i].Name != name {
			continue // an older name is none to refer to
		}
		texts, err := l.resolve(&l.options[i])
		if err != nil || len(texts) == 0 {
			return "", err
		}
		return texts[len(texts)-1], nil
	}
	return "", errors.New("refers to no option; write $$ for a dollar sign")
}

// apply reads every option into c and lists the settings.
func (l *loader) apply(c *Config) []error {
	var failures []error
	for i := range l.options {
		o := &l.options[i]
		texts, err := l.resolve(o)
		v := l.lookup(o)
		if err == nil && o.number && blank(texts) {
			texts = []string{o.Default} // an empty number is an unset one, as in oslo.config
		}
		if err == nil && o.store != nil && !(o.number && blank(texts)) {
			err = o.store(c, texts)
		}
		if o.Ignored {
			err = nil
		}
		if err != nil {
			expected := err.Error()
			if slices.ContainsFunc(v.texts, func(text string) bool { return strings.Contains(text, " #") }) {
				expected += "; " + ownLine
			}
			failures = append(failures, &ValueError{Source: v.source, Group: o.Group, Option: o.Name,
				Value: o.show(v.texts), Expected: expected})
			continue
		}
		c.index[[2]string{o.Group, o.Name}] = len(c.settings)
		seen := o.mask(texts)
		c.settings = append(c.settings, Setting{Group: o.Group, Option: o.Name, Value: strings.Join(seen, ", "), Source: v.source,
			Set: v.set, Ignored: o.Ignored, Mutable: o.Mutable, text: NewSecret(strings.Join(texts, "\n")), texts: seen, masked: !slices.Equal(seen, texts)})
	}
	return failures
}

func blank(texts []string) bool {
	return len(texts) > 0 && strings.TrimSpace(texts[len(texts)-1]) == ""
}

// finish checks what no option can check alone, and fills in what one takes from another.
func (c *Config) finish() []error {
	if c.Notifications.TransportURL.IsZero() {
		c.Notifications.TransportURL = c.transport
	}
	var failures []error
	clash := func(option, value, expected string) {
		failures = append(failures, &ValueError{Source: c.sourceOf("salvor", option), Group: "salvor", Option: option,
			Value: value, Expected: expected})
	}
	s := &c.Salvor
	if s.LeaseTick > 0 && s.LeaseTTL > 0 && 3*s.LeaseTick > s.LeaseTTL {
		clash("lease_tick", seconds64(s.LeaseTick), fmt.Sprintf("expected at most a third of lease_ttl (%s)", seconds64(s.LeaseTTL)))
	}
	return failures
}

func seconds64(d time.Duration) string { return fmt.Sprintf("%v", d.Seconds()) }

// warnUnknown names what has no effect because nothing is called so.
func (l *loader) warnUnknown() {
	groups, names := l.groups()
	told := map[string]bool{}
	for _, f := range l.files {
		for _, a := range f.found {
			if _, ok := l.known[[2]string{a.group, a.name}]; ok || closedGroups[a.group] {
				continue
			}
			w := Warning{File: f.path, Line: a.line, Group: a.group, Option: a.name}
			if names[a.group] == nil {
				if told[a.group] {
					continue
				}
				told[a.group] = true
				w.Option = ""
				w.Text = fmt.Sprintf("group [%s] is unknown and has no effect%s", a.group, didYouMean(a.group, groups))
			} else {
				w.Text = fmt.Sprintf("option %s in group [%s] is unknown and has no effect%s", a.name, a.group,
					l.hint(a.group, a.name, names[a.group]))
			}
			l.warnings = append(l.warnings, w)
		}
	}
	l.warnEnv(groups, names)
}

// warnComments names the values that a comment seems to stand behind: it is a part of them. Those that cannot be taken say so themselves.
func (l *loader) warnComments(failures []error) {
	failed := map[string]bool{}
	for _, err := range failures {
		if bad := (*ValueError)(nil); errors.As(err, &bad) {
			failed[bad.Source] = true
		}
	}
	for _, f := range l.files {
		for _, a := range f.found {
			i, ok := l.known[[2]string{a.group, a.name}]
			if !a.comment || !ok || l.options[i].Ignored || failed[place(f.path, a.line)] {
				continue
			}
			l.warnings = append(l.warnings, Warning{File: f.path, Line: a.line, Group: a.group, Option: a.name,
				Text: fmt.Sprintf("the # in option %s of group [%s], and what follows it, are part of the value; %s", a.name, a.group, ownLine),
				Do:   "put the comment on a line of its own; if it is none, put the value in quotes"})
		}
	}
}

// hint says what may have been meant: a near name in the group, or the very name in another.
func (l *loader) hint(group, name string, inGroup []string) string {
	for _, o := range l.options {
		if o.Name == name && o.Group != group {
			return fmt.Sprintf(" (it belongs into [%s])", o.Group)
		}
	}
	return didYouMean(name, inGroup)
}

func (l *loader) warnEnv(groups []string, names map[string][]string) {
	for _, e := range l.env {
		name, _, _ := strings.Cut(e, "=")
		rest, ok := strings.CutPrefix(name, "OS_")
		g, option, two := strings.Cut(rest, "__")
		if !ok || !two {
			continue
		}
		at := slices.IndexFunc(groups, func(x string) bool { return strings.ToUpper(x) == g })
		if at < 0 || closedGroups[groups[at]] {
			continue
		}
		group := groups[at]
		if slices.ContainsFunc(names[group], func(n string) bool { return strings.ToUpper(n) == option }) {
			continue
		}
		l.warnings = append(l.warnings, Warning{File: "environment", Group: group, Option: strings.ToLower(option),
			Text: fmt.Sprintf("variable %s names no option of group [%s]%s", name, group,
				didYouMean(strings.ToLower(option), names[group]))})
	}
}

func (l *loader) groups() (groups []string, names map[string][]string) {
	names = map[string][]string{}
	for _, o := range l.options {
		if names[o.Group] == nil {
			groups = append(groups, o.Group)
		}
		names[o.Group] = append(names[o.Group], o.Name)
	}
	return groups, names
}
