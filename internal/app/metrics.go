package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/salvor-ha/salvor/internal/engine"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/telemetry"
)

// observer tells the metrics what the engine does.
func observer(m *telemetry.Metrics) engine.Observer {
	return engine.Observer{
		Claimed: func(kind ha.UnitKind, takeover bool) { m.Claim(string(kind), takeover) },
		Ended: func(kind ha.UnitKind, status ha.Status, took time.Duration) {
			m.Recovery(string(kind), string(status), took)
			if t, ok := reports[kind]; ok {
				m.Notification(string(t), string(status))
			}
		},
		Acted: func(kind ha.ActKind, class ha.Class, took time.Duration) { m.Act(string(kind), string(class), took) },
		Held:  m.Held,
	}
}

// reports are the types of notifications by the kind of unit that carries them out; a take-back has none.
var reports = map[ha.UnitKind]ha.Type{ha.UnitHost: ha.TypeComputeHost, ha.UnitProcess: ha.TypeProcess, ha.UnitInstance: ha.TypeVM}

// counted counts reports by what was decided upon them, and those of agents that are refused.
type counted struct {
	*store.Store
	metrics *telemetry.Metrics
}

func (c counted) Admit(ctx context.Context, r ha.Report, interval time.Duration) (ha.Notification, error) {
	n, err := c.Store.Admit(ctx, r, interval)
	c.metrics.Admission(string(r.Type), verdict(err))
	return n, err
}

func (c counted) ReportStorage(ctx context.Context, r ha.AgentReport) (ha.Accepted, error) {
	a, err := c.Store.ReportStorage(ctx, r)
	if stale := (*ha.StaleEpochError)(nil); errors.As(err, &stale) {
		c.metrics.AgentRefused()
	}
	return a, err
}

func verdict(err error) string {
	var (
		duplicate   *ha.DuplicateError
		maintenance *ha.MaintenanceError
		unknown     *ha.NotFoundError
	)
	switch {
	case err == nil:
		return "admitted"
	case errors.As(err, &duplicate):
		return "duplicate"
	case errors.As(err, &maintenance):
		return "maintenance"
	case errors.As(err, &unknown):
		return "unknown host"
	default:
		return "failed"
	}
}

// openMetrics opens /metrics where [salvor] metrics_listen says; its part is to stop after those that it tells of.
func (b *builder) openMetrics(ctx context.Context) ([]part, error) {
	if b.cfg.Salvor.MetricsListen == "" {
		return nil, nil
	}
	l, err := openListener(ctx, b.cfg.Salvor.MetricsListen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE): // api and engine with one file, most likely
		return nil, fmt.Errorf("[salvor] metrics_listen: %w; each process of a machine needs an address of its own: set "+
			"OS_SALVOR__METRICS_LISTEN=HOST:PORT in its unit's environment, or give it another --config-file", err)
	case err != nil:
		return nil, fmt.Errorf("[salvor] metrics_listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", b.metrics.Handler())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	b.log.Info("metrics", "at", "http://"+l.Addr().String()+"/metrics")
	b.app.closing(func() error { return closeListener(l) })
	return []part{{"metrics", func(ctx context.Context) error { return serveHTTP(ctx, server, l, b.log) }}}, nil
}
