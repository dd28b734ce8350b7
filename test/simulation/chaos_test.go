package simulation

import (
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/sim"
)

// chaos makes things go wrong for w.chaosTime, then lets the world come to rest.
func (w *world) chaos() {
	deaths := 1 + w.rng.IntN(3)
	if w.plant == plantNoBrake {
		deaths = 4
	}
	for range deaths {
		w.kill()
		w.pause(time.Duration(w.rng.IntN(20000)) * time.Millisecond)
	}
	if w.plant == plantNoBrake {
		w.pause(30 * time.Second)
	}
	for time.Since(w.start) < w.chaosTime {
		w.pause(time.Duration(200+w.rng.IntN(12000)) * time.Millisecond)
		w.trouble()
	}
	w.cloud.ClearFaults()
	for _, p := range w.up() {
		w.heal(p)
	}
	if len(w.up()) == 0 {
		w.startEngine()
	}
	w.mu.Lock()
	w.quiet = true
	w.mu.Unlock()
	w.tell("the trouble is over")
}

// pause lets virtual time pass, checking the invariants on the way.
func (w *world) pause(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(min(250*time.Millisecond, time.Until(end)))
		w.check()
		if time.Since(w.start) < w.chaosTime && w.strikes < maxStrikes && w.rng.IntN(6) == 0 {
			w.strike()
		}
	}
}

// maxStrikes bounds the blows aimed at an engine in the middle of a recovery: others come by chance.
const maxStrikes = 4

// strike stops or crashes an engine that has orders under way, or stops it in the middle of its next commit: what it then sends, it
// sends when others have gone on.
func (w *world) strike() {
	ps := w.up()
	i := slices.IndexFunc(ps, recovers)
	if i < 0 || w.orders.Load() == 0 && !slices.ContainsFunc(w.instances(), func(i sim.Instance) bool { return strings.HasPrefix(i.TaskState, "rebuild") }) {
		return
	}
	w.strikes++
	p, d := ps[i], time.Duration(4+w.rng.IntN(10))*time.Second
	switch w.rng.IntN(3) {
	case 0:
		w.crash(p)
	case 1:
		w.stopWorld(p, d)
	default:
		p.db.set(func() { p.db.trap = func() { w.stopWorld(p, 2*leaseTTL+d) } })
	}
}

// kill takes a living host down and has its death reported, at once or later, once or many times.
func (w *world) kill() {
	host := hostName(w.rng.IntN(hosts))
	if _, is := w.dead[host]; is || w.back != nil && w.back.scrapped[host] {
		return
	}
	w.mu.Lock()
	w.dead[host] = time.Now()
	delete(w.alive, host)
	w.mu.Unlock()
	_ = w.cloud.Kill(host)
	w.tell("%s dies", host)
	w.pause(time.Duration(w.rng.IntN(15000)) * time.Millisecond)
	if w.rng.IntN(3) == 0 { // an order that Nova carries out late, when its sender may be gone
		w.fault(sim.FaultRule{Method: "POST", Action: "evacuate", ActAfter: time.Duration(1+w.rng.IntN(40)) * time.Second, Times: 1 + w.rng.IntN(3)})
	}
	if w.rng.IntN(8) == 0 {
		w.report(host, ha.EventStopped, "UNKNOWN", 1)
	}
	w.report(host, ha.EventStopped, ha.HostStatusNormal, 1+w.rng.IntN(4))
}

// trouble is one thing that goes wrong.
func (w *world) trouble() {
	if w.back != nil && w.back.rng.IntN(2) == 0 {
		w.errand()
		return
	}
	if w.disks != nil && w.rng.IntN(2) == 0 {
		w.disks.depot.trouble()
		return
	}
	ps := w.up()
	var p *process
	if len(ps) > 0 {
		p = ps[w.rng.IntN(len(ps))]
	}
	switch kind := w.rng.IntN(20); {
	case p == nil:
		w.startEngine()
	case kind < 3:
		w.crash(p)
	case kind < 5:
		w.stopWorld(p, time.Duration(1+w.rng.IntN(12))*time.Second)
	case kind < 6:
		w.tell("%s is stopped", p.name)
		p.cancel()
		<-p.done
		w.mu.Lock()
		p.gone = time.Now()
		w.mu.Unlock()
		w.startEngine()
	case kind < 8:
		w.cut(p)
	case kind < 9:
		w.tell("%s loses database answers for a while", p.name)
		p.db.set(func() { p.db.bad = 0.15 })
	case kind < 10:
		w.tell("%s is cut off from Nova", p.name)
		p.nova.Partition()
		go w.later(time.Duration(1+w.rng.IntN(40))*time.Second, p.nova.Heal)
	case kind < 15:
		w.novaFault()
	case kind < 16:
		w.revive()
	case kind < 17:
		w.userDeletes()
	case kind < 18:
		host := hostName(w.rng.IntN(hosts)) // a false or repeated alarm
		w.report(host, ha.EventStopped, []string{ha.HostStatusNormal, "UNKNOWN"}[w.rng.IntN(2)], 1)
	case kind < 19:
		w.kill()
	default:
		w.startEngine()
	}
}

