package contest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/salvor-ha/salvor/test/openstack/lab"
)

// Cloud is a Nova with hypervisors, one of which, the victim, dies once in each run.
type Cloud interface {
	Name() string
	Victim() string
	ServerName() string
	// Login gives an administrator's token, by way of the door; Nova a client through it.
	Login(ctx context.Context) (lab.Token, error)
	Nova(token string) *lab.Nova
	Close(ctx context.Context) error

	// prepare makes count active instances on the victim, and all hypervisors well.
	prepare(ctx context.Context, count int) error
	// die ends the victim and returns when Nova shows it down.
	die(ctx context.Context) error
	hosts() []string
	// away counts the instances that are active, without a task, on another host than the victim; it costs Nova nothing.
	away(ctx context.Context) (int, error)
	door() *door
	// conf is what masakari.conf must say of this cloud; database its [database] connection, new for each run.
	conf() string
	database(ctx context.Context, dir string) (url string, drop func(context.Context) error, err error)
}

// Contestant recovers the dead victim's instances.
type Contestant interface {
	// Recover returns when the contestant has nothing left to do.
	Recover(ctx context.Context) (Run, error)
	Close(ctx context.Context) error
}

// Run is what a contestant tells of a recovery.
type Run struct {
	Started time.Time // when the report was accepted (202), or the loop began
}

// Sample is one measured recovery.
type Sample struct {
	First   time.Duration // from the 202 to the first evacuate order
	Own     time.Duration // of that, what was not spent waiting for the cloud's answers
	Moved   time.Duration // from the first evacuate order until the last instance was active elsewhere
	Settled time.Duration // from the 202 until there was nothing left to do
	Calls   int           // to Nova and Keystone, from the 202 until moved
	Load    float64       // the machine's load average of one minute at the end; 0 where there is none
}

// The times of a sample, for Series.

func First(s Sample) time.Duration   { return s.First }
func Own(s Sample) time.Duration     { return s.Own }
func Moved(s Sample) time.Duration   { return s.Moved }
func All(s Sample) time.Duration     { return s.First + s.Moved }
func Settled(s Sample) time.Duration { return s.Settled }

// limit bounds one recovery; Masakari with its defaults needs 5 minutes for 20.
const limit = 15 * time.Minute

// measure lets the victim die and the contestant recover. The door's calls go to traceFile, if it is named, also those of a
// recovery that failed.
func measure(ctx context.Context, c Cloud, count int, who Contestant, traceFile string) (s Sample, err error) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := c.die(bounded); err != nil {
		return s, err
	}
	begin := time.Now()
	started := begin
	if traceFile != "" {
		defer func() { err = errors.Join(err, c.door().write(traceFile, started)) }()
	}
	type end struct {
		run Run
		at  time.Time
		err error
	}
	ended := make(chan end, 1)
	go func() {
		r, err := who.Recover(bounded)
		ended <- end{r, time.Now(), err}
	}()
	var allAway, settled time.Time
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for allAway.IsZero() || settled.IsZero() {
		select {
		case e := <-ended:
			if e.err != nil {
				return s, e.err
			}
			started, settled = e.run.Started, e.at
		case <-tick.C:
			if !allAway.IsZero() {
				continue
			}
			n, err := c.away(bounded)
			if err != nil {
				return s, err
			}
			if n == count {
				allAway = time.Now()
			}
		case <-bounded.Done():
			if ctx.Err() != nil { // interrupted
				return s, context.Cause(ctx)
			}
			return s, fmt.Errorf("not all %d instances were active elsewhere, and the work on them ended, after %s", count, limit)
		}
	}
	first, ok := c.door().firstOrder(begin)
	if !ok {
		return s, errors.New("no evacuate order came through the door, though all instances moved")
	}
	s = Sample{First: first.Sub(started), Moved: allAway.Sub(first), Settled: settled.Sub(started), Load: load()}
	s.Own = s.First - c.door().waited(started, first)
	for _, call := range c.door().since(started) {
		if call.Start.Before(allAway) {
			s.Calls++
		}
	}
	return s, nil
}

func load() float64 {
	var one float64
	text, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, _ = fmt.Sscan(string(text), &one)
	}
	return one
}
