package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// beaten is a store that beats, and knows no unit 3.
type beaten struct {
	Store
	mu      sync.Mutex
	rounds  [][]ha.Lease
	commits []int64
}

func (b *beaten) Beats(_ context.Context, leases []ha.Lease) (map[int64]ha.Beat, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rounds = append(b.rounds, leases)
	beats := map[int64]ha.Beat{}
	for _, l := range leases {
		if l.WorkID != 3 {
			beats[l.WorkID] = ha.Beat{Beat: l.Beat + 1}
		}
	}
	return beats, nil
}

func (b *beaten) Commit(_ context.Context, l *ha.Lease, _ ...ha.Change) (ha.Beat, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.commits = append(b.commits, l.WorkID)
	return ha.Beat{}, ha.ErrFenced
}

// TestBeatsTogether: units of one engine beat in one statement; one that is not in its answer learns why by itself.
func TestBeatsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &beaten{}
		e := New(Config{Tick: time.Second, TTL: 5 * time.Second}, store, nil, nil)
		for id := range int64(4) {
			e.units[id] = &unit{e: e, lease: ha.Lease{WorkID: id, Owner: "me", Epoch: 1, Beat: 10 * id}}
		}
		var wg sync.WaitGroup
		began := time.Now()
		for id, u := range e.units {
			wg.Go(func() {
				time.Sleep(time.Duration(id) * time.Millisecond)
				beat, sent, err := u.beat(t.Context())
				switch {
				case id == 3 && !errors.Is(err, ha.ErrFenced):
					t.Errorf("the unit of another: %v", err)
				case id != 3 && (err != nil || beat.Beat != 10*id+1 || u.lease.Beat != beat.Beat || sent.Sub(began) != beatsTogether):
					t.Errorf("unit %d: beat %d, lease %+v, sent after %s, %v", id, beat.Beat, u.lease, sent.Sub(began), err)
				}
			})
		}
		wg.Wait()
		if len(store.rounds) != 1 || len(store.rounds[0]) != 4 || len(store.commits) != 1 || store.commits[0] != 3 {
			t.Errorf("rounds %+v, commits %v", store.rounds, store.commits)
		}
	})
}
