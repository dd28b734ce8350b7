package simulation

import (
	"context"
	"sync/atomic"

	"github.com/salvor-ha/salvor/internal/engine"
	"github.com/salvor-ha/salvor/internal/ha"
)

// plant is a bug that the simulation must find: each is a test of the simulation itself.
type plant string

const (
	plantNone     plant = ""
	plantNoFence  plant = "fence removed"
	plantBlind    plant = "resume without looking"
	plantNoDoubt  plant = "in doubt ignored"
	plantNoBrake  plant = "brake not counting"
	plantNoUnlock plant = "unlock forgotten"

	plantForget    plant = "a takeover of a cascade forgets its items"
	plantWipe      plant = "a copy that does not count any more is deleted"
	plantNoRecount plant = "a drop is not counted once more when its agent asks"

	plantNoTakeBack plant = "forced_down not taken back"
	plantNoEnable   plant = "what was disabled is not enabled, or what was enabled not disabled"
)

// spoil makes a takeover forget that an order may have been sent, or what a cascade has done.
func (p plant) spoil(u *ha.Unit) {
	if p == plantForget && u.Storage != nil {
		u.Storage.Items = nil
	}
	if p != plantBlind {
		return
	}
	for i := range u.Moves {
		if m := &u.Moves[i]; m.Stage == ha.StageOrdered {
			m.Stage, m.Order = ha.StageOrder, ha.Order{}
		}
	}
}

// spoiled is a cloud with a planted bug in its client.
type spoiled struct {
	engine.Cloud
	plant  plant
	orders *atomic.Int32 // evacuate orders that Nova has not answered yet
}

func (s spoiled) Do(ctx context.Context, a ha.Act) (ha.Outcome, error) {
	if s.plant == plantNoUnlock && a.Kind == ha.ActUnlock {
		return ha.Outcome{Act: a}, nil
	}
	back := a.Kind == ha.ActService && (s.plant == plantNoTakeBack && a.ForcedDown != nil && !*a.ForcedDown ||
		s.plant == plantNoEnable && a.ForcedDown == nil && a.Enable != nil && (*a.Enable || a.Reason == "spare"))
	if back {
		return ha.Outcome{Act: a}, nil
	}
	if a.Kind == ha.ActEvacuate {
		s.orders.Add(1)
		defer s.orders.Add(-1)
	}
	out, err := s.Cloud.Do(ctx, a)
	if s.plant == plantNoDoubt && ha.ClassOf(err) == ha.ClassInDoubt {
		err = &ha.CloudError{Class: ha.ClassNotSent, Op: string(a.Kind), Text: ha.TextOf(err)}
	}
	return out, err
}
