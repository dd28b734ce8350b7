package memstore

import "context"

// NewTransfers returns the targets of transfers with ids above after, and the last one's id.
func (s *Store) NewTransfers(ctx context.Context, after int64) (targets []string, last int64, err error) {
	err = s.run(ctx, "NewTransfers", func(t *tx) error {
		targets, last = nil, max(after, 0)
		for _, id := range t.blobs.torder {
			r := t.blobs.transfers[id]
			switch {
			case r.ID <= after:
				continue
			case after >= 0:
				targets = append(targets, r.To)
			}
			last = r.ID
		}
		return nil
	})
	return targets, last, err
}
