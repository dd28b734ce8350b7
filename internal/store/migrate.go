package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/migrate"

	"github.com/salvor-ha/salvor/internal/ha"
)

//go:embed migrations
var migrationFiles embed.FS

const (
	migrationsTable = "salvor_migrations"
	locksTable      = "salvor_migration_locks"
)

// migrationDir are the migrations of this kind of database.
func (s *Store) migrationDir() (fs.FS, []fs.DirEntry, error) {
	dir := map[string]string{sqlite: "sqlite", mysql: "mysql", postgres: "postgres"}[s.d.name]
	files, err := fs.Sub(migrationFiles, "migrations/"+dir)
	if err != nil {
		return nil, nil, fmt.Errorf("the embedded migrations: %w", err)
	}
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, nil, fmt.Errorf("the embedded migrations: %w", err)
	}
	return files, entries, nil
}

func (s *Store) migrations() (*migrate.Migrations, error) {
	files, _, err := s.migrationDir()
	if err != nil {
		return nil, err
	}
	all := migrate.NewMigrations()
	if err := all.Discover(files); err != nil {
		return nil, fmt.Errorf("the embedded migrations: %w", err)
	}
	return all, nil
}

func (s *Store) migrator() (*migrate.Migrator, error) {
	all, err := s.migrations()
	if err != nil {
		return nil, err
	}
	return migrate.NewMigrator(s.db, all,
		migrate.WithTableName(migrationsTable), migrate.WithLocksTableName(locksTable),
		// A migration that was cut short runs again: its statements create only what is not there.
		migrate.WithMarkAppliedOnSuccess(true)), nil
}

// Sync brings the tables to the newest version. Run again, it changes nothing. A row keeps two runs apart, of which the later waits for
// the end of the earlier, as when all controllers are upgraded at once; a run that was killed leaves the row: see Unlock.
func (s *Store) Sync(ctx context.Context) error {
	m, err := s.migrator()
	if err != nil {
		return err
	}
	if err := s.refuseMasakari(ctx); err != nil {
		return err
	}
	err = m.Init(ctx)
	for range 2 { // tables, each of which another run may have made since PostgreSQL's IF NOT EXISTS asked: 23505 or 42P07
		if err != nil {
			err = m.Init(ctx)
		}
	}
	if err != nil {
		return s.explain("creating the table of migrations", err)
	}
	due, err := s.lockDue(ctx, m)
	if err != nil || !due {
		return err
	}
	if _, err := m.Migrate(ctx); err != nil {
		return errors.Join(s.explain("migrating the tables", err), s.Unlock(context.WithoutCancel(ctx)))
	}
	return s.Unlock(ctx)
}

// lockDue takes the row that keeps two runs apart, once no other has it; false when nothing is left to be done.
func (s *Store) lockDue(ctx context.Context, m *migrate.Migrator) (bool, error) {
	patience, cancel := context.WithTimeout(ctx, s.syncFor)
	defer cancel()
	look := time.NewTicker(syncLook)
	defer look.Stop()
	for {
		all, err := m.MigrationsWithStatus(ctx)
		if err != nil {
			return false, s.explain("reading the table of migrations", err)
		}
		if len(all.Unapplied()) == 0 {
			return false, nil
		}
		if err = m.Lock(ctx); err == nil {
			return true, nil
		}
		if !s.duplicate(err) {
			return false, s.explain("locking the migrations", err)
		}
		select {
		case <-look.C:
		case <-patience.Done():
			return false, errors.Join(ctx.Err(), &ha.ConflictError{Text: fmt.Sprintf("the tables of %s are still being migrated by another process, after %s. "+
				"If there is none, one was killed: run salvor db unlock, then this again", s.where, s.syncFor)})
		}
	}
}

// syncLook is how often a run looks whether another has ended.
const syncLook = 200 * time.Millisecond

