package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"time"
)

// MySQL's driver watches the context of a statement in a goroutine of its own, which each statement wakes twice: a tenth of what an api
// spends on a short read. Here the end of the context itself cuts the connection's waiting off.

// dialedKey is the context's key of where to put the network connection that is dialed.
type dialedKey struct{}

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if at, ok := ctx.Value(dialedKey{}).(*net.Conn); ok {
		*at = conn
	}
	return conn, err
}

// cutter ends what a connection waits for when a context ends. The connection is then worth nothing any more.
type cutter struct {
	conn net.Conn
	cut  bool
}

// watch carries out a query under a context of which its driver sees no end.
func (c *cutter) watch(ctx context.Context, query func(context.Context) (driver.Rows, error)) (driver.Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := watched{cutter: c, ctx: ctx, stop: context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })}
	rows, err := query(context.WithoutCancel(ctx))
	if err != nil {
		return nil, w.end(err)
	}
	w.Rows = rows
	return &w, nil
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
	w.cutter.cut = !w.stop()
	return w.cause(err)
}

// cause is the context's end for what failed by it.
func (w *watched) cause(err error) error {
	if ended := w.ctx.Err(); ended != nil && err != nil && !errors.Is(err, io.EOF) {
		return ended
	}
	return err
}
