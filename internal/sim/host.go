package sim

import (
	"fmt"
	"time"
)

// computeState is how a host's nova-compute is.
type computeState string

const (
	computeUp   computeState = "up"
	computeDead computeState = "dead"
	computeHung computeState = "hung" // hears nothing and says nothing; goes on later
)

// host is a hypervisor with its nova-compute.
type host struct {
	name       string
	hypervisor string
	provider   string // uuid of its resource provider and hypervisor
	service    *service

	powered   bool
	compute   computeState
	ready     bool // nova-compute has started and takes messages
	run       int  // counts starts and deaths of nova-compute; work of an earlier run is lost
	heartbeat heartbeat
	bmc       bmc

	instances  []*instance            // whose host it is in Nova's database, oldest first
	copies     map[*instance]struct{} // that its hypervisor holds
	allocated  int                    // instances with an allocation here
	migrations []*migration           // records with this source
	messages   []func()               // wait in its queue until it takes messages
	suspended  []func()               // work of a hung nova-compute, to go on later
}

func (c *Cloud) addHost(name string) {
	n := len(c.hostList)
	h := &host{
		name:       name,
		hypervisor: name + c.opt.HypervisorDomain,
		provider:   c.uuid("provider", n),
		powered:    true,
		compute:    computeUp,
		ready:      true,
		copies:     map[*instance]struct{}{},
		heartbeat:  c.runningHeartbeat(name),
	}
	h.service = c.addService("nova-compute", name, &h.heartbeat)
	c.hosts[name], c.providers[h.provider] = h, h
	c.hostList = append(c.hostList, h)
}

// Host is what a host looks like from outside Nova.
type Host struct {
	Name      string
	Powered   bool
	Compute   string // nova-compute: up, dead, hung
	Instances int    // whose host it is in Nova's database
}

// Hosts lists the hosts in order of creation.
func (c *Cloud) Hosts() []Host {
	c.lock()
	defer c.unlock()
	out := make([]Host, len(c.hostList))
	for i, h := range c.hostList {
		out[i] = Host{Name: h.name, Powered: h.powered, Compute: string(h.compute), Instances: len(h.instances)}
	}
	return out
}

// AddHost adds a hypervisor that has been up for a while.
func (c *Cloud) AddHost(name string) error {
	c.lock()
	defer c.unlock()
	if c.hosts[name] != nil {
		return fmt.Errorf("host %s exists already", name)
	}
	c.addHost(name)
	return nil
}

// onHost runs f with the host of that name.
func (c *Cloud) onHost(name string, f func(h *host)) error {
	c.lock()
	defer c.unlock()
	h := c.hosts[name]
	if h == nil {
		return fmt.Errorf("no host %s", name)
	}
	f(h)
	return nil
}

// Kill takes a host's power away: nova-compute dies and no instance runs there any more.
func (c *Cloud) Kill(name string) error { return c.onHost(name, c.powerOff) }

// Revive gives a host power, if it has none, and starts its nova-compute, if that is dead.
func (c *Cloud) Revive(name string) error { return c.onHost(name, c.powerOn) }

// KillCompute ends a host's nova-compute. Its instances run on: a death that is none.
func (c *Cloud) KillCompute(name string) error { return c.onHost(name, c.computeDies) }

// Hang stops a host's nova-compute, or cuts the host off from the controllers: it neither hears nor says anything, its
// instances run on, and work under way waits. Resume lets it go on without a restart.
func (c *Cloud) Hang(name string) error {
	return c.onHost(name, func(h *host) {
		if h.compute == computeUp {
			h.heartbeat.stop(c.now)
			h.compute = computeHung
		}
	})
}

// Resume ends a Hang.
func (c *Cloud) Resume(name string) error {
	return c.onHost(name, func(h *host) {
		if h.compute != computeHung {
			return
		}
		h.compute = computeUp
		h.heartbeat.begin(c.now)
		suspended := h.suspended
		h.suspended = nil
		for _, f := range suspended {
			f()
		}
		h.deliver()
	})
}

func (c *Cloud) powerOff(h *host) {
	h.powered = false
	c.computeDies(h)
	for ins := range h.copies {
		ins.copyOn(h).running = false
	}
}

func (c *Cloud) powerOn(h *host) {
	h.powered = true
	if h.compute == computeDead {
		c.startCompute(h)
	}
}

func (c *Cloud) computeDies(h *host) {
	if h.compute == computeDead {
		return
	}
	h.heartbeat.stop(c.now)
	h.compute, h.ready = computeDead, false
	h.run++
	h.suspended = nil
}

// cast hands a message to the host's nova-compute: now, or when it takes messages again.
func (h *host) cast(f func()) {
	if h.compute == computeUp && h.ready {
		f()
		return
	}
	h.messages = append(h.messages, f)
}

func (h *host) deliver() {
	if h.compute != computeUp || !h.ready {
		return
	}
	messages := h.messages
	h.messages = nil
	for _, f := range messages {
		f()
	}
}

// work runs f in the host's nova-compute after d. It is lost when that dies before, and waits while it hangs.
func (c *Cloud) work(h *host, d time.Duration, f func()) {
	run := h.run
	c.after(d, func() {
		switch {
		case h.run != run:
		case h.compute == computeHung:
			h.suspended = append(h.suspended, f)
		default:
			f()
		}
	})
}
