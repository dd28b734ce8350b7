package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/salvor-ha/salvor/internal/ha"
)

// away is the take-back of a host that a recovery an hour ago forced down and disabled; it is still dead.
func away(t rapid.TB) *world {
	w := newWorld(t, ha.UnitTakeBack)
	w.unit.NotificationUUID = ""
	w.die(failedHost)
	svc := w.service(failedHost)
	svc.ForcedDown, svc.Up, svc.Enabled, svc.DisabledReason = true, false, false, w.rules.DisableReason
	svc.UpdatedAt = born.Add(-time.Hour)
	w.unit.Host.OnMaintenance, w.peer(failedHost).OnMaintenance = true, true
	for _, c := range []ha.Claim{
		{What: ha.WhatForcedDown, Prior: "false", Seen: svc.UpdatedAt},
		{What: ha.WhatDisabled, Prior: "enabled", Detail: w.rules.DisableReason},
		{What: ha.WhatMaintenance, Prior: "false"},
	} {
		c.HostUUID, c.Reason, c.WorkID, c.Since = w.unit.HostUUID, ha.ReasonRecovery, 99, born.Add(-time.Hour)
		w.unit.Claims = append(w.unit.Claims, c)
	}
	return w
}

func (w *world) reportStarted() { now := w.now; w.unit.Host.StartedAt = &now }

const kept = "compute-1 disabled recovery enabled, compute-1 maintenance recovery false"

// One list without the host's service, or with nothing in it, may be a lie: no claim is dropped over it.
func TestTakeBackDoesNotBelieveOneListWithoutTheService(t *testing.T) {
	for name, lie := range map[string]func(*world){
		"empty": func(w *world) { w.services = nil },
		"without it": func(w *world) {
			w.services = slices.DeleteFunc(slices.Clone(w.services), func(s ha.Service) bool { return s.Host == failedHost })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := away(t)
			truth := slices.Clone(w.services)
			lie(w)
			w.at(4*time.Second, func() { w.services = truth })
			w.run(10 * time.Second)
			if !strings.Contains(w.claims(), "forced_down") {
				t.Fatalf("claims left: %s", w.claims())
			}
			w.reportStarted()
			w.unit.Signal++
			w.run(2 * time.Minute)
			if svc := w.service(failedHost); svc.ForcedDown || w.claims() != kept {
				t.Errorf("forced down %v, claims %s", svc.ForcedDown, w.claims())
			}
		})
	}
}

// STARTED: forced_down is taken back; disable and maintenance stay for the operator, as in Masakari.
func TestTakeBackByStarted(t *testing.T) {
	w := away(t)
	w.run(10 * time.Minute)
	w.acts()
	w.live(failedHost)
	w.comes(0, w.reportStarted)
	w.run(2 * time.Minute)
	w.acts("service compute-1 up")
	if w.claims() != kept || w.service(failedHost).Enabled || !w.unit.Host.OnMaintenance {
		t.Errorf("claims %s, enabled %v", w.claims(), w.service(failedHost).Enabled)
	}
}

// Orders that lie in its queue are told of before forced_down is taken back, and are no concern afterwards.
func TestTakeBackTellsOfOrdersInTheQueue(t *testing.T) {
	order := func(w *world, instance string) {
		w.unit.Claims = append(w.unit.Claims, ha.Claim{HostUUID: w.unit.HostUUID, What: ha.WhatOrder, Reason: ha.ReasonRecovery, Detail: instance, Prior: "7", WorkID: 98, Since: born})
	}
	const told = "host compute-1 is coming back with evacuate orders from before it died"
	for name, c := range map[string]struct {
		set  func(*world)
		acts []string
	}{
		"reported STARTED": {func(w *world) { w.live(failedHost); w.reportStarted() }, []string{"service compute-1 up"}},
		"an operator ends its maintenance before it is started": {func(w *world) { w.unit.Host.OnMaintenance = false }, []string{"service compute-1 up"}},
		"cleared by somebody else":                              {func(w *world) { w.service(failedHost).ForcedDown = false }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := away(t)
			order(w, "i2")
			order(w, "i1")
			w.run(10 * time.Minute)
			if w.wrote(ha.EntryAlarm, "") != 0 {
				t.Error("alarm while it is away")
			}
			w.comes(0, func() { c.set(w) })
			w.script = func(ha.Act) *reply {
				if w.wrote(ha.EntryAlarm, told) != 1 {
					t.Error("not told before")
				}
				return nil
			}
			w.run(3 * time.Minute)
			w.acts(c.acts...)
			if w.wrote(ha.EntryAlarm, told) != 1 || w.wrote(ha.EntryAlarm, "purge_queue -p VHOST compute.compute-1); else look where these instances run: i1, i2") != 1 || w.claims() != kept {
				t.Errorf("claims %s\n%s", w.claims(), w.story())
			}
		})
	}
	t.Run("of a host that salvor did not force down", func(t *testing.T) {
		w := away(t)
		w.unit.Claims = nil
		order(w, "i1")
		w.toEnd(time.Second)
		if w.wrote(ha.EntryAlarm, told) != 1 || w.claims() != "" {
			t.Errorf("claims %s\n%s", w.claims(), w.story())
		}
	})
}

