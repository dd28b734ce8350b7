package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"runtime"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/schema"
)

// Config is what a store needs. Only URL has no default.
type Config struct {
	// URL is a SQLAlchemy URL, as [database] connection holds it: mysql+pymysql://, mariadb://, postgresql://,
	// sqlite:///relative, sqlite:////absolute, sqlite:// (in memory). Several hosts, h1:3306,h2:3306, are tried in order, one
	// at a time. MySQL: ?unix_socket=, ssl_ca, ssl_cert, ssl_key, ssl_verify_identity; PostgreSQL: ?host=/socket/dir, options,
	// sslmode, sslrootcert, sslcert, sslkey. Other parameters are the Python drivers' and are not used.
	URL string
	// MaxOpen bounds the connections (default 20). One that has rested for a minute is closed.
	MaxOpen int
	// Recycle is how long a connection is used (default 1 h; [database] connection_recycle_time).
	Recycle time.Duration
	// SyncWait is wsrep_sync_wait of Galera sessions: 3 for engines, 1 for the api, 0 leaves the server's. Servers without
	// Galera ignore it.
	SyncWait int
	// LockWait is how long a statement waits for a row (default 2 s, at least 1 s).
	LockWait time.Duration
	// CallFor bounds how long one transaction may take until its answer counts as lost (default 5 s).
	CallFor time.Duration
	// RetryFor bounds how long refused transactions are tried again when the context does not end before (default 10 s).
	RetryFor time.Duration
	// SyncFor bounds how long Sync waits for the end of another one (default 1 min).
	SyncFor time.Duration
	// Announce, when set, has changes told to others through the outbox; nil: nobody is told, and nothing is written for it.
	Announce *Announce
	// Wrap, when set, wraps the driver's connector: for tracing, and for faults in tests.
	Wrap func(driver.Connector) driver.Connector
}

func (c Config) withDefaults() Config {
	if c.MaxOpen <= 0 {
		c.MaxOpen = 20
	}
	if c.Recycle <= 0 {
		c.Recycle = time.Hour
	}
	if c.LockWait <= 0 {
		c.LockWait = 2 * time.Second
	}
	if c.CallFor <= 0 {
		c.CallFor = 5 * time.Second
	}
	if c.RetryFor <= 0 {
		c.RetryFor = 10 * time.Second
	}
	if c.SyncFor <= 0 {
		c.SyncFor = time.Minute
	}
	if c.Wrap == nil {
		c.Wrap = func(d driver.Connector) driver.Connector { return d }
	}
	return c
}

// Store is the rows. Its methods may be called at once from many goroutines.
type Store struct {
	db       *bun.DB
	reads    *bun.DB // reads outside of transactions; db itself but for SQLite in a file, which has one writer
	d        dialect
	nodes    *nodes // nil for SQLite
	where    string // for people; no secret
	callFor  time.Duration
	syncFor  time.Duration
	retryFor time.Duration
	announce *Announce // nil: nobody is told
}

// idleFor is how long a connection rests until it is closed.
const idleFor = time.Minute

// newerTables lets this program read tables that a newer one has added columns to, while a cluster is upgraded.
var newerTables = bun.WithDiscardUnknownColumns()

// Open connects to the database. It fails with *ha.UnavailableError when the database does not answer; an account, a database or
// a host that is refused or does not exist is another error, since waiting would not help. It creates no
// table: see Sync.
func Open(ctx context.Context, c Config) (*Store, error) {
	c = c.withDefaults()
	t, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	s := &Store{where: t.where(), callFor: c.CallFor, retryFor: c.RetryFor, syncFor: c.SyncFor, announce: c.Announce}
	switch t.database {
	case sqlite:
		if err := s.openSQLite(ctx, t, c); err != nil {
			return nil, err
		}
		return s, nil
	case mysql:
		s.d = mysqlDialect
		s.nodes, err = mysqlNodes(t, c)
	default:
		s.d = postgresDialect
		s.nodes, err = postgresNodes(t, c)
	}
	if err != nil {
		return nil, err
	}
	pool := sql.OpenDB(c.Wrap(s.nodes))
	pool.SetMaxOpenConns(c.MaxOpen)
	// While there is work all connections are kept: to open one costs more than a whole admission.
	pool.SetMaxIdleConns(c.MaxOpen)
	pool.SetConnMaxIdleTime(idleFor)
	pool.SetConnMaxLifetime(c.Recycle)
	if err := s.reach(ctx, pool); err != nil {
		return nil, err
	}
	var b schema.Dialect = pgdialect.New()
	if t.database == mysql {
		b = mysqldialect.New()
	}
	s.db = bun.NewDB(pool, b, newerTables)
	s.reads = s.db
	return s, nil
}

// openSQLite opens one writer; for a file, readers of their own too: in WAL mode they do not wait for it.
func (s *Store) openSQLite(ctx context.Context, t target, c Config) error {
	s.d = sqliteDialect
	w, err := sqliteConnector(t.name, false)
	if err != nil {
		return err
	}
	writer := sql.OpenDB(c.Wrap(w))
	writer.SetMaxOpenConns(1) // in memory, the connection is the database: it is never given up
	if err := s.reach(ctx, writer); err != nil {
		return err
	}
	s.db = bun.NewDB(writer, sqlitedialect.New(), newerTables)
	s.reads = s.db
	if t.name == "" {
		return nil
	}
	r, err := sqliteConnector(t.name, true)
	if err != nil {
		return err
	}
	readers := sql.OpenDB(c.Wrap(r))
	readers.SetMaxOpenConns(min(c.MaxOpen, 2*runtime.GOMAXPROCS(0)))
	readers.SetMaxIdleConns(2)
	s.reads = bun.NewDB(readers, sqlitedialect.New(), newerTables)
	return nil
}

// Close closes all connections.
func (s *Store) Close() error {
	err := s.db.Close()
	if s.reads != s.db {
		if rerr := s.reads.Close(); err == nil {
			err = rerr
		}
	}
	return err
}

// String names the database for people: its kind, name and hosts, no user and no password.
func (s *Store) String() string { return s.where }

// Ping reports whether the database carries out a query.
func (s *Store) Ping(ctx context.Context) error {
	return s.read(ctx, "asking the database", func(ctx context.Context, db bun.IDB) error {
		var one int
		return db.NewRaw("SELECT 1").Scan(ctx, &one)
	})
}
