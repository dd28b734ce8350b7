package galera

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/testkit"
)

// TestTakenAwayBetweenStatements: an admission's transaction is taken away by another node's admission of the same report, after each
// of its statements in turn, while it rests, for as long as the node takes to hear of the other. It begins anew, and finds the other's
// (rule A1, invariant I7).
func TestTakenAwayBetweenStatements(t *testing.T) {
	g := cluster(t)
	database := g.Database(t)
	open := func(node int, wrap func(driver.Connector) driver.Connector) *store.Store {
		t.Helper()
		s, err := store.Open(t.Context(), store.Config{URL: g.URL(database, node), SyncWait: 1, CallFor: 2 * time.Minute, Wrap: wrap})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	pause := &pause{}
	here, there := open(0, pause.wrap), open(1, nil)
	if err := there.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	segment, err := there.CreateSegment(t.Context(), ha.Segment{UUID: uuid.NewString(), Name: "s", ServiceType: "C", RecoveryMethod: ha.MethodAuto, Enabled: true})
	if err != nil {
		t.Fatal(err)
	}
	node, err := sql.Open("mysql", "root@tcp("+g.Nodes[0].Address+")/")
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	statements := 0
	for more := true; more; statements++ {
		name := fmt.Sprintf("host-%d", statements+1)
		if _, err := there.CreateHost(t.Context(), ha.Host{UUID: uuid.NewString(), Name: name, SegmentUUID: segment.UUID, Type: "C"}); err != nil {
			t.Fatal(err)
		}
		report := func() ha.Report {
			return ha.Report{UUID: uuid.NewString(), Type: ha.TypeComputeHost, Hostname: name, GeneratedTime: time.Now(), Payload: ha.Payload{ha.KeyEvent: ha.EventStopped}}
		}
		more = false
		pause.after(statements+1, func() {
			more = true
			was := taken(t, node)
			if _, err := there.Admit(t.Context(), report(), time.Minute); err != nil {
				t.Errorf("after statement %d: the other node's admission: %v", statements+1, err)
			}
			testkit.Eventually(t, time.Minute, func() (bool, string) { return taken(t, node) > was, "nothing was taken away" })
		})
		_, err := here.Admit(t.Context(), report(), time.Minute)
		if twin := (*ha.DuplicateError)(nil); more && !errors.As(err, &twin) || !more && err != nil {
			t.Errorf("after statement %d the host was taken away %v: the admission ended with %v", statements+1, more, err)
		}
	}
	t.Logf("an admission has %d statements before its COMMIT", statements-1)
	if statements < 3 {
		t.Error("nothing was proven")
	}
}

// taken is how many transactions other nodes have taken away from a node's clients.
func taken(t *testing.T, node *sql.DB) (n int) {
	t.Helper()
	var name string
	if err := node.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'wsrep_local_bf_aborts'").Scan(&name, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// pause lets something happen between two statements of a transaction.
type pause struct {
	left int // statements of transactions
	then func()
}

// after has f called once, after the n-th statement of a transaction from now on, if it has so many before its COMMIT.
func (p *pause) after(n int, f func()) { p.left, p.then = n, f }

func (p *pause) answered(query string) {
	if p.left--; p.left == 0 && query != "COMMIT" {
		p.then()
	}
}

func (p *pause) wrap(c driver.Connector) driver.Connector { return pausedConnector{c, p} }

type pausedConnector struct {
	driver.Connector
	pause *pause
}

func (c pausedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	p := &pausedConn{Session: conn.(testkit.Session), pause: c.pause}
	_, err = p.Session.ExecContext(ctx, "SET SESSION idle_transaction_timeout = 600", nil) // the server would end what rests, after three seconds
	return p, err
}

type pausedConn struct {
	testkit.Session
	pause  *pause
	within bool
}

func (c *pausedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Session.BeginTx(ctx, opts)
	c.within = err == nil
	return pausedTx{tx, c}, err
}

func (c *pausedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.Session.ExecContext(ctx, query, args)
	if c.within && err == nil {
		c.pause.answered(query)
	}
	return result, err
}

func (c *pausedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Session.QueryContext(ctx, query, args)
	if !c.within || err != nil {
		return rows, err
	}
	return pausedRows{rows, c.pause, query}, nil
}

// pausedRows are answered when all of them have been read.
type pausedRows struct {
	driver.Rows
	pause *pause
	query string
}

func (r pausedRows) Close() error {
	err := r.Rows.Close()
	if err == nil {
		r.pause.answered(r.query)
	}
	return err
}

type pausedTx struct {
	driver.Tx
	conn *pausedConn
}

func (t pausedTx) Commit() error {
	t.conn.within = false
	return t.Tx.Commit()
}

func (t pausedTx) Rollback() error {
	t.conn.within = false
	return t.Tx.Rollback()
}
