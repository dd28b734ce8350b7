package ha

import (
	"slices"
	"testing"
	"time"
)

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestApplySetNotification(t *testing.T) {
	u := Unit{Notification: Notification{UUID: "n1", Status: StatusNew}, Queue: []Notification{{UUID: "n2", Status: StatusNew}, {UUID: "n3", Status: StatusNew}}}
	u.Apply(SetNotification{UUID: "n1", Status: StatusRunning, Message: "at work"})
	if u.Notification.Status != StatusRunning || text(u.Notification.Message) != "at work" {
		t.Errorf("its own: %+v", u.Notification)
	}
	u.Apply(SetNotification{UUID: "n2", Status: StatusFinished})
	if len(u.Queue) != 1 || u.Queue[0].UUID != "n3" {
		t.Errorf("an ended one stays in the queue: %+v", u.Queue)
	}
	u.Apply(SetNotification{UUID: "n3", Status: StatusRunning})
	if len(u.Queue) != 1 {
		t.Errorf("an open one left the queue: %+v", u.Queue)
	}
}

func TestApplyPutMove(t *testing.T) {
	u := Unit{Moves: []VMove{{InstanceUUID: "a"}, {InstanceUUID: "b"}}}
	before := u.Moves
	u.Apply(PutMove{VMove{InstanceUUID: "b", Attempts: 1}}, PutMove{VMove{InstanceUUID: "c"}})
	if len(u.Moves) != 3 || u.Moves[1].Attempts != 1 || u.Moves[2].InstanceUUID != "c" {
		t.Errorf("moves keep their places, new ones come last: %+v", u.Moves)
	}
	if before[1].Attempts != 0 {
		t.Error("the view handed out before was changed")
	}
}

func TestApplySetRecovery(t *testing.T) {
	var u Unit
	u.Apply(SetRecovery{Recovery{Step: StepMove, Attempt: 2}})
	if u.Step != StepMove || u.Attempt != 2 {
		t.Errorf("recovery: %+v", u.Recovery)
	}
}

func TestApplySetHost(t *testing.T) {
	yes, no := true, false
	u := Unit{Host: Host{UUID: "h1", Reserved: true}, Peers: []Peer{{Host: Host{UUID: "h1", Reserved: true}}, {Host: Host{UUID: "h2", Reserved: true}}}}
	u.Apply(SetHost{UUID: "h1", OnMaintenance: &yes})
	if !u.Host.OnMaintenance || !u.Host.Reserved || !u.Peers[0].OnMaintenance || u.Peers[1].OnMaintenance {
		t.Errorf("maintenance of h1: %+v, %+v", u.Host, u.Peers)
	}
	u.Apply(SetHost{UUID: "h2", Reserved: &no})
	if u.Peers[1].Reserved || !u.Peers[0].Reserved || !u.Host.Reserved {
		t.Errorf("reserved of h2: %+v, %+v", u.Host, u.Peers)
	}
}

func TestApplyClaims(t *testing.T) {
	var u Unit
	first := Claim{HostUUID: "h", What: WhatForcedDown, Reason: ReasonRecovery, Prior: "false", WorkID: 1, Since: t0}
	u.Apply(PutClaim{first})
	again := first
	again.Prior, again.WorkID, again.Since, again.Seen = "true", 2, t0.Add(time.Hour), t0.Add(time.Minute)
	u.Apply(PutClaim{again})
	want := first
	want.Seen = again.Seen
	if len(u.Claims) != 1 || u.Claims[0] != want {
		t.Errorf("the first claim keeps prior, since and work; got %+v", u.Claims)
	}
	u.Apply(PutClaim{Claim{HostUUID: "h", What: WhatDisabled, Reason: ReasonRecovery, Detail: "d1"}},
		PutClaim{Claim{HostUUID: "h", What: WhatDisabled, Reason: ReasonProcess, Detail: "d1"}},
		PutClaim{Claim{HostUUID: "h2", What: WhatDisabled, Reason: ReasonRecovery, Detail: "d1"}},
		PutClaim{Claim{HostUUID: "h", What: WhatDisabled, Reason: ReasonRecovery, Detail: "d2"}})
	if len(u.Claims) != 5 {
		t.Errorf("host, what, reason and detail make a claim; got %+v", u.Claims)
	}
	u.Apply(DropClaim{HostUUID: "h", What: WhatDisabled, Reason: ReasonRecovery, Detail: "d1"}, DropClaim{HostUUID: "h", What: WhatReserved})
	if len(u.Claims) != 4 {
		t.Errorf("one dropped, one that was not there; got %+v", u.Claims)
	}
}

