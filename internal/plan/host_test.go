package plan_test

import (
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// The plain case: one PUT, lock, order, unlock, finished.
func TestHostRecoveryOfOneInstance(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.toEnd(time.Minute)
	w.acts("service compute-1 down disable", "lock i1", "evacuate i1", "unlock i1")
	w.end(ha.StatusFinished, "1 of 1 instances moved")
	w.moved("i1", ha.MoveSucceeded, "")
	if m := w.move("i1"); text(m.DestHost) != "compute-2" || m.Attempts != 1 || m.StartTime == nil || m.EndTime == nil {
		t.Errorf("vmove: %+v", m)
	}
	if at := w.when("evacuate"); at > time.Second {
		t.Errorf("first order %s after the report, want at most 1 s beside Nova's answers", at)
	}
}
