package plan

import (
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// A call that hung on its way to Nova shows a heartbeat of when it was answered, not of when it began: counted from its beginning, a host
// that beats every two seconds would have been silent for three (found by the simulation: an engine that is stopped in the middle of a look).
func TestSilenceBeginsWithTheAnswer(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	var h Heart
	for _, look := range []struct {
		began, came, beat int // ms
		quiet             time.Duration
	}{
		{0, 10, -500, 0},
		{1000, 1010, -500, 990 * time.Millisecond},
		{2000, 4700, 3500, 0}, // stopped in the middle
		{4710, 4720, 3500, 10 * time.Millisecond},
		{5300, 5310, 3500, 600 * time.Millisecond},
		{6000, 6010, 5500, 0},
	} {
		h.see(ha.Service{UpdatedAt: at(look.beat)}, at(look.began), at(look.came), time.Time{})
		if h.quiet() != look.quiet {
			t.Errorf("look at %d ms: quiet for %s, want %s", look.began, h.quiet(), look.quiet)
		}
	}
}
