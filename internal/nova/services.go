package nova

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

type serviceRecord struct {
	ID             string    `json:"id"`
	Binary         string    `json:"binary"`
	Host           string    `json:"host"`
	Status         string    `json:"status"` // enabled, disabled; UNKNOWN in an unreachable cell
	State          string    `json:"state"`  // up, down
	ForcedDown     bool      `json:"forced_down"`
	DisabledReason string    `json:"disabled_reason"`
	UpdatedAt      timestamp `json:"updated_at"`
}

// ha rounds the time to seconds, half up: a PUT answers 11.898424 where the next GET, from MariaDB's column, says 12 (measured).
// Compared as they are, every PUT would look like a heartbeat.
func (s serviceRecord) ha() ha.Service {
	return ha.Service{
		ID: s.ID, Binary: s.Binary, Host: s.Host, Enabled: s.Status == "enabled", Up: s.State == "up",
		ForcedDown: s.ForcedDown, DisabledReason: s.DisabledReason, UpdatedAt: s.UpdatedAt.Round(time.Second),
	}
}

var recoveryBinaries = []string{ha.BinaryCompute, "nova-scheduler", "nova-conductor"}

// Services lists all compute services, schedulers and conductors. Of a service in a cell that Nova cannot reach only the host is told:
// it is neither up nor down, and down would be a proof of death.
func (c *Client) Services(ctx context.Context) ([]ha.Service, error) {
	found, err := c.listServices(ctx, nil)
	if err != nil {
		return nil, err
	}
	all := make([]ha.Service, 0, len(found))
	for _, s := range found {
		switch {
		case s.Status == statusUnknown && s.Binary == ha.BinaryCompute:
			all = append(all, ha.Service{Host: s.Host, CellAway: true})
		case s.Status != statusUnknown && slices.Contains(recoveryBinaries, s.Binary):
			all = append(all, s.ha())
		}
	}
	return all, nil
}

// HasComputeService reports whether Nova has a nova-compute of that host, whatever its state.
func (c *Client) HasComputeService(ctx context.Context, host string) (bool, error) {
	found, err := c.computeServices(ctx, host)
	return len(found) > 0, err
}

func (c *Client) computeServices(ctx context.Context, host string) ([]serviceRecord, error) {
	found, err := c.listServices(ctx, url.Values{"host": {host}, "binary": {ha.BinaryCompute}})
	return slices.DeleteFunc(found, func(s serviceRecord) bool { return s.Host != host || s.Binary != ha.BinaryCompute }), err
}

func (c *Client) listServices(ctx context.Context, query url.Values) ([]serviceRecord, error) {
	const name, path = "services", "os-services"
	var doc struct {
		Services *[]serviceRecord `json:"services"`
	}
	if err := c.get(ctx, name, path, query, &doc); err != nil {
		return nil, err
	}
	if doc.Services == nil {
		return nil, broken(name, path, "the answer has no list of services")
	}
	for _, s := range *doc.Services {
		if s.ID == "" && s.Status != statusUnknown {
			return nil, broken(name, path, fmt.Sprintf("the %s of %s has no id", s.Binary, s.Host))
		}
	}
	return *doc.Services, nil
}

// Aggregates lists all host aggregates.
func (c *Client) Aggregates(ctx context.Context) ([]ha.Aggregate, error) {
	const name, path = "aggregates", "os-aggregates"
	var doc struct {
		Aggregates *[]struct {
			ID    int64    `json:"id"`
			Name  string   `json:"name"`
			Hosts []string `json:"hosts"`
		} `json:"aggregates"`
	}
	if err := c.get(ctx, name, path, nil, &doc); err != nil {
		return nil, err
	}
	if doc.Aggregates == nil {
		return nil, broken(name, path, "the answer has no list of aggregates")
	}
	all := make([]ha.Aggregate, len(*doc.Aggregates))
	for i, a := range *doc.Aggregates {
		all[i] = ha.Aggregate{ID: strconv.FormatInt(a.ID, 10), Name: a.Name, Hosts: a.Hosts}
	}
	return all, nil
}
