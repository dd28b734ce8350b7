package openstack

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/salvor-ha/salvor/internal/wire"
	"github.com/salvor-ha/salvor/test/openstack/lab"
)

// The hosts of this part. The hung one runs, though nothing is heard of it, and its BMC can be reached; the dark one has lost its
// power, and its BMC with it.
const (
	hung = "compute-2"
	dark = "compute-3"
)

// unsure is what a monitor that is not sure reports.
var unsure = map[string]string{"event": "STOPPED", "host_status": "UNKNOWN", "cluster_status": "OFFLINE"}

// fencing: a monitor is not sure that hosts are dead. One is powered off and seen off before anything is ordered; of the other
// nothing can be seen, so that nothing is ordered until an operator gives his word.
func (s *suite) fencing(t *testing.T) {
	var mu sync.Mutex
	each(t, []string{hung, dark}, func(ctx context.Context, host string) error {
		ids, err := s.lab.Boot(ctx, s.image, 2, host, prefix+"of-"+host, map[string]string{"HA_Enabled": "True"})
		mu.Lock()
		defer mu.Unlock()
		s.of[host] = ids
		return err
	})
	must(t, s.lab.Hang(hung))
	s.bmcs.Dark(dark, true)
	must(t, s.lab.Kill(t.Context(), dark))
	notes := map[string]string{}
	for _, host := range []string{hung, dark} {
		notes[host] = s.tell(t, "COMPUTE_HOST", host, unsure)
	}

	t.Run("fenced, seen off, recovered", func(t *testing.T) {
		s.awaitEnd(t, notes[hung], "finished")
		if _, on := s.lab.Pid(hung); on {
			t.Error("the host was not powered off")
		}
		r := s.recovery(t, notes[hung])
		if r.Unit == nil || r.Unit.Proof == nil || r.Unit.Proof.Kind != "fenced" || !strings.Contains(r.Unit.Proof.Text, hung+" was seen off: redfish: off, seen at ") {
			t.Errorf("the proof is %+v, want it fenced and seen off", r.Unit.Proof)
		}
		seen, ordered := -1, -1
		for i, e := range r.Timeline {
			if strings.HasPrefix(e.Text, "power of "+hung+" by redfish at ") && strings.Contains(e.Text, ": off, ") {
				seen = i
			}
			if e.Act != nil && *e.Act == "evacuate" && ordered < 0 {
				ordered = i
			}
		}
		if seen < 0 || ordered < seen {
			t.Errorf("seen off in line %d of the timeline, first order in line %d", seen, ordered)
		}
		if n := s.bmcs.Asked("POST", hung); n != 1 {
			t.Errorf("powered off %d times, want 1", n)
		}
		s.movedOnce(t, hung, s.of[hung])
	})

	t.Run("with a dark BMC an operator's word is needed", func(t *testing.T) {
		untouched := func() {
			t.Helper()
			for _, id := range s.of[dark] {
				v, err := s.lab.Server(t.Context(), id)
				must(t, err)
				if records := s.evacuations(t, id); v.Host != dark || v.Locked || len(records) > 0 {
					t.Errorf("%s: touched without a proof; evacuations %+v", v, records)
				}
			}
			if v := s.service(t, dark); v.ForcedDown || v.Status != "enabled" {
				t.Errorf("its service was changed without a proof: %+v", v)
			}
		}
		r := s.awaitWords(t, notes[dark], dark+" could not be fenced", "redfish: not seen: no answer within 1s", "salvor host confirm-off "+dark)
		if r.Unit.Proof != nil {
			t.Errorf("proven by %+v", r.Unit.Proof)
		}
		untouched()
		// Nova sees it down by itself, which does not make an unsure report a sure one; and the BMC is tried again.
		must(t, s.lab.AwaitService(t.Context(), dark, "down", soon, func(v lab.Service) bool { return v.State == "down" }))
		asked := s.bmcs.Asked("GET", dark)
		must(t, lab.Until(t.Context(), "another try at the dark BMC", soon, func() (bool, error) { return s.bmcs.Asked("GET", dark) > asked, nil }))
		untouched()
		if code, out := s.run(t, "fence", "status", "--host", dark, "--config-file", s.conf); code != 1 || !strings.Contains(out, "unknown") {
			t.Errorf("salvor fence status: exit code %d\n%s", code, out)
		}

		var confirmed struct {
			ID string `json:"notification_uuid"`
		}
		out := s.mustRun(t, "host", "confirm-off", dark, "--reason", "pulled the power cord", "-o", "json")
		must(t, json.Unmarshal([]byte(out), &confirmed))
		s.awaitEnd(t, confirmed.ID, "finished")
		r = s.recovery(t, confirmed.ID)
		if r.Unit.Proof == nil || r.Unit.Proof.Kind != "confirmed" || r.Unit.Proof.Text != "admin confirmed that "+dark+` is off ("pulled the power cord")` {
			t.Errorf("the proof is %+v", r.Unit.Proof)
		}
		if out := s.mustRun(t, "recovery", "show", confirmed.ID); !strings.Contains(out, `admin confirmed that `+dark+` is off ("pulled the power cord")`) {
			t.Errorf("recovery show does not say who:\n%s", out)
		}
		s.awaitEnd(t, notes[dark], "ignored")
		s.movedOnce(t, dark, s.of[dark])
	})
}

