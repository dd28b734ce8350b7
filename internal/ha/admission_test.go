package ha

import (
	"testing"
	"time"
)

// t0 is when the twin of every test was generated, on its sender's clock.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const window = 180 * time.Second // duplicate_notification_detection_interval

func death(status string) Payload {
	return Payload{KeyEvent: EventStopped, KeyClusterStatus: "OFFLINE", KeyHostStatus: status}
}

func life() Payload {
	return Payload{KeyEvent: EventStarted, KeyClusterStatus: "ONLINE", KeyHostStatus: HostStatusNormal}
}

func process(event, name string) Payload { return Payload{KeyEvent: event, KeyProcessName: name} }

func crash(instance string) Payload {
	return Payload{KeyEvent: "LIFECYCLE", KeyVirDomainEvent: "STOPPED_FAILED", KeyInstanceUUID: instance}
}

func typeOf(p Payload) Type {
	switch {
	case p[KeyProcessName] != "":
		return TypeProcess
	case p[KeyInstanceUUID] != "":
		return TypeVM
	}
	return TypeComputeHost
}

// had is a notification that was admitted before; ids count up as they were received.
func had(id int64, s Status, at time.Duration, p Payload) Notification {
	return Notification{ID: id, UUID: string(rune('a' + id)), Type: typeOf(p), Status: s, GeneratedTime: t0.Add(at), Payload: p}
}

func report(at time.Duration, p Payload) Report {
	return Report{Type: typeOf(p), Hostname: "compute-1", GeneratedTime: t0.Add(at), Payload: p}
}

type admissionCase struct {
	name   string
	recent []Notification
	report Report
	want   Verdict
}

func (c admissionCase) check(t *testing.T, interval time.Duration) {
	t.Helper()
	t.Run(c.name, func(t *testing.T) {
		got, twin := Admission(c.report, c.recent, interval)
		if got != c.want {
			t.Errorf("verdict %v, want %v (0 admits, 1 is a duplicate)", got, c.want)
		}
		if (twin != nil) != (got == Duplicate) {
			t.Errorf("a duplicate names its twin and nothing else does; got %v", twin)
		}
	})
}

func TestA2OneOpenDeathPerHost(t *testing.T) {
	hour := time.Hour
	other := death(HostStatusNormal)
	other[KeyClusterStatus] = "UNKNOWN"
	for _, c := range []admissionCase{
		{"nothing before", nil, report(0, death("NORMAL")), Admit},
		{"open: new", []Notification{had(1, StatusNew, 0, death("NORMAL"))}, report(hour, death("NORMAL")), Duplicate},
		{"open: running", []Notification{had(1, StatusRunning, 0, death("NORMAL"))}, report(hour, death("NORMAL")), Duplicate},
		{"open: error", []Notification{had(1, StatusError, 0, death("NORMAL"))}, report(hour, death("NORMAL")), Duplicate},
		{"another cluster_status (S06)", []Notification{had(1, StatusRunning, 0, death("NORMAL"))}, report(1, other), Duplicate},
		{"host_status UNKNOWN after NORMAL (S06)", []Notification{had(1, StatusRunning, 0, death("NORMAL"))}, report(1, death("UNKNOWN")), Duplicate},
		{"UNKNOWN twice", []Notification{had(1, StatusRunning, 0, death("UNKNOWN"))}, report(1, death("UNKNOWN")), Duplicate},
		{"generated a day earlier (S08)", []Notification{had(1, StatusRunning, 0, death("NORMAL"))}, report(-25*hour, death("NORMAL")), Duplicate},
		{"generated a day later (S08)", []Notification{had(1, StatusRunning, 0, death("NORMAL"))}, report(25*hour, death("NORMAL")), Duplicate},
		{"ended: a new death at once is no duplicate", []Notification{had(1, StatusFinished, 0, death("NORMAL"))}, report(6*time.Second, death("NORMAL")), Admit},
		{"an open STARTED is no death", []Notification{had(1, StatusNew, 0, life())}, report(1, death("NORMAL")), Admit},
	} {
		c.check(t, window)
	}
}

