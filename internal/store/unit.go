package store

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// Bounds of a load, far beyond what one hypervisor or one segment has.
const (
	mostPeers = 10000
	mostMoves = 10000
	mostOpen  = 10000
)

// load reads a unit with all rows that its plan needs. The order makes it whole without a snapshot: the signal is read
// first, so what comes later moves it beyond what the owner knows; the segment's touch before what is decided by it, so a
// decision made meanwhile is caught by ha.TouchSegment.
func (s *Store) load(ctx context.Context, tx bun.Tx, id int64) (ha.Unit, error) {
	row, now, err := s.workNow(ctx, tx, "t.id = ?", id)
	if err != nil {
		return ha.Unit{}, err
	}
	u := ha.Unit{Work: row.work(now), Now: now}
	for _, part := range []func(context.Context, bun.Tx, *ha.Unit) error{
		s.loadSegmentAndHost, s.loadNotification, s.loadPeers, s.loadMoves, s.loadOthers, s.loadStorage, s.loadBlobs,
	} {
		if err := part(ctx, tx, &u); err != nil {
			return ha.Unit{}, err
		}
	}
	return u, nil
}

// loadSegmentAndHost reads both even if they were deleted meanwhile.
func (s *Store) loadSegmentAndHost(ctx context.Context, tx bun.Tx, u *ha.Unit) error {
	seg, err := one[segmentRow](ctx, tx, "uuid = ?", u.SegmentUUID)
	if err != nil {
		return err
	}
	if seg != nil {
		u.Segment = seg.segment()
		if u.Segment.Pause, err = s.pauseOf(ctx, tx, u.SegmentUUID); err != nil {
			return err
		}
	}
	host, err := one[hostRow](ctx, tx, "uuid = ?", u.HostUUID)
	if err != nil {
		return err
	}
	if host != nil {
		u.Host, u.HostDeleted = host.host(), host.Deleted != 0
	}
	return nil
}

// loadNotification reads the unit's own notification, and the queue of those of its key that came after it.
func (s *Store) loadNotification(ctx context.Context, tx bun.Tx, u *ha.Unit) error {
	if u.NotificationUUID == "" {
		return nil
	}
	own, err := one[notificationRow](ctx, tx, "notification_uuid = ?", u.NotificationUUID)
	if err != nil || own == nil {
		return err
	}
	u.Notification = own.notification()
	u.Age = u.Now.Sub(u.Notification.CreatedAt)
	var rows []notificationRow
	err = queueQuery(tx.NewSelect().Model(&rows), u.Key, own.ID).Scan(ctx)
	for _, r := range rows {
		u.Queue = append(u.Queue, r.notification())
	}
	return err
}

// queueQuery finds the open notifications of a key that were received after one. Index: notifications_unit_idx.
func queueQuery(q *bun.SelectQuery, key string, after int64) *bun.SelectQuery {
	return q.Where("unit_key = ?", key).Where(openStatus).Where("id > ?", after).OrderExpr("id").Limit(rules.QueueLimit)
}

// claimsQuery finds the claims that a unit must know: those it made, those of its host and of its segment's hosts.
// Indexes: uniq_claims0what, claims_work_idx.
const claimsQuery = `SELECT * FROM claims WHERE work_id = ?
UNION SELECT * FROM claims WHERE host_uuid = ?
UNION SELECT * FROM claims WHERE host_uuid IN (SELECT uuid FROM hosts WHERE failover_segment_id = ? AND deleted = 0)
ORDER BY id`

// downQuery finds the hosts of a segment with an open death. Index: notifications_status_idx.
const downQuery = `SELECT DISTINCT source_host_uuid FROM notifications WHERE deleted = 0 AND status IN ('new', 'running', 'error')
AND type = 'COMPUTE_HOST' AND event = 'STOPPED'
AND source_host_uuid IN (SELECT uuid FROM hosts WHERE failover_segment_id = ? AND deleted = 0)`

// peerRow is a host of a segment, and whether its storage is in error.
type peerRow struct {
	hostRow      `bun:",extend"`
	StorageError bool `bun:"storage_error,scanonly"`
}

const storageErrorColumn = "EXISTS (SELECT 1 FROM host_health WHERE host_uuid = t.uuid AND state = 'error') AS storage_error"

