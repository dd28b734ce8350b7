package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExplain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "policy.yaml")
	text := `# who may what
"os_masakari_api:segments:index": "rule:admin_api or role:reader"
os_masakari_api:notifications:create: role:service

os_masakari_api:segmets:index: "@"
mine: rule:nowhere
os_masakari_api:vmoves:index: rule:mine or project_id:7
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		id   Identity
		want map[string]bool
	}{
		{Identity{Roles: []string{"reader"}}, map[string]bool{"os_masakari_api:segments:index": true, "os_masakari_api:segments:create": false,
			"os_masakari_api:versions:index": true, "context_is_admin": false}},
		{Identity{Roles: []string{"ADMIN"}}, map[string]bool{"os_masakari_api:segments:index": true, "os_masakari_api:segments:create": true,
			"os_masakari_api:notifications:create": false, "salvor_api:hosts:confirm-off": true}},
		{Identity{Roles: []string{"x", "service"}, ProjectID: "7"}, map[string]bool{"os_masakari_api:notifications:create": true,
			"os_masakari_api:vmoves:index": true, "os_masakari_api:vmoves:detail": false}},
	}
	for _, tt := range tests {
		answers, findings, err := Explain(Config{File: []string{file}}, tt.id)
		if err != nil {
			t.Fatal(err)
		}
		e, err := New(Config{File: []string{file}}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range answers {
			if want, ok := tt.want[a.Rule]; ok && a.Allowed != want {
				t.Errorf("%v: %+v", tt.id.Roles, a)
			}
			if e.Allows(a.Rule, e.Identify(tt.id)) != a.Allowed {
				t.Errorf("%v: %+v is not what the api would say", tt.id.Roles, a)
			}
			if a.Rule == "os_masakari_api:segments:index" && (a.Source != file+":2" || a.Text != "rule:admin_api or role:reader") ||
				a.Rule == "os_masakari_api:notifications:create" && a.Source != file+":3" || a.Rule == AdminAPI && a.Source != "default" {
				t.Errorf("%+v", a)
			}
		}
		if len(answers) < len(defaults()) {
			t.Errorf("%d answers for %d rules", len(answers), len(defaults()))
		}
		got := strings.Join(findings, "\n")
		if len(findings) != 2 || !strings.Contains(got, file+":5: nobody asks for rule os_masakari_api:segmets:index") || !strings.Contains(got, "rule:nowhere") {
			t.Errorf("findings: %s", got)
		}
	}
	old := filepath.Join(dir, "policy.json")
	if err := os.WriteFile(old, []byte(`{"a": "@"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Explain(Config{File: []string{old}}, Identity{}); err == nil || !strings.Contains(err.Error(), "oslopolicy-convert-json-to-yaml") {
		t.Errorf("JSON: %v", err)
	}
}
