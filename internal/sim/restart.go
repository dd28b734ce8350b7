package sim

import (
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// startCompute starts the host's nova-compute: it cleans up within two seconds, then takes messages, those that waited
// for it too, and sends its first heartbeat after initialDelay.
func (c *Cloud) startCompute(h *host) {
	h.run++
	h.compute, h.ready = computeUp, false
	h.heartbeat.begin(c.now.Add(c.Scaled(initialDelay)))
	for ins := range h.copies {
		if ins.gone {
			c.discard(ins, h)
		}
	}
	c.work(h, c.span("start", h.name, h.run, time.Second, 2*time.Second), func() {
		away := c.cleanUp(h)
		for _, ins := range slices.Clone(h.instances) {
			if !away[ins] {
				c.initInstance(h, ins)
			}
		}
		h.ready = true
		h.deliver()
	})
}

// cleanUp destroys the copies of instances that were evacuated from here, and completes their records: one for each
// instance and start, the newest, and none of an instance with a task. It returns the instances that it looked at.
func (c *Cloud) cleanUp(h *host) map[*instance]bool {
	away := map[*instance]bool{}
	for _, m := range slices.Backward(h.migrations) {
		if m.kind != ha.MigrationEvacuation || away[m.ins] {
			continue
		}
		if m.status != "accepted" && m.status != "pre-migrating" && m.status != "done" {
			continue
		}
		away[m.ins] = true
		if m.ins.task != "" && !m.ins.gone {
			continue
		}
		c.discard(m.ins, h)
		c.release(m.ins, h)
		c.setStatus(m, "completed")
	}
	return away
}

// initInstance is what a starting nova-compute does about an instance of its own.
func (c *Cloud) initInstance(h *host, ins *instance) {
	switch {
	case ins.vm == ha.VMError || ins.vm == ha.VMSoftDeleted:
		return
	case ins.vm == ha.VMBuilding:
		c.set(ins, ha.VMError, "", ins.power)
		ins.fault = &Fault{Code: 500, Message: "Build of instance was interrupted", At: c.now}
		return
	case ins.task == taskRebuilding || ins.task == taskBlockDevices || ins.task == taskSpawning:
		c.set(ins, ha.VMError, "", ins.power)
		ins.fault = &Fault{Code: 500, Message: "Rebuild of instance was interrupted", At: c.now}
		return
	case ins.task == ha.TaskStateMigrating:
		c.abortLiveMigration(ins)
	}
	if ins.power != powerRunning || ins.runsOn(h) {
		return
	}
	if c.opt.ResumeGuests {
		c.runs(ins, h)
		return
	}
	c.work(h, c.opt.PowerSync, func() { c.powerSync(h, ins) })
}

// powerSync is Nova's periodic task that finds an instance not running that should: it stops it, which os-instance-actions
// shows as a stop by nobody.
func (c *Cloud) powerSync(h *host, ins *instance) {
	if ins.gone || ins.host != h || ins.vm != ha.VMActive || ins.task != "" || ins.runsOn(h) {
		return
	}
	a := c.act(ins, "stop", Caller{})
	c.set(ins, ha.VMStopped, "", powerShutdown)
	c.event(a, "compute_stop_instance", h, c.now, false)
}

func (ins *instance) runsOn(h *host) bool {
	d := ins.copyOn(h)
	return d != nil && d.running
}
