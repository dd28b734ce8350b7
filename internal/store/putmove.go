package store

import (
	"context"
	"reflect"
	"slices"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// putMove gathers the owner's fields of a move, which its notification and instance name; all of a commit are written together. One
// with a uuid of another's making, such as an imported one, is looked for, and is not written if nothing changes.
func (c *commit) putMove(ctx context.Context, m ha.VMove) error {
	if m.NotificationUUID == "" {
		m.NotificationUUID = c.row.NotificationUUID
	}
	next := rowOfMove(m)
	next.CreatedAt = stamp{rules.Second(c.now)}
	if m.UUID == ha.MoveUUID(m.NotificationUUID, m.InstanceUUID) { // made of what names it: no row of it has another
		c.put(&next)
		return nil
	}
	known, err := c.movesOf(ctx, m.NotificationUUID)
	if err != nil {
		return err
	}
	have := known[m.InstanceUUID]
	if have == nil {
		known[m.InstanceUUID] = &next
		c.puts = append(c.puts, &next)
		return nil
	}
	next.common, next.UUID, next.RetryWish = have.common, have.UUID, have.RetryWish
	if reflect.DeepEqual(next, *have) {
		return nil
	}
	*have = next
	if !slices.Contains(c.puts, have) {
		c.puts = append(c.puts, have)
	}
	return nil
}

// put gathers a move that is written under its uuid, whether it is new or not.
func (c *commit) put(next *vmoveRow) {
	for _, have := range c.puts {
		if have.UUID == next.UUID {
			*have = *next
			return
		}
	}
	c.puts = append(c.puts, next)
}

// stays are the columns of a move that a put of an existing one leaves alone, what names it and what is the api's, or sets itself.
var stays = []string{"id", "uuid", "notification_uuid", "instance_uuid", "created_at", "updated_at", "deleted_at", "deleted", "retry_wish"}

// writePuts writes the gathered moves in one statement, whether they are new or not.
func (c *commit) writePuts(ctx context.Context) error {
	if len(c.puts) == 0 {
		return nil
	}
	var columns []string
	for _, f := range c.s.db.Table(reflect.TypeFor[*vmoveRow]()).Fields {
		if !slices.Contains(stays, f.Name) {
			columns = append(columns, f.Name)
		}
	}
	on, set := c.s.d.overwrite("uuid", columns)
	set += ", updated_at = " + string(literal(rules.Second(c.now)))
	_, err := c.tx.NewInsert().Model(&c.puts).ExcludeColumn("id").On(on).Set(set).Returning("NULL").Exec(ctx)
	c.puts, c.moves = nil, nil
	return err
}

// movesOf are the moves of a notification, of those instances that the commit writes, read once in it. Of several for one
// instance, which an imported database may have, it is the latest.
func (c *commit) movesOf(ctx context.Context, notification string) (map[string]*vmoveRow, error) {
	if known, ok := c.moves[notification]; ok {
		return known, nil
	}
	var rows []*vmoveRow
	if err := c.tx.NewSelect().Model(&rows).Where("notification_uuid = ? AND deleted = 0", notification).
		Where("instance_uuid IN (?)", bun.List(c.instances)).OrderExpr("id").Limit(mostMoves).Scan(ctx); err != nil {
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

// instancesIn names the instances whose moves the changes write.
func instancesIn(changes []ha.Change) []string {
	var ids []string
	for _, change := range changes {
		if put, is := change.(ha.PutMove); is {
			ids = append(ids, put.Move.InstanceUUID)
		}
	}
	return ids
}

// closeIntent ends the open intents with the key that were written before this change, in the rows and in what is gathered; one that
// is written later in the same commit stays open.
func (c *commit) closeIntent(key string) {
	for i := range c.entries {
		if c.entries[i].Key == key {
			c.entries[i].Open = false
		}
	}
	if !slices.Contains(c.closed, key) {
		c.closed = append(c.closed, key)
	}
}

// flush writes what was gathered, each kind in one statement: moves, the ends of intents, then journal entries.
func (c *commit) flush(ctx context.Context) error {
	if err := c.writePuts(ctx); err != nil {
		return err
	}
	entries, closed := c.entries, c.closed
	c.entries, c.closed = nil, nil
	if len(closed) > 0 {
		if err := c.exec(ctx, "UPDATE journal SET is_open = ? WHERE work_id = ? AND is_open = ? AND act_key IN (?)",
			false, c.row.ID, true, bun.List(closed)); err != nil {
			return err
		}
	}
	return c.s.append(ctx, c.tx, entries)
}
