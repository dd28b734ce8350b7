package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/telemetry"
)

// watched are the rows as an engine writes them; what is durable it counts, and alarms go to the log too: somebody must look,
// and few look at a history that nothing points to.
type watched struct {
	*store.Store
	metrics *telemetry.Metrics
	log     *slog.Logger

	mu    sync.Mutex
	units map[int64]*seen // by unit of work that this process holds
}

// seen is what was counted of a unit, so that what is written again is not counted again.
type seen struct {
	held         ha.Gate
	moves        map[string]ha.MoveStatus // by instance
	host         string
	notification string
}

func watch(s *store.Store, m *telemetry.Metrics, log *slog.Logger) *watched {
	for _, a := range ha.Alarms {
		m.ExpectAlarm(string(a))
	}
	return &watched{Store: s, metrics: m, log: log, units: map[int64]*seen{}}
}

// Claim begins with what the rows say: it was counted by whoever wrote it.
func (w *watched) Claim(ctx context.Context, r ha.ClaimRequest) (ha.Lease, ha.Unit, error) {
	l, u, err := w.Store.Claim(ctx, r)
	if err != nil {
		return l, u, err
	}
	s := &seen{held: u.HeldAt, moves: map[string]ha.MoveStatus{}, host: u.Host.Name, notification: u.NotificationUUID}
	for _, m := range u.Moves {
		if m.Stage == ha.StageDone {
			s.moves[m.InstanceUUID] = m.Status
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.units[l.WorkID] = s
	return l, u, nil
}

func (w *watched) Commit(ctx context.Context, l *ha.Lease, changes ...ha.Change) (ha.Beat, error) {
	beat, err := w.Store.Commit(ctx, l, changes...)
	w.left(l.WorkID, err)
	if err == nil {
		w.saw(l.WorkID, changes)
	}
	return beat, err
}

func (w *watched) Load(ctx context.Context, l *ha.Lease) (ha.Unit, error) {
	u, err := w.Store.Load(ctx, l)
	w.left(l.WorkID, err)
	return u, err
}

// left forgets a unit that is another engine's now.
func (w *watched) left(unit int64, err error) {
	if errors.Is(err, ha.ErrFenced) {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.units, unit)
	}
}

func (w *watched) saw(unit int64, changes []ha.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.units[unit]
	if s == nil {
		return
	}
	for _, c := range changes {
		switch c := c.(type) {
		case ha.SetRecovery:
			if c.Recovery.HeldAt != s.held && c.Recovery.HeldAt != "" {
				w.metrics.Hold(string(c.Recovery.HeldAt))
			}
			s.held = c.Recovery.HeldAt
		case ha.PutMove:
			if c.Move.Stage != ha.StageDone {
				delete(s.moves, c.Move.InstanceUUID) // tried again
			} else if s.moves[c.Move.InstanceUUID] != c.Move.Status {
				s.moves[c.Move.InstanceUUID] = c.Move.Status
				w.metrics.Move(string(c.Move.Status))
			}
		case ha.Write:
			if c.Entry.Kind == ha.EntryAlarm {
				w.metrics.Alarm(c.Entry.Task)
				w.log.Warn("ALARM: "+c.Entry.Text, "alarm", c.Entry.Task, "host", s.host, "notification", s.notification)
			}
		case ha.EndUnit, ha.Park:
			delete(w.units, unit)
		}
	}
}
