package simulation

import (
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/sim"
)

// TestHostsThatDieTogether: an order goes to a host that dies with it in its queue. The instance is ordered anew once that host is off; the
// order that is left is told of before the host can carry it out, and again when the host is back.
func TestHostsThatDieTogether(t *testing.T) {
	storageWorld(t, 5, func(w *world) {
		const first = "host-1"
		for _, i := range w.instances() {
			if i.Host == first {
				_ = w.cloud.Delete(sim.Masakari(), i.ID)
			}
		}
		w.pause(2 * time.Second)
		id := w.put(first, 1)[0]
		dies := func(host string) {
			w.mu.Lock()
			w.dead[host] = time.Now()
			delete(w.alive, host)
			w.mu.Unlock()
			_ = w.cloud.Kill(host)
		}
		told := func(what string) (n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, line := range w.story {
				if strings.Contains(line, "ALARM stale_order: host "+what) {
					n++
				}
			}
			return n
		}
		dies(first)
		w.pause(12 * time.Second)
		for h := 1; h < hosts; h++ { // Nova believes that they are up, and sends the order to one of them
			_ = w.cloud.Hang(hostName(h))
		}
		w.report(first, ha.EventStopped, ha.HostStatusNormal, 1)
		w.pause(4 * time.Second)
		second := ""
		on, _ := w.up()[0].nova.Providers(w.ctx, id)
		for _, h := range on {
			if h != first {
				second = h
			}
		}
		if second == "" {
			t.Fatalf("no order is on its way: %v\n%s", on, w.timeline())
		}
		dies(second)
		for h := range hosts {
			_ = w.cloud.Resume(hostName(h))
		}
		w.report(second, ha.EventStopped, ha.HostStatusNormal, 1)
		w.until("both recoveries", 10*time.Minute, func() bool { return len(w.unfinished()) == 0 })
		i, _ := w.cloud.Instance(id)
		if i.Host == first || i.Host == second || i.Evacuations != 2 || told(second+" died") != 1 {
			t.Fatalf("the instance is on %s after %d orders, told %d times\n%s", i.Host, i.Evacuations, told(second+" died"), w.timeline())
		}
		w.revives(second)
		w.until("it is taken back", 10*time.Minute, func() bool { return !w.service(second).ForcedDown })
		w.pause(5 * time.Second)
		w.mu.Lock()
		_, kept := w.claims[second+" order recovery"]
		w.mu.Unlock()
		if told(second+" is coming back") != 1 || kept {
			t.Errorf("told %d times, still claimed %v\n%s", told(second+" is coming back"), kept, w.timeline())
		}
	})
}

// revives brings a dead host back, and its monitor says so.
func (w *world) revives(host string) {
	w.mu.Lock()
	delete(w.dead, host)
	delete(w.reports, host)
	w.revived = true
	w.alive[host] = time.Now()
	w.mu.Unlock()
	_ = w.cloud.Revive(host)
	w.pause(5 * time.Second)
	w.report(host, ha.EventStarted, ha.HostStatusNormal, 1)
}
