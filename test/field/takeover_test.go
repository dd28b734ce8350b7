package field

import (
	"regexp"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// TestTakeoverIsTold: when the owner of a recovery is killed, its history says who went on, from whom, and how long nobody worked.
func TestTakeoverIsTold(t *testing.T) {
	play(t, cast{engines: 2}, func(s *scene) {
		s.instances("host-1", 4, ofHA())
		s.dies("host-1")
		note := s.down("host-1")
		s.until("an order is sent", 3*time.Minute, func() bool { return len(s.acts("evacuate", "")) > 0 })
		dead := ""
		for _, p := range s.procs {
			if len(p.engine.Held()) > 0 {
				dead = p.name
				p.crash()
			}
		}
		s.becomes(note, ha.StatusFinished, "4 of 4", 5*time.Minute)
		var told []string
		for _, e := range s.journal(note) {
			if e.Task == ha.TaskTakeover {
				told = append(told, e.Text)
			}
		}
		want := regexp.MustCompile(`^engine-\d+ took over from ` + regexp.QuoteMeta(dead) + `, which it had seen silent for [5-8]\.\d s$`)
		if dead == "" || len(told) != 1 || !want.MatchString(told[0]) {
			t.Errorf("%q died, and the history says %q", dead, told)
		}
	})
}
