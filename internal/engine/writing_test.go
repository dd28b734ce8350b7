package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// As many as fit write at once; the next waits until one leaves, its patience ends, or it is told to stop.
func TestWritingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriting(writesAtOnce)
		for range writesAtOnce {
			if !w.enter(nil, nil) {
				t.Fatal("no room where there is room")
			}
		}
		began := time.Now()
		if w.enter(nil, time.After(time.Second)) || time.Since(began) != time.Second {
			t.Fatalf("one too many was let in after %s", time.Since(began))
		}
		done := make(chan struct{})
		close(done)
		if w.enter(done, nil) {
			t.Fatal("let in after its end")
		}
		entered := make(chan time.Duration)
		for range writesAtOnce + 1 {
			go func() {
				w.enter(nil, nil)
				entered <- time.Since(began)
			}()
		}
		synctest.Wait()
		if !w.crowded() {
			t.Fatal("nine wait, and it is not crowded")
		}
		time.Sleep(time.Second)
		w.leave()
		if at := <-entered; at != 2*time.Second {
			t.Fatalf("the next was let in after %s", at)
		}
		if w.crowded() {
			t.Fatal("eight wait, and it is crowded")
		}
		for range writesAtOnce {
			w.leave()
			<-entered
		}
	})
}
