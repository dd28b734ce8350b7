package rules

import (
	"fmt"
	"time"
)

// Years of times that every database keeps: MySQL from 1000, PostgreSQL without a year 0, text with four digits.
const (
	MinYear = 1000
	MaxYear = 9999
)

// TimeFits reports whether every database can keep t.
func TimeFits(t time.Time) bool { return t.UTC().Year() >= MinYear && t.UTC().Year() <= MaxYear }

// ReadTime reads what the drivers give for a column of times: a time, or text where the column's type is hidden from them.
// NULL is the zero time; all is UTC.
func ReadTime(src any) (time.Time, error) {
	var text string
	switch v := src.(type) {
	case nil:
		return time.Time{}, nil
	case time.Time:
		return v.UTC(), nil
	case string:
		text = v
	case []byte:
		text = string(v)
	default:
		return time.Time{}, fmt.Errorf("a time cannot be read from %T", src)
	}
	t, err := time.ParseInLocation("2006-01-02 15:04:05.999999", text, time.UTC)
	if err != nil {
		return time.Time{}, fmt.Errorf("a time cannot be read from %q", text)
	}
	return t, nil
}
