package cli

import (
	"io"
	"log/slog"

	"github.com/salvor-ha/salvor/internal/config"
)

// logger makes the log that the configuration asks for; end closes it.
func logger(c *config.Config, role string, stderr io.Writer) (log *slog.Logger, end func(), err error) {
	level := slog.LevelInfo
	if c.Log.Debug {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})).With("role", role), func() {}, nil
}

// plainLogger is the log of what has no masakari.conf.
func plainLogger(stderr io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(stderr, nil)) }
