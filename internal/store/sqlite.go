package store

import (
	"database/sql/driver"
	"fmt"
	"net/url"
	"time"

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
