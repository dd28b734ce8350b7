package field

import (
	"fmt"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/sim"
)

// Four of six hosts are lost within a minute, told by two observers: three are recovered, the fourth is held at the brake with its
// numbers and nothing of it is touched; an operator who has looked releases it, and it is recovered.
func TestPartitionOfFourOfSix(t *testing.T) {
	play(t, cast{engines: 2, cloud: sim.Options{Hosts: 6}}, func(s *scene) {
		ids, notes := map[string]string{}, map[string]string{}
		for i := range 4 {
			host := fmt.Sprintf("host-%d", i+1)
			ids[host] = s.instances(host, 1, ofHA())[0]
			s.must(s.cloud.Kill(host))
		}
		s.until("Nova sees all of them down", time.Minute, func() bool {
			up := 0
			for host := range ids {
				if s.service(host).Up {
					up++
				}
			}
			return up == 0
		})
		// Only those that are reported by then are down for the brake at once; Nova sees all four. The first report of all is held, too.
		for i := range 4 {
			host := fmt.Sprintf("host-%d", i+1)
			notes[host] = s.down(host)
			_, err := s.posts(host, ha.TypeComputeHost, time.Now().Add(time.Second), hostPayload(ha.EventStopped, ha.HostStatusNormal))
			as[*ha.DuplicateError](s, err) // the second observer
			s.pass(10 * time.Second)
		}
		for host, note := range notes {
			s.becomes(note, ha.StatusRunning, "waiting at gate brake: 4 of 6 hosts of the segment are down, brake at more than 50 %", time.Minute)
			if s.instance(ids[host]).Evacuations != 0 || s.service(host).Disabled {
				t.Errorf("%s was touched", host)
			}
		}
		s.untouched()
		s.must(s.salvor.Wish(s.ctx, notes["host-1"], ha.Wish{Kind: ha.WishRelease, By: "op"}))
		s.becomes(notes["host-1"], ha.StatusFinished, "1 of 1", time.Minute)
		if status, _ := s.note(notes["host-2"]); status != ha.StatusRunning {
			t.Errorf("a release of one host's recovery let another's go: %s", status)
		}
		for _, host := range []string{"host-2", "host-3", "host-4"} {
			s.must(s.salvor.Wish(s.ctx, notes[host], ha.Wish{Kind: ha.WishRelease, By: "op"}))
			s.becomes(notes[host], ha.StatusFinished, "1 of 1", time.Minute)
			s.arrived(ids[host], host, ha.VMActive)
		}
		s.harmless()
	})
}

// The same four, lost one after the other within a minute: those up to the limit are recovered before the brake trips, and the fourth
// waits with the numbers until it is released.
func TestFourthOfSixIsHeld(t *testing.T) {
	play(t, cast{engines: 2, cloud: sim.Options{Hosts: 6}}, func(s *scene) {
		var notes, ids []string
		for i := range 4 {
			host := fmt.Sprintf("host-%d", i+1)
			ids = append(ids, s.instances(host, 1, ofHA())[0])
			s.dies(host)
			notes = append(notes, s.down(host))
			if i < 3 {
				s.becomes(notes[i], ha.StatusFinished, "instances moved", time.Minute)
				s.arrived(ids[i], host, ha.VMActive)
			}
		}
		s.becomes(notes[3], ha.StatusRunning, "waiting at gate brake: 4 of 6 hosts of the segment are down, brake at more than 50 %", time.Minute)
		s.pass(10 * time.Minute)
		if s.instance(ids[3]).Evacuations != 0 || s.service("host-4").ForcedDown || !s.alarmed("held by the brake: 4 of 6") {
			t.Errorf("%+v", s.service("host-4"))
		}
		s.must(s.salvor.Wish(s.ctx, notes[3], ha.Wish{Kind: ha.WishRelease, By: "op"}))
		s.becomes(notes[3], ha.StatusFinished, "instances moved", time.Minute)
		s.arrived(ids[3], "host-4", ha.VMActive)
		s.harmless()
	})
}

// The table of small segments: of a segment's hosts dying one by one, so many are recovered, and the next one is held.
func TestSmallSegments(t *testing.T) {
	for size, goes := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 3} {
		t.Run(fmt.Sprintf("%d hosts", size), func(t *testing.T) {
			play(t, cast{cloud: sim.Options{Hosts: size}}, func(s *scene) {
				for i := range min(goes+1, size) {
					host := fmt.Sprintf("host-%d", i+1)
					s.dies(host)
					note := s.down(host)
					if i < goes {
						s.becomes(note, ha.StatusFinished, "", time.Minute)
						continue
					}
					s.becomes(note, ha.StatusRunning, fmt.Sprintf("waiting at gate brake: %d of %d hosts of the segment are down", i+1, size), time.Minute)
					s.pass(time.Hour)
					if status, _ := s.note(note); status != ha.StatusRunning || s.service(host).ForcedDown {
						t.Errorf("host %d of %d: %s", i+1, size, status)
					}
				}
			})
		})
	}
}

// A slow cascade: one host every five minutes. Those lost before still count, though their recoveries have long ended; the brake lets
// go by itself when one of them is back.
func TestSlowCascadeIsCounted(t *testing.T) {
	play(t, cast{engines: 2, cloud: sim.Options{Hosts: 6}}, func(s *scene) {
		var note, id string
		for i := range 4 {
			host := fmt.Sprintf("host-%d", i+1)
			id = s.instances(host, 1, ofHA())[0]
			s.dies(host)
			note = s.down(host)
			if i < 3 {
				s.becomes(note, ha.StatusFinished, "instances moved", time.Minute)
			}
			s.pass(5 * time.Minute)
		}
		s.becomes(note, ha.StatusRunning, "waiting at gate brake: 4 of 6 hosts of the segment are down", time.Second)
		s.pass(30 * time.Minute)
		if s.instance(id).Evacuations != 0 {
			t.Error("it was moved")
		}
		s.returns("host-1")
		s.up("host-1")
		s.becomes(note, ha.StatusFinished, "instances moved", time.Minute)
		s.arrived(id, "host-4", ha.VMActive)
		s.harmless()
	})
}
