package sim

import (
	"container/heap"
	"sync"
	"time"
)

// Cloud is a simulated OpenStack. All methods may be called at once from many goroutines.
type Cloud struct {
	opt   Options
	start time.Time

	mu     sync.Mutex
	now    time.Time // of what is being carried out; never ahead of time.Now
	closed bool
	queue  eventQueue
	events uint64 // numbers events, so that those of one instant keep their order

	control    *controller
	hosts      map[string]*host
	hostList   []*host // in order of creation
	providers  map[string]*host
	services   map[string]*service
	instances  map[string]*instance // live ones, by id
	ordered    []*instance          // live ones, oldest first
	born       int                  // instances ever made
	migrations []*migration         // id is index + 1
	aggregates []*aggregate
	faults     []*armedFault
	calls      *callLog
	nextSlot   time.Time // of Options.Rate

	doubleRuns   []DoubleRun
	doubleOrders []DoubleOrder
	carries      *sending // the order that is being carried out came with it
}

// Close ends the cloud: nothing happens in it any more, and the direct face answers as if Nova were gone.
func (c *Cloud) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed, c.queue = true, nil
}

// Now returns the cloud's time, in UTC.
func (c *Cloud) Now() time.Time { return time.Now().UTC() }

// Scaled returns d as this cloud lives it.
func (c *Cloud) Scaled(d time.Duration) time.Duration { return scaled(d, c.opt.Scale) }

// lock takes the cloud and brings it to the present. Every way into the cloud begins with it.
func (c *Cloud) lock() {
	c.mu.Lock()
	c.advance(time.Now())
}

func (c *Cloud) unlock() { c.mu.Unlock() }

// advance carries out what has come due, each event at its own time.
func (c *Cloud) advance(now time.Time) {
	for len(c.queue) > 0 && !c.queue[0].at.After(now) {
		e := heap.Pop(&c.queue).(*event)
		c.now = e.at
		e.run()
	}
	if now.After(c.now) {
		c.now = now
	}
}

// at runs f when t has come. f holds the cloud.
func (c *Cloud) at(t time.Time, f func()) {
	if c.closed {
		return
	}
	c.events++
	heap.Push(&c.queue, &event{at: t, seq: c.events, run: f})
}

func (c *Cloud) after(d time.Duration, f func()) { c.at(c.now.Add(d), f) }

type event struct {
	at  time.Time
	seq uint64
	run func()
}

type eventQueue []*event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].seq < q[j].seq
	}
	return q[i].at.Before(q[j].at)
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(*event)) }
func (q *eventQueue) Pop() any {
	old := *q
	last := len(old) - 1
	e := old[last]
	old[last] = nil
	*q = old[:last]
	return e
}
