package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/store/masakari"
)

// importTable is how one of the four tables is taken over. O is the object of salvor's language, R its row.
type importTable[O, R any] struct {
	name string
	uuid string // its column
	page func(ctx context.Context, db bun.IDB, after int64, limit int) ([]masakari.Row[O], error)
	// prepare reads what the judgement of a page needs; may be nil.
	prepare func(ctx context.Context, rows []masakari.Row[O]) error
	// row makes salvor's row. left says why it cannot be taken, changed what of it is not as it was.
	row func(o masakari.Row[O]) (row R, left, changed string)
	// key is the folded name of a live row, "" for none: such names are unique.
	key func(R) string
	// also writes what belongs to rows that are new; may be nil.
	also func(ctx context.Context, tx bun.Tx, rows []R) error
	// known is told of every row: whether salvor has it, or will have, and whether it is taken now; may be nil.
	known func(o masakari.Row[O], has, taken bool)
}

// candidate is a row on its way.
type candidate[O, R any] struct {
	from masakari.Row[O]
	row  R
	key  string
	left string
}

// takeTable takes a table over, in one pass.
func takeTable[O, R any](ctx context.Context, im *importer, t importTable[O, R]) error {
	im.report.Tables = append(im.report.Tables, ImportedTable{Name: t.name})
	for after, read := int64(0), 0; ; {
		var page []masakari.Row[O]
		err := im.src.read(ctx, "reading Masakari's "+t.name, func(ctx context.Context, db bun.IDB) (err error) {
			page, err = t.page(ctx, db, after, importBatch)
			return err
		})
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		if err := takePage(ctx, im, t, page); err != nil {
			return err
		}
		after = page[len(page)-1].ID
		if read += len(page); read%importTell == 0 {
			im.say("%s: %d read", t.name, read)
		}
		if len(page) < importBatch {
			return nil
		}
	}
}

func takePage[O, R any](ctx context.Context, im *importer, t importTable[O, R], page []masakari.Row[O]) error {
	if t.prepare != nil {
		if err := t.prepare(ctx, page); err != nil {
			return err
		}
	}
	count := &im.report.Tables[len(im.report.Tables)-1]
	var batch []candidate[O, R]
	for _, o := range page {
		if o.Deleted != 0 && !im.what.Deleted {
			count.Deleted++
			t.tell(o, false, false)
			continue
		}
		batch = append(batch, candidate[O, R]{from: o, left: o.Fault})
	}
	changes := map[int64]string{}
	for i := range batch {
		c := &batch[i]
		if c.left != "" {
			continue
		}
		var changed string
		if c.row, c.left, changed = t.row(c.from); c.left == "" && t.key != nil && c.from.Deleted == 0 {
			c.key = t.key(c.row)
		}
		if changed != "" {
			changes[c.from.ID] = changed
		}
	}
	there, err := placeBatch(ctx, im, t, batch)
	if err != nil {
		return err
	}
	for i := range batch {
		c := &batch[i]
		switch {
		case there[c.from.UUID]:
			count.There++
		case c.left != "":
			count.Left++
			im.say("left out: %s id %d, %s: %s", t.name, c.from.ID, c.from.UUID, c.left)
		default:
			count.Taken++
			if changed := changes[c.from.ID]; changed != "" {
				count.Changed++
				im.say("changed: %s id %d, %s: %s", t.name, c.from.ID, c.from.UUID, changed)
			}
		}
		has := there[c.from.UUID]
		t.tell(c.from, has || c.left == "", !has && c.left == "")
	}
	return nil
}

func (t importTable[O, R]) tell(o masakari.Row[O], has, taken bool) {
	if t.known != nil {
		t.known(o, has, taken)
	}
}

