package store

import (
	"database/sql"
	"strconv"
	"time"

	"github.com/uptrace/bun/schema"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// stamp is a time in a row: NULL when zero, always UTC, never finer than microseconds.
type stamp struct{ time.Time }

var (
	_ schema.QueryAppender = stamp{}
	_ sql.Scanner          = (*stamp)(nil)
)

// AppendQuery writes the time as a literal.
func (s stamp) AppendQuery(_ schema.QueryGen, b []byte) ([]byte, error) {
	return append(b, literal(s.Time)...), nil
}

// Scan reads what the drivers give.
func (s *stamp) Scan(src any) (err error) {
	s.Time, err = rules.ReadTime(src)
	return err
}

func stampOf(t *time.Time) stamp {
	if t == nil {
		return stamp{}
	}
	return stamp{rules.Micro(*t)}
}

func (s stamp) ptr() *time.Time {
	if s.IsZero() {
		return nil
	}
	t := s.Time
	return &t
}

// common are the columns that Masakari's tables begin with.
type common struct {
	CreatedAt stamp `bun:"created_at"`
	UpdatedAt stamp `bun:"updated_at"`
	DeletedAt stamp `bun:"deleted_at"`
	Deleted   int64 `bun:"deleted"`
	ID        int64 `bun:"id,pk,autoincrement"`
}

func (c common) stamps() ha.Stamps {
	return ha.Stamps{CreatedAt: c.CreatedAt.Time, UpdatedAt: c.UpdatedAt.ptr()}
}

// stampNames are the columns that stamps reads.
const stampNames = "id, created_at, updated_at"

// stamps reads the id and the stamps, which each list's columns begin with.
func (c *columns) stamps() (int64, ha.Stamps) {
	return c.number(), ha.Stamps{CreatedAt: c.time(), UpdatedAt: c.timeOrNull()}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
