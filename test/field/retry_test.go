package field

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
	"github.com/salvor-ha/salvor/internal/sim"
)

// Nova is away for half an hour, before or in the middle of a recovery: it completes by itself, and no attempt is used up.
func TestF069NovaAwayHalfAnHour(t *testing.T) {
	away := func(s *scene) {
		s.fault(sim.FaultRule{Status: 503})
		time.Sleep(30 * time.Minute)
		s.cloud.ClearFaults()
	}
	t.Run("before", func(t *testing.T) {
		play(t, cast{}, func(s *scene) {
			ids := s.instances("host-1", 3, ofHA())
			s.dies("host-1")
			note := s.down("host-1")
			away(s)
			s.becomes(note, ha.StatusFinished, "3 of 3", 5*time.Minute)
			for _, id := range ids {
				s.arrived(id, "host-1", ha.VMActive)
			}
		})
	})
	t.Run("in the middle", func(t *testing.T) {
		play(t, cast{cloud: sim.Options{Rate: 0.5}}, func(s *scene) {
			ids := s.instances("host-1", 6, ofHA())
			s.dies("host-1")
			note := s.down("host-1")
			s.until("two are moved", time.Minute, func() bool { return len(s.away(ids, "host-1")) == 2 })
			before := len(s.writes())
			go away(s)
			s.pass(29 * time.Minute)
			if status, message := s.note(note); status != ha.StatusRunning {
				t.Errorf("%s %q", status, message)
			}
			if n := len(s.writes()) - before; n > 6*29*3 {
				t.Errorf("%d calls to change something: no back-off", n)
			}
			s.becomes(note, ha.StatusFinished, "6 of 6", 10*time.Minute)
			for _, id := range ids {
				s.arrived(id, "host-1", ha.VMActive)
			}
			s.harmless()
		})
	})
	t.Run("the database and every engine's Nova are well, one engine is cut off from Nova", func(t *testing.T) {
		play(t, cast{}, func(s *scene) {
			id := s.instances("host-1", 1, ofHA())[0]
			s.procs[0].nova.Partition()
			s.dies("host-1")
			note := s.down("host-1")
			s.becomes(note, ha.StatusRunning, "waiting at gate nova", 2*time.Minute)
			s.pass(10 * time.Minute)
			s.untouched()
			s.procs[0].nova.Heal()
			s.becomes(note, ha.StatusFinished, "1 of 1", 5*time.Minute)
			s.arrived(id, "host-1", ha.VMActive)
		})
	})
}

// A host that comes and goes is not put back into service, even where hosts return by themselves, before it has been well for
// healthy_delay.
func TestF071FlappingHost(t *testing.T) {
	play(t, cast{rules: func(r *plan.Rules) { r.AutoReturn = true }}, func(s *scene) {
		s.instances("host-1", 1, ofHA())
		s.dies("host-1")
		s.becomes(s.down("host-1"), ha.StatusFinished, "1 of 1", time.Minute)
		for range 20 {
			s.returns("host-1")
			s.pass(20 * time.Second)
			if svc := s.service("host-1"); !svc.ForcedDown || !svc.Disabled {
				t.Fatalf("put back while it flaps: %+v", svc)
			}
			s.must(s.cloud.Kill("host-1"))
			s.pass(time.Minute)
		}
		s.returns("host-1")
		back := time.Now()
		s.until("it is back in service", 30*time.Minute, func() bool {
			svc := s.service("host-1")
			return !svc.ForcedDown && !svc.Disabled && !s.registered("host-1").OnMaintenance
		})
		if took := time.Since(back); took < 5*time.Minute {
			t.Errorf("back after %s", took)
		}
	})
}

// An error that nobody has foreseen, at any write: the notification ends with its text, nothing stays running without an owner.
func TestF073UnexpectedErrorEndsWithItsText(t *testing.T) {
	for name, is := range map[string]func(ha.Change) bool{
		"a move cannot be written":      func(c ha.Change) bool { _, is := c.(ha.PutMove); return is },
		"a claim cannot be written":     func(c ha.Change) bool { _, is := c.(ha.PutClaim); return is },
		"the journal cannot be written": func(c ha.Change) bool { w, is := c.(ha.Write); return is && w.Entry.Kind == ha.EntryProgress },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, cast{}, func(s *scene) {
				id := s.instances("host-1", 1, ofHA())[0]
				s.procs[0].db.refuses(func(changes []ha.Change) error {
					if slices.ContainsFunc(changes, is) {
						return errors.New("value too long for column 7")
					}
					return nil
				})
				s.dies("host-1")
				note := s.down("host-1")
				s.becomes(note, ha.StatusFailed, "value too long for column 7", time.Minute)
				if s.instance(id).Locked {
					t.Error("stays locked")
				}
				s.procs[0].db.refuses(nil) // repaired, an operator retries it
				s.retries(note)
				s.becomes(note, ha.StatusFinished, "1 of 1", 3*time.Minute)
				s.arrived(id, "host-1", ha.VMActive)
			})
		})
	}
}

// Whatever ended a recovery, an operator's retry is the same recovery again, at any later time; one of a finished one is refused.
func TestF075RetryAfterExpiry(t *testing.T) {
	play(t, cast{rules: func(r *plan.Rules) { r.Expiry = 10 * time.Minute }}, func(s *scene) {
		id := s.instances("host-1", 1, ofHA())[0]
		crashed := s.instances("host-2", 1, ofHA())[0]
		s.dies("host-1")
		s.fault(sim.FaultRule{Status: 503})
		note := s.down("host-1")
		crash := s.reports("host-2", ha.TypeVM, crashPayload(crashed))
		s.becomes(note, ha.StatusFailed, "expired: older than 10m0s", 20*time.Minute)
		s.becomes(crash, ha.StatusFailed, "expired: older than 10m0s", 20*time.Minute)
		s.cloud.ClearFaults()
		s.pass(2 * time.Hour)
		for _, n := range []string{note, crash} {
			s.retries(n)
			s.becomes(n, ha.StatusFinished, "", 5*time.Minute)
		}
		s.arrived(id, "host-1", ha.VMActive)
		if n := len(s.acts("os-start", crashed)); n != 1 {
			t.Errorf("%d starts", n)
		}
		refused := as[*ha.ConflictError](s, s.salvor.Wish(s.ctx, note, ha.Wish{Kind: ha.WishRetry, By: "op"}))
		if refused.Text != fmt.Sprintf("The recovery of notification %s has ended finished: only a failed one can be retried. If it is needed again, report it again.", note) {
			t.Error(refused.Text)
		}
	})
	t.Run("one that cannot succeed expires again", func(t *testing.T) {
		play(t, cast{rules: func(r *plan.Rules) { r.Expiry = 10 * time.Minute }}, func(s *scene) {
			s.instances("host-1", 1, ofHA())
			s.dies("host-1")
			s.fault(sim.FaultRule{Status: 503})
			note := s.down("host-1")
			s.becomes(note, ha.StatusFailed, "expired", 20*time.Minute)
			s.retries(note)
			at := time.Now()
			s.becomes(note, ha.StatusFailed, "expired", 20*time.Minute)
			if took := time.Since(at); took < 9*time.Minute || took > 11*time.Minute {
				t.Errorf("expired %s after the retry", took)
			}
		})
	})
}
