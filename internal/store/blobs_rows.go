package store

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

type blobRow struct {
	bun.BaseModel `bun:"table:blobs,alias:t"`
	ID            int64  `bun:"id,pk,autoincrement"`
	UUID          string `bun:"uuid"`
	Size          int64  `bun:"size"`
	SHA256        string `bun:"sha256"`
	WantCopies    int    `bun:"want_copies"`
	Unused        int    `bun:"unused"` // 0 while it is in use, so that these come first in an index
	Durability    string `bun:"durability"`
	Copies        int    `bun:"copies"`
	Why           string `bun:"why"`
	LostBy        string `bun:"lost_by"`
	Touch         int64  `bun:"touch"`
	Due           int    `bun:"due"`
	RetryAt       stamp  `bun:"retry_at"`
	CreatedAt     stamp  `bun:"created_at"`
	UpdatedAt     stamp  `bun:"updated_at"`
}

func (r blobRow) blob() ha.Blob {
	return ha.Blob{
		Stamps: ha.Stamps{CreatedAt: r.CreatedAt.Time, UpdatedAt: r.UpdatedAt.ptr()}, ID: r.ID, UUID: r.UUID, Size: r.Size, SHA256: r.SHA256,
		WantCopies: r.WantCopies, InUse: r.Unused == 0, Durability: ha.Durability(r.Durability), Copies: r.Copies, Why: r.Why, LostBy: r.LostBy, Touch: r.Touch,
	}
}

func unused(inUse bool) int {
	if inUse {
		return 0
	}
	return 1
}

type locationRow struct {
	bun.BaseModel `bun:"table:blob_locations,alias:t"`
	ID            int64  `bun:"id,pk,autoincrement"`
	BlobUUID      string `bun:"blob_uuid"`
	HostUUID      string `bun:"host_uuid"`
	State         string `bun:"state"`
	EpisodeUUID   string `bun:"episode_uuid"`
	Why           string `bun:"why"`
	Version       int64  `bun:"version"`
	Since         stamp  `bun:"since"`
	VerifiedAt    stamp  `bun:"verified_at"`
}

func (r locationRow) location() ha.Location {
	return ha.Location{ID: r.ID, BlobUUID: r.BlobUUID, HostUUID: r.HostUUID, State: ha.LocationState(r.State), EpisodeUUID: r.EpisodeUUID,
		Why: r.Why, Version: r.Version, Since: r.Since.Time, VerifiedAt: r.VerifiedAt.ptr()}
}

func rowOfLocation(l ha.Location) locationRow {
	return locationRow{ID: l.ID, BlobUUID: l.BlobUUID, HostUUID: l.HostUUID, State: string(l.State), EpisodeUUID: l.EpisodeUUID,
		Why: rules.Text(l.Why, rules.MaxText), Version: l.Version, Since: stamp{l.Since}, VerifiedAt: stampOf(l.VerifiedAt)}
}

type transferRow struct {
	bun.BaseModel `bun:"table:blob_transfers,alias:t"`
	ID            int64  `bun:"id,pk,autoincrement"`
	UUID          string `bun:"uuid"`
	BlobUUID      string `bun:"blob_uuid"`
	Source        string `bun:"source_uuid"`
	Target        string `bun:"target_uuid"`
	State         string `bun:"state"`
	Rescue        bool   `bun:"rescue"`
	Size          int64  `bun:"size"`
	Bytes         int64  `bun:"bytes"`
	Why           string `bun:"why"`
	Told          bool   `bun:"told"`  // the target's agent knows that it was cancelled
	Ended         int64  `bun:"ended"` // 0 while it runs, else the row's id: one at a time of a blob to a host
	StartedAt     stamp  `bun:"started_at"`
	MovedAt       stamp  `bun:"moved_at"`
	EndedAt       stamp  `bun:"ended_at"`
}

func (r transferRow) transfer() ha.Transfer {
	return ha.Transfer{ID: r.ID, UUID: r.UUID, BlobUUID: r.BlobUUID, From: r.Source, To: r.Target, State: ha.TransferState(r.State), Rescue: r.Rescue,
		Size: r.Size, Bytes: r.Bytes, Why: r.Why, StartedAt: r.StartedAt.Time, MovedAt: r.MovedAt.Time, EndedAt: r.EndedAt.ptr()}
}

// rowsOf reads the rows that a condition names, in the order of their ids.
func rowsOf[R any](ctx context.Context, db bun.IDB, limit int, where string, args ...any) ([]R, error) {
	var rows []R
	err := db.NewSelect().Model(&rows).Where(where, args...).OrderExpr("t.id").Limit(int64(limit)).Scan(ctx)
	return rows, err
}

// wakeReplicator has the replicator look, and begins it with the first blob. It comes before the blobs' rows are touched, as the
// replicator's own writes do: whoever takes the rows in one order does not wait in a circle.
func (s *Store) wakeReplicator(ctx context.Context, tx bun.Tx) error {
	n, err := changed(ctx, tx, "UPDATE work SET signals = signals + 1, next_look_at = ? WHERE unit_key = ? AND ended = 0",
		s.d.now(), ha.ReplicatorKey)
	if err != nil || n > 0 {
		return err
	}
	return s.startUnit(ctx, tx, ha.Work{Kind: ha.UnitReplicator, Key: ha.ReplicatorKey})
}

// touchBlobs is what each decision about blobs begins with: whoever decides about one of them waits, or on another Galera node is
// refused and decides again.
func touchBlobs(ctx context.Context, tx bun.Tx, uuids []string) error {
	_, err := changed(ctx, tx, "UPDATE blobs SET touch = touch + 1 WHERE uuid IN (?)", bun.List(uuids))
	return err
}

// recount counts the copies of touched blobs and has the replicator look at them. Of hosts that are away for long it does not know; the
// replicator does.
func (s *Store) recount(ctx context.Context, tx bun.Tx, uuids []string) error {
	if len(uuids) == 0 {
		return nil
	}
	if _, err := changed(ctx, tx, "UPDATE blobs SET copies = (SELECT COUNT(*) FROM blob_locations AS l WHERE l.blob_uuid = blobs.uuid AND l.state = 'present'), "+
		"due = 1, retry_at = NULL, updated_at = ? WHERE uuid IN (?)", s.d.now(), bun.List(uuids)); err != nil {
		return err
	}
	_, err := changed(ctx, tx, "UPDATE blobs SET durability = CASE WHEN lost_by <> '' THEN 'lost' WHEN copies >= want_copies THEN 'ok' "+
		"WHEN copies > 0 THEN 'under' ELSE 'at_risk' END WHERE uuid IN (?)", bun.List(uuids))
	return err
}
