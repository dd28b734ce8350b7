package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/config"
)

var (
	spans   = regexp.MustCompile("`[^`\n]+`")
	comment = regexp.MustCompile(`(^|\s)#.*`)
	joints  = regexp.MustCompile(`\|\||&&|[|;()]`)
	options = regexp.MustCompile(`\[(DEFAULT|[a-z_0-9]+)\] ([a-z_]{3,})`)
)

// codeOf are the pieces of code of a page: its spans, and the lines of its blocks.
func codeOf(page string) []string {
	var code []string
	fenced := false
	for line := range strings.Lines(page) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
		case fenced, strings.HasPrefix(line, "    "):
			code = append(code, joints.Split(comment.ReplaceAllString(line, ""), -1)...)
		default:
			for _, span := range spans.FindAllString(line, -1) {
				code = append(code, joints.Split(strings.Trim(span, "`"), -1)...)
			}
		}
	}
	return code
}

// TestDocumentsNameWhatIsThere: commands, their flags, and options that the pages name.
func TestDocumentsNameWhatIsThere(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatal(pages, err)
	}
	known, groups := map[string]bool{}, map[string]bool{}
	for _, o := range config.Options() {
		known[o.Group+" "+o.Name], groups[o.Group] = true, true
	}
	root := newRoot(Env{Stderr: io.Discard})
	named := 0
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md") {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range codeOf(string(raw)) {
			words := strings.Fields(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(code), "$ "), "./"))
			if len(words) > 1 && words[0] == "salvor" {
				named++
				checkWords(t, root, filepath.Base(page), words[1:])
			}
		}
		for _, o := range options.FindAllStringSubmatch(string(raw), -1) {
			if groups[o[1]] && !known[o[1]+" "+o[2]] {
				t.Errorf("%s: there is no option %s", filepath.Base(page), o[0])
			}
		}
	}
	if named < 150 {
		t.Errorf("only %d commands were found", named)
	}
}

// TestContributingNamesEveryPackage: a package that is not in the table cannot be found by it.
func TestContributingNamesEveryPackage(t *testing.T) {
	page, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	packages, err := filepath.Glob("../*")
	if err != nil || len(packages) < 20 {
		t.Fatal(packages, err)
	}
	for _, p := range packages {
		if name := "`internal/" + filepath.Base(p) + "`"; !strings.Contains(string(page), name) {
			t.Errorf("CONTRIBUTING.md does not say what %s is", name)
		}
	}
}

func checkWords(t *testing.T, root *cobra.Command, page string, words []string) {
	t.Helper()
	c, rest, err := root.Find(words)
	if err != nil || c == root && !strings.HasPrefix(words[0], "-") {
		if strings.Join(words, "") != strings.ToLower(strings.Join(words, "")) || strings.ContainsAny(words[0], ".:/=,@*") { // a name of something else
			return
		}
		t.Errorf("%s: there is no command %q", page, strings.Join(words, " "))
		return
	}
	if len(rest) > 0 && c.HasSubCommands() && c.Name() != "engine" && c.Name() != "agent" && !strings.HasPrefix(rest[0], "-") {
		t.Errorf("%s: %s has no command %q", page, c.CommandPath(), rest[0])
	}
	for _, word := range rest {
		name, long := strings.CutPrefix(word, "--")
		if name, _, _ = strings.Cut(name, "="); long && name != "" && name != "help" && c.Flag(strings.TrimRight(name, ",.")) == nil {
			t.Errorf("%s: %s has no option --%s", page, c.CommandPath(), name)
		}
	}
}