// fencedComeBack: with auto_return hosts go back into service by themselves, also one of which no monitor says that it is back;
// what was evacuated from them stays where it is.
func (s *suite) fencedComeBack(t *testing.T) {
	t.Parallel()
	conf, err := os.ReadFile(s.conf)
	must(t, err)
	must(t, os.WriteFile(s.conf, append(conf, "auto_return = true\n"...), 0o600))
	s.salvor.Signal(syscall.SIGHUP)
	s.salvor.Await(t, `option taken over.*auto_return`, soon)
	for _, host := range []string{dark, hung} {
		must(t, s.lab.Revive(t.Context(), host))
	}
	s.tell(t, "COMPUTE_HOST", hung, map[string]string{"event": "STARTED", "host_status": "NORMAL", "cluster_status": "ONLINE"})
	for _, host := range []string{hung, dark} {
		must(t, s.lab.AwaitService(t.Context(), host, "in service again", soon, func(v lab.Service) bool {
			return !v.ForcedDown && v.State == "up" && v.Status == "enabled" && v.DisabledReason == ""
		}))
		must(t, lab.Until(t.Context(), "the maintenance of "+host+" to end", soon, func() (bool, error) {
			h, err := s.api.Host(t.Context(), s.segment, s.hosts[host])
			return !h.OnMaintenance, err
		}))
		for _, id := range s.of[host] {
			s.once(t, id, host)
		}
	}
}

// once: a server that was evacuated from a host that is back is in one place, and the host has removed its own copy.
func (s *suite) once(t *testing.T, id, back string) {
	t.Helper()
	v, err := s.lab.Server(t.Context(), id)
	must(t, err)
	held, err := s.lab.Providers(t.Context(), v.ID)
	must(t, err)
	if v.Host == back || len(held) != 1 || held[0] != v.Host {
		t.Errorf("%s: Placement holds resources on %v, after %s came back", v, held, back)
	}
	for _, m := range s.evacuations(t, v.ID) {
		if m.Status != "completed" {
			t.Errorf("%s: the evacuation's record is %q, so that an old copy may be left", v, m.Status)
		}
	}
}

// movedOnce: active elsewhere by one order, and unlocked.
func (s *suite) movedOnce(t *testing.T, from string, ids []string) {
	t.Helper()
	for _, id := range ids {
		v, err := s.lab.Server(t.Context(), id)
		must(t, err)
		if records := s.evacuations(t, id); v.Host == from || v.VMState != "active" || !v.Idle() || v.Locked || len(records) != 1 {
			t.Errorf("%s: evacuations %+v", v, records)
		}
	}
}

// recovery is what salvor's own api shows of a notification.
func (s *suite) recovery(t *testing.T, notification string) wire.Recovery {
	t.Helper()
	r, err := s.api.Recovery(t.Context(), notification)
	must(t, err)
	return r
}

// awaitWords waits until a notification that is not done with has these words in its message.
func (s *suite) awaitWords(t *testing.T, notification string, words ...string) (r wire.Recovery) {
	t.Helper()
	err := lab.Until(t.Context(), "notification "+notification+" to say why it waits", soon, func() (bool, error) {
		var err error
		if r, err = s.api.Recovery(t.Context(), notification); err != nil || r.Status != "running" || r.Message == nil {
			return false, err
		}
		for _, word := range words {
			if !strings.Contains(*r.Message, word) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, s.explain(t, notification))
	}
	return r
}
