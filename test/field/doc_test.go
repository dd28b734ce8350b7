package field

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// owed are the reports that docs/field.md must answer.
const owed = `F001 F003 F005 F007 F009 F011
	F013 F015 F017 F019 F021 F023 F025 F027 F029 F031 F033 F035 F037 F039 F041 F043 F045
	F047 F049 F051 F069 F071 F073 F075
	F076 F077 F079 F081 F115 F117 F119 F121 F123 F145 F147 F151 F153
	F167 F169 F171 F173 F175 F177 F179 F181
	S01 S02 S03 S04 S05 S06 S07 S08 S09 S10 S11 S12 S13 S14`

var (
	row    = regexp.MustCompile(`^\| ([FS]\d+) \|(.*)\|$`)
	quoted = regexp.MustCompile("`((?:internal|test|cmd|bench)/[a-z/]+)\\.(Test\\w+)(?:/(\\w+))?`")
)

// TestDocNamesRealTests: every report owed has one row, each row a test or a reason, and every test that is named exists.
func TestDocNamesRealTests(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "field.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, sources := map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(page)) {
		m := row.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		id, cells := m[1], strings.Split(m[2], " | ")
		if rows[id] != "" {
			t.Errorf("%s has two rows", id)
		}
		rows[id] = m[2]
		named := quoted.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) != 3 || strings.TrimSpace(cells[2]) == "" {
			t.Errorf("%s has %d cells: %q", id, len(cells), m[2])
		}
		if len(named) == 0 && !strings.Contains(cells[len(cells)-1], "waits") && !strings.Contains(cells[len(cells)-1], "does not apply") {
			t.Errorf("%s names neither a test nor a reason", id)
		}
		if n := strings.Count(m[2], ".Test"); n != len(named) {
			t.Errorf("%s: %d of %d tests are named as `package.TestName`", id, len(named), n)
		}
		for _, test := range named {
			checkTest(t, root, id, sources, test)
		}
	}
	for _, id := range strings.Fields(owed) {
		if rows[id] == "" {
			t.Errorf("%s has no row", id)
		}
	}
	// And the other way round: what is replayed here is told there.
	for _, name := range regexp.MustCompile(`(?m)^func (Test[FS]\d\w+)\(`).FindAllStringSubmatch(source(t, sources, "."), -1) {
		if !strings.Contains(string(page), "`test/field."+name[1]+"`") {
			t.Errorf("%s is not in docs/field.md", name[1])
		}
	}
}

func checkTest(t *testing.T, root, id string, sources map[string]string, test []string) {
	t.Helper()
	folder, name, part := filepath.Join(root, test[1]), test[2], test[3]
	if !strings.Contains(source(t, sources, folder), "\nfunc "+name+"(") {
		t.Errorf("%s: there is no %s in %s", id, name, test[1])
	}
	if part != "" { // of the suite that all stores pass
		suite := source(t, sources, filepath.Join(root, "internal", "store", "storetest"))
		if !strings.Contains(suite, `{"`+part+`", `) {
			t.Errorf("%s: the suite of the stores has no %s", id, part)
		}
	}
}

// source is the text of a folder's tests; of a suite that is a package of its own, of all its files.
func source(t *testing.T, known map[string]string, folder string) string {
	t.Helper()
	if text, ok := known[folder]; ok {
		return text
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	var all strings.Builder
	for _, f := range files {
		if !strings.HasSuffix(f, "_test.go") && filepath.Base(folder) != "storetest" {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	known[folder] = all.String()
	return known[folder]
}
