package galera

import (
	"os"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/store/storetest"
)

// TestStore runs the suite of all stores through URLs that name all nodes, each store of a test at another one. It takes a minute
// or more: only with STORE=all.
func TestStore(t *testing.T) {
	if os.Getenv("STORE") != "all" {
		t.Skip("SKIPPED: takes a minute: STORE=all")
	}
	g := cluster(t)
	storetest.Run(t, func(t *testing.T) storetest.Open {
		database, at := g.Database(t), 0
		open := func(t *testing.T) *store.Store {
			s, err := store.Open(t.Context(), store.Config{URL: g.URL(database, at%len(g.Nodes)), SyncWait: 3, RetryFor: 30 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			at++
			return s
		}
		if err := open(t).Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		return func(t *testing.T) storetest.Backend { return open(t) }
	})
}
