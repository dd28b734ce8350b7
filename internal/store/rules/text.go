package rules

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Lengths of columns: of free text in bytes (a TEXT column of MySQL), of a name in characters.
const (
	MaxText = 65535
	MaxName = 255
)

// Fold returns the key under which a name is unique: names that differ by case only have the same key, on every
// database (contract section 12, row 33). It agrees with strings.EqualFold.
func Fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, name)
}

// Text makes free text storable everywhere: valid UTF-8 without NUL (PostgreSQL takes none), at most max bytes long,
// cut between characters. What is cut is marked.
func Text(s string, max int) string {
	if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
		s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
	}
	if len(s) <= max {
		return s
	}
	const mark = "…"
	end := max - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}

// Name is Text for a column of 255 characters.
func Name(s string) string {
	s = Text(s, MaxText)
	if utf8.RuneCountInString(s) <= MaxName {
		return s
	}
	return string([]rune(s)[:MaxName])
}

// TextPtr is Text for what may be absent.
func TextPtr(s *string, max int) *string {
	if s == nil {
		return nil
	}
	t := Text(*s, max)
	return &t
}

// Storable reports whether a database could hold s at all: what it could not hold, it cannot find either.
func Storable(s string) bool { return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) }

// Micro is t as the databases keep times of ours: UTC, whole microseconds.
func Micro(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// Second is t as Masakari keeps created_at, updated_at and deleted_at: UTC, whole seconds (contract 1.4).
func Second(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// MicroPtr is Micro for what may be absent.
func MicroPtr(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	m := Micro(*t)
	return &m
}
