package plan_test

import (
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// TestGateBrakeAt100 (F157): the reference says that 100 holds nothing, as no more than all can be down.
func TestGateBrakeAt100(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.rules.BrakePercent = 100
	for _, h := range []string{"compute-3", "compute-4"} {
		w.notice(h)
	}
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "")
}
