package simulation

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/ha"
)

// depot is what really lies on the hosts' blob disks, and their agents, which carry out orders. It keeps two promises that the rows cannot show:
// S2, no byte that is the last good copy is ever deleted; S3, never below want_copies by our own hand.
type depot struct {
	*disks
	rng     *rand.Rand // under mu, like all that follows
	blobs   []ha.Blob
	shelves map[string]*shelf // by host
	settled bool              // nothing goes wrong any more
}

// shelf is one host's.
type shelf struct {
	files  map[string]*file
	half   map[string]int64             // of a copy that was broken off
	news   map[string]ha.CopyReport     // that the API has not taken
	moves  map[string]ha.TransferReport // likewise
	broken bool                         // its disk has failed
	reads  bool                         // though it is broken
	away   time.Time                    // until then the API does not hear it
}

// file is a copy, or what became of it.
type file struct {
	good    bool
	aside   bool      // quarantined
	since   time.Time // when it ceased to be good
	claimed time.Time // when its agent last said that it has hashed it right
}

const (
	blobSize = 1000
	inBlobs  = 14 // in a world
)

// newDepot puts blobs on the hosts' disks: each is in one place, and wanted in more.
func newDepot(w *world) *depot {
	p := &depot{disks: w.disks, rng: rand.New(rand.NewPCG(w.seed, 11)), shelves: map[string]*shelf{}}
	for h := range hosts {
		p.shelves[hostName(h)] = &shelf{files: map[string]*file{}, half: map[string]int64{}, news: map[string]ha.CopyReport{}, moves: map[string]ha.TransferReport{}}
	}
	for range inBlobs {
		host := hostName(p.rng.IntN(hosts))
		b, err := w.store.AddBlob(w.ctx, ha.Blob{UUID: uuid.NewString(), Size: blobSize, SHA256: strings.Repeat("a", 64), WantCopies: 1 + p.rng.IntN(3)}, []string{w.hostID[host]})
		if err != nil {
			w.t.Fatal(err)
		}
		p.blobs = append(p.blobs, b)
		p.shelves[host].files[b.UUID] = &file{good: true}
	}
	w.disks.depot = p
	w.disks.start()
	for h := range hosts {
		go p.live(hostName(h))
	}
	return p
}

// live is a host's agent: it hashes in the background, reports, and carries out orders some seconds after it got them.
func (p *depot) live(host string) {
	for {
		p.mu.Lock()
		rest, act := time.Duration(5000+p.rng.IntN(9000))*time.Millisecond, time.Duration(p.rng.IntN(4000))*time.Millisecond
		p.mu.Unlock()
		if !p.sleep(rest) {
			return
		}
		if p.mute(host) {
			continue
		}
		p.scrub(host)
		p.report(host)
		orders, err := p.w.store.AgentOrders(p.w.ctx, p.w.hostID[host], time.Now().Add(-time.Hour))
		if err != nil {
			if p.w.ctx.Err() == nil {
				p.w.t.Errorf("orders of %s: %v", host, err)
			}
			continue
		}
		orders = append(orders, p.planted(host)...)
		for _, o := range orders {
			if o.Kind == ha.OrderDrop {
				p.counted(host, o)
			}
		}
		if !p.sleep(act) {
			return
		}
		if p.lives(host) {
			p.carryOut(host, orders)
		}
	}
}

func (p *depot) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.w.ctx.Done():
		return false
	}
}

func (p *depot) lives(host string) bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	_, dead := p.w.dead[host]
	return !dead
}

// mute reports whether nobody hears the host's agent.
func (p *depot) mute(host string) bool {
	if !p.lives(host) {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.shelves[host].away)
}

// scrub hashes some of what lies there.
func (p *depot) scrub(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.shelves[host]
	if s.broken {
		return
	}
	for _, b := range p.blobs {
		if p.rng.IntN(10) == 0 && s.files[b.UUID] != nil {
			p.hash(s, b)
		}
	}
}

// hash looks at what lies there of a blob and has it reported.
func (p *depot) hash(s *shelf, b ha.Blob) {
	f := s.files[b.UUID]
	state := ha.CopyMissing
	switch {
	case f == nil:
	case f.good:
		state, f.claimed = ha.CopyPresent, time.Now()
	default:
		state, f.aside = ha.CopyCorrupt, true
	}
	s.news[b.UUID] = ha.CopyReport{BlobUUID: b.UUID, State: state, Size: b.Size, SHA256: b.SHA256}
}

