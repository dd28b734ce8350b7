package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/salvor-ha/salvor/internal/agent/copies"
	"github.com/salvor-ha/salvor/internal/agent/disks"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/wire"
)

// API is what an agent needs of salvor (package client).
type API interface {
	AgentReport(ctx context.Context, host string, r wire.AgentReport) (wire.AgentAnswer, error)
	AgentOrders(ctx context.Context, host, version string, wait time.Duration) (wire.OrdersBody, error)
}

// Config is one host's agent.
type Config struct {
	Host      string // as it is registered
	StateDir  string
	Resources []disks.Resource
	Probe     time.Duration
	Write     time.Duration
	Deadline  time.Duration
	Report    time.Duration // between two reports without a change
	Prober    disks.Prober
	API       API
	Log       *slog.Logger

	Blobs copies.Config // its Dir is "" where the host holds none; Ready, Changed, Stale, Key and Log are the agent's to set
	URL   string        // where others fetch them, "" when it does not listen
	// Domain is what this host fails together with, "" when nobody said.
	Domain string
}

// Agent is made by New and run once.
type Agent struct {
	cfg    Config
	keep   *keeper
	watch  *disks.Watch
	copies *copies.Copies // nil without a blob directory
	store  string         // the resource that the blob directory is in

	wake   chan struct{} // something is to be reported
	stale  chan struct{} // the orders are to be asked for again
	seq    int64         // of the reporter's goroutine
	most   int           // likewise: copies and orders in one report, fewer after one that was too large
	moving atomic.Bool   // the last batch spoke of copies under way
	beat   atomic.Int64  // unix seconds of the reporter's last turn

	mu      sync.Mutex
	told    time.Time // of the last report that was accepted
	trouble string    // why the last one was not, "" when it was
	health  string    // as the API sees this host
	version string    // of the orders that are known
}

// New reads what an earlier agent of this host has left, and begins a new epoch.
func New(cfg Config) (*Agent, error) {
	keep, err := openKeeper(cfg.StateDir, time.Now())
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, keep: keep, wake: make(chan struct{}, 1), stale: make(chan struct{}, 1), most: wire.MaxCopies}
	a.beat.Store(time.Now().Unix())
	if cfg.Blobs.Dir != "" {
		if a.store, err = home(cfg.Resources, cfg.Blobs.Dir); err != nil {
			return nil, err
		}
		blobs := cfg.Blobs
		blobs.Log, blobs.Ready, blobs.Key = cfg.Log, a.ready, keep.key
		blobs.Changed, blobs.Stale = func() { poke(a.wake) }, func() { poke(a.stale) }
		a.copies = copies.New(blobs)
	}
	a.watch = disks.New(disks.Config{
		Host: cfg.Host, Resources: cfg.Resources, Probe: cfg.Probe, Write: cfg.Write, Deadline: cfg.Deadline, Prober: cfg.Prober, Pins: keep,
		Log: cfg.Log, Changed: a.changed,
	}, keep.Verdicts)
	return a, nil
}

// home is the resource that a blob directory is in.
func home(resources []disks.Resource, dir string) (string, error) {
	for _, r := range resources {
		if dir != r.Path && !strings.HasPrefix(dir, r.Path+"/") {
			continue
		}
		for _, k := range r.Kinds {
			if k == ha.ObjectBlob {
				return r.Name, nil
			}
		}
	}
	return "", fmt.Errorf("[agent] blob_directory %s is in no resource that blobs need: add one, such as resource = blobs:%s:instance,blob", dir, filepath.Clean(dir))
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// changed keeps a verdict before anybody is told of it.
func (a *Agent) changed(r disks.Resource, v disks.Verdict) {
	if err := a.keep.setVerdict(r.Name, v); err != nil {
		a.cfg.Log.Error("a verdict cannot be kept: a restart would forget it", "resource", r.Name, "status", string(v.Status), "error", err)
	}
	poke(a.wake)
}

// ready says why nothing may be concluded from, or written to, the blob directory now.
func (a *Agent) ready() error {
	v := a.watch.Verdicts()[a.store]
	switch {
	case v.Status == "":
		return copies.ErrDoubt
	case v.Status.Failed():
		return fmt.Errorf("the blob directory of %s has failed: %s", a.cfg.Host, v.Status)
	case v.Pending != "":
		return copies.ErrDoubt
	}
	for _, r := range a.cfg.Resources {
		if r.Name != a.store {
			continue
		}
		pin, err := a.keep.Pin(r.Name, r.Path)
		if err != nil {
			return err
		}
		return disks.SamePin(r.Path, a.cfg.Host, pin)
	}
	return nil
}

// Handler serves the blobs, and at /healthcheck how this agent stands.
func (a *Agent) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthcheck", a.serveHealth)
	if a.copies != nil {
		mux.Handle("/blobs/", a.copies)
	}
	return straight{mux}
}

// Run works until ctx ends. What hangs with a filesystem is left behind.
func (a *Agent) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { a.watch.Run(ctx) })
	all.Go(func() { a.reports(ctx) })
	if a.copies != nil {
		all.Go(func() { a.copies.Run(ctx) })
		all.Go(func() { a.orders(ctx) })
	}
	all.Wait()
}

// Alive reports whether the agent's loops come round: what the watchdog of systemd is told. Neither a disk that hangs nor an API that is away
// stops them.
func (a *Agent) Alive() bool {
	return a.watch.Alive() && time.Since(time.Unix(a.beat.Load(), 0)) < 2*a.cfg.Report+2*reportLimit
}
