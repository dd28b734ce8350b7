package engine

import (
	"log/slog"
	"time"
)

const (
	complainFirst = 10 * time.Second
	complainMost  = 10 * time.Minute
)

// complaint tells of what fails again and again: at once, then at growing gaps with the count, and when it has ended. For one that
// is tried twice a second, a line each time buries what else the log says.
type complaint struct {
	log   *slog.Logger
	what  string // "could not …"
	ended string
	times int
	since time.Time
	next  time.Time
	gap   time.Duration
}

func (c *complaint) failed(err error) {
	now := time.Now()
	switch c.times++; {
	case c.times == 1:
		c.since, c.gap = now, complainFirst
		c.log.Warn(c.what, "error", err)
	case now.Before(c.next):
		return
	default:
		c.gap = min(2*c.gap, complainMost)
		c.log.Warn(c.what, "error", err, "times", c.times, "for", now.Sub(c.since).Round(time.Second))
	}
	c.next = now.Add(c.gap)
}

func (c *complaint) well() {
	if c.times > 0 {
		c.log.Info(c.ended, "after", time.Since(c.since).Round(100*time.Millisecond), "times", c.times)
	}
	c.times = 0
}
