package store

import (
	"context"
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
