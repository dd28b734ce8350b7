package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnOwnerIsDeadByTimeAndByTheWatchersOwnBeats(t *testing.T) {
	var w Watch[string]
	t0 := time.Now()
	w.See("a", 1, 1, t0, 0)
	for _, c := range []struct {
		name        string
		epoch, beat int64
		after       time.Duration
		own         int64
		dead        bool
	}{
		{"time passed, but the watcher's own beats did not land: the database stands still", 1, 1, 9 * time.Second, 2, false},
		{"beats passed, but no time", 1, 1, time.Second, 9, false},
		{"both", 1, 1, 5 * time.Second, 5, true},
		{"it moved", 1, 2, 9 * time.Second, 9, false},
		{"and stood still again", 1, 2, 14 * time.Second, 14, true},
		{"a new epoch is a new owner", 2, 2, 15 * time.Second, 15, false},
	} {
		still, beats := w.See("a", c.epoch, c.beat, t0.Add(c.after), c.own)
		if got := Dead(still, beats, 5*time.Second); got != c.dead {
			t.Errorf("%s: dead = %v", c.name, got)
		}
	}
	w.Keep(func(string) bool { return false })
	if still, _ := w.See("a", 2, 2, t0.Add(time.Hour), 99); still != 0 {
		t.Error("a lease that was forgotten is seen as if for the first time")
	}
}

func TestRankSpreadsEvenlyAndADeathMovesOnlyTheDeadOnesKeys(t *testing.T) {
	engines := []string{"e-1", "e-2", "e-3"}
	first := func(key string, all []string) string {
		for _, e := range all {
			if Rank(key, e, all) == 0 {
				return e
			}
		}
		t.Fatalf("nobody is first for %s", key)
		return ""
	}
	count := map[string]int{}
	for i := range 3000 {
		key := fmt.Sprintf("host:%d", i)
		owner := first(key, engines)
		count[owner]++
		if after := first(key, engines[:2]); owner != "e-3" && after != owner {
			t.Fatalf("%s went from %s to %s though e-3 died", key, owner, after)
		}
		ranks := map[int]bool{}
		for _, e := range engines {
			ranks[Rank(key, e, engines)] = true
		}
		if len(ranks) != 3 {
			t.Fatalf("%s: ranks are not 0, 1, 2", key)
		}
	}
	for e, n := range count {
		if n < 850 || n > 1150 {
			t.Errorf("%s is first for %d of 3000", e, n)
		}
	}
	if Rank("k", "stranger", engines) != 3 {
		t.Error("one that is not alive comes last")
	}
}

// TestEveryVersionRanksAlike: engines of two versions work side by side during an upgrade, and must agree on who comes first.
func TestEveryVersionRanksAlike(t *testing.T) {
	engines := []string{"e-1", "e-2", "e-3"}
	for key, want := range map[string][]int{
		"host:a": {0, 1, 2},
		"host:b": {2, 0, 1},
		"vm:a":   {2, 1, 0},
		"1":      {0, 1, 2},
	} {
		var got []int
		for _, e := range engines {
			got = append(got, Rank(key, e, engines))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	if score("1", "e-") == score("-1", "e") {
		t.Error("it does not matter where a name ends and a key begins")
	}
}

// TestAGuardRenewedWhileItsTimerFires: the timer was on its way when the beat came back, and must not end the work.
func TestAGuardRenewedWhileItsTimerFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, g := NewGuard(context.Background(), time.Now(), 5*time.Second, time.Second)
		g.expire()
		time.Sleep(4*time.Second - time.Millisecond)
		if ctx.Err() != nil {
			t.Fatalf("ended before its deadline: %v", context.Cause(ctx))
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), ErrExpired) {
			t.Fatalf("not ended at its deadline: %v", context.Cause(ctx))
		}
		g.End(nil)
	})
}

func TestAGuardEndsTheWorkUnlessRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, g := NewGuard(context.Background(), start, 5*time.Second, time.Second)
		time.Sleep(3 * time.Second)
		g.Renew(start.Add(2 * time.Second)) // counted from when the beat was sent, not from when it was answered
		time.Sleep(3*time.Second - time.Millisecond)
		if ctx.Err() != nil {
			t.Fatal("ended though renewed")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), ErrExpired) {
			t.Fatalf("not ended 4 s after the last beat was sent: %v", context.Cause(ctx))
		}
		g.End(nil)

		ctx, g = NewGuard(context.Background(), time.Now(), 5*time.Second, time.Second)
		g.End(nil)
		<-ctx.Done()
		time.Sleep(time.Minute) // a timer left behind would show as a deadlock or a leak
	})
}
