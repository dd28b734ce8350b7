package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
)

const dialectSQLite = "sqlite"

// openStore connects to the database, as often as [database] max_retries says while it does not answer.
func openStore(ctx context.Context, c *config.Config, conf store.Config, log *slog.Logger) (*store.Store, error) {
	if err := makeStateDir(c); err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		s, err := store.Open(ctx, conf)
		var away *ha.UnavailableError
		var refused *store.RefusedError
		switch {
		case errors.As(err, &refused):
			return nil, fmt.Errorf("%w ([database] connection)", err)
		case err == nil || !errors.As(err, &away) || ctx.Err() != nil:
			return s, err
		case embedded(c):
			return nil, fmt.Errorf("%w (state_path, or [database] connection)", err)
		}
		if most := c.Database.MaxRetries; most >= 0 && try >= most {
			return nil, fmt.Errorf("%w (tried %d times; [database] max_retries, connection)", err, try+1)
		}
		log.Warn("the database does not answer, trying again", "in", c.Database.RetryInterval, "error", err)
		if pause(ctx, max(c.Database.RetryInterval, 100*time.Millisecond)) != nil {
			return nil, fmt.Errorf("stopped while waiting for the database: %w", err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// embedded reports whether the database is SQLite in a file of this machine.
func embedded(c *config.Config) bool {
	u, err := config.ParseDatabaseURL(c.Database.Connection)
	return err == nil && u.Dialect == dialectSQLite
}

// makeStateDir makes the directory of an embedded database's file; nobody else may read it.
func makeStateDir(c *config.Config) error {
	u, err := config.ParseDatabaseURL(c.Database.Connection)
	if err != nil {
		return err
	}
	if u.Dialect != dialectSQLite || u.Path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(u.Path), 0o700); err != nil {
		return fmt.Errorf("cannot make the directory of the embedded database: %w (state_path, or [database] connection)", err)
	}
	return nil
}

// checkTables makes sure that the tables are those of this version.
func checkTables(ctx context.Context, s *store.Store, log *slog.Logger) error {
	have, err := s.Version(ctx)
	if err != nil {
		return err
	}
	want, err := s.Newest()
	if err != nil {
		return err
	}
	switch {
	case have == "":
		return fmt.Errorf("%s has no tables of salvor's: run salvor db sync, with the same configuration", s)
	case have < want:
		return fmt.Errorf("the tables of %s are of version %s, this salvor needs %s: run salvor db sync, with the same configuration", s, have, want)
	case have > want:
		log.Warn("the tables are newer than this salvor: finish the upgrade of this machine", "tables", have, "salvor", want)
	}
	return s.CheckTables(ctx)
}

// DB is the database for the commands of `salvor db`.
type DB struct{ store *store.Store }

// OpenDB connects to the configured database. An embedded one is made when it is not there yet; see OpenDBAsItIs.
func OpenDB(ctx context.Context, c *config.Config, log *slog.Logger) (*DB, error) {
	s, err := openStore(ctx, c, storeConfig(c, syncReadsWrites), log)
	if err != nil {
		return nil, err
	}
	return &DB{s}, nil
}

// OpenDBAsItIs is OpenDB for those who only want to know: an embedded database that is not there is an error.
func OpenDBAsItIs(ctx context.Context, c *config.Config, log *slog.Logger) (*DB, error) {
	if u, err := config.ParseDatabaseURL(c.Database.Connection); err == nil && u.Dialect == dialectSQLite && u.Path != "" {
		if _, err := os.Stat(u.Path); err != nil {
			return nil, fmt.Errorf("there is no database yet: %w (salvor db sync makes it; [database] connection, state_path)", err)
		}
	}
	return OpenDB(ctx, c, log)
}

// String names the database for people, without user and password.
func (d *DB) String() string { return d.store.String() }

// Sync brings the tables to this version; run again, it changes nothing.
func (d *DB) Sync(ctx context.Context) error { return d.store.Sync(ctx) }

// Version returns the tables' version, "" for none, and the one that Sync brings them to. A version whose tables are not all
// there is an error.
func (d *DB) Version(ctx context.Context) (have, want string, err error) {
	if have, err = d.store.Version(ctx); err != nil {
		return "", "", err
	}
	if want, err = d.store.Newest(); err != nil {
		return "", "", err
	}
	return have, want, d.store.CheckTables(ctx)
}

// Import is what ImportMasakari is told; Imported is what it comes to.
type (
	Import   = store.Import
	Imported = store.Imported
)

// ImportMasakari takes the rows of a Masakari's database over. Run again, it changes nothing.
func (d *DB) ImportMasakari(ctx context.Context, what Import) (Imported, error) {
	return d.store.ImportMasakari(ctx, what)
}

// OtherEngines names the engines that beat within the last minutes and are of another version than this program.
func (d *DB) OtherEngines(ctx context.Context) ([]string, error) {
	all, err := d.store.Engines(ctx)
	var others []string
	for _, e := range all {
		if e.Version != Version {
			others = append(others, fmt.Sprintf("%s (%s)", e.Name, e.Version))
		}
	}
	return others, err
}

// PolicyIsJSON says what is wrong when the policy file is JSON, as oslo.policy's check does; "" when it is not, or not there.
func PolicyIsJSON(c *config.Config) string {
	file := policyConfig(c).Found()
	if file == "" {
		return ""
	}
	text, err := os.ReadFile(file)
	if err != nil || !json.Valid(text) {
		return ""
	}
	return "Your policy file is JSON-formatted which is deprecated. You need to switch to YAML-formatted file: " +
		"oslopolicy-convert-json-to-yaml does it. The file is " + file + "."
}

// Purged counts what a purge removed.
type Purged = store.Purged

// Purge removes for good what ended, or was deleted, more than ageDays days ago: at most maxRows rows, -1 for all. It
// returns what it removed, also with an error.
func (d *DB) Purge(ctx context.Context, ageDays, maxRows int) (Purged, error) {
	return d.store.Purge(ctx, ageDays, maxRows)
}

// Unlock removes what a killed Sync left behind.
func (d *DB) Unlock(ctx context.Context) error { return d.store.Unlock(ctx) }

// Close closes the connection.
func (d *DB) Close() error { return d.store.Close() }