// say puts the news into a report.
func (p *depot) say(host string, r *ha.AgentReport) {
	s := p.shelves[host]
	r.URL, r.FreeBytes = "http://"+host, 1<<30
	for _, b := range p.blobs { // in order
		if c, is := s.news[b.UUID]; is {
			r.Copies = append(r.Copies, c)
		}
	}
	for _, id := range sortedKeys(s.moves) {
		r.Transfers = append(r.Transfers, s.moves[id])
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// heard forgets what the API has taken; one answer in ten is lost, and all is told again.
func (p *depot) heard(host string, r ha.AgentReport) {
	s := p.shelves[host]
	if p.rng.IntN(10) == 0 {
		return
	}
	for _, c := range r.Copies {
		if s.news[c.BlobUUID] == c {
			delete(s.news, c.BlobUUID)
		}
	}
	for _, t := range r.Transfers {
		if s.moves[t.UUID] == t {
			delete(s.moves, t.UUID)
		}
	}
}

func (p *depot) blob(id string) ha.Blob {
	return p.blobs[slices.IndexFunc(p.blobs, func(b ha.Blob) bool { return b.UUID == id })]
}

func (p *depot) carryOut(host string, orders []ha.AgentOrder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.shelves[host]
	for _, o := range orders {
		b := p.blob(o.Blob)
		switch o.Kind {
		case ha.OrderDrop:
			if !s.broken || p.w.plant == plantWipe {
				p.dropping(host, b)
				delete(s.files, b.UUID)
				p.hash(s, b)
			}
		case ha.OrderVerify, ha.OrderRestore:
			if s.broken {
				s.moves[o.ID] = ha.TransferReport{UUID: o.ID, State: ha.TransferFailed, Error: "input/output error"}
				continue
			}
			if f := s.files[b.UUID]; f != nil && o.Kind == ha.OrderRestore {
				f.aside = false
			}
			p.hash(s, b)
		case ha.OrderCancel:
			s.moves[o.ID] = ha.TransferReport{UUID: o.ID, State: ha.TransferFailed, Bytes: s.half[b.UUID]}
		case ha.OrderCopy:
			p.copy(host, o, b)
		}
	}
}

// copy fetches a part of a blob from the first source that gives it. The bytes are hashed on the way: what a rotten copy gives is refused.
func (p *depot) copy(host string, o ha.AgentOrder, b ha.Blob) {
	s := p.shelves[host]
	tell := func(state ha.TransferState, why string) {
		s.moves[o.ID] = ha.TransferReport{UUID: o.ID, State: state, Bytes: s.half[b.UUID], Error: why}
	}
	if s.broken || !p.settled && p.rng.IntN(10) == 0 {
		tell(ha.TransferFailed, "broken off")
		return
	}
	for _, source := range o.Sources {
		from := p.w.hostOf[source.Host]
		at := p.shelves[from]
		if f := at.files[b.UUID]; !p.lives(from) || at.broken && !at.reads || f == nil || !f.good {
			continue
		}
		if s.half[b.UUID] += 400; s.half[b.UUID] < b.Size {
			tell(ha.TransferRunning, "")
			return
		}
		delete(s.half, b.UUID)
		s.files[b.UUID] = &file{good: true}
		p.hash(s, b)
		tell(ha.TransferDone, "")
		return
	}
	tell(ha.TransferFailed, "no source gives it")
}

// counted is invariant S3, by the rows at the moment that a drop is ordered: as many others as are wanted are known to be good, or one where
// what is dropped is no copy.
func (p *depot) counted(host string, o ha.AgentOrder) {
	b, err := p.w.store.Blob(p.w.ctx, o.Blob)
	if err != nil {
		return
	}
	sure, needs := 0, b.WantCopies
	for _, l := range b.Locations {
		if l.HostUUID == p.w.hostID[host] {
			needs = l.DropNeeds(b.Blob)
			continue
		}
		health, open, err := p.w.store.StorageHealth(p.w.ctx, l.HostUUID)
		if err != nil {
			return
		}
		if l.State == ha.LocationPresent && l.VerifiedAt != nil && open == nil && time.Since(health.ReportedAt) <= ha.AgentSilence {
			sure++
		}
	}
	p.w.tell("%s is ordered to drop blob %.8s; %d others are sure, %d are needed", host, o.Blob, sure, needs)
	if sure < max(1, needs) {
		p.w.violated("S3", "%s is ordered to drop blob %s while %d other copies are known to be good, of %d", host, o.Blob, sure, needs)
	}
}

// dropping is invariant S2, by what really lies there. A copy elsewhere counts that is good, or was when its agent last hashed it: what rots
// afterwards nobody can know.
func (p *depot) dropping(host string, b ha.Blob) {
	if f := p.shelves[host].files[b.UUID]; f == nil || !f.good {
		return
	}
	for at, s := range p.shelves {
		if f := s.files[b.UUID]; at != host && f != nil && (f.good || !f.claimed.IsZero() && f.claimed.Before(f.since)) {
			return
		}
	}
	p.w.violated("S2", "%s deletes blob %s, and no good copy is left", host, b.UUID)
}

// copies counts the good copies of a blob, wherever they are.
func (p *depot) copies(blob string) (n int) {
	for _, s := range p.shelves {
		if f := s.files[blob]; f != nil && f.good {
			n++
		}
	}
	return n
}

// trouble is one thing that goes wrong with a disk or an agent, or is mended.
func (p *depot) trouble() {
	p.mu.Lock()
	host, b, kind, n := hostName(p.rng.IntN(hosts)), p.blobs[p.rng.IntN(len(p.blobs))], p.rng.IntN(12), p.rng.IntN(1000)
	s := p.shelves[host]
	broken := s.broken
	switch {
	case kind < 2:
		s.away = time.Now().Add(time.Duration(10+n) * time.Second)
		p.mu.Unlock()
		p.w.tell("the agent of %s is cut off for %d s", host, 10+n)
		return
	case kind < 4 && p.copies(b.UUID) > 1: // bytes rot; never the last good ones
		for at := n; ; at++ {
			host = hostName(at % hosts)
			if f := p.shelves[host].files[b.UUID]; f != nil && f.good {
				f.good, f.since = false, time.Now()
				break
			}
		}
		p.mu.Unlock()
		p.w.tell("blob %.8s rots on %s", b.UUID, host)
		return
	}
	if kind >= 4 && kind < 8 && !broken {
		s.broken, s.reads = true, n%2 == 0
	}
	p.mu.Unlock()
	switch {
	case kind < 4:
	case kind < 8 && !broken:
		p.fail(host, "blobs")
		if n%3 == 0 {
			p.fail(host, "instances")
		}
	case kind < 8:
	default:
		p.mend(host)
	}
}

// mend repairs a host's disks, if any has failed, and an operator clears its episode.
func (p *depot) mend(host string) {
	p.mu.Lock()
	s := p.shelves[host]
	broken := s.broken
	s.broken = false
	p.mu.Unlock()
	if !broken {
		return
	}
	p.repair(host, "blobs")
	p.repair(host, "instances")
	p.clear(host)
}

func (p *depot) clear(host string) {
	_, err := p.w.store.ClearStorage(p.w.ctx, ha.Clear{HostUUID: p.w.hostID[host], By: "alice", Force: true})
	if none := (*ha.ConflictError)(nil); err != nil && !errors.As(err, &none) {
		p.w.t.Errorf("clearing %s: %v", host, err)
	}
}

// rest ends all trouble of disks and agents.
func (p *depot) rest() {
	p.mu.Lock()
	p.settled = true
	for _, s := range p.shelves {
		s.away = time.Time{}
	}
	p.mu.Unlock()
	for h := range hosts {
		p.mend(hostName(h))
		p.report(hostName(h))
		p.clear(hostName(h)) // what was reported late
	}
}

// unsettled lists the blobs that are not as they should be.
func (p *depot) unsettled() (list []string) {
	for _, b := range p.blobs {
		now, err := p.w.store.Blob(p.w.ctx, b.UUID)
		if err != nil {
			p.w.t.Fatal(err)
		}
		p.mu.Lock()
		n := p.copies(b.UUID)
		p.mu.Unlock()
		if n > 0 && (n != b.WantCopies || now.Durability != ha.DurabilityOK) || n == 0 && now.Durability != ha.DurabilityAtRisk {
			list = append(list, fmt.Sprintf("blob %s, wanted in %d places, is in %d, and said to be %s (%s): %+v %+v", b.UUID, b.WantCopies, n, now.Durability, now.Why, now.Locations, now.Transfers))
		}
	}
	return list
}

// planted are the drops of planted bugs: of what is to be dropped, without counting once more, or of what does not count.
func (p *depot) planted(host string) (drops []ha.AgentOrder) {
	state, planted := map[plant]ha.LocationState{plantNoRecount: ha.LocationDropping, plantWipe: ha.LocationSuspect}[p.w.plant]
	if !planted {
		return nil
	}
	for _, b := range p.blobs {
		now, err := p.w.store.Blob(p.w.ctx, b.UUID)
		if err != nil {
			return nil
		}
		for _, l := range now.Locations {
			if l.HostUUID == p.w.hostID[host] && l.State == state {
				drops = append(drops, ha.AgentOrder{ID: "planted", Kind: ha.OrderDrop, Blob: b.UUID})
			}
		}
	}
	return drops
}
