package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

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

func (s *Store) migrations() (*migrate.Migrations, error) {
	dir := map[string]string{sqlite: "sqlite", mysql: "mysql", postgres: "postgres"}[s.d.name]
	files, err := fs.Sub(migrationFiles, "migrations/"+dir)
	if err != nil {
		return nil, fmt.Errorf("the embedded migrations: %w", err)
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

// Sync brings the tables to the newest version. Run again, it changes nothing. A row keeps two runs apart; a run that was
// killed leaves it: see Unlock.
func (s *Store) Sync(ctx context.Context) error {
	m, err := s.migrator()
	if err != nil {
		return err
	}
	have, err := s.hasTables(ctx)
	if err != nil {
		return err
	}
	if have.masakari && !have.ours {
		return fmt.Errorf("%s holds Masakari's own tables: salvor needs a database of its own, into which they can be imported; "+
			"nothing was changed", s.where)
	}
	if err := m.Init(ctx); err != nil {
		return s.explain("creating the table of migrations", err)
	}
	all, err := m.MigrationsWithStatus(ctx)
	if err != nil {
		return s.explain("reading the table of migrations", err)
	}
	if len(all.Unapplied()) == 0 {
		return nil
	}
	if err := m.Lock(ctx); err != nil {
		if s.duplicate(err) {
			return &ha.ConflictError{Text: fmt.Sprintf(
				"The tables of %s are being migrated by another process. If there is none, one was killed: run salvor db unlock, then this again.", s.where)}
		}
		return s.explain("locking the migrations", err)
	}
	if _, err := m.Migrate(ctx); err != nil {
		return errors.Join(s.explain("migrating the tables", err), s.Unlock(context.WithoutCancel(ctx)))
	}
	return s.Unlock(ctx)
}

// Version returns the newest migration that the database has, "" when it has none.
func (s *Store) Version(ctx context.Context) (string, error) {
	have, err := s.hasTables(ctx)
	if err != nil || !have.ours {
		return "", err
	}
	var version string
	err = s.read(ctx, "reading the version of the tables", func(ctx context.Context, db bun.IDB) error {
		return db.NewRaw("SELECT COALESCE(MAX(name), '') FROM ?", bun.Ident(migrationsTable)).Scan(ctx, &version)
	})
	return version, err
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
	have, err := s.hasTables(ctx)
	if err != nil || !have.ours {
		return err
	}
	m, err := s.migrator()
	if err != nil {
		return err
	}
	return s.explain("unlocking the migrations", m.Unlock(ctx))
}

// tables says which tables are there.
type tables struct{ ours, masakari bool }

func (s *Store) hasTables(ctx context.Context) (tables, error) {
	query := "SELECT table_name FROM information_schema.tables WHERE table_name IN (?, 'failover_segments') AND table_schema = "
	switch s.d.name {
	case sqlite:
		query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name IN (?, 'failover_segments')"
	case mysql:
		query += "DATABASE()"
	default:
		query += "current_schema()"
	}
	var names []string
	err := s.read(ctx, "looking for tables", func(ctx context.Context, db bun.IDB) error {
		names = nil
		return db.NewRaw(query, migrationsTable).Scan(ctx, &names)
	})
	var have tables
	for _, n := range names {
		have.ours = have.ours || n == migrationsTable
		have.masakari = have.masakari || n == "failover_segments"
	}
	return have, err
}
