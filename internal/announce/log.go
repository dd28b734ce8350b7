package announce

import (
	"context"
	"log/slog"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/wire"
)

// logged is the sink of the driver log.
type logged struct{ log *slog.Logger }

// NewLog returns a sink that writes messages into the log.
func NewLog(log *slog.Logger) Sink { return logged{log} }

// Deliver writes each at the level of its priority.
func (l logged) Deliver(ctx context.Context, messages []ha.Message) (int, error) {
	for _, m := range messages {
		level := slog.LevelInfo
		if wire.EventPriority(m.Type) == wire.PriorityError {
			level = slog.LevelError
		}
		l.log.Log(ctx, level, "versioned notification", "event", m.Type, "body", m.Body)
	}
	return len(messages), nil
}

// Close has nothing to give up.
func (logged) Close() {}
