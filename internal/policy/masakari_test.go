package policy

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// python is Debian's: another one in the path has none of its packages.
const python = "/usr/bin/python3"

//go:embed testdata/masakari_policy.py
var masakariPolicy string

// callers are whom both are asked about. The last has no project.
var callers = []Identity{
	{UserID: "u1", ProjectID: "p1", Roles: []string{"AdMin"}},
	{UserID: "u2", ProjectID: "p1", Roles: []string{"member", "Reader"}},
	{UserID: "u3", ProjectID: "p2", Roles: []string{"service", "load-balancer_admin"}},
	{UserID: "u4", Roles: []string{"reader"}},
}

// TestSameAsMasakari asks the real Masakari (with its own rules, and oslo.policy) about odd policy files, rule by rule and caller by
// caller. refused are those that salvor does not start with, on purpose.
func TestSameAsMasakari(t *testing.T) {
	const index, create = "os_masakari_api:segments:index", "os_masakari_api:notifications:create"
	cases := []struct {
		text    string
		refused bool
	}{
		{text: ""}, {text: "# nothing\n"}, {text: "{}"}, {text: "---\n{} # none\n"}, {text: "\ufeff\"" + index + "\": \"@\"\r\n"},
		{text: index + " : \"!\"\n'" + create + "'  : '@'\n"}, {text: "# old\r" + index + ": '!'\r"},
		{text: index + ": role:reader\n" + index + ": role:service\n"}, {text: "\"" + index + "\": \"\"\n"},
		{text: index + ": not role:ADMIN and (role:reader or role:Service) # so\n"}, {text: index + ": @x:y or role:reader\n", refused: true},
		{text: index + ": role:reader or role:service and role:member\n"}, {text: index + ": not not role:reader OR NOT @ And !:x\n"},
		{text: index + ": >-\n  role:reader\n  or role:service\n"}, {text: index + ": |\n  (role:reader)\n"},
		{text: index + ": role:reader\n  or role:service\n" + create + ": \"role:reader\n  or role:admin\"\n"},
		{text: index + ": rule:nowhere\ndefault: role:reader\n"}, {text: index + ": rule:nowhere or not rule:nowhere\n"},
		{text: index + ": rule:mine\nmine: rule:ours\nours: role:load-balancer_admin\n"},
		{text: "context_is_admin: role:service\n"}, {text: "context_is_admin: is_admin:False\n"}, {text: "context_is_admin: not is_admin:False and role:member\n"}, {text: "admin_api: role:reader or is_admin:true\n"}, {text: index + ": is_admin:false or is_admin:yes\n"},
		{text: index + ": project_id:p1\n" + create + ": user_id:%(user_id)s and not project_id:p1\n"},
		{text: index + ": \"'p2':%(project_id)s or 'u1':%(user_id)s\"\n" + create + ": role:%(user_id)s or tenant_id:%(tenant_id)s\n"},
		{text: index + ": roles:Reader\n" + create + ": roles:READER\n"}, {text: index + ": True:%(nothing)s or tenant:%(project_id)s or user:u1\n"},
		{text: index + ": is_admin_project:True and role:member\n" + create + ": is_admin_project:False\n"},
		{text: index + ": service_roles:service or os_project:p1 or target.user.id:u1\n"}, {text: "os_masakari_api:versions:index: '!'\n"},
		{text: "nobody:asks:for:this: '@'\n"},

		{text: "a: '@'\n" + index + ": !x\n", refused: true}, {text: "- a\n", refused: true}, {text: index + ": '@'\n\t" + create + ": '@'\n", refused: true},
		{text: index + ": ' '\n", refused: true}, {text: index + ":\n", refused: true}, {text: index + ": role:reader role:admin\n", refused: true},
		{text: index + ": [[\"role:reader\"], [\"role:service\", \"project_id:p2\"]]\n", refused: true}, {text: index + ": &x role:reader\n" + create + ": *x\n", refused: true},
		{text: index + ": rule:" + index + "\n", refused: true}, {text: index + ": http://127.0.0.1:1/x\n", refused: true}, {text: "{\"" + index + "\": \"@\"}\n", refused: true},
		{text: index + ": '@'\n...\n" + create + ": '@'\n", refused: true}, {text: index + ": 'role:\xff'\n", refused: true}, {text: index + ": no\n", refused: true},
	}
	dir := t.TempDir()
	files := make([]string, len(cases))
	for i, c := range cases {
		files[i] = write(t, mkdir(t, filepath.Join(dir, string(rune('A'+i%26))+string(rune('a'+i/26)))), "policy.yaml", c.text)
	}
	var taken []string
	for i, c := range cases {
		if !c.refused {
			taken = append(taken, files[i])
		}
	}
	answers := askMasakari(t, taken)
	for i, c := range cases {
		e, err := New(Config{File: []string{files[i]}}, quiet)
		if c.refused != (err != nil) {
			t.Errorf("%q: %v, want a refusal: %v", c.text, err, c.refused)
		}
		if c.refused {
			continue
		}
		says := answers[0]
		answers = answers[1:]
		if err != nil {
			continue
		}
		if says == nil {
			t.Errorf("%q: Masakari does not start with it", c.text)
		}
		for who, said := range says {
			id := e.Identify(callers[who])
			for rule, allowed := range said {
				if rule == "admin_or_owner" && id.ProjectID == "" { // to Masakari no project equals no project
					continue
				}
				if got := e.Allows(rule, id); got != allowed {
					t.Errorf("%q: %s by %s: %v, Masakari says %v", c.text, rule, id.UserID, got, allowed)
				}
			}
		}
	}
}

func mkdir(t *testing.T, dir string) string {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// askMasakari returns for each file and caller what each rule says; nil for a file that it fails with.
func askMasakari(t *testing.T, files []string) []([]map[string]bool) {
	t.Helper()
	type who struct {
		User, Project string
		Roles         []string
	}
	var ask struct {
		Files   []string
		Callers []who
	}
	ask.Files = files
	for _, c := range callers {
		ask.Callers = append(ask.Callers, who{c.UserID, c.ProjectID, c.Roles})
	}
	question, err := json.Marshal(ask)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", masakariPolicy)
	cmd.Stdin = bytes.NewReader(question)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	switch {
	case err == nil:
	case os.Getenv("SALVOR_TEST_ALL") == "" && (errors.Is(err, os.ErrNotExist) || strings.Contains(stderr.String(), "ModuleNotFoundError")):
		t.Skipf("SKIPPED: no Masakari on this machine (masakari-api, python3-oslo.policy): %v", err)
	default:
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var answers []([]map[string]bool)
	if err := json.Unmarshal(out, &answers); err != nil || len(answers) != len(files) {
		t.Fatalf("%v: %d answers for %d files\n%.500s", err, len(answers), len(files), out)
	}
	return answers
}
