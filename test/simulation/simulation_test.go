package simulation

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// run makes a world, troubles it, lets it come to rest and judges it. It returns what was violated, and the timeline.
func run(t *testing.T, seed uint64, p plant) (broken []string, story string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, p)
		ctx, cancel := context.WithCancel(context.Background())
		w.ctx = ctx
		w.build()
		for range engines {
			w.startEngine()
		}
		w.chaos()
		for len(w.unfinished()) > 0 && time.Since(w.start) < horizon {
			w.pause(time.Second)
		}
		w.pause(2 * time.Minute) // what was sent late acts late
		w.judge()
		broken, story = w.broken, w.timeline()
		for _, p := range w.procs {
			p.nova.Partition()
			p.nova.Thaw()
			p.db.set(func() { p.db.crash = true })
			p.db.thaw()
			p.cancel()
		}
		cancel()
		for _, p := range w.procs {
			<-p.done
		}
		w.cloud.Close()
		w.closeStore()
	})
	return broken, story
}

func seeds(t *testing.T, otherwise int) int {
	text := os.Getenv("SEEDS")
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("SEEDS=%s: a number is wanted", text)
	}
	return n
}

// TestInvariants: whatever happens, RECOVERY section 9 holds.
func TestInvariants(t *testing.T) {
	if one := os.Getenv("SEED"); one != "" {
		seed, err := strconv.ParseUint(one, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		broken, story := run(t, seed, plantNone)
		t.Logf("seed %d:\n%s", seed, story)
		for _, b := range broken {
			t.Error(b)
		}
		return
	}
	for s := range seeds(t, 200) {
		t.Run(fmt.Sprintf("seed=%d", s), func(t *testing.T) {
			t.Parallel()
			broken, story := run(t, uint64(s), plantNone)
			for _, b := range broken {
				t.Error(b)
			}
			if len(broken) > 0 {
				file := fmt.Sprintf("%s/seed-%d.txt", os.TempDir(), s)
				if err := os.WriteFile(file, []byte(story), 0o600); err == nil {
					t.Logf("timeline in %s; again: SEED=%d go test ./test/simulation -run TestInvariants -v", file, s)
				}
			}
		})
	}
}

// TestPlantedBugs: the simulation finds each of them within as many seeds as it is given.
func TestPlantedBugs(t *testing.T) {
	for _, p := range []plant{plantNoFence, plantBlind, plantNoDoubt, plantNoBrake, plantNoUnlock} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			for s := range seeds(t, 200) {
				if broken, _ := run(t, uint64(s), p); len(broken) > 0 {
					t.Logf("found with seed %d: %s", s, broken[0])
					return
				}
			}
			t.Error("the simulation did not notice")
		})
	}
}
