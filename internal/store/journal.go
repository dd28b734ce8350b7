package store

import (
	"context"
	"slices"
	"strconv"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

type journalRow struct {
	bun.BaseModel    `bun:"table:journal,alias:t"`
	ID               int64   `bun:"id,pk,autoincrement"`
	WorkID           int64   `bun:"work_id"`
	Epoch            int64   `bun:"epoch"`
	Seq              int64   `bun:"seq"`
	LoggedAt         stamp   `bun:"logged_at"`
	NotificationUUID string  `bun:"notification_uuid"`
	HostUUID         string  `bun:"host_uuid"`
	InstanceUUID     string  `bun:"instance_uuid"`
	Kind             string  `bun:"kind"`
	ActKey           string  `bun:"act_key"`
	Act              string  `bun:"act"`
	Task             string  `bun:"task"`
	State            string  `bun:"state"`
	Progress         float64 `bun:"progress"`
	Note             string  `bun:"note"`
	IsOpen           bool    `bun:"is_open"`
}

func (r journalRow) entry() ha.Entry {
	return ha.Entry{
		ID: r.ID, WorkID: r.WorkID, Epoch: r.Epoch, Seq: r.Seq, At: r.LoggedAt.Time, NotificationUUID: r.NotificationUUID,
		HostUUID: r.HostUUID, InstanceUUID: r.InstanceUUID, Kind: ha.EntryKind(r.Kind), Key: r.ActKey, Act: ha.ActKind(r.Act),
		Task: r.Task, State: r.State, Progress: r.Progress, Text: r.Note, Open: r.IsOpen,
	}
}

func rowOfEntry(e ha.Entry) journalRow {
	return journalRow{
		WorkID: e.WorkID, Epoch: e.Epoch, Seq: e.Seq, LoggedAt: stamp{e.At}, NotificationUUID: e.NotificationUUID,
		HostUUID: e.HostUUID, InstanceUUID: e.InstanceUUID, Kind: string(e.Kind), ActKey: e.Key, Act: string(e.Act),
		Task: e.Task, State: e.State, Progress: e.Progress, Note: e.Text, IsOpen: e.Open,
	}
}

func entriesOf(rows []journalRow) []ha.Entry {
	entries := make([]ha.Entry, len(rows))
	for i, r := range rows {
		entries[i] = r.entry()
	}
	return entries
}

// Journal returns the newest entries of a notification, at most limit, in true order: by unit of work, epoch and number,
// which no clock decides. With before, the id of an entry, it returns those before that one; MarkerError when the
// notification has no such entry.
func (s *Store) Journal(ctx context.Context, notification string, before int64, limit int) ([]ha.Entry, error) {
	var rows []journalRow
	err := s.read(ctx, "reading the journal", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		if limit <= 0 || !rules.Storable(notification) {
			return nil
		}
		q := db.NewSelect().Model(&rows).Where("notification_uuid = ?", notification)
		if before != 0 {
			m, err := one[journalRow](ctx, db, "id = ? AND notification_uuid = ?", before, notification)
			if err != nil {
				return err
			}
			if m == nil {
				return &ha.MarkerError{Marker: strconv.FormatInt(before, 10)}
			}
			q.Where("work_id <= ?", m.WorkID).
				Where("work_id < ? OR epoch < ? OR (epoch = ? AND seq < ?)", m.WorkID, m.Epoch, m.Epoch, m.Seq)
		}
		return q.OrderExpr("notification_uuid DESC, work_id DESC, epoch DESC, seq DESC").Limit(int64(limit)).Scan(ctx)
	})
	slices.Reverse(rows)
	return entriesOf(rows), err
}

// append writes journal rows in one statement. A row that is there already, by (work, epoch, seq), stays as it is.
func (s *Store) append(ctx context.Context, tx bun.Tx, entries []ha.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	rows := make([]journalRow, len(entries))
	for i, e := range entries {
		rows[i] = rowOfEntry(e)
	}
	_, err := tx.NewInsert().Model(&rows).ExcludeColumn("id").On(s.d.keep("work_id, epoch, seq")).Returning("NULL").Exec(ctx)
	return err
}
