package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/salvor-ha/salvor/bench/recovery/contest"
	"github.com/salvor-ha/salvor/test/openstack/lab"
)

// bare is the bare limit: a plain loop with the calls that no recovery can do without (one PUT, one list, and for each instance
// lock, evacuate, unlock; one server list a second), as many at a time as salvor may have, and none of the care: no journal, no
// gates, no confirmation by records, no takeover.
type bare struct {
	cloud       contest.Cloud
	nova        *lab.Nova
	concurrency int64
}

func newBare(ctx context.Context, c contest.Cloud, concurrency int) (contest.Contestant, error) {
	token, err := c.Login(ctx)
	if err != nil {
		return nil, err
	}
	return &bare{cloud: c, nova: c.Nova(token.ID), concurrency: int64(concurrency)}, nil
}

// recover returns when all instances are unlocked; its clock starts with the call.
func (b *bare) Recover(ctx context.Context) (contest.Run, error) {
	start := time.Now()
	host := b.cloud.Victim()
	err := b.nova.SetService(ctx, host, map[string]any{"forced_down": true, "status": "disabled", "disabled_reason": "bare limit"})
	if err != nil {
		return contest.Run{}, err
	}
	servers, err := b.nova.Servers(ctx, url.Values{"host": {host}})
	if err != nil {
		return contest.Run{}, err
	}
	slots := semaphore.NewWeighted(b.concurrency)
	act := func(ctx context.Context, id string, action map[string]any) error {
		if err := slots.Acquire(ctx, 1); err != nil {
			return err
		}
		defer slots.Release(1)
		return b.nova.Act(ctx, id, action)
	}
	group, gctx := errgroup.WithContext(ctx)
	arrived := map[string]chan struct{}{}
	for _, s := range servers {
		there := make(chan struct{})
		arrived[s.ID] = there
		group.Go(func() error {
			if err := act(gctx, s.ID, map[string]any{"lock": map[string]any{}}); err != nil {
				return err
			}
			if err := act(gctx, s.ID, map[string]any{"evacuate": map[string]any{}}); err != nil {
				return err
			}
			select {
			case <-there:
				return act(gctx, s.ID, map[string]any{"unlock": nil})
			case <-gctx.Done():
				return gctx.Err()
			}
		})
	}
	group.Go(func() error { return b.watch(gctx, host, arrived) })
	return contest.Run{Started: start}, group.Wait()
}

// watch lists the servers once a second and closes the channels of those that have arrived.
func (b *bare) watch(ctx context.Context, host string, arrived map[string]chan struct{}) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	left := len(arrived)
	for left > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		servers, err := b.nova.Servers(ctx, url.Values{"name": {b.cloud.ServerName()}})
		if err != nil {
			return err
		}
		for _, s := range servers {
			there, ok := arrived[s.ID]
			switch {
			case !ok || there == nil:
			case s.Status == "ERROR":
				return fmt.Errorf("%s", s)
			case s.Status == "ACTIVE" && s.Idle() && s.Host != host:
				close(there)
				arrived[s.ID] = nil
				left--
			}
		}
	}
	return nil
}

func (b *bare) Close(context.Context) error { return nil }
