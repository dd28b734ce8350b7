package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	sqlitedriver "modernc.org/sqlite"
)

// sqliteBusy is how long SQLite itself waits for another process's lock before the store's own retries.
const sqliteBusy = 2 * time.Second

// sqliteConnector connects to a file, or to a database in memory that lives as long as its one connection.
func sqliteConnector(file string, reader bool) (driver.Connector, error) {
	c, err := sqlitedriver.NewConnector(sqliteDSN(file, reader))
	if err != nil {
		return nil, fmt.Errorf("sqlite %s: %w", file, err)
	}
	return c, nil
}

// openSQLiteReader opens a file that is only read, and not made when it is not there.
func (s *Store) openSQLiteReader(ctx context.Context, t target) error {
	s.d = sqliteDialect
	c, err := sqliteForeign(t.name)
	if err != nil {
		return err
	}
	pool := sql.OpenDB(c)
	if err := s.reach(ctx, pool); err != nil {
		return err
	}
	s.db = bun.NewDB(pool, sqlitedialect.New(), newerTables)
	s.reads = s.db
	return nil
}

// sqliteForeign connects to a file of somebody else's, to read it only.
func sqliteForeign(file string) (driver.Connector, error) {
	q := url.Values{"mode": {"ro"}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", sqliteBusy.Milliseconds()), "query_only(1)"}}
	c, err := sqlitedriver.NewConnector("file:" + (&url.URL{Path: file}).EscapedPath() + "?" + q.Encode())
	if err != nil {
		return nil, fmt.Errorf("sqlite %s: %w", file, err)
	}
	return c, nil
}

// sqliteDSN is the DSN of a writer or, for a file, of a reader. Writers begin IMMEDIATE: a transaction that begins by
// reading could not write any more once another has written. synchronous FULL: an admitted report survives a loss of power
// (rule A6).
func sqliteDSN(file string, reader bool) string {
	q := url.Values{"_pragma": {fmt.Sprintf("busy_timeout(%d)", sqliteBusy.Milliseconds()), "foreign_keys(1)"}}
	if file == "" {
		q.Set("_txlock", "immediate")
		return "file::memory:?" + q.Encode()
	}
	if reader {
		q.Add("_pragma", "query_only(1)")
	} else {
		q.Set("_txlock", "immediate")
		q["_pragma"] = append(q["_pragma"], "journal_mode(WAL)", "synchronous(FULL)")
	}
	return "file:" + (&url.URL{Path: file}).EscapedPath() + "?" + q.Encode()
}
