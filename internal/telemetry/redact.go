package telemetry

import (
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync"
)

const masked = "***"

// redacting is the last defence against secrets in log lines; the first is that nobody logs them. It masks values by their
// key, and accounts in URLs wherever they stand. It is the last one against long errors, too: they may quote another server.
type redacting struct{ inner slog.Handler }

var (
	secretWords = []string{"password", "passwd", "secret", "token", "authorization", "credential", "apikey", "api_key", "private_key"}
	urlAccount  = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s"]*@`)
)

func (h redacting) Enabled(ctx context.Context, level slog.Level) bool {
	return h.inner.Enabled(ctx, level)
}

func (h redacting) Handle(ctx context.Context, r slog.Record) error {
	if harmless(r) {
		return h.inner.Handle(ctx, r)
	}
	clean := slog.NewRecord(r.Time, r.Level, withoutAccounts(r.Message), r.PC)
	attrs := make([]slog.Attr, 0, 16)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, redact(a))
		return true
	})
	clean.AddAttrs(attrs...)
	return h.inner.Handle(ctx, clean)
}

// harmless reports that a line needs no masking, as nearly all do not: it is then not copied.
func harmless(r slog.Record) bool {
	ok := !strings.Contains(r.Message, "://")
	r.Attrs(func(a slog.Attr) bool {
		switch a.Value.Kind() {
		case slog.KindString:
			ok = ok && !namesSecret(a.Key) && !strings.Contains(a.Value.String(), "://")
		case slog.KindBool, slog.KindDuration, slog.KindFloat64, slog.KindInt64, slog.KindTime, slog.KindUint64:
		default: // whose text is not known yet
			ok = false
		}
		return ok
	})
	return ok
}

func (h redacting) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = redact(a)
	}
	return redacting{h.inner.WithAttrs(clean)}
}

func (h redacting) WithGroup(name string) slog.Handler { return redacting{h.inner.WithGroup(name)} }

func redact(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindGroup:
		var inside []any
		for _, member := range v.Group() {
			inside = append(inside, redact(member))
		}
		return slog.Group(a.Key, inside...)
	case slog.KindString:
		if namesSecret(a.Key) && v.String() != "" {
			return slog.String(a.Key, masked)
		}
		return slog.String(a.Key, withoutAccounts(v.String()))
	case slog.KindAny:
		if namesSecret(a.Key) && v.Any() != nil {
			return slog.String(a.Key, masked)
		}
		if err, ok := v.Any().(error); ok {
			return slog.String(a.Key, withoutAccounts(bounded(err.Error())))
		}
	}
	return slog.Attr{Key: a.Key, Value: v}
}

// maxError is how many bytes of an error stand in a line.
const maxError = 4096

func bounded(s string) string {
	if len(s) <= maxError {
		return s
	}
	return strings.ToValidUTF8(s[:maxError], "") + "…"
}

// plainKeys are the keys found to name no secret. Code names the keys of log lines, so they are few.
var plainKeys sync.Map

func namesSecret(key string) bool {
	if _, plain := plainKeys.Load(key); plain {
		return false
	}
	if hasSecretWord(key) {
		return true
	}
	plainKeys.Store(strings.Clone(key), nil)
	return false
}

func hasSecretWord(key string) bool {
	key = strings.ToLower(strings.ReplaceAll(key, "-", "_"))
	for _, w := range secretWords {
		if strings.Contains(key, w) {
			return true
		}
	}
	return false
}

func withoutAccounts(s string) string {
	if !strings.Contains(s, "://") {
		return s
	}
	return urlAccount.ReplaceAllString(s, "${1}"+masked+"@")
}
