package service

import (
	"context"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// BlobStore is what the use cases of blobs need of the rows (STORAGE-HEALTH, "The replicator"). Every method is one transaction; what
// changes a blob is done behind its touched row, and wakes the replicator.
type BlobStore interface {
	// AddBlob puts a blob into the catalogue, with copies that are said to be on these hosts (uuids) and that their agents are to
	// hash. One that is there already gets the new want_copies and in_use; ConflictError for another file of that uuid.
	AddBlob(ctx context.Context, b ha.Blob, hosts []string) (ha.Blob, error)
	// Blobs lists blobs, the oldest first, after the marker's; Transfers, the newest first, with the names of their hosts. MarkerError.
	Blobs(ctx context.Context, f ha.BlobFilter, limit int, marker string) ([]ha.Blob, error)
	Blob(ctx context.Context, uuid string) (ha.BlobDetails, error)
	Transfers(ctx context.Context, f ha.TransferFilter, limit int, marker string) ([]ha.Transfer, map[string]string, error)
	// RescueBlob, LoseBlob and DropLocation: NotFoundError, ConflictError when it does not fit.
	RescueBlob(ctx context.Context, uuid string) error
	LoseBlob(ctx context.Context, uuid, by string) error
	DropLocation(ctx context.Context, d ha.DropLocation) error
	// AgentOrders derives from the rows what is open for a host, by its uuid; copies that were hashed last before then are to be hashed.
	AgentOrders(ctx context.Context, host string, verifiedBefore time.Time) ([]ha.AgentOrder, error)
	// NewTransfers returns the targets (uuids) of transfers with ids above after, of the first some hundred, and the last one's id; after
	// below 0: none, and the newest one's id. It is one statement by the primary key, asked ten times a second.
	NewTransfers(ctx context.Context, after int64) (targets []string, last int64, err error)
}
