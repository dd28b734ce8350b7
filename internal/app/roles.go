package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/announce"
	"github.com/salvor-ha/salvor/internal/api"
	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/engine"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/nova"
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/service"
	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/telemetry"
)

type role string

const (
	roleServe  role = "serve"
	roleAPI    role = "api"
	roleEngine role = "engine"
)

// Options are what a process gets besides its configuration.
type Options struct {
	Config *config.Config
	Log    *slog.Logger
	Listen string // HOST:PORT of the api instead of the file's; port 0 takes a free one
}

// cloud is Nova, or what stands in for it.
type cloud interface {
	engine.Cloud
	service.ComputeServices
	service.Cloud
}

// Serve is api and engine in one process. With SQLite, its default, it brings the tables to its version by itself.
func Serve(ctx context.Context, o Options) (*App, error) { return build(ctx, o, roleServe) }

// API is the api alone. Its tables must be there: salvor db sync.
func API(ctx context.Context, o Options) (*App, error) { return build(ctx, o, roleAPI) }

// Engine is an engine alone. Its tables must be there, and it needs Nova.
func Engine(ctx context.Context, o Options) (*App, error) { return build(ctx, o, roleEngine) }

func build(ctx context.Context, o Options, r role) (*App, error) {
	b := &builder{cfg: o.Config, log: o.Log, listen: o.Listen, role: r, app: &App{log: o.Log}, metrics: telemetry.NewMetrics(Version)}
	if err := b.build(ctx); err != nil {
		return nil, errors.Join(err, b.app.Close())
	}
	return b.app, nil
}

// builder makes an App step by step; what it has made before it fails is closed with it.
type builder struct {
	cfg    *config.Config
	log    *slog.Logger
	listen string
	role   role
	app    *App
	cloud  cloud
	fencer engine.Fencer // nil: none is configured

	fencing *Fencing // the same

	rehearsals *rehearsals // nil: none are made

	metrics *telemetry.Metrics
	traces  *telemetry.Traces // nil: nothing is traced

	announce     *store.Announce // nil: nobody is told
	destinations []announce.Destination
	shipper      *announce.Shipper
}

// build checks all that the configuration can tell before it touches the database.
func (b *builder) build(ctx context.Context) error {
	if err := b.makeTraces(ctx); err != nil {
		return err
	}
	if err := b.makeCloud(); err != nil {
		return err
	}
	b.warnUnserved()
	if err := b.makeFencing(); err != nil {
		return err
	}
	if err := b.makeAnnouncing(); err != nil {
		return err
	}
	var f *face
	if b.role != roleEngine {
		b.app.headroom = make([]byte, headroom)
		var err error
		if f, err = b.makeFace(ctx); err != nil {
			return err
		}
	}
	sync := syncReadsWrites
	if b.role == roleAPI {
		sync = syncReads
	}
	rows, err := b.openRows(ctx, sync)
	if err != nil {
		return err
	}
	if err := b.checkRows(ctx, rows); err != nil {
		return err
	}
	metrics, err := b.openMetrics(ctx)
	if err != nil {
		return err
	}
	if b.role == roleAPI {
		if err := b.addAPI(ctx, f, rows, nil); err != nil {
			return err
		}
		b.addShipper(rows)
	} else if err := b.addEngine(ctx, f, rows); err != nil {
		return err
	}
	b.app.parts = append(b.app.parts, metrics...)
	b.addTraces()
	return nil
}

// addEngine adds the engine with what goes along with it, and the api before it where there is one.
func (b *builder) addEngine(ctx context.Context, f *face, rows *store.Store) error {
	e := b.makeEngine(rows)
	b.app.setRules = rulesSetter(e, b.cfg)
	if b.role == roleServe {
		if !embedded(b.cfg) {
			// A pool of its own: requests never keep an engine's beats waiting for a connection.
			var err error
			if rows, err = b.openRows(ctx, syncReads); err != nil {
				return err
			}
		}
		if err := b.addAPI(ctx, f, rows, e.Poke); err != nil {
			return err
		}
	}
	b.app.parts = append(b.app.parts, part{"engine", func(ctx context.Context) error { e.Run(ctx); return nil }})
	b.addRehearsals(rows)
	b.addDoctor(rows)
	b.addProtection(rows, b.app.name)
	b.addShipper(rows)
	b.addBlobCounts(rows)
	b.addStorageCounts(rows, b.log)
	return nil
}

