package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/salvor-ha/salvor/internal/app"
	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/config"
)

// Options shape a demonstration.
type Options struct {
	Hosts     int // at least 2
	Instances int
	Seed      uint64
	Log       io.Writer // salvor's own log; nil: nowhere
}

// world is a simulated cloud and a salvor that looks after it, both of this process and both behind HTTP.
type world struct {
	cloud *simulator
	api   *client.Client
	url   string // of salvor's API

	running []process // in order of their starts
	dir     string
	failed  chan error // one of them ended by itself
}

// start makes the world; whatever fails, nothing is left of it.
func start(ctx context.Context, o Options) (*world, error) {
	w := &world{failed: make(chan error, 2)}
	if err := w.start(ctx, o); err != nil {
		return nil, errors.Join(err, w.stop())
	}
	return w, nil
}

func (w *world) start(ctx context.Context, o Options) error {
	log := slog.New(slog.DiscardHandler)
	if o.Log != nil {
		log = slog.New(slog.NewTextHandler(o.Log, nil))
	}
	var err error
	if w.dir, err = os.MkdirTemp("", "salvor-demo-"); err != nil {
		return fmt.Errorf("a directory for the database: %w", err)
	}
	sim, err := app.Sim(ctx, app.SimOptions{Listen: "127.0.0.1:0", Hosts: o.Hosts, Instances: o.Instances, Seed: o.Seed, Log: log})
	if err != nil {
		return err
	}
	w.run(ctx, sim)
	conf, err := configuration(w.dir, sim.URL())
	if err != nil {
		return err
	}
	salvor, err := app.Serve(ctx, app.Options{Config: conf, Log: log, Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	w.run(ctx, salvor)
	w.url = salvor.URL()
	w.cloud = newSimulator(sim.URL())
	w.api, err = client.New(client.Config{URL: w.url, HTTP: loopback(), Auth: client.NewKeystone(client.Login{
		AuthURL: sim.URL(), Username: "admin", Password: "secret", Project: "admin", HTTP: loopback(),
	})})
	return err
}

// configuration is read from text as an operator's file is. auto_return: a host that is
// revived takes instances again, some seconds later.
func configuration(dir, simURL string) (*config.Config, error) {
	file := dir + "/masakari.conf"
	text := app.SimConfig(simURL) + "auto_return = true\nhealthy_delay = 5\n\n[DEFAULT]\nstate_path = " + dir + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	conf, _, err := config.Load(config.Sources{Files: []string{file}, SearchDirs: []string{}})
	return conf, err
}

// process is an app at work.
type process struct {
	app  *app.App
	stop context.CancelFunc
	done chan struct{}
}

func (w *world) run(ctx context.Context, a *app.App) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	p := process{a, stop, make(chan struct{})}
	w.running = append(w.running, p)
	go func() {
		defer close(p.done)
		if err := a.Run(ctx); err != nil {
			w.failed <- err
		}
	}()
}

// stop ends all of it, the last first, and leaves nothing behind.
func (w *world) stop() error {
	var failures []error
	for _, p := range slices.Backward(w.running) {
		p.stop()
		<-p.done
		failures = append(failures, p.app.Close())
	}
	if w.dir != "" {
		failures = append(failures, os.RemoveAll(w.dir))
	}
	return errors.Join(failures...)
}
