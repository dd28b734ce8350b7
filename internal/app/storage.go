package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/telemetry"
)

// addStorageCounts counts hosts and episodes for the metrics, and says in the log when the agent of a host falls silent: nobody else would.
func (b *builder) addStorageCounts(rows *store.Store, log *slog.Logger) {
	b.app.parts = append(b.app.parts, part{"counting storage", func(ctx context.Context) error {
		tick := time.NewTicker(countEvery)
		defer tick.Stop()
		for {
			if counts, err := rows.StorageCounts(ctx); err == nil { // what fails is tried again; the database's absence has alarms of its own
				tellStorage(b.metrics, counts)
			}
			silent, _ := rows.FallenSilent(ctx) // likewise
			tellSilent(b.metrics, log, silent)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	}})
}

func tellStorage(m *telemetry.Metrics, c ha.StorageCounts) {
	for _, s := range []ha.HealthState{ha.HealthOK, ha.HealthError, ha.HealthMissing} {
		m.StorageHosts(string(s), c.Hosts[s])
	}
	m.StorageEpisodes("open", c.Open)
	m.StorageEpisodes("held", c.Held)
	m.StorageEpisodes("braked", c.Braked)
}

// tellSilent raises an alarm for each host whose agent has fallen silent.
func tellSilent(m *telemetry.Metrics, log *slog.Logger, hosts []string) {
	for _, host := range hosts {
		m.Alarm(string(ha.AlarmAgentSilent))
		log.Warn("ALARM: the agent of host "+host+" is silent: its storage is not watched", "alarm", string(ha.AlarmAgentSilent), "host", host)
	}
}