// Reserved, a spare carries no claims of an earlier recovery's use of it.
func TestApplyReserve(t *testing.T) {
	earlier := func(host string, w What, r Reason) Claim { return Claim{HostUUID: host, What: w, Reason: r, WorkID: 1} }
	u := Unit{Work: Work{ID: 2}, Peers: []Peer{{Host: Host{UUID: "h"}}}, Claims: []Claim{
		earlier("h", WhatEnabled, ReasonRecovery), earlier("h", WhatAggregate, ReasonRecovery), earlier("h", WhatReserved, ReasonRecovery),
		earlier("h", WhatDisabled, ReasonRecovery), earlier("h", WhatEnabled, ReasonStorage), earlier("other", WhatEnabled, ReasonRecovery),
	}}
	before := u.Claims
	own := Claim{HostUUID: "h", What: WhatEnabled, Reason: ReasonRecovery, WorkID: 2}
	u.Apply(Reserve{"h"}, PutClaim{own}, Reserve{"h"})
	if want := slices.Concat(before[3:], []Claim{own}); !slices.Equal(u.Claims, want) || u.Peers[0].ReservedFor != 2 || before[0].What != WhatEnabled {
		t.Errorf("claims %+v, want %+v; before %+v", u.Claims, want, before)
	}
}

func TestApplyCloseIntent(t *testing.T) {
	u := Unit{Open: []Entry{{Key: "i1"}, {Key: "i2"}}}
	u.Apply(CloseIntent{"i1"}, CloseIntent{"no such key"})
	if len(u.Open) != 1 || u.Open[0].Key != "i2" {
		t.Errorf("open: %+v", u.Open)
	}
}

// Adopted, a report goes on with what the same commit said of it, and its predecessor has ended.
func TestApplyAdopt(t *testing.T) {
	u := Unit{
		Work:         Work{NotificationUUID: "n1"},
		Notification: Notification{UUID: "n1", Status: StatusRunning},
		Queue:        []Notification{{UUID: "n2", Status: StatusNew, Payload: Payload{KeyHostStatus: HostStatusNormal}}},
	}
	u.Apply(SetNotification{UUID: "n1", Status: StatusIgnored, Message: "n2 brought the proof"}, Adopt{"n2"},
		SetNotification{UUID: "n2", Status: StatusRunning, Message: "at work"})
	n := u.Notification
	if n.UUID != "n2" || u.NotificationUUID != "n2" || !n.Payload.Normal() || len(u.Queue) != 0 {
		t.Errorf("not adopted: %+v, queue %+v", n, u.Queue)
	}
	if n.Status != StatusRunning || text(n.Message) != "at work" {
		t.Errorf("status %s, message %q; want running, at work", n.Status, text(n.Message))
	}
}

func TestApplySegmentAndReserve(t *testing.T) {
	u := Unit{Work: Work{ID: 7}, Segment: Segment{Touch: 3}, Peers: []Peer{{Host: Host{UUID: "h1"}}, {Host: Host{UUID: "h2"}}}}
	u.Apply(TouchSegment{Seen: 3}, Reserve{"h2"})
	if u.Segment.Touch != 4 {
		t.Errorf("touch %d, want 4: the next guard must fit the row", u.Segment.Touch)
	}
	if u.Peers[1].ReservedFor != 7 || u.Peers[0].ReservedFor != 0 {
		t.Errorf("reserved: %+v", u.Peers)
	}
	u.Apply(Free{"h2"})
	if u.Peers[1].ReservedFor != 0 {
		t.Errorf("freed: %+v", u.Peers)
	}
}

// What changes rows of others, or none, leaves the loaded unit as it is.
func TestApplyLeavesTheRestAlone(t *testing.T) {
	u := Unit{Work: Work{ID: 7}, Open: []Entry{{Key: "i1"}}}
	u.Apply(Write{Entry{Key: "i2", Open: true}}, StartUnit{}, Signal{}, GiveWay{}, Park{}, EndUnit{})
	if len(u.Open) != 1 || u.ID != 7 || u.EndedAt != nil {
		t.Errorf("changed: %+v", u)
	}
}
