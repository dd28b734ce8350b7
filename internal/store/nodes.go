package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"
)

// nodes connects to one of several nodes of a cluster at a time, and fails over whole: once a node is left, its pooled
// connections are not used again (DESIGN section 3). Two nodes at once would let a process read on one what it has not yet
// written on the other.
type nodes struct {
	all   []driver.Connector
	names []string

	mu      sync.Mutex
	current int
	term    int64 // counts the nodes that were left
}

var _ driver.Connector = (*nodes)(nil)

func (n *nodes) Driver() driver.Driver { return n.all[0].Driver() }

// nodeTimeout is how long one of several nodes may take for a connection until the next one is tried: one that hangs accepts
// connections, and says nothing.
const nodeTimeout = 2 * time.Second

// reach connects to the k-th node.
func (n *nodes) reach(ctx context.Context, k int) (driver.Conn, error) {
	if len(n.all) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, nodeTimeout)
		defer cancel()
	}
	return n.all[k].Connect(ctx)
}

// Connect connects to the present node; when that cannot be reached, to the next one that can.
func (n *nodes) Connect(ctx context.Context) (driver.Conn, error) {
	n.mu.Lock()
	at, term := n.current, n.term
	n.mu.Unlock()
	var failed nodesError
	for i := range n.all {
		k := (at + i) % len(n.all)
		c, err := n.reach(ctx, k)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", n.names[k], err))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		n.mu.Lock()
		if n.term != term { // somebody else failed over meanwhile: follow
			at, term = n.current, n.term
			n.mu.Unlock()
			if k != at {
				c.Close()
				return nil, driver.ErrBadConn
			}
		} else {
			if i > 0 {
				n.current, n.term = k, n.term+1
			}
			term = n.term
			n.mu.Unlock()
		}
		return wrapNode(c, n, term)
	}
	return nil, failed
}

// nodesError is why none of the nodes could be connected to.
type nodesError []error

func (e nodesError) Error() string   { return errors.Join(e...).Error() }
func (e nodesError) Unwrap() []error { return e }

// leave gives the present node up for the next one: it says that it cannot serve, or says nothing. Of a single one, behind
// which a proxy may have gone over to another, all pooled connections are given up.
func (n *nodes) leave(term int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.term == term {
		n.current, n.term = (n.current+1)%len(n.all), n.term+1
	}
}

func (n *nodes) now() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.term
}

// session is what both network drivers' connections can do.
type session interface {
	driver.Conn
	driver.Pinger
	driver.Validator
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnBeginTx
	driver.SessionResetter
}

// nodeConn is a connection that is worth nothing once its node was left.
type nodeConn struct {
	session
	nodes *nodes
	term  int64
}

func wrapNode(c driver.Conn, n *nodes, term int64) (driver.Conn, error) {
	full, ok := c.(session)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("connection of type %T lacks what the store needs", c)
	}
	return &nodeConn{full, n, term}, nil
}

func (c *nodeConn) stale() bool { return c.term != c.nodes.now() }

// IsValid implements driver.Validator.
func (c *nodeConn) IsValid() bool {
	return c.session.IsValid() && !c.stale()
}

func (c *nodeConn) ResetSession(ctx context.Context) error {
	if c.stale() {
		return driver.ErrBadConn
	}
	return c.session.ResetSession(ctx)
}
