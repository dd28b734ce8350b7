package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// FuzzFile: whatever a policy file holds, it is refused by name and line, or it decides. What it decides is what YAML has there,
// and a rule that nobody defined allows nobody.
func FuzzFile(f *testing.F) {
	for _, text := range []string{
		"\"os_masakari_api:segments:index\": \"rule:admin_api or role:reader\" # readers\n",
		"a: role:x\nb: 'not (role:a and rule:a)'\nc: >-\n  role:a\n  or role:b\n---\n",
		"default: \"!\"\ncontext_is_admin: role:%(x)s\nadmin_api: is_admin:True\n",
		"a: rule:b\nb: rule:a\n", "'it''s': \"\\x41\\u0042\"\r\n", "a: ((((@))))", "\"os_masakari_api:segments:index\": rule:nothing", "a: project_id:%(project_id)s or 'x':%(user_id)s",
	} {
		f.Add(text)
	}
	member := Identity{UserID: "m", ProjectID: "p", Roles: []string{"member"}}
	path := filepath.Join(f.TempDir(), "policy.yaml") // a worker runs one at a time
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		e, err := New(Config{File: []string{path}}, quiet)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "policy file "+path+": ") && !strings.Contains(err.Error(), "in a circle") {
				t.Errorf("%q: an error that does not name its file: %v", text, err)
			}
			return
		}
		e.Identify(member)
		entries, err := readFlat(text)
		if err != nil {
			t.Fatalf("%q was read once, and then was not: %v", text, err)
		}
		var same map[string]any
		known := yaml.Unmarshal([]byte(text), &same) == nil
		defined := map[string]bool{}
		for _, rule := range entries {
			defined[rule.key] = true
			if value, isText := same[rule.key].(string); known && isText && strings.Join(strings.Fields(value), " ") != strings.Join(strings.Fields(rule.value), " ") {
				t.Errorf("%q: %s is %q, to YAML %q", text, rule.key, rule.value, value)
			}
		}
		if !defined["default"] && !defined["no such rule"] && e.Allows("no such rule", member) {
			t.Errorf("%q: a rule that is not defined allows", text)
		}
	})
}
