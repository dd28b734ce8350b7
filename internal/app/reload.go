package app

import (
	"net/http"
	"sync/atomic"

	"github.com/salvor-ha/salvor/internal/api"
	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/engine"
	"github.com/salvor-ha/salvor/internal/plan"
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/service"
	"github.com/salvor-ha/salvor/internal/store"
)

// current is the api's handler as the options have it now. A reload puts another in its place as a whole; requests that are
// under way end with theirs.
type current struct{ handler atomic.Pointer[http.Handler] }

func (c *current) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*c.handler.Load()).ServeHTTP(w, r)
}

// Reload takes over the options that are marked mutable, but for the log's, which are the caller's. With an error nothing
// has changed. It may be called while the App runs.
func (a *App) Reload(c *config.Config) error {
	if a.reload != nil {
		if err := a.reload(c); err != nil {
			return err
		}
	}
	if a.setRules != nil {
		a.setRules(c)
	}
	return nil
}

// rulesSetter takes the mutable options of an engine over. Those on which orders under way rest stay as they were at the start.
func rulesSetter(e *engine.Engine, at *config.Config) func(*config.Config) {
	return func(c *config.Config) { e.SetRules(laterRules(c, at)) }
}

// laterRules are an engine's rules by c, whose process started with at.
func laterRules(c, at *config.Config) plan.Rules {
	r := rules(c)
	r.ForceDown, r.OrderInDoubt, r.NovaTimeout = at.Salvor.ForceDown, at.Salvor.OrderInDoubt, at.Salvor.NovaTimeout
	return r
}

// laterAPI is the api's part of c, in a process that started with at: whom it believes, and what it tells strangers, does not change.
func laterAPI(c, at *config.Config) api.Config {
	conf, first := apiConfig(c), apiConfig(at)
	conf.WWWAuthenticate, conf.DelayAuthDecision = first.WWWAuthenticate, first.DelayAuthDecision
	conf.MaxHeader, conf.IdleTimeout = first.MaxHeader, first.IdleTimeout // the server's
	return conf
}

// fenced reports whether something can power the host off, as far as this process's fencing file says.
func (b *builder) fenced(host string) bool { return b.fencer != nil && b.fencer.Configured(host) }

// knowsFenced is fenced; nil of an api without a file, which does not know what file the engines have.
func (b *builder) knowsFenced() func(host string) bool {
	if b.role == roleAPI && b.fencer == nil {
		return nil
	}
	return b.fenced
}

// handler makes the api's handler, and returns what a reload calls to make another.
func (b *builder) handler(f *face, rows *store.Store, poke func()) (http.Handler, func(*config.Config) error, error) {
	mk := func(c *config.Config, enforcer *policy.Enforcer) (http.Handler, error) {
		conf := laterAPI(c, b.cfg)
		conf.Log = b.log
		svc := service.New(counted{rows, b.metrics}, b.cloud, service.Config{
			VerifyBlobs:       b.cfg.Salvor.BlobVerifyInterval,
			DuplicateInterval: c.API.DuplicateInterval, Poke: poke, Log: b.log, Cloud: b.cloud, Rules: rules(c), Fenced: b.knowsFenced(),
		})
		return api.New(conf, svc, f.auth, enforcer)
	}
	first, err := mk(b.cfg, f.policy)
	if err != nil {
		return nil, nil, err
	}
	now := &current{}
	now.handler.Store(&first)
	return now, func(c *config.Config) error {
		enforcer, err := policy.New(policyConfig(c), b.log)
		if err != nil {
			return err
		}
		next, err := mk(c, enforcer)
		if err != nil {
			return err
		}
		now.handler.Store(&next)
		return nil
	}, nil
}
