package store_test

import (
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
)

// TestCheckup: a database that is as it should be says so, is not changed by being asked, and names a table that is gone.
func TestCheckup(t *testing.T) {
	servers(t, func(t *testing.T, url string, open func(*testing.T, store.Config) *store.Store) {
		ear := &spy{}
		s := open(t, store.Config{URL: url, Wrap: ear.wrap})
		if state, err := s.Checkup(t.Context()); err != nil || state.Version != "" {
			t.Fatalf("without tables: %+v, %v", state, err)
		}
		if err := s.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		state, err := s.Checkup(t.Context())
		if err != nil || state.Version == "" || state.Version != state.Newest || len(state.Missing)+len(state.Refused) > 0 || state.Galera != nil {
			t.Fatalf("%+v, %v", state, err)
		}
		if i := strings.ToUpper(strings.ReplaceAll(state.Isolation, "-", " ")); i != "READ COMMITTED" && !state.Embedded {
			t.Errorf("isolation %q", i)
		}
		if ahead, known := state.Clock.Ahead(); !known || ahead.Abs() > state.Clock.Rough+time.Second {
			t.Errorf("clock: %s, %t, rough by %s", ahead, known, state.Clock.Rough)
		}
		ear.set(func(s *spy) {
			s.exec = func(query string) error {
				if strings.HasPrefix(query, "INSERT INTO hosts") {
					return driver.ErrBadConn
				}
				return nil
			}
		})
		var away *ha.UnavailableError
		if state, err := s.Checkup(t.Context()); !errors.As(err, &away) || len(state.Refused) > 0 {
			t.Errorf("a connection that breaks is taken for a right that lacks: %q, %v", state.Refused, err)
		}
		ear.set(func(s *spy) { s.exec = nil })
		pool := ear.pool()
		defer pool.Close()
		if _, err := pool.Exec("DROP TABLE claims"); err != nil {
			t.Fatal(err)
		}
		if state, err := s.Checkup(t.Context()); err != nil || len(state.Missing) != 1 || state.Missing[0] != "claims" {
			t.Errorf("%+v, %v", state, err)
		}
	})
}

// TestCheckupOfALimitedAccount: what it may not do is named, table by table, before a recovery needs it.
func TestCheckupOfALimitedAccount(t *testing.T) {
	url := mariadb.database(t)
	full, err := store.Open(t.Context(), store.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	if err := full.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	name := randomName()[:24]
	if err := mariadb.run(t.Context(), "CREATE USER "+name+"@localhost IDENTIFIED BY 'limited'", "GRANT SELECT, INSERT ON "+databaseOf(url)+".* TO "+name+"@localhost"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mariadb.run(t.Context(), "DROP USER "+name+"@localhost") }()
	s, err := store.Open(t.Context(), store.Config{URL: strings.Replace(url, "root@", name+":limited@", 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	state, err := s.Checkup(t.Context())
	if err != nil || len(state.Refused) == 0 || !strings.Contains(state.Refused[0], "UPDATE of failover_segments") || strings.Contains(strings.Join(state.Refused, ""), "limited") {
		t.Errorf("%+v, %v", state, err)
	}
}
