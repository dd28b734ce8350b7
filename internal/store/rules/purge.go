package rules

import (
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// CheckPurge refuses what masakari-manage db purge refuses, in its words (contract section 11).
func CheckPurge(ageDays, maxRows int, now time.Time) error {
	var text string
	switch {
	case maxRows == 0:
		text = "Must supply value greater than 0 for max_rows."
	case maxRows < -1:
		text = "Invalid input received: max_rows must be >= -1"
	case ageDays < 0:
		text = "Must supply a non-negative value for age."
	case ageDays > int(now.Unix()/86400):
		text = "Maximal age is count of days since epoch."
	default:
		return nil
	}
	return &ha.InvalidError{Text: text}
}
