package sim

import (
	"context"
	"sync"
	"time"
)

// ClientOptions shape one handle on the cloud. The zero value of each field means its default.
type ClientOptions struct {
	Name    string        // in the log of calls and in faults; default "nova"
	Caller  Caller        // default Masakari()
	Timeout time.Duration // of a call, Nova's answer included; default 30 s; not scaled
	// MinLatency and MaxLatency bound what a call takes besides Nova's own work, half on the way there; not scaled.
	// Default 0: then calls of one instant act in the order in which the Go scheduler runs them. With a latency they do
	// not meet, and the same seed gives the same history.
	MinLatency, MaxLatency time.Duration
}

// Nova is an in-process client of the cloud, one for each engine, so that a test can cut one engine off or freeze it.
// It has the methods of the engine's Cloud and of the use cases' ComputeServices.
type Nova struct {
	c *Cloud
	o ClientOptions

	mu      sync.Mutex
	cut     bool
	thawed  chan struct{} // not closed while frozen
	counted map[string]int
}

// Nova makes a handle on the cloud.
func (c *Cloud) Nova(o ClientOptions) *Nova {
	if o.Name == "" {
		o.Name = "nova"
	}
	if o.Caller == (Caller{}) {
		o.Caller = Masakari()
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	o.MaxLatency = max(o.MaxLatency, o.MinLatency)
	n := &Nova{c: c, o: o, thawed: make(chan struct{}), counted: map[string]int{}}
	close(n.thawed)
	return n
}

// Freeze stops the client as SIGSTOP stops a process: its calls, before they are sent and before they return, wait until
// Thaw or until their context ends. Calls that were sent act all the same.
func (n *Nova) Freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.thawed:
		n.thawed = make(chan struct{})
	default:
	}
}

// Thaw ends a Freeze.
func (n *Nova) Thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.thawed:
	default:
		close(n.thawed)
	}
}

// Partition cuts the client off from the cloud: requests do not arrive and answers are lost; calls wait for their timeout.
func (n *Nova) Partition() { n.setCut(true) }

// Heal ends a Partition.
func (n *Nova) Heal() { n.setCut(false) }

func (n *Nova) setCut(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
}

func (n *Nova) isCut() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut
}

// awaitThaw returns at once unless the client is frozen.
func (n *Nova) awaitThaw(ctx context.Context) error {
	n.mu.Lock()
	thawed := n.thawed
	n.mu.Unlock()
	select {
	case <-thawed:
		return nil
	default:
	}
	select {
	case <-thawed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// latency draws the way there and the way back for the next call of this method and path.
func (n *Nova) latency(r Request) (there, back time.Duration) {
	if n.o.MaxLatency <= 0 {
		return 0, 0
	}
	key := n.o.Name + " " + r.Method + " " + r.Path + "?" + r.Query + " " + r.Action
	n.mu.Lock()
	n.counted[key]++
	count := n.counted[key]
	n.mu.Unlock()
	whole := n.o.MinLatency + time.Duration(n.c.chance("latency", key, count)*float64(n.o.MaxLatency-n.o.MinLatency))
	return whole / 2, whole - whole/2
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
