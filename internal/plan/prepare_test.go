package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Step 1: maintenance under a claim, before anything is sent.
func TestStep1ClaimsMaintenance(t *testing.T) {
	w := hostDeath(t)
	w.run(2 * time.Second)
	if !w.unit.Host.OnMaintenance || !strings.Contains(w.claims(), "compute-1 maintenance recovery false") {
		t.Errorf("on maintenance %v, claims %s", w.unit.Host.OnMaintenance, w.claims())
	}
}

// A flag that is on while an operator's or another claim exists keeps its prior value.
func TestStep1KeepsThePriorMaintenance(t *testing.T) {
	w := hostDeath(t)
	w.unit.Host.OnMaintenance = true
	w.run(2 * time.Second)
	if !strings.Contains(w.claims(), "compute-1 maintenance recovery true") {
		t.Errorf("claims %s", w.claims())
	}
}

func TestStep1AReservedHostThatFailsIsNoLongerReserved(t *testing.T) {
	w := hostDeath(t)
	w.unit.Host.Reserved, w.peer(failedHost).Reserved = true, true
	w.toEnd(time.Minute)
	if w.unit.Host.Reserved || !strings.Contains(w.claims(), "compute-1 reserved recovery true") || w.wrote(ha.EntryNote, "no longer reserved") != 1 {
		t.Errorf("reserved %v, claims %s\n%s", w.unit.Host.Reserved, w.claims(), w.story())
	}
}

// Step 2: ONE call, whose claims are committed with its intent and know what was before (I9).
func TestStep2OnePut(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	var put ha.Act
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActService {
			put = a
			if c := w.claims(); c != "compute-1 disabled recovery enabled, compute-1 forced_down recovery false, compute-1 maintenance recovery false" {
				t.Errorf("claims when the PUT leaves: %s", c)
			}
		}
		return nil
	}
	w.toEnd(time.Minute)
	if w.count("service") != 1 || put.ServiceID != "id-compute-1" || put.Host != failedHost || put.Reason != w.rules.DisableReason ||
		put.ForcedDown == nil || !*put.ForcedDown || put.Enable == nil || *put.Enable {
		t.Errorf("PUT %+v of %v", put, w.sent)
	}
	for _, c := range w.unit.Claims {
		if c.What == ha.WhatForcedDown && !c.Seen.Equal(w.service(failedHost).UpdatedAt) {
			t.Errorf("the claim keeps %s, our PUT answered %s", c.Seen, w.service(failedHost).UpdatedAt)
		}
		if c.What == ha.WhatDisabled && c.Detail != w.rules.DisableReason {
			t.Errorf("we would not know our disable again: %+v", c)
		}
	}
}

// From proof to first order: at most a second beside Nova's own answers.
func TestStep2FastToTheFirstOrder(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.toEnd(time.Minute)
	if gap := w.when("evacuate") - w.when("service"); gap > time.Second {
		t.Errorf("%s from the PUT to the order", gap)
	}
}

// Somebody else disabled the service: status and reason stay theirs, and are not claimed.
func TestStep2SomebodyElsesDisableIsLeftAlone(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	svc := w.service(failedHost)
	svc.Enabled, svc.DisabledReason = false, "kernel update"
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	w.acts("service compute-1 down", "lock i1", "evacuate i1", "unlock i1")
	if svc := w.service(failedHost); svc.DisabledReason != "kernel update" || strings.Contains(w.claims(), "disabled") {
		t.Errorf("reason %q, claims %s", svc.DisabledReason, w.claims())
	}
}

// A process failure had disabled it: now the recovery does too, so that the process's return does not enable a dead host.
func TestStep2DisabledByAProcessFailureOfOurs(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	svc := w.service(failedHost)
	svc.Enabled, svc.DisabledReason = false, w.rules.ProcessReason
	w.unit.Claims = []ha.Claim{{HostUUID: w.unit.HostUUID, What: ha.WhatDisabled, Reason: ha.ReasonProcess, Detail: w.rules.ProcessReason, Prior: "enabled"}}
	w.toEnd(time.Minute)
	w.acts("service compute-1 down disable", "lock i1", "evacuate i1", "unlock i1")
	if svc := w.service(failedHost); svc.DisabledReason != w.rules.DisableReason {
		t.Errorf("reason %q", svc.DisabledReason)
	}
}

