package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/testkit"
)

const duplicateInterval = 3 * time.Minute

// contestants make one thing durable with each call: client says on whose behalf.
type contestants struct {
	statements      int // of one admission, beside BEGIN and COMMIT
	api, store, raw []func(context.Context) error
}

// newContestants prepares a client of each kind for each host. A report tells of an instance that no report has told of.
func newContestants(tb testing.TB, api, url string, hosts []string) contestants {
	tb.Helper()
	var c contestants
	rec := &recorder{}
	s, err := store.Open(tb.Context(), store.Config{URL: url, Wrap: rec.wrap, MaxOpen: len(hosts), SyncWait: 1})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	pool := sql.OpenDB(rec.plain)
	tb.Cleanup(func() { _ = pool.Close() })
	connections := len(hosts)
	if strings.HasPrefix(url, "sqlite") {
		connections = 1 // as salvor's: SQLite has one writer
	}
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	for _, host := range hosts {
		admit := func(ctx context.Context, id, instance string) error {
			_, err := s.Admit(ctx, instanceFailed(id, instance, host), duplicateInterval)
			return err
		}
		id, instance := uuid.NewString(), uuid.NewString()
		tape, err := rec.record(func() error { return admit(tb.Context(), id, instance) })
		if err != nil {
			tb.Fatal(err)
		}
		c.statements = len(tape)
		c.store = append(c.store, func(ctx context.Context) error { return admit(ctx, uuid.NewString(), uuid.NewString()) })
		c.raw = append(c.raw, func(ctx context.Context) error {
			return replay(ctx, pool, tape, strings.NewReplacer(id, uuid.NewString(), instance, uuid.NewString()))
		})
		caller := testkit.NewCaller(api)
		tb.Cleanup(caller.Close)
		c.api = append(c.api, func(context.Context) error { return post(caller, host) })
	}
	return c
}

func payload(instance string) ha.Payload {
	return ha.Payload{ha.KeyEvent: "LIFECYCLE", ha.KeyVirDomainEvent: "STOPPED_FAILED", ha.KeyInstanceUUID: instance}
}

func instanceFailed(id, instance, host string) ha.Report {
	return ha.Report{UUID: id, Type: ha.TypeVM, Hostname: host, GeneratedTime: time.Now(), Payload: payload(instance)}
}

func post(c *testkit.Caller, host string) error {
	body, err := json.Marshal(map[string]any{"notification": map[string]any{
		"type": ha.TypeVM, "hostname": host, "generated_time": time.Now().UTC().Format("2006-01-02T15:04:05.000000"),
		"payload": payload(uuid.NewString()),
	}})
	if err != nil {
		return err
	}
	status, err := c.Do("POST", "/v1/notifications", string(body))
	if err == nil && status != 202 {
		err = fmt.Errorf("POST /v1/notifications: %d %s", status, c.Body)
	}
	return err
}

// statement is one that salvor issued.
type statement struct {
	text  string
	args  []any
	query bool // its rows were asked for
}

// fresh is the statement of another report.
func (s statement) fresh(other *strings.Replacer) (text string, args []any) {
	args = make([]any, len(s.args))
	for i, a := range s.args {
		args[i] = a
		if told, ok := a.(string); ok {
			args[i] = other.Replace(told)
		}
	}
	return other.Replace(s.text), args
}

// replay carries the statements out in one transaction, and reads what they answer.
func replay(ctx context.Context, pool *sql.DB, tape []statement, fresh *strings.Replacer) error {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, s := range tape {
		text, args := s.fresh(fresh)
		if !s.query {
			if _, err := tx.ExecContext(ctx, text, args...); err != nil {
				return err
			}
			continue
		}
		rows, err := tx.QueryContext(ctx, text, args...)
		if err != nil {
			return err
		}
		for rows.Next() { //nolint:revive // to have read them is all
		}
		if err := errorsOf(rows); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func errorsOf(rows *sql.Rows) error {
	err := rows.Err()
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	return err
}

// recorder stands between the store and its driver.
type recorder struct {
	plain driver.Connector // the driver's own, prepared as salvor prepares its sessions; the writer's for SQLite

	mu   sync.Mutex
	on   bool
	tape []statement
}

func (r *recorder) wrap(c driver.Connector) driver.Connector {
	if r.plain == nil {
		r.plain = c
	}
	return recordedConnector{c, r}
}

// record returns the statements that f issues.
func (r *recorder) record(f func() error) ([]statement, error) {
	r.mu.Lock()
	r.on, r.tape = true, nil
	r.mu.Unlock()
	err := f()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = false
	return r.tape, err
}

func (r *recorder) hear(text string, args []driver.NamedValue, query bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.on {
		return
	}
	s := statement{text: text, query: query}
	for _, a := range args {
		s.args = append(s.args, a.Value)
	}
	r.tape = append(r.tape, s)
}

type recordedConnector struct {
	driver.Connector
	r *recorder
}

func (c recordedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return recordedConn{conn.(testkit.Session), c.r}, nil
}

type recordedConn struct {
	testkit.Session
	r *recorder
}

func (c recordedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.r.hear(query, args, false)
	return c.Session.ExecContext(ctx, query, args)
}

func (c recordedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.r.hear(query, args, true)
	return c.Session.QueryContext(ctx, query, args)
}
