package store

import (
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/store/rules"
)

// dialect is where the databases differ beyond what bun knows.
type dialect struct {
	name string
	// now is the database's clock as an expression: UTC, microseconds.
	now func() bun.Safe
	// returning: UPDATE … RETURNING works.
	returning bool
	// nullsFirst: the database sorts NULLs first unless it is told otherwise.
	nullsFirst bool
	// rowValues: (a, b) < (1, 2) goes by an index of a and b.
	rowValues bool
	// prepares: SELECTs with arguments are kept prepared, outside of transactions.
	prepares bool
	// classify sorts an error of the driver.
	classify func(error) class
}

var (
	sqliteDialect = dialect{
		name: sqlite,
		// SQLite has no server: its clock is this process's, so that it runs on virtual time too.
		now:       func() bun.Safe { return literal(time.Now()) },
		returning: true, nullsFirst: true, rowValues: true,
		classify: classifySQLite,
	}
	mysqlDialect = dialect{
		name:       mysql,
		now:        func() bun.Safe { return "UTC_TIMESTAMP(6)" },
		nullsFirst: true, prepares: true,
		classify: classifyMySQL,
	}
	postgresDialect = dialect{
		name:      postgres,
		now:       func() bun.Safe { return "(clock_timestamp() AT TIME ZONE 'UTC')::timestamp(6)" },
		returning: true, rowValues: true,
		classify: classifyPostgres,
	}
)

// later is the database's clock plus d, as an expression.
func (d dialect) later(after time.Duration) bun.Safe {
	us := after.Microseconds()
	switch d.name {
	case mysql:
		return bun.Safe(string(d.now()) + " + INTERVAL " + itoa(us) + " MICROSECOND")
	case postgres:
		return bun.Safe(string(d.now()) + " + INTERVAL '" + itoa(us) + " microseconds'")
	default:
		return literal(time.Now().Add(after))
	}
}

// keep is the ON clause by which an INSERT leaves an existing row with the same key as it is.
func (d dialect) keep(columns string) string {
	if d.name == mysql {
		return "DUPLICATE KEY UPDATE id = id"
	}
	return "CONFLICT (" + columns + ") DO NOTHING"
}

// overwrite is the ON clause, and its SET, by which an INSERT writes the columns of an existing row with the same key.
func (d dialect) overwrite(key string, columns []string) (on, set string) {
	on, format := "CONFLICT ("+key+") DO UPDATE", "%[1]s = EXCLUDED.%[1]s"
	if d.name == mysql {
		on, format = "DUPLICATE KEY UPDATE", "%[1]s = VALUES(%[1]s)"
	}
	sets := make([]string, len(columns))
	for i, c := range columns {
		sets[i] = fmt.Sprintf(format, c)
	}
	return on, strings.Join(sets, ", ")
}

// together joins statements that MySQL carries out in one round trip: the answer is the last one's, an error the first one's
// that fails. Only outside of a transaction (mysqlConn says why).
const together = "; "

const timeLayout = "2006-01-02 15:04:05.000000"

// literal writes a time as all three databases read it and as SQLite compares it: UTC, always six fraction digits.
func literal(t time.Time) bun.Safe {
	if t.IsZero() {
		return "NULL"
	}
	return bun.Safe("'" + moment(t) + "'")
}

// moment is a time as an argument, read as a literal is.
func moment(t time.Time) string { return rules.Micro(t).Format(timeLayout) }
