package store

import (
	"context"
	"encoding/hex"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// locationOrders are the locations of a host that it is to do something about.
var locationOrders = []struct {
	kind  ha.OrderKind
	limit int
	where string
	args  []any
}{
	{ha.OrderVerify, rules.VerifyOrders, "l.state = ?", []any{ha.LocationVerifying}},
	{ha.OrderVerify, rules.RehashOrders, "l.state = ? AND l.verified_at IS NULL", []any{ha.LocationPresent}},
	{ha.OrderDrop, rules.DropOrders, "l.state = ?", []any{ha.LocationDropping}},
	{ha.OrderRestore, rules.RestoreOrders, "l.state = ? AND l.why = ?", []any{ha.LocationQuarantined, ha.WhyRestore}},
}

// orderRow is a location or a transfer with its blob.
type orderRow struct {
	locationRow
	Size       int64  `bun:"size"`
	SHA256     string `bun:"sha256"`
	WantCopies int    `bun:"want_copies"`
	LostBy     string `bun:"lost_by"`
	Transfer   string `bun:"transfer_uuid"`
	Source     string `bun:"source_uuid"`
	Rescue     bool   `bun:"rescue"`
}

func (r orderRow) blob() ha.Blob {
	return ha.Blob{UUID: r.BlobUUID, Size: r.Size, SHA256: r.SHA256, WantCopies: r.WantCopies, LostBy: r.LostBy}
}

// AgentOrders derives from the rows what is open for a host: the same as long as they say the same. Copies that were hashed before the given
// time are to be hashed again, the oldest first, a few at a time. A copy is ordered dropped only while enough others are sure to be good.
func (s *Store) AgentOrders(ctx context.Context, host string, verifiedBefore time.Time) ([]ha.AgentOrder, error) {
	var orders []ha.AgentOrder
	err := s.read(ctx, "reading the orders for a host", func(ctx context.Context, db bun.IDB) error {
		orders = nil
		now, err := s.clock(ctx, db)
		if err != nil {
			return err
		}
		for _, part := range []func(context.Context, bun.IDB, string, time.Time) ([]ha.AgentOrder, error){s.cancelOrders, s.copyOrders, s.copiesOrders} {
			some, err := part(ctx, db, host, now)
			if err != nil {
				return err
			}
			orders = append(orders, some...)
		}
		some, err := s.staleOrders(ctx, db, host, verifiedBefore)
		orders = append(orders, some...)
		return err
	})
	return orders, err
}

// cancelOrders tell of transfers that were cancelled until the agent has said that it knows. Index: blob_transfers_told_idx.
func (s *Store) cancelOrders(ctx context.Context, db bun.IDB, host string, now time.Time) ([]ha.AgentOrder, error) {
	rows, err := rowsOf[transferRow](ctx, db, rules.CancelOrders, "t.target_uuid = ? AND t.state = ? AND t.told = ? AND t.ended_at > ?",
		host, ha.TransferCancelled, false, literal(now.Add(-rules.CancelKept)))
	orders := make([]ha.AgentOrder, len(rows))
	for i, r := range rows {
		orders[i] = ha.AgentOrder{ID: r.UUID, Kind: ha.OrderCancel, Blob: r.BlobUUID, Size: r.Size}
	}
	return orders, err
}

// copyOrders are the transfers to a host, each with all hosts that can give the blob. Index: blob_transfers_target_idx.
func (s *Store) copyOrders(ctx context.Context, db bun.IDB, host string, now time.Time) ([]ha.AgentOrder, error) {
	var rows []orderRow
	err := db.NewRaw("SELECT t.uuid AS transfer_uuid, t.source_uuid, t.rescue, t.blob_uuid, b.size, b.sha256 FROM blob_transfers AS t "+
		"JOIN blobs AS b ON b.uuid = t.blob_uuid WHERE t.target_uuid = ? AND t.ended = 0 ORDER BY t.id LIMIT ?", host, rules.CopyOrders).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	var blobs, sources []string
	for _, r := range rows {
		blobs = append(blobs, r.BlobUUID)
	}
	var at []locationRow
	if err := db.NewSelect().Model(&at).Where("blob_uuid IN (?) AND state IN (?) AND host_uuid <> ?", bun.List(blobs),
		bun.List([]ha.LocationState{ha.LocationPresent, ha.LocationSuspect, ha.LocationVerifying}), host).OrderExpr("blob_uuid, host_uuid").Scan(ctx); err != nil {
		return nil, err
	}
	if len(at) == 0 {
		return nil, nil
	}
	of := map[string][]ha.Location{}
	for _, l := range at {
		of[l.BlobUUID], sources = append(of[l.BlobUUID], l.location()), append(sources, l.HostUUID)
	}
	slices.Sort(sources)
	sources = slices.Compact(sources)
	hosts, _, err := blobHosts(ctx, db, now, sources...)
	if err != nil {
		return nil, err
	}
	var keys []agentRow
	if err := db.NewSelect().Model(&keys).Where("host_uuid IN (?)", bun.List(sources)).Scan(ctx); err != nil {
		return nil, err
	}
	signs := map[string][]byte{}
	for _, k := range keys {
		if key, err := hex.DecodeString(k.TicketKey); err == nil && len(key) > 0 {
			signs[k.HostUUID] = key
		}
	}
	orders := make([]ha.AgentOrder, 0, len(rows))
	for _, r := range rows {
		o := ha.AgentOrder{ID: r.Transfer, Kind: ha.OrderCopy, Blob: r.BlobUUID, Size: r.Size, SHA256: r.SHA256}
		o.Sources = rules.Sources(of[r.BlobUUID], hosts, signs, r.Source, r.Rescue)
		if len(o.Sources) > 0 { // the replicator gives it another one, or cancels it
			orders = append(orders, o)
		}
	}
	return orders, nil
}

const locationOrderQuery = "SELECT l.*, b.size, b.sha256, b.want_copies, b.lost_by FROM blob_locations AS l JOIN blobs AS b ON b.uuid = l.blob_uuid WHERE l.host_uuid = ? AND "

// copiesOrders are about the copies of a host. Index: blob_locations_host_idx, blob_locations_verified_idx.
func (s *Store) copiesOrders(ctx context.Context, db bun.IDB, host string, now time.Time) ([]ha.AgentOrder, error) {
	var orders []ha.AgentOrder
	for _, part := range locationOrders {
		var rows []orderRow
		args := append(append([]any{host}, part.args...), part.limit)
		if err := db.NewRaw(locationOrderQuery+part.where+" ORDER BY l.id LIMIT ?", args...).Scan(ctx, &rows); err != nil {
			return nil, err
		}
		var sure sureCopies
		if part.kind == ha.OrderDrop && len(rows) > 0 {
			var blobs []string
			for _, r := range rows {
				blobs = append(blobs, r.BlobUUID)
			}
			var err error
			if sure, err = s.sureCopies(ctx, db, now, blobs); err != nil {
				return nil, err
			}
		}
		for _, r := range rows {
			l := r.location()
			if part.kind == ha.OrderDrop && !sure.spares(r.blob(), l, now) {
				continue
			}
			orders = append(orders, r.order(part.kind))
		}
	}
	return orders, nil
}

func (r orderRow) order(kind ha.OrderKind) ha.AgentOrder {
	return ha.AgentOrder{ID: rules.LocationOrder(kind, r.location()), Kind: kind, Blob: r.BlobUUID, Size: r.Size, SHA256: r.SHA256}
}

// staleOrders have copies hashed that were hashed last before then. They are named by that time, so that each is asked for once. Index:
// blob_locations_verified_idx.
func (s *Store) staleOrders(ctx context.Context, db bun.IDB, host string, before time.Time) ([]ha.AgentOrder, error) {
	var rows []orderRow
	err := db.NewRaw(locationOrderQuery+"l.state = ? AND l.verified_at < ? ORDER BY l.verified_at LIMIT ?",
		host, ha.LocationPresent, literal(before), rules.StaleOrders).Scan(ctx, &rows)
	orders := make([]ha.AgentOrder, len(rows))
	for i, r := range rows {
		orders[i] = rules.StaleOrder(r.order(ha.OrderVerify), r.location())
	}
	return orders, err
}
