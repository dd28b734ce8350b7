// Package blob decides where copies of blobs go (docs/storage.md, "Blobs"). It is pure: given what the rows say and the time, it
// says what is to be written. The rows are written only where they still are as they were seen, and an agent's hash is all that ever makes
// a copy count.
package blob

import (
	"cmp"
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Rules are the options that decide.
type Rules struct {
	Total     int           // transfers under way at once
	PerSource int           // of those, from one host
	PerTarget int           // of those, to one host
	Reserve   int64         // bytes that stay free on each host
	Grace     time.Duration // how long the copies of a host whose agent is silent go on counting
}

// Times that need no option.
const (
	// settles is how long something that was said is waited for before it is asked for in another way: a copy that is to be verified, one
	// that could not be read.
	settles = 10 * time.Minute
	// forgotten is how long a transfer may go without a word from an agent that is heard: it has lost the order.
	forgotten = time.Hour
	// noRoom is how often a blob that no host can take is looked at again.
	noRoom = 30 * time.Second
	// crowdedOut is how soon a blob that the limits let wait is looked at again when others wait behind it.
	crowdedOut = 3 * time.Second
	// itsTurn is how soon it is looked at again otherwise: with the next pass.
	itsTurn = 250 * time.Millisecond
	// After a transfer has failed the next one waits, longer each time.
	backOffFirst = 2 * time.Second
	backOffMost  = 10 * time.Minute
)

// Decision is what a pass came to. Busy: something changes, so look again soon.
type Decision struct {
	Changes []ha.Change
	Busy    bool
}

// Decide is one pass of the replicator: over the blobs that are due, those that need it most first, then over a page of the rest.
// newID gives a new transfer its uuid.
func Decide(w ha.BlobWork, r Rules, now time.Time, newID func() string) Decision {
	p := newPass(w, r, now, newID)
	changes := p.unheard(w)
	plans := make([]ha.Change, len(w.Due))
	told, placed := p.turns(w.Due)
	for _, i := range placed {
		if c, write := p.blob(w.Due[i], true); write {
			plans[i] = c
		}
	}
	for _, i := range told {
		if plans[i] != nil {
			changes = append(changes, plans[i])
		}
	}
	seen := map[string]bool{}
	for _, b := range w.Due {
		seen[b.UUID] = true
	}
	for _, b := range w.Swept {
		if seen[b.UUID] {
			continue
		}
		if c, write := p.blob(b, false); write {
			changes = append(changes, c)
		}
	}
	busy := len(changes) > 0 || len(w.Running) > 0
	return Decision{Changes: append(changes, ha.SetSweep{Cursor: w.Cursor}), Busy: busy}
}

// turns says in which order the blobs' copies are made, who needs it most first, and in which they are given their places: so as well, but of those
// that need it as much the largest first where the limits let all begin. All hosts get equal shares then.
func (p *pass) turns(due []ha.BlobState) (told, placed []int) {
	told, copies := make([]int, len(due)), make([]int, len(due))
	missing, places := 0, 0
	for i, b := range due {
		o := one{pass: p, BlobState: b}
		told[i], copies[i] = i, o.copies()
		missing += max(0, b.WantCopies-copies[i])
	}
	for _, h := range p.order {
		if h.takes() {
			places += max(0, p.rules.PerTarget-h.to)
		}
	}
	need := func(a, b int) int {
		return cmp.Or(cmp.Compare(copies[a], copies[b]), compareBool(!due[a].InUse, !due[b].InUse))
	}
	slices.SortStableFunc(told, need)
	placed = slices.Clone(told)
	if !p.crowded && missing <= min(places, p.rules.Total-p.running) {
		slices.SortStableFunc(placed, func(a, b int) int { return cmp.Or(need(a, b), cmp.Compare(due[b].Size, due[a].Size)) })
	}
	return told, placed
}

// pass is the state of one pass: what each host has left.
type pass struct {
	rules   Rules
	now     time.Time
	newID   func() string
	hosts   map[string]*host
	order   []*host // by uuid
	running int
	crowded bool // others are due behind this page
}

// host is a host with what is reserved on it.
type host struct {
	ha.BlobHost
	heard bool // lately
	away  bool // for so long that its copies do not count
	room  int64
	comes int64 // bytes that transfers to it still bring; they are off its room
	to    int   // transfers to it
	from  int
}

func newPass(w ha.BlobWork, r Rules, now time.Time, newID func() string) *pass {
	p := &pass{rules: r, now: now, newID: newID, hosts: make(map[string]*host, len(w.Hosts)), running: len(w.Running), crowded: w.More}
	for _, h := range w.Hosts {
		if h.Domain == "" {
			h.Domain = h.UUID
		}
		own := &host{
			BlobHost: h, room: h.Free - r.Reserve,
			heard: h.Silent >= 0 && h.Silent <= ha.AgentSilence, away: h.Silent < 0 || h.Silent > max(r.Grace, ha.AgentSilence),
		}
		p.hosts[h.UUID] = own
		p.order = append(p.order, own)
	}
	slices.SortFunc(p.order, func(a, b *host) int { return cmp.Compare(a.UUID, b.UUID) })
	for _, t := range w.Running {
		p.reserve(t)
	}
	return p
}

// reserve takes what a transfer will need off what its hosts have left.
func (p *pass) reserve(t ha.Transfer) {
	if h := p.hosts[t.To]; h != nil {
		h.to++
		h.room -= max(0, t.Size-t.Bytes)
		h.comes += max(0, t.Size-t.Bytes)
	}
	if h := p.hosts[t.From]; h != nil {
		h.from++
	}
}

func (p *pass) release(t ha.Transfer) {
	p.running--
	if h := p.hosts[t.To]; h != nil {
		h.to--
		h.room += max(0, t.Size-t.Bytes)
		h.comes -= max(0, t.Size-t.Bytes)
	}
	if h := p.hosts[t.From]; h != nil {
		h.from--
	}
}

// full reports whether the limits let no copy begin, of whatever blob.
func (p *pass) full() bool {
	return p.running >= p.rules.Total || !slices.ContainsFunc(p.order, func(h *host) bool { return h.takes() && h.to < p.rules.PerTarget })
}

// gives reports whether a host's agent can be asked for a copy that counts.
func (h *host) gives() bool { return h != nil && h.heard && !h.Failed && h.URL != "" }

// takes reports whether copies may be made on a host at all: never on one in error.
func (h *host) takes() bool { return h != nil && h.heard && !h.Errored && !h.Failed && h.URL != "" }

// counts reports whether a copy is one. A host that is silent for a while may be restarting; the cascade, not silence, says that a
// disk is dead.
func (p *pass) counts(l ha.Location) bool {
	h := p.hosts[l.HostUUID]
	return l.State == ha.LocationPresent && h != nil && !h.away
}

// sure reports whether a copy may be counted when another is given up: hashed since then, on a host that is well and was heard lately.
func (p *pass) sure(l ha.Location, since time.Time) bool {
	return l.HashedSince(since) && p.hosts[l.HostUUID].takes()
}

// unheard wakes the blobs of transfers whose hosts cannot carry them on: nobody else says so.
func (p *pass) unheard(w ha.BlobWork) []ha.Change {
	seen := map[string]bool{}
	for _, page := range [][]ha.BlobState{w.Due, w.Swept} {
		for _, b := range page {
			seen[b.UUID] = true
		}
	}
	var wake []string
	for _, t := range w.Running {
		from := p.hosts[t.From]
		if seen[t.BlobUUID] || p.carries(t) && (from.gives() || t.Rescue && from != nil && from.heard) {
			continue
		}
		seen[t.BlobUUID] = true
		wake = append(wake, t.BlobUUID)
	}
	if len(wake) == 0 {
		return nil
	}
	slices.Sort(wake)
	return []ha.Change{ha.WakeBlobs{UUIDs: wake}}
}

// carries reports whether a transfer's target goes on with it.
func (p *pass) carries(t ha.Transfer) bool {
	return p.hosts[t.To].takes() && p.now.Sub(t.MovedAt) < forgotten
}