// deletedAway is the take-back of a host that was deleted from salvor while it was dead.
func deletedAway(t rapid.TB) *world {
	w := away(t)
	w.unit.HostDeleted, w.unit.Peers = true, nil
	return w
}

// What salvor changed in Nova outlasts the host's row: its take-back goes on, by the same rules, and tells what stays disabled.
func TestTakeBackOfADeletedHost(t *testing.T) {
	const told = "host compute-1 was deleted from salvor, which leaves it disabled in Nova (salvor: host failed). If it is in service again: " +
		"openstack compute service set --enable compute-1 nova-compute"
	for name, c := range map[string]struct {
		set  func(*world)
		acts []string
		left string // in Nova, and told
	}{
		"heard again":                      {func(w *world) { w.live(failedHost) }, []string{"service compute-1 up"}, told},
		"heard again, much later":          {func(w *world) { w.at(5*time.Hour, func() { w.live(failedHost) }) }, []string{"service compute-1 up"}, told},
		"reported STARTED before":          {func(w *world) { w.live(failedHost); w.reportStarted() }, []string{"service compute-1 up"}, told},
		"its maintenance was ended before": {func(w *world) { w.unit.Host.OnMaintenance = false }, []string{"service compute-1 up"}, told},
		"cleared by somebody":              {func(w *world) { w.service(failedHost).ForcedDown = false }, nil, told},
		"up and enabled by somebody":       {func(w *world) { w.service(failedHost).ForcedDown, w.service(failedHost).Enabled = false, true }, nil, ""},
		"disabled by somebody else": {func(w *world) {
			w.service(failedHost).ForcedDown, w.service(failedHost).DisabledReason = false, "new kernel"
		}, nil, ""},
		"forced down by somebody before us": {func(w *world) { w.unit.Claims[0].Prior = "true"; w.reportStarted() }, nil, told},
		"not given back by auto_return":     {func(w *world) { w.rules.AutoReturn = true; w.live(failedHost) }, []string{"service compute-1 up"}, told},
		"only disabled":                     {func(w *world) { w.service(failedHost).ForcedDown, w.unit.Claims = false, w.unit.Claims[1:] }, nil, told},
		"disabled for its process": {func(w *world) {
			w.service(failedHost).ForcedDown, w.service(failedHost).DisabledReason = false, w.rules.ProcessReason
			w.unit.Claims = []ha.Claim{{HostUUID: w.unit.HostUUID, What: ha.WhatDisabled, Reason: ha.ReasonProcess, Detail: w.rules.ProcessReason}}
		}, nil, "leaves it disabled in Nova (salvor: process failed)"},
		"gone from Nova": {func(w *world) {
			w.services = slices.DeleteFunc(w.services, func(s ha.Service) bool { return s.Host == failedHost })
		}, nil, ""},
		"registered anew": {func(w *world) { w.unit.Claims = w.unit.Claims[2:] }, nil, ""}, // which took the claims along
		"Nova is away at first": {func(w *world) {
			w.away = broken()
			w.at(10*time.Minute, func() { w.away = nil; w.live(failedHost) })
		}, []string{"service compute-1 up"}, told},
	} {
		t.Run(name, func(t *testing.T) {
			w := deletedAway(t)
			c.set(w)
			w.toEnd(6 * time.Hour)
			w.acts(c.acts...)
			alarms := 0
			if c.left != "" {
				alarms = 1
			}
			if w.wrote(ha.EntryAlarm, "") != alarms || w.wrote(ha.EntryAlarm, c.left) != alarms {
				t.Errorf("want %d alarms: %s\n%s", alarms, c.left, w.story())
			}
			if has := w.claims() != ""; has != (c.left != "") || strings.Contains(w.claims(), "forced_down") || strings.Contains(w.claims(), "maintenance") {
				t.Errorf("claims %s", w.claims()) // what is left is a claim, which a host that is registered anew has
			}
			if w.unit.Host.OnMaintenance != (name != "its maintenance was ended before") {
				t.Error("the row of a deleted host was changed")
			}
		})
	}
}

