package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/store/rules"
)

// What the API shows is read from the driver itself, column by column: database/sql and bun would look at each value by
// reflection, which costs several times what the database does.

// fetch runs a query outside of a transaction, and hands its rows to row one after the other. Only where the dialect prepares may
// there be arguments.
func fetch(ctx context.Context, db *bun.DB, query string, row func(*columns) error, args ...driver.NamedValue) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // gives it back to the pool
	return conn.Raw(func(c any) error {
		q, ok := c.(driver.QueryerContext)
		if !ok {
			return fmt.Errorf("connection of type %T lacks what the store needs", c)
		}
		rows, err := q.QueryContext(ctx, query, args)
		if err != nil {
			return err
		}
		err = each(rows, row)
		return errors.Join(err, rows.Close())
	})
}

func each(rows driver.Rows, row func(*columns) error) error {
	c := newColumns(len(rows.Columns()))
	for {
		err := rows.Next(c.values)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.each(row); err != nil {
			return err
		}
	}
}

// columns read the values of one row in their order. The first value that is not what was asked for is the error.
type columns struct {
	values []driver.Value
	last   []string // the texts of the row before: what is the same again is not kept twice
	at     int
	err    error
}

func newColumns(n int) *columns {
	return &columns{values: make([]driver.Value, n), last: make([]string, n)}
}

// each has a row's values read.
func (c *columns) each(row func(*columns) error) error {
	c.at = 0
	if err := row(c); err != nil {
		return err
	}
	return c.err
}

func (c *columns) next() driver.Value {
	if c.at >= len(c.values) {
		c.err = errors.New("a row has fewer columns than were asked for")
		return nil
	}
	c.at++
	return c.values[c.at-1]
}

func (c *columns) wrong(v driver.Value, want string) {
	if c.err == nil {
		c.err = fmt.Errorf("column %d: %s cannot be read from %T", c.at, want, v)
	}
}

// text reads a text; NULL is "".
func (c *columns) text() string {
	switch v := c.next().(type) {
	case nil:
		return ""
	case []byte:
		last := &c.last[c.at-1]
		if string(v) != *last {
			*last = string(v)
		}
		return *last
	case string:
		return v
	default:
		c.wrong(v, "a text")
		return ""
	}
}

// textOrNull reads a text that may be NULL.
func (c *columns) textOrNull() *string {
	if c.at < len(c.values) && c.values[c.at] == nil {
		c.at++
		return nil
	}
	s := c.text()
	return &s
}

// number reads an integer; NULL is 0.
func (c *columns) number() int64 {
	var n int64
	var err error
	switch v := c.next().(type) {
	case nil:
	case int64:
		n = v
	case uint64:
		n = int64(v) //nolint:gosec // ids, which the database gave out
	case bool:
		if v {
			n = 1
		}
	case []byte:
		switch string(v) {
		case "t":
			n = 1
		case "f":
		default:
			n, err = strconv.ParseInt(string(v), 10, 64)
		}
	default:
		err = errors.ErrUnsupported
	}
	if err != nil {
		c.wrong(c.values[c.at-1], "a number")
	}
	return n
}

// flag reads a truth value; NULL is false.
func (c *columns) flag() bool { return c.number() != 0 }

// flagOrNull reads a truth value that may be NULL.
func (c *columns) flagOrNull() *bool {
	if c.at < len(c.values) && c.values[c.at] == nil {
		c.at++
		return nil
	}
	f := c.flag()
	return &f
}

// time reads a time; NULL is the zero time.
func (c *columns) time() time.Time {
	t, err := rules.ReadTime(c.next())
	if err != nil && c.err == nil {
		c.err = err
	}
	return t
}

// timeOrNull reads a time that may be NULL.
func (c *columns) timeOrNull() *time.Time { return stamp{c.time()}.ptr() }
