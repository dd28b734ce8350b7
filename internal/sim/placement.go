package sim

// Provider is a hypervisor as Nova and Placement know it.
type Provider struct {
	UUID      string // of the resource provider, and of the hypervisor
	Name      string // hypervisor_hostname
	Host      string // of its nova-compute
	Service   Service
	Instances []string // ids, by Nova's database
	Allocated int
}

// Providers lists the hypervisors in order of creation.
func (c *Cloud) Providers() []Provider {
	c.lock()
	defer c.unlock()
	out := make([]Provider, len(c.hostList))
	for i, h := range c.hostList {
		out[i] = Provider{UUID: h.provider, Name: h.hypervisor, Host: h.name, Service: c.showService(h.service), Allocated: h.allocated}
		for _, ins := range h.instances {
			out[i].Instances = append(out[i].Instances, ins.id)
		}
	}
	return out
}

// Allocations are what Placement holds for a consumer.
type Allocations struct {
	Providers []string // uuids
	Project   string
	User      string
}

// Allocations returns those of an instance; none for an unknown one.
func (c *Cloud) Allocations(instance string) Allocations {
	c.lock()
	defer c.unlock()
	ins := c.instances[instance]
	if ins == nil {
		return Allocations{}
	}
	out := Allocations{Project: ins.project, User: ins.user}
	for _, h := range ins.allocs {
		out.Providers = append(out.Providers, h.provider)
	}
	return out
}

// Capacity is how many instances a host can hold; 0: any number.
func (c *Cloud) Capacity() int { return c.opt.Capacity }
