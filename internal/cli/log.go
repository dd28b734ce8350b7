package cli

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/telemetry"
)

// openLog makes the log that the configuration asks for. Close it.
func openLog(c *config.Config, role string, stderr io.Writer) (*telemetry.Log, error) {
	return telemetry.NewLog(telemetry.LogConfig{
		Debug: c.Log.Debug, JSON: c.Log.JSON, File: c.Log.File, Dir: c.Log.Dir, Role: role, UseStderr: c.Log.UseStderr,
		Syslog: c.Log.UseSyslog, Facility: c.Log.Facility, Journal: c.Log.Journal, Stderr: stderr,
	})
}

// plainLog is the log of what has no masakari.conf.
func plainLog(stderr io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(stderr, nil)) }

// rereadOnHangup takes mutable options over from the files with each SIGHUP, as OpenStack's services do, until ctx ends.
func (s *settings) rereadOnHangup(ctx context.Context, log *telemetry.Log) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-hangups:
		case <-ctx.Done():
			return
		}
		c, _, err := config.Load(s.sources())
		if err != nil {
			log.Error("the configuration is not taken over", "error", err)
			continue
		}
		log.SetDebug(c.Log.Debug)
		log.Info("the configuration was read again: debug is taken over, other changes need a restart", "debug", c.Log.Debug)
	}
}
