package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// Outlook reads what a recovery of any host of the segment would begin with. It changes nothing. NotFoundError.
func (s *Store) Outlook(ctx context.Context, segment string) (o ha.Outlook, err error) {
	err = s.run(ctx, "Outlook", func(t *tx) error {
		seg := t.segments[segment]
		if seg == nil || seg.deletedAt != nil {
			return &ha.NotFoundError{Kind: ha.KindSegment, ID: segment}
		}
		o = ha.Outlook{Segment: seg.Segment, Now: t.now}
		o.Segment.Pause = t.pauseOf(segment)
		var hosts []ha.Host
		for _, h := range t.hostsOf[segment] {
			if h.deletedAt == nil {
				hosts = append(hosts, h.Host)
				for _, c := range t.claimsOn[h.UUID] {
					o.Claims = append(o.Claims, *c)
				}
			}
		}
		slices.SortFunc(o.Claims, func(a, b ha.Claim) int { return cmp.Compare(a.ID, b.ID) })
		down := make(map[string]bool)
		for _, n := range t.open {
			if n.Type == ha.TypeComputeHost && n.Payload.Stopped() {
				down[n.SourceHostUUID] = true
			}
		}
		o.Peers = rules.Peers(hosts, o.Claims, down, t.failedStorage())
		since := t.now.Add(-rules.RateWindow)
		for _, w := range t.started[segment] {
			if w.StartedAt != nil && !w.StartedAt.Before(since) {
				o.RecentStarts++
			}
		}
		return nil
	})
	return o, err
}
