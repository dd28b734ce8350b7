package announce

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Outbox is what shipping needs of the rows. Errors are ha's; what is temporary is *ha.UnavailableError.
type Outbox interface {
	// Waiting returns the first messages for a sink, at most most.
	Waiting(ctx context.Context, sink string, most int) ([]ha.Message, error)
	Backlog(ctx context.Context, sink string) (ha.Backlog, error)
	// Shipped removes confirmed messages and is a beat; DropOldest removes the first n, or fewer. ErrFenced: another ships.
	Shipped(ctx context.Context, l ha.Shipping, ids []int64) error
	DropOldest(ctx context.Context, l ha.Shipping, n int) (int, error)

	Shipping(ctx context.Context, sink string) (ha.Shipping, error)
	// ClaimShipping is a compare-and-set on what was seen; ErrLost.
	ClaimShipping(ctx context.Context, seen ha.Shipping, owner string, ttl time.Duration) (ha.Shipping, error)
	ReleaseShipping(ctx context.Context, l ha.Shipping) error
}

// Sink is a destination. Its methods are called by one goroutine at a time.
type Sink interface {
	// Deliver hands messages over in their order. It returns how many of them, from the first, were confirmed; fewer than all
	// only with an error, which is about the next one. It ends soon after ctx does.
	Deliver(ctx context.Context, messages []ha.Message) (int, error)
	// Close gives up what the sink holds; Deliver opens it anew.
	Close()
}

// Destination is a sink and how it is dealt with.
type Destination struct {
	// ID is the sink of its rows, the same in every process and after every restart; Name is for people and metrics.
	ID, Name string
	Sink     Sink
	// Batch is how many messages are handed over at a time.
	Batch int
	// Pause is the time until the next try after so many failed ones in a row, 1 for the first.
	Pause func(failures int) time.Duration
	// Tries bounds the tries of one message, MaxAge its age; 0: no bound. What is given up is dropped, loudly.
	Tries  int
	MaxAge time.Duration
}

// Observer hears what is counted. Names are those of destinations.
type Observer struct {
	Shipped func(name string, n int)
	Failed  func(name string)
	Dropped func(name, why string, n int)
	Backlog func(name string, rows int, oldest time.Duration)
}

// Config of a Shipper.
type Config struct {
	Owner string // of this process, new at each start
	// TTL and Tick are the lease's: dead after TTL, a beat every Tick. Poll is how often the holder looks when nobody wakes it.
	TTL, Tick, Poll time.Duration
	MaxRows         int // that may wait for one destination; beyond it the oldest are dropped, loudly
	Log             *slog.Logger
	Observe         Observer
}

// Shipper ships for all destinations of a process.
type Shipper struct {
	outbox Outbox
	routes []*route
}

// New returns a shipper; Run runs it.
func New(c Config, outbox Outbox, destinations []Destination) *Shipper {
	s := &Shipper{outbox: outbox}
	for _, d := range destinations {
		s.routes = append(s.routes, &route{Destination: d, conf: c, outbox: outbox, log: c.Log.With("to", d.Name), wake: make(chan struct{}, 1)})
	}
	return s
}

// Run ships until ctx ends. What waits then waits on, for the next process.
func (s *Shipper) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, r := range s.routes {
		all.Go(func() { r.run(ctx) })
	}
	all.Wait()
}

// Wake says that there is something to ship. It never blocks.
func (s *Shipper) Wake() {
	for _, r := range s.routes {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// Growing is a pause that begins with first and grows by step to most, as oslo.messaging's.
func Growing(first, step, most time.Duration) func(int) time.Duration {
	return func(failures int) time.Duration {
		return min(first+time.Duration(min(failures, 1000)-1)*step, max(first, most))
	}
}

// Doubling is a pause that begins with first and doubles to most.
func Doubling(first, most time.Duration) func(int) time.Duration {
	return func(failures int) time.Duration { return min(first<<min(failures-1, 20), most) }
}
