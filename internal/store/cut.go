package store

import (
	"bufio"
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// MySQL's driver watches the context of a statement in a goroutine of its own, which each statement wakes twice: a tenth of what an api
// spends on a short read. Here the end of the context itself cuts the connection's waiting off.

// dialedKey is the context's key of where to put the network connection that is dialed.
type dialedKey struct{}

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if at, ok := ctx.Value(dialedKey{}).(*net.Conn); ok {
		*at = conn
	}
	if raw, ok := conn.(rawConn); ok {
		return &readAhead{rawConn: raw, in: bufio.NewReaderSize(conn, serverPiece)}, nil
	}
	return conn, nil
}

// serverPiece is how much of an answer MySQL sends at a time (net_buffer_length). The driver itself reads a quarter of it.
const serverPiece = 16 << 10

// rawConn is what lets the driver ask whether a resting connection still lives.
type rawConn interface {
	net.Conn
	syscall.Conn
}

// readAhead reads a piece at a time from the network, whatever is asked of it.
type readAhead struct {
	rawConn
	in *bufio.Reader
}

func (c *readAhead) Read(p []byte) (int, error) { return c.in.Read(p) }

// cutter ends what a connection waits for when a context ends. The connection is then worth nothing any more.
type cutter struct {
	conn net.Conn
	cut  bool
}

// query carries out a query under a context of which its driver sees no end.
func (c *cutter) query(ctx context.Context, query func(context.Context) (driver.Rows, error)) (driver.Rows, error) {
	w, err := c.watch(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := query(context.WithoutCancel(ctx))
	if err != nil {
		return nil, w.end(err)
	}
	w.Rows = rows
	return w, nil
}

// exec is query for a statement that answers with no rows.
func (c *cutter) exec(ctx context.Context, exec func(context.Context) (driver.Result, error)) (driver.Result, error) {
	w, err := c.watch(ctx)
	if err != nil {
		return nil, err
	}
	result, err := exec(context.WithoutCancel(ctx))
	if err = w.end(err); err != nil {
		return nil, err
	}
	return result, nil
}

func (c *cutter) watch(ctx context.Context) (*watched, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &watched{cutter: c, ctx: ctx, stop: context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })}, nil
}

// watched are rows that may still be on their way.
type watched struct {
	driver.Rows
	cutter *cutter
	ctx    context.Context
	stop   func() bool
}

func (w *watched) Next(values []driver.Value) error { return w.cause(w.Rows.Next(values)) }

func (w *watched) Close() error { return w.end(w.Rows.Close()) }

// end is the end of the watch; nobody may wait by a connection that was cut off meanwhile.
func (w *watched) end(err error) error {
	if !w.stop() {
		w.cutter.cut = true
	}
	return w.cause(err)
}

// cause is the context's end for what failed by it.
func (w *watched) cause(err error) error {
	if ended := w.ctx.Err(); ended != nil && err != nil && !errors.Is(err, io.EOF) {
		return ended
	}
	return err
}