// peersOf are the hosts of a segment as a plan sees them.
func peersOf(ctx context.Context, db bun.IDB, segment string, claims []ha.Claim) ([]ha.Peer, error) {
	var rows []peerRow
	if err := db.NewSelect().Model(&rows).ColumnExpr("?TableColumns").ColumnExpr(storageErrorColumn).
		Where("failover_segment_id = ? AND deleted = 0", segment).OrderExpr("id").Limit(mostPeers).Scan(ctx); err != nil {
		return nil, err
	}
	var open []string
	if err := db.NewRaw(downQuery, segment).Scan(ctx, &open); err != nil {
		return nil, err
	}
	hosts, down, failed := make([]ha.Host, len(rows)), make(map[string]bool, len(open)), map[string]bool{}
	for i, r := range rows {
		hosts[i], failed[r.UUID] = r.host(), r.StorageError
	}
	for _, uuid := range open {
		down[uuid] = true
	}
	return rules.Peers(hosts, claims, down, failed), nil
}

func (s *Store) loadPeers(ctx context.Context, tx bun.Tx, u *ha.Unit) error {
	var rows []claimRow
	if err := tx.NewRaw(claimsQuery, u.ID, u.HostUUID, u.SegmentUUID).Scan(ctx, &rows); err != nil {
		return err
	}
	claims := claimsFrom(rows)
	for _, c := range claims {
		if c.HostUUID == u.HostUUID || c.WorkID == u.ID {
			u.Claims = append(u.Claims, c)
		}
	}
	var err error
	u.Peers, err = peersOf(ctx, tx, u.SegmentUUID, claims)
	return err
}

func (s *Store) loadMoves(ctx context.Context, tx bun.Tx, u *ha.Unit) error {
	var open []journalRow
	if err := openQuery(tx.NewSelect().Model(&open), u.ID).Scan(ctx); err != nil {
		return err
	}
	if len(open) > 0 {
		u.Open = entriesOf(open)
	}
	if u.NotificationUUID == "" {
		return nil
	}
	var moves []vmoveRow
	err := tx.NewSelect().Model(&moves).Where("notification_uuid = ? AND deleted = 0", u.NotificationUUID).
		OrderExpr("id").Limit(mostMoves).Scan(ctx)
	for _, m := range moves {
		u.Moves = append(u.Moves, m.move())
	}
	return err
}

// openQuery finds the intents of a unit without an outcome. Index: journal_open_idx.
func openQuery(q *bun.SelectQuery, work int64) *bun.SelectQuery {
	return q.Where("work_id = ? AND is_open = ?", work, true).OrderExpr("epoch, seq").Limit(mostOpen)
}

// othersQuery asks about other units: host recoveries that started in the segment within the last minute, an active host unit
// of the host, acts in flight of the host's other units. Indexes: work_rate_idx, uniq_work0unit_key0ended, work_host_idx,
// journal_open_idx.
const othersQuery = `SELECT
 (SELECT COUNT(*) FROM work WHERE segment_uuid = ? AND kind = 'host' AND started_at >= ? AND id <> ?) AS recent,
 (SELECT COALESCE(MAX(id), 0) FROM work WHERE unit_key = ? AND ended = 0 AND id <> ?) AS host_unit,
 (SELECT COUNT(*) FROM work AS w JOIN journal AS j ON j.work_id = w.id
  WHERE w.host_uuid = ? AND w.ended = 0 AND w.id <> ? AND j.is_open = ?) AS in_flight`

func (s *Store) loadOthers(ctx context.Context, tx bun.Tx, u *ha.Unit) error {
	var got struct {
		Recent   int   `bun:"recent"`
		HostUnit int64 `bun:"host_unit"`
		InFlight int   `bun:"in_flight"`
	}
	err := tx.NewRaw(othersQuery, u.SegmentUUID, literal(u.Now.Add(-rules.RateWindow)), u.ID,
		ha.UnitHost.Key(u.HostUUID), u.ID, u.HostUUID, u.ID, true).Scan(ctx, &got)
	if err != nil {
		return err
	}
	u.RecentStarts, u.HostUnit, u.InFlight = got.Recent, got.HostUnit, got.InFlight
	key := rules.EarlierKey(u.Work)
	if key == "" {
		return nil
	}
	var rows []struct {
		StartedAt        stamp  `bun:"started_at"`
		NotificationUUID string `bun:"notification_uuid"`
	}
	err = tx.NewRaw(earlierQuery, key, u.ID, rules.EarlierLimit).Scan(ctx, &rows)
	starts := make([]rules.Start, len(rows))
	for i, r := range rows {
		starts[i] = rules.Start{At: r.StartedAt.Time, Notification: r.NotificationUUID}
	}
	u.Earlier = rules.Starts(starts)
	return err
}

// earlierQuery finds the starts of the latest ended units of a key. Index: uniq_work0unit_key0ended, as ended is the row's id.
const earlierQuery = `SELECT started_at, notification_uuid FROM work WHERE unit_key = ? AND ended <> 0 AND started_at IS NOT NULL AND id <> ?
ORDER BY ended DESC LIMIT ?`
