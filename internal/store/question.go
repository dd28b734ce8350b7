package store

import (
	"context"
	"database/sql/driver"
	"strings"

	"github.com/salvor-ha/salvor/internal/store/rules"
)

// question is a SELECT as it is put together: its text, with a ? in the place of each argument. Questions of one kind have one
// text, whatever they ask for, so that a database can keep it prepared.
type question struct {
	text strings.Builder
	args []any // bool, int, int64 or string
}

// add appends to the text.
func (q *question) add(text string, args ...any) {
	q.text.WriteString(text)
	q.args = append(q.args, args...)
}

// and appends a further condition.
func (q *question) and(condition string, args ...any) {
	q.add(" AND (")
	q.add(condition, args...)
	q.add(")")
}

// equal appends an exact filter, if there is one.
func (q *question) equal(column string, v *string) {
	switch {
	case v == nil:
	case !rules.Storable(*v):
		q.and("FALSE")
	default:
		q.and(column+" = ?", *v)
	}
}

// ask hands the rows of the answer to row one after the other.
func (q *question) ask(ctx context.Context, s *Store, row func(*columns) error) error {
	if !s.d.prepares {
		return fetch(ctx, s.reads, s.reads.QueryGen().FormatQuery(q.text.String(), q.args...), row)
	}
	args := make([]driver.NamedValue, len(q.args))
	for i, a := range q.args {
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: bound(a)}
	}
	return fetch(ctx, s.reads, q.text.String(), row, args...)
}

// bound is an argument as drivers take it.
func bound(arg any) driver.Value {
	if n, ok := arg.(int); ok {
		return int64(n)
	}
	return arg
}
