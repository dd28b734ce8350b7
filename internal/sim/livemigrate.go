package sim

import (
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// liveMigrate is os-migrateLive. It takes two to four seconds; shortly before Nova's database learns of it, the instance
// has already gone over: a source that dies then leaves an instance that runs elsewhere.
func (c *Cloud) liveMigrate(who Caller, ins *instance, target string) error {
	if err := who.May("os_compute_api:os-migrate-server:migrate_live"); err != nil {
		return err
	}
	if ins.vm != ha.VMActive && ins.vm != ha.VMPaused || ins.task != "" {
		return invalidState(ins, "os-migrateLive")
	}
	if !c.isUp(ins.host.service) {
		return badRequest("Compute service of %s is unavailable at this time.", ins.host.name)
	}
	var named *host
	if target != "" {
		if named = c.hosts[target]; named == nil {
			return badRequest("Compute host %s could not be found.", target)
		}
	}
	source, n := ins.host, len(ins.records)
	m := c.record(who, ins, ha.MigrationLiveMigration, source, named)
	a := c.act(ins, "live-migration", who)
	begun := c.now
	c.setTask(ins, ha.TaskStateMigrating)
	c.conduct(c.span("live", ins.id, n, 200*time.Millisecond, 300*time.Millisecond), func() {
		dest := named
		if dest == nil {
			dest = c.choose(&order{n: n, ins: ins, source: source})
		}
		if ins.gone || dest == nil || dest == source || !c.fits(dest) {
			c.endLiveMigration(m, a, begun, "error")
			return
		}
		m.dest = dest
		c.allocate(ins, dest)
		c.setStatus(m, "running")
		source.cast(func() {
			took := c.span("copying", ins.id, n, 2*time.Second, 4*time.Second)
			c.work(source, took, func() { c.handOver(m, a, begun) })
		})
	})
	return nil
}

// handOver moves the running copy, and the record somewhat later.
func (c *Cloud) handOver(m *migration, a *action, begun time.Time) {
	ins := m.ins
	if ins.gone || m.status != "running" || !m.dest.powered || m.dest.compute != computeUp {
		c.endLiveMigration(m, a, begun, "error")
		return
	}
	ran := ins.runsOn(m.source)
	c.discard(ins, m.source)
	c.hold(ins, m.dest)
	if ran {
		c.runs(ins, m.dest)
	}
	c.work(m.source, c.Scaled(300*time.Millisecond), func() {
		if !ins.gone {
			c.setHost(ins, m.dest)
			c.release(ins, m.source)
		}
		c.endLiveMigration(m, a, begun, "completed")
	})
}

func (c *Cloud) endLiveMigration(m *migration, a *action, begun time.Time, status string) {
	c.setStatus(m, status)
	c.event(a, "compute_live_migration", m.source, begun, status == "error")
	if m.ins.gone {
		return
	}
	if status == "error" && m.dest != nil {
		c.release(m.ins, m.dest)
	}
	if m.ins.task == ha.TaskStateMigrating {
		c.setTask(m.ins, "")
	}
}

// abortLiveMigration is what the source does about one that was under way when it died.
func (c *Cloud) abortLiveMigration(ins *instance) {
	for _, m := range ins.records {
		if m.kind == ha.MigrationLiveMigration && m.status == "running" {
			c.setStatus(m, "error")
			c.release(ins, m.dest)
		}
	}
	c.setTask(ins, "")
}
