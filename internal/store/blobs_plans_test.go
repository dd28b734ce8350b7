package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/blob"
	"github.com/salvor-ha/salvor/internal/ha"
)

// TestTenThousandBlobs: on a catalogue of 10,000 blobs, half of which lack a copy, each statement of a pass and of what agents and operators
// ask goes by an index, the limits hold, and a pass is short.
func TestTenThousandBlobs(t *testing.T) {
	onTables(t, func(s *tables) {
		blobs, hosts := 10000, 50
		if s.kind == "sqlite" { // with the race detector it takes minutes to make that many there
			blobs = 2000
		}
		u, rows, no := rowID, s.fill, s.boolean(false)
		// In the hour to come: however long the rows take to make, the agents were heard.
		at := sqlTime(time.Now().Add(time.Hour))
		rows("failover_segments", "created_at, uuid, name, name_key, service_type, recovery_method, enabled", 1, func(int) string {
			return fmt.Sprintf("%s, '%s', 's', 'S', 'C', 'auto', %s", at, u('a', 0), no)
		})
		rows("hosts", "created_at, uuid, name, name_key, reserved, type, control_attributes, failover_segment_id, on_maintenance", hosts, func(i int) string {
			return fmt.Sprintf("%s, '%s', 'h%d', 'H%[3]d', %[4]s, 'C', 'x', '%[5]s', %[4]s", at, u('b', i), i, no, u('a', 0))
		})
		rows("host_health", "host_uuid, state, epoch, seq, reported_at, agent_url, total_bytes, free_bytes, held_by, held_why", hosts, func(i int) string {
			return fmt.Sprintf("'%s', 'ok', 1, 1, %s, 'http://h%d', 1000000000000, 1000000000000, '', ''", u('b', i), at, i)
		})
		rows("blobs", "uuid, size, sha256, want_copies, unused, durability, copies, why, lost_by, touch, due, created_at", blobs, func(i int) string {
			return fmt.Sprintf("'%s', %d, '%s', 2, 1, '%s', %d, '', '', 1, %d, %s", u('f', i), i, strings.Repeat("a", 64), []string{"ok", "under"}[i%2], 2-i%2, i%2, at)
		})
		rows("blob_locations", "blob_uuid, host_uuid, state, episode_uuid, why, version, since, verified_at", 2*blobs, func(i int) string {
			state := "present"
			if i/2%2 == 1 && i%2 == 1 {
				state = "suspect"
			}
			return fmt.Sprintf("'%s', '%s', '%s', 'e', '', 1, %s, %[4]s", u('f', i/2), u('b', (i/2+i%2)%hosts), state, at)
		})
		rows("blob_transfers", "uuid, blob_uuid, source_uuid, target_uuid, state, rescue, size, bytes, why, told, ended, started_at, moved_at, ended_at", blobs/2, func(i int) string {
			return fmt.Sprintf("'%s', '%s', '%s', '%s', 'done', %s, 1, 1, '', %[5]s, %d, %s, %[7]s, %[7]s", u('c', i), u('f', i), u('b', i%hosts), u('b', (i+7)%hosts), no, i+1, at)
		})
		// Any blob wakes the replicator.
		if _, err := s.AddBlob(t.Context(), ha.Blob{UUID: uuid.NewString(), SHA256: strings.Repeat("a", 64), WantCopies: 1}, nil); err != nil {
			t.Fatal(err)
		}
		poll, err := s.Poll(t.Context(), "me")
		if err != nil || len(poll.Units) != 1 {
			t.Fatalf("%v: %+v", err, poll)
		}
		seen := poll.Units[0]
		lease, _, err := s.Claim(t.Context(), ha.ClaimRequest{Owner: "me", TTL: time.Minute, WorkID: seen.WorkID, Epoch: seen.Epoch, Beat: seen.Beat})
		if err != nil {
			t.Fatal(err)
		}
		r := blob.Rules{Total: 256, PerSource: 32, PerTarget: 32, Grace: time.Hour}
		var took time.Duration
		pass := func() error {
			unit, err := s.Load(t.Context(), &lease)
			if err != nil {
				return err
			}
			began := time.Now()
			d := blob.Decide(*unit.Blobs, r, unit.Now, uuid.NewString)
			took = max(took, time.Since(began))
			_, err = s.Commit(t.Context(), &lease, d.Changes...)
			return err
		}
		some, under, running := u('b', 3), "under", "running"
		for _, hot := range []struct {
			name string
			run  func() error
		}{
			{"a pass", pass}, {"another pass", pass},
			{"orders", func() error { _, err := s.AgentOrders(t.Context(), some, time.Now().Add(-time.Hour)); return err }},
			{"blobs by durability", func() error {
				_, err := s.Blobs(t.Context(), ha.BlobFilter{Durability: &under}, 100, u('f', 500))
				return err
			}},
			{"transfers by state", func() error {
				_, _, err := s.Transfers(t.Context(), ha.TransferFilter{State: &running}, 100, "")
				return err
			}},
			{"a report", func() error {
				_, err := s.ReportStorage(t.Context(), ha.AgentReport{HostUUID: some, Epoch: 2, Seq: 1, URL: "http://h3", FreeBytes: 1 << 40, TicketKey: []byte("k"),
					EpisodeUUID: uuid.NewString(), Copies: []ha.CopyReport{{BlobUUID: u('f', 3), State: ha.CopyMissing}}})
				return err
			}},
		} {
			// The hosts, of which there are few here, and one row, are read whole.
			if _, n := s.explained(hot.name, hot.run, "SCAN a", "table=a", "Seq Scan on host_health a", "table=claims", "table=hosts",
				"SCAN blob_sweep", "table=blob_sweep", "Seq Scan on blob_sweep"); n > 45 {
				t.Errorf("%s takes %d statements", hot.name, n)
			}
		}
		t.Logf("a pass took at most %s to decide", took)
		list, _, err := s.Transfers(t.Context(), ha.TransferFilter{State: &running}, 1000, "")
		if err != nil || len(list) != r.Total {
			t.Errorf("%d transfers are under way, want %d: %v", len(list), r.Total, err)
		}
	})
}
