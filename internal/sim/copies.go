package sim

import (
	"slices"
	"time"
)

// DoubleRun is the worst that can happen: an instance ran on two hosts that both had power.
type DoubleRun struct {
	Instance string
	Hosts    []string
	At       time.Time
}

// DoubleRuns lists every time that an instance began to run on a second host. It must be empty.
func (c *Cloud) DoubleRuns() []DoubleRun {
	c.lock()
	defer c.unlock()
	return slices.Clone(c.doubleRuns)
}

func (ins *instance) copyOn(h *host) *domain {
	for i := range ins.copies {
		if ins.copies[i].on == h {
			return &ins.copies[i]
		}
	}
	return nil
}

// hold gives the host's hypervisor a copy of the instance that does not run.
func (c *Cloud) hold(ins *instance, h *host) {
	if ins.copyOn(h) == nil {
		ins.copies = append(ins.copies, domain{on: h})
		h.copies[ins] = struct{}{}
	}
}

// runs starts the instance on the host.
func (c *Cloud) runs(ins *instance, h *host) {
	c.hold(ins, h)
	d := ins.copyOn(h)
	if d.running {
		return
	}
	d.running = true
	if on := ins.runningOn(); len(on) > 1 {
		c.doubleRuns = append(c.doubleRuns, DoubleRun{Instance: ins.id, Hosts: on, At: c.now})
	}
}

// halts stops the instance on the host.
func (c *Cloud) halts(ins *instance, h *host) {
	if d := ins.copyOn(h); d != nil {
		d.running = false
	}
}

// discard destroys the host's copy.
func (c *Cloud) discard(ins *instance, h *host) {
	ins.copies = slices.DeleteFunc(ins.copies, func(d domain) bool { return d.on == h })
	delete(h.copies, ins)
}

// runningOn names the hosts where the instance runs. One without power runs nothing.
func (ins *instance) runningOn() []string {
	var on []string
	for _, d := range ins.copies {
		if d.running {
			on = append(on, d.on.name)
		}
	}
	return on
}

// allocate and release keep Placement's allocations.
func (c *Cloud) allocate(ins *instance, h *host) {
	if !slices.Contains(ins.allocs, h) {
		ins.allocs = append(ins.allocs, h)
		h.allocated++
	}
}

func (c *Cloud) release(ins *instance, h *host) {
	if i := slices.Index(ins.allocs, h); i >= 0 {
		ins.allocs = slices.Delete(ins.allocs, i, i+1)
		h.allocated--
	}
}
