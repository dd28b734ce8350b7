package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
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
	moment   bool   // a time
	unique   bool   // what is sorted by it needs no further key
	constant bool   // the same in all live rows
	index    string // holds the live rows by it, created_at and id; "" when there is none
}

// list knows how the objects of a table are listed: filtered, sorted, and page after page from the last row seen
// (keyset paging: no page costs more than the first).
type list[O any] struct {
	table string
	// names are the columns that read reads, in its order.
	names   string
	read    func(*columns) O
	fields  rules.Fields[O]
	uuid    string
	columns map[ha.Field]column
	// byTime are the indexes that end with (created_at, id), the default order, one for each filter.
	byTime []string
	// covered are the columns of the index by which the filters in use find rows, when that holds all that they and the order
	// need: the rows of a page are then chosen in it, and only those are read.
	covered []string
}

// primary is the index of the ids.
const primary = "PRIMARY"

func (l list[O]) column(f ha.Field) (column, error) {
	if c, own := l.columns[f]; own {
		return c, nil
	}
	switch f {
	case ha.FieldID:
		return column{name: "id", unique: true, index: primary}, nil
	case ha.FieldCreatedAt:
		return column{name: createdAt}, nil
	case ha.FieldUUID:
		return column{name: l.uuid, unique: true}, nil
	case ha.FieldUpdatedAt:
		return column{name: "updated_at", null: true, moment: true}, nil
	case ha.FieldDeleted, ha.FieldDeletedAt:
		return column{constant: true}, nil
	default:
		return column{}, rules.UnsortableError(f)
	}
}

// key is one key of an order, with the value that the marker's row has there.
type key struct {
	column
	field ha.Field
	desc  bool
	value any
}

// order returns the keys of an order, without those that decide nothing.
func (l list[O]) order(d dialect, by []ha.Sort) ([]key, error) {
	var keys []key
	unique := false
	for _, s := range by {
		c, err := l.column(s.Field)
		if err != nil {
			return nil, err
		}
		if !c.constant && !unique {
			keys = append(keys, key{column: d.sortable(c), field: s.Field, desc: s.Desc})
		}
		unique = unique || c.unique
	}
	return keys, nil
}

