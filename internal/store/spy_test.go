package store_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"sync"
)

// spy stands between a store and its driver: it hears every statement, and can spoil answers.
type spy struct {
	mu    sync.Mutex
	heard []string
	// began, when set, is called after each BEGIN.
	began func()
	// commit, when set, is asked at each COMMIT; it carries it out, or rolls back, or neither.
	commit func(commit, rollback func() error) error
	// exec, when set, is asked after each statement that answered; its error takes the answer's place.
	exec func(query string) error
	// conns are the driver's own connections, for statements of the test's.
	conns []driver.Connector
}

func (s *spy) wrap(c driver.Connector) driver.Connector {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, c)
	return spiedConnector{c, s}
}

// pool opens connections of the test's own to the same database. The caller closes it.
func (s *spy) pool() *sql.DB { return sql.OpenDB(s.conns[0]) }

// record returns what was heard during f.
func (s *spy) record(f func()) []string {
	s.mu.Lock()
	s.heard = nil
	s.mu.Unlock()
	f()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard
}

// set changes the hooks.
func (s *spy) set(change func(*spy)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// once makes the next COMMIT, and only that, do what hook does.
func (s *spy) once(hook func(commit, rollback func() error) error) {
	s.set(func(s *spy) {
		s.commit = func(commit, rollback func() error) error {
			s.set(func(s *spy) { s.commit = nil })
			return hook(commit, rollback)
		}
	})
}

func (s *spy) hear(query string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, query)
}

func (s *spy) answered(query string) error {
	s.mu.Lock()
	hook := s.exec
	s.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(query)
}

// written is a statement with its arguments in their places.
func written(query string, args []driver.NamedValue) string {
	for _, a := range args {
		text := fmt.Sprint(a.Value)
		if s, ok := a.Value.(string); ok {
			text = "'" + s + "'"
		}
		query = strings.Replace(query, "?", text, 1)
	}
	return query
}

type spiedConnector struct {
	driver.Connector
	spy *spy
}

func (c spiedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &spiedConn{conn.(fullConn), c.spy}, nil
}

type fullConn interface {
	driver.Conn
	driver.Pinger
	driver.Validator
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnBeginTx
	driver.SessionResetter
}

type spiedConn struct {
	fullConn
	spy *spy
}

func (c *spiedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.spy.hear(query)
	r, err := c.fullConn.ExecContext(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return r, c.spy.answered(query)
}

func (c *spiedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.spy.hear(written(query, args))
	r, err := c.fullConn.QueryContext(ctx, query, args)
	if err != nil {
		return nil, err
	}
	if err := c.spy.answered(query); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (c *spiedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	c.spy.mu.Lock()
	hook := c.spy.began
	c.spy.mu.Unlock()
	if hook != nil {
		hook()
	}
	return spiedTx{tx, c.spy}, nil
}

type spiedTx struct {
	driver.Tx
	spy *spy
}

func (t spiedTx) Commit() error {
	t.spy.mu.Lock()
	hook := t.spy.commit
	t.spy.mu.Unlock()
	if hook == nil {
		return t.Tx.Commit()
	}
	return hook(t.Tx.Commit, t.Tx.Rollback)
}
