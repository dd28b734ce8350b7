package masakari

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// record is one row as it is there: which columns a table has depends on its version, and what they hold on who wrote it.
type record struct {
	values map[string]any
	size   int    // bytes of its texts
	fault  string // the first
	cut    string // columns whose text is not kept as it is
	spelt  string // columns whose uuid is spelt otherwise here
}

// records runs a query; what it finds must be bounded.
func records(ctx context.Context, db bun.IDB, query string, args ...any) ([]*record, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // whatever matters, Err tells
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var all []*record
	for rows.Next() {
		r, err := scan(rows, columns)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

func scan(rows *sql.Rows, columns []string) (*record, error) {
	values := make([]any, len(columns))
	to := make([]any, len(columns))
	for i := range values {
		to[i] = &values[i]
	}
	if err := rows.Scan(to...); err != nil {
		return nil, err
	}
	r := &record{values: make(map[string]any, len(columns))}
	for i, c := range columns {
		if b, ok := values[i].([]byte); ok {
			values[i] = string(b)
		}
		if s, ok := values[i].(string); ok {
			r.size += len(s)
		}
		r.values[c] = values[i]
	}
	return r, nil
}

func (r *record) bad(format string, args ...any) {
	if r.fault == "" {
		r.fault = fmt.Sprintf(format, args...)
	}
}

// name is a text that must be there, storable and of at most so many characters. "" stands for one that no database could be asked for.
func (r *record) name(column string, most int) string {
	s := r.raw(column)
	switch {
	case s == nil || *s == "":
		r.bad("%s is empty", column)
		return ""
	case !rules.Storable(*s):
		r.bad("%s %.40q holds NUL or is no valid UTF-8", column, *s)
		return ""
	case len([]rune(*s)) > most:
		r.bad("%s has more than %d characters", column, most)
	}
	return *s
}

// uuid is a name that is a uuid, as salvor spells them and looks them up: lower case, with dashes. MySQL finds another spelling too,
// so there Masakari's rows may refer to each other by it.
func (r *record) uuid(column string) string {
	was := r.name(column, 36)
	is := spelt(was)
	if is != was {
		r.spelt += ", " + column
	}
	return is
}

func spelt(id string) string {
	if u, err := uuid.Parse(id); err == nil {
		return u.String()
	}
	return id
}

// spellings are these uuids in each spelling in which they may be there.
func spellings(ids []string) []string {
	all := make([]string, 0, 4*len(ids))
	for _, id := range ids {
		all = append(all, id)
		if _, err := uuid.Parse(id); err == nil {
			plain := strings.ReplaceAll(id, "-", "")
			all = append(all, strings.ToUpper(id), plain, strings.ToUpper(plain))
		}
	}
	return all
}

// text is a text that may be empty; nil for NULL, and where the table has no such column.
func (r *record) text(column string) *string {
	return r.kept(column, func(s string) string { return rules.Text(s, rules.MaxText) })
}

// title is text for a column of 255 characters.
func (r *record) title(column string) *string { return r.kept(column, rules.Name) }

func (r *record) kept(column string, keep func(string) string) *string {
	raw := r.raw(column)
	if raw == nil {
		return nil
	}
	text := keep(*raw)
	if text != *raw {
		r.cut += ", " + column
	}
	return &text
}

func (r *record) raw(column string) *string {
	switch v := r.values[column].(type) {
	case nil:
		return nil
	case string:
		return &v
	default:
		s := fmt.Sprint(v)
		return &s
	}
}

// words is text with NULL as empty.
func (r *record) words(column string) string { return orEmpty(r.text(column)) }

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (r *record) number(column string) int64 {
	switch v := r.values[column].(type) {
	case nil:
		return 0
	case int64:
		return v
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	}
	r.bad("%s is no number: %v", column, r.values[column])
	return 0
}

// flag reads a boolean; NULL, and a column that is not there, is otherwise.
func (r *record) flag(column string, otherwise bool) bool {
	switch v := r.values[column].(type) {
	case nil:
		return otherwise
	case bool:
		return v
	case int64:
		return v != 0
	case string:
		if b, err := strconv.ParseBool(v); err == nil { // PostgreSQL: t, f
			return b
		}
	}
	r.bad("%s is no boolean: %v", column, r.values[column])
	return otherwise
}

func (r *record) time(column string) *time.Time {
	t, err := rules.ReadTime(r.values[column])
	switch {
	case err != nil:
		r.bad("%s is no time: %.40v", column, r.values[column])
		return nil
	case t.IsZero():
		return nil
	case !rules.TimeFits(t):
		r.bad("%s %s is out of range: its year must be from %d to %d", column, t.Format(time.DateTime), rules.MinYear, rules.MaxYear)
		return nil
	}
	t = rules.Micro(t)
	return &t
}

// Row is a row of one of the four tables, as salvor's own type.
type Row[O any] struct {
	Object    O
	ID        int64
	UUID      string
	Deleted   int64 // 0 while it is live, else its id
	DeletedAt *time.Time
	Size      int    // bytes of its texts
	Cut       string // says which of its texts and uuids are not as they were, "" for none
	Fault     string // why salvor cannot take it, "" when it can
}

// head reads the columns that all four tables begin with. A row without created_at, which Masakari itself never writes, has that
// of its last change, or the first second of 1970.
func head[O any](r *record, column string) (Row[O], ha.Stamps) {
	row := Row[O]{ID: r.number("id"), UUID: r.uuid(column), Deleted: r.number("deleted"), DeletedAt: r.time("deleted_at")}
	if row.ID <= 0 || row.ID > math.MaxInt32 || row.Deleted < 0 || row.Deleted > math.MaxInt32 {
		r.bad("id or deleted is out of range: %d, %d", row.ID, row.Deleted)
	}
	if strings.HasSuffix(row.UUID, " ") {
		r.bad("%s %q ends with a blank, which MySQL does not tell from one without", column, row.UUID)
	}
	stamps := ha.Stamps{CreatedAt: time.Unix(0, 0).UTC(), UpdatedAt: r.time("updated_at")}
	if at := r.time("created_at"); at != nil {
		stamps.CreatedAt = rules.Second(*at)
	} else if stamps.UpdatedAt != nil {
		stamps.CreatedAt = rules.Second(*stamps.UpdatedAt)
	}
	if stamps.UpdatedAt != nil {
		*stamps.UpdatedAt = rules.Second(*stamps.UpdatedAt)
	}
	return row, stamps
}