// The PUT's answer is lost, or it fails: what Nova shows decides, and nothing is ordered before it shows it.
func TestStep2LostAnswers(t *testing.T) {
	for _, c := range []struct {
		name string
		does reply
	}{
		{"done, answer lost", reply{err: inDoubt(), takes: true}},
		{"not done, answer lost", reply{err: inDoubt()}},
		{"busy", reply{err: busy()}},
		{"not sent", reply{err: &ha.CloudError{Class: ha.ClassNotSent}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := hostDeath(t)
			w.instance("i1")
			w.script = func(a ha.Act) *reply {
				if a.Kind == ha.ActService && w.count("service") == 1 {
					return &c.does
				}
				if a.Kind == ha.ActEvacuate && !w.service(failedHost).ForcedDown {
					t.Error("ordered while not forced down")
				}
				return nil
			}
			w.toEnd(time.Minute)
			w.end(ha.StatusFinished, "1 of 1")
			if n := w.count("service"); n > 2 { // the same PUT twice is harmless
				t.Errorf("sent %v", w.sent)
			}
			if strings.Count(w.claims(), "forced_down") != 1 || strings.Count(w.claims(), "disabled") != 1 {
				t.Errorf("claims %s", w.claims())
			}
		})
	}
}

// Nova is away for long in the middle of it: no attempt is used up.
func TestStep2NovaAway(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActService && w.now.Sub(w.start) < 20*time.Minute {
			w.away = broken()
			return &reply{err: inDoubt()}
		}
		return nil
	}
	w.at(20*time.Minute, func() { w.away = nil })
	w.toEnd(30 * time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	if w.unit.Failures != 0 {
		t.Errorf("%d failures", w.unit.Failures)
	}
}

func TestStep2RefusedIsAnError(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActService {
			return &reply{err: refused(403, "Policy doesn't allow it")}
		}
		return nil
	}
	w.run(10 * time.Second)
	if n := w.unit.Notification; n.Status != ha.StatusError || !strings.Contains(text(n.Message), "Nova refused to change the compute service of compute-1: Policy doesn't allow it") {
		t.Errorf("%s %q", n.Status, text(n.Message))
	}
	w.toEnd(time.Hour)
	w.end(ha.StatusFailed, "Policy doesn't allow it")
	if w.count("service") != 3 {
		t.Errorf("sent %v, want 3 attempts", w.sent)
	}
}

// Refused in a later attempt: what is still to be moved is not lost from sight (I3).
func TestStep2RefusedInALaterAttempt(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.faulty(1, "i1")
	faulty := w.script
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActService && w.count("service") > 1 {
			return &reply{err: refused(403, "no")}
		}
		return faulty(a)
	}
	w.until("in error", func() bool { return w.unit.Notification.Status == ha.StatusError }, time.Minute)
	w.service(failedHost).ForcedDown = false
	w.toEnd(time.Hour)
	w.end(ha.StatusFailed, "Nova refused to change the compute service of compute-1: no (403; salvor doctor says which right is missing, and how it is given); 0 moved, 1 not: i1")
	if w.unit.Failures != 3 {
		t.Errorf("%d failures", w.unit.Failures)
	}
}

// A takeover with the PUT under way: looked for, not repeated when it shows.
func TestStep2Takeover(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.script = func(a ha.Act) *reply {
		if a.Kind == ha.ActService {
			return &reply{err: inDoubt(), takes: true, answer: time.Hour}
		}
		return nil
	}
	w.until("the PUT is under way", func() bool { return w.count("service") == 1 }, time.Minute)
	w.takeover()
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "1 of 1")
	w.acts("service compute-1 down disable", "lock i1", "evacuate i1", "unlock i1")
}

