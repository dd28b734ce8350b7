package copies

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/salvor-ha/salvor/internal/wire"
)

// Config is how copies are kept.
type Config struct {
	Dir      string
	Parallel int           // copies that arrive at a time
	Serving  int           // requests that are served at a time
	Interval time.Duration // after which a copy is hashed again
	Rate     int64         // of that in the background, bytes per second
	Pass     time.Duration // between two looks at what there is
	Patience time.Duration // without a byte from any source, before an order to copy has failed
	Stall    time.Duration // without a byte from one source, before the next is tried
	HTTP     *http.Client  // without a time limit for the whole; nil: a plain one
	Log      *slog.Logger
	// Ready fails while the directory is not what it should be: its filesystem failed, or is not mounted. Then nothing is written, and nothing
	// counts as missing. It may hang with the filesystem.
	Ready func() error
	// Changed says that there is something to report; Stale that a ticket was refused: the orders should be asked for again. Neither may block.
	Changed, Stale func()
	// Key is what tickets are checked with, and this host's uuid; nil and "" before the first answer of the API.
	Key func() (key []byte, host string)
}

// Bounds of what is kept for the next report. Beyond them the background waits, and no more orders are taken.
const (
	maxNews = 2000
	maxJobs = 2000
)

// keeping is how many copies are made durable at a time, for each one that arrives: the disk takes many together in hardly more time than one,
// and the next copy need not wait for it.
const keeping = 4

// remembered is for how long an order that has ended and was told is not carried out again: an answer that was under way may still name it. One
// that is still open then is carried out once more. doubted is between two looks at a directory in doubt.
const (
	remembered = 30 * time.Second
	doubted    = 200 * time.Millisecond
)

// dropStands is for how long an order to drop a copy holds after the API has named it: what was surplus then may be the last good copy by now.
const dropStands = 30 * time.Second

// Copies are one host's.
type Copies struct {
	cfg   Config
	store *store
	in    *line
	keep  chan struct{} // of copies that have arrived and are made durable
	check chan struct{}
	out   chan struct{}
	past  chan struct{} // of those that are read past the kernel's memory

	served, fetched atomic.Int64 // bytes of blobs since the start
	open            atomic.Int64 // orders that have not ended

	mu    sync.Mutex
	ctx   context.Context // of Run; nil before
	work  sync.WaitGroup
	jobs  map[string]*job   // by the order's id
	added uint64            // jobs so far
	news  map[string]news   // by blob: the last word on each
	room  chan struct{}     // closed and renewed when news were told
	locks map[string]*bolts // by blob
	turn  uint64
	asked bool      // the orders are known
	spoke time.Time // of copies under way
}

// news is the last word on a copy. turn tells it from a later one.
type news struct {
	copy wire.AgentCopy
	turn uint64
}

// New returns what keeps copies in a directory; it touches nothing.
func New(cfg Config) *Copies {
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{}
	}
	own := *cfg.HTTP
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // a source sends this host nowhere else
	cfg.HTTP = &own
	return &Copies{
		cfg: cfg, store: newStore(cfg.Dir), in: newLine(cfg.Parallel),
		keep: make(chan struct{}, keeping*cfg.Parallel), check: make(chan struct{}, 1), out: make(chan struct{}, cfg.Serving), past: make(chan struct{}, maxPast),
		jobs: map[string]*job{}, news: map[string]news{}, room: make(chan struct{}), locks: map[string]*bolts{},
	}
}

// drained is how long a stop waits for work that may hang.
const drained = 3 * time.Second

// Run hashes in the background and carries orders out until ctx ends. Copies under way are broken off and go on after the next start.
func (c *Copies) Run(ctx context.Context) {
	c.mu.Lock()
	c.ctx = ctx
	for _, j := range slices.SortedFunc(maps.Values(c.jobs), func(a, b *job) int { return cmp.Compare(a.nth, b.nth) }) {
		c.begin(j)
	}
	c.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.patrol(ctx)
		c.work.Wait()
	}()
	<-ctx.Done()
	select {
	case <-done:
	case <-time.After(drained): // it hangs with the filesystem, and ends with the process
	}
}

// SetOrders takes over what is open for this host. Orders that are known keep on, with newer sources and tickets.
func (c *Copies) SetOrders(orders []wire.AgentOrder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = true
	for _, o := range orders {
		j, known := c.jobs[o.ID]
		switch {
		case o.Kind == wire.OrderCancel:
			c.cancel(o)
		case known && j.past():
			delete(c.jobs, o.ID)
			c.add(o)
		case known:
			j.renew(o)
		default:
			c.add(o)
		}
	}
	c.withdraw(orders)
}

// withdraw forgets the orders to drop a copy that are open no more: the copy is needed again. They wait, perhaps for long, behind others.
func (c *Copies) withdraw(orders []wire.AgentOrder) {
	open := make(map[string]bool, len(orders))
	for _, o := range orders {
		open[o.ID] = true
	}
	for id, j := range c.jobs {
		if j.kind != wire.OrderDrop || open[id] || j.ended() {
			continue
		}
		delete(c.jobs, id)
		j.end(errWithdrawn)
		if j.stop != nil {
			j.stop(errWithdrawn)
		}
	}
}

func (c *Copies) add(o wire.AgentOrder) {
	if len(c.jobs) >= maxJobs {
		return // it comes again
	}
	j := newJob(o)
	c.added++
	j.nth = c.added
	c.jobs[o.ID] = j
	if c.ctx != nil {
		c.begin(j)
	}
}

