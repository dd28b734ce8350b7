package main

import (
	"context"
	"fmt"
	"time"

	"github.com/salvor-ha/salvor/test/openstack/lab"
)

// cloud is a Nova with hypervisors, one of which, the victim, dies once in each run.
type cloud interface {
	name() string
	// prepare makes count active instances on the victim, and all hypervisors well.
	prepare(ctx context.Context, count int) error
	// die ends the victim and returns when Nova shows it down.
	die(ctx context.Context) error
	victim() string
	hosts() []string
	serverName() string
	// login gives an administrator's token, by way of the door; nova a client through it.
	login(ctx context.Context) (lab.Token, error)
	nova(token string) *lab.Nova
	// away counts the instances that are active, without a task, on another host than the victim; it costs Nova nothing.
	away(ctx context.Context) (int, error)
	door() *door
	// conf is what masakari.conf must say of this cloud; database its [database] connection, new for each run.
	conf() string
	database(ctx context.Context, dir string) (url string, drop func(context.Context) error, err error)
	close(ctx context.Context) error
}

// contestant recovers the dead victim's instances.
type contestant interface {
	// recover returns when the contestant has nothing left to do.
	recover(ctx context.Context) (run, error)
	close(ctx context.Context) error
}

// run is what a contestant tells of a recovery.
type run struct {
	started time.Time // when the report was accepted (202), or the loop began
}

// sample is one measured recovery.
type sample struct {
	first   time.Duration // from the 202 to the first evacuate order
	own     time.Duration // of that, what was not spent waiting for the cloud's answers
	moved   time.Duration // from the first evacuate order until the last instance was active elsewhere
	settled time.Duration // from the 202 until there was nothing left to do
	calls   int           // to Nova and Keystone, from the 202 until moved
}

// limit bounds one recovery; Masakari with its defaults needs 5 minutes for 20.
const limit = 15 * time.Minute

// measure lets the victim die and the contestant recover. The door's calls go to traceFile, if it is named.
func measure(ctx context.Context, c cloud, count int, who contestant, traceFile string) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := c.die(ctx); err != nil {
		return sample{}, err
	}
	begin := time.Now()
	type end struct {
		run run
		at  time.Time
		err error
	}
	ended := make(chan end, 1)
	go func() {
		r, err := who.recover(ctx)
		ended <- end{r, time.Now(), err}
	}()
	var allAway time.Time
	var e *end
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for allAway.IsZero() || e == nil {
		select {
		case got := <-ended:
			e = &got
			if e.err != nil {
				return sample{}, e.err
			}
		case <-tick.C:
			if !allAway.IsZero() {
				continue
			}
			n, err := c.away(ctx)
			if err != nil {
				return sample{}, err
			}
			if n == count {
				allAway = time.Now()
			}
		case <-ctx.Done():
			return sample{}, fmt.Errorf("not all %d instances were active elsewhere after %s", count, limit)
		}
	}
	if traceFile != "" {
		if err := c.door().write(traceFile, e.run.started); err != nil {
			return sample{}, err
		}
	}
	first, ok := c.door().firstOrder(begin)
	if !ok {
		return sample{}, fmt.Errorf("no evacuate order came through the door, though all instances moved")
	}
	s := sample{
		first: first.Sub(e.run.started), moved: allAway.Sub(first), settled: e.at.Sub(e.run.started),
	}
	s.own = s.first - c.door().waited(e.run.started, first)
	for _, call := range c.door().since(e.run.started) {
		if call.Start.Before(allAway) {
			s.calls++
		}
	}
	return s, nil
}
