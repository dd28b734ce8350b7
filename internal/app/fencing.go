package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/fencing"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/telemetry"
)

// Fencing is what [salvor] fencing_file says, for engines and for `salvor fence`.
type Fencing struct {
	*fencing.Fencer
	file *fencing.File
}

// Rehearsal is what one method of a host came to when it was tried without an order.
type Rehearsal = fencing.Rehearsal

// ErrNotFenced: no method is configured for a host.
var ErrNotFenced = fencing.ErrNotConfigured

// OpenFencing reads the fencing file that the configuration names; nil when it names none. environ are the variables that the
// file may refer to.
func OpenFencing(c *config.Config, environ []string) (*Fencing, error) {
	if c.Salvor.FencingFile == "" {
		return nil, nil
	}
	file, err := fencing.Load(c.Salvor.FencingFile, environ)
	if err != nil {
		return nil, fmt.Errorf("[salvor] fencing_file: %w", err)
	}
	return &Fencing{Fencer: fencing.New(file.Methods), file: file}, nil
}

// Named are the hosts that the file names, without its patterns.
func (f *Fencing) Named() []string { return f.file.Hosts() }

// RegisteredHosts are the names of all hosts that are registered.
func (d *DB) RegisteredHosts(ctx context.Context) ([]string, error) {
	return registeredHosts(ctx, d.store)
}

func registeredHosts(ctx context.Context, rows *store.Store) ([]string, error) {
	const page = 1000
	var names []string
	for marker := ""; ; {
		hosts, err := rows.Hosts(ctx, ha.HostFilter{}, ha.Page{Limit: page, Marker: marker, Sort: []ha.Sort{{Field: ha.FieldID}}})
		if err != nil {
			return nil, err
		}
		for _, h := range hosts {
			names = append(names, h.Name)
			marker = h.UUID
		}
		if len(hosts) < page {
			return names, nil
		}
	}
}

// makeFencing reads the fencing file before anything is opened: who cannot fence as configured does not start. An api fences nobody;
// it has to tell what an engine can.
func (b *builder) makeFencing() error {
	f, err := OpenFencing(b.cfg, os.Environ())
	if err == nil && f != nil {
		b.fencing, b.fencer = f, f
	}
	return err
}

// addRehearsals tries the fencing of all registered hosts now and then, from this machine, which is where it would be needed.
func (b *builder) addRehearsals(rows *store.Store) {
	every := b.cfg.Salvor.FencingRehearsalInterval
	if b.fencing == nil || every == 0 {
		return
	}
	r := &rehearsals{fencing: b.fencing, every: every, log: b.log, began: time.Now(), seen: map[string]rehearsed{},
		hosts: func(ctx context.Context) ([]string, error) { return registeredHosts(ctx, rows) }}
	b.metrics.Fencing(r.health)
	b.rehearsals = r
	b.app.parts = append(b.app.parts, part{"fencing rehearsals", func(ctx context.Context) error { r.run(ctx); return nil }})
}

// rehearsals keeps what the latest ones came to, in memory: a restart begins with one.
type rehearsals struct {
	fencing interface {
		Rehearse(ctx context.Context, host string) ([]fencing.Rehearsal, error)
	}
	hosts func(context.Context) ([]string, error)
	every time.Duration
	log   *slog.Logger
	began time.Time

	mu   sync.Mutex
	seen map[string]rehearsed // by host
}

type rehearsed struct {
	state telemetry.Fencing
	tried []fencing.Rehearsal
	well  time.Time // when at least one method last worked
}

// atOnce bounds how many hosts are rehearsed at a time.
const atOnce = 8

func (r *rehearsals) run(ctx context.Context) {
	for {
		hosts, err := r.hosts(ctx)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("fencing is not rehearsed now: the hosts cannot be listed", "error", err)
		} else if err == nil {
			r.round(ctx, hosts)
		}
		if pause(ctx, r.every) != nil {
			return
		}
	}
}

func (r *rehearsals) round(ctx context.Context, hosts []string) {
	var all errgroup.Group
	all.SetLimit(atOnce)
	for _, host := range hosts {
		all.Go(func() error { r.rehearse(ctx, host); return nil })
	}
	_ = all.Wait() // none fails
	r.mu.Lock()
	defer r.mu.Unlock()
	for host := range r.seen {
		if !slices.Contains(hosts, host) {
			delete(r.seen, host)
		}
	}
}

func (r *rehearsals) rehearse(ctx context.Context, host string) {
	checks, err := r.fencing.Rehearse(ctx, host)
	if ctx.Err() != nil {
		return
	}
	state, text := judge(checks, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	before, now := r.seen[host], rehearsed{state: state, tried: checks, well: r.seen[host].well}
	if state == telemetry.FencingReady || state == telemetry.FencingDegraded {
		now.well = time.Now()
	}
	r.seen[host] = now
	switch {
	case state == before.state:
	case state == telemetry.FencingFailing:
		r.log.Warn("ALARM: fencing of "+host+" would fail", "host", host, "why", text)
	case state == telemetry.FencingDegraded:
		r.log.Warn("ALARM: a fencing method of "+host+" would fail, another would work", "host", host, "why", text)
	case state == telemetry.FencingNone:
		r.log.Warn("no fencing is configured for "+host, "host", host, "why", text)
	case before.state != "":
		r.log.Info("fencing of "+host+" would work", "host", host)
	}
}

// judge says how a host's fencing is, and what is wrong with it.
func judge(checks []fencing.Rehearsal, err error) (telemetry.Fencing, string) {
	if errors.Is(err, fencing.ErrNotConfigured) {
		return telemetry.FencingNone, err.Error()
	}
	if err != nil {
		return telemetry.FencingFailing, err.Error()
	}
	var wrong []string
	for _, c := range checks {
		if !c.OK {
			wrong = append(wrong, c.Method+": "+c.Text)
		}
	}
	switch len(wrong) {
	case 0:
		return telemetry.FencingReady, ""
	case len(checks):
		return telemetry.FencingFailing, strings.Join(wrong, "; ")
	default:
		return telemetry.FencingDegraded, strings.Join(wrong, "; ")
	}
}

// latest is what the latest rehearsal of a host came to; false: none could be made yet.
func (r *rehearsals) latest(host string) ([]fencing.Rehearsal, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, known := r.seen[host]
	return s.tried, known && (len(s.tried) > 0 || s.state == telemetry.FencingNone)
}

// health is what the metrics show: hosts by state, and the age of the oldest success among the hosts that are to be fenced.
func (r *rehearsals) health() (map[telemetry.Fencing]int, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	count, oldest := map[telemetry.Fencing]int{}, time.Duration(0)
	for _, s := range r.seen {
		count[s.state]++
		if s.state == telemetry.FencingNone {
			continue
		}
		well := s.well
		if well.IsZero() {
			well = r.began
		}
		oldest = max(oldest, time.Since(well))
	}
	return count, oldest
}
