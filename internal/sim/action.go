package sim

import (
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// ServerAction is the body of a POST servers/{id}/action. Name is Nova's: evacuate, lock, unlock, os-stop, os-start,
// reboot, os-resetState, os-migrateLive, pause, unpause, suspend, resume, rescue, unrescue, shelve, shelveOffload.
type ServerAction struct {
	Name   string
	Host   string // evacuate, os-migrateLive
	Force  bool   // evacuate at 2.29 to 2.67
	State  string // os-resetState
	Reason string // lock
	Hard   bool   // reboot
}

// Act carries a server action out. The error is a *Refusal.
func (c *Cloud) Act(who Caller, id string, a ServerAction) error {
	c.lock()
	defer c.unlock()
	return c.perform(who, id, a)
}

func (c *Cloud) perform(who Caller, id string, a ServerAction) error {
	ins, err := c.find(who, id)
	if err != nil {
		return err
	}
	switch a.Name {
	case "evacuate":
		return c.evacuate(who, ins, a.Host, a.Force)
	case "lock":
		c.act(ins, "lock", who)
		ins.locked, ins.lockedBy, ins.updated = true, a.Reason, c.now
		return nil
	case "unlock":
		c.act(ins, "unlock", who)
		ins.locked, ins.lockedBy, ins.updated = false, "", c.now
		return nil
	case "os-resetState":
		return c.resetState(who, ins, a.State)
	}
	if ins.locked && !who.Admin {
		return conflict("Instance %s is locked", ins.id)
	}
	if ins.host == nil {
		return conflict("Instance %s is not ready", ins.id)
	}
	switch a.Name {
	case "os-stop":
		return c.stop(who, ins)
	case "os-start":
		return c.startInstance(who, ins)
	case "reboot":
		return c.reboot(who, ins, a.Hard)
	case "os-migrateLive":
		return c.liveMigrate(who, ins, a.Host)
	}
	if step, ok := steps[a.Name]; ok {
		return c.take(who, ins, a.Name, step)
	}
	return badRequest("There is no such action: %s", a.Name)
}

func invalidState(ins *instance, method string) error {
	attr, state := "vm_state", ins.vm
	if ins.task != "" && method != "evacuate" {
		attr, state = "task_state", ins.task
	}
	return conflict("Cannot '%s' instance %s while it is in %s %s", method, ins.id, attr, state)
}

func (c *Cloud) resetState(who Caller, ins *instance, state string) error {
	if err := who.May("os_compute_api:os-admin-actions:reset_state"); err != nil {
		return err
	}
	if state != ha.VMError && state != ha.VMActive {
		return badRequest("Invalid input for field/attribute state. Value: %s. '%s' is not one of ['active', 'error']", state, state)
	}
	c.set(ins, state, "", ins.power)
	return nil
}

// stop and start cast a message, also to a host that is down: there the task state stays until it is back.
func (c *Cloud) stop(who Caller, ins *instance) error {
	if ins.vm != ha.VMActive && ins.vm != ha.VMError || ins.task != "" {
		return invalidState(ins, "stop")
	}
	c.toCompute(who, ins, command{
		name: "stop", event: "compute_stop_instance", task: taskPoweringOff, lo: 300, hi: 600,
		done: func(h *host) {
			c.halts(ins, h)
			c.set(ins, ha.VMStopped, "", powerShutdown)
		},
	})
	return nil
}

func (c *Cloud) startInstance(who Caller, ins *instance) error {
	if ins.vm != ha.VMStopped || ins.task != "" {
		return invalidState(ins, "start")
	}
	c.toCompute(who, ins, command{
		name: "start", event: "compute_start_instance", task: taskPoweringOn, lo: 300, hi: 600,
		done: func(h *host) {
			c.runs(ins, h)
			c.set(ins, ha.VMActive, "", powerRunning)
		},
	})
	return nil
}

func (c *Cloud) reboot(who Caller, ins *instance, hard bool) error {
	allowed, task := []string{ha.VMActive}, taskRebooting
	if hard {
		allowed, task = []string{ha.VMActive, ha.VMStopped, ha.VMPaused, ha.VMSuspended, ha.VMError}, taskRebootHard
	}
	if !slices.Contains(allowed, ins.vm) || ins.task != "" {
		return invalidState(ins, "reboot")
	}
	c.toCompute(who, ins, command{
		name: "reboot", event: "compute_reboot_instance", task: task, lo: 800, hi: 1200,
		done: func(h *host) {
			c.runs(ins, h)
			c.set(ins, ha.VMActive, "", powerRunning)
		},
	})
	return nil
}

// command is work that nova-compute does for an instance of its host.
type command struct {
	name, event, task string
	lo, hi            int // milliseconds
	done              func(h *host)
}

func (c *Cloud) toCompute(who Caller, ins *instance, cmd command) {
	a := c.act(ins, cmd.name, who)
	begun, h := c.now, ins.host
	c.setTask(ins, cmd.task)
	d := c.span(cmd.name, ins.id, a.n, time.Duration(cmd.lo)*time.Millisecond, time.Duration(cmd.hi)*time.Millisecond)
	h.cast(func() {
		c.work(h, d, func() {
			if ins.gone || ins.host != h || ins.task != cmd.task {
				return
			}
			cmd.done(h)
			c.event(a, cmd.event, h, begun, false)
		})
	})
}

// step is a change of state that the simulator makes at once.
type step struct {
	from   string
	to     string
	method string
}

var steps = map[string]step{
	"pause":         {ha.VMActive, ha.VMPaused, "pause"},
	"unpause":       {ha.VMPaused, ha.VMActive, "unpause"},
	"suspend":       {ha.VMActive, ha.VMSuspended, "suspend"},
	"resume":        {ha.VMSuspended, ha.VMActive, "resume"},
	"rescue":        {ha.VMActive, ha.VMRescued, "rescue"},
	"unrescue":      {ha.VMRescued, ha.VMActive, "unrescue"},
	"shelve":        {ha.VMActive, ha.VMShelved, "shelve"},
	"shelveOffload": {ha.VMShelved, ha.VMShelvedOffloaded, "shelveOffload"},
}

func (c *Cloud) take(who Caller, ins *instance, name string, s step) error {
	if ins.vm != s.from || ins.task != "" {
		return invalidState(ins, s.method)
	}
	c.act(ins, s.method, who)
	h := ins.host
	c.set(ins, s.to, "", powerOf(s.to))
	switch {
	case name == "shelveOffload":
		c.discard(ins, h)
		c.release(ins, h)
		c.setHost(ins, nil)
	case ins.power == powerRunning && h.powered:
		c.runs(ins, h)
	default:
		c.halts(ins, h)
	}
	return nil
}

// Delete deletes an instance: its host does it within half a second; on one that is down Nova does it at once, and the
// host finds out when it is back.
func (c *Cloud) Delete(who Caller, id string) error {
	c.lock()
	defer c.unlock()
	ins, err := c.find(who, id)
	if err != nil {
		return err
	}
	if ins.locked && !who.Admin {
		return conflict("Instance %s is locked", ins.id)
	}
	h := ins.host
	if h == nil || !c.isUp(h.service) {
		c.remove(ins)
		return nil
	}
	c.setTask(ins, taskDeleting)
	h.cast(func() {
		c.work(h, c.span("delete", ins.id, 0, 300*time.Millisecond, 600*time.Millisecond), func() { c.remove(ins) })
	})
	return nil
}

func (c *Cloud) remove(ins *instance) {
	if ins.gone {
		return
	}
	ins.gone = true
	if h := ins.host; h != nil {
		if h.compute == computeUp {
			c.discard(ins, h)
		}
		c.setHost(ins, nil)
	}
	for len(ins.allocs) > 0 {
		c.release(ins, ins.allocs[0])
	}
	delete(c.instances, ins.id)
	if i, found := slices.BinarySearchFunc(c.ordered, ins.n, func(a *instance, n int) int { return a.n - n }); found {
		c.ordered = slices.Delete(c.ordered, i, i+1)
	}
}
