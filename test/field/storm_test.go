package field

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
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

// A storm ends: twelve of twenty hosts are silent, and come back one after the other. While the brake holds nothing is touched; who is
// back by the time that it lets go is left alone for good, and the dead are recovered, no faster than the rate lets them. What comes
// back in the middle of its recovery harms nothing. That the brake waits for a quiet time is not in RECOVERY.
func TestF121StormEnds(t *testing.T) {
	const hosts, silent, stay = 20, 12, 2
	play(t, cast{engines: 2, cloud: sim.Options{Hosts: hosts}, rules: func(r *plan.Rules) { r.RecoveryRate = 3 }}, func(s *scene) {
		var ids, notes []string
		name := func(i int) string { return fmt.Sprintf("host-%d", i+1) }
		for i := range silent {
			ids = append(ids, s.instances(name(i), 2, ofHA())...)
			s.must(s.cloud.Kill(name(i)))
		}
		s.until("Nova sees all of them down", time.Minute, func() bool {
			for i := range silent {
				if s.service(name(i)).Up {
					return false
				}
			}
			return true
		})
		for i := range silent {
			notes = append(notes, s.down(name(i)))
		}
		for _, note := range notes {
			s.becomes(note, ha.StatusRunning, "waiting at gate brake: 12 of 20", time.Minute)
		}
		s.pass(10 * time.Minute)
		s.untouched()

		var back []int // by the time that the brake let go
		for i := silent - 1; i >= stay; i-- {
			s.returns(name(i))
			s.up(name(i))
			if len(s.writes()) == 0 {
				back = append(back, i)
			}
			s.pass(20 * time.Second)
		}
		if len(back) < 2 {
			t.Fatalf("the brake let go with %d of %d back", len(back), silent)
		}
		for _, i := range back {
			if n := len(s.puts(name(i))); n != 0 || s.instance(ids[2*i]).Evacuations+s.instance(ids[2*i+1]).Evacuations != 0 {
				t.Errorf("%s was back and is recovered: %d PUTs", name(i), n)
			}
			s.becomes(notes[i], ha.StatusIgnored, "", time.Minute)
		}
		for i := range stay {
			s.becomes(notes[i], ha.StatusFinished, "2 of 2", 10*time.Minute)
			s.arrived(ids[2*i], name(i), ha.VMActive)
		}
		var begun []time.Time // of recoveries: each forces its host down first
		for i := range silent {
			if puts := s.puts(name(i)); len(puts) > 0 {
				begun = append(begun, puts[0].At)
			}
		}
		slices.SortFunc(begun, time.Time.Compare)
		for i := 3; i < len(begun); i++ {
			if gap := begun[i].Sub(begun[i-3]); gap < 55*time.Second {
				t.Errorf("four recoveries began within %s", gap)
			}
		}
		s.harmless()
	})
}

// The first answer of every gate is a look, not a guess: an engine that starts beside a dead host recovers it as soon as it has
// looked, and one that starts cut off from Nova, or from the database, does nothing until it can look.
func TestF123FirstLookAfterTheStart(t *testing.T) {
	t.Run("the host is dead already", func(t *testing.T) {
		play(t, cast{idle: true}, func(s *scene) {
			id := s.instances("host-1", 1, ofHA())[0]
			s.dies("host-1")
			note := s.down("host-1")
			s.pass(time.Hour)
			s.engine()
			s.until("it is ordered", 5*time.Second, func() bool { return len(s.acts("evacuate", id)) == 1 })
			s.becomes(note, ha.StatusFinished, "1 of 1", time.Minute)
		})
	})
	for name, cut := range map[string]func(p *process, away bool){
		"cut off from Nova": func(p *process, away bool) {
			if away {
				p.nova.Partition()
			} else {
				p.nova.Heal()
			}
		},
		"cut off from the database": func(p *process, away bool) { p.db.cut(away) },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, cast{idle: true}, func(s *scene) {
				dead := s.instances("host-1", 1, ofHA())[0]
				s.dies("host-1")
				note := s.down("host-1")
				healthy := s.down("host-2") // a false report
				p := s.engine()
				cut(p, true)
				s.pass(10 * time.Minute)
				s.untouched()
				cut(p, false)
				s.becomes(note, ha.StatusFinished, "1 of 1", time.Minute)
				s.becomes(healthy, ha.StatusIgnored, "", 3*time.Minute)
				s.arrived(dead, "host-1", ha.VMActive)
				if n := len(s.puts("host-2")); n != 0 {
					t.Errorf("the healthy host was changed %d times", n)
				}
				s.harmless()
			})
		})
	}
}
