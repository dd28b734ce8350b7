package config

import (
	"fmt"
	"slices"
	"strings"
)

// Sample is masakari.conf with every option that acts, commented out, at its default.
func Sample() string {
	var b strings.Builder
	b.WriteString("# masakari.conf for salvor. Every option that has an effect, at its default.\n" +
		"# Options of Masakari that are not here are accepted and have no effect.\n")
	for _, g := range grouped() {
		acting := g.acting()
		if len(acting) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n[%s]\n", g.name)
		for _, o := range acting {
			b.WriteString("\n")
			for _, line := range wrap(o.Help+note(o), 98) {
				b.WriteString("# " + line + "\n")
			}
			b.WriteString("# Type: " + o.Type + ".")
			if o.Shown != "" {
				b.WriteString(" Default: " + o.Shown + ".")
			}
			fmt.Fprintf(&b, "\n#%s = %s\n", o.Name, o.sampleDefault())
		}
	}
	return b.String()
}

func (o Option) sampleDefault() string {
	if o.Shown != "" && !strings.Contains(o.Default, "$") {
		return ""
	}
	return o.Default
}

func note(o Option) string {
	switch {
	case o.Mutable:
		return " A running process takes a change over when it reads its configuration again."
	case o.Secret:
		return " It is never shown."
	}
	return ""
}

// Reference is the page docs/reference/configuration.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceIntro)
	for _, g := range grouped() {
		fmt.Fprintf(&b, "\n## [%s]\n", g.name)
		if acting := g.acting(); len(acting) > 0 {
			b.WriteString("\n| option | type | default | meaning |\n| --- | --- | --- | --- |\n")
			for _, o := range acting {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", o.Name, cell(o.Type), o.referenceDefault(), cell(o.Help+note(o)+older(o)))
			}
		}
		g.writeIgnored(&b)
	}
	b.WriteString("\n## Groups without effect\n\nAccepted whole, and their options not looked at: ")
	b.WriteString(strings.Join(closedGroupNames(), ", ") + ".\n")
	return b.String()
}

const referenceIntro = `# Configuration

<!-- Generated from internal/config by "make generate"; do not edit. -->

salvor reads ` + "`masakari.conf`" + ` as Masakari does, with oslo.config's syntax: several ` + "`--config-file`" + ` and ` +
	"`--config-dir`" + `,
else the first of ` + "`~/.masakari/masakari.conf`, `~/masakari.conf`, `/etc/masakari/masakari.conf`, `/etc/masakari.conf`" + `
and, after it, the files of the first directory ` + "`masakari.conf.d`" + ` of the same places. Later files win, in the order of the command line. The
environment wins over files: ` + "`OS_<GROUP>__<OPTION>`" + `, such as ` + "`OS_DATABASE__CONNECTION`" + `. ` + "`$option`, `$group.option`" + `
and ` + "`${…}`" + ` stand for other options, ` + "`$$`" + ` for a dollar sign. Nothing is needed to start: without a file, salvor keeps its
rows in an embedded database under ` + "`state_path`" + `.

With SIGHUP a running process reads its configuration again, and takes the options over that say so below; the others wait for a
restart, and the log names them. Files that options name (certificates, keys, fencing_file) are read at the start, unless it is said
otherwise.

An unknown option is a warning that names file, line and the nearest known name. A value of the wrong type or
out of bounds is an error that says what is expected, and salvor does not start.
`

func (o Option) referenceDefault() string {
	switch {
	case o.Shown != "":
		return cell(o.Shown)
	case o.Default == "":
		return ""
	default:
		return "`" + cell(o.Default) + "`"
	}
}

func older(o Option) string {
	var names []string
	for _, a := range o.Aliases {
		if g, n, ok := strings.Cut(a, "/"); ok {
			names = append(names, fmt.Sprintf("`[%s] %s`", g, n))
		} else {
			names = append(names, "`"+a+"`")
		}
	}
	if names == nil {
		return ""
	}
	return " Older: " + strings.Join(names, ", ") + "."
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

type optionGroup struct {
	name    string
	options []Option
}

func grouped() []*optionGroup {
	var all []*optionGroup
	byName := map[string]*optionGroup{}
	for _, o := range Options() {
		g := byName[o.Group]
		if g == nil {
			g = &optionGroup{name: o.Group}
			byName[o.Group] = g
			all = append(all, g)
		}
		g.options = append(g.options, o)
	}
	return all
}

func (g *optionGroup) acting() []Option {
	var all []Option
	for _, o := range g.options {
		if !o.Ignored {
			all = append(all, o)
		}
	}
	return all
}

// writeIgnored lists the options without effect, those with a reason first.
func (g *optionGroup) writeIgnored(b *strings.Builder) {
	var explained, bare []string
	for _, o := range g.options {
		switch {
		case !o.Ignored:
		case o.Help != "":
			explained = append(explained, fmt.Sprintf("`%s` (%s)", o.Name, o.Help))
		default:
			bare = append(bare, "`"+o.Name+"`")
		}
	}
	if all := slices.Concat(explained, bare); len(all) > 0 {
		b.WriteString("\nAccepted, without effect: ")
		b.WriteString(strings.Join(all, ", ") + ".\n")
	}
}

// wrap breaks text at blanks into lines of at most width characters.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
