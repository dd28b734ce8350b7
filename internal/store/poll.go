package store

import (
	"context"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// pollQuery is all that a look for work asks, in one statement, since each engine asks it twice a second:
//
// Notifications that no unit handles and whose key is free, the oldest of each key. Index: notifications_status_idx; ended
// notifications cost nothing.
//
// The active units, those first whose look or beat is longest ago. Index: work_look_idx.
const pollQuery = `SELECT * FROM (
SELECT 0 AS id, n.unit_key, '' AS owner, 0 AS epoch, 0 AS beat, 0 AS ttl_ms, 0 AS signals, 0 AS due, n.notification_uuid, n.source_host_uuid,
 COALESCE(n.failover_segment_uuid, (SELECT h.failover_segment_id FROM hosts AS h WHERE h.uuid = n.source_host_uuid), '') AS segment_uuid
FROM notifications AS n
WHERE n.deleted = 0 AND n.status = 'new'
 AND NOT EXISTS (SELECT 1 FROM work AS w WHERE w.unit_key = n.unit_key AND w.ended = 0)
 AND NOT EXISTS (SELECT 1 FROM notifications AS o WHERE o.unit_key = n.unit_key AND o.status = 'new' AND o.deleted = 0 AND o.id < n.id)
ORDER BY n.created_at, n.id LIMIT ?
) AS fresh UNION ALL SELECT * FROM (
SELECT id, unit_key, owner, epoch, beat, ttl_ms, signals, CASE WHEN owner = '' AND next_look_at <= ? THEN 1 ELSE 0 END AS due, '' AS notification_uuid, '' AS source_host_uuid,
 '' AS segment_uuid
FROM work WHERE ended = 0 ORDER BY next_look_at LIMIT ?
) AS units`

// Poll looks for work: one statement, by indexes, bounded.
func (s *Store) Poll(ctx context.Context, me string) (p ha.Poll, err error) {
	err = s.read(ctx, "looking for work", func(ctx context.Context, _ bun.IDB) error {
		p = ha.Poll{}
		query := s.reads.NewRaw(pollQuery, rules.FreshLimit, s.d.now(), rules.UnitsLimit).String()
		return fetch(ctx, s.reads, query, func(c *columns) error {
			see(&p, c, me)
			return nil
		})
	})
	return p, err
}

// see reads a row of pollQuery: one without an id is a notification.
func see(p *ha.Poll, c *columns, me string) {
	sight := ha.Sighting{
		WorkID: c.number(), Key: c.text(), Owner: c.text(), Epoch: c.number(), Beat: c.number(),
		TTL: time.Duration(c.number()) * time.Millisecond, Signal: c.number(), Due: c.flag(),
	}
	notification, host, segment := c.text(), c.text(), c.text()
	switch {
	case sight.WorkID == 0:
		kind, _, _ := strings.Cut(sight.Key, ":")
		p.Fresh = append(p.Fresh, ha.Fresh{NotificationUUID: notification, Kind: ha.UnitKind(kind), Key: sight.Key, HostUUID: host, SegmentUUID: segment})
	case sight.Owner == me:
		p.Mine = append(p.Mine, sight)
	default:
		p.Units = append(p.Units, sight)
	}
}
