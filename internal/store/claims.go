package store

import (
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

type claimRow struct {
	bun.BaseModel `bun:"table:claims,alias:t"`
	ID            int64  `bun:"id,pk,autoincrement"`
	HostUUID      string `bun:"host_uuid"`
	What          string `bun:"what"`
	Reason        string `bun:"reason"`
	Detail        string `bun:"detail"`
	Prior         string `bun:"prior"`
	WorkID        int64  `bun:"work_id"`
	Since         stamp  `bun:"since"`
	Seen          stamp  `bun:"seen"`
}

func (r claimRow) claim() ha.Claim {
	return ha.Claim{
		ID: r.ID, HostUUID: r.HostUUID, What: ha.What(r.What), Reason: ha.Reason(r.Reason), Detail: r.Detail, Prior: r.Prior,
		WorkID: r.WorkID, Since: r.Since.Time, Seen: r.Seen.Time,
	}
}

func claimsFrom(rows []claimRow) []ha.Claim {
	claims := make([]ha.Claim, len(rows))
	for i, r := range rows {
		claims[i] = r.claim()
	}
	return claims
}

// claimsOf are the claims on a host.
func claimsOf(ctx context.Context, db bun.IDB, host string) ([]ha.Claim, error) {
	var rows []claimRow
	err := db.NewSelect().Model(&rows).Where("host_uuid = ?", host).Order("id").Scan(ctx)
	return claimsFrom(rows), err
}

// putClaim makes a claim, or keeps the one that is there and writes Seen into it (ha.PutClaim). now is when it was made.
func (s *Store) putClaim(ctx context.Context, tx bun.Tx, c ha.Claim, now time.Time) error {
	n, err := changed(ctx, tx, "UPDATE claims SET seen = ? WHERE host_uuid = ? AND what = ? AND reason = ? AND detail = ?",
		literal(c.Seen), c.HostUUID, c.What, c.Reason, rules.Name(c.Detail))
	if err != nil || n > 0 {
		return err
	}
	row := claimRow{
		HostUUID: c.HostUUID, What: string(c.What), Reason: string(c.Reason), Detail: rules.Name(c.Detail),
		Prior: rules.Text(c.Prior, rules.MaxText), WorkID: c.WorkID, Since: stamp{now}, Seen: stamp{c.Seen},
	}
	if !c.Since.IsZero() {
		row.Since = stamp{c.Since}
	}
	_, err = tx.NewInsert().Model(&row).ExcludeColumn("id").On(s.d.keep("host_uuid, what, reason, detail")).Returning("NULL").Exec(ctx)
	return err
}

func dropClaim(ctx context.Context, tx bun.Tx, c ha.DropClaim) error {
	_, err := changed(ctx, tx, "DELETE FROM claims WHERE host_uuid = ? AND what = ? AND reason = ? AND detail = ?",
		c.HostUUID, c.What, c.Reason, rules.Name(c.Detail))
	return err
}

// heldQuery finds what recoveries and process failures hold in Nova of some hosts; inheritQuery that of hosts of a name that were deleted.
// Indexes: uniq_host0name0deleted, uniq_claims0what.
const (
	heldQuery = `SELECT c.* FROM hosts AS h JOIN claims AS c ON c.host_uuid = h.uuid AND c.reason IN ('recovery', 'process')
 AND c.what IN ('forced_down', 'disabled', 'order') WHERE h.`
	inheritQuery = heldQuery + "name = ? AND h.deleted <> 0 ORDER BY c.id"
)

// takeBacksOf are the hosts that the claims are on, and the keys of their take-backs.
func takeBacksOf(rows []claimRow) (hosts, keys []string) {
	for _, c := range rows {
		if !slices.Contains(hosts, c.HostUUID) {
			hosts, keys = append(hosts, c.HostUUID), append(keys, ha.UnitTakeBack.Key(c.HostUUID))
		}
	}
	return hosts, keys
}

// leaveBehind has what salvor holds in Nova of the hosts that are about to be deleted taken back, or told, by take-backs that outlast them.
func (s *Store) leaveBehind(ctx context.Context, tx bun.Tx, segment, which string, arg any) error {
	var rows []claimRow
	if err := tx.NewRaw(heldQuery+which, arg).Scan(ctx, &rows); err != nil || len(rows) == 0 {
		return err
	}
	hosts, keys := takeBacksOf(rows)
	for i, h := range hosts {
		if err := s.startUnit(ctx, tx, ha.Work{Kind: ha.UnitTakeBack, Key: keys[i], HostUUID: h, SegmentUUID: segment}); err != nil {
			return err
		}
	}
	return s.signal(ctx, tx, keys...)
}

// inherit hands what salvor holds of a deleted host on to h, which was registered under its name, and has it taken back: else the next
// recovery would find it in Nova, and take it for somebody else's. A process's is taken back when that is reported STARTED.
func (s *Store) inherit(ctx context.Context, tx bun.Tx, h ha.Host, now time.Time) error {
	var rows []claimRow
	if err := tx.NewRaw(inheritQuery, h.Name).Scan(ctx, &rows); err != nil || len(rows) == 0 {
		return err
	}
	_, before := takeBacksOf(rows)
	if err := s.signal(ctx, tx, before...); err != nil { // they would tell of what they hold no more
		return err
	}
	takeBack := false
	for _, c := range claimsFrom(rows) {
		n, err := changed(ctx, tx, "DELETE FROM claims WHERE id = ?", c.ID)
		if err != nil {
			return err
		}
		if n == 0 { // dropped since it was read
			continue
		}
		c.HostUUID = h.UUID
		if err := s.putClaim(ctx, tx, c, now); err != nil {
			return err
		}
		takeBack = takeBack || c.Reason == ha.ReasonRecovery
	}
	if !takeBack {
		return nil
	}
	return s.startUnit(ctx, tx, ha.Work{Kind: ha.UnitTakeBack, Key: ha.UnitTakeBack.Key(h.UUID), HostUUID: h.UUID, SegmentUUID: h.SegmentUUID})
}