func (w *world) later(d time.Duration, f func()) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		f()
	case <-w.ctx.Done():
	}
}

// recovers reports whether the process is at work on a host's recovery.
func recovers(p *process) bool {
	return slices.ContainsFunc(p.e.Held(), func(key string) bool { return strings.HasPrefix(key, "host:") })
}

// crash freezes every adapter at once: a cancelled context would run the clean release.
func (w *world) crash(p *process) {
	p.db.freeze()
	p.nova.Freeze()
	w.mu.Lock()
	p.gone, p.held = time.Now(), p.e.Held()
	w.mu.Unlock()
	w.tell("%s crashes, holding %v", p.name, p.held)
	if len(w.up()) < 2 || w.rng.IntN(2) == 0 {
		w.startEngine()
	}
}

// stopWorld stops a process as SIGSTOP does, for d.
func (w *world) stopWorld(p *process, d time.Duration) {
	w.tell("%s is paused for %s", p.name, d)
	p.db.freeze()
	p.nova.Freeze()
	w.mu.Lock()
	p.paused = true
	w.mu.Unlock()
	go w.later(d, func() {
		w.mu.Lock()
		crashed := !p.gone.IsZero()
		p.paused = false
		w.mu.Unlock()
		if !crashed {
			p.nova.Thaw()
			p.db.thaw()
			w.tell("%s goes on", p.name)
		}
	})
}

func (w *world) cut(p *process) {
	d := time.Duration(1+w.rng.IntN(30)) * time.Second
	w.tell("%s has no database for %s", p.name, d)
	p.db.set(func() { p.db.away = true })
	go w.later(d, func() { p.db.set(func() { p.db.away = false }) })
}

func (w *world) heal(p *process) {
	p.nova.Heal()
	p.nova.Thaw()
	p.db.thaw()
	p.db.set(func() { p.db.away, p.db.bad, p.db.trap = false, 0, nil })
	w.mu.Lock()
	p.paused = false
	w.mu.Unlock()
}

// novaFault arms a fault of Nova.
func (w *world) novaFault() {
	f := sim.FaultRule{Times: 1 + w.rng.IntN(6)}
	switch w.rng.IntN(6) {
	case 0:
		f.Method, f.Status = "POST", []int{500, 503, 502, 409, 429}[w.rng.IntN(5)]
	case 1:
		f.Method, f.Status = "GET", []int{500, 503, 404}[w.rng.IntN(3)]
	case 2:
		f.Method, f.Path, f.Delay = "POST", "action", time.Duration(1+w.rng.IntN(20))*time.Second
	case 3:
		f.Method, f.Path, f.ActAfter = "POST", "action", time.Duration(1+w.rng.IntN(40))*time.Second
	case 4:
		f.Method, f.Path, f.Drop = "POST", "action", true
	case 5:
		f.Method, f.Drop = "PUT", true
	}
	w.fault(f)
}

func (w *world) fault(f sim.FaultRule) {
	if err := w.cloud.AddFault(f); err != nil {
		w.t.Fatal(err)
	}
	w.tell("nova fault: %s %s status %d delay %s act after %s drop %v, %d times", f.Method, f.Path, f.Status, f.Delay, f.ActAfter, f.Drop, f.Times)
}

// revive gives a dead host back, with or without a report.
func (w *world) revive() {
	w.mu.Lock()
	var host string
	for h := range hosts {
		if _, is := w.dead[hostName(h)]; is {
			host = hostName(h)
			break
		}
	}
	if host != "" {
		delete(w.dead, host)
		delete(w.reports, host)
		w.revived = true
		w.alive[host] = time.Now()
	}
	w.mu.Unlock()
	if host == "" {
		return
	}
	_ = w.cloud.Revive(host)
	w.tell("%s comes back", host)
	if w.rng.IntN(2) == 0 {
		w.pause(time.Duration(w.rng.IntN(10000)) * time.Millisecond)
		w.report(host, ha.EventStarted, ha.HostStatusNormal, 1)
	}
}

func (w *world) userDeletes() {
	list := w.instances()
	if len(list) == 0 {
		return
	}
	i := list[w.rng.IntN(len(list))]
	if err := w.cloud.Delete(sim.Masakari(), i.ID); err == nil {
		w.mu.Lock()
		w.deleted[i.ID] = true
		w.mu.Unlock()
		w.tell("an admin deletes %s on %s", i.ID, i.Host)
	}
}
