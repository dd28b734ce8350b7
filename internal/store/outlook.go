package store

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// startsQuery counts the host recoveries that started in a segment lately. Index: work_rate_idx.
const startsQuery = `SELECT COUNT(*) FROM work WHERE segment_uuid = ? AND kind = 'host' AND started_at >= ?`

// Outlook reads what a recovery of any host of the segment would begin with. It changes nothing. NotFoundError.
func (s *Store) Outlook(ctx context.Context, segment string) (ha.Outlook, error) {
	var o ha.Outlook
	err := s.read(ctx, "looking over a segment", func(ctx context.Context, db bun.IDB) error {
		o = ha.Outlook{}
		seg, err := one[segmentRow](ctx, db, "uuid = ? AND deleted = 0", segment)
		if err != nil {
			return err
		}
		if seg == nil {
			return &ha.NotFoundError{Kind: ha.KindSegment, ID: segment}
		}
		o.Segment = seg.segment()
		if o.Segment.Pause, err = s.pauseOf(ctx, db, segment); err != nil {
			return err
		}
		var now stamp
		if err := db.NewRaw("SELECT ?", s.d.now()).Scan(ctx, &now); err != nil {
			return err
		}
		o.Now = now.Time
		var claims []claimRow
		if err := db.NewRaw(claimsQuery, -1, "", segment).Scan(ctx, &claims); err != nil {
			return err
		}
		o.Claims = claimsFrom(claims)
		if o.Peers, err = peersOf(ctx, db, segment, o.Claims); err != nil {
			return err
		}
		return db.NewRaw(startsQuery, segment, literal(o.Now.Add(-rules.RateWindow))).Scan(ctx, &o.RecentStarts)
	})
	return o, err
}