func (c *Copies) begin(j *job) {
	ctx := c.ctx
	if ctx.Err() != nil || j.ended() {
		return
	}
	ctx, j.stop = context.WithCancelCause(ctx)
	c.open.Add(1)
	if j.kind == wire.OrderCopy {
		j.turn = c.in.join(j.size) // here, where they come in order
	}
	c.work.Go(func() {
		defer j.stop(nil)
		defer c.open.Add(-1)
		err := c.carryOut(ctx, j)
		if err != nil && c.ctx.Err() != nil {
			return // the agent stops: the order is still open
		}
		if errors.Is(err, errOld) {
			c.mu.Lock()
			delete(c.jobs, j.id) // if it is still open it comes again
			c.mu.Unlock()
			c.cfg.Stale()
		}
		j.end(err)
		level := slog.LevelInfo
		if err != nil {
			level = slog.LevelWarn
		}
		c.cfg.Log.Log(context.WithoutCancel(ctx), level, "an order has ended", "order", j.id, "kind", j.kind, "blob", j.blob, "bytes", j.bytes.Load(), "error", err)
		c.cfg.Changed()
	})
}

// Busy reports whether there are orders that have not ended.
func (c *Copies) Busy() bool { return c.open.Load() > 0 }

var (
	errCancelled = errors.New("cancelled")
	errWithdrawn = errors.New("withdrawn: the copy is not to be dropped any more")
	errOld       = errors.New("not carried out: the API has not named this order for half a minute, so the copy may be needed again")
)

// cancel stops the copy with the order's id; where there is none it is done already. The order's end is that of the copy, which has failed.
func (c *Copies) cancel(o wire.AgentOrder) {
	j, known := c.jobs[o.ID]
	switch {
	case !known:
		j = newJob(o)
		j.end(errCancelled)
		c.jobs[o.ID] = j
		c.cfg.Changed()
	case !j.ended() && j.stop != nil:
		j.stop(errCancelled)
	case !j.ended():
		j.end(errCancelled)
	default:
		j.renew(o)
	}
}

// carryOut does what an order says. One that was done already is done at once.
func (c *Copies) carryOut(ctx context.Context, j *job) error {
	free, err := c.slot(ctx, j)
	if err != nil {
		return err
	}
	defer func() { free() }()
	unlock, err := c.lock(ctx, j.blob)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.settled(ctx); err != nil {
		return err
	}
	switch j.kind {
	case wire.OrderCopy:
		return c.pull(ctx, j, func() error { // it has arrived: the next one may
			arrived := free
			kept, err := enter(ctx, c.keep)
			if err == nil {
				free = kept
				arrived()
			}
			return err
		})
	case wire.OrderVerify:
		return c.verify(ctx, j)
	case wire.OrderRestore:
		return c.restore(ctx, j)
	case wire.OrderDrop:
		return c.drop(j)
	default:
		return errors.New("an agent of this version does not know such an order")
	}
}

// slot waits until the order's turn has come.
func (c *Copies) slot(ctx context.Context, j *job) (leave func(), err error) {
	if j.turn == nil {
		return enter(ctx, c.check)
	}
	leave = func() { c.in.leave(j.turn) }
	if err := j.turn.await(ctx); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// enter takes one of the slots.
func enter(ctx context.Context, slots chan struct{}) (leave func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ErrDoubt says that it is not known yet how the directory is: whoever asks waits.
var ErrDoubt = errors.New("it is not known yet how the blob directory is")

// settled is Ready, once that is known.
func (c *Copies) settled(ctx context.Context) error {
	for {
		err := c.cfg.Ready()
		if !errors.Is(err, ErrDoubt) {
			return err
		}
		timer := time.NewTimer(doubted)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// drop unlinks a copy, while the order stands.
func (c *Copies) drop(j *job) error {
	switch {
	case j.ended():
		return errWithdrawn
	case !j.stands():
		return errOld
	}
	if err := c.store.drop(j.blob); err != nil {
		return err
	}
	c.tell(wire.AgentCopy{Blob: j.blob, State: "missing"})
	return nil
}

// tell keeps a word on a copy for the next report.
func (c *Copies) tell(w wire.AgentCopy) {
	c.mu.Lock()
	c.turn++
	c.news[w.Blob] = news{w, c.turn}
	c.mu.Unlock()
	c.cfg.Changed()
}

// done keeps the word on what was ordered together with the order's end: a report between the two would have the API cancel what is done, since
// there are copies enough.
func (c *Copies) done(j *job) {
	c.mu.Lock()
	c.turn++
	c.news[j.blob] = news{wire.AgentCopy{Blob: j.blob, State: "present", Size: j.size, SHA256: j.sum}, c.turn}
	j.end(nil)
	c.mu.Unlock()
	c.cfg.Changed()
}

// bolts is a lock on one blob, and how many have it or wait for it.
type bolts struct {
	held    chan struct{}
	waiting int
	wanted  chan struct{} // closed when somebody waits for who has it
}

// lock keeps others from the files of a blob.
func (c *Copies) lock(ctx context.Context, blob string) (unlock func(), err error) {
	c.mu.Lock()
	b := c.locks[blob]
	if b == nil {
		b = &bolts{held: make(chan struct{}, 1), wanted: make(chan struct{})}
		c.locks[blob] = b
	}
	if b.waiting++; b.waiting == 2 {
		close(b.wanted)
	}
	c.mu.Unlock()
	leave := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch b.waiting--; b.waiting {
		case 0:
			delete(c.locks, blob)
		case 1:
			b.wanted = make(chan struct{})
		}
	}
	select {
	case b.held <- struct{}{}:
		return func() { <-b.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// wanted is closed when somebody waits for a blob that the caller has locked.
func (c *Copies) wanted(blob string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.locks[blob].wanted
}
