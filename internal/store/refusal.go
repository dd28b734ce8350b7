package store

import (
	"context"
	"database/sql"
	"errors"
	"net"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/salvor-ha/salvor/internal/ha"
)

// reach makes sure that the database answers; pool is closed when it does not.
func (s *Store) reach(ctx context.Context, pool *sql.DB) error {
	err := pool.PingContext(ctx)
	if err == nil {
		return nil
	}
	pool.Close()
	err = &opError{op: "connecting to " + s.where, err: err}
	if why := refusal(err); why != "" {
		return &RefusedError{Err: err, Why: why}
	}
	return &ha.UnavailableError{What: "database", Err: err}
}

// RefusedError is a connection that no waiting brings about: the account, the database or the host is wrong.
type RefusedError struct {
	Err error
	Why string // for people
}

func (e *RefusedError) Error() string { return e.Err.Error() + ": " + e.Why }
func (e *RefusedError) Unwrap() error { return e.Err }

// refusals of a connection that no waiting ends, and what they mean.
var (
	mysqlRefusals = map[uint16]string{
		1044: noRights, 1045: badAccount, 1049: noDatabase, 1130: noHost, 1251: badAccount, 1698: badAccount, 3118: badAccount, 4151: badAccount,
	}
	postgresRefusals = map[string]string{"28000": badAccount, "28P01": badAccount, "3D000": noDatabase, "42501": noRights}
)

const (
	badAccount = "the account or its password is wrong"
	noRights   = "the account has no rights on this database: grant it all of them"
	noDatabase = "there is no such database: make it, empty, or correct its name"
	noHost     = "the database accepts no connections from this machine for this account"
	noName     = "there is no host of this name"
)

// refusal says why trying to connect again is in vain, "" when it is not. Of several nodes every one must have refused for good; of
// the several addresses of one node, one.
func refusal(err error) string {
	switch e := err.(type) { //nolint:errorlint // the chain is walked here, level by level
	case nil:
		return ""
	case *mysqldriver.MySQLError:
		return mysqlRefusals[e.Number]
	case *pgconn.PgError:
		return postgresRefusals[e.Code]
	case *net.DNSError:
		if e.IsNotFound {
			return noName
		}
		return ""
	case interface{ Unwrap() []error }:
		_, nodes := err.(nodesError) //nolint:errorlint // this level's own kind
		why := ""
		for _, inner := range e.Unwrap() {
			switch found := refusal(inner); {
			case found == "" && nodes:
				return ""
			case found != "":
				why = found
			}
		}
		return why
	default:
		return refusal(errors.Unwrap(err))
	}
}
