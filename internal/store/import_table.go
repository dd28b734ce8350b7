package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"
	sqlitedriver "modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

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
	// key is the folded name: among live rows it is unique, and among rows with the same deleted; may be nil.
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
	key  string // the folded name
	left string
	twin bool // another row of Masakari's has its uuid
}

// nameOf is what a name is unique by within its table: for MySQL blanks at the end do not count, so they count nowhere.
func nameOf(key string, deleted int64) string {
	return strings.TrimRight(key, " ") + "\x00" + itoa(deleted)
}

func (c candidate[O, R]) name() string { return nameOf(c.key, c.from.Deleted) }

// takeTable takes a table over, in one pass.
func takeTable[O, R any](ctx context.Context, im *importer, t importTable[O, R]) error {
	im.report.Tables = append(im.report.Tables, ImportedTable{Name: t.name})
	for after, read := int64(-math.MaxInt64), 0; ; { // ids below 1 are left out, and said
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
		for rest := page; len(rest) > 0; {
			n := batchOf(rest)
			if err := takePage(ctx, im, t, rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
		if read += len(page); read%importTell == 0 {
			im.say("%s: %d read", t.name, read)
		}
		if len(page) < importBatch {
			return nil
		}
		last := page[len(page)-1].ID
		if last <= after {
			return fmt.Errorf("Masakari's table %s cannot be read to its end: its column id does not hold ascending numbers. "+
				"Give it back its primary key, and run this again", t.name)
		}
		after = last
	}
}

// batchOf returns how many of these rows make one transaction.
func batchOf[O any](rows []masakari.Row[O]) (n int) {
	for size := 0; n < len(rows); n++ {
		if size += rows[n].Size; n > 0 && size > importBytes {
			break
		}
	}
	return n
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
		if c.row, c.left, changed = t.row(c.from); c.left == "" && t.key != nil {
			c.key = t.key(c.row)
		}
		if changed != "" && c.from.Cut != "" {
			changed += "; "
		}
		changes[c.from.ID] = changed + c.from.Cut
	}
	if err := leaveTwins(ctx, im, t, batch); err != nil {
		return err
	}
	there, err := placeBatch(ctx, im, t, batch)
	if err != nil {
		return err
	}
	for i := range batch {
		c := &batch[i]
		has := there[c.from.UUID] && !c.twin
		switch {
		case has:
			count.There++
		case c.left != "":
			count.Left++
			im.say("left out: %s: %s", t.which(c.from), c.left)
		default:
			count.Taken++
			if changed := changes[c.from.ID]; changed != "" {
				count.Changed++
				im.say("changed: %s: %s", t.which(c.from), changed)
			}
		}
		t.tell(c.from, has || c.left == "", !has && c.left == "")
	}
	return nil
}

func (t importTable[O, R]) tell(o masakari.Row[O], has, taken bool) {
	if t.known != nil {
		t.known(o, has, taken)
	}
}

// which names a row for people.
func (t importTable[O, R]) which(o masakari.Row[O]) string {
	switch plain := strconv.Quote(o.UUID); {
	case o.UUID == "":
		return fmt.Sprintf("%s id %d", t.name, o.ID)
	case plain == `"`+o.UUID+`"`:
		return fmt.Sprintf("%s id %d, %s", t.name, o.ID, o.UUID)
	default: // nothing that a terminal would obey
		return fmt.Sprintf("%s id %d, %.60s", t.name, o.ID, plain)
	}
}

// leaveTwins leaves out the rows whose uuid another row of Masakari's has, with a smaller id.
func leaveTwins[O, R any](ctx context.Context, im *importer, t importTable[O, R], batch []candidate[O, R]) error {
	var firsts map[string]int64
	err := im.src.read(ctx, "looking for uuids that are there twice in Masakari's "+t.name, func(ctx context.Context, db bun.IDB) (err error) {
		firsts, err = masakari.Firsts(ctx, db, t.name, t.uuid, uuidsOf(batch), im.what.Deleted)
		return err
	})
	for i := range batch {
		c := &batch[i]
		first, found := firsts[c.from.UUID]
		if c.twin = found && first != c.from.ID; c.twin && c.left == "" {
			c.left = fmt.Sprintf("its uuid is that of id %d too: give one of the two another in Masakari, or delete it there", first)
		}
	}
	return err
}

func uuidsOf[O, R any](batch []candidate[O, R]) []string {
	uuids := make([]string, len(batch))
	for i, c := range batch {
		uuids[i] = c.from.UUID
	}
	return uuids
}

// placeBatch places a batch, and returns the uuids that were there. What was not foreseen and the database refuses is found by
// halves, and left out: one row must not keep the others from being taken.
func placeBatch[O, R any](ctx context.Context, im *importer, t importTable[O, R], batch []candidate[O, R]) (there map[string]bool, err error) {
	there, err = placeWhole(ctx, im, t, batch)
	switch half := len(batch) / 2; {
	case !refusesRow(err):
		return there, err
	case half == 0:
		// Another import may have taken it since the look: that is seen now.
		if there, err = placeWhole(ctx, im, t, batch); !refusesRow(err) {
			return there, err
		}
		batch[0].left = fmt.Sprintf("the database refuses it: %.300s", strings.Join(strings.Fields(err.Error()), " "))
		return nil, nil
	default:
		if there, err = placeBatch(ctx, im, t, batch[:half]); err != nil {
			return nil, err
		}
		more, err := placeBatch(ctx, im, t, batch[half:])
		if there == nil {
			return more, err
		}
		maps.Copy(there, more)
		return there, err
	}
}

// placeWhole writes what of a batch is new and fits, in one transaction, and returns the uuids that were there. What does not fit
// gets its reason.
func placeWhole[O, R any](ctx context.Context, im *importer, t importTable[O, R], batch []candidate[O, R]) (there map[string]bool, err error) {
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
			im.names[t.name+"/"+c.name()] = c.from.UUID
		}
	}
	return there, nil
}