// page reads one page. where adds the filters, if there are any (filtered).
func (l list[O]) page(ctx context.Context, s *Store, op string, p ha.Page, filtered bool, where func(*question)) ([]O, error) {
	keys, err := l.order(s.d, p.Sort)
	if err != nil {
		return nil, err
	}
	var objects []O
	err = s.read(ctx, op, func(ctx context.Context, _ bun.IDB) error {
		objects = make([]O, 0, room(p.Limit))
		q := &question{}
		q.text.Grow(len(l.names) + 200)
		q.add("SELECT " + l.names + " FROM " + l.table)
		inIndex := l.coversOrder(keys)
		if inIndex {
			q.add(" AS t JOIN (SELECT id AS chosen FROM " + l.table)
		}
		q.add(s.d.lead(keys, l.byTime, filtered, p.Marker != "") + " WHERE deleted = 0")
		where(q)
		if p.Marker != "" {
			if err := l.mark(ctx, s, p.Marker, keys); err != nil {
				return err
			}
			text, args := s.d.after(keys)
			q.and(text, args...)
		}
		order := s.d.orderBy(keys)
		if q.add(order+" LIMIT ?", p.Limit); inIndex {
			q.add(") AS page ON page.chosen = t.id" + order)
		}
		if p.Limit <= 0 {
			return nil
		}
		return q.ask(ctx, s, func(c *columns) error {
			objects = append(objects, l.read(c))
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return objects, nil
}

// room is how many rows space is made for before the first: a few that are asked for are most often there, a thousand, the default,
// are not.
func room(limit int) int {
	if limit < 0 || limit > 100 {
		return 0
	}
	return limit
}

// coversOrder reports whether the index of the filters in use has all that the order needs.
func (l list[O]) coversOrder(keys []key) bool {
	return len(l.covered) > 0 && !slices.ContainsFunc(keys, func(k key) bool { return !slices.Contains(l.covered, k.name) })
}

// find reads the object that a condition names outside of a transaction, nil when there is none.
func (l list[O]) find(ctx context.Context, s *Store, where string, args ...any) (found *O, err error) {
	for _, a := range args {
		if text, ok := a.(string); ok && !rules.Storable(text) {
			return nil, nil
		}
	}
	q := question{}
	q.add("SELECT "+l.names+" FROM "+l.table+" WHERE "+where+" LIMIT 1", args...)
	err = q.ask(ctx, s, func(c *columns) error {
		o := l.read(c)
		found = &o
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// show is find with the retries of a read.
func (l list[O]) show(ctx context.Context, s *Store, op, where string, args ...any) (found *O, err error) {
	err = s.read(ctx, op, func(ctx context.Context, _ bun.IDB) (err error) {
		found, err = l.find(ctx, s, where, args...)
		return err
	})
	return found, err
}

// mark finds the marker's row by its integer id or its uuid, and fills in its values.
func (l list[O]) mark(ctx context.Context, s *Store, marker string, keys []key) error {
	var object *O
	var err error
	if id, ok := rules.MarkerID(marker); ok {
		object, err = l.find(ctx, s, "id = ? AND deleted = 0", id)
	} else {
		object, err = l.find(ctx, s, l.uuid+" = ? AND deleted = 0", strings.ToLower(marker))
	}
	if err != nil {
		return err
	}
	if object == nil {
		return &ha.MarkerError{Marker: marker}
	}
	for i := range keys {
		k := &keys[i]
		k.value, _ = l.fields(object, k.field)
		if t, ok := k.value.(time.Time); ok {
			k.value = moment(t)
		}
		if k.value == nil && !k.null && k.moment {
			k.value = noTime
		}
	}
	return nil
}

// noTime sorts before every time.
const noTime = "0001-01-01 00:00:00"

// sortable is a column as this database can begin at a place in its index: comparing rows as wholes, SQLite and PostgreSQL
// know no order of NULLs, so that a time that is none becomes the least one. Migration 0003 has the same expression.
func (d dialect) sortable(c column) column {
	if d.rowValues && c.null && c.moment {
		c.name, c.null = "COALESCE("+c.name+", '"+noTime+"')", false
	}
	return c
}

// after is the condition of the rows that follow the marker's. SQLite and PostgreSQL find their place in an index when the
// keys are compared as one; MySQL when it is spelled out: beyond the marker in the first key, or equal there and beyond it in
// the next. A first key that is never NULL then bounds the range in plain sight as well.
func (d dialect) after(keys []key) (string, []any) {
	if len(keys) == 0 {
		return "FALSE", nil
	}
	if d.rowValues && oneWay(keys) {
		names, args := make([]string, len(keys)), make([]any, len(keys))
		for i, k := range keys {
			names[i], args[i] = k.name, k.value
		}
		sign := ">"
		if keys[0].desc {
			sign = "<"
		}
		text := "(" + strings.Join(names, ", ") + ") " + sign + " (?" + strings.Repeat(", ?", len(keys)-1) + ")"
		if d.name == sqlite && keys[0].moment { // an expression, which it does not look for inside of a row
			return names[0] + " " + sign + "= ? AND " + text, append([]any{keys[0].value}, args...)
		}
		return text, args
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

// oneWay reports whether all keys go the same way and none is ever NULL.
func oneWay(keys []key) bool {
	for _, k := range keys {
		if k.null || k.desc != keys[0].desc {
			return false
		}
	}
	return true
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

func (d dialect) orderBy(keys []key) string {
	by := make([]string, len(keys))
	for i, k := range keys {
		by[i] = d.order(k)
	}
	if len(by) == 0 {
		return ""
	}
	return " ORDER BY " + strings.Join(by, ", ")
}

// lead is the hint that makes a page begin at its place in an index that has the order of the keys. Left alone, MySQL reads such an index from
// its beginning, over all rows before the marker's; and SQLite, which has no statistics, takes any index that begins with
// deleted, and sorts all rows.
func (d dialect) lead(keys []key, byTime []string, filtered, marked bool) string {
	if len(keys) == 0 {
		return ""
	}
	index := keys[0].index
	if filtered { // few rows may pass, found by the filter's own index and sorted
		index = ""
	}
	switch {
	case d.name == mysql && marked && keys[0].name == createdAt && len(byTime) > 0:
		return forceForOrder(byTime...)
	case index == "":
		return ""
	case d.name == mysql && marked:
		return forceForOrder(index)
	case d.name == sqlite && index == primary:
		return " NOT INDEXED"
	case d.name == sqlite:
		return " INDEXED BY " + index
	default:
		return ""
	}
}

func forceForOrder(indexes ...string) string {
	return " FORCE INDEX FOR ORDER BY (" + strings.Join(indexes, ", ") + ")"
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
