package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"
)

// preparing is a connection that writes down what it is asked.
type preparing struct {
	session
	asked   []string
	refused error // by Prepare
	failing error // of a prepared statement
}

func (c *preparing) PrepareContext(_ context.Context, text string) (driver.Stmt, error) {
	c.asked = append(c.asked, "prepare "+text)
	return preparedStmt{c: c, text: text}, c.refused
}

func (c *preparing) QueryContext(_ context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	c.asked = append(c.asked, fmt.Sprint("text ", text, len(args)))
	return nil, nil
}

type preparedStmt struct {
	driver.Stmt
	c    *preparing
	text string
}

func (s preparedStmt) Close() error {
	s.c.asked = append(s.c.asked, "close "+s.text)
	return nil
}

func (s preparedStmt) QueryContext(_ context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.c.asked = append(s.c.asked, fmt.Sprint("run ", s.text, len(args)))
	return nil, s.c.failing
}

// TestPrepared: a text is prepared once, and sent as it is where the server does not keep it.
func TestPrepared(t *testing.T) {
	refusal := func(number uint16) error { return &mysqldriver.MySQLError{Number: number} }
	gone := errors.New("the connection is gone")
	for _, tt := range []struct {
		name             string
		refused, failing error
		want             []string
		fails            error
	}{
		{name: "kept", want: []string{"prepare a", "run a1", "run a1"}},
		{name: "the server keeps no more", refused: refusal(1461), want: []string{"prepare a", "text a1", "text a1"}},
		{name: "a transaction was taken away", refused: refusal(erDeadlock), want: []string{"prepare a", "prepare a"}, fails: refusal(erDeadlock)},
		{name: "a proxy has lost it", failing: refusal(erUnknownStatement), want: []string{"prepare a", "run a1", "text a1", "text a1"}},
		{name: "no connection to prepare it by", refused: gone, want: []string{"prepare a", "prepare a"}, fails: gone},
		{name: "no connection to carry it out by", failing: gone, want: []string{"prepare a", "run a1", "run a1"}, fails: gone},
	} {
		c, p := &preparing{refused: tt.refused, failing: tt.failing}, &prepared{}
		for range 2 {
			if _, err := p.query(t.Context(), c, "a", make([]driver.NamedValue, 1)); !errors.Is(err, tt.fails) {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
		if !slices.Equal(c.asked, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, c.asked, tt.want)
		}
	}
}

// TestPreparedIsBounded: what clients make up does not fill the server, and does not keep out what comes later: what was not asked for
// longest makes room.
func TestPreparedIsBounded(t *testing.T) {
	c, p := &preparing{}, &prepared{}
	ask := func(text string) {
		t.Helper()
		if _, err := p.query(t.Context(), c, text, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 * maxPrepared {
		ask(strings.Repeat("x", i+1))
		ask("often")
	}
	seldom := "close x"
	if len(p.kept) != maxPrepared || !slices.Contains(c.asked, seldom) || slices.Contains(c.asked, "close often") {
		t.Errorf("%d are kept; %q was given up: %v, what is asked for often: %v", len(p.kept), "x", slices.Contains(c.asked, seldom),
			slices.Contains(c.asked, "close often"))
	}
	if last := c.asked[len(c.asked)-2]; last != "run "+strings.Repeat("x", 3*maxPrepared)+"0" {
		t.Errorf("the last one that is seldom asked for: %s", last)
	}
}
