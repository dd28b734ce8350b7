package storetest

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

func setNotification(f *fixture) {
	h, n, l := f.incident()
	f.commit(l, ha.SetNotification{UUID: n.UUID, Status: ha.StatusRunning, Message: "waits"})
	got, err := f.Notification(f.ctx, n.UUID)
	f.must(err)
	if got.Status != ha.StatusRunning || *got.Message != "waits" || got.UpdatedAt == nil {
		f.Fatalf("notification is %+v", got)
	}
	f.commit(l, ha.SetNotification{UUID: n.UUID, Status: ha.StatusFinished, Message: ""})
	_, err = f.Commit(f.ctx, l, ha.SetNotification{UUID: n.UUID, Status: ha.StatusRunning})
	if err == nil || !strings.Contains(err.Error(), "finished") || !strings.Contains(err.Error(), "running") {
		f.Fatalf("an illegal move ended with %v, want an error that names both", err)
	}
	f.commit(l, ha.SetNotification{UUID: n.UUID, Status: ha.StatusFinished, Message: "again"}) // staying is legal

	queued := f.admit(start(h, 5))
	f.commit(l, ha.SetNotification{UUID: queued.UUID, Status: ha.StatusIgnored, Message: "x"})
	foreign := f.admit(process(h, 5, ha.EventStopped))
	if _, err = f.Commit(f.ctx, l, ha.SetNotification{UUID: foreign.UUID, Status: ha.StatusIgnored}); err == nil {
		f.Fatal("an owner wrote a notification of another unit's key")
	}
	_, err = f.Commit(f.ctx, l, ha.SetNotification{UUID: id(), Status: ha.StatusIgnored})
	fails[*ha.NotFoundError](f, err)
	f.commit(l)
}

func moves(f *fixture) {
	_, n, l := f.incident()
	m := ha.VMove{UUID: id(), NotificationUUID: n.UUID, InstanceUUID: id(), InstanceName: "vm-1", SourceHost: "cmp-1", Type: ha.MoveEvacuation, Status: ha.MovePending}
	second := m
	second.UUID, second.InstanceUUID = id(), id()
	// Put twice in one commit, and with others between.
	ongoing := m
	ongoing.Status, ongoing.Attempts = ha.MoveOngoing, 1
	f.commit(l, ha.PutMove{Move: m}, ha.PutMove{Move: second}, ha.PutMove{Move: ongoing})
	got := f.load(l).Moves
	if len(got) != 2 || got[0].UUID != m.UUID || got[0].Status != ha.MoveOngoing || got[0].Attempts != 1 || got[1].UUID != second.UUID {
		f.Fatalf("moves are %+v", got)
	}
	first := got[0]
	f.commit(l, ha.PutMove{Move: got[1]}) // nothing changes
	if again := f.load(l).Moves[1]; again.UpdatedAt != nil || again.ID != got[1].ID {
		f.Fatalf("a move put again unchanged became %+v", again)
	}
	planned := first
	planned.UUID, planned.DestHost, planned.Status = id(), ptr("cmp-2"), ha.MoveSucceeded // the row's uuid stays
	f.commit(l, ha.PutMove{Move: planned})
	moved := f.load(l).Moves[0]
	if moved.UUID != m.UUID || *moved.DestHost != "cmp-2" || moved.Status != ha.MoveSucceeded || moved.UpdatedAt == nil {
		f.Fatalf("move is %+v", moved)
	}
	one, err := f.VMove(f.ctx, n.UUID, m.UUID)
	f.must(err)
	if d := cmp.Diff(moved, one); d != "" {
		f.Fatalf("the move read by itself differs:\n%s", d)
	}
	_, err = f.VMove(f.ctx, id(), m.UUID)
	fails[*ha.NotFoundError](f, err) // of another notification
}

