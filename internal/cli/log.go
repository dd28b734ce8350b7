package cli

import (
	"io"
	"log/slog"

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
