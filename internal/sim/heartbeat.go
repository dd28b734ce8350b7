package sim

import "time"

// heartbeat computes when a service last reported from the time alone, so that a beating host costs nothing.
type heartbeat struct {
	every   time.Duration
	beating bool
	from    time.Time // when beating: the first heartbeat of this run
	before  time.Time // the last one of the run before
}

// initialDelay is how long a started service waits before its first heartbeat: why a revived host is not up at once.
const initialDelay = 5 * time.Second

// runningHeartbeat is of a service that has been up for a while.
func (c *Cloud) runningHeartbeat(name string) heartbeat {
	every := c.opt.ReportInterval
	phase := time.Duration(c.chance("heartbeat", name, 0) * float64(every))
	return heartbeat{every: every, beating: true, from: c.now.Add(-phase), before: c.now.Add(-phase)}
}

// last returns the last heartbeat at or before now.
func (b *heartbeat) last(now time.Time) time.Time {
	if !b.beating || now.Before(b.from) {
		return b.before
	}
	return b.from.Add(now.Sub(b.from) / b.every * b.every)
}

func (b *heartbeat) stop(now time.Time) {
	b.before = b.last(now)
	b.beating = false
}

func (b *heartbeat) begin(first time.Time) {
	b.beating, b.from = true, first
}
