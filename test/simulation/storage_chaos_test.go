package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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

// chaosOfDisks makes a world in which, beside all that troubles the others, disks fail, rot and are mended, and agents are cut off: the cascades and
// the replicator run in it. It returns what was violated: I1 to I10, and
//
//	S1  each item of a run once
//	S2  no byte that is the last good copy is ever deleted
//	S3  never below want_copies by our own hand
//	S4  when all is well again, every blob is where it should be, and none was given up
func chaosOfDisks(t *testing.T, seed uint64, p plant) (broken []string, story string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, p)
		ctx, cancel := context.WithCancel(context.Background())
		w.ctx = ctx
		w.build()
		newDepot(newDisks(w).w)
		for range engines {
			w.startEngine()
		}
		w.pause(65 * time.Second) // every agent has reported
		w.start, w.chaosTime = time.Now(), 10*time.Minute
		w.chaos()
		for len(w.unfinished()) > 0 && time.Since(w.start) < horizon+w.chaosTime {
			w.pause(time.Second)
		}
		w.judge()
		w.mu.Lock()
		dead := sortedKeys(w.dead)
		clear(w.dead)
		w.revived = true
		w.mu.Unlock()
		for _, host := range dead {
			_ = w.cloud.Revive(host)
		}
		w.disks.depot.rest()
		var left []string
		for end := time.Now().Add(40 * time.Minute); time.Now().Before(end); w.pause(10 * time.Second) {
			if left = w.disks.depot.unsettled(); len(left) == 0 {
				break
			}
		}
		for _, text := range left {
			w.violated("S4", "%s", text)
		}
		broken, story = w.broken, w.timeline()
		w.close(cancel)
	})
	return broken, story
}

// TestChaosOfDisks: whatever happens to engines, database, Nova, hosts, agents and disks at once, the invariants hold.
func TestChaosOfDisks(t *testing.T) {
	for s := range seeds(t, 400) / 40 {
		t.Run(fmt.Sprintf("seed=%d", s), func(t *testing.T) {
			t.Parallel()
			broken, story := chaosOfDisks(t, uint64(s), plantNone)
			for _, b := range broken {
				t.Error(b)
			}
			if len(broken) > 0 {
				t.Log(story)
			}
		})
	}
}

// TestPlantedBugsOfDisks: the invariants of disks find each of them.
func TestPlantedBugsOfDisks(t *testing.T) {
	for p, breaks := range map[plant]string{plantForget: "S1", plantWipe: "S2", plantNoRecount: "S3"} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			for s := range seeds(t, 200) {
				broken, _ := chaosOfDisks(t, uint64(s), p)
				for _, b := range broken {
					if strings.HasPrefix(b, breaks+":") {
						t.Logf("found with seed %d: %s", s, b)
						return
					}
				}
			}
			t.Errorf("no seed broke %s", breaks)
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