func TestA2FirstExceptionNormalBringsTheProof(t *testing.T) {
	confirmed := death("NORMAL")
	confirmed[KeyConfirmedBy] = "op: on site"
	for _, c := range []admissionCase{
		{"open lacks NORMAL, new brings it", []Notification{had(1, StatusRunning, 0, death("UNKNOWN"))}, report(1, death("NORMAL")), Admit},
		{"brought already", []Notification{had(1, StatusRunning, 0, death("UNKNOWN")), had(2, StatusNew, 1, death("NORMAL"))}, report(2, death("NORMAL")), Duplicate},
		{"an operator's word, which NORMAL lacks", []Notification{had(1, StatusRunning, 0, death("NORMAL"))}, report(1, confirmed), Admit},
		{"an operator's word twice", []Notification{had(1, StatusRunning, 0, confirmed)}, report(1, confirmed), Duplicate},
		{"NORMAL after an operator's word", []Notification{had(1, StatusRunning, 0, confirmed)}, report(1, death("NORMAL")), Duplicate},
	} {
		c.check(t, window)
	}
}

func TestA2SecondExceptionTheHostReturnedInBetween(t *testing.T) {
	hour := time.Hour
	for _, c := range []admissionCase{
		{"STARTED received after the open death", []Notification{had(1, StatusRunning, 0, death("NORMAL")), had(2, StatusFinished, 60*time.Second, life())},
			report(90*time.Second, death("NORMAL")), Admit},
		{"receipt counts, not the senders' clocks (S08)", []Notification{had(1, StatusRunning, 0, death("NORMAL")), had(2, StatusNew, -hour, life())},
			report(90*time.Second, death("NORMAL")), Admit},
		{"STARTED received before the open death, generated later", []Notification{had(1, StatusFinished, hour, life()), had(2, StatusRunning, 0, death("NORMAL"))},
			report(2*hour, death("NORMAL")), Duplicate},
		{"the death after the return is stored already",
			[]Notification{had(1, StatusRunning, 0, death("NORMAL")), had(2, StatusFinished, 60*time.Second, life()), had(3, StatusNew, 90*time.Second, death("NORMAL"))},
			report(91*time.Second, death("NORMAL")), Duplicate},
		{"listed in any order",
			[]Notification{had(3, StatusNew, 90*time.Second, death("NORMAL")), had(2, StatusFinished, 60*time.Second, life()), had(1, StatusRunning, 0, death("NORMAL"))},
			report(91*time.Second, death("NORMAL")), Duplicate},
	} {
		c.check(t, window)
	}
}

func TestA3Twins(t *testing.T) {
	s := time.Second
	for _, c := range []admissionCase{
		{"VM: same, twin open", []Notification{had(1, StatusRunning, 0, crash("i1"))}, report(10*s, crash("i1")), Duplicate},
		{"VM: other instance", []Notification{had(1, StatusRunning, 0, crash("i1"))}, report(10*s, crash("i2")), Admit},
		{"VM: twin open, last moment of the interval", []Notification{had(1, StatusRunning, 0, crash("i1"))}, report(window-1, crash("i1")), Duplicate},
		{"VM: twin open, at the interval", []Notification{had(1, StatusRunning, 0, crash("i1"))}, report(window, crash("i1")), Admit},
		{"VM: twin open, generated earlier and arriving late", []Notification{had(1, StatusRunning, 0, crash("i1"))}, report(-600*s, crash("i1")), Duplicate},
		{"VM: twin finished, 5 s later: a resend", []Notification{had(1, StatusFinished, 0, crash("i1"))}, report(5*s, crash("i1")), Duplicate},
		{"VM: twin finished, more than 5 s later: a new crash", []Notification{had(1, StatusFinished, 0, crash("i1"))}, report(5*s+1, crash("i1")), Admit},
		{"VM: twin ignored, same time: a resend", []Notification{had(1, StatusIgnored, 0, crash("i1"))}, report(0, crash("i1")), Duplicate},
		{"VM: twin failed, a minute later", []Notification{had(1, StatusFailed, 0, crash("i1"))}, report(60*s, crash("i1")), Admit},
		{"host: finished, same report again: a resend", []Notification{had(1, StatusFinished, 0, death("NORMAL"))}, report(0, death("NORMAL")), Duplicate},
		{"host: finished, a second death within 180 s is news", []Notification{had(1, StatusFinished, 0, death("NORMAL"))}, report(60*s, death("NORMAL")), Admit},
		{"STARTED twice, first still open", []Notification{had(1, StatusNew, 0, life())}, report(10*s, life()), Duplicate},
		{"STARTED does not meet STOPPED", []Notification{had(1, StatusRunning, 0, death("NORMAL"))}, report(10*s, life()), Admit},
		{"any of several twins", []Notification{had(1, StatusFinished, -600*s, crash("i1")), had(2, StatusRunning, 0, crash("i1"))}, report(10*s, crash("i1")), Duplicate},
	} {
		c.check(t, window)
	}
}

