package store

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// silentQuery finds the hosts whose agents have reported once, and not lately, where this silence has not been told yet.
const silentQuery = `SELECT r.host_uuid, h.name, r.reported_at FROM host_health AS r JOIN hosts AS h ON h.uuid = r.host_uuid AND h.deleted = 0
 LEFT JOIN agent_silences AS s ON s.host_uuid = r.host_uuid WHERE r.reported_at < ? AND (s.told_of IS NULL OR s.told_of <> r.reported_at) ORDER BY h.name LIMIT ?`

type silence struct {
	HostUUID   string `bun:"host_uuid"`
	Name       string `bun:"name"`
	ReportedAt stamp  `bun:"reported_at"`
}

// FallenSilent returns the hosts whose agents have fallen silent. Of all processes, and all their starts, one gets to know of each silence, and
// once: that one tells it. With an error come those that are this caller's to tell all the same.
func (s *Store) FallenSilent(ctx context.Context) ([]string, error) {
	var silent []silence
	err := s.read(ctx, "looking for silent agents", func(ctx context.Context, db bun.IDB) error {
		silent = nil
		now, err := s.clock(ctx, db)
		if err != nil {
			return err
		}
		return db.NewRaw(silentQuery, literal(now.Add(-ha.AgentSilence)), rules.EpisodesLimit).Scan(ctx, &silent)
	})
	var mine []string
	for _, one := range silent {
		ours, failed := s.tellSilence(ctx, one)
		if failed != nil {
			return mine, failed
		}
		if ours {
			mine = append(mine, one.Name)
		}
	}
	return mine, err
}

// tellSilence reports whether this silence is the caller's to tell.
func (s *Store) tellSilence(ctx context.Context, one silence) (ours bool, err error) {
	err = s.write(ctx, "telling of a silent agent", func(ctx context.Context, tx bun.Tx) error {
		n, err := changed(ctx, tx, "UPDATE agent_silences SET told_of = ? WHERE host_uuid = ? AND told_of <> ?", one.ReportedAt, one.HostUUID, one.ReportedAt)
		if ours = n > 0; err != nil || ours {
			return err
		}
		_, err = changed(ctx, tx, "INSERT INTO agent_silences (host_uuid, told_of) VALUES (?, ?)", one.HostUUID, one.ReportedAt)
		ours = err == nil
		return err
	}, func(ctx context.Context) (bool, error) { // if it is written: rather told twice than never
		n, err := changed(ctx, s.db, "UPDATE agent_silences SET told_of = told_of WHERE host_uuid = ? AND told_of = ?", one.HostUUID, one.ReportedAt)
		return n > 0, err
	})
	if s.duplicate(err) { // somebody else's
		return false, nil
	}
	return ours, err
}