func (b *builder) openRows(ctx context.Context, syncWait int) (*store.Store, error) {
	conf := storeConfig(b.cfg, syncWait)
	conf.Announce = b.announce
	if b.role == roleServe && embedded(b.cfg) {
		conf.SyncFor = time.Second // whose file it is waits for nobody: who left the tables locked was killed
	}
	s, err := openStore(ctx, b.cfg, conf, b.log)
	if err != nil {
		return nil, err
	}
	b.app.closing(s.Close)
	return s, nil
}

// checkRows refuses tables that are missing or old; a serve on SQLite makes them.
func (b *builder) checkRows(ctx context.Context, s *store.Store) error {
	if b.role == roleServe && embedded(b.cfg) {
		if err := s.Sync(ctx); err != nil {
			return err
		}
	}
	if err := checkTables(ctx, s, b.log); err != nil {
		return err
	}
	b.log.Info("database", "is", s.String())
	return nil
}

// makeCloud is Nova as the file has it. Nothing about it in the file is a warning for whoever has an api: it can run.
func (b *builder) makeCloud() error {
	missing := b.cfg.MissingNova()
	switch {
	case len(missing) == 0:
		conf := novaConfig(b.cfg)
		conf.Observe = func(op string, class ha.Class, took time.Duration) { b.metrics.CloudCall(op, string(class), took) }
		conf.Trace = tracedCall(b.traces)
		client, err := nova.New(conf)
		if err != nil {
			return fmt.Errorf("nova: %w ([DEFAULT] os_privileged_user_auth_url, nova_catalog_admin_info, nova_ca_certificates_file)", err)
		}
		b.app.closing(func() error { client.Close(); return nil })
		b.cloud = client
		return nil
	case b.novaUntouched() && b.role != roleEngine:
		b.cloud = noCloud{missing}
		b.log.Warn("no Nova is configured: hosts cannot be registered and recoveries wait", "set", strings.Join(missing, ", "))
		return nil
	default:
		return fmt.Errorf("%s; without them salvor cannot work on Nova", noCloud{missing}.text())
	}
}

// novaUntouched reports that nobody has set any of the options that are missing's kin: a half-filled account is a mistake.
func (b *builder) novaUntouched() bool {
	for _, name := range []string{"auth_url", "name", "password", "tenant"} {
		if b.cfg.IsSet("DEFAULT", "os_privileged_user_"+name) {
			return false
		}
	}
	return true
}

func (b *builder) makeEngine(rows *store.Store) *engine.Engine {
	b.app.name = engineName(b.cfg.Engine.Host)
	e, s := b.cfg.Engine, b.cfg.Salvor
	return engine.New(engine.Config{
		Name: b.app.name, Host: e.Host, Version: Version, TTL: s.LeaseTTL, Tick: s.LeaseTick, Poll: s.PollInterval,
		DrainTimeout: s.DrainTimeout, CallTimeout: s.NovaTimeout, Concurrency: s.NovaConcurrencyMax, Rules: rules(b.cfg), Log: b.log,
		Blobs:   blobRules(b.cfg),
		Observe: traced(observer(b.metrics), b.traces),
	}, watch(rows, b.metrics, b.log), b.cloud, b.fencer)
}

// engineName is new at each process start: no two processes ever share one (DESIGN section 3).
func engineName(host string) string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return host + "-" + hex.EncodeToString(random[:])
}

// face is what the api shows, before it has rows to show.
type face struct {
	address string
	auth    api.Authenticator
	policy  *policy.Enforcer
}

func (b *builder) makeFace(ctx context.Context) (*face, error) {
	open := withoutAuth(b.cfg, b.role)
	address, err := listenAddress(ctx, b.cfg, b.listen, open)
	if err != nil {
		return nil, err
	}
	auth, err := authenticator(b.cfg, open, b.log)
	if err != nil {
		return nil, err
	}
	enforcer, err := policy.New(policyConfig(b.cfg), b.log)
	if err != nil {
		return nil, err
	}
	return &face{address, auth, enforcer}, nil
}

// addAPI opens the listener last: once it is open, somebody may call.
func (b *builder) addAPI(ctx context.Context, f *face, rows *store.Store, poke func()) error {
	conf := apiConfig(b.cfg)
	conf.Log = b.log
	handler, reload, err := b.handler(f, rows, poke)
	if err != nil {
		return err
	}
	server := api.NewServer(conf, b.metrics.Middleware(handler))
	server.SetKeepAlivesEnabled(b.cfg.WSGI.KeepAlive)
	l, u, err := listen(ctx, b.cfg, f.address)
	if err != nil {
		return err
	}
	b.app.url, b.app.reload = u, reload
	b.app.closing(func() error { return closeListener(l) })
	b.app.parts = append(b.app.parts, part{"api", func(ctx context.Context) error { return serveHTTP(ctx, server, l, b.log) }})
	return nil
}
