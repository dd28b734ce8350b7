package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/salvor-ha/salvor/internal/config"
)

// Version of this program, shown by `salvor version`, to other engines and to Nova. The build sets it:
// -ldflags "-X github.com/salvor-ha/salvor/internal/app.Version=1.0.0".
var Version = "dev"

// App is one process's worth of salvor: made by Serve, API, Engine or Sim; run once; closed in any case.
type App struct {
	log      *slog.Logger
	url      string
	name     string
	parts    []part
	closers  []func() error
	reload   func(*config.Config) error // nil where nothing can be taken over
	setRules func(*config.Config)       // nil without an engine
	headroom []byte                     // see memory.go; nil without an api
}

// part is something that runs until its context ends and has stopped in good order when run returns.
type part struct {
	name string
	run  func(ctx context.Context) error
}

// URL is where the process listens, such as http://127.0.0.1:15868; "" for an engine.
func (a *App) URL() string { return a.url }

// Name is the engine's name, new at each start; "" for a process without one.
func (a *App) Name() string { return a.name }

// Run works until ctx ends, or until a part fails. Then the parts are stopped in their order, each when the one before it
// has ended: an api first, so that what it has admitted is durable before the engine drains. The error is the failed part's.
func (a *App) Run(ctx context.Context) error {
	type end struct {
		at  int
		err error
	}
	ended := make(chan end, len(a.parts))
	stops := make([]context.CancelFunc, len(a.parts))
	for i, p := range a.parts {
		// Not ctx itself: it would stop all parts at once.
		run, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop()
		stops[i] = stop
		go func() { ended <- end{i, p.run(run)} }()
	}
	running := make(map[int]bool, len(a.parts))
	for i := range a.parts {
		running[i] = true
	}
	notify("READY=1")
	var failures []error
	note := func(e end) {
		delete(running, e.at)
		if e.err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", a.parts[e.at].name, e.err))
		}
	}
	select {
	case <-ctx.Done():
		a.log.Info("stopping")
	case e := <-ended:
		if note(e); e.err == nil {
			failures = append(failures, fmt.Errorf("%s ended by itself", a.parts[e.at].name))
		}
		a.log.Error("stopping, because a part of this process failed", "error", errors.Join(failures...))
	}
	notify("STOPPING=1")
	for i := range a.parts {
		stops[i]()
		for running[i] {
			note(<-ended)
		}
	}
	return errors.Join(failures...)
}

// Close gives up what the App holds: listeners, connections. It may be called without Run.
func (a *App) Close() error {
	var failures []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		failures = append(failures, a.closers[i]())
	}
	a.closers = nil
	return errors.Join(failures...)
}

func (a *App) closing(f func() error) { a.closers = append(a.closers, f) }
