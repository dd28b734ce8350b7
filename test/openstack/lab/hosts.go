package lab

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"
)

// Kill ends a hypervisor's nova-compute with SIGKILL. Nova notices within 10 s.
func (l *Lab) Kill(ctx context.Context, host string) error {
	_, err := l.Script(ctx, "kill-host", host)
	return err
}

// Revive starts a hypervisor's nova-compute, if it is dead, and waits for its first heartbeat. Nova's flags stay.
func (l *Lab) Revive(ctx context.Context, host string) error {
	_, err := l.Script(ctx, "revive-host", host)
	return err
}

// Restore makes a hypervisor as it was: alive, not forced down, enabled, up.
func (l *Lab) Restore(ctx context.Context, host string) error {
	for try := 0; ; try++ {
		if err := l.Revive(ctx, host); err != nil {
			return err
		}
		// Nova refuses until the host has cleaned up after the evacuations.
		err := Until(ctx, "Nova to take back forced_down of "+host, 15*time.Second, func() (bool, error) {
			s, err := l.Service(ctx, host)
			if err != nil || !s.ForcedDown {
				return err == nil, err
			}
			return false, l.SetService(ctx, host, map[string]any{"forced_down": false})
		})
		if err == nil {
			break
		}
		if try == 3 {
			return err
		}
		// Each start of a host cleans up after one evacuation of a server, but there may have been two.
		if err := l.Kill(ctx, host); err != nil {
			return err
		}
	}
	if err := l.SetService(ctx, host, map[string]any{"status": "enabled"}); err != nil {
		return err
	}
	return l.AwaitService(ctx, host, "up and enabled", 30*time.Second, func(s Service) bool {
		return s.State == "up" && s.Status == "enabled" && !s.ForcedDown
	})
}

// Clean deletes the servers whose names begin with prefix and restores all hypervisors.
func (l *Lab) Clean(ctx context.Context, prefix string) error {
	group, gctx := errgroup.WithContext(ctx)
	for _, host := range Hosts {
		group.Go(func() error { return l.Restore(gctx, host) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return l.DeleteServers(ctx, prefix)
}

// DeleteServers deletes the servers whose names begin with prefix and waits until they are gone.
func (l *Lab) DeleteServers(ctx context.Context, prefix string) error {
	asked := map[string]bool{}
	return Until(ctx, "the servers to be deleted", 2*time.Minute, func() (bool, error) {
		servers, err := l.Servers(ctx, url.Values{"name": {"^" + prefix}})
		if err != nil {
			return false, err
		}
		for _, s := range servers {
			if asked[s.ID] {
				continue
			}
			if err := l.Delete(ctx, s.ID); err != nil {
				return false, err
			}
			asked[s.ID] = true
		}
		return len(servers) == 0, nil
	})
}

// Image returns the flavor tiny and the image tiny of the lab.
func (l *Lab) Image(ctx context.Context) (Image, error) { return l.Flavored(ctx, "tiny") }

// Flavored is the image tiny with a flavor of the lab: tiny, small, big (of which a host has room for one), huge (fits nowhere).
func (l *Lab) Flavored(ctx context.Context, flavor string) (Image, error) {
	var flavors struct{ Flavors []struct{ ID, Name string } }
	if err := l.get(ctx, "/flavors", &flavors); err != nil {
		return Image{}, err
	}
	var images struct{ Images []struct{ ID string } }
	if err := Call(ctx, l.token, "GET", "http://127.0.0.1:9292/v2/images?name=tiny", nil, &images); err != nil {
		return Image{}, err
	}
	for _, f := range flavors.Flavors {
		if f.Name == flavor && len(images.Images) == 1 {
			return Image{Flavor: f.ID, Image: images.Images[0].ID}, nil
		}
	}
	return Image{}, fmt.Errorf("the lab lacks the flavor %s or the image tiny", flavor)
}

// Providers are the names of the hypervisors on which Placement holds resources for a server: one, unless it is in two
// places.
func (l *Lab) Providers(ctx context.Context, id string) ([]string, error) {
	var held struct {
		Allocations map[string]any
	}
	if err := Call(ctx, l.token, "GET", PlacementURL+"/allocations/"+id, nil, &held); err != nil {
		return nil, err
	}
	var names []string
	for uuid := range held.Allocations {
		var provider struct{ Name string }
		if err := Call(ctx, l.token, "GET", PlacementURL+"/resource_providers/"+uuid, nil, &provider); err != nil {
			return nil, err
		}
		names = append(names, provider.Name)
	}
	return names, nil
}
