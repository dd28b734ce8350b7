package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/sim"
)

// returnSeen is how long after a host has come back an order may still be sent: a heartbeat is two moves of updated_at, looked
// for at least every ProofMaxAge/6, and the proof that it contradicts may be ProofMaxAge old.
const returnSeen = 60 * time.Second

// claimed notes who holds a unit.
func (w *world) claimed(l *link, lease ha.Lease, u ha.Unit) {
	w.tell("%s claims %s, epoch %d", l.name, u.Key, lease.Epoch)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owners[lease.WorkID], w.moved[lease.WorkID], w.keys[lease.WorkID] = lease, time.Now(), u.Key
}

func (w *world) owner(work int64) (ha.Lease, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, ok := w.owners[work]
	return l, ok
}

// wrote checks a write that landed, and keeps what it claims.
func (w *world) wrote(l *link, lease ha.Lease, changes []ha.Change) {
	owner, ok := w.owner(lease.WorkID)
	if ok && (owner.Epoch != lease.Epoch || owner.Owner != lease.Owner) {
		w.violated("I1", "%s wrote for %s in epoch %d, which %s holds in epoch %d", l.name, w.keys[lease.WorkID], lease.Epoch, owner.Owner, owner.Epoch)
	}
	w.mu.Lock()
	w.moved[lease.WorkID] = time.Now()
	key := w.keys[lease.WorkID]
	w.mu.Unlock()
	for _, c := range changes {
		w.changed(lease, key, c)
		if w.disks != nil {
			w.disks.wrote(c)
		}
	}
}

