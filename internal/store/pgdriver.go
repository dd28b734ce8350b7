package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// A driver for database/sql over pgconn. bun writes each statement out in full, so it speaks the simple query protocol:
// one round trip per statement, nothing prepared, no types to map but text. (pgx's own stdlib brings a second connection
// pool along, and prepares each text that it sees.)

// pgIdle is how long a pooled connection may rest before it is asked whether it still lives.
const pgIdle = time.Second

var errPgArgs = errors.New("statements are written out in full: arguments are not supported")

type pgConnector struct{ cfg *pgconn.Config }

func (c pgConnector) Driver() driver.Driver { return pgDriver{} }

func (c pgConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := pgconn.ConnectConfig(ctx, c.cfg)
	if err != nil {
		return nil, err
	}
	return &pgSession{conn: conn, used: time.Now()}, nil
}

type pgDriver struct{}

func (pgDriver) Open(string) (driver.Conn, error) {
	return nil, errors.New("connections are opened by the store's connector")
}

type pgSession struct {
	conn *pgconn.PgConn
	used time.Time
}

var _ session = (*pgSession)(nil)

func (s *pgSession) Prepare(string) (driver.Stmt, error) { return nil, errPgArgs }
func (s *pgSession) Begin() (driver.Tx, error) {
	return s.BeginTx(context.Background(), driver.TxOptions{})
}

func (s *pgSession) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	return s.conn.Close(ctx)
}

func (s *pgSession) Ping(ctx context.Context) error { return s.conn.Ping(ctx) }

// IsValid refuses to pool a connection inside a transaction, such as one whose COMMIT was not sent: it would hold its rows until it is used.
func (s *pgSession) IsValid() bool { return !s.conn.IsClosed() && s.conn.TxStatus() == 'I' }

// ResetSession refuses a connection that is closed or was left inside a transaction.
func (s *pgSession) ResetSession(ctx context.Context) error {
	if s.conn.IsClosed() || s.conn.TxStatus() != 'I' {
		return driver.ErrBadConn
	}
	if time.Since(s.used) > pgIdle {
		if err := s.conn.Ping(ctx); err != nil {
			return driver.ErrBadConn
		}
	}
	s.used = time.Now()
	return nil
}

// run sends one statement and reads its whole answer; what the store asks for is bounded.
func (s *pgSession) run(ctx context.Context, query string, args []driver.NamedValue) (*pgconn.Result, error) {
	if len(args) > 0 {
		return nil, errPgArgs
	}
	results, err := s.conn.Exec(ctx, query).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) == 0 {
		return &pgconn.Result{}, nil
	}
	return results[len(results)-1], nil
}

func (s *pgSession) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	r, err := s.run(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return driver.RowsAffected(r.CommandTag.RowsAffected()), nil
}

func (s *pgSession) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	r, err := s.run(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return &pgRows{fields: r.FieldDescriptions, rows: r.Rows}, nil
}

// BeginTx begins at the session's isolation level, READ COMMITTED.
func (s *pgSession) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	if _, err := s.run(ctx, "BEGIN", nil); err != nil {
		return nil, err
	}
	return &pgTx{s, ctx}, nil
}

// pgTx keeps the context of its BEGIN, as database/sql documents it: in use until the transaction has ended.
type pgTx struct {
	s   *pgSession
	ctx context.Context
}

func (t *pgTx) Commit() error {
	r, err := t.s.run(t.ctx, "COMMIT", nil)
	if err == nil && r.CommandTag.String() == "ROLLBACK" {
		return errors.New("the transaction had failed: its commit rolled it back")
	}
	return err
}

func (t *pgTx) Rollback() error {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	_, err := t.s.run(ctx, "ROLLBACK", nil)
	return err
}

type pgRows struct {
	fields []pgconn.FieldDescription
	rows   [][][]byte
	next   int
}

func (r *pgRows) Columns() []string {
	names := make([]string, len(r.fields))
	for i, f := range r.fields {
		names[i] = f.Name
	}
	return names
}

func (r *pgRows) Close() error { return nil }

func (r *pgRows) Next(dest []driver.Value) error {
	if r.next == len(r.rows) {
		return io.EOF
	}
	for i, v := range r.rows[r.next] {
		if v == nil {
			dest[i] = nil
		} else {
			dest[i] = v
		}
	}
	r.next++
	return nil
}
