package sim

import (
	"slices"
	"strconv"
	"time"
)

type aggregate struct {
	id       int
	uuid     string
	name     string
	metadata map[string]string
	hosts    []string
	created  time.Time
	updated  time.Time
}

// Aggregate is a host aggregate.
type Aggregate struct {
	ID        int
	UUID      string
	Name      string
	Metadata  map[string]string
	Hosts     []string
	CreatedAt time.Time
	UpdatedAt time.Time // zero until the first change
}

// AddAggregate makes an aggregate of hosts and returns its id.
func (c *Cloud) AddAggregate(name string, hosts ...string) int {
	c.lock()
	defer c.unlock()
	id := len(c.aggregates) + 1
	c.aggregates = append(c.aggregates, &aggregate{
		id: id, uuid: c.uuid("aggregate", id), name: name, hosts: slices.Clone(hosts), created: c.now,
	})
	return id
}

// Aggregates lists the aggregates by id.
func (c *Cloud) Aggregates(who Caller) ([]Aggregate, error) {
	if err := who.May("os_compute_api:os-aggregates:index"); err != nil {
		return nil, err
	}
	c.lock()
	defer c.unlock()
	out := make([]Aggregate, len(c.aggregates))
	for i, a := range c.aggregates {
		out[i] = c.showAggregate(a)
	}
	return out, nil
}

func (c *Cloud) showAggregate(a *aggregate) Aggregate {
	out := Aggregate{ID: a.id, UUID: a.uuid, Name: a.name, Metadata: map[string]string{}, Hosts: slices.Clone(a.hosts),
		CreatedAt: c.stamp(a.created)}
	for k, v := range a.metadata {
		out.Metadata[k] = v
	}
	if !a.updated.IsZero() {
		out.UpdatedAt = c.stamp(a.updated)
	}
	return out
}

// AddToAggregate and RemoveFromAggregate are the actions add_host and remove_host.
func (c *Cloud) AddToAggregate(who Caller, id, host string) (Aggregate, error) {
	c.lock()
	defer c.unlock()
	return c.changeAggregate(who, id, host, true)
}

func (c *Cloud) RemoveFromAggregate(who Caller, id, host string) (Aggregate, error) {
	c.lock()
	defer c.unlock()
	return c.changeAggregate(who, id, host, false)
}

func (c *Cloud) changeAggregate(who Caller, id, host string, add bool) (Aggregate, error) {
	policy := "os_compute_api:os-aggregates:remove_host"
	if add {
		policy = "os_compute_api:os-aggregates:add_host"
	}
	if err := who.May(policy); err != nil {
		return Aggregate{}, err
	}
	n, err := strconv.Atoi(id)
	if err != nil || n < 1 || n > len(c.aggregates) {
		return Aggregate{}, notFound("Aggregate %s could not be found.", id)
	}
	if c.hosts[host] == nil {
		return Aggregate{}, notFound("Compute host %s could not be found.", host)
	}
	a := c.aggregates[n-1]
	i := slices.Index(a.hosts, host)
	switch {
	case add && i >= 0:
		return Aggregate{}, conflict("Aggregate %s already has host %s.", id, host)
	case add:
		a.hosts = append(a.hosts, host)
	case i < 0:
		return Aggregate{}, notFound("Aggregate %s has no host %s.", id, host)
	default:
		a.hosts = slices.Delete(a.hosts, i, i+1)
	}
	a.updated = c.now
	return c.showAggregate(a), nil
}
