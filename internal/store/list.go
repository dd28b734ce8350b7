package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

const createdAt = "created_at"

// column is what a list can be sorted by.
type column struct {
	name     string
	null     bool
	constant bool // the same in all live rows
}

// list knows how the objects of a table are listed: filtered, sorted, and page after page from the last row seen
// (keyset paging: no page costs more than the first).
type list[R, O any] struct {
	object  func(R) O
	fields  rules.Fields[O]
	uuid    string
	columns map[ha.Field]column
	// byTime are the indexes that end with (created_at, id), the default order.
	byTime []string
}

func (l list[R, O]) column(f ha.Field) (column, error) {
	switch f {
	case ha.FieldID, ha.FieldCreatedAt:
		return column{name: string(f)}, nil
	case ha.FieldUUID:
		return column{name: l.uuid}, nil
	case ha.FieldUpdatedAt:
		return column{name: "updated_at", null: true}, nil
	case ha.FieldDeleted, ha.FieldDeletedAt:
		return column{constant: true}, nil
	}
	c, ok := l.columns[f]
	if !ok {
		return c, rules.UnsortableError(f)
	}
	return c, nil
}

// key is one key of an order, with the value that the marker's row has there.
type key struct {
	column
	desc  bool
	value any
}

// page reads one page. where adds the filters.
func (l list[R, O]) page(ctx context.Context, s *Store, op string, p ha.Page, where func(*bun.SelectQuery)) ([]O, error) {
	var keys []key
	for _, by := range p.Sort {
		c, err := l.column(by.Field)
		if err != nil {
			return nil, err
		}
		if !c.constant {
			keys = append(keys, key{column: c, desc: by.Desc})
		}
	}
	var rows []R
	err := s.read(ctx, op, func(ctx context.Context, db bun.IDB) error {
		rows = nil
		q := db.NewSelect().Model(&rows).Where("deleted = 0")
		where(q)
		if p.Marker != "" {
			if err := l.mark(ctx, db, p, keys); err != nil {
				return err
			}
			text, args := after(keys)
			q.Where(text, args...)
			s.d.seek(q, keys, l.byTime)
		}
		for _, k := range keys {
			q.OrderExpr(s.d.order(k))
		}
		if p.Limit <= 0 {
			return nil
		}
		return q.Limit(int64(p.Limit)).Scan(ctx)
	})
	if err != nil {
		return nil, err
	}
	objects := make([]O, len(rows))
	for i, r := range rows {
		objects[i] = l.object(r)
	}
	return objects, nil
}

// mark finds the marker's row by its integer id or its uuid, and fills in its values.
func (l list[R, O]) mark(ctx context.Context, db bun.IDB, p ha.Page, keys []key) error {
	var row *R
	var err error
	if id, ok := rules.MarkerID(p.Marker); ok {
		row, err = one[R](ctx, db, "id = ? AND deleted = 0", id)
	} else {
		row, err = one[R](ctx, db, l.uuid+" = ? AND deleted = 0", strings.ToLower(p.Marker))
	}
	if err != nil {
		return err
	}
	if row == nil {
		return &ha.MarkerError{Marker: p.Marker}
	}
	object, next := l.object(*row), 0
	for _, by := range p.Sort {
		if c, _ := l.column(by.Field); c.constant {
			continue
		}
		value, _ := l.fields(&object, by.Field)
		if t, ok := value.(time.Time); ok {
			value = literal(t)
		}
		keys[next].value = value
		next++
	}
	return nil
}

// after is the condition of the rows that follow the marker's: beyond it in the first key, or equal there and beyond it in
// the next. A first key that is never NULL bounds the range in plain sight as well, so that its index is used.
func after(keys []key) (string, []any) {
	if len(keys) == 0 {
		return "FALSE", nil
	}
	text, args := afterFrom(keys)
	if k := keys[0]; !k.null {
		sign := ">="
		if k.desc {
			sign = "<="
		}
		return k.name + " " + sign + " ? AND (" + text + ")", append([]any{k.value}, args...)
	}
	return text, args
}

func afterFrom(keys []key) (string, []any) {
	k := keys[0]
	var beyond, same string
	var args []any
	switch {
	case k.value == nil && k.desc: // NULLs come last: nothing is beyond
		beyond, same = "FALSE", k.name+" IS NULL"
	case k.value == nil:
		beyond, same = k.name+" IS NOT NULL", k.name+" IS NULL"
	case k.desc && k.null:
		beyond, same, args = "("+k.name+" < ? OR "+k.name+" IS NULL)", k.name+" = ?", []any{k.value}
	case k.desc:
		beyond, same, args = k.name+" < ?", k.name+" = ?", []any{k.value}
	default:
		beyond, same, args = k.name+" > ?", k.name+" = ?", []any{k.value}
	}
	if len(keys) == 1 {
		return beyond, args
	}
	rest, restArgs := afterFrom(keys[1:])
	args = append(args, args...)
	return beyond + " OR (" + same + " AND (" + rest + "))", append(args, restArgs...)
}

// order writes a key of ORDER BY: NULLs first going up, last going down, on every database, as on MySQL.
func (d dialect) order(k key) string {
	text := k.name + " ASC"
	if k.desc {
		text = k.name + " DESC"
	}
	switch {
	case !k.null || d.nullsFirst:
		return text
	case k.desc:
		return text + " NULLS LAST"
	default:
		return text + " NULLS FIRST"
	}
}

// seek makes a page begin at the marker's place in one of the indexes by time. Left alone, MySQL reads such an index from its
// beginning, over all rows before the marker's.
func (d dialect) seek(q *bun.SelectQuery, keys []key, byTime []string) {
	if d.name == mysql && len(keys) > 0 && keys[0].name == createdAt {
		q.ForceIndexForOrderBy(byTime...)
	}
}

// equal adds an exact filter, if there is one.
func equal(q *bun.SelectQuery, column string, v *string) {
	switch {
	case v == nil:
	case !rules.Storable(*v):
		q.Where("FALSE")
	default:
		q.Where(column+" = ?", *v)
	}
}

// one reads the row that a condition names, nil when there is none.
func one[R any](ctx context.Context, db bun.IDB, where string, args ...any) (*R, error) {
	for _, a := range args {
		if text, ok := a.(string); ok && !rules.Storable(text) {
			return nil, nil
		}
	}
	row := new(R)
	err := db.NewSelect().Model(row).Where(where, args...).Limit(1).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return row, nil
}