// refuseMasakari refuses a database that holds Masakari's tables, which have the names of salvor's, and says what to do.
func (s *Store) refuseMasakari(ctx context.Context) error {
	have, err := s.present(ctx, migrationsTable, "failover_segments")
	if err != nil || len(have) != 1 || have[0] == migrationsTable {
		return err
	}
	return &ha.ConflictError{Text: fmt.Sprintf(`%s holds Masakari's own tables, and nothing was changed there. salvor needs a database of its own, and takes them over from this one:
  1. Make an empty database, such as salvor, next to it, with all rights for the same account.
  2. Let [database] connection name the new one. Keep the present URL: it is --from below.
  3. salvor db sync
  4. salvor db import-masakari --from URL --dry-run     shows what would be taken; then without --dry-run
Masakari's tables stay as they are: they are the way back.`, s.where)}
}

// Version returns the newest migration that the database has, "" when it has none.
func (s *Store) Version(ctx context.Context) (string, error) {
	have, err := s.present(ctx, migrationsTable)
	if err != nil || len(have) == 0 {
		return "", err
	}
	var version string
	err = s.read(ctx, "reading the version of the tables", func(ctx context.Context, db bun.IDB) error {
		return db.NewRaw("SELECT COALESCE(MAX(name), '') FROM ?", bun.Ident(migrationsTable)).Scan(ctx, &version)
	})
	return version, err
}

var createTable = regexp.MustCompile(`CREATE TABLE IF NOT EXISTS (\w+) \(\s*(\w+)`)

// Missing returns the tables that the database's version has and that are not there: somebody dropped them.
func (s *Store) Missing(ctx context.Context) ([]string, error) {
	version, err := s.Version(ctx)
	if err != nil || version == "" {
		return nil, err
	}
	tables, err := s.tablesOf(version)
	if err != nil {
		return nil, err
	}
	want := make([]string, len(tables))
	for i, t := range tables {
		want[i] = t.name
	}
	have, err := s.present(ctx, want...)
	return slices.DeleteFunc(want, func(t string) bool { return slices.Contains(have, t) }), err
}

// table is one of a migration's, with its first column.
type table struct{ name, column string }

// tablesOf are the tables of a version.
func (s *Store) tablesOf(version string) ([]table, error) {
	files, dir, err := s.migrationDir()
	if err != nil {
		return nil, err
	}
	var want []table
	for _, f := range dir {
		if number, _, _ := strings.Cut(f.Name(), "_"); number > version {
			continue
		}
		text, err := fs.ReadFile(files, f.Name())
		if err != nil {
			return nil, fmt.Errorf("the embedded migrations: %w", err)
		}
		for _, m := range createTable.FindAllStringSubmatch(string(text), -1) {
			want = append(want, table{m[1], m[2]})
		}
	}
	return want, nil
}

// CheckTables refuses a database that lacks tables of its version, and names them.
func (s *Store) CheckTables(ctx context.Context) error {
	missing, err := s.Missing(ctx)
	if err != nil || len(missing) == 0 {
		return err
	}
	return fmt.Errorf("%s lacks tables that its version has: %s. Somebody dropped them: restore the database from its backup, or begin with an empty one",
		s.where, strings.Join(missing, ", "))
}

// Newest returns the version that Sync brings the tables to.
func (s *Store) Newest() (string, error) {
	m, err := s.migrations()
	if err != nil {
		return "", err
	}
	all := m.Sorted()
	return all[len(all)-1].Name, nil
}

// Unlock removes the row that a killed Sync left behind.
func (s *Store) Unlock(ctx context.Context) error {
	have, err := s.present(ctx, migrationsTable)
	if err != nil || len(have) == 0 {
		return err
	}
	m, err := s.migrator()
	if err != nil {
		return err
	}
	return s.explain("unlocking the migrations", m.Unlock(ctx))
}

// present returns which of the tables with these names are there.
func (s *Store) present(ctx context.Context, names ...string) (have []string, err error) {
	query := "SELECT table_name FROM information_schema.tables WHERE table_name IN (?) AND table_schema = "
	switch s.d.name {
	case sqlite:
		query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name IN (?)"
	case mysql:
		query += "DATABASE()"
	default:
		query += "current_schema()"
	}
	err = s.read(ctx, "looking for tables", func(ctx context.Context, db bun.IDB) error {
		have = nil
		return db.NewRaw(query, bun.List(names)).Scan(ctx, &have)
	})
	return have, err
}
