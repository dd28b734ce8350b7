package store_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/salvor-ha/salvor/internal/engine"
	"github.com/salvor-ha/salvor/internal/service"
	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/store/storetest"
)

var (
	_ engine.Store  = (*store.Store)(nil)
	_ service.Store = (*store.Store)(nil)
)

// open opens a store that is closed with the test.
func open(t *testing.T, c store.Config) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// opener returns how a database at url is opened, its tables made.
func opener(t *testing.T, url string) storetest.Open {
	t.Helper()
	if err := open(t, store.Config{URL: url}).Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) storetest.Backend { return open(t, store.Config{URL: url}) }
}

func TestSQLiteFile(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Open {
		return opener(t, "sqlite:///"+filepath.Join(t.TempDir(), "salvor db?.sqlite"))
	})
}

func TestSQLiteMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Open {
		s := open(t, store.Config{URL: "sqlite://"})
		if err := s.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		return func(*testing.T) storetest.Backend { return s }
	})
}

func TestVirtualTime(t *testing.T) {
	storetest.RunVirtual(t, func(t *testing.T) (storetest.Open, func()) {
		s, err := store.Open(t.Context(), store.Config{URL: "sqlite://"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		return func(*testing.T) storetest.Backend { return s }, func() { s.Close() }
	})
}
