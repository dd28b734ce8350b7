package nova

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/salvor-ha/salvor/internal/ha"
)

// maxProviders bounds the cache of names; clouds have fewer hypervisors than that.
const maxProviders = 20_000

// Providers names the hosts in whose resource providers Placement holds allocations for the instance, sorted.
func (c *Client) Providers(ctx context.Context, instance string) ([]string, error) {
	var doc struct {
		Allocations map[string]struct{} `json:"allocations"`
	}
	if err := c.getPlacement(ctx, "allocations", "allocations/"+url.PathEscape(instance), &doc); err != nil {
		return nil, err
	}
	var hosts []string
	for id := range doc.Allocations {
		host, err := c.providerHost(ctx, id)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return hosts, nil
}

// providerHost returns the compute service's host of a resource provider. A provider bears its hypervisor's name, which is
// not always the service's; the root provider's uuid is the hypervisor's id, whose record names the service.
func (c *Client) providerHost(ctx context.Context, id string) (string, error) {
	c.mu.Lock()
	host, ok := c.providers[id]
	c.mu.Unlock()
	if ok {
		return host, nil
	}
	var provider struct {
		Name string `json:"name"`
		Root string `json:"root_provider_uuid"`
	}
	if err := c.getPlacement(ctx, "provider", "resource_providers/"+url.PathEscape(id), &provider); err != nil {
		return "", err
	}
	if provider.Root == "" {
		provider.Root = id
	}
	host = provider.Name
	var doc struct {
		Hypervisor struct {
			Service struct {
				Host string `json:"host"`
			} `json:"service"`
		} `json:"hypervisor"`
	}
	switch err := c.get(ctx, "hypervisor", "os-hypervisors/"+url.PathEscape(provider.Root), nil, &doc); {
	case err == nil && doc.Hypervisor.Service.Host != "":
		host = doc.Hypervisor.Service.Host
	case err != nil && ha.ClassOf(err) != ha.ClassGone:
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.providers) >= maxProviders {
		clear(c.providers)
	}
	c.providers[id] = host
	return host, nil
}

func (c *Client) getPlacement(ctx context.Context, name, path string, out any) error {
	return c.placed(ctx, name, path, placementVersion, nil, out)
}

// placed reads path below Placement's root.
func (c *Client) placed(ctx context.Context, name, path, version string, query url.Values, out any) error {
	o := op{name: name, method: http.MethodGet, path: path}
	return c.read(ctx, o, query, out, func(e *endpoints) (string, map[string]string, error) {
		if e.placement == "" {
			return "", nil, errors.New("Keystone's catalog has no service placement with interface " + c.service.face + c.inRegion())
		}
		return e.placement, map[string]string{"OpenStack-API-Version": "placement " + version}, nil
	})
}