func TestA3AnOppositeEventBetween(t *testing.T) {
	s := time.Second
	const nova, libvirt = "nova-compute", "libvirtd"
	for _, c := range []admissionCase{
		{"process: stopped, started, stopped", []Notification{had(1, StatusRunning, 0, process(EventStopped, nova)), had(2, StatusNew, 10*s, process(EventStarted, nova))},
			report(20*s, process(EventStopped, nova)), Admit},
		{"process: no return in between", []Notification{had(1, StatusRunning, 0, process(EventStopped, nova))}, report(20*s, process(EventStopped, nova)), Duplicate},
		{"process: another process returned", []Notification{had(1, StatusRunning, 0, process(EventStopped, nova)), had(2, StatusNew, 10*s, process(EventStarted, libvirt))},
			report(20*s, process(EventStopped, nova)), Duplicate},
		{"process: returned before both", []Notification{had(1, StatusFinished, -10*s, process(EventStarted, nova)), had(2, StatusRunning, 0, process(EventStopped, nova))},
			report(20*s, process(EventStopped, nova)), Duplicate},
		{"process: returned after both, by their senders", []Notification{had(1, StatusRunning, 0, process(EventStopped, nova)), had(2, StatusNew, 30*s, process(EventStarted, nova))},
			report(20*s, process(EventStopped, nova)), Duplicate},
		{"process: out of order, the return lies between", []Notification{had(1, StatusRunning, 20*s, process(EventStopped, nova)), had(2, StatusNew, 10*s, process(EventStarted, nova))},
			report(0, process(EventStopped, nova)), Admit},
		{"host: finished death, return, death within 5 s", []Notification{had(1, StatusFinished, 0, death("NORMAL")), had(2, StatusFinished, 2*s, life())},
			report(4*s, death("NORMAL")), Admit},
		{"host: return, death, return", []Notification{had(1, StatusNew, 0, life()), had(2, StatusRunning, 5*s, death("NORMAL"))}, report(10*s, life()), Admit},
	} {
		c.check(t, window)
	}
}

// A monitor whose clock is wrong by a constant gets the same verdicts as one whose clock is right (S08).
func TestA3ConstantSkew(t *testing.T) {
	for _, skew := range []time.Duration{-25 * time.Hour, -5 * time.Minute, 0, 5 * time.Minute, 25 * time.Hour} {
		open := []Notification{had(1, StatusRunning, skew, crash("i1"))}
		done := []Notification{had(1, StatusFinished, skew, crash("i1"))}
		for _, c := range []admissionCase{
			{skew.String() + ": repeated", open, report(skew+10*time.Second, crash("i1")), Duplicate},
			{skew.String() + ": again later", open, report(skew+window, crash("i1")), Admit},
			{skew.String() + ": resent", done, report(skew, crash("i1")), Duplicate},
			{skew.String() + ": crashed again", done, report(skew+time.Minute, crash("i1")), Admit},
		} {
			c.check(t, window)
		}
	}
}

