package sim

import (
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// order is one evacuation that Nova took.
type order struct {
	n       int // of its instance, 0 for the first
	ins     *instance
	source  *host
	dest    *host // nil until the scheduler chose, or the target
	record  *migration
	action  *action
	begun   time.Time
	done    time.Time // when the instance had arrived; zero before, and when it never did
	ended   bool
	run     int      // of the destination's nova-compute that works at it
	waiting []*order // came to a destination while this one was being rebuilt
}

const noValidHost = "No valid host was found. There are not enough hosts available."

// evacuate is the order: Nova's checks in Nova's order, then 200.
func (c *Cloud) evacuate(who Caller, ins *instance, target string, force bool) error {
	if err := who.May("os_compute_api:os-evacuate"); err != nil {
		return err
	}
	var named *host
	if target != "" {
		if named = c.hosts[target]; named == nil {
			return notFound("Compute host %s not found.", target)
		}
	}
	if named == ins.host { // also: no target, and an instance that is on no host
		return badRequest("The target host can't be the same one.")
	}
	if ins.vm != ha.VMActive && ins.vm != ha.VMStopped && ins.vm != ha.VMError {
		return invalidState(ins, "evacuate")
	}
	if ins.host == nil {
		return notFound("Compute host None could not be found.")
	}
	if c.isUp(ins.host.service) {
		return badRequest("Compute service of %s is still in use.", ins.host.name)
	}
	o := &order{
		n: len(ins.orders), ins: ins, source: ins.host, begun: c.now,
		record: c.record(who, ins, ha.MigrationEvacuation, ins.host, named),
		action: c.act(ins, "evacuate", who),
	}
	c.judge(o)
	ins.orders = append(ins.orders, o)
	c.setTask(ins, taskRebuilding)
	c.conduct(c.pace(o, "schedule", 200, 300), func() { c.schedule(o, named, force) })
	return nil
}

// pace draws how long a step of the order takes, in milliseconds.
func (c *Cloud) pace(o *order, step string, lo, hi int) time.Duration {
	return c.span(step, o.ins.id, o.n, time.Duration(lo)*time.Millisecond, time.Duration(hi)*time.Millisecond)
}

// schedule is the conductor's part: it finds a destination and puts the order into its queue. Only force spares a named
// target the scheduler's question.
func (c *Cloud) schedule(o *order, named *host, force bool) {
	if o.ins.gone {
		c.end(o, "error")
		return
	}
	dest := named
	if named == nil {
		dest = c.choose(o)
	} else if !force && !c.fits(named) {
		dest = nil
	}
	if dest == nil {
		c.fail(o, "error", noValidHost, "rebuild_server")
		return
	}
	o.dest = dest
	c.allocate(o.ins, dest)
	c.event(o.action, "rebuild_server", nil, o.begun, false)
	c.after(c.slot(), func() {
		dest.cast(func() {
			c.work(dest, c.pace(o, "begin", 180, 280), func() { c.begin(o) })
		})
	})
}

// choose takes the host with the fewest instances, as Nova's scheduler spreads them; among equals the seed decides.
func (c *Cloud) choose(o *order) *host {
	var best *host
	start := int(c.chance("host", o.ins.id, o.n) * float64(len(c.hostList)))
	for i := range c.hostList {
		h := c.hostList[(start+i)%len(c.hostList)]
		if h != o.source && c.fits(h) && (best == nil || h.allocated < best.allocated) {
			best = h
		}
	}
	return best
}

func (c *Cloud) fits(h *host) bool {
	return !h.service.disabled && c.isUp(h.service) && (c.opt.Capacity == 0 || h.allocated < c.opt.Capacity)
}

// slot is how long an order waits for its turn under Options.Rate.
func (c *Cloud) slot() time.Duration {
	if c.opt.Rate <= 0 {
		return 0
	}
	turn := c.nextSlot
	if turn.Before(c.now) {
		turn = c.now
	}
	c.nextSlot = turn.Add(c.Scaled(time.Duration(float64(time.Second) / c.opt.Rate)))
	return turn.Sub(c.now)
}

// end writes how an order ended. The damaged keep their record: Nova leaves it accepted.
func (c *Cloud) end(o *order, status string) {
	o.ended = true
	if status != "" {
		c.setStatus(o.record, status)
	}
	if o.ins.rebuild == o {
		o.ins.rebuild = nil
	}
	for _, w := range o.waiting {
		c.wreckSoon(w)
	}
	o.waiting = nil
}

// fail ends an order that Nova noticed to have failed: the instance is in error where it was.
func (c *Cloud) fail(o *order, status, why, step string) {
	c.event(o.action, step, o.dest, o.begun, true)
	if o.dest != nil && o.ins.host != o.dest {
		c.release(o.ins, o.dest)
		c.discard(o.ins, o.dest)
	}
	if !o.ins.gone {
		c.set(o.ins, ha.VMError, "", o.ins.power)
		o.ins.fault = &Fault{Code: 500, Message: why, At: c.now}
		o.ins.statusOf = nil
	}
	c.end(o, status)
}

// alive reports whether a nova-compute works at the order now.
func (o *order) alive() bool { return !o.ended && o.dest != nil && o.dest.run == o.run }
