package simulation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/sim"
)

// TestStorageInvariants: whatever happens to engines, database and Nova while a host's storage fails: each item once per run (S1, at every
// write), an old owner writes nothing (I1), the instances outside of the radius untouched, those inside in error or named, and what was changed in
// Nova is a claim (I9).
func TestStorageInvariants(t *testing.T) {
	for s := range seeds(t, 20) {
		t.Run(fmt.Sprintf("seed=%d", s), func(t *testing.T) {
			t.Parallel()
			storageWorld(t, uint64(1000+s), func(w *world) {
				host := hostName(w.rng.IntN(hosts))
				w.put(host, 5+w.rng.IntN(20))
				for _, i := range w.instances() { // in this cloud it would build for ever, and be waited for
					if i.Host == host && i.VMState == ha.VMBuilding {
						_ = w.cloud.Delete(sim.Masakari(), i.ID)
					}
				}
				w.pause(10 * time.Second)
				w.disks.fail(host, "instances")
				for range 3 + w.rng.IntN(5) {
					w.pause(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
					w.unsettle()
				}
				w.cloud.ClearFaults()
				for _, p := range w.up() {
					w.heal(p)
				}
				w.startEngine()
				w.until("the cascade", 10*time.Minute, func() bool { return w.cascaded(host) })
				w.pause(2 * time.Minute)
				w.untouched(host)
				e := w.episodes(host)[0]
				for id, state := range w.states(host) {
					named := slices.ContainsFunc(e.Items, func(i ha.Item) bool { return i.ID == id })
					if !named || state != ha.VMError {
						w.t.Errorf("instance %s on %s is %s, named: %v", id, host, state, named)
					}
				}
			})
		})
	}
}

// unsettle is one thing that goes wrong with an engine, the database or Nova.
func (w *world) unsettle() {
	ps := w.up()
	if len(ps) == 0 {
		w.startEngine()
		return
	}
	p := ps[w.rng.IntN(len(ps))]
	switch w.rng.IntN(6) {
	case 0, 1:
		w.crash(p)
	case 2:
		w.stopWorld(p, time.Duration(1+w.rng.IntN(15))*time.Second)
	case 3:
		w.cut(p)
	case 4:
		p.db.set(func() { p.db.bad = 0.15 })
	default:
		w.novaFault()
	}
}
