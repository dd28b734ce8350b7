package store

import (
	"context"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// freshQuery finds notifications that no unit handles and whose key is free, the oldest of each key. Index:
// notifications_status_idx; ended notifications cost nothing.
const freshQuery = `SELECT n.notification_uuid, n.unit_key, n.source_host_uuid,
 COALESCE(n.failover_segment_uuid, (SELECT h.failover_segment_id FROM hosts AS h WHERE h.uuid = n.source_host_uuid), '') AS segment_uuid
FROM notifications AS n
WHERE n.deleted = 0 AND n.status = 'new'
 AND NOT EXISTS (SELECT 1 FROM work AS w WHERE w.unit_key = n.unit_key AND w.ended = 0)
 AND NOT EXISTS (SELECT 1 FROM notifications AS o WHERE o.unit_key = n.unit_key AND o.status = 'new' AND o.deleted = 0 AND o.id < n.id)
ORDER BY n.created_at, n.id LIMIT ?`

// unitsQuery sees the active units, those first whose look or beat is longest ago. Index: work_look_idx.
const unitsQuery = `SELECT id, unit_key, owner, epoch, beat, ttl_ms, CASE WHEN owner = '' AND next_look_at <= ? THEN 1 ELSE 0 END AS due
FROM work WHERE ended = 0 ORDER BY next_look_at LIMIT ?`

type freshRow struct {
	NotificationUUID string `bun:"notification_uuid"`
	UnitKey          string `bun:"unit_key"`
	SourceHostUUID   string `bun:"source_host_uuid"`
	SegmentUUID      string `bun:"segment_uuid"`
}

type sightRow struct {
	ID      int64  `bun:"id"`
	UnitKey string `bun:"unit_key"`
	Owner   string `bun:"owner"`
	Epoch   int64  `bun:"epoch"`
	Beat    int64  `bun:"beat"`
	TTL     int64  `bun:"ttl_ms"`
	Due     bool   `bun:"due"`
}

// Poll looks for work: two statements, both by index, both bounded.
func (s *Store) Poll(ctx context.Context, me string) (ha.Poll, error) {
	var fresh []freshRow
	var units []sightRow
	err := s.read(ctx, "looking for work", func(ctx context.Context, db bun.IDB) error {
		fresh, units = nil, nil
		if err := db.NewRaw(freshQuery, rules.FreshLimit).Scan(ctx, &fresh); err != nil {
			return err
		}
		return db.NewRaw(unitsQuery, s.d.now(), rules.UnitsLimit).Scan(ctx, &units)
	})
	if err != nil {
		return ha.Poll{}, err
	}
	var p ha.Poll
	for _, r := range fresh {
		kind, _, _ := strings.Cut(r.UnitKey, ":")
		p.Fresh = append(p.Fresh, ha.Fresh{
			NotificationUUID: r.NotificationUUID, Kind: ha.UnitKind(kind), Key: r.UnitKey, HostUUID: r.SourceHostUUID, SegmentUUID: r.SegmentUUID,
		})
	}
	for _, r := range units {
		sight := ha.Sighting{
			WorkID: r.ID, Key: r.UnitKey, Owner: r.Owner, Epoch: r.Epoch, Beat: r.Beat,
			TTL: time.Duration(r.TTL) * time.Millisecond, Due: r.Due,
		}
		if r.Owner == me {
			p.Mine = append(p.Mine, sight)
		} else {
			p.Units = append(p.Units, sight)
		}
	}
	return p, nil
}
