package policy

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func enforcer(t *testing.T, cfg Config) *Enforcer {
	t.Helper()
	e, err := New(cfg, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// write puts text into a file of the directory and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaults(t *testing.T) {
	e := enforcer(t, Config{File: []string{filepath.Join(t.TempDir(), "absent.yaml")}, Dirs: [][]string{{filepath.Join(t.TempDir(), "absent.d")}}})
	admin := e.Identify(Identity{UserID: "a", Roles: []string{"Admin"}})
	member := e.Identify(Identity{UserID: "m", Roles: []string{"member", "reader", "service"}})
	if !admin.IsAdmin || member.IsAdmin {
		t.Fatalf("admin: %v, member: %v", admin.IsAdmin, member.IsAdmin)
	}
	for _, rule := range []string{
		"os_masakari_api:segments:index", "os_masakari_api:segments:delete", "os_masakari_api:os-hosts:create",
		"os_masakari_api:notifications:create", "os_masakari_api:vmoves:detail", "os_masakari_api:extensions:discoverable",
		"salvor_api:recoveries:cancel", "salvor_api:hosts:confirm-off",
	} {
		if !e.Allows(rule, admin) || e.Allows(rule, member) {
			t.Errorf("%s: admin %v, member %v", rule, e.Allows(rule, admin), e.Allows(rule, member))
		}
	}
	if !e.Allows("os_masakari_api:versions:discoverable", member) {
		t.Error("anybody may discover versions")
	}
	if e.Allows("os_masakari_api:no:such", admin) {
		t.Error("an unknown rule allows nobody")
	}
}

func TestLanguage(t *testing.T) {
	id := Identity{UserID: "u1", ProjectID: "p1", DomainID: "", Roles: []string{"Service", "ops"}}
	for expression, want := range map[string]bool{
		"":                      true,
		"@":                     true,
		"!":                     false,
		"role:service":          true,
		"role:SERVICE":          true,
		"role:admin":            false,
		"not role:admin":        true,
		"NOT role:ops":          false,
		"role:ops and role:x":   false,
		"role:x or role:ops":    true,
		"@ or ! and !":          true, // and binds more closely
		"(@ or !) and !":        false,
		"not ! and !":           false,
		"not (! and !)":         true,
		"((@))":                 true,
		"not not @":             true,
		"is_admin:True":         false,
		"is_admin:False":        true,
		"rule:me":               true,
		"rule:nothing":          false,
		"user_id:%(user_id)s":   true,
		"project_id:p1":         true,
		"project_id:p2":         false,
		"roles:ops":             true,
		"'p1':%(project_id)s":   true,
		"'x':%(project_id)s":    false,
		"\"p1\":%(project_id)s": true,
		"True:%(enabled)s":      false, // no such target
		"domain_id:%(domain)s":  false,
		"system_scope:":         false, // absent is equal to nothing
		"unheard_of:x":          false,
		"is_admin_project:True": true, // to Masakari each is one
		"tenant:%(project_id)s": false,
		"1:1":                   true,
		"role:%(user_id)s":      false,
	} {
		c, err := parse(expression)
		if err != nil {
			t.Errorf("%q: %v", expression, err)
			continue
		}
		rules := ruleset{checks: map[string]check{"me": credential{"user_id", "u1"}}}
		if got := c.allows(question{id: id, target: id.target(), rules: rules}); got != want {
			t.Errorf("%q: %v, want %v", expression, got, want)
		}
	}
}

func TestLanguageRefuses(t *testing.T) {
	for _, expression := range []string{
		"admin", "role:a role:b", "role:a and", "or role:a", "(role:a", "role:a)", "()", "not", "and", ":x",
		"http://policy/check", "https:x", "role:%s", "role:%(x)d", strings.Repeat("(", 200) + "@" + strings.Repeat(")", 200),
		"[]", "role:a, role:b", " ", "\t \n",
	} {
		if c, err := parse(expression); err == nil {
			t.Errorf("%q is read as %#v, want a refusal", expression, c)
		}
	}
}

func TestReadFlat(t *testing.T) {
	text := strings.Join([]string{
		"# operators' file",
		"---",
		`"a": "role:x"  # why`,
		`os_masakari_api:segments:index: rule:admin_api or role:reader # readers`,
		`'it''s': 'not role:x'`,
		`multi: role:a`,
		`  or role:b`,
		``,
		`"quoted": "role:a or`,
		`  role:\"b\""`,
		`folded: >-`,
		`  role:a`,
		`  or role:b`,
		`next:`,
		`  # a remark`,
		`  "@"`,
		`empty: ""`,
		"crlf: '!'\r",
	}, "\n")
	got, err := readFlat(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []entry{
		{"a", "role:x", 3},
		{"os_masakari_api:segments:index", "rule:admin_api or role:reader", 4},
		{"it's", "not role:x", 5},
		{"multi", "role:a or role:b", 6},
		{"quoted", `role:a or role:"b"`, 9},
		{"folded", "role:a or role:b", 11},
		{"next", "@", 14},
		{"empty", "", 17},
		{"crlf", "!", 18},
	}
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d: %v", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("entry %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

// TestNamesAsYAMLReadsThem: a rule under a name that differs from what is meant by a blank or a mark has no effect, and what it
// was to forbid stays allowed.
func TestNamesAsYAMLReadsThem(t *testing.T) {
	for text, want := range map[string]string{
		"name : '!'":              "name",
		"'name'  : '!'":           "name",
		"name  : # so\n  '!'":     "name",
		"name :\n  '!'":           "name",
		"\ufeffname: '!'":         "name",
		"# first\rname: '!'\r":    "name",
		"\ufeff\"a:b\" : '!'\r\n": "a:b",
	} {
		got, err := readFlat(text)
		if err != nil || len(got) != 1 || got[0].key != want || got[0].value != "!" {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"{}", "---\n{} # none\n", "\ufeff{}\r\n# nothing", "", "# only\n---\n..."} {
		if got, err := readFlat(text); err != nil || len(got) != 0 {
			t.Errorf("%q: %v, %v; want no rules", text, got, err)
		}
	}
}

func TestReadFlatRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"{\"a\": \"@\"}":      "line 1: this is JSON",
		"[a]":                 "line 1: this is JSON",
		"a: '@'\nb: !":        "line 2: an expression that begins with \"!\" must be in quotes",
		"a: @":                "line 1: an expression that begins with \"@\" must be in quotes",
		"a:":                  "line 1: a rule without an expression",
		"a: # nothing\nb: x":  "line 1: a rule without an expression",
		"a: [role:x]":         "line 1: lists and mappings",
		"- a":                 "line 1: \"-\" does not begin",
		"a\n":                 "line 1: no colon",
		"a: 'x":               "line 1: the quotes are not closed",
		"a: \"\\q\"":          "line 1: the quotes are not closed, or an escape",
		"a: 'x' y":            "line 1: \"y\" behind the closing quote",
		"  a: x":              "line 1: indented",
		"a: x\n---\nb: y":     "line 2: a second document",
		"a: role:x: y":        "line 1: a colon and a blank inside",
		"'a' : 'x'\n'b'x: y":  "line 2: a colon and a blank must follow",
		"a: |x\n  y":          "line 1: \"|x\" is no head",
		"a: >-\n\nb: '@'":     "line 1: a rule without an expression",
		"a: '@'\n...\nb: '!'": "line 3: behind the end",
		"{}\na: '@'":          "line 2: after {}",
		"a: '@'\nb: '\xff'":   "line 2: not UTF-8",
		"a: &x role:y":        "line 1: anchors and aliases",
	} {
		if _, err := readFlat(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestFilesOverrideInOrder(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "policy.yaml", "a: role:x\nb: role:x\n\"os_masakari_api:segments:index\": \"role:reader\"\n")
	sub := filepath.Join(dir, "policy.d")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, sub, "20.yaml", "b: '!'")
	write(t, sub, "10.yaml", "b: role:y")
	write(t, sub, ".swap", "not yaml at all")
	e := enforcer(t, Config{File: []string{file}, Dirs: [][]string{{sub}}})
	x := Identity{Roles: []string{"x", "y"}}
	if !e.Allows("a", x) || e.Allows("b", x) {
		t.Errorf("a: %v, b: %v; the last file wins", e.Allows("a", x), e.Allows("b", x))
	}
	if !e.Allows("os_masakari_api:segments:index", Identity{Roles: []string{"reader"}}) {
		t.Error("the file's rule does not replace the default")
	}
}

func TestDefaultRule(t *testing.T) {
	file := write(t, t.TempDir(), "policy.yaml", "mine: role:x")
	e := enforcer(t, Config{File: []string{file}, DefaultRule: "mine"})
	if !e.Allows("nobody:defined:this", Identity{Roles: []string{"x"}}) {
		t.Error("policy_default_rule does not stand in")
	}
}

func TestUnusableFiles(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{
		"policy.json": "oslopolicy-convert-json-to-yaml",
		"circle.yaml": "circle",
		"broken.yaml": "line 2: rule b: ",
		"http.yaml":   "no other server",
	} {
		text := map[string]string{
			"policy.json": `{"a": "@"}`, "circle.yaml": "a: rule:b\nb: not rule:a", "broken.yaml": "a: '@'\nb: 'role:x and'",
			"http.yaml": "a: http://x/y",
		}[name]
		_, err := New(Config{File: []string{write(t, dir, name, text)}}, quiet)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// Rules that double at each step are refused: a decision would take for ever.
func TestRulesThatGrow(t *testing.T) {
	var text strings.Builder
	for i := range 60 {
		fmt.Fprintf(&text, "r%d: rule:r%d and not rule:r%d\n", i, i+1, i+1)
	}
	_, err := New(Config{File: []string{write(t, t.TempDir(), "policy.yaml", text.String()+"r60: role:x\n")}}, quiet)
	if err == nil || !strings.Contains(err.Error(), "asks more than 100000 rules") {
		t.Errorf("%v", err)
	}
	wide := "a: role:x\nb: " + strings.Repeat("rule:a or ", 10000) + "rule:a\n"
	e := enforcer(t, Config{File: []string{write(t, t.TempDir(), "policy.yaml", wide)}})
	if e.Allows("b", Identity{}) || !e.Allows("b", Identity{Roles: []string{"x"}}) {
		t.Error("a long rule is not decided")
	}
}

// A JSON file without rules, as deployment tools leave it, loses none.
func TestJSONWithoutRules(t *testing.T) {
	for _, text := range []string{"{}", " {\n}\n", ""} {
		e := enforcer(t, Config{File: []string{write(t, t.TempDir(), "policy.json", text)}})
		if !e.Identify(Identity{Roles: []string{"admin"}}).IsAdmin {
			t.Errorf("%q: not the defaults", text)
		}
	}
}

func TestReadAgainOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file := write(t, dir, "policy.yaml", "a: role:x")
		e := enforcer(t, Config{File: []string{file}})
		x := Identity{Roles: []string{"x"}}
		step := func(text string, want bool) {
			t.Helper()
			write(t, dir, "policy.yaml", text)
			time.Sleep(checkEvery)
			if got := e.Allows("a", x); got != want {
				t.Errorf("after %q: %v, want %v", text, got, want)
			}
		}
		step("a: role:other", false)
		step("a: role:x or role:y", true)
		step("a: 'not readable", true) // the old rules stay
		step("a: '!' ", false)
	})
}

// TestUnusableWhileRunning: what cannot be read, or is gone, leaves the rules as they were, is said once, and is read as soon as it can be.
func TestUnusableWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "policy.yaml")
		var log strings.Builder
		e, err := New(Config{File: []string{file}}, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		admin := Identity{Roles: []string{"admin"}}
		is := func(what string, want bool, lines int) {
			t.Helper()
			for range 3 {
				time.Sleep(checkEvery)
				if got := e.Identify(admin).IsAdmin; got != want {
					t.Errorf("%s: admin %v, want %v", what, got, want)
				}
			}
			if got := strings.Count(log.String(), "\n"); got != lines {
				t.Errorf("%s: %d lines, want %d\n%s", what, got, lines, log.String())
			}
		}
		is("no file", true, 0)
		write(t, dir, "policy.yaml", "context_is_admin: role:boss")
		is("it comes", false, 1)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		is("it is gone", false, 2)
		write(t, dir, "policy.yaml", "context_is_admin: role:chief")
		is("it is back", false, 3)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(file, 0o700); err != nil {
			t.Fatal(err)
		}
		is("a directory stands there", false, 4)
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"role:a and (not rule:b or @)", "'x':%(project_id)s", "((", "not not !", "% %%"} {
		f.Add(s)
	}
	id := Identity{UserID: "u", ProjectID: "p", Roles: []string{"r"}}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := parse(s)
		if err != nil {
			return
		}
		c.allows(question{id: id, target: id.target(), rules: ruleset{checks: map[string]check{}}})
	})
}

