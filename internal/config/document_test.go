package config

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:generate go test -run TestDocuments -update .

var update = flag.Bool("update", false, "write the generated documents anew")

// TestDocuments holds the documents in step with the table.
func TestDocuments(t *testing.T) {
	for name, want := range map[string]string{"configuration.md": Reference(), "masakari.conf.sample": Sample()} {
		path := filepath.Join("..", "..", "docs", "reference", name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is not what the table says: run \"make generate\"\n%s", path, diff)
		}
	}
}

// TestSampleIsTheDefaults: the sample, with every option uncommented, says what no file at all says.
func TestSampleIsTheDefaults(t *testing.T) {
	lines := regexp.MustCompile(`(?m)^#([a-z_]+ = .*)$`)
	text := lines.ReplaceAllString(Sample(), "$1")
	text = regexp.MustCompile(`(?m)^(host|notification_driver) = $`).ReplaceAllString(text, "")
	dir := write(t, map[string]string{"sample.conf": text})
	got, warnings, err := Load(Sources{Files: []string{filepath.Join(dir, "sample.conf")}, SearchDirs: []string{}})
	if err != nil || len(warnings) != 0 {
		t.Fatal(warnings, err)
	}
	want, _, err := Load(Sources{SearchDirs: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	if !got.IsSet("salvor", "force_down") {
		t.Fatal("the sample was not read")
	}
	if diff := cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool {
		name := p.Last().String()
		return name == ".settings" || name == ".index" || name == ".dirs"
	}, cmp.Ignore()), cmp.AllowUnexported(Config{})); diff != "" {
		t.Errorf("(-no file +sample)\n%s", diff)
	}
}

// TestTableIsSound: no name twice, nothing acting without a word of help, no alias that hides an option.
func TestTableIsSound(t *testing.T) {
	seen := map[[2]string]bool{}
	for _, o := range Options() {
		key := [2]string{o.Group, o.Name}
		if seen[key] {
			t.Errorf("[%s] %s is defined twice", o.Group, o.Name)
		}
		seen[key] = true
		if !o.Ignored && (o.Help == "" || !strings.HasSuffix(o.Help, ".")) {
			t.Errorf("[%s] %s has no help, or no full sentence", o.Group, o.Name)
		}
	}
	for _, o := range Options() {
		for _, a := range o.Aliases {
			g, n := o.aliasOf(a)
			if seen[[2]string{g, n}] && !(g == o.Group && n == o.Name) {
				t.Errorf("alias %s of [%s] %s is an option of its own", a, o.Group, o.Name)
			}
		}
	}
}

// TestKnowsMasakarisOptions: every option that Masakari 14.0.2 and its libraries register is known.
func TestKnowsMasakarisOptions(t *testing.T) {
	data, err := os.ReadFile("testdata/masakari-options.txt")
	if err != nil {
		t.Fatal(err)
	}
	l := loader{options: Options()}
	l.indexOptions()
	for line := range strings.Lines(string(data)) {
		group, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			t.Fatalf("%q", line)
		}
		if _, known := l.known[[2]string{group, name}]; !known && !closedGroups[group] {
			t.Errorf("[%s] %s is unknown", group, name)
		}
	}
}

// TestExamplesInDocuments: what the documents print loads as it stands there, without a word about it, and no value has a comment in it.
func TestExamplesInDocuments(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^```ini\n(.*?)^```|^(    \\[[a-z_A-Z]+\\][^\n]*\n(?:(?:    [^\n]*)?\n)*)")
	n := 0
	for _, path := range append(paths, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			example := m[1] + regexp.MustCompile(`(?m)^    `).ReplaceAllString(m[2], "")
			if strings.Contains(example, "[Unit]") { // systemd's
				continue
			}
			n++
			if _, warnings, err := loadText(t, example); err != nil || len(warnings) != 0 {
				t.Errorf("%s: %v %v\n%s", path, warnings, err, example)
			}
			if bad := regexp.MustCompile(`(?m)^[^#\n].* #.*$`).FindString(example); bad != "" {
				t.Errorf("%s: the comment would be a part of the value: %s", path, bad)
			}
		}
	}
	if n < 4 {
		t.Errorf("%d examples were found: there are more", n)
	}
}
