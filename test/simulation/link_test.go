package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/internal/engine"
	"github.com/salvor-ha/salvor/internal/ha"
)

// link is one engine's way to the database: it can be frozen with its process, cut, slow, and lose answers.
type link struct {
	engine.Store
	w    *world
	name string

	mu     sync.Mutex
	rng    *rand.Rand
	thawed chan struct{}
	away   bool
	crash  bool
	bad    float64 // share of calls that fail before, and of commits whose answer is lost
	trap   func()  // what befalls the process in the middle of its next commit
}

func newLink(w *world, name string, seed uint64) *link {
	l := &link{Store: w.store, w: w, name: name, rng: rand.New(rand.NewPCG(seed, 7)), thawed: make(chan struct{})}
	close(l.thawed)
	return l
}

func (l *link) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.thawed:
		l.thawed = make(chan struct{})
	default:
	}
}

func (l *link) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.thawed:
	default:
		close(l.thawed)
	}
}

func (l *link) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

var errAway = &ha.UnavailableError{What: "database", Err: errors.New("simulated: away")}

// pass takes the time of a statement on its way, and says whether the call fails, or its answer is lost. A process that is stopped
// on the way sends what it was about to send when it goes on, however late: only the fence keeps that out.
func (l *link) pass(ctx context.Context, kind statement) (lost bool, err error) {
	l.await()
	l.mu.Lock()
	delay := time.Duration(1+l.rng.IntN(l.w.slow)) * time.Millisecond
	away, hangs := l.away, l.rng.IntN(2) == 0
	fail, lose := l.rng.Float64() < l.bad, l.rng.Float64() < l.bad
	l.mu.Unlock()
	if away && hangs { // a dead connection
		delay = 2 * time.Second
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false, errAway
	}
	if trap := l.trapped(commit); trap != nil {
		trap()
	}
	l.await()
	l.mu.Lock()
	defer l.mu.Unlock()
	if away || fail || l.crash {
		return false, errAway
	}
	return lose, nil
}

// sent is the context of a statement that has left: its sender's end does not call it back.
func sent(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// statement is a kind of call: some blows fall only on a commit.
type statement int

const (
	other statement = iota
	commit
)

// trapped returns the blow that waits for such a call, once.
func (l *link) trapped(kind statement) (trap func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kind == commit {
		trap, l.trap = l.trap, nil
	}
	return trap
}

// await returns when the process is not stopped.
func (l *link) await() {
	for {
		l.mu.Lock()
		thawed := l.thawed
		l.mu.Unlock()
		select {
		case <-thawed:
			return
		default:
			<-thawed
		}
	}
}

func (l *link) Poll(ctx context.Context, me string) (ha.Poll, error) {
	if _, err := l.pass(ctx, other); err != nil {
		return ha.Poll{}, err
	}
	return l.Store.Poll(ctx, me)
}

func (l *link) BeatEngine(ctx context.Context, e ha.Engine) error {
	if _, err := l.pass(ctx, other); err != nil {
		return err
	}
	return l.Store.BeatEngine(ctx, e)
}

func (l *link) LeaveEngine(ctx context.Context, name string) error {
	if _, err := l.pass(ctx, other); err != nil {
		return err
	}
	return l.Store.LeaveEngine(ctx, name)
}

func (l *link) Engines(ctx context.Context) ([]ha.Engine, error) {
	if _, err := l.pass(ctx, other); err != nil {
		return nil, err
	}
	return l.Store.Engines(ctx)
}

func (l *link) Claim(ctx context.Context, r ha.ClaimRequest) (ha.Lease, ha.Unit, error) {
	lost, err := l.pass(ctx, other)
	if err != nil {
		return ha.Lease{}, ha.Unit{}, err
	}
	lease, unit, err := l.Store.Claim(sent(ctx), r)
	if err == nil {
		l.w.claimed(l, lease, unit)
		if lost {
			return ha.Lease{}, ha.Unit{}, errAway
		}
		l.w.plant.spoil(&unit)
	}
	l.await()
	return lease, unit, err
}

func (l *link) Load(ctx context.Context, lease *ha.Lease) (ha.Unit, error) {
	if _, err := l.pass(ctx, other); err != nil {
		return ha.Unit{}, err
	}
	mine := *lease
	l.unfence(lease)
	unit, err := l.Store.Load(sent(ctx), lease)
	if err == nil {
		l.w.wrote(l, mine, nil)
	}
	return unit, err
}

func (l *link) Beats(ctx context.Context, leases []ha.Lease) (map[int64]ha.Beat, error) {
	lost, err := l.pass(ctx, other)
	if err != nil {
		return nil, err
	}
	beats, err := l.Store.Beats(sent(ctx), leases)
	for _, lease := range leases {
		if _, ok := beats[lease.WorkID]; ok {
			l.w.wrote(l, lease, nil)
		}
	}
	if lost {
		return nil, errAway
	}
	l.await()
	return beats, err
}

func (l *link) Commit(ctx context.Context, lease *ha.Lease, changes ...ha.Change) (ha.Beat, error) {
	lost, err := l.pass(ctx, commit)
	if err != nil {
		return ha.Beat{}, err
	}
	mine := *lease
	l.unfence(lease)
	beat, err := l.Store.Commit(sent(ctx), lease, changes...)
	if err == nil {
		l.w.wrote(l, mine, changes)
		if lost {
			return ha.Beat{}, errAway
		}
	}
	l.await()
	return beat, err
}

// unfence is the planted bug of a store without a fence: whoever writes passes for the owner.
func (l *link) unfence(lease *ha.Lease) {
	if l.w.plant != plantNoFence {
		return
	}
	if now, ok := l.w.owner(lease.WorkID); ok {
		lease.Owner, lease.Epoch = now.Owner, now.Epoch
	}
}