// A deleted host that stays dead costs what a live one does, and its claims stay.
func TestTakeBackOfADeletedHostParks(t *testing.T) {
	w := deletedAway(t)
	w.run(time.Hour)
	if n := w.looked["services"]; n > 60*8 || w.last.Park != time.Minute || w.ended {
		t.Errorf("%d looks in an hour, parks for %s, ended %v", n, w.last.Park, w.ended)
	}
	w.acts()
	if w.claims() != "compute-1 disabled recovery enabled, compute-1 forced_down recovery false" || w.wrote(ha.EntryAlarm, "") != 0 {
		t.Errorf("claims %s\n%s", w.claims(), w.story())
	}
}

// Nova refuses while its records remain, of a deleted host too; orders in its queue are told of.
func TestTakeBackOfADeletedHostIsRetried(t *testing.T) {
	w := deletedAway(t)
	w.unit.Claims = append(w.unit.Claims, ha.Claim{HostUUID: w.unit.HostUUID, What: ha.WhatOrder, Reason: ha.ReasonRecovery, Detail: "i1"})
	w.script = func(ha.Act) *reply {
		if w.now.Sub(w.start) < time.Hour {
			return &reply{err: refused(400, "records remain")}
		}
		return nil
	}
	w.live(failedHost)
	w.toEnd(2 * time.Hour)
	if w.service(failedHost).ForcedDown || w.claims() != "compute-1 disabled recovery enabled" {
		t.Errorf("claims %s\n%s", w.claims(), w.story())
	}
	for _, told := range []string{"old copies may run", "purge_queue -p VHOST compute.compute-1); else look where these instances run: i1", "leaves it disabled"} {
		if w.wrote(ha.EntryAlarm, told) != 1 {
			t.Errorf("not told: %s\n%s", told, w.story())
		}
	}
}

// One that was kept away for flapping is held at no gate any more: nobody could open it.
func TestTakeBackOfADeletedHostThatFlapped(t *testing.T) {
	w := deletedAway(t)
	w.rules.AutoReturn = true
	w.unit.HeldAt, w.unit.HeldWhy = ha.GateFlapping, "it has failed 9 times"
	w.run(time.Minute)
	if w.unit.HeldAt != "" {
		t.Errorf("held at %s", w.unit.HeldAt)
	}
}

// A STARTED from before the claim says nothing.
func TestTakeBackNotByAnOlderStarted(t *testing.T) {
	w := away(t)
	before := born.Add(-2 * time.Hour)
	w.unit.Host.StartedAt = &before
	w.run(10 * time.Minute)
	w.acts()
}

func TestTakeBackByAnOperatorEndingMaintenance(t *testing.T) {
	w := away(t)
	w.comes(time.Minute, func() { w.unit.Host.OnMaintenance = false })
	w.run(3 * time.Minute)
	w.acts("service compute-1 up")
}

// Some monitors never send STARTED: its heartbeats, moving for healthy_delay, are looked at each minute.
func TestTakeBackByHeartbeats(t *testing.T) {
	w := away(t)
	w.at(10*time.Minute, func() { w.live(failedHost) })
	w.run(14*time.Minute + 50*time.Second)
	w.acts()
	w.run(4 * time.Minute)
	w.acts("service compute-1 up")
	if at := w.when("service"); at < 15*time.Minute || at > 17*time.Minute {
		t.Errorf("taken back after %s, want 10 m + 5 m and at most a minute or two", at)
	}
}

// It comes and goes (F071): never back before it has been well for healthy_delay.
func TestTakeBackNotWhileItFlaps(t *testing.T) {
	w := away(t)
	var flap func()
	flap = func() {
		w.live(failedHost)
		w.at(120*time.Second, func() { w.die(failedHost) })
		w.at(220*time.Second, flap)
	}
	flap()
	w.run(time.Hour)
	w.acts()
}

// One PUT by somebody is no heartbeat, however often it is looked at.
func TestTakeBackNotByOnePut(t *testing.T) {
	w := away(t)
	w.at(time.Minute, func() { w.touch(failedHost) })
	w.run(time.Hour)
	w.acts()
}

