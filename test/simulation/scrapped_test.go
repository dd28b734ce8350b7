package simulation

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Operators take hosts out of salvor, alone or with their segment, dead or alive, and register some of them again. What salvor changed of
// them in Nova must come back all the same, though nobody can report them any more; what it leaves disabled must have been told.

// scrap takes a host out of salvor, or registers it again. A spare stays: what it was before is known by its row.
func (w *world) scrap(host string) {
	switch {
	case w.back.scrapped[host]:
		w.register(host)
	case w.back.prior[host].reason != "spare":
		err := w.store.DeleteHost(w.ctx, w.segment, w.hostID[host])
		w.tell("an operator deletes %s: %v", host, err)
		if err == nil {
			w.back.scrapped[host] = true
			delete(w.back.upkeep, host)
		} else if used := (*ha.InUseError)(nil); !errors.As(err, &used) {
			w.violated("I9", "%s cannot be deleted: %v", host, err)
		}
	}
}

// scrapSegment takes all hosts out of salvor at once.
func (w *world) scrapSegment() {
	for h := range hosts {
		w.back.prior[hostName(h)] = w.expected(hostName(h)) // of a spare, whether it is in use
	}
	if err := w.store.DeleteSegment(w.ctx, w.segment); err != nil {
		w.violated("I9", "the segment cannot be deleted: %v", err)
		return
	}
	w.tell("an operator deletes the segment")
	for h := range hosts {
		w.back.scrapped[hostName(h)] = true
	}
	clear(w.back.upkeep)
	seg, err := w.store.CreateSegment(w.ctx, ha.Segment{UUID: uuid.NewString(), Name: "rack", ServiceType: "COMPUTE", RecoveryMethod: ha.MethodAuto, Enabled: true})
	if err != nil {
		w.t.Fatal(err)
	}
	w.segment = seg.UUID
}

func (w *world) register(host string) {
	h, err := w.store.CreateHost(w.ctx, ha.Host{UUID: uuid.NewString(), Name: host, SegmentUUID: w.segment, Type: "COMPUTE", ControlAttributes: "SSH"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.hostID[host], w.hostOf[h.UUID] = h.UUID, host
	w.mu.Unlock()
	delete(w.back.scrapped, host)
	w.tell("%s is registered again", host)
}

// scrapSome is what happens before every host comes back.
func (w *world) scrapSome() {
	kind := w.back.rng.IntN(4)
	if kind == 0 {
		w.scrapSegment()
	}
	for h := range hosts {
		host := hostName(h)
		if kind == 1 && !w.back.scrapped[host] && w.back.rng.IntN(2) == 0 {
			w.scrap(host)
		}
	}
	w.pause(time.Duration(w.back.rng.IntN(150)) * time.Second)
	for h := range hosts {
		if host := hostName(h); w.back.scrapped[host] && w.back.rng.IntN(2) == 0 {
			w.register(host)
		}
	}
}

// toldOfLeft checks that somebody said what stays disabled of a host that is salvor's no more.
func (w *world) toldOfLeft(host string) {
	if s := w.service(host); !s.Disabled || !strings.HasPrefix(s.DisabledReason, "salvor") {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range w.story {
		if strings.Contains(line, fmt.Sprintf("ALARM %s: host %s was deleted", ha.AlarmLeftInNova, host)) {
			return
		}
	}
	w.mu.Unlock()
	w.violated("I9", "nobody said that the deleted %s is left disabled", host)
	w.mu.Lock()
}