// Interval 0 leaves only twins that are as new as the report, or newer (contract section 6).
func TestA3IntervalZero(t *testing.T) {
	for _, c := range []admissionCase{
		{"same time", []Notification{had(1, StatusRunning, 0, crash("i1"))}, report(0, crash("i1")), Duplicate},
		{"twin is newer", []Notification{had(1, StatusRunning, 0, crash("i1"))}, report(-time.Second, crash("i1")), Duplicate},
		{"report is newer", []Notification{had(1, StatusRunning, 0, crash("i1"))}, report(1, crash("i1")), Admit},
		{"A2 knows no interval", []Notification{had(1, StatusRunning, 0, death("NORMAL"))}, report(time.Hour, death("NORMAL")), Duplicate},
	} {
		c.check(t, 0)
	}
}

func TestA4WhoseMaintenanceItIs(t *testing.T) {
	const h = "h1"
	m := func(r Reason) Claim { return Claim{HostUUID: h, What: WhatMaintenance, Reason: r} }
	for _, c := range []struct {
		name   string
		on     bool
		claims []Claim
		want   bool
	}{
		{"off", false, nil, false},
		{"off, whatever is claimed", false, []Claim{m(ReasonOperator)}, false},
		{"on without a claim: imported, so the operator's", true, nil, true},
		{"on by an operator", true, []Claim{m(ReasonOperator)}, true},
		{"on by a recovery only", true, []Claim{m(ReasonRecovery)}, false},
		{"on by a process failure only", true, []Claim{m(ReasonProcess)}, false},
		{"on by both", true, []Claim{m(ReasonRecovery), m(ReasonOperator)}, true},
		{"on, claimed is another thing", true, []Claim{{HostUUID: h, What: WhatDisabled, Reason: ReasonRecovery}}, true},
		{"on, claimed is another host", true, []Claim{{HostUUID: "h2", What: WhatMaintenance, Reason: ReasonRecovery}}, true},
	} {
		if got := OperatorMaintenance(Host{UUID: h, OnMaintenance: c.on}, c.claims); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestClaimedLeavesOutTheOperators(t *testing.T) {
	for _, c := range []struct {
		r    Reason
		want bool
	}{{ReasonRecovery, true}, {ReasonProcess, true}, {ReasonStorage, true}, {ReasonOperator, false}} {
		if got := Claimed([]Claim{{What: WhatDisabled, Reason: c.r}}, WhatDisabled); got != c.want {
			t.Errorf("claimed for %s: %v, want %v", c.r, got, c.want)
		}
	}
	if Claimed([]Claim{{What: WhatForcedDown, Reason: ReasonRecovery}}, WhatDisabled) {
		t.Error("a claim to forced_down is none to disabled")
	}
}

// A monitor whose clock was hours ahead must not have the next death refused: the host was reported back since (rule A7).
func TestATwinFromTheFutureDoesNotBlockTheNextDeath(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	death := Payload{KeyEvent: EventStopped, KeyHostStatus: HostStatusNormal}
	ahead := Notification{ID: 1, Type: TypeComputeHost, Payload: death, Status: StatusFinished, GeneratedTime: now.Add(2 * time.Hour)}
	back := Notification{ID: 2, Type: TypeComputeHost, Payload: Payload{KeyEvent: EventStarted, KeyHostStatus: HostStatusNormal}, Status: StatusFinished, GeneratedTime: now.Add(-time.Minute)}
	report := Report{Type: TypeComputeHost, Payload: death, GeneratedTime: now}
	if v, _ := Admission(report, []Notification{ahead, back}, 180*time.Second); v != Admit {
		t.Error("refused, though the host was reported back since")
	}
	if v, _ := Admission(report, []Notification{ahead}, 180*time.Second); v != Admit {
		t.Error("refused: some monitors never report a return, and the next death would be forgotten")
	}
	late := Report{Type: TypeComputeHost, Payload: death, GeneratedTime: ahead.GeneratedTime.Add(-LateWindow)}
	if v, _ := Admission(late, []Notification{ahead}, 180*time.Second); v != Duplicate {
		t.Error("an older event that comes late, as senders try again, is the twin's")
	}
	resend := Report{Type: TypeComputeHost, Payload: death, GeneratedTime: ahead.GeneratedTime}
	if v, _ := Admission(resend, []Notification{ahead, back}, 180*time.Second); v != Duplicate {
		t.Error("an exact resend stays a duplicate")
	}
}
