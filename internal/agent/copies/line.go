package copies

import (
	"context"
	"slices"
	"sync"
)

// line is where copies wait for one of the slots in which they arrive. Those that are needed most were ordered first, and go first; but one of the
// slots, where there are several, takes the largest that waits: begun last it would be waited for alone.
type line struct {
	mu      sync.Mutex
	first   int // free slots for whoever came first
	largest int // for the largest
	waiting []*turn
}

// turn is one's place in the line.
type turn struct {
	size    int64
	come    chan struct{} // closed when it has a slot
	largest bool          // which it was given as the largest
}

func newLine(slots int) *line {
	l := &line{first: slots}
	if slots > 1 {
		l.first, l.largest = slots-1, 1
	}
	return l
}

// join lines up with a copy of that size. leave must follow.
func (l *line) join(size int64) *turn {
	t := &turn{size: size, come: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, t)
	l.deal()
	return t
}

// await waits for a slot.
func (t *turn) await(ctx context.Context) error {
	select {
	case <-t.come:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave gives the slot, or the place in the line, to others. Only the first one counts.
func (l *line) leave(t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.waiting, t)
	switch {
	case at >= 0:
		l.waiting = slices.Delete(l.waiting, at, at+1)
		return
	case t.come == nil:
		return
	case t.largest:
		l.largest++
	default:
		l.first++
	}
	t.come = nil
	l.deal()
}

func (l *line) deal() {
	for len(l.waiting) > 0 && l.first+l.largest > 0 {
		at := 0
		if l.first > 0 {
			l.first--
		} else {
			l.largest--
			for i, t := range l.waiting {
				if t.size > l.waiting[at].size {
					at = i
				}
			}
			l.waiting[at].largest = true
		}
		close(l.waiting[at].come)
		l.waiting = slices.Delete(l.waiting, at, at+1)
	}
}
