package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

func take(t *testing.T, l *limiter, n int) {
	t.Helper()
	for range n {
		if err := l.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLimiterHalvesWhenNovaIsInTroubleAndGrowsByOneWhileItIsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(32)
		take(t, l, 8)
		for range 4 { // one bad moment fails many calls: it halves once
			l.release(ha.ClassBusy)
		}
		if l.size() != 16 {
			t.Fatalf("after one bad moment %d, want 16", l.size())
		}
		time.Sleep(2 * time.Second)
		for _, class := range []ha.Class{ha.ClassInDoubt, ha.ClassBusy, ha.ClassNotSent, ha.ClassRefused} {
			l.release(class) // one moment of trouble; a refusal is an answer
		}
		if l.size() != 8 {
			t.Fatalf("after a second bad moment %d, want 8", l.size())
		}
		for range 8 {
			take(t, l, 1)
			l.release("")
		}
		if l.size() != 9 {
			t.Fatalf("after as many good calls as it allows %d, want 9", l.size())
		}
		for range 60 {
			time.Sleep(2 * time.Second)
			take(t, l, 1)
			l.release(ha.ClassBroken)
		}
		if l.size() != 1 {
			t.Fatalf("in lasting trouble %d, want 1: it never stops altogether", l.size())
		}
		for range 2000 {
			take(t, l, 1)
			l.release("")
		}
		if l.size() != 32 {
			t.Fatalf("in the end %d, want the maximum 32", l.size())
		}
	})
}

func TestLimiterServesInTurnAndForgetsWhoGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1)
		take(t, l, 1)
		impatient, cancel := context.WithCancel(t.Context())
		var order []string
		wait := func(name string, ctx context.Context) {
			go func() {
				if l.acquire(ctx) == nil {
					order = append(order, name)
					l.release("")
				}
			}()
			synctest.Wait()
		}
		wait("first", t.Context())
		wait("gave up", impatient)
		wait("third", t.Context())
		if l.free() != 0 {
			t.Fatal("a full limiter has no slot free")
		}
		cancel()
		synctest.Wait()
		l.release("")
		synctest.Wait()
		if len(order) != 2 || order[0] != "first" || order[1] != "third" {
			t.Fatalf("served %v", order)
		}
		if l.free() != 1 {
			t.Fatalf("%d free in the end, want 1", l.free())
		}
	})
}

func TestListsHaveAPaceOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(32)
		began := time.Now()
		for range 41 {
			if err := l.list(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Fatalf("41 lists took %s, want 2 s: 20 a second", took)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if l.list(ended) == nil {
			t.Fatal("a list of an ended unit must not be asked for")
		}
	})
}
