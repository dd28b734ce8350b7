package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
)

// TestRefused: what no waiting ends is not called unavailable, and says what is wrong; what may end is.
func TestRefused(t *testing.T) {
	mariadbURL, postgresURL := mariadb.database(t), postgres.database(t)
	missing := randomName()
	account := strings.NewReplacer("root@", "nobody:wrong@")
	for _, tt := range []struct {
		name, url, want string
		temporary       bool
	}{
		{"MariaDB, account", account.Replace(mariadbURL), "account or its password is wrong", false},
		{"MariaDB, database", strings.Replace(mariadbURL, "/salvor_test", "/"+missing, 1), "no such database", false},
		{"MariaDB, host", "mysql://root@no-such-host.invalid/salvor", "no host of this name", false},
		{"MariaDB, nobody listens", "mysql://root@127.0.0.1:1/salvor", "connecting to", true},
		{"MariaDB, one of two nodes is away", "mysql://nobody:wrong@" + mariadbAddress + ",127.0.0.1:1/salvor", "connecting to", true},
		{"PostgreSQL, database", strings.Replace(postgresURL, "/salvor_test", "/"+missing, 1), "no such database", false},
		{"PostgreSQL, account", strings.Replace(postgresURL, "postgres:ignored@", "nobody:wrong@", 1), "account or its password is wrong", false},
		{"PostgreSQL, nobody listens", "postgresql://postgres@127.0.0.1:1/salvor", "connecting to", true},
	} {
		_, err := store.Open(t.Context(), store.Config{URL: tt.url})
		var away *ha.UnavailableError
		var refused *store.RefusedError
		if err == nil || errors.As(err, &away) != tt.temporary || errors.As(err, &refused) == tt.temporary || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "wrong@") {
			t.Errorf("%s: temporary %v, %v; want %q, temporary %v", tt.name, errors.As(err, &away), err, tt.want, tt.temporary)
		}
	}
}

// TestDroppedTable: it is named.
func TestDroppedTable(t *testing.T) {
	servers(t, func(t *testing.T, url string, open func(*testing.T, store.Config) *store.Store) {
		spy := &spy{}
		s := open(t, store.Config{URL: url, Wrap: spy.wrap})
		if err := s.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.CheckTables(t.Context()); err != nil {
			t.Fatalf("nothing is missing: %v", err)
		}
		pool := spy.pool()
		defer pool.Close()
		if _, err := pool.Exec("DROP TABLE claims"); err != nil {
			t.Fatal(err)
		}
		if err := s.CheckTables(t.Context()); err == nil || !strings.Contains(err.Error(), "claims") || !strings.Contains(err.Error(), "backup") {
			t.Fatalf("a dropped table: %v", err)
		}
	})
}
