package store_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/store"
)

// masakariOf makes a database as a Masakari has it, with so many segments and nothing else.
func masakariOf(t *testing.T, segments int) (url string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "masakari.sqlite")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	statements := []string{
		"CREATE TABLE masakari_alembic_version (version_num TEXT)", "INSERT INTO masakari_alembic_version VALUES ('13adff5efb9a')",
		"CREATE TABLE failover_segments (id INTEGER PRIMARY KEY, created_at DATETIME, updated_at DATETIME, deleted_at DATETIME, deleted INT, uuid TEXT, name TEXT, " +
			"service_type TEXT, description TEXT, recovery_method TEXT, enabled BOOLEAN)",
		"CREATE TABLE hosts (id INTEGER PRIMARY KEY, created_at DATETIME, updated_at DATETIME, deleted_at DATETIME, deleted INT, uuid TEXT)",
		"CREATE TABLE notifications (id INTEGER PRIMARY KEY, created_at DATETIME, updated_at DATETIME, deleted_at DATETIME, deleted INT, notification_uuid TEXT)",
	}
	for i := range segments {
		statements = append(statements, fmt.Sprintf("INSERT INTO failover_segments VALUES (%d, '2024-01-01 00:00:00', NULL, NULL, 0, "+
			"'10000000-0000-4000-8000-%012d', 'rack-%d', 'COMPUTE', NULL, 'auto', 1)", i+1, i+1, i+1))
	}
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return "sqlite:///" + file
}

// TestTwoImportsAtOnce: what another import takes between two looks of this one, or between its looks and its writing, is there
// already, and neither another row nor refused by the database.
func TestTwoImportsAtOnce(t *testing.T) {
	servers(t, func(t *testing.T, url string, open func(*testing.T, store.Config) *store.Store) {
		if strings.HasPrefix(url, "sqlite") {
			t.Skip("its transactions that write wait for each other from their beginning")
		}
		unquoted := strings.NewReplacer("`", "", `"`, "")
		for _, segments := range []int{1, 3} {
			from := masakariOf(t, segments)
			for _, look := range []string{"uuid IN", "id IN", "deleted IN"} { // in this order
				ear := &spy{}
				s := open(t, store.Config{URL: url, Wrap: ear.wrap})
				if err := s.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
				pool := ear.pool()
				defer pool.Close()
				if _, err := pool.ExecContext(t.Context(), "DELETE FROM failover_segments"); err != nil {
					t.Fatal(err)
				}
				what := store.Import{From: from, Say: func(line string) { t.Errorf("%d rows, taken after the look by %s: %s", segments, look, line) }}
				others := open(t, store.Config{URL: url})
				met := false
				ear.set(func(s *spy) {
					s.exec = func(query string) error {
						if plain := unquoted.Replace(query); !met && strings.Contains(plain, "FROM failover_segments WHERE "+look) {
							met = true
							r, err := others.ImportMasakari(t.Context(), what)
							if err != nil || r.Tables[0].Taken != segments {
								t.Errorf("the other import: %+v, %v", r, err)
							}
						}
						return nil
					}
				})
				r, err := s.ImportMasakari(t.Context(), what)
				if want := (store.ImportedTable{Name: "failover_segments", There: segments}); err != nil || !met || r.Tables[0] != want {
					t.Errorf("%d rows, taken after the look by %s (met: %v): %+v, %v", segments, look, met, r.Tables, err)
				}
			}
		}
	})
}