// A host that is away is looked at each minute, and nobody holds its lease in between.
func TestTakeBackParks(t *testing.T) {
	w := away(t)
	w.run(time.Hour)
	if n := w.looked["services"]; n > 60*8 {
		t.Errorf("%d looks in an hour", n)
	}
	if w.last.Park != time.Minute {
		t.Errorf("parks for %s", w.last.Park)
	}
}

// Nova refuses while its records remain: waited out; after ten minutes a critical alarm, once.
func TestTakeBackRefusalsAreWaitedOut(t *testing.T) {
	w := away(t)
	refuses := 9 * time.Minute
	w.script = func(a ha.Act) *reply {
		if w.now.Sub(w.start) < refuses {
			return &reply{err: refused(400, "Unable to force up host compute-1 as `done` evacuation migration records remain")}
		}
		return nil
	}
	w.live(failedHost)
	w.reportStarted()
	w.run(8 * time.Minute)
	if w.wrote(ha.EntryAlarm, "") != 0 || w.count("service") < 5 {
		t.Errorf("sent %d\n%s", w.count("service"), w.story())
	}
	w.run(3 * time.Minute)
	if w.service(failedHost).ForcedDown || w.claims() != kept {
		t.Errorf("not taken back: %s", w.claims())
	}
	if w.wrote(ha.EntryAlarm, "") != 0 {
		t.Error("alarm before ten minutes")
	}
}

func TestTakeBackAlarmAfterTenMinutes(t *testing.T) {
	w := away(t)
	w.record("i1", ha.MigrationEvacuation, "done", failedHost, "compute-2")
	w.record("i2", ha.MigrationEvacuation, "completed", failedHost, "compute-2")
	w.script = func(ha.Act) *reply { return &reply{err: refused(400, "records remain")} }
	w.live(failedHost)
	w.reportStarted()
	w.run(9 * time.Minute)
	if w.wrote(ha.EntryAlarm, "") != 0 {
		t.Error("alarm before ten minutes")
	}
	w.takeover() // the next owner counts on
	w.run(3 * time.Minute)
	if w.wrote(ha.EntryAlarm, "old copies may run") != 1 {
		t.Errorf("no alarm by twelve minutes\n%s", w.story())
	}
	w.run(27 * time.Minute)
	if w.wrote(ha.EntryAlarm, "compute of compute-1 not restarted, old copies may run") != 1 || w.wrote(ha.EntryAlarm, "not cleaned up: i1") != 1 ||
		w.wrote(ha.EntryAlarm, "i2") != 0 {
		t.Errorf("want one alarm\n%s", w.story())
	}
	if n := w.count("service"); n > 100 {
		t.Errorf("%d PUTs: no back-off", n)
	}
	w.script = nil
	w.run(time.Minute)
	if w.service(failedHost).ForcedDown {
		t.Error("given up")
	}
}

// Lost answers: what Nova shows decides.
func TestTakeBackLostAnswers(t *testing.T) {
	for name, r := range map[string]reply{"done": {err: inDoubt(), takes: true}, "not done": {err: inDoubt()}, "done late": {err: inDoubt(), takes: true, effect: 20 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			w := away(t)
			w.script = func(ha.Act) *reply {
				if len(w.sent) == 1 {
					return &r
				}
				return nil
			}
			w.live(failedHost)
			w.reportStarted()
			w.run(5 * time.Minute)
			if w.service(failedHost).ForcedDown || w.claims() != kept {
				t.Errorf("forced down %v, claims %s", w.service(failedHost).ForcedDown, w.claims())
			}
		})
	}
}

// A takeover with the PUT under way.
func TestTakeBackTakeover(t *testing.T) {
	w := away(t)
	w.script = func(ha.Act) *reply {
		if len(w.sent) == 1 {
			return &reply{err: inDoubt(), takes: true, answer: time.Hour}
		}
		return nil
	}
	w.live(failedHost)
	w.reportStarted()
	w.until("sent", func() bool { return len(w.sent) == 1 }, time.Minute)
	w.takeover()
	w.run(5 * time.Minute)
	if w.service(failedHost).ForcedDown || w.claims() != kept {
		t.Errorf("forced down %v, claims %s", w.service(failedHost).ForcedDown, w.claims())
	}
}

