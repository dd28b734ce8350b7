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

// Looks have half of the calls, so that an order finds a slot however slow they are; who gives up leaves the slot to the next.
func TestLooksHaveHalfOfTheCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(5)
		waiting, cancel := context.WithCancel(t.Context())
		began, gaveUp := 0, 0
		for range 4 {
			go func() {
				if l.beginLists(waiting) == nil {
					began++
				} else {
					gaveUp++
				}
			}()
			synctest.Wait()
		}
		if began != 2 || l.free() != 5 {
			t.Fatalf("%d of 5 slots are for looks, %d are free for calls", began, l.free())
		}
		l.endLists()
		synctest.Wait()
		if began != 3 {
			t.Fatalf("%d began when one had ended", began)
		}
		cancel()
		synctest.Wait()
		l.endLists()
		l.endLists()
		if gaveUp != 1 || l.listing.used != 0 || len(l.listing.waiting) != 0 {
			t.Fatalf("%d gave up, %d slots are lost", gaveUp, l.listing.used)
		}
	})
}

// A slot that is handed to somebody who is giving up is the next one's.
func TestASlotThatComesWithTheEndIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1)
		take(t, l, 1)
		ending, cancel := context.WithCancel(t.Context())
		var first, second error = nil, context.Canceled
		go func() { first = l.acquire(ending) }()
		synctest.Wait()
		go func() { second = l.acquire(t.Context()) }()
		synctest.Wait()
		l.mu.Lock() // at one moment
		cancel()
		l.calls.used--
		l.hand()
		l.mu.Unlock()
		synctest.Wait()
		if first == nil || second != nil || l.calls.used != 1 {
			t.Fatalf("the first got %v, the next %v, %d slots are in use", first, second, l.calls.used)
		}
	})
}

func TestFreeCountsThoseInFlight(t *testing.T) {
	l := newLimiter(4)
	take(t, l, 3)
	if l.free() != 1 {
		t.Errorf("%d of 4 are free, 3 are in flight", l.free())
	}
}
