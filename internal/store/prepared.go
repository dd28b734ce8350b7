package store

import (
	"context"
	"database/sql/driver"
	"errors"

	mysqldriver "github.com/go-sql-driver/mysql"
)

// maxPrepared bounds what one connection keeps prepared: clients choose by what lists are filtered and sorted. What comes later is
// sent as text.
const maxPrepared = 64

// Errors of prepared statements: one that a proxy has lost on its way, or whose tables change faster than the server prepares it
// anew.
const (
	erUnknownStatement = 1243
	erReprepare        = 1615
)

// prepared are the statements that a MySQL connection keeps, by their texts. The server then need not parse them again, and MariaDB
// does not describe the columns of each answer: a third of what a short read costs it.
type prepared map[string]driver.Stmt

// query carries out a statement with arguments by a prepared one if there is one, or may be.
func (p prepared) query(ctx context.Context, c session, text string, args []driver.NamedValue) (driver.Rows, error) {
	stmt, kept := p[text]
	if !kept && len(p) < maxPrepared {
		var err error
		if stmt, err = prepare(ctx, c, text); err != nil {
			return nil, err
		}
		p[text] = stmt
	}
	if stmt, ok := stmt.(driver.StmtQueryContext); ok {
		rows, err := stmt.QueryContext(ctx, args)
		if !stale(err) {
			return rows, err
		}
		p[text] = nil
	}
	return c.QueryContext(ctx, text, args)
}

// prepare returns nil for what the server does not prepare, for whatever reason: as a text it answers, or says why not.
func prepare(ctx context.Context, c session, text string) (driver.Stmt, error) {
	preparer, ok := c.(driver.ConnPrepareContext)
	if !ok {
		return nil, nil
	}
	stmt, err := preparer.PrepareContext(ctx, text)
	var refused *mysqldriver.MySQLError
	if errors.As(err, &refused) {
		return nil, nil
	}
	return stmt, err
}

// stale reports that the server no longer has a statement as it was prepared.
func stale(err error) bool {
	var refused *mysqldriver.MySQLError
	return errors.As(err, &refused) && (refused.Number == erUnknownStatement || refused.Number == erReprepare)
}
