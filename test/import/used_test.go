package imports

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
)

// TestImportIntoUsedDatabase: what salvor still holds in Nova of a host that was deleted here is the imported one's of that name, as it is one's
// that is registered; else its next recovery would take it for somebody else's.
func TestImportIntoUsedDatabase(t *testing.T) {
	for kind, database := range databases {
		t.Run(kind, func(t *testing.T) {
			from, to := database(t), database(t)
			makeMasakari(t, kind, from, "13adff5efb9a")
			s := target(t, to)
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			ctx := t.Context()
			segment, err := s.CreateSegment(ctx, ha.Segment{UUID: uuid.NewString(), Name: "before", ServiceType: "C", RecoveryMethod: ha.MethodAuto, Enabled: true})
			must(err)
			host, err := s.CreateHost(ctx, ha.Host{UUID: uuid.NewString(), Name: "cmp-01", SegmentUUID: segment.UUID, Type: "C"})
			must(err)
			db := connect(t, to)
			run(t, db, "UPDATE failover_segments SET id = 1001", "UPDATE hosts SET id = 1001") // Masakari's begin with 1
			note, err := s.Admit(ctx, ha.Report{UUID: uuid.NewString(), Type: ha.TypeComputeHost, Hostname: host.Name, GeneratedTime: time.Now(),
				Payload: ha.Payload{ha.KeyEvent: ha.EventStopped}}, time.Minute)
			must(err)
			unit, key := note.UnitKey()
			l, _, err := s.Claim(ctx, ha.ClaimRequest{Owner: "me", TTL: time.Second, Fresh: ha.Fresh{
				NotificationUUID: note.UUID, Kind: unit, Key: key, HostUUID: host.UUID, SegmentUUID: segment.UUID}})
			must(err)
			held := ha.Claim{HostUUID: host.UUID, What: ha.WhatForcedDown, Reason: ha.ReasonRecovery, Prior: "false"}
			_, err = s.Commit(ctx, &l, ha.PutClaim{Claim: held}, ha.SetNotification{UUID: note.UUID, Status: ha.StatusRunning})
			must(err)
			_, err = s.Commit(ctx, &l, ha.SetNotification{UUID: note.UUID, Status: ha.StatusFinished}, ha.EndUnit{})
			must(err)
			must(s.DeleteSegment(ctx, segment.UUID))
			run(t, db, "UPDATE notifications SET id = 1001")

			take(t, s, store.Import{From: from})
			now := uuidOf("host", 1)
			rows := query(t, db, "SELECT host_uuid, what, prior FROM claims WHERE reason = 'recovery'")
			if len(rows) != 1 || rows[0][0] != now || rows[0][1] != string(held.What) || rows[0][2] != held.Prior {
				t.Errorf("claims: %v", rows)
			}
			poll, err := s.Poll(ctx, "x")
			must(err)
			back := 0
			for _, u := range poll.Units {
				if u.Key == ha.UnitTakeBack.Key(now) {
					back++
				}
			}
			if back != 1 {
				t.Errorf("%d take-backs of the imported host: %+v", back, poll.Units)
			}
		})
	}
}

// TestPurgeOfImportedDeleted: what was deleted in Masakari goes by the time when that was, notifications with their vmoves and details too,
// whatever they were.
func TestPurgeOfImportedDeleted(t *testing.T) {
	for kind, database := range databases {
		t.Run(kind, func(t *testing.T) {
			from, to := database(t), database(t)
			makeMasakari(t, kind, from, "13adff5efb9a")
			run(t, connect(t, from), "UPDATE notifications SET deleted = id, deleted_at = '2024-02-01 00:00:00' WHERE id IN (1, 3, 5)",
				"UPDATE vmoves SET deleted = id, deleted_at = '2024-02-01 00:00:00' WHERE id = 1")
			s := target(t, to)
			take(t, s, store.Import{From: from, Deleted: true})
			db := connect(t, to)
			count := func(what string) string { return query(t, db, "SELECT COUNT(*) FROM "+what)[0][0] }
			if n := count("notifications WHERE deleted <> 0"); n != "3" {
				t.Fatalf("%s deleted notifications were taken", n)
			}
			old := int(time.Since(time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC)).Hours() / 24)
			if _, err := s.Purge(t.Context(), old+1, -1); err != nil || count("notifications WHERE deleted <> 0") != "3" {
				t.Errorf("purged before their time, or %v", err)
			}
			got, err := s.Purge(t.Context(), old, 2)
			if err != nil || got.Bounded != 2 {
				t.Errorf("two rows at most: %+v, %v", got, err)
			}
			if got, err = s.Purge(t.Context(), old, -1); err != nil {
				t.Errorf("%+v, %v", got, err)
			}
			ids := "('" + uuidOf("notification", 1) + "', '" + uuidOf("notification", 3) + "', '" + uuidOf("notification", 5) + "')"
			for _, left := range []string{"notifications WHERE deleted <> 0", "hosts WHERE deleted <> 0", "failover_segments WHERE deleted <> 0",
				"vmoves WHERE notification_uuid IN " + ids, "journal WHERE notification_uuid IN " + ids} {
				if n := count(left); n != "0" {
					t.Errorf("%s left of %s", n, left)
				}
			}
		})
	}
}
