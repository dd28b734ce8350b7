package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/sim"
)

// disks are the agents of a world's hosts: each reports its checks every minute, and at once when they change.
type disks struct {
	w      *world
	mu     sync.Mutex
	hosts  map[string]*disk
	silent map[string]bool
	items  map[string]int // writes of items by episode, kind, id and state
	depot  *depot         // nil: there are no blobs
}

type disk struct {
	seq    int64
	checks []ha.Check
}

func newDisks(w *world) *disks {
	d := &disks{w: w, hosts: map[string]*disk{}, silent: map[string]bool{}, items: map[string]int{}}
	for h := range hosts {
		name := hostName(h)
		d.hosts[name] = &disk{checks: []ha.Check{
			{Resource: "blobs", Path: "/srv/blobs", Kinds: []ha.ObjectKind{ha.ObjectBlob}, Status: ha.CheckOK, FilesystemID: name + "-b"},
			{Resource: "instances", Path: "/var/lib/nova/instances", Kinds: []ha.ObjectKind{ha.ObjectInstance}, Status: ha.CheckOK, FilesystemID: name + "-i"},
			{Resource: "uploads", Path: "/srv/uploads", Kinds: []ha.ObjectKind{ha.ObjectUpload}, Status: ha.CheckOK, FilesystemID: name + "-u"},
		}}
	}
	w.disks = d
	return d
}

// start has the agents report, once all is in place.
func (d *disks) start() {
	for h := range hosts {
		go d.beat(hostName(h), time.Duration(h)*7*time.Second)
	}
}

func (d *disks) beat(host string, first time.Duration) {
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			d.report(host)
			timer.Reset(time.Minute)
		case <-d.w.ctx.Done():
			return
		}
	}
}

// set changes a resource of a host, and has it reported at once.
func (d *disks) set(host, resource string, change func(*ha.Check)) {
	d.mu.Lock()
	for i := range d.hosts[host].checks {
		if c := &d.hosts[host].checks[i]; c.Resource == resource {
			change(c)
		}
	}
	d.mu.Unlock()
	d.report(host)
}

func (d *disks) fail(host, resource string) {
	d.w.tell("the storage %s of %s fails", resource, host)
	d.set(host, resource, func(c *ha.Check) { c.Status, c.Detail = ha.CheckIOError, "EIO" })
}

func (d *disks) repair(host, resource string) {
	d.w.tell("the storage %s of %s is repaired", resource, host)
	d.set(host, resource, func(c *ha.Check) { c.Status, c.Detail = ha.CheckOK, "" })
}

// report sends one, if the agent is heard.
func (d *disks) report(host string) {
	if d.depot != nil && d.depot.mute(host) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.silent[host] {
		return
	}
	at := d.hosts[host]
	at.seq++
	r := ha.AgentReport{HostUUID: d.w.hostID[host], Epoch: 1, Seq: at.seq, EpisodeUUID: uuid.NewString(), TicketKey: []byte("key"), Checks: slices.Clone(at.checks)}
	if d.depot != nil {
		d.depot.say(host, &r)
	}
	a, err := d.w.store.ReportStorage(d.w.ctx, r)
	switch {
	case err != nil && d.w.ctx.Err() == nil:
		d.w.t.Errorf("report of %s: %v", host, err)
	case err == nil && d.depot != nil:
		d.depot.heard(host, r)
	}
	if a.Opened != "" {
		d.w.tell("%s reports: episode %s", host, a.Opened)
	}
}

// wrote counts what a cascade has done: an item once per run.
func (d *disks) wrote(c ha.Change) {
	put, is := c.(ha.PutItem)
	if !is || put.Item.State != ha.ItemDone && put.Item.State != ha.ItemSkipped {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	k := fmt.Sprintf("%s %s %s", put.Item.EpisodeUUID, put.Item.Kind, put.Item.ID)
	d.items[k]++
	if d.items[k] > 1 {
		d.mu.Unlock()
		d.w.violated("S1", "item %s was written %d times", k, d.items[k])
		d.mu.Lock()
	}
}

// storageWorld is a world whose hosts have disks; nothing else troubles it but what body does.
func storageWorld(t *testing.T, seed uint64, body func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, plantNone)
		ctx, cancel := context.WithCancel(context.Background())
		w.ctx = ctx
		w.build()
		w.slow, w.strikes = 8, maxStrikes
		newDisks(w).start()
		for range engines {
			w.startEngine()
		}
		defer w.close(cancel)
		w.pause(65 * time.Second) // every agent has reported
		body(w)
		for _, b := range w.broken {
			t.Error(b)
		}
		if t.Failed() {
			t.Log(w.timeline())
		}
	})
}

