// Package memstore keeps salvor's rows in memory, with the semantics of package store: one mutex stands for the database's
// transactions, time.Now for its clock, which is virtual in a testing/synctest bubble. It is for simulations of many hosts
// over long times, and injects the faults of a database.
//
// What it returns shares payloads and texts with its rows: callers do not write into them.
package memstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// FaultAction is what happens to one call.
type FaultAction int

const (
	None             FaultAction = iota
	FailBefore                   // nothing is done, *ha.UnavailableError
	LoseAnswer                   // done; the answer is lost and cannot be looked up: *ha.UnavailableError
	LoseAnswerLookUp             // done; the answer is lost, the store looks it up and finds it: the call succeeds, a little later
	Block                        // nothing is done, and nothing answers until the context ends
)

// lookUpDelay is how long a store needs to find out how a lost commit ended.
const lookUpDelay = 10 * time.Millisecond

// Config of a store in memory.
type Config struct {
	// Fault decides about each call, by the name of the method ("Commit", "Admit", …). It may sleep, to make the database
	// slow. nil: no faults.
	Fault func(op string) FaultAction
	// Announce has changes told to others, as of package store; nil: nobody is told.
	Announce *rules.Announce
}

// Store is the rows. Its methods may be called at once from many goroutines.
type Store struct {
	fault    func(op string) FaultAction
	announce *rules.Announce

	mu     sync.Mutex
	lastID int64

	segments     map[string]*segment // by uuid, deleted ones too
	segmentNames map[string]*segment // live, by folded name
	hosts        map[string]*host
	hostNames    map[string]*host
	hostsOf      map[string][]*host // by segment, deleted ones too
	notes        map[string]*note
	noteOrder    []*note            // by id
	notesOf      map[string][]*note // by unit key, by id
	open         map[string]*note   // new, running, error
	fresh        []*note            // new, by id
	moves        map[string][]*ha.VMove
	moveUUIDs    map[string]*ha.VMove
	works        map[int64]*work
	worksOf      map[string][]*work // by notification, by id
	active       map[string]*work   // by unit key
	activeOn     map[string]map[int64]*work
	started      map[string][]*work // host units by segment that have passed their gates, the last minute's at least
	journal      map[int64][]*ha.Entry
	written      map[entryKey]bool
	claims       map[claimKey]*ha.Claim
	claimsOn     map[string][]*ha.Claim // by host, by id
	engines      map[string]*engine
	outbox       map[string][]letter // by destination, by id
	shippers     map[string]ha.Shipping
	pauses       map[string]ha.Pause // by segment, "" for everything
	storage      storageRows
	blobs        blobRows
}

type segment struct {
	ha.Segment
	deletedAt *time.Time
}

type host struct {
	ha.Host
	deletedAt *time.Time
}

type note struct {
	ha.Notification
	key string
}

type work struct {
	ha.Work
	nextLook time.Time // as the column next_look_at of package store
	seen     int64     // of Signal, what the owner has loaded
	open     []*ha.Entry
}

type engine struct {
	ha.Engine
	seen time.Time
}

type entryKey struct{ work, epoch, seq int64 }

type claimKey struct {
	host   string
	what   ha.What
	reason ha.Reason
	detail string
}

// New returns an empty store.
func New(c Config) *Store {
	return &Store{
		fault: c.Fault, announce: c.Announce, outbox: map[string][]letter{}, shippers: map[string]ha.Shipping{},
		segments: map[string]*segment{}, segmentNames: map[string]*segment{},
		hosts: map[string]*host{}, hostNames: map[string]*host{}, hostsOf: map[string][]*host{},
		notes: map[string]*note{}, notesOf: map[string][]*note{}, open: map[string]*note{},
		moves: map[string][]*ha.VMove{}, moveUUIDs: map[string]*ha.VMove{},
		works: map[int64]*work{}, worksOf: map[string][]*work{}, active: map[string]*work{}, activeOn: map[string]map[int64]*work{},
		started: map[string][]*work{}, journal: map[int64][]*ha.Entry{}, written: map[entryKey]bool{},
		claims: map[claimKey]*ha.Claim{}, claimsOn: map[string][]*ha.Claim{}, engines: map[string]*engine{}, pauses: map[string]ha.Pause{},
		storage: newStorageRows(), blobs: newBlobRows(),
	}
}

// tx is one transaction: what it changed, so that it can be undone, and its time.
type tx struct {
	*Store
	now  time.Time
	undo []func()
}

// undone remembers how to take a change back.
func (t *tx) undone(f func()) { t.undo = append(t.undo, f) }

// put writes a value and remembers the old one.
func put[V any](t *tx, at *V, v V) {
	old := *at
	t.undone(func() { *at = old })
	*at = v
}

// putKey writes into a map and remembers what was there.
func putKey[K comparable, V any](t *tx, m map[K]V, k K, v V) {
	old, had := m[k]
	t.undone(func() { restore(m, k, old, had) })
	m[k] = v
}

func deleteKey[K comparable, V any](t *tx, m map[K]V, k K) {
	old, had := m[k]
	if had {
		t.undone(func() { restore(m, k, old, had) })
		delete(m, k)
	}
}

func restore[K comparable, V any](m map[K]V, k K, old V, had bool) {
	if had {
		m[k] = old
	} else {
		delete(m, k)
	}
}

func (t *tx) id() int64 {
	t.lastID++ // like a sequence, it is not given back
	return t.lastID
}

var errInjected = errors.New("injected fault")

func unavailable(op string, err error) error {
	return &ha.UnavailableError{What: "database", Err: errors.Join(errors.New(op), err)}
}

// run carries out one call as a transaction: all of it, or nothing.
func (s *Store) run(ctx context.Context, op string, fn func(*tx) error) error {
	action := None
	if s.fault != nil {
		action = s.fault(op)
	}
	if err := ctx.Err(); err != nil {
		return unavailable(op, err)
	}
	switch action {
	case FailBefore:
		return unavailable(op, errInjected)
	case Block:
		<-ctx.Done()
		return unavailable(op, ctx.Err())
	}
	if err := s.transact(fn); err != nil {
		return err
	}
	switch action {
	case LoseAnswer:
		return unavailable(op, errInjected)
	case LoseAnswerLookUp:
		timer := time.NewTimer(lookUpDelay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return unavailable(op, ctx.Err())
		}
	}
	return nil
}

func (s *Store) transact(fn func(*tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := tx{Store: s, now: rules.Micro(time.Now())}
	err := fn(&t)
	if err != nil {
		for i := len(t.undo) - 1; i >= 0; i-- {
			t.undo[i]()
		}
	}
	return err
}

// Ping answers like any other call.
func (s *Store) Ping(ctx context.Context) error {
	return s.run(ctx, "Ping", func(*tx) error { return nil })
}

func second(t time.Time) *time.Time {
	s := rules.Second(t)
	return &s
}