// Somebody else cleared or enabled it: no longer ours, left alone.
func TestTakeBackSomebodyElseDidIt(t *testing.T) {
	t.Run("forced_down cleared", func(t *testing.T) {
		w := away(t)
		w.service(failedHost).ForcedDown, w.service(failedHost).Up = false, true
		w.run(2 * time.Minute)
		w.acts()
		if w.claims() != kept {
			t.Errorf("claims %s", w.claims())
		}
	})
	t.Run("enabled", func(t *testing.T) {
		w := away(t)
		w.service(failedHost).Enabled = true
		w.run(2 * time.Minute)
		w.acts()
		if strings.Contains(w.claims(), "disabled") {
			t.Errorf("claims %s", w.claims())
		}
	})
	t.Run("disabled with another reason", func(t *testing.T) {
		w := away(t)
		w.rules.AutoReturn = true
		w.service(failedHost).DisabledReason = "new kernel"
		w.live(failedHost)
		w.reportStarted()
		w.run(20 * time.Minute)
		w.acts("service compute-1 up")
		if w.service(failedHost).Enabled {
			t.Error("somebody else's disable was taken away")
		}
	})
	t.Run("forced down before us: prior value restored, so left forced down", func(t *testing.T) {
		w := away(t)
		w.unit.Claims[0].Prior = "true"
		w.live(failedHost)
		w.reportStarted()
		w.run(5 * time.Minute)
		w.acts()
		if !w.service(failedHost).ForcedDown || strings.Contains(w.claims(), "forced_down") {
			t.Errorf("claims %s", w.claims())
		}
	})
	t.Run("Nova has no such service any more", func(t *testing.T) {
		w := away(t)
		w.services = slices.DeleteFunc(w.services, func(s ha.Service) bool { return s.Host == failedHost })
		w.run(2 * time.Minute)
		if !w.ended || strings.Contains(w.claims(), "forced_down") || strings.Contains(w.claims(), "disabled") {
			t.Errorf("ended %v, claims %s", w.ended, w.claims())
		}
	})
}

// auto_return: enabled, and off maintenance, when it has been up for healthy_delay.
func TestTakeBackAutoReturn(t *testing.T) {
	for name, set := range map[string]func(*world){
		"reported STARTED":            func(w *world) { w.reportStarted() },
		"forced_down cleared by hand": func(w *world) { w.service(failedHost).ForcedDown = false },
		"by its heartbeats":           func(*world) {},
	} {
		t.Run(name, func(t *testing.T) {
			w := away(t)
			w.rules.AutoReturn = true
			set(w)
			w.live(failedHost)
			w.run(4 * time.Minute)
			if w.count("service compute-1 enable") != 0 {
				t.Errorf("enabled after %s", w.when("service compute-1 enable"))
			}
			w.toEnd(20 * time.Minute)
			if w.claims() != "" || w.unit.Host.OnMaintenance || !w.service(failedHost).Enabled || w.service(failedHost).ForcedDown {
				t.Errorf("claims %s, maintenance %v, %+v", w.claims(), w.unit.Host.OnMaintenance, w.service(failedHost))
			}
		})
	}
	t.Run("the answer of the enable is lost, and its owner with it", func(t *testing.T) {
		w := away(t)
		w.rules.AutoReturn = true
		w.script = func(a ha.Act) *reply {
			if a.Enable != nil && w.count("service compute-1 enable") == 1 {
				w.comes(time.Second, w.takeover)
				return &reply{err: inDoubt(), takes: true, answer: time.Hour}
			}
			return nil
		}
		w.live(failedHost)
		w.reportStarted()
		w.toEnd(20 * time.Minute)
		if w.claims() != "" || w.unit.Host.OnMaintenance {
			t.Errorf("claims %s", w.claims())
		}
	})
	t.Run("not while it is down", func(t *testing.T) {
		w := away(t)
		w.rules.AutoReturn = true
		w.comes(time.Minute, w.reportStarted)
		w.run(20 * time.Minute)
		if w.count("service compute-1 enable") != 0 {
			t.Errorf("sent %v", w.sent)
		}
	})
	t.Run("an operator's maintenance stays", func(t *testing.T) {
		w := away(t)
		w.rules.AutoReturn = true
		w.unit.Claims = append(w.unit.Claims, ha.Claim{HostUUID: w.unit.HostUUID, What: ha.WhatMaintenance, Reason: ha.ReasonOperator})
		w.live(failedHost)
		w.reportStarted()
		w.toEnd(20 * time.Minute)
		if !w.unit.Host.OnMaintenance || w.claims() != "compute-1 maintenance operator" {
			t.Errorf("claims %q, maintenance %v", w.claims(), w.unit.Host.OnMaintenance)
		}
	})
	t.Run("a storage failure still claims the disable", func(t *testing.T) {
		w := away(t)
		w.rules.AutoReturn = true
		w.unit.Claims = append(w.unit.Claims, ha.Claim{HostUUID: w.unit.HostUUID, What: ha.WhatDisabled, Reason: ha.ReasonStorage, Detail: "salvor: storage failed", Prior: "enabled"})
		w.live(failedHost)
		w.reportStarted()
		w.run(20 * time.Minute)
		if w.service(failedHost).Enabled {
			t.Errorf("a flag is on while any claim exists; sent %v", w.sent)
		}
	})
}

