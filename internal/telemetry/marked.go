package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"log/syslog"
	"strings"
	"sync"
)

// marked hands whole lines to out together with their level, for places that keep priority and time themselves.
type marked struct {
	inner slog.Handler
	line  *markedLine
}

// markedLine is shared by all handlers that were derived from one.
type markedLine struct {
	mu   sync.Mutex
	text bytes.Buffer
	out  func(level slog.Level, line string) error
}

func newMarked(level slog.Leveler, asJSON bool, out func(slog.Level, string) error) slog.Handler {
	line := &markedLine{out: out}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return a
	}}
	if asJSON {
		return &marked{slog.NewJSONHandler(&line.text, options), line}
	}
	return &marked{slog.NewTextHandler(&line.text, options), line}
}

func (m *marked) Enabled(ctx context.Context, level slog.Level) bool {
	return m.inner.Enabled(ctx, level)
}

func (m *marked) Handle(ctx context.Context, r slog.Record) error {
	m.line.mu.Lock()
	defer m.line.mu.Unlock()
	m.line.text.Reset()
	if err := m.inner.Handle(ctx, r); err != nil {
		return err
	}
	return m.line.out(r.Level, strings.TrimSuffix(m.line.text.String(), "\n"))
}

func (m *marked) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &marked{m.inner.WithAttrs(attrs), m.line}
}
func (m *marked) WithGroup(name string) slog.Handler { return &marked{m.inner.WithGroup(name), m.line} }

// journal writes what systemd's journal reads from standard error: <priority> before each line (sd-daemon(3)).
func journal(w io.Writer) func(slog.Level, string) error {
	return func(level slog.Level, line string) error {
		_, err := fmt.Fprintf(w, "<%d>%s\n", priority(level), line)
		return err
	}
}

func priority(level slog.Level) syslog.Priority {
	switch {
	case level >= slog.LevelError:
		return syslog.LOG_ERR
	case level >= slog.LevelWarn:
		return syslog.LOG_WARNING
	case level >= slog.LevelInfo:
		return syslog.LOG_INFO
	default:
		return syslog.LOG_DEBUG
	}
}

var facilities = map[string]syslog.Priority{
	"KERN": syslog.LOG_KERN, "USER": syslog.LOG_USER, "MAIL": syslog.LOG_MAIL, "DAEMON": syslog.LOG_DAEMON,
	"AUTH": syslog.LOG_AUTH, "SYSLOG": syslog.LOG_SYSLOG, "LPR": syslog.LOG_LPR, "NEWS": syslog.LOG_NEWS,
	"UUCP": syslog.LOG_UUCP, "CRON": syslog.LOG_CRON, "AUTHPRIV": syslog.LOG_AUTHPRIV, "FTP": syslog.LOG_FTP,
	"LOCAL0": syslog.LOG_LOCAL0, "LOCAL1": syslog.LOG_LOCAL1, "LOCAL2": syslog.LOG_LOCAL2, "LOCAL3": syslog.LOG_LOCAL3,
	"LOCAL4": syslog.LOG_LOCAL4, "LOCAL5": syslog.LOG_LOCAL5, "LOCAL6": syslog.LOG_LOCAL6, "LOCAL7": syslog.LOG_LOCAL7,
}

// syslogOut is a connection to the local syslog daemon; the library opens it anew after a failure.
type syslogOut struct{ w *syslog.Writer }

// dialSyslog takes facilities as oslo.log does: LOG_LOCAL3, local3.
func dialSyslog(facility, tag string) (*syslogOut, error) {
	name := strings.TrimPrefix(strings.ToUpper(facility), "LOG_")
	if name == "" {
		name = "USER"
	}
	f, ok := facilities[name]
	if !ok {
		return nil, fmt.Errorf("syslog_log_facility %q is none: expected LOG_USER, LOG_DAEMON or LOG_LOCAL0 to LOG_LOCAL7", facility)
	}
	w, err := syslog.New(f|syslog.LOG_INFO, tag)
	if err != nil {
		return nil, fmt.Errorf("use_syslog is set, but no syslog daemon answers: %w", err)
	}
	return &syslogOut{w}, nil
}

func (s *syslogOut) write(level slog.Level, line string) error {
	switch priority(level) {
	case syslog.LOG_ERR:
		return s.w.Err(line)
	case syslog.LOG_WARNING:
		return s.w.Warning(line)
	case syslog.LOG_INFO:
		return s.w.Info(line)
	default:
		return s.w.Debug(line)
	}
}

func (s *syslogOut) Close() error { return s.w.Close() }
