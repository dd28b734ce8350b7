package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
)

func TestSync(t *testing.T) {
	servers(t, func(t *testing.T, url string, open func(*testing.T, store.Config) *store.Store) {
		ctx := t.Context()
		spy := &spy{}
		s := open(t, store.Config{URL: url, Wrap: spy.wrap, SyncFor: time.Millisecond})
		version := func(want string) {
			t.Helper()
			if got, err := s.Version(ctx); err != nil || got != want {
				t.Fatalf("version is %q, %v; want %q", got, err, want)
			}
		}
		newest, err := s.Newest()
		if err != nil || newest == "" {
			t.Fatalf("newest version is %q, %v", newest, err)
		}
		version("")
		if err := s.Unlock(ctx); err != nil {
			t.Fatalf("unlocking an empty database: %v", err)
		}
		if _, err := s.Segment(ctx, uuid.NewString()); err == nil || !strings.Contains(err.Error(), "salvor db sync") {
			t.Fatalf("a call without tables ends with %v, want what to do", err)
		}

		// A Sync that was killed leaves its lock; the next one says what to do.
		pool := spy.pool()
		defer pool.Close()
		if err := s.Sync(ctx); err != nil {
			t.Fatal(err)
		}
		version(newest)
		for _, statement := range []string{"DELETE FROM salvor_migrations", "INSERT INTO salvor_migration_locks (table_name) VALUES ('salvor_migrations')"} {
			if _, err := pool.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		version("")
		var locked *ha.ConflictError
		if err := s.Sync(ctx); !errors.As(err, &locked) || !strings.Contains(err.Error(), "salvor db unlock") {
			t.Fatalf("a locked sync ends with %v, want what to do", err)
		}
		if err := s.Unlock(ctx); err != nil {
			t.Fatal(err)
		}

		// What a killed Sync had made is no hindrance, and what is stored stays.
		made, err := s.CreateSegment(ctx, ha.Segment{UUID: uuid.NewString(), Name: "s", ServiceType: "C", RecoveryMethod: ha.MethodAuto})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.Sync(ctx); err != nil {
				t.Fatal(err)
			}
		}
		version(newest)
		if _, err := s.Segment(ctx, made.UUID); err != nil {
			t.Fatal(err)
		}
	})
}

// A database that holds Masakari's tables is not touched.
func TestSyncRefusesMasakari(t *testing.T) {
	servers(t, func(t *testing.T, url string, open func(*testing.T, store.Config) *store.Store) {
		spy := &spy{}
		s := open(t, store.Config{URL: url, Wrap: spy.wrap})
		pool := spy.pool()
		defer pool.Close()
		if _, err := pool.Exec("CREATE TABLE failover_segments (id INTEGER)"); err != nil {
			t.Fatal(err)
		}
		if err := s.Sync(t.Context()); err == nil || !strings.Contains(err.Error(), "Masakari") {
			t.Fatalf("sync ended with %v", err)
		}
		if v, err := s.Version(t.Context()); err != nil || v != "" {
			t.Fatalf("version is %q, %v", v, err)
		}
	})
}

// Several at once, as when all controllers are upgraded: each ends well, with the tables there.
func TestSyncAtOnce(t *testing.T) {
	servers(t, func(t *testing.T, url string, open func(*testing.T, store.Config) *store.Store) {
		var group errgroup.Group
		for range 4 {
			s := open(t, store.Config{URL: url})
			group.Go(func() error { return s.Sync(t.Context()) })
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}