// close ends all that runs in a world.
func (w *world) close(cancel func()) {
	for _, p := range w.procs {
		p.nova.Partition()
		p.nova.Thaw()
		p.db.set(func() { p.db.crash, p.db.trap = true, nil })
		p.db.thaw()
		p.cancel()
	}
	cancel()
	for _, p := range w.procs {
		<-p.done
	}
	w.cloud.Close()
	w.closeStore()
}

// put adds instances to a host, active ones.
func (w *world) put(host string, n int) []string {
	ids, err := w.cloud.AddInstances(host, n, sim.InstanceSpec{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, i := range w.instances() {
		w.before[i.ID] = i
	}
	return ids
}

func (w *world) states(host string) map[string]string {
	states := map[string]string{}
	for _, i := range w.instances() {
		if i.Host == host {
			states[i.ID] = i.VMState
		}
	}
	return states
}

// resets are the orders that set instances to a state, by instance.
func (w *world) resets(state string) map[string]int {
	n := map[string]int{}
	for _, c := range w.cloud.Calls(0) {
		if c.Action == "os-resetState" && c.Status < 300 && strings.Contains(c.Body, state) {
			n[c.Instance]++
		}
	}
	return n
}

func (w *world) episodes(host string) []ha.EpisodeDetails {
	id := w.hostID[host]
	list, err := w.store.Episodes(w.ctx, ha.EpisodeFilter{HostUUID: &id}, 100, "")
	if err != nil {
		w.t.Fatal(err)
	}
	var all []ha.EpisodeDetails
	for _, e := range slices.Backward(list) {
		d, err := w.store.Episode(w.ctx, e.UUID)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

func (w *world) disabled(host string) string {
	for _, s := range w.cloud.Services(ha.BinaryCompute, "") {
		if s.Host == host && s.Disabled {
			return s.DisabledReason
		}
	}
	return ""
}

// until waits for something that has to come.
func (w *world) until(what string, within time.Duration, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(within); !is(); {
		if time.Now().After(end) {
			for h := range hosts {
				for _, e := range w.episodes(hostName(h)) {
					w.tell("%s: %+v, %d items, %+v", hostName(h), e.Episode, len(e.Items), e.Runs)
				}
			}
			w.t.Fatalf("not within %s: %s\n%s", within, what, w.timeline())
		}
		w.pause(250 * time.Millisecond)
	}
}

func (w *world) cascaded(host string) bool {
	all := w.episodes(host)
	if len(all) == 0 {
		return false
	}
	for _, r := range all[len(all)-1].Runs {
		if r.State != ha.RunDone {
			return false
		}
	}
	return len(all[len(all)-1].Runs) > 0
}

// untouched checks that nothing on the other hosts was changed.
func (w *world) untouched(failed ...string) {
	w.t.Helper()
	for _, i := range w.instances() {
		before, known := w.before[i.ID]
		if known && !slices.Contains(failed, before.Host) && (i.VMState != before.VMState && before.VMState != ha.VMBuilding || i.Host != before.Host) {
			w.t.Errorf("instance %s on %s is %s on %s, and was %s", i.ID, before.Host, i.VMState, i.Host, before.VMState)
		}
	}
	for h := range hosts {
		if name := hostName(h); !slices.Contains(failed, name) && w.disabled(name) != "" {
			w.t.Errorf("%s is out of scheduling", name)
		}
	}
}

// erred checks that the instances were set to error, once each, with an item that says so.
func (w *world) erred(e ha.EpisodeDetails, ids []string) {
	w.t.Helper()
	states, orders := map[string]string{}, w.resets(ha.VMError)
	for _, i := range w.instances() {
		states[i.ID] = i.VMState
	}
	for _, id := range ids {
		n := 0
		for _, it := range e.Items {
			if it.ID == id && it.State == ha.ItemDone {
				n++
			}
		}
		if states[id] != ha.VMError || n != 1 || orders[id] < 1 {
			w.t.Errorf("instance %s is %s, has %d items and %d orders, want error, 1, and at least 1", id, states[id], n, orders[id])
		}
	}
}

func TestStorage(t *testing.T) {
	const h = "host-1"
	row := func(name string, body func(w *world)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storageWorld(t, 5, body)
		})
	}
	row("radius instance and blob: each healthy instance in error once, host out of scheduling", func(w *world) {
		ids := w.put(h, 5)
		w.disks.fail(h, "blobs")
		w.disks.fail(h, "instances")
		w.until("the cascade", time.Minute, func() bool { return w.cascaded(h) })
		w.erred(w.episodes(h)[0], ids)
		if w.disabled(h) == "" {
			w.t.Error("the host is still scheduled onto")
		}
		w.untouched(h)
	})
	row("states are told apart", func(w *world) {
		want := map[string]ha.ItemState{}
		for state, item := range map[string]ha.ItemState{ha.VMActive: ha.ItemDone, ha.VMStopped: ha.ItemDone, ha.VMPaused: ha.ItemDone, ha.VMSuspended: ha.ItemDone,
			ha.VMError: ha.ItemSkipped, ha.VMResized: ha.ItemDone} {
			ids, err := w.cloud.AddInstances(h, 1, sim.InstanceSpec{VMState: state})
			if err != nil {
				w.t.Fatal(err)
			}
			want[ids[0]] = item
		}
		w.disks.fail(h, "instances")
		w.until("the cascade", time.Minute, func() bool { return w.cascaded(h) })
		for _, it := range w.episodes(h)[0].Items {
			if s, mine := want[it.ID]; mine && s != it.State {
				w.t.Errorf("item %+v, want %s", it, s)
			}
			delete(want, it.ID)
		}
		if len(want) > 0 {
			w.t.Errorf("no items of %v", want)
		}
	})
	row("radius upload only: nothing touched, host in error", func(w *world) {
		w.put(h, 3)
		w.disks.fail(h, "uploads")
		w.pause(3 * time.Minute)
		health, open, err := w.store.StorageHealth(w.ctx, w.hostID[h])
		if err != nil || health.State != ha.HealthError || open == nil || w.disabled(h) == "" {
			w.t.Errorf("health %+v, episode %+v, disabled %q, %v", health, open, w.disabled(h), err)
		}
		if n := w.resets(ha.VMError); len(n) > 0 {
			w.t.Errorf("instances were set to error: %v", n)
		}
		w.untouched(h)
	})
	row("unknown radius: nothing touched until an operator states it", func(w *world) {
		ids := w.put(h, 3)
		w.disks.set(h, "instances", func(c *ha.Check) { c.Kinds, c.Status = nil, ha.CheckMissing })
		w.pause(3 * time.Minute)
		if n := w.resets(ha.VMError); len(n) > 0 {
			w.t.Errorf("instances were set to error: %v", n)
		}
		if e := w.episodes(h)[0]; !strings.Contains(e.Waiting, "unknown") {
			w.t.Errorf("it says %q", e.Waiting)
		}
		if _, err := w.store.FailStorage(w.ctx, ha.Fail{HostUUID: w.hostID[h], EpisodeUUID: uuid.NewString(), Radius: []ha.ObjectKind{ha.ObjectInstance}, By: "alice"}); err != nil {
			w.t.Fatal(err)
		}
		w.until("the cascade", time.Minute, func() bool { return w.cascaded(h) })
		w.erred(w.episodes(h)[0], ids)
		w.untouched(h)
	})
	row("radius grows: only the new kinds run", func(w *world) {
		ids := w.put(h, 4)
		w.disks.fail(h, "instances")
		w.until("the cascade", time.Minute, func() bool { return w.cascaded(h) })
		if err := w.cloud.Act(sim.Masakari(), ids[0], sim.ServerAction{Name: "os-resetState", State: ha.VMActive}); err != nil {
			w.t.Fatal(err)
		}
		w.disks.fail(h, "blobs")
		w.until("the second run", time.Minute, func() bool { return len(w.episodes(h)[0].Runs) == 2 && w.cascaded(h) })
		w.pause(2 * time.Minute)
		e := w.episodes(h)[0]
		if e.Version != 2 || e.Runs[1].Kind != ha.ObjectBlob || e.Runs[1].Version != 2 {
			w.t.Errorf("version %d, runs %+v", e.Version, e.Runs)
		}
		if s := w.states(h)[ids[0]]; s != ha.VMActive {
			w.t.Errorf("an instance that an operator has reset is %s: it ran again", s)
		}
	})
	row("recover and fail again between two passes: a second episode, a second cascade", func(w *world) {
		ids := w.put(h, 4)
		w.disks.fail(h, "instances")
		w.until("the cascade", time.Minute, func() bool { return w.cascaded(h) })
		w.disks.repair(h, "instances")
		for _, id := range ids {
			if err := w.cloud.Act(sim.Masakari(), id, sim.ServerAction{Name: "os-resetState", State: ha.VMActive}); err != nil {
				w.t.Fatal(err)
			}
		}
		if _, err := w.store.ClearStorage(w.ctx, ha.Clear{HostUUID: w.hostID[h], By: "alice"}); err != nil {
			w.t.Fatal(err)
		}
		w.disks.fail(h, "instances") // before any engine has looked
		w.until("the second cascade", time.Minute, func() bool { return len(w.episodes(h)) == 2 && w.cascaded(h) })
		w.erred(w.episodes(h)[1], ids)
		w.until("the end of the first", time.Minute, func() bool { return w.episodes(h)[0].EndedAt != nil })
		if w.disabled(h) == "" {
			w.t.Error("the first episode's end has put the host back into scheduling")
		}
	})
	row("operator clears in the middle: the run stops", func(w *world) {
		w.put(h, 120)
		w.fault(sim.FaultRule{Method: "POST", Action: "os-resetState", Delay: 8 * time.Second, Times: 1000})
		w.disks.fail(h, "instances")
		w.until("orders under way", time.Minute, func() bool { return len(w.resets(ha.VMError)) > 0 || len(w.episodes(h)[0].Items) > 0 })
		w.disks.repair(h, "instances")
		if _, err := w.store.ClearStorage(w.ctx, ha.Clear{HostUUID: w.hostID[h], By: "alice"}); err != nil {
			w.t.Fatal(err)
		}
		w.cloud.ClearFaults()
		w.until("the end", 2*time.Minute, func() bool { return w.episodes(h)[0].EndedAt != nil })
		e, inError := w.episodes(h)[0], 0
		for id, s := range w.states(h) {
			if s == ha.VMError && w.before[id].VMState != ha.VMError {
				inError++
			}
		}
		left := 0
		for _, it := range e.Items {
			if it.State == ha.ItemLeft {
				left++
			}
		}
		if e.Runs[0].State != ha.RunStopped || inError == 0 || inError >= 120 || left != inError || w.disabled(h) != "" {
			w.t.Errorf("run %s, %d in error, %d named as left, disabled %q", e.Runs[0].State, inError, left, w.disabled(h))
		}
	})
	row("clear with reset: what is still in error is active again, service enabled", func(w *world) {
		ids := w.put(h, 3)
		w.disks.fail(h, "instances")
		w.until("the cascade", time.Minute, func() bool { return w.cascaded(h) })
		if _, err := w.store.ClearStorage(w.ctx, ha.Clear{HostUUID: w.hostID[h], By: "alice", ResetInstances: true}); err == nil {
			w.t.Error("cleared while the agent still reports failure")
		}
		w.disks.repair(h, "instances")
		if _, err := w.store.ClearStorage(w.ctx, ha.Clear{HostUUID: w.hostID[h], By: "alice", ResetInstances: true}); err != nil {
			w.t.Fatal(err)
		}
		w.until("the end", 2*time.Minute, func() bool { return w.episodes(h)[0].EndedAt != nil })
		for _, id := range ids {
			if s := w.states(h)[id]; s != ha.VMActive {
				w.t.Errorf("instance %s is %s", id, s)
			}
		}
		if r := w.disabled(h); r != "" {
			w.t.Errorf("the service is disabled: %s", r)
		}
	})
	row("host returns with an empty disk: stays in error", func(w *world) {
		w.put(h, 2)
		w.disks.fail(h, "instances")
		w.until("the cascade", time.Minute, func() bool { return w.cascaded(h) })
		w.disks.set(h, "instances", func(c *ha.Check) { c.Status, c.FilesystemID = ha.CheckWrongFilesystem, "fresh" })
		w.pause(2 * time.Minute)
		health, open, err := w.store.StorageHealth(w.ctx, w.hostID[h])
		if err != nil || health.State != ha.HealthError || open == nil || w.disabled(h) == "" {
			w.t.Errorf("health %+v, episode %+v, disabled %q, %v", health.State, open, w.disabled(h), err)
		}
		if _, err := w.store.ClearStorage(w.ctx, ha.Clear{HostUUID: w.hostID[h], By: "alice"}); err == nil {
			w.t.Error("cleared though the disk is not the one that it was")
		}
	})
	row("both copies on two failed hosts with one filesystem id: held by the brake", func(w *world) {
		w.put(h, 3)
		w.put("host-2", 3)
		for _, host := range []string{h, "host-2"} {
			w.disks.set(host, "instances", func(c *ha.Check) { c.FilesystemID = "nfs" })
		}
		w.disks.fail(h, "instances")
		w.disks.fail("host-2", "instances")
		w.pause(5 * time.Minute)
		if n := w.resets(ha.VMError); len(n) > 0 || w.disabled(h) != "" || w.disabled("host-2") != "" {
			w.t.Errorf("touched: %v, %q, %q", n, w.disabled(h), w.disabled("host-2"))
		}
		e := w.episodes(h)[0]
		if !strings.Contains(e.Braked, "host-2") {
			w.t.Errorf("it says %q", e.Braked)
		}
		if err := w.store.HoldStorage(w.ctx, ha.Hold{EpisodeUUID: e.UUID, Off: true, By: "alice"}); err != nil {
			w.t.Fatal(err)
		}
		w.until("the cascade that an operator let go", time.Minute, func() bool { return w.cascaded(h) })
		if n := w.states("host-2"); slices.Contains(slices.Collect(values(n)), "") {
			w.t.Error("no states")
		}
	})
	row("filesystem shared, failing here alone: waits for a fresh report, then goes", func(w *world) {
		ids := w.put(h, 3)
		for _, host := range []string{h, "host-2"} {
			w.disks.set(host, "instances", func(c *ha.Check) { c.FilesystemID = "nfs" })
		}
		w.disks.fail(h, "instances")
		w.pause(50 * time.Second)
		if n := w.resets(ha.VMError); len(n) > 0 {
			w.t.Errorf("touched before a probe interval: %v", n)
		}
		w.until("the cascade", 3*time.Minute, func() bool { return w.cascaded(h) })
		w.erred(w.episodes(h)[0], ids)
		w.untouched(h)
	})
	row("more than 30 percent failing within ten minutes: held", func(w *world) {
		w.put(h, 3)
		w.put("host-2", 3)
		w.disks.fail(h, "instances")
		w.pause(2 * time.Minute)
		n := len(w.resets(ha.VMError))
		w.disks.fail("host-2", "instances")
		w.pause(5 * time.Minute)
		if after := len(w.resets(ha.VMError)); after != n || w.episodes("host-2")[0].Braked == "" || w.disabled("host-2") != "" {
			w.t.Errorf("%d instances in error after %d, braked %q", after, n, w.episodes("host-2")[0].Braked)
		}
	})
	row("held host: nothing is touched until it is let go", func(w *world) {
		ids := w.put(h, 3)
		if err := w.store.HoldStorage(w.ctx, ha.Hold{HostUUID: w.hostID[h], By: "alice", Reason: "disk swap"}); err != nil {
			w.t.Fatal(err)
		}
		w.disks.fail(h, "instances")
		w.pause(2 * time.Minute)
		e := w.episodes(h)[0]
		if n := w.resets(ha.VMError); len(n) > 0 || !strings.Contains(e.Waiting, "alice") {
			w.t.Errorf("touched %v, waits %q", n, e.Waiting)
		}
		if err := w.store.HoldStorage(w.ctx, ha.Hold{HostUUID: w.hostID[h], Off: true, By: "alice"}); err != nil {
			w.t.Fatal(err)
		}
		w.until("the cascade", time.Minute, func() bool { return w.cascaded(h) })
		w.erred(w.episodes(h)[0], ids)
	})
	row("silence is missing, never error", func(w *world) {
		w.put(h, 2)
		w.disks.mu.Lock()
		w.disks.silent[h] = true
		w.disks.mu.Unlock()
		w.pause(10 * time.Minute)
		health, open, err := w.store.StorageHealth(w.ctx, w.hostID[h])
		if err != nil || health.State != ha.HealthMissing || open != nil || len(w.resets(ha.VMError)) > 0 {
			w.t.Errorf("health %s, episode %v, %v", health.State, open, err)
		}
	})
	row("late arrivals are caught", func(w *world) {
		w.put(h, 2)
		w.disks.fail(h, "instances")
		w.until("the cascade", time.Minute, func() bool { return w.cascaded(h) })
		late := w.put(h, 1)
		w.until("the late one", 2*time.Minute, func() bool { return w.states(h)[late[0]] == ha.VMError })
		w.pause(5 * time.Second)
		w.erred(w.episodes(h)[0], late)
	})
	row("a service that others have disabled is left as it is", func(w *world) {
		w.put(h, 2)
		operator := w.cloud.Nova(sim.ClientOptions{Name: "operator", MinLatency: time.Millisecond, MaxLatency: 2 * time.Millisecond})
		services, err := operator.Services(w.ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		off := false
		for _, s := range services {
			if s.Host == h {
				if _, err := operator.Do(w.ctx, ha.Act{Kind: ha.ActService, Host: h, ServiceID: s.ID, Enable: &off, Reason: "new disks"}); err != nil {
					w.t.Fatal(err)
				}
			}
		}
		w.disks.fail(h, "instances")
		w.until("the cascade", time.Minute, func() bool { return w.cascaded(h) })
		w.disks.repair(h, "instances")
		if _, err := w.store.ClearStorage(w.ctx, ha.Clear{HostUUID: w.hostID[h], By: "alice"}); err != nil {
			w.t.Fatal(err)
		}
		w.until("the end", time.Minute, func() bool { return w.episodes(h)[0].EndedAt != nil })
		if r := w.disabled(h); r != "new disks" {
			w.t.Errorf("disabled: %q", r)
		}
	})
	row("host recovery of the same host has precedence, and the episode goes on afterwards", func(w *world) {
		w.put(h, 6)
		w.disks.fail(h, "instances")
		w.mu.Lock()
		w.dead[h] = time.Now()
		delete(w.alive, h)
		w.mu.Unlock()
		_ = w.cloud.Kill(h)
		w.report(h, ha.EventStopped, ha.HostStatusNormal, 1)
		w.until("the recovery", 10*time.Minute, func() bool { return len(w.unfinished()) == 0 })
		w.until("the cascade", 2*time.Minute, func() bool { return w.cascaded(h) })
	})
	row("evacuate without fencing: the end of a recovery, which moves the instances, is the cascade's at once", func(w *world) {
		if err := w.store.SetStorageAction(w.ctx, w.segment, "evacuate"); err != nil {
			w.t.Fatal(err)
		}
		w.put(h, 6)
		w.disks.fail(h, "instances")
		w.until("held", time.Minute, func() bool {
			e := w.episodes(h)
			return len(e) > 0 && slices.ContainsFunc(e[0].Runs, func(r ha.Run) bool { return strings.Contains(r.Why, "needs fencing") })
		})
		w.pause(70 * time.Second) // it looks once a minute by now
		w.mu.Lock()
		w.dead[h] = time.Now()
		delete(w.alive, h)
		w.mu.Unlock()
		_ = w.cloud.Kill(h)
		w.pause(15 * time.Second)
		w.report(h, ha.EventStopped, ha.HostStatusNormal, 1)
		w.until("the recovery", 10*time.Minute, func() bool { return len(w.unfinished()) == 0 })
		w.until("the cascade", 10*time.Second, func() bool { return w.cascaded(h) })
	})
}

func values(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// TestStorageKilledAfterItem: engine killed after item k of n: each item exactly once, in all; an engine that loses its lease in the middle
// writes nothing more (invariant I1 is checked at each write).
func TestStorageKilledAfterItem(t *testing.T) {
	const n = 20
	for k := 1; k <= n; k += 3 {
		for _, how := range []string{"crash", "pause"} {
			t.Run(fmt.Sprintf("%s after item %d of %d", how, k, n), func(t *testing.T) {
				t.Parallel()
				storageWorld(t, uint64(100+k), func(w *world) {
					const h = "host-1"
					ids := w.put(h, n)
					w.fault(sim.FaultRule{Method: "POST", Action: "os-resetState", Delay: time.Duration(100+50*k) * time.Millisecond, Times: 10000})
					w.disks.fail(h, "instances")
					w.until("item k", time.Minute, func() bool { return len(w.episodes(h)[0].Items) >= k })
					for _, p := range w.up() {
						if !slices.ContainsFunc(p.e.Held(), func(key string) bool { return strings.HasPrefix(key, "storage:") }) {
							continue
						}
						if how == "crash" {
							w.crash(p)
						} else {
							w.stopWorld(p, 20*time.Second)
						}
					}
					w.until("the cascade", 2*time.Minute, func() bool { return w.cascaded(h) })
					w.pause(30 * time.Second)
					w.erred(w.episodes(h)[0], ids)
					w.untouched(h)
				})
			})
		}
	}
}
