package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	sqlitedriver "modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"
)

// class is what a failed statement or transaction means to the store.
type class int

const (
	classOwn       class = iota // not the database's: an error of ours that passes through
	classConflict               // the transaction was refused and is rolled back for certain: try it again
	classNode                   // this node answers but cannot serve: go to the next one, and try again
	classLost                   // no answer: what was sent may have been done
	classEnded                  // the caller's context ended
	classAway                   // the database says that it cannot serve for now
	classDuplicate              // a unique key
	classNoTable                // the tables are not there
	classFault                  // anything else that a database refuses
)

// opError says what was being done when the database failed.
type opError struct {
	op  string
	err error
}

func (e *opError) Error() string { return e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error { return e.err }

// classifyCommon sorts what all drivers share: the end of a context, a lost connection.
func classifyCommon(err error) class {
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return classEnded
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.As(err, &timeout):
		return classLost
	default:
		return classOwn
	}
}

// MySQL, MariaDB and Galera.
const (
	erDuplicate        = 1062
	erLockWait         = 1205
	erDeadlock         = 1213 // also Galera: certification failed
	erCheckRead        = 1020 // record has changed since last read
	erNodeNotReady     = 1047 // Galera: this node is not (or no longer) part of the cluster
	erNoTable          = 1146
	erDuringCommit     = 1180
	erGroupRollback    = 3101
	erTooManyConns     = 1040
	erServerShutdown   = 1053
	erOptionPrevents   = 1290 // read_only
	erReadOnly         = 1792
	erReadOnlyMode     = 1836
	erConnKilled       = 1927
	erTooManyUserConns = 1203
	erUserLimit        = 1226 // of this account: connections, queries an hour
	erStatementTime    = 1969 // max_statement_time
	erQueryTimeout     = 3024 // max_execution_time
	erInterrupted      = 1317
	erDiskFull         = 1021
	erTableFull        = 1114
	erEngineError      = 1030 // the storage engine's: disk full and the like
	erOutOfMemory      = 1037
	erOutOfSortMemory  = 1038
	erOutOfResources   = 1041
)

func classifyMySQL(err error) class {
	var e *mysqldriver.MySQLError
	if !errors.As(err, &e) {
		if errors.Is(err, mysqldriver.ErrInvalidConn) {
			return classLost
		}
		return classifyCommon(err)
	}
	switch e.Number {
	case erLockWait, erDeadlock, erCheckRead, erDuringCommit, erGroupRollback:
		return classConflict
	case erNodeNotReady, erServerShutdown, erOptionPrevents, erReadOnly, erReadOnlyMode:
		return classNode
	case erConnKilled:
		return classLost
	case erTooManyConns, erTooManyUserConns, erUserLimit, erStatementTime, erQueryTimeout, erInterrupted,
		erDiskFull, erTableFull, erEngineError, erOutOfMemory, erOutOfSortMemory, erOutOfResources:
		return classAway
	case erDuplicate:
		return classDuplicate
	case erNoTable:
		return classNoTable
	default:
		return classFault
	}
}

func classifyPostgres(err error) class {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		var connect *pgconn.ConnectError
		if errors.As(err, &connect) && classifyCommon(err) != classEnded {
			return classAway
		}
		if pgconn.SafeToRetry(err) || strings.Contains(err.Error(), "conn closed") || strings.Contains(err.Error(), "closed the connection") {
			return classLost
		}
		return classifyCommon(err)
	}
	switch {
	case e.Code == "40001", e.Code == "40P01", e.Code == "55P03": // serialization, deadlock, lock_timeout
		return classConflict
	case e.Code == "23505":
		return classDuplicate
	case e.Code == "42P01":
		return classNoTable
	case e.Code == "25006": // read only: a standby
		return classNode
	case strings.HasPrefix(e.Code, "57P"), e.Code == "25P03": // shut down, crashed, starting; idle in a transaction for too long
		return classLost
	case strings.HasPrefix(e.Code, "08"), strings.HasPrefix(e.Code, "53"), strings.HasPrefix(e.Code, "58"),
		e.Code == "57014": // statement_timeout
		return classAway
	default:
		return classFault
	}
}

func classifySQLite(err error) class {
	var e *sqlitedriver.Error
	if !errors.As(err, &e) {
		return classifyCommon(err)
	}
	switch code := e.Code(); code & 0xff { // the primary code
	case sqlitelib.SQLITE_BUSY, sqlitelib.SQLITE_LOCKED:
		return classConflict
	case sqlitelib.SQLITE_INTERRUPT:
		return classEnded
	case sqlitelib.SQLITE_CONSTRAINT:
		if code == sqlitelib.SQLITE_CONSTRAINT_UNIQUE || code == sqlitelib.SQLITE_CONSTRAINT_PRIMARYKEY {
			return classDuplicate
		}
		return classFault
	case sqlitelib.SQLITE_IOERR, sqlitelib.SQLITE_FULL, sqlitelib.SQLITE_CANTOPEN, sqlitelib.SQLITE_NOMEM, sqlitelib.SQLITE_PROTOCOL, sqlitelib.SQLITE_READONLY:
		return classAway
	default:
		if strings.Contains(e.Error(), "no such table") {
			return classNoTable
		}
		return classFault
	}
}
