package sim

import (
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// begin is where the destination's nova-compute takes the order up. Nova does not protect itself from a second order:
// when another one is at work, or the instance is not as this one expects it, the instance ends damaged.
func (c *Cloud) begin(o *order) {
	ins := o.ins
	if ins.gone {
		c.fail(o, "failed", "", "compute_rebuild_instance")
		return
	}
	if other := ins.rebuild; other != nil && other.alive() {
		other.waiting = append(other.waiting, o)
		return
	}
	if ins.host != o.source || ins.task != taskRebuilding {
		c.wreckSoon(o)
		return
	}
	ins.rebuild, o.run = o, o.dest.run
	begun, wasStopped := c.now, ins.vm == ha.VMStopped
	o.record.dest = o.dest
	c.setStatus(o.record, "pre-migrating")
	c.set(ins, ins.vm, ins.task, powerNone)
	c.step(o, c.pace(o, "bdm", 120, 240), func() {
		c.setTask(ins, taskBlockDevices)
		c.step(o, c.pace(o, "spawning", 80, 120), func() {
			c.setTask(ins, taskSpawning)
			c.step(o, c.pace(o, "spawned", 80, 120), func() { c.spawned(o, begun, wasStopped) })
		})
	})
}

// step goes on with the order after d, unless the instance was deleted or reset meanwhile.
func (c *Cloud) step(o *order, d time.Duration, f func()) {
	c.work(o.dest, d, func() {
		switch {
		case o.ins.gone:
			c.fail(o, "failed", "", "compute_rebuild_instance")
		case o.ins.task == "":
			c.fail(o, "failed", "Unexpected task state: expecting ['rebuilding'] but the actual state is None",
				"compute_rebuild_instance")
		default:
			f()
		}
	})
}

// spawned: the instance runs on its destination. It is active without a task, and Nova still shows the dead host, for
// 50 to 250 ms; a stopped one is first powered off again.
func (c *Cloud) spawned(o *order, begun time.Time, wasStopped bool) {
	ins := o.ins
	c.runs(ins, o.dest)
	ins.statusOf = o.dest
	if !wasStopped {
		c.set(ins, ha.VMActive, "", powerRunning)
		c.work(o.dest, c.pace(o, "arrive", 50, 250), func() { c.arrive(o, begun) })
		return
	}
	c.set(ins, ha.VMActive, taskPoweringOff, powerRunning)
	off := c.now
	c.work(o.dest, c.pace(o, "off", 80, 120), func() {
		if !ins.gone {
			c.halts(ins, o.dest)
			c.set(ins, ha.VMStopped, "", powerShutdown)
			c.event(o.action, "compute_stop_instance", o.dest, off, false)
		}
		c.arrive(o, begun)
	})
}

// arrive: Nova's database learns where the instance is.
func (c *Cloud) arrive(o *order, begun time.Time) {
	ins := o.ins
	if ins.gone {
		c.fail(o, "failed", "", "compute_rebuild_instance")
		return
	}
	ins.statusOf = nil
	c.setHost(ins, o.dest)
	c.event(o.action, "compute_rebuild_instance", o.dest, begun, false)
	o.done = c.now
	c.end(o, "done")
}

// wreckSoon lets an order fail that came upon an instance it did not expect. It leaves the instance in error, rebuilding
// without end, wherever it is; the record stays accepted.
func (c *Cloud) wreckSoon(o *order) {
	c.work(o.dest, c.pace(o, "wreck", 300, 900), func() {
		ins := o.ins
		if o.dest != ins.host {
			c.release(ins, o.dest)
		}
		c.event(o.action, "compute_rebuild_instance", o.dest, o.begun, true)
		if ins.gone {
			c.end(o, "failed")
			return
		}
		ins.wrecks++
		if ins.host != nil {
			c.halts(ins, ins.host)
		}
		c.set(ins, ha.VMError, taskRebuilding, powerNone)
		ins.fault = &Fault{Code: 500, At: c.now,
			Message: "Unexpected task state: expecting ['rebuilding'] but the actual state is None"}
		c.end(o, "")
	})
}
