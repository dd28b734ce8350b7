package store

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// blobHostsQuery reads the hosts whose agents have reported, with the open episode of each.
const blobHostsQuery = `SELECT h.uuid, h.name, a.agent_url, a.free_bytes, a.reported_at, a.state, COALESCE(e.radius, '') AS radius,
 CASE WHEN e.uuid IS NULL THEN 0 ELSE 1 END AS failing, COALESCE(d.domain, '') AS domain
FROM host_health AS a JOIN hosts AS h ON h.uuid = a.host_uuid AND h.deleted = 0
 LEFT JOIN episodes AS e ON e.host_uuid = a.host_uuid AND e.cleared = 0
 LEFT JOIN blob_hosts AS d ON d.host_uuid = a.host_uuid`

type blobHostRow struct {
	UUID       string `bun:"uuid"`
	Name       string `bun:"name"`
	URL        string `bun:"agent_url"`
	Free       int64  `bun:"free_bytes"`
	ReportedAt stamp  `bun:"reported_at"`
	State      string `bun:"state"`
	Radius     string `bun:"radius"`
	Failing    bool   `bun:"failing"`
	Domain     string `bun:"domain"`
}

func (r blobHostRow) host(now time.Time) ha.BlobHost {
	h := ha.BlobHost{UUID: r.UUID, Name: r.Name, URL: r.URL, Domain: r.Domain, Free: r.Free, Silent: -1,
		Errored: r.Failing || r.State == string(ha.HealthError), Failed: r.Failing && (ha.Episode{Radius: rules.SplitKinds(r.Radius)}).Has(ha.ObjectBlob)}
	if !r.ReportedAt.IsZero() {
		h.Silent = max(0, now.Sub(r.ReportedAt.Time))
	}
	return h
}

// blobHosts reads hosts: those with these uuids, or all.
func blobHosts(ctx context.Context, db bun.IDB, now time.Time, uuids ...string) (map[string]ha.BlobHost, []ha.BlobHost, error) {
	query, args := blobHostsQuery+" ORDER BY a.host_uuid LIMIT ?", []any{rules.BlobHosts}
	if len(uuids) > 0 {
		query, args = blobHostsQuery+" WHERE a.host_uuid IN (?) ORDER BY a.host_uuid LIMIT ?", []any{bun.List(uuids), rules.BlobHosts}
	}
	var rows []blobHostRow
	if err := db.NewRaw(query, args...).Scan(ctx, &rows); err != nil {
		return nil, nil, err
	}
	byID, list := make(map[string]ha.BlobHost, len(rows)), make([]ha.BlobHost, len(rows))
	for i, r := range rows {
		list[i] = r.host(now)
		byID[r.UUID] = list[i]
	}
	return byID, list, nil
}

// loadBlobs reads what the replicator needs: a bounded page of what is due and of the sweep, whatever the number of blobs. Touch is read
// before what is decided by it, so a change made meanwhile is found when the plan is written.
func (s *Store) loadBlobs(ctx context.Context, tx bun.Tx, u *ha.Unit) error {
	if u.Kind != ha.UnitReplicator {
		return nil
	}
	w := &ha.BlobWork{}
	due, err := s.dueBlobs(ctx, tx, rules.DuePage+1) // one more tells whether there are more
	if err != nil {
		return err
	}
	w.More = len(due) > rules.DuePage
	due = due[:min(len(due), rules.DuePage)]
	var cursor int64
	var sweeps []int64
	if err := tx.NewRaw("SELECT sweep_cursor FROM blob_sweep WHERE id = 1").Scan(ctx, &sweeps); err != nil {
		return err
	}
	if len(sweeps) > 0 {
		cursor = sweeps[0]
	}
	swept, err := rowsOf[blobRow](ctx, tx, rules.SweepPage, "t.id > ?", cursor)
	if err != nil {
		return err
	}
	if len(swept) == rules.SweepPage {
		w.Cursor = swept[len(swept)-1].ID
	}
	if w.Due, w.Swept, err = s.blobStates(ctx, tx, u.Now, due, swept); err != nil {
		return err
	}
	if _, w.Hosts, err = blobHosts(ctx, tx, u.Now); err != nil {
		return err
	}
	running, err := rowsOf[transferRow](ctx, tx, rules.RunningLimit, "t.ended = 0")
	for _, r := range running {
		w.Running = append(w.Running, r.transfer())
	}
	u.Blobs = w
	return err
}

// dueBlobs are those that need it most: fewest copies, in use, smallest. Then those whose time has come. Indexes: blobs_due_idx,
// blobs_retry_idx.
func (s *Store) dueBlobs(ctx context.Context, db bun.IDB, limit int64) ([]blobRow, error) {
	var rows, waited []blobRow
	if err := db.NewSelect().Model(&rows).Where("due = 1").OrderExpr("due, copies, unused, size, id").Limit(limit).Scan(ctx); err != nil {
		return nil, err
	}
	left := limit - int64(len(rows))
	if left == 0 {
		return rows, nil
	}
	err := db.NewSelect().Model(&waited).Where("due = 0 AND retry_at <= ?", s.d.now()).OrderExpr("due, retry_at").Limit(left).Scan(ctx)
	return append(rows, waited...), err
}

// blobStates reads the locations and transfers of two pages of blobs. Index: uniq_blob_locations0blob, uniq_blob_transfers0blob.
func (s *Store) blobStates(ctx context.Context, db bun.IDB, now time.Time, due, swept []blobRow) (first, second []ha.BlobState, err error) {
	var uuids []string
	for _, page := range [][]blobRow{due, swept} {
		for _, r := range page {
			uuids = append(uuids, r.UUID)
		}
	}
	if len(uuids) == 0 {
		return nil, nil, nil
	}
	locations := map[string][]ha.Location{}
	var ls []locationRow
	if err := db.NewSelect().Model(&ls).Where("blob_uuid IN (?) AND state <> ?", bun.List(uuids), ha.LocationDropped).OrderExpr("blob_uuid, host_uuid").Scan(ctx); err != nil {
		return nil, nil, err
	}
	for _, l := range ls {
		locations[l.BlobUUID] = append(locations[l.BlobUUID], l.location())
	}
	transfers := map[string][]ha.Transfer{}
	var ts []transferRow
	if err := db.NewSelect().Model(&ts).Where("blob_uuid IN (?) AND (ended = 0 OR state = ? AND ended_at > ?)", bun.List(uuids), ha.TransferFailed, literal(now.Add(-rules.FailedKept))).
		OrderExpr("blob_uuid, target_uuid, ended").Limit(rules.TriedLimit).Scan(ctx); err != nil {
		return nil, nil, err
	}
	for _, t := range ts {
		transfers[t.BlobUUID] = append(transfers[t.BlobUUID], t.transfer())
	}
	states := func(rows []blobRow) []ha.BlobState {
		list := make([]ha.BlobState, len(rows))
		for i, r := range rows {
			list[i] = ha.BlobState{Blob: r.blob(), Locations: locations[r.UUID], Transfers: transfers[r.UUID]}
		}
		return list
	}
	return states(due), states(swept), nil
}
