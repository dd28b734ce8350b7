package store

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

type pauseRow struct {
	bun.BaseModel `bun:"table:pauses,alias:t"`
	Scope         string `bun:"scope,pk"`
	By            string `bun:"paused_by"`
	Reason        string `bun:"reason"`
	Since         stamp  `bun:"paused_at"`
	Until         stamp  `bun:"paused_until"`
}

func (r pauseRow) pause() ha.Pause {
	return ha.Pause{Segment: r.Scope, By: r.By, Reason: r.Reason, Since: r.Since.Time, Until: r.Until.ptr()}
}

// stands restricts a query to the pauses that have not ended by themselves.
func (s *Store) stands(q *bun.SelectQuery) *bun.SelectQuery {
	return q.Where("paused_until IS NULL OR paused_until > ?", s.d.now())
}

// Pauses lists the pauses that stand, that of everything first, then by age.
func (s *Store) Pauses(ctx context.Context) ([]ha.Pause, error) {
	var rows []pauseRow
	err := s.read(ctx, "listing pauses", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return s.stands(db.NewSelect().Model(&rows)).OrderExpr("CASE WHEN scope = '' THEN 0 ELSE 1 END, paused_at, scope").
			Limit(rules.PausesLimit).Scan(ctx)
	})
	pauses := make([]ha.Pause, len(rows))
	for i, r := range rows {
		pauses[i] = r.pause()
	}
	return pauses, err
}

// SetPause writes a pause in place of one with its scope, and tells the owners of the units under it. NotFoundError of the segment.
func (s *Store) SetPause(ctx context.Context, p ha.Pause) error {
	return s.write(ctx, "pausing recoveries", func(ctx context.Context, tx bun.Tx) error {
		if p.Segment != "" {
			n, err := changed(ctx, tx, "UPDATE failover_segments SET touch = touch + 1 WHERE uuid = ? AND deleted = 0", p.Segment)
			if err != nil {
				return err
			}
			if n == 0 {
				return &ha.NotFoundError{Kind: ha.KindSegment, ID: p.Segment}
			}
		}
		until := bun.Safe("NULL")
		if p.Until != nil {
			until = literal(*p.Until)
		}
		// One statement: two who pause everything at once both succeed.
		on, set := s.d.overwrite("scope", []string{"paused_by", "reason", "paused_at", "paused_until"})
		if s.d.name != mysql {
			set = "SET " + set
		}
		if _, err := changed(ctx, tx, "INSERT INTO pauses (scope, paused_by, reason, paused_at, paused_until) VALUES (?, ?, ?, ?, ?) ON ? ?",
			p.Segment, p.By, p.Reason, s.d.now(), until, bun.Safe(on), bun.Safe(set)); err != nil {
			return err
		}
		return s.signalScope(ctx, tx, p.Segment)
	}, nil)
}

// EndPause ends a pause and tells the owners of the units under it. NotFoundError when none stands.
func (s *Store) EndPause(ctx context.Context, segment string) error {
	return s.write(ctx, "ending a pause", func(ctx context.Context, tx bun.Tx) error {
		n, err := changed(ctx, tx, "DELETE FROM pauses WHERE scope = ?", segment)
		if err != nil {
			return err
		}
		if n == 0 {
			return &ha.NotFoundError{Kind: ha.KindPause, ID: segment}
		}
		return s.signalScope(ctx, tx, segment)
	}, nil)
}

// signalScope moves the signal of every active unit of a segment, "" of all.
func (s *Store) signalScope(ctx context.Context, tx bun.Tx, segment string) error {
	query, args := "UPDATE work SET signals = signals + 1, next_look_at = ? WHERE ended = 0", []any{s.d.now()}
	if segment != "" {
		query, args = query+" AND segment_uuid = ?", append(args, segment)
	}
	_, err := changed(ctx, tx, query, args...)
	return err
}

// pauseOf returns the pause that stands over a segment: that of everything before its own; nil when none does.
func (s *Store) pauseOf(ctx context.Context, db bun.IDB, segment string) (*ha.Pause, error) {
	var rows []pauseRow
	err := s.stands(db.NewSelect().Model(&rows).Where("scope IN ('', ?)", segment)).OrderExpr("scope").Limit(1).Scan(ctx)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	p := rows[0].pause()
	return &p, nil
}
