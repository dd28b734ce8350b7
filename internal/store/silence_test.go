package store_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
)

// TestFallenSilent: of many processes that ask at once, one gets to know of each silence; also when the answer to its commit is lost.
func TestFallenSilent(t *testing.T) {
	servers(t, func(t *testing.T, url string, open func(*testing.T, store.Config) *store.Store) {
		b := newBench(t, url, open)
		report := func(day int) {
			t.Helper()
			_, err := b.ReportStorage(t.Context(), ha.AgentReport{HostUUID: b.host.UUID, Epoch: 1, Seq: int64(day), EpisodeUUID: uuid.NewString(), TicketKey: []byte("k")})
			b.must(err)
			pool := b.spy.pool()
			defer pool.Close()
			_, err = pool.Exec(fmt.Sprintf("UPDATE host_health SET reported_at = '2026-01-%02d 00:00:00.000000'", day))
			b.must(err)
		}
		if got, err := b.FallenSilent(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("a host without an agent: %v, %v", got, err)
		}
		for day := 1; day <= 3; day++ {
			report(day)
			var mu sync.Mutex
			var told []string
			var all sync.WaitGroup
			for _, s := range []*store.Store{b.Store, b.other, b.other, b.Store} {
				all.Go(func() {
					hosts, err := s.FallenSilent(t.Context())
					mu.Lock()
					defer mu.Unlock()
					told = append(told, hosts...)
					if err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if !slices.Equal(told, []string{b.host.Name}) {
				t.Errorf("silence %d was told of %q", day, told)
			}
		}
		report(4)
		b.spy.once(answerLost)
		if got, err := b.FallenSilent(t.Context()); err != nil || len(got) != 1 {
			t.Errorf("the answer was lost: %v, %v", got, err)
		}
		report(5)
		b.spy.once(commitLost)
		if got, err := b.FallenSilent(t.Context()); err == nil || len(got) != 0 {
			t.Errorf("the commit was lost: %v, %v", got, err)
		}
		if got, err := b.FallenSilent(t.Context()); err != nil || len(got) != 1 {
			t.Errorf("and then: %v, %v", got, err)
		}
	})
}