func (w *world) changed(lease ha.Lease, key string, c ha.Change) {
	switch c := c.(type) {
	case ha.SetNotification:
		w.tell("notification %.8s %s: %s", c.UUID, c.Status, c.Message)
	case ha.PutMove:
		w.tell("move %.8s %s/%s %s record %d", c.Move.InstanceUUID, c.Move.Status, c.Move.Stage, deref(c.Move.Message), c.Move.Order.Record)
	case ha.Write:
		if c.Entry.Kind == ha.EntryAlarm {
			w.tell("ALARM %s: %s", c.Entry.Task, c.Entry.Text)
		}
	case ha.PutClaim:
		w.mu.Lock()
		w.claims[w.hostOf[c.Claim.HostUUID]+" "+string(c.Claim.What)+" "+string(c.Claim.Reason)] = c.Claim
		w.mu.Unlock()
	case ha.DropClaim:
		w.mu.Lock()
		delete(w.claims, w.hostOf[c.HostUUID]+" "+string(c.What)+" "+string(c.Reason))
		w.mu.Unlock()
	case ha.Reserve:
		w.mu.Lock()
		by, taken := w.spares[c.HostUUID]
		w.spares[c.HostUUID] = lease.WorkID
		maps.DeleteFunc(w.claims, func(_ string, claim ha.Claim) bool { return c.Ends(claim, lease.WorkID) })
		w.mu.Unlock()
		if taken && by != lease.WorkID {
			w.violated("I8", "reserved host %s serves two recoveries", w.hostOf[c.HostUUID])
		}
	case ha.Free:
		w.mu.Lock()
		delete(w.spares, c.HostUUID)
		w.mu.Unlock()
	case ha.TouchSegment:
		w.passedBrake(key)
	case ha.Park:
		w.mu.Lock()
		w.ended[lease.WorkID] = false
		delete(w.owners, lease.WorkID)
		w.mu.Unlock()
	case ha.EndUnit:
		w.mu.Lock()
		w.ended[lease.WorkID] = true
		w.mu.Unlock()
		w.tell("%s ended", key)
		w.locksOf(key)
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// passedBrake counts, when a recovery starts, the hosts whose death had been known for some seconds.
func (w *world) passedBrake(key string) {
	w.mu.Lock()
	down := 0
	self := w.hostOf[strings.TrimPrefix(key, "host:")]
	for host, at := range w.reports { // one of its life tells nothing of its death
		if died, is := w.dead[host]; host == self || is && at.After(died) && time.Since(at) > 3*time.Second {
			down++
		}
	}
	w.mu.Unlock()
	if w.back == nil && down >= 2 && 100*down > 50*hosts { // in the other worlds operators release it
		w.violated("brake", "the recovery of %s started with %d of %d hosts known dead", self, down, hosts)
	}
}

// locksOf checks invariant I5 at the end of a host's recovery: its own locks are gone.
func (w *world) locksOf(key string) {
	if !strings.HasPrefix(key, "host:") {
		return
	}
	for _, i := range w.instances() {
		if before, known := w.before[i.ID]; known && i.Locked && !before.Locked && strings.HasPrefix(i.LockedReason, "salvor") && !w.underRecovery(i) {
			w.violated("I5", "instance %s is locked (%s) after %s ended", i.ID, i.LockedReason, key)
		}
	}
}

// underRecovery reports whether the instance's lock belongs to a recovery that has not ended.
func (w *world) underRecovery(i sim.Instance) bool {
	id := strings.TrimPrefix(i.LockedReason, "salvor recovery ")
	n, err := w.store.Notification(w.ctx, id)
	return err == nil && n.Status.Open()
}

// check looks at the world between events.
func (w *world) check() {
	w.checkOrders()
	w.checkTakeover()
	w.checkClaims()
	for _, d := range w.cloud.DoubleOrders() {
		w.violated("I4", "instance %s was ordered (record %d) while order %d was under way", d.Instance, d.Later, d.Earlier)
	}
	w.mu.Lock()
	revived := w.revived
	w.mu.Unlock()
	if !revived {
		for _, d := range w.cloud.DoubleRuns() {
			w.violated("I4", "instance %s ran on %v", d.Instance, d.Hosts)
		}
	}
}

// checkOrders is invariant I2: no order for a host that is not dead.
func (w *world) checkOrders() {
	for _, c := range w.cloud.Calls(w.calls) {
		w.calls = c.N
		if c.Action != "evacuate" {
			continue
		}
		w.mu.Lock()
		since, up := w.alive[c.Host]
		w.mu.Unlock()
		if up && c.At.Sub(since) > returnSeen {
			w.violated("I2", "%s ordered %s away from %s, which has been up for %s", c.Client, c.Instance, c.Host, c.At.Sub(since))
		}
	}
}

// checkTakeover is invariant I10: what a crashed engine held goes on elsewhere, if anybody has been well since.
func (w *world) checkTakeover() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	limit := takeover
	if w.slow > 100 { // five beats of the watcher's own take their time in a slow database
		limit += 3 * time.Second
	}
	for _, p := range w.procs {
		p.db.mu.Lock()
		sick := p.db.away || p.db.bad > 0
		p.db.mu.Unlock()
		if sick || p.paused || !p.gone.IsZero() {
			p.well = now
		}
	}
	for _, p := range w.procs {
		if p.gone.IsZero() || now.Sub(p.gone) < limit || now.Sub(p.gone) > limit+time.Second {
			continue
		}
		well := slices.ContainsFunc(w.procs, func(o *process) bool { return o.gone.IsZero() && o.well.Before(p.gone) })
		if !well {
			continue
		}
		for id, l := range w.owners {
			if l.Owner == p.name && !w.ended[id] {
				text := w.keys[id]
				w.mu.Unlock()
				w.violated("I10", "%s, held by %s when it crashed, was not taken over within %s", text, p.name, limit)
				w.mu.Lock()
			}
		}
	}
}

// checkClaims is invariant I9: what salvor changed in Nova is a claim.
func (w *world) checkClaims() {
	services := w.cloud.Services(ha.BinaryCompute, "")
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range services {
		_, forced := w.claims[s.Host+" forced_down recovery"]
		_, disabled := w.claims[s.Host+" disabled recovery"]
		_, process := w.claims[s.Host+" disabled process"]
		if _, storage := w.claims[s.Host+" disabled storage"]; storage {
			disabled = true
		}
		var text string
		switch {
		case s.ForcedDown && !forced:
			text = s.Host + " is forced down without a claim"
		case s.Disabled && strings.HasPrefix(s.DisabledReason, "salvor") && !disabled && !process:
			text = s.Host + " is disabled without a claim"
		default:
			continue
		}
		w.mu.Unlock()
		w.violated("I9", "%s", text)
		w.mu.Lock()
	}
}

// unfinished lists the notifications that still owe an end.
func (w *world) unfinished() (open []string) {
	w.mu.Lock()
	ids := make([]string, 0, len(w.told))
	for id := range w.told {
		ids = append(ids, id)
	}
	w.mu.Unlock()
	for _, id := range ids {
		n, err := w.store.Notification(w.ctx, id)
		if err != nil {
			w.t.Fatal(err)
		}
		if n.Status.Open() {
			open = append(open, id[:8]+" "+w.hostOf[n.SourceHostUUID]+" "+string(n.Status)+": "+deref(n.Message))
		}
	}
	return open
}

// judge checks what must hold in the end: I3, I5, I6.
func (w *world) judge() {
	for _, open := range w.unfinished() {
		w.violated("I6", "after %s notification %s", horizon, open)
	}
	named := map[string]bool{}
	w.mu.Lock()
	ids := make([]string, 0, len(w.told))
	for id := range w.told {
		ids = append(ids, id)
	}
	w.mu.Unlock()
	recovered := map[string]bool{} // hosts whose latest death led to a recovery
	latest := map[string]int64{}
	for _, id := range ids {
		n, err := w.store.Notification(w.ctx, id)
		if err != nil {
			w.t.Fatal(err)
		}
		moves, err := w.store.VMoves(w.ctx, ha.VMoveFilter{NotificationUUID: id}, ha.Page{Limit: 1000, Sort: []ha.Sort{{Field: ha.FieldID}}})
		if err != nil {
			w.t.Fatal(err)
		}
		ended := n.Status == ha.StatusFinished || n.Status == ha.StatusFailed
		if host := w.hostOf[n.SourceHostUUID]; n.Payload.Stopped() && ended && n.ID > latest[host] {
			latest[host], recovered[host] = n.ID, len(moves) > 0
		}
		for _, m := range moves {
			if m.Status != ha.MoveSucceeded && deref(m.Message) != "" {
				named[m.InstanceUUID] = true
			}
			if m.Status == ha.MovePending || m.Status == ha.MoveOngoing {
				w.violated("I3", "move of %s is %s though its recovery ended", m.InstanceUUID, m.Status)
			}
		}
	}
	for _, i := range w.instances() {
		before, known := w.before[i.ID]
		if !known {
			continue
		}
		if i.Locked && !before.Locked {
			w.violated("I5", "instance %s is locked in the end (%s)", i.ID, i.LockedReason)
		}
		if before.Locked && !i.Locked {
			w.violated("I5", "the lock that somebody else had put on %s is gone", i.ID)
		}
		w.mu.Lock()
		_, dead := w.dead[i.Host]
		w.mu.Unlock()
		if dead && recovered[i.Host] && !named[i.ID] {
			w.violated("I3", "instance %s is still on dead %s and nobody says why", i.ID, i.Host)
		}
	}
}
