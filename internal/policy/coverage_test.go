package policy

import (
	"log/slog"
	"testing"
)

// TestWhoMaySeeTheWholeCloud: coverage and plans show every project's instances. A reader of the system may see them, a reader of a
// project may not.
func TestWhoMaySeeTheWholeCloud(t *testing.T) {
	e, err := New(Config{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range []string{ExtRule("coverage", "index"), ExtRule("hosts", "plan")} {
		for _, tt := range []struct {
			who  string
			id   Identity
			want bool
		}{
			{"an administrator", Identity{Roles: []string{"admin"}, ProjectID: "p"}, true},
			{"a reader of the system", Identity{Roles: []string{"reader"}, SystemScope: "all"}, true},
			{"a reader of a project", Identity{Roles: []string{"reader"}, ProjectID: "p"}, false},
			{"somebody else of the system", Identity{Roles: []string{"auditor"}, SystemScope: "all"}, false},
		} {
			if got := e.Allows(rule, e.Identify(tt.id)); got != tt.want {
				t.Errorf("%s by %s: %v", rule, tt.who, got)
			}
		}
	}
}
