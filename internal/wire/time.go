package wire

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// timeOut is how times are shown: UTC, no zone, always six digits (contract 1.4).
const timeOut = "2006-01-02T15:04:05.000000"

// Timestamp is a time in a response.
type Timestamp struct{ time.Time }

// MarshalJSON writes the time as UTC without a zone.
func (t Timestamp) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.UTC().Format(timeOut) + `"`), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Timestamp) UnmarshalJSON(b []byte) error {
	at, err := time.Parse(`"`+timeOut+`"`, string(b))
	if err != nil {
		return fmt.Errorf("timestamp %s: %w", b, err)
	}
	t.Time = at
	return nil
}

func timestamp(t *time.Time) *Timestamp {
	if t == nil {
		return nil
	}
	return &Timestamp{*t}
}

// Stamps end every stored object. Deleted objects are never shown, so the last two never change.
type Stamps struct {
	CreatedAt Timestamp  `json:"created_at"`
	UpdatedAt *Timestamp `json:"updated_at"`
	DeletedAt *Timestamp `json:"deleted_at"`
	Deleted   bool       `json:"deleted"`
}

func stamps(s ha.Stamps) Stamps {
	out := Stamps{CreatedAt: Timestamp{s.CreatedAt.Truncate(time.Second)}}
	if s.UpdatedAt != nil {
		out.UpdatedAt = &Timestamp{s.UpdatedAt.Truncate(time.Second)}
	}
	return out
}

// isoTime is the ISO 8601 that monitors and clients may send (contract 1.9): extended or basic, date only, with or
// without seconds, fraction and zone.
var isoTime = regexp.MustCompile(`^(\d{4})(?:-(\d\d)-(\d\d)|(\d\d)(\d\d))` +
	`(?:[ T](\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d+))?)?)?` +
	`(Z|[+-]\d\d(?::?\d\d)?)?)?$`)

// parseTime reads an ISO 8601 time; without a zone it is UTC. Years that a DATETIME column cannot hold are refused.
func parseTime(s string) (time.Time, bool) {
	m := isoTime.FindStringSubmatch(s)
	if m == nil {
		return time.Time{}, false
	}
	year, month, day := number(m[1]), number(m[2]+m[4]), number(m[3]+m[5])
	hour, minute, second := number(m[6]), number(m[7]), number(m[8])
	offset, ok := parseZone(m[10])
	if !ok || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	nanos := number((m[9] + "000000")[:6]) * 1000
	t := time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC)
	if t.Day() != day { // the month is shorter
		return time.Time{}, false
	}
	t = t.Add(-offset)
	return t, t.Year() >= 1000 && t.Year() <= 9999
}

func parseZone(s string) (time.Duration, bool) {
	if s == "" || s == "Z" {
		return 0, true
	}
	hours, rest := number(s[1:3]), s[3:]
	if len(rest) > 0 && rest[0] == ':' {
		rest = rest[1:]
	}
	minutes := number(rest)
	offset := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if s[0] == '-' {
		offset = -offset
	}
	return offset, hours < 24 && minutes < 60
}

// number reads digits that a pattern has matched; none are 0.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

// isTime is the format "date-time".
func isTime(s string) bool {
	_, ok := parseTime(s)
	return ok
}