// force_down = false: poll until Nova calls it down, then disable; only then list and order.
func TestForceDownOff(t *testing.T) {
	without := func(t *testing.T) *world {
		w := unnoticed(t)
		w.rules.ForceDown = false
		return w
	}
	t.Run("Nova notices", func(t *testing.T) {
		w := without(t)
		w.at(70*time.Second, func() { w.notice(failedHost) })
		w.run(69 * time.Second)
		w.waiting("waiting for Nova to call compute-1 down (force_down is off)")
		w.acts()
		w.toEnd(time.Minute)
		w.end(ha.StatusFinished, "1 of 1")
		w.acts("service compute-1 disable", "lock i1", "evacuate i1", "unlock i1")
		if strings.Contains(w.claims(), "forced_down") {
			t.Errorf("claims %s", w.claims())
		}
	})
	t.Run("Nova never notices: error, and each attempt waits anew", func(t *testing.T) {
		w := without(t)
		w.rules.RetryInterval = 10 * time.Second
		w.run(15*time.Second + 184*time.Second)
		if n := w.unit.Notification; n.Status != ha.StatusError || !strings.Contains(text(n.Message), "Nova still calls compute-1 up after 3m0s") {
			t.Errorf("%s %q", n.Status, text(n.Message))
		}
		w.run(100 * time.Second)
		w.waiting("waiting for Nova to call compute-1 down")
		if w.unit.Attempt != 2 {
			t.Errorf("attempt %d", w.unit.Attempt)
		}
		w.notice(failedHost)
		w.toEnd(time.Minute)
		w.end(ha.StatusFinished, "1 of 1")
	})
	t.Run("down already", func(t *testing.T) {
		w := without(t)
		w.notice(failedHost)
		w.toEnd(time.Minute)
		w.acts("service compute-1 disable", "lock i1", "evacuate i1", "unlock i1")
	})
}

// Acts of an instance or process unit on this host end first, for at most nova_timeout (section 4).
func TestHostUnitWaitsForActsOfOthers(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.unit.InFlight = 1
	w.run(29 * time.Second)
	w.waiting("waiting for acts of other recoveries on compute-1")
	w.acts()
	w.toEnd(time.Minute)
	w.end(ha.StatusFinished, "")
}

func TestHostUnitGoesOnWhenActsOfOthersEnd(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1")
	w.unit.InFlight = 1
	w.reload = func() {
		if w.now.Sub(w.start) > 5*time.Second {
			w.unit.InFlight = 0
		}
	}
	w.toEnd(time.Minute)
	if at := w.when("service"); at < 5*time.Second || at > 7*time.Second {
		t.Errorf("PUT after %s", at)
	}
}

// Masakari's words in the details (contract section 9).
func TestDetailsOfAHostRecovery(t *testing.T) {
	w := hostDeath(t)
	w.instance("i1", func(s *ha.Server) { s.Metadata["HA_Enabled"] = "True" })
	w.instance("i2")
	w.toEnd(time.Minute)
	var got []string
	for _, e := range w.journal {
		if e.Kind == ha.EntryProgress || e.Kind == ha.EntryTask {
			got = append(got, strings.TrimSpace(e.Task+" "+e.State+e.Text))
		}
	}
	want := []string{
		"DisableComputeServiceTask Disabling compute service on host: 'compute-1'",
		"DisableComputeServiceTask Disabled compute service on host: 'compute-1'",
		"DisableComputeServiceTask SUCCESS",
		"PrepareHAEnabledInstancesTask Preparing instances for evacuation",
		"PrepareHAEnabledInstancesTask Total instances running on failed host 'compute-1' is 2",
		"PrepareHAEnabledInstancesTask Total HA Enabled instances count: '1'",
		"PrepareHAEnabledInstancesTask Total Non-HA Enabled instances count: '1'",
		"PrepareHAEnabledInstancesTask All instances (HA Enabled/Non-HA Enabled) should be considered for evacuation. Total count is: '2'",
		"PrepareHAEnabledInstancesTask Instances to be evacuated are: 'i1,i2'",
		"PrepareHAEnabledInstancesTask SUCCESS",
		"EvacuateInstancesTask Start evacuation of instances from failed host 'compute-1', instance uuids are: 'i1,i2'",
		"EvacuateInstancesTask Evacuation of instance started: 'i1'",
		"EvacuateInstancesTask Evacuation of instance started: 'i2'",
		"EvacuateInstancesTask Successfully evacuate instances 'i1,i2' from host 'compute-1'",
		"EvacuateInstancesTask Evacuation process completed!",
		"EvacuateInstancesTask SUCCESS",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("details:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
