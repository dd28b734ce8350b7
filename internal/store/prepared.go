package store

import (
	"context"
	"database/sql/driver"
	"errors"

	mysqldriver "github.com/go-sql-driver/mysql"
)

// maxPrepared bounds what one connection keeps prepared: clients choose by what lists are filtered and sorted. What was not asked for
// longest makes room.
const maxPrepared = 64

// Errors of prepared statements: one that a proxy has lost on its way, or whose tables change faster than the server prepares it
// anew.
const (
	erUnknownStatement = 1243
	erReprepare        = 1615
)

// prepared are the SELECTs outside of transactions that a MySQL connection keeps, by their texts. The server then need not parse them again, and MariaDB
// does not describe the columns of each answer: a third of what a short read costs it.
type prepared struct {
	kept map[string]*keptStmt
	uses uint64
}

// keptStmt is nil inside for a text that the server does not keep.
type keptStmt struct {
	driver.Stmt
	used uint64
}

// query carries out a statement with arguments by a prepared one if there may be one.
func (p *prepared) query(ctx context.Context, c session, text string, args []driver.NamedValue) (driver.Rows, error) {
	kept, err := p.keep(ctx, c, text)
	if err != nil {
		return nil, err
	}
	if stmt, ok := kept.Stmt.(driver.StmtQueryContext); ok {
		rows, err := stmt.QueryContext(ctx, args)
		if !stale(err) {
			return rows, err
		}
		kept.Stmt = nil
	}
	return c.QueryContext(ctx, text, args)
}

// keep returns the statement of a text, prepared if it was not.
func (p *prepared) keep(ctx context.Context, c session, text string) (*keptStmt, error) {
	p.uses++
	kept := p.kept[text]
	if kept == nil {
		stmt, err := prepare(ctx, c, text)
		if err != nil {
			return nil, err
		}
		if len(p.kept) >= maxPrepared {
			p.makeRoom()
		}
		if p.kept == nil {
			p.kept = map[string]*keptStmt{}
		}
		kept = &keptStmt{Stmt: stmt}
		p.kept[text] = kept
	}
	kept.used = p.uses
	return kept, nil
}

// makeRoom gives up the statement that was not used longest. That the server be told is no matter: a connection that does not carry
// it is about to fail.
func (p *prepared) makeRoom() {
	oldest, since := "", p.uses
	for text, kept := range p.kept {
		if kept.used < since {
			oldest, since = text, kept.used
		}
	}
	if stmt := p.kept[oldest].Stmt; stmt != nil {
		_ = stmt.Close()
	}
	delete(p.kept, oldest)
}

// prepare returns nil for what the server does not prepare, for whatever reason: as a text it answers, or says why not. But that a
// transaction is over is said once: the text after it would run outside of it.
func prepare(ctx context.Context, c session, text string) (driver.Stmt, error) {
	preparer, ok := c.(driver.ConnPrepareContext)
	if !ok {
		return nil, nil
	}
	stmt, err := preparer.PrepareContext(ctx, text)
	var refused *mysqldriver.MySQLError
	if errors.As(err, &refused) && classifyMySQL(err) != classConflict {
		return nil, nil
	}
	return stmt, err
}

// stale reports that the server no longer has a statement as it was prepared.
func stale(err error) bool {
	var refused *mysqldriver.MySQLError
	return errors.As(err, &refused) && (refused.Number == erUnknownStatement || refused.Number == erReprepare)
}
