package store

import (
	"context"

	"github.com/uptrace/bun"
)

// mostArrivals bounds one look for new transfers.
const mostArrivals = 500

// newTransfersQuery reads the transfers above an id.
const newTransfersQuery = "SELECT id, target_uuid FROM blob_transfers WHERE id > ? ORDER BY id LIMIT ?"

// NewTransfers returns the targets of transfers with ids above after, at most 500 of them, and the last one's id; after below 0:
// none, and the newest one's id. One statement, by the primary key.
func (s *Store) NewTransfers(ctx context.Context, after int64) (targets []string, last int64, err error) {
	query := s.reads.NewRaw(newTransfersQuery, after, mostArrivals).String()
	if after < 0 {
		query = "SELECT COALESCE(MAX(id), 0), '' FROM blob_transfers"
	}
	err = s.read(ctx, "looking for new transfers", func(ctx context.Context, _ bun.IDB) error {
		targets, last = nil, after
		return fetch(ctx, s.reads, query, func(c *columns) error {
			last = c.number()
			if host := c.text(); host != "" {
				targets = append(targets, host)
			}
			return nil
		})
	})
	return targets, last, err
}
