package app

import (
	"context"
	"time"

	"github.com/salvor-ha/salvor/internal/blob"
	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/telemetry"
)

// blobRules are the replicator's options.
func blobRules(c *config.Config) blob.Rules {
	s := c.Salvor
	return blob.Rules{Total: s.BlobTransfers, PerSource: s.BlobTransfersPerSource, PerTarget: s.BlobTransfersPerTarget,
		Reserve: int64(s.BlobReservedMB) << 20, Grace: s.BlobSilenceGrace}
}

// countEvery is how often blobs are counted for the metrics.
const countEvery = 15 * time.Second

// addBlobCounts counts blobs for the metrics, where they are served: each engine counts, so that one that dies is not missed.
func (b *builder) addBlobCounts(rows *store.Store) {
	if b.cfg.Salvor.MetricsListen == "" {
		return
	}
	b.app.parts = append(b.app.parts, part{"counting blobs", func(ctx context.Context) error {
		tick := time.NewTicker(countEvery)
		defer tick.Stop()
		for {
			if counts, err := rows.BlobCounts(ctx); err == nil { // what fails is tried again; the database's absence has alarms of its own
				tellBlobs(b.metrics, counts)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	}})
}

func tellBlobs(m *telemetry.Metrics, c ha.BlobCounts) {
	for _, d := range []ha.Durability{ha.DurabilityOK, ha.DurabilityUnder, ha.DurabilityAtRisk, ha.DurabilityLost} {
		m.Blobs(string(d), c.Blobs[d], c.Bytes[d])
	}
	m.BlobTransfers(c.Transfers, c.Left)
}
