package store

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

type engineRow struct {
	bun.BaseModel `bun:"table:engines,alias:t"`
	ID            int64  `bun:"id,pk,autoincrement"`
	Name          string `bun:"name"`
	Host          string `bun:"host"`
	Version       string `bun:"version"`
	StartedAt     stamp  `bun:"started_at"`
	Beat          int64  `bun:"beat"`
	SeenAt        stamp  `bun:"seen_at"`
}

// BeatEngine writes that e is alive: one statement, but for its first beat, which also removes the rows of engines that
// were last seen a day ago (a name is new at each process start).
func (s *Store) BeatEngine(ctx context.Context, e ha.Engine) error {
	return s.repeat(ctx, "writing an engine's beat", func(ctx context.Context) error {
		n, err := changed(ctx, s.db, "UPDATE engines SET beat = ?, seen_at = ? WHERE name = ?", e.Beat, s.d.now(), e.Name)
		if err != nil || n > 0 {
			return err
		}
		if _, err := changed(ctx, s.db, "DELETE FROM engines WHERE seen_at < ?", s.d.later(-rules.EnginesKept)); err != nil {
			return err
		}
		_, err = changed(ctx, s.db, "INSERT INTO engines (name, host, version, started_at, beat, seen_at) VALUES (?, ?, ?, ?, ?, ?) ON ?",
			e.Name, e.Host, e.Version, literal(e.StartedAt), e.Beat, s.d.now(), bun.Safe(s.d.keep("name")))
		return err
	})
}

// Engines lists the engines seen within the last hour.
func (s *Store) Engines(ctx context.Context) ([]ha.Engine, error) {
	var rows []engineRow
	err := s.read(ctx, "listing engines", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().Model(&rows).Where("seen_at >= ?", s.d.later(-rules.EnginesWindow)).
			OrderExpr("name").Limit(rules.EnginesLimit).Scan(ctx)
	})
	engines := make([]ha.Engine, len(rows))
	for i, r := range rows {
		engines[i] = ha.Engine{Name: r.Name, Host: r.Host, Version: r.Version, StartedAt: r.StartedAt.Time, Beat: r.Beat}
	}
	return engines, err
}
