package cli

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// span is a flag's length of time: 30m, 2h, 1h30m, and 3d for days.
type span time.Duration

var errSpan = errors.New("expected a length of time above 0, such as 30m, 2h, 1h30m or 3d")

func (s *span) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

// Set reads the text; a number alone has no unit and is refused.
func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		if n > 100_000 {
			return errSpan // no Duration holds it
		}
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d <= 0 {
		return errSpan
	}
	*s = span(d)
	return nil
}

// Type names the value in help texts.
func (*span) Type() string { return "time" }
