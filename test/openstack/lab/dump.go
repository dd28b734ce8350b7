package lab

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// NovaDatabases are those of Nova and of Placement.
var NovaDatabases = []string{"nova", "nova_api", "nova_cell0", "placement"}

// heartbeats are the columns that move although nobody does anything: of services, and the counters that a hypervisor reports of
// itself each minute (of compute_nodes), which an instance that has just been booted moves up to a minute later.
var heartbeats = []string{"updated_at", "report_count", "last_seen_up", "stats", "current_workload", "running_vms"}

// Dump is every row of the databases, one line for each, sorted, but for heartbeats.
func (l *Lab) Dump(ctx context.Context, databases ...string) ([]string, error) {
	db, err := l.admin("information_schema")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var all []string
	for _, schema := range databases {
		tables, err := columns(ctx, db, schema)
		if err != nil {
			return nil, err
		}
		for table, names := range tables {
			if all, err = dumpTable(ctx, db, all, schema+"."+table, names); err != nil {
				return nil, fmt.Errorf("%s.%s: %w", schema, table, err)
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there are no rows in %v", databases)
	}
	slices.Sort(all)
	return all, nil
}

// columns are those of each table of a database, without heartbeats.
func columns(ctx context.Context, db *sql.DB, schema string) (map[string][]string, error) {
	rows, err := db.QueryContext(ctx, "SELECT table_name, column_name FROM columns WHERE table_schema = ? ORDER BY table_name, ordinal_position", schema)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	tables := map[string][]string{}
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			return nil, err
		}
		if !slices.Contains(heartbeats, column) {
			tables[table] = append(tables[table], column)
		}
	}
	return tables, rows.Err()
}

func dumpTable(ctx context.Context, db *sql.DB, all []string, table string, names []string) ([]string, error) {
	rows, err := db.QueryContext(ctx, "SELECT `"+strings.Join(names, "`, `")+"` FROM "+table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	values, at := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range values {
		at[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(at...); err != nil {
			return nil, err
		}
		line := table + ":"
		for i, v := range values {
			if v.Valid {
				line += fmt.Sprintf(" %s=%q", names[i], v.String)
			}
		}
		all = append(all, line)
	}
	return all, rows.Err()
}

// Differ is what only one of two dumps has, each line with - or +.
func Differ(before, after []string) []string {
	var found []string
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && before[0] < after[0]:
			found, before = append(found, "- "+before[0]), before[1:]
		case len(before) == 0 || after[0] < before[0]:
			found, after = append(found, "+ "+after[0]), after[1:]
		default:
			before, after = before[1:], after[1:]
		}
	}
	return found
}
