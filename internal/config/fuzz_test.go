package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzLoad: whatever a file holds, Load returns; each error names the file; an assignment never comes from nowhere.
func FuzzLoad(f *testing.F) {
	data, err := os.ReadFile("testdata/oslo.json")
	if err != nil {
		f.Fatal(err)
	}
	var cases []osloCase
	if err := json.Unmarshal(data, &cases); err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		f.Add(c.Text)
	}
	f.Add("[DEFAULT]\nlog_dir=${log_file}\nlog_file=$log_dir$$\n[keystone_authtoken]\nauth_section=$x\n")
	f.Add(Sample())
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "f.conf")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _, err := Load(Sources{Files: []string{path}, SearchDirs: []string{}})
		if err == nil {
			c.Effective()
			_, _ = ParseDatabaseURL(c.Database.Connection)
			_, _ = ParseTransportURL(c.Notifications.TransportURL)
			return
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if strings.HasPrefix(line, "/") && !strings.HasPrefix(line, path) {
				t.Errorf("an error of another file: %q", line)
			}
		}
		found, err := parse("f", text)
		if err != nil {
			return
		}
		for _, a := range found {
			if a.group == "" || a.name == "" || a.line < 1 {
				t.Errorf("%+v", a)
			}
		}
	})
}
