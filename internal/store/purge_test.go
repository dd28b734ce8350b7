package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
)

// TestPurgeKeepsWhereToLook: a copy on a host whose agent has long been silent does not make that of a deleted host needless.
func TestPurgeKeepsWhereToLook(t *testing.T) {
	servers(t, func(t *testing.T, url string, open func(*testing.T, store.Config) *store.Store) {
		spy := &spy{}
		s := open(t, store.Config{URL: url, Wrap: spy.wrap})
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(s.Sync(t.Context()))
		pool := spy.pool()
		defer pool.Close()
		long := func(column, table, key, host string) {
			_, err := pool.Exec(fmt.Sprintf("UPDATE %s SET %s = '2026-01-01 00:00:00.000000' WHERE %s = '%s'", table, column, key, host))
			must(err)
		}
		segment, err := s.CreateSegment(t.Context(), ha.Segment{UUID: uuid.NewString(), Name: "rack", ServiceType: "COMPUTE", RecoveryMethod: ha.MethodAuto, Enabled: true})
		must(err)
		hosts, seq := [2]string{}, int64(0)
		says := func(host string, copies ...ha.CopyReport) {
			t.Helper()
			seq++
			_, err := s.ReportStorage(t.Context(), ha.AgentReport{HostUUID: host, Epoch: 1, Seq: seq, URL: "http://127.0.0.1:9000", EpisodeUUID: uuid.NewString(),
				TicketKey: []byte(strings.Repeat("k", 32)), Copies: copies})
			must(err)
		}
		for i := range hosts {
			h, err := s.CreateHost(t.Context(), ha.Host{UUID: uuid.NewString(), Name: fmt.Sprintf("cmp-%d", i), SegmentUUID: segment.UUID, Type: "COMPUTE", ControlAttributes: "SSH"})
			must(err)
			hosts[i] = h.UUID
			says(h.UUID)
		}
		b, err := s.AddBlob(t.Context(), ha.Blob{UUID: uuid.NewString(), Size: 100, SHA256: strings.Repeat("a", 64), WantCopies: 2}, hosts[:])
		must(err)
		for _, h := range hosts {
			says(h, ha.CopyReport{BlobUUID: b.UUID, State: ha.CopyPresent, Size: b.Size, SHA256: b.SHA256})
		}
		must(s.DeleteHost(t.Context(), segment.UUID, hosts[0]))
		long("deleted_at", "hosts", "uuid", hosts[0])
		long("reported_at", "host_health", "host_uuid", hosts[1])
		if got, err := s.Purge(t.Context(), 30, -1); err != nil || got.Hosts != 0 || got.Copies != 0 || got.Kept != 1 {
			t.Errorf("while the other agent is silent: %+v, %v", got, err)
		}
		says(hosts[1])
		if got, err := s.Purge(t.Context(), 30, -1); err != nil || got.Hosts != 1 || got.Copies != 1 {
			t.Errorf("when it is heard: %+v, %v", got, err)
		}
	})
}
