package imports

import (
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/testkit"

	_ "modernc.org/sqlite"
)

// databases makes an empty database of each kind that this machine has, and returns its SQLAlchemy URL.
var databases = map[string]func(testing.TB) string{
	"sqlite":     func(tb testing.TB) string { return "sqlite:///" + filepath.Join(tb.TempDir(), "database.sqlite") },
	"mariadb":    testkit.MariaDB,
	"postgresql": testkit.Postgres,
}

// connect opens the database of a SQLAlchemy URL.
func connect(t *testing.T, raw string) *sql.DB {
	t.Helper()
	scheme, rest, _ := strings.Cut(raw, "://")
	driver, dsn := "sqlite", strings.TrimPrefix(rest, "/")
	if scheme != "sqlite" {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		driver, dsn = "pgx", "postgres://postgres@"+u.Host+u.Path+"?sslmode=disable"
		if strings.HasPrefix(scheme, "mysql") {
			driver, dsn = "mysql", fmt.Sprintf("root@tcp(%s)%s", u.Host, u.Path)
		}
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// run carries statements out.
func run(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// tables are salvor's, but for those of its own processes.
var tables = []string{"failover_segments", "hosts", "notifications", "vmoves", "work", "journal", "claims"}

// dump is every row of salvor's tables, as text.
func dump(t *testing.T, raw string) string {
	t.Helper()
	db := connect(t, raw)
	var b strings.Builder
	for _, table := range tables {
		var lines []string
		for _, r := range query(t, db, "SELECT * FROM "+table) {
			lines = append(lines, fmt.Sprint(table, " ", r))
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, "\n") + "\n")
	}
	return b.String()
}

// query returns the rows of a query as text.
func query(t *testing.T, db *sql.DB, q string) [][]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), q)
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		to := make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		texts := make([]string, len(columns))
		for i, v := range values {
			texts[i] = v.String
			if !v.Valid {
				texts[i] = "NULL"
			}
		}
		all = append(all, texts)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