// A host recovery has precedence: the take-back waits for its end.
func TestTakeBackGivesWay(t *testing.T) {
	w := away(t)
	w.unit.HostUnit = 7
	w.live(failedHost)
	w.reportStarted()
	w.run(10 * time.Minute)
	w.acts()
	w.unit.HostUnit = 0
	w.run(time.Minute)
	w.acts("service compute-1 up")
}

// The host has died again while the take-back looked: what it sees is of before that recovery's claims, and drops none of them.
func TestTakeBackDropsNoClaimOfAHostUnitUnseen(t *testing.T) {
	for name, others := range map[string]func(*ha.Service){
		"forced_down cleared": func(s *ha.Service) { s.ForcedDown, s.Up = false, true },
		"enabled":             func(s *ha.Service) { s.Enabled = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := away(t)
			before := w.claims()
			others(w.service(failedHost))
			w.hostUnitUnseen()
			w.run(2 * time.Minute)
			w.acts()
			if w.unit.HostUnit == 0 || w.claims() != before {
				t.Errorf("host unit %d, claims %s", w.unit.HostUnit, w.claims())
			}
		})
	}
}

func TestTakeBackEndsWhenNothingIsClaimed(t *testing.T) {
	w := away(t)
	w.unit.Claims = nil
	w.toEnd(time.Second)
	w.acts()
}

func TestTakeBackNovaAway(t *testing.T) {
	w := away(t)
	w.away = broken()
	w.reportStarted()
	w.live(failedHost)
	w.run(20 * time.Minute)
	w.acts()
	w.away = nil
	w.run(2 * time.Minute)
	w.acts("service compute-1 up")
}

// Maintenance that a process's failure and a recovery both claim ends with the last of them, whichever that is: left on without a
// claim it would count as an operator's, and the host's next reports were refused.
func TestMaintenanceOfTwoClaimsEndsWithTheLast(t *testing.T) {
	t.Run("a recovery after a process's failure", func(t *testing.T) {
		w := hostDeath(t)
		w.stoppedBefore()
		w.toEnd(time.Minute)
		w.unit.Claims = slices.DeleteFunc(w.unit.Claims, func(c ha.Claim) bool { return c.Reason == ha.ReasonProcess }) // reported STARTED
		w.becomes(ha.UnitTakeBack)
		w.rules.AutoReturn = true
		w.live(failedHost)
		w.reportStarted()
		w.toEnd(time.Hour)
		if w.claims() != "" || w.unit.Host.OnMaintenance {
			t.Errorf("claims %s, maintenance %v", w.claims(), w.unit.Host.OnMaintenance)
		}
	})
	t.Run("a process's failure after a recovery", func(t *testing.T) {
		w := away(t)
		w.becomes(ha.UnitProcess)
		w.handles(w.report("n2", ha.TypeProcess, ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyProcessName: ha.ProcessNovaCompute}))
		w.toEnd(time.Minute)
		w.unit.Claims = slices.DeleteFunc(w.unit.Claims, func(c ha.Claim) bool { return c.Reason == ha.ReasonRecovery }) // taken back
		w.becomes(ha.UnitProcess)
		w.handles(w.report("n3", ha.TypeProcess, ha.Payload{ha.KeyEvent: ha.EventStarted, ha.KeyProcessName: ha.ProcessNovaCompute}))
		w.toEnd(time.Minute)
		if w.claims() != "" || w.unit.Host.OnMaintenance {
			t.Errorf("claims %s, maintenance %v", w.claims(), w.unit.Host.OnMaintenance)
		}
	})
}