// placeBatch writes what of a batch is new and fits, in one transaction, and returns the uuids that were there. What does not fit
// gets its reason.
func placeBatch[O, R any](ctx context.Context, im *importer, t importTable[O, R], batch []candidate[O, R]) (there map[string]bool, err error) {
	judged := make([]candidate[O, R], len(batch))
	place := func(ctx context.Context, db bun.IDB) (fresh []R, err error) {
		copy(judged, batch) // a transaction may be tried again
		if there, err = judge(ctx, im, t, db, judged); err != nil {
			return nil, err
		}
		for i := range judged {
			if c := &judged[i]; c.left == "" && !there[c.from.UUID] {
				fresh = append(fresh, c.row)
			}
		}
		return fresh, nil
	}
	if im.what.DryRun {
		err = im.s.read(ctx, "looking for rows", func(ctx context.Context, db bun.IDB) error { _, err := place(ctx, db); return err })
	} else {
		err = im.s.write(ctx, "importing "+t.name, func(ctx context.Context, tx bun.Tx) error {
			fresh, err := place(ctx, tx)
			if err != nil || len(fresh) == 0 {
				return err
			}
			if _, err := tx.NewInsert().Model(&fresh).Returning("NULL").Exec(ctx); err != nil {
				return err
			}
			if err := im.s.passIDs(ctx, tx, t.name); err != nil {
				return err
			}
			if t.also == nil {
				return nil
			}
			return t.also(ctx, tx, fresh)
		}, nil)
	}
	if err != nil {
		return nil, err
	}
	copy(batch, judged)
	for _, c := range batch {
		if c.key != "" && c.left == "" {
			im.names[t.name+"/"+c.key] = c.from.UUID
		}
	}
	return there, nil
}

// judge compares a batch with what salvor has, and says of each row that does not fit why.
func judge[O, R any](ctx context.Context, im *importer, t importTable[O, R], db bun.IDB, batch []candidate[O, R]) (there map[string]bool, err error) {
	var ids []int64
	var uuids, keys []string
	for _, c := range batch {
		ids, uuids = append(ids, c.from.ID), append(uuids, c.from.UUID)
		if c.key != "" {
			keys = append(keys, c.key)
		}
	}
	there = map[string]bool{}
	if len(ids) == 0 {
		return there, nil
	}
	byID, byKey := map[int64]string{}, map[string]string{}
	var found []named
	query := "SELECT id, ? AS uuid FROM ? WHERE ? IN (?)"
	if err := db.NewRaw(query, bun.Ident(t.uuid), bun.Ident(t.name), bun.Ident(t.uuid), bun.List(uuids)).Scan(ctx, &found); err != nil {
		return nil, err
	}
	for _, f := range found {
		there[f.UUID] = true
	}
	found = nil
	if err := db.NewRaw(query, bun.Ident(t.uuid), bun.Ident(t.name), bun.Ident("id"), bun.List(ids)).Scan(ctx, &found); err != nil {
		return nil, err
	}
	for _, f := range found {
		byID[f.ID] = f.UUID
	}
	if len(keys) > 0 {
		var names []struct {
			UUID string `bun:"uuid"`
			Key  string `bun:"name_key"`
		}
		if err := db.NewRaw("SELECT uuid, name_key FROM ? WHERE deleted = 0 AND name_key IN (?)", bun.Ident(t.name), bun.List(keys)).Scan(ctx, &names); err != nil {
			return nil, err
		}
		for _, n := range names {
			byKey[n.Key] = n.UUID
		}
	}
	for i := range batch {
		c := &batch[i]
		if c.left != "" || there[c.from.UUID] {
			continue
		}
		if by, taken := byID[c.from.ID]; taken {
			c.left = fmt.Sprintf("salvor has another row with this id, %s: import into an empty database", by)
			continue
		}
		if c.key == "" {
			continue
		}
		by := byKey[c.key]
		if by == "" {
			by = im.names[t.name+"/"+c.key]
		}
		if by != "" && by != c.from.UUID {
			c.left = fmt.Sprintf("its name is that of %s (case does not count): rename one of the two in Masakari", by)
			continue
		}
		byKey[c.key] = c.from.UUID
	}
	return there, nil
}

// passIDs makes PostgreSQL count on behind ids that were given; the others do so by themselves.
func (s *Store) passIDs(ctx context.Context, tx bun.Tx, table string) error {
	if s.d.name != postgres {
		return nil
	}
	_, err := changed(ctx, tx, "SELECT setval(pg_get_serial_sequence(?, 'id'), GREATEST((SELECT MAX(id) FROM ?), nextval(pg_get_serial_sequence(?, 'id'))))",
		table, bun.Ident(table), table)
	return err
}