func FuzzReadFlat(f *testing.F) {
	for _, s := range []string{"a: b", "'a': \"b\\\"\"\n", "a: |\n  b\n", "a:\n  b\n  c # d", "---\na: '\n  b'", "\"a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		entries, err := readFlat(s)
		if err != nil && !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("%q: the error names no line: %v", s, err)
		}
		for _, e := range entries {
			if e.line < 1 || e.line > strings.Count(s, "\n")+1 {
				t.Errorf("%q: entry %+v has no line of the text", s, e)
			}
		}
	})
}

// TestFilesThatComeLater: a policy file, or a directory, counts from when it is made, wherever it may be, as with oslo.policy.
func TestFilesThatComeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := t.TempDir(), t.TempDir()
		in := func(name string) []string { return []string{filepath.Join(first, name), filepath.Join(second, name)} }
		e := enforcer(t, Config{File: in("policy.yaml"), Dirs: [][]string{in("policy.d")}})
		x := Identity{Roles: []string{"x"}}
		is := func(what string, want bool) {
			t.Helper()
			time.Sleep(checkEvery)
			if got := e.Allows("a", x); got != want {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		is("no file", false)
		write(t, second, "policy.yaml", "a: role:x")
		is("a file in the second place", true)
		write(t, first, "policy.yaml", "a: '!'")
		is("one in the first, which counts before it", false)
		if err := os.Remove(filepath.Join(first, "policy.yaml")); err != nil {
			t.Fatal(err)
		}
		is("which is gone: the rules stay", false)
		write(t, first, "policy.yaml", "b: '!'")
		is("it is back and says nothing of it", false)
		if err := os.Mkdir(filepath.Join(second, "policy.d"), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(second, "policy.d"), "a.yaml", "a: role:x")
		is("a directory", true)
		if err := os.Rename(filepath.Join(second, "policy.d"), filepath.Join(second, "away")); err != nil {
			t.Fatal(err)
		}
		is("the whole directory is gone: the rules stay", true)
		write(t, first, "policy.yaml", "c: '!'")
		is("also when the file changes", true)
		if err := os.Rename(filepath.Join(second, "away"), filepath.Join(second, "policy.d")); err != nil {
			t.Fatal(err)
		}
		is("it is back", true)
		if err := os.Remove(filepath.Join(second, "policy.d", "a.yaml")); err != nil {
			t.Fatal(err)
		}
		is("its one file was taken out", false)
		if err := os.Remove(filepath.Join(second, "policy.d")); err != nil {
			t.Fatal(err)
		}
		write(t, first, "policy.yaml", "a: role:x")
		is("an empty directory is missed by nobody", true)
	})
}
