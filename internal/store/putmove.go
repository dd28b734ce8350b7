package store

import (
	"context"
	"reflect"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// putMove writes the owner's fields of a move, which its notification and instance name. One that it does not change is not
// written; new ones are written together.
func (c *commit) putMove(ctx context.Context, m ha.VMove) error {
	if m.NotificationUUID == "" {
		m.NotificationUUID = c.row.NotificationUUID
	}
	known, err := c.movesOf(ctx, m.NotificationUUID)
	if err != nil {
		return err
	}
	next := rowOfMove(m)
	have := known[m.InstanceUUID]
	if have == nil {
		next.CreatedAt = stamp{rules.Second(c.now)}
		known[m.InstanceUUID] = &next
		c.fresh = append(c.fresh, &next)
		return nil
	}
	next.common, next.UUID, next.RetryWish = have.common, have.UUID, have.RetryWish
	if reflect.DeepEqual(next, *have) {
		return nil
	}
	pending := have.ID == 0
	*have = next
	if pending {
		return nil
	}
	have.UpdatedAt = stamp{rules.Second(c.now)}
	_, err = c.tx.NewUpdate().Model(have).ExcludeColumn("id", "uuid", "notification_uuid", "instance_uuid", "created_at", "deleted_at",
		"deleted", "retry_wish").WherePK().Exec(ctx)
	return err
}

// movesOf are the moves of a notification by instance, read once in a commit. Of several for one instance, which an
// imported database may have, it is the latest.
func (c *commit) movesOf(ctx context.Context, notification string) (map[string]*vmoveRow, error) {
	if known, ok := c.moves[notification]; ok {
		return known, nil
	}
	var rows []*vmoveRow
	if err := c.tx.NewSelect().Model(&rows).Where("notification_uuid = ? AND deleted = 0", notification).
		OrderExpr("id").Limit(mostMoves).Scan(ctx); err != nil {
		return nil, err
	}
	known := make(map[string]*vmoveRow, len(rows))
	for _, r := range rows {
		known[r.InstanceUUID] = r
	}
	if c.moves == nil {
		c.moves = make(map[string]map[string]*vmoveRow)
	}
	c.moves[notification] = known
	return known, nil
}

// flush writes what was gathered: new moves, then journal entries, each in one statement.
func (c *commit) flush(ctx context.Context) error {
	if len(c.fresh) > 0 {
		if _, err := c.tx.NewInsert().Model(&c.fresh).ExcludeColumn("id").Returning("NULL").Exec(ctx); err != nil {
			return err
		}
		c.fresh, c.moves = nil, nil
	}
	entries := c.entries
	c.entries = nil
	return c.s.append(ctx, c.tx, entries)
}
