package telemetry

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
)

// LogConfig says where log lines go. Without File, Dir, Syslog or Journal they go to Stderr.
type LogConfig struct {
	Debug     bool
	JSON      bool
	File      string // relative to Dir
	Dir       string // with Dir alone the file is named after Role
	Role      string // api, engine, agent, serve; in every line
	UseStderr bool   // besides the file
	Syslog    bool
	Facility  string // LOG_USER and its like; "" is LOG_USER
	Journal   bool   // to Stderr, as systemd's journal wants it
	Stderr    io.Writer
}

// Log is a logger whose level can be changed while it runs. Close it after the last line.
type Log struct {
	*slog.Logger
	level   *slog.LevelVar
	closers []io.Closer
}

// NewLog opens the places that cfg names.
func NewLog(cfg LogConfig) (*Log, error) {
	l := &Log{level: new(slog.LevelVar)}
	l.SetDebug(cfg.Debug)
	var handlers []slog.Handler
	plain := func(w io.Writer) slog.Handler {
		options := &slog.HandlerOptions{Level: l.level}
		if cfg.JSON {
			return slog.NewJSONHandler(w, options)
		}
		return slog.NewTextHandler(w, options)
	}
	if path := cfg.path(); path != "" {
		file, err := openLogFile(path)
		if err != nil {
			return nil, err
		}
		l.closers = append(l.closers, file)
		handlers = append(handlers, plain(file))
	}
	if cfg.Syslog {
		out, err := dialSyslog(cfg.Facility, "salvor-"+cfg.Role)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.closers = append(l.closers, out)
		handlers = append(handlers, newMarked(l.level, cfg.JSON, out.write))
	}
	if cfg.Journal {
		handlers = append(handlers, newMarked(l.level, cfg.JSON, journal(cfg.Stderr)))
	}
	if len(handlers) == 0 || cfg.UseStderr && !cfg.Journal {
		handlers = append(handlers, plain(cfg.Stderr))
	}
	out := handlers[0]
	if len(handlers) > 1 {
		out = slog.NewMultiHandler(handlers...)
	}
	l.Logger = slog.New(redacting{out}).With("role", cfg.Role)
	return l, nil
}

func (cfg LogConfig) path() string {
	switch {
	case cfg.File == "" && cfg.Dir == "":
		return ""
	case cfg.File == "":
		return filepath.Join(cfg.Dir, fmt.Sprintf("salvor-%s.log", cfg.Role))
	case filepath.IsAbs(cfg.File):
		return cfg.File
	default:
		return filepath.Join(cfg.Dir, cfg.File)
	}
}

// SetDebug changes the level of a running process.
func (l *Log) SetDebug(on bool) {
	l.level.Set(slog.LevelInfo)
	if on {
		l.level.Set(slog.LevelDebug)
	}
}

// Close closes files and connections; lines after it are lost.
func (l *Log) Close() error {
	var all []error
	for _, c := range l.closers {
		all = append(all, c.Close())
	}
	l.closers = nil
	return errors.Join(all...)
}
