package disks

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Prober asks about one resource until ctx ends. done is closed when nothing of the probe is left; it may never be.
type Prober interface {
	Probe(ctx context.Context, name string, q Question) (f Finding, done <-chan struct{}, err error)
}

// Pins keeps the pins of resources in the agent's own directory. A pin that is gone is adopted anew (`salvor agent adopt`).
type Pins interface {
	Pin(name, path string) (Pin, error)
	SetPin(name, path string, p Pin) error
}

// Config is how resources are watched.
type Config struct {
	Host      string // names this host in its markers
	Resources []Resource
	Probe     time.Duration // between two probes
	Write     time.Duration // between two that write
	Deadline  time.Duration // of one probe
	Prober    Prober
	Pins      Pins
	Log       *slog.Logger
	// Changed is called, from any goroutine, when a verdict's status has changed. It must not block.
	Changed func(r Resource, v Verdict)
}

// Watch keeps a verdict over each resource.
type Watch struct {
	cfg Config

	mu       sync.Mutex
	verdicts map[string]Verdict
	turns    map[string]time.Time // when each resource's loop last came round
}

// New returns a watch that begins with the verdicts of an earlier one, by name.
func New(cfg Config, earlier map[string]Verdict) *Watch {
	w := &Watch{cfg: cfg, verdicts: map[string]Verdict{}, turns: map[string]time.Time{}}
	for _, r := range cfg.Resources {
		w.verdicts[r.Name] = earlier[r.Name]
		w.turns[r.Name] = time.Now()
	}
	return w
}

// Verdicts are all as they stand, by name.
func (w *Watch) Verdicts() map[string]Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[string]Verdict, len(w.verdicts))
	for n, v := range w.verdicts {
		all[n] = v
	}
	return all
}

// Alive reports whether every resource's loop has come round lately. A probe that hangs does not stop a loop.
func (w *Watch) Alive() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.turns {
		if time.Since(at) > 2*(w.cfg.Probe+w.cfg.Deadline)+10*time.Second {
			return false
		}
	}
	return true
}

// Run watches all resources, each by itself, until ctx ends. It does not wait for probes that hang.
func (w *Watch) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, r := range w.cfg.Resources {
		all.Go(func() { w.watch(ctx, r) })
	}
	all.Wait()
}

func (w *Watch) watch(ctx context.Context, r Resource) {
	ticker := time.NewTicker(w.cfg.Probe)
	defer ticker.Stop()
	l := loop{w: w, r: r, ticker: ticker}
	for {
		l.turn(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// loop is one resource's.
type loop struct {
	w      *Watch
	r      Resource
	ticker *time.Ticker
	left   <-chan struct{} // of the probe that was left behind, nil when there is none
	wrote  time.Time       // when a probe that writes last ended
	// pinned: the last question had a pin.
	pinned bool
}

// slip is the part of a deadline that the agent may come too late to see it pass. If it comes later, it stood still itself, and so may its
// children have: that a probe was slow says nothing then.
const slip = 3

// turn is one probe, or, while an earlier one hangs, the same verdict once more.
func (l *loop) turn(ctx context.Context) {
	w := l.w
	if l.left != nil {
		select {
		case <-l.left:
			l.left = nil
		default:
			l.found(hanging(errors.New("a probe of it still hangs"), w.cfg.Deadline))
			return
		}
	}
	q, err := l.question()
	if err != nil {
		l.trouble(err)
		return
	}
	limited, cancel := context.WithTimeout(ctx, w.cfg.Deadline)
	began := time.Now()
	f, done, err := w.cfg.Prober.Probe(limited, l.r.Name, q)
	cancel()
	if errors.Is(err, ErrHanging) && time.Since(began) > w.cfg.Deadline+w.cfg.Deadline/slip {
		err = fmt.Errorf("%w: this agent saw a deadline of %s after %s", ErrStarved, w.cfg.Deadline, time.Since(began).Round(time.Second))
	}
	switch {
	case ctx.Err() != nil:
		return // the agent stops: that is no verdict
	case errors.Is(err, ErrHanging), errors.Is(err, ErrStarved):
		select {
		case <-done:
		default:
			l.left = done // killed, and if it is there still at the next turn, it hangs
		}
		if errors.Is(err, ErrStarved) {
			l.ticker.Reset(w.cfg.Probe) // a turn that is due by now would find the child before it could die
			l.trouble(err)
			return
		}
		l.found(hanging(err, w.cfg.Deadline))
		return
	case err != nil:
		l.trouble(err)
		return
	}
	if q.Write {
		l.wrote = time.Now()
	}
	if q.Pin.Value == "" && f.Pin.Value != "" && !f.Status.Failed() {
		if err := w.cfg.Pins.SetPin(l.r.Name, l.r.Path, f.Pin); err != nil {
			l.trouble(err)
			return
		}
		w.cfg.Log.Info("the resource's filesystem is adopted", "resource", l.r.Name, "path", l.r.Path, "filesystem", f.Pin.Filesystem)
	}
	l.found(f)
}

func (l *loop) question() (Question, error) {
	w := l.w
	pin, err := w.cfg.Pins.Pin(l.r.Name, l.r.Path)
	if err != nil {
		return Question{}, err
	}
	l.pinned = pin.Value != ""
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	w.mu.Lock()
	needs := w.verdicts[l.r.Name].NeedsWrite()
	w.mu.Unlock()
	// A tick comes a little early or late: a probe that is nearly due to write does.
	return Question{Path: l.r.Path, Host: w.cfg.Host, Pin: pin, New: hex.EncodeToString(random[:]),
		Write: needs || l.wrote.IsZero() || time.Since(l.wrote) > w.cfg.Write-w.cfg.Probe/2}, nil
}

// trouble is of the agent's own: it says nothing about the disk, and the verdict stands.
func (l *loop) trouble(err error) {
	l.round()
	l.w.cfg.Log.Error("a resource cannot be probed; its verdict stands as it was", "resource", l.r.Name, "path", l.r.Path, "error", err)
}

func (l *loop) round() {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.turns[l.r.Name] = time.Now()
}

func (l *loop) found(f Finding) {
	l.round()
	w := l.w
	w.mu.Lock()
	before := w.verdicts[l.r.Name]
	now := judge(before, f, l.pinned, time.Now())
	w.verdicts[l.r.Name] = now
	w.mu.Unlock()
	args := []any{"resource", l.r.Name, "path", l.r.Path, "status", string(f.Status), "detail", f.Detail}
	switch {
	case now.Status.Failed() && !now.Adopted:
		w.cfg.Log.Error("the resource has never been well: nothing is reported about it. Correct its path, or mount it", args...)
	case now.Status != before.Status && now.Status.Failed():
		w.cfg.Log.Error("the resource has failed", args...)
	case now.Status != before.Status && now.Status == ha.CheckFull:
		w.cfg.Log.Warn("the resource is full", args...)
	case now.Status != before.Status:
		w.cfg.Log.Info("the resource is well", args...)
	case now.Pending != "" && before.Pending == "":
		w.cfg.Log.Warn("a probe failed once; a second one in a row makes a failure", args...)
	}
	if w.cfg.Changed != nil && (now.Status != before.Status || now.Told() != before.Told() || now.Pending != before.Pending) {
		w.cfg.Changed(l.r, now)
	}
}