// judge compares a batch with what salvor has, and says of each row that does not fit why.
func judge[O, R any](ctx context.Context, im *importer, t importTable[O, R], db bun.IDB, batch []candidate[O, R]) (there map[string]bool, err error) {
	var ids, deleted []int64
	var keys []string
	for _, c := range batch {
		ids = append(ids, c.from.ID)
		if c.key != "" {
			keys, deleted = append(keys, c.key), append(deleted, c.from.Deleted)
		}
	}
	there = map[string]bool{}
	if len(ids) == 0 {
		return there, nil
	}
	byID, byKey := map[int64]string{}, map[string]string{}
	var found []named
	query := "SELECT id, ? AS uuid FROM ? WHERE ? IN (?)"
	if err := db.NewRaw(query, bun.Ident(t.uuid), bun.Ident(t.name), bun.Ident(t.uuid), bun.List(uuidsOf(batch))).Scan(ctx, &found); err != nil {
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
			UUID    string `bun:"uuid"`
			Key     string `bun:"name_key"`
			Deleted int64  `bun:"deleted"`
		}
		query := "SELECT uuid, name_key, deleted FROM ? WHERE deleted IN (?) AND name_key IN (?)"
		if err := db.NewRaw(query, bun.Ident(t.name), bun.List(deleted), bun.List(keys)).Scan(ctx, &names); err != nil {
			return nil, err
		}
		for _, n := range names {
			byKey[nameOf(n.Key, n.Deleted)] = n.UUID
		}
	}
	taken := map[int64]string{}
	for i := range batch {
		c := &batch[i]
		if c.left != "" || there[c.from.UUID] {
			continue
		}
		switch by, taken := byID[c.from.ID]; {
		case taken && by == c.from.UUID: // by another import, since the look by uuid
			there[by] = true
			continue
		case taken:
			c.left = fmt.Sprintf("salvor has another row with this id, %s: import into an empty database", by)
			continue
		}
		if by, twin := taken[c.from.ID]; twin {
			c.left = fmt.Sprintf("Masakari has another row with this id, %s: give one of the two another", by)
			continue
		}
		if c.key == "" {
			taken[c.from.ID] = c.from.UUID
			continue
		}
		by := byKey[c.name()]
		if by == "" {
			by = im.names[t.name+"/"+c.name()]
		}
		if by != "" && by != c.from.UUID {
			c.left = fmt.Sprintf("its name is that of %s (case and blanks at the end do not count): rename one of the two in Masakari", by)
			continue
		}
		byKey[c.name()], taken[c.from.ID] = c.from.UUID, c.from.UUID
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

// refusesRow reports that the database refused what a row holds, and not the import as such (a right that is missing, a full disk).
func refusesRow(err error) bool {
	var my *mysqldriver.MySQLError
	var pg *pgconn.PgError
	var lite *sqlitedriver.Error
	switch {
	case errors.As(err, &my):
		switch my.Number {
		case 1153, 1265, 1366: // above max_allowed_packet, cut, text of another character set: their SQLSTATEs say nothing
			return true
		}
		state := string(my.SQLState[:2])
		return state == "22" || state == "23"
	case errors.As(err, &pg):
		return strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23") || pg.Code == "54000" // also: above a limit of an index
	case errors.As(err, &lite):
		code := lite.Code() & 0xff
		return code == sqlitelib.SQLITE_CONSTRAINT || code == sqlitelib.SQLITE_MISMATCH || code == sqlitelib.SQLITE_TOOBIG
	default:
		return false
	}
}
