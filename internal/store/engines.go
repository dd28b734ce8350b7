package store

import (
	"cmp"
	"context"
	"slices"

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

func (r engineRow) engine() ha.Engine {
	return ha.Engine{Name: r.Name, Host: r.Host, Version: r.Version, StartedAt: r.StartedAt.Time, Beat: r.Beat}
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

// LeaveEngine removes an engine that stops: the others rank without it from now on.
func (s *Store) LeaveEngine(ctx context.Context, name string) error {
	return s.repeat(ctx, "removing an engine", func(ctx context.Context) error {
		_, err := changed(ctx, s.db, "DELETE FROM engines WHERE name = ?", name)
		return err
	})
}

// EngineStates lists the engines seen within the last hour with what each holds, for operators. At most EnginesLimit engines, those
// that beat last, and UnitsLimit units.
func (s *Store) EngineStates(ctx context.Context) ([]ha.EngineState, error) {
	var rows []struct {
		engineRow
		Now stamp `bun:"db_now"`
	}
	var held []struct {
		Owner string `bun:"owner"`
		Key   string `bun:"unit_key"`
	}
	err := s.read(ctx, "listing engines", func(ctx context.Context, db bun.IDB) (err error) {
		rows, held = nil, nil
		if err := db.NewRaw("SELECT t.*, ? AS db_now FROM engines AS t WHERE seen_at >= ? ORDER BY seen_at DESC, name LIMIT ?",
			s.d.now(), s.d.later(-rules.EnginesWindow), rules.EnginesLimit).Scan(ctx, &rows); err != nil {
			return err
		}
		return db.NewRaw("SELECT owner, unit_key FROM work WHERE ended = 0 AND owner <> '' ORDER BY next_look_at LIMIT ?", rules.UnitsLimit).Scan(ctx, &held)
	})
	states := make([]ha.EngineState, len(rows))
	place := map[string]int{}
	for i, r := range rows {
		place[r.Name] = i
		states[i] = ha.EngineState{Engine: r.engine(), Idle: max(0, r.Now.Sub(r.SeenAt.Time))}
	}
	for _, h := range held {
		if i, known := place[h.Owner]; known {
			states[i].Units = append(states[i].Units, h.Key)
		}
	}
	for i := range states {
		slices.Sort(states[i].Units)
	}
	slices.SortFunc(states, func(a, b ha.EngineState) int { return cmp.Compare(a.Name, b.Name) })
	return states, err
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
		engines[i] = r.engine()
	}
	return engines, err
}