// plannedMoves: a move whose uuid is made of what names it is written without being looked for.
func plannedMoves(f *fixture) {
	_, n, l := f.incident()
	m := ha.VMove{NotificationUUID: n.UUID, InstanceUUID: id(), InstanceName: "vm-1", Status: ha.MovePending}
	m.UUID = ha.MoveUUID(n.UUID, m.InstanceUUID)
	other := ha.VMove{UUID: id(), InstanceUUID: id(), Status: ha.MovePending}
	f.commit(l, ha.PutMove{Move: m}, ha.PutMove{Move: other})
	made := f.load(l).Moves
	if len(made) != 2 || made[0].UUID != m.UUID || made[0].UpdatedAt != nil || made[0].CreatedAt.IsZero() {
		f.Fatalf("moves are %+v", made)
	}
	f.must(f.Wish(f.ctx, n.UUID, ha.Wish{Kind: ha.WishRetryMove, By: "x", VMove: m.UUID}))
	m.Status, m.Attempts = ha.MoveOngoing, 1
	ended := m
	ended.Status = ha.MoveFailed
	f.commit(l, ha.PutMove{Move: m}, ha.PutMove{Move: other}, ha.PutMove{Move: ended})
	got := f.load(l).Moves
	if len(got) != 2 || got[0].ID != made[0].ID || got[0].Status != ha.MoveFailed || got[0].Attempts != 1 || got[0].RetryWish != 1 ||
		!got[0].CreatedAt.Equal(made[0].CreatedAt) || got[0].UpdatedAt == nil || got[1].UpdatedAt != nil {
		f.Fatalf("moves are %+v, they were %+v", got, made)
	}
}

// fill sets every field of v that can be set to something that is not zero, so that a column forgotten is a test failed.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, *n%60, 123456000, time.UTC)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) / 8)
	}
}

// moveFields: every field of a move comes back.
func moveFields(f *fixture) {
	_, n, l := f.incident()
	var want ha.VMove
	c := 0
	fill(reflect.ValueOf(&want).Elem(), &c)
	want.UUID, want.NotificationUUID, want.InstanceUUID = id(), n.UUID, id()
	f.commit(l, ha.PutMove{Move: want})
	same := func(step string) {
		f.Helper()
		got := f.load(l).Moves[0]
		want.ID, want.Stamps, want.RetryWish = got.ID, got.Stamps, 0
		if d := cmp.Diff(want, got); d != "" {
			f.Fatalf("%s: a move's fields differ:\n%s", step, d)
		}
	}
	same("inserted")
	uuid, instance := want.UUID, want.InstanceUUID
	fill(reflect.ValueOf(&want).Elem(), &c)
	want.UUID, want.NotificationUUID, want.InstanceUUID = uuid, n.UUID, instance
	f.commit(l, ha.PutMove{Move: want})
	same("updated")
	want = ha.VMove{UUID: uuid, NotificationUUID: n.UUID, InstanceUUID: instance}
	f.commit(l, ha.PutMove{Move: want})
	same("emptied")
}

// recoveryFields: every field that the owner keeps comes back.
func recoveryFields(f *fixture) {
	_, n, l := f.incident()
	var want ha.Recovery
	c := 0
	fill(reflect.ValueOf(&want).Elem(), &c)
	want.HeldWhy = strings.Repeat("ü", 1000)
	f.commit(l, ha.SetRecovery{Recovery: want})
	want.Seq = 0 // not stored
	if d := cmp.Diff(want, f.load(l).Recovery); d != "" {
		f.Fatalf("the recovery's fields differ:\n%s", d)
	}
	w, err := f.Recovery(f.ctx, n.UUID)
	f.must(err)
	if d := cmp.Diff(want, w.Recovery); d != "" || w.ID != l.WorkID || w.Owner != "a" {
		f.Fatalf("the recovery read by itself is %+v:\n%s", w, d)
	}
	f.commit(l, ha.SetRecovery{})
	if d := cmp.Diff(ha.Recovery{}, f.load(l).Recovery); d != "" {
		f.Fatalf("the emptied recovery differs:\n%s", d)
	}
}

