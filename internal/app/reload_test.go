package app

import (
	"reflect"
	"testing"

	"github.com/salvor-ha/salvor/internal/config"
)

// taken is all of a configuration that Reload takes over, in a process that started with at.
func taken(c, at *config.Config) []any {
	return []any{laterRules(c, at), laterAPI(c, at), policyConfig(c).DefaultRule, c.Policy.File, c.Policy.Dirs, c.API.DuplicateInterval, c.Log.Debug}
}

// TestOptionsTakenOver: what a reload takes over is what the reference marks so, option by option, and nothing else.
func TestOptionsTakenOver(t *testing.T) {
	at := load(t, "")
	texts := []string{"true", "false", "7", "90", "0.3", "evacuate", "leave", "x", "[0-9]+", "http://x.example.com", "db: metadata.tier=db, action=evacuate"}
	for _, o := range config.Options() {
		if o.Ignored {
			continue
		}
		differed, changed := false, false
		for _, text := range texts {
			c, err := tried(t, "["+o.Group+"]\n"+o.Name+" = "+text+"\n")
			if err != nil || len(at.Changes(c)) == 0 {
				continue
			}
			differed, changed = true, !reflect.DeepEqual(taken(c, at), taken(at, at))
			break
		}
		switch {
		case !differed:
			t.Logf("[%s] %s: none of the texts suits it", o.Group, o.Name)
		case changed != o.Mutable:
			t.Errorf("[%s] %s: a reload takes it over: %v; the reference says %v", o.Group, o.Name, changed, o.Mutable)
		}
	}
}