func journal(f *fixture) {
	h, n, l := f.incident()
	var e ha.Entry
	c := 0
	fill(reflect.ValueOf(&e).Elem(), &c)
	e.Seq, e.Open, e.NotificationUUID, e.HostUUID, e.InstanceUUID = 1, true, "", "", id()
	b := f.commit(l, ha.Write{Entry: e}, ha.Write{Entry: ha.Entry{Seq: 2, Kind: ha.EntryNote, HostUUID: "other"}})
	entries, err := f.Journal(f.ctx, n.UUID, 0, 10)
	f.must(err)
	want := e
	want.ID, want.WorkID, want.Epoch, want.At, want.NotificationUUID, want.HostUUID = entries[0].ID, l.WorkID, l.Epoch, b.Now, n.UUID, h.UUID
	if d := cmp.Diff(want, entries[0]); d != "" || len(entries) != 2 || entries[1].HostUUID != "other" {
		f.Fatalf("journal differs (%d entries):\n%s", len(entries), d)
	}

	// Written again, by number, nothing is added and nothing changed.
	f.commit(l, ha.Write{Entry: ha.Entry{Seq: 2, Text: "other"}}, ha.Write{Entry: ha.Entry{Seq: 3, Text: "three"}})
	l2, _ := f.takeOver("b", *l)
	f.commit(l2, ha.Write{Entry: ha.Entry{Seq: 1, Text: "next epoch"}}, ha.CloseIntent{Key: "no such"}, ha.CloseIntent{Key: e.Key})
	entries, err = f.Journal(f.ctx, n.UUID, 0, 10)
	f.must(err)
	var texts []string
	for _, e := range entries {
		texts = append(texts, e.Text)
	}
	if d := cmp.Diff([]string{e.Text, "", "three", "next epoch"}, texts); d != "" {
		f.Fatalf("journal texts differ:\n%s", d)
	}
	if entries[0].Open || len(f.load(l2).Open) != 0 {
		f.Fatal("the closed intent is still open")
	}
	entries, err = f.Journal(f.ctx, n.UUID, 0, 2)
	f.must(err)
	if len(entries) != 2 || entries[0].Text != "three" || entries[1].Text != "next epoch" {
		f.Fatalf("the newest two entries are %+v", entries)
	}
	for _, limit := range []int{1, 10} {
		page, err := f.Journal(f.ctx, n.UUID, entries[0].ID, limit)
		f.must(err)
		equal(f, "the entry before those", page[len(page)-1].Text, "")
		equal(f, "entries before those", len(page), min(limit, 2))
	}
	page, err := f.Journal(f.ctx, n.UUID, entries[1].ID, 10) // across an epoch
	f.must(err)
	equal(f, "entries before the last", len(page), 3)
	_, err = f.Journal(f.ctx, n.UUID, entries[1].ID+1000, 10)
	equal(f, "the marker complained of", fails[*ha.MarkerError](f, err).Marker, strconv.FormatInt(entries[1].ID+1000, 10))
	// An intent closed in the commit that writes it.
	f.commit(l2, ha.Write{Entry: ha.Entry{Seq: 2, Key: "x", Open: true}}, ha.CloseIntent{Key: "x"})
	equal(f, "open intents", len(f.load(l2).Open), 0)
}

func claims(f *fixture) {
	h, _, l := f.incident()
	seen := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	c := ha.Claim{HostUUID: h.UUID, What: ha.WhatForcedDown, Reason: ha.ReasonRecovery, Detail: "d", Prior: "false", Seen: seen}
	b := f.commit(l, ha.PutClaim{Claim: c})
	got := f.load(l).Claims
	want := c
	want.WorkID, want.Since = l.WorkID, b.Now
	if len(got) != 1 {
		f.Fatalf("claims are %+v", got)
	}
	want.ID = got[0].ID
	if d := cmp.Diff(want, got[0]); d != "" {
		f.Fatalf("claim differs:\n%s", d)
	}
	c.Prior, c.Seen = "true", seen.Add(time.Minute)
	f.commit(l, ha.PutClaim{Claim: c})
	want.Seen = c.Seen
	if d := cmp.Diff([]ha.Claim{want}, f.load(l).Claims); d != "" {
		f.Fatalf("a claim made again differs (its prior value must stay):\n%s", d)
	}
	other := c
	other.Detail = "e"
	drop := ha.DropClaim{HostUUID: h.UUID, What: c.What, Reason: c.Reason, Detail: "d"}
	f.commit(l, ha.PutClaim{Claim: other}, drop, drop)
	if got = f.load(l).Claims; len(got) != 1 || got[0].Detail != "e" {
		f.Fatalf("claims are %+v, want the other one only", got)
	}
}
