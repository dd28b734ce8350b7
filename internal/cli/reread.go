package cli

import (
	"context"
	"os"

	"github.com/salvor-ha/salvor/internal/app"
	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/telemetry"
)

// rereader takes mutable options over from the files with each SIGHUP, as OpenStack's services do.
type rereader struct {
	settings *settings
	log      *telemetry.Log
	app      *app.App
	began    *config.Config // with which the process started
	current  *config.Config // whose mutable options are in force
}

// run heeds hangups until ctx ends.
func (r *rereader) run(ctx context.Context, hangups <-chan os.Signal) {
	for {
		select {
		case <-hangups:
			r.reread()
		case <-ctx.Done():
			return
		}
	}
}

// reread takes over all of what can be, or nothing.
func (r *rereader) reread() {
	next, warnings, err := config.Load(r.settings.sources())
	if err == nil {
		err = r.app.Reload(next)
	}
	if err != nil {
		r.log.Error("SIGHUP: the configuration cannot be taken over, the old one stays in force (salvor config check)", "error", err)
		return
	}
	r.log.SetDebug(next.Log.Debug)
	for _, w := range warnings {
		r.log.Warn(w.String())
	}
	taken, waiting := 0, 0
	for _, c := range r.current.Changes(next) {
		if c.Mutable {
			taken++
			r.log.Info("option taken over", "group", c.Group, "option", c.Option, "is", c.New, "was", c.Old)
		}
	}
	for _, c := range r.began.Changes(next) {
		if !c.Mutable {
			waiting++
			r.log.Warn("option not taken over: it needs a restart", "group", c.Group, "option", c.Option, "will be", c.New, "is", c.Old)
		}
	}
	r.current = next
	r.log.Info("SIGHUP: the configuration was read again", "taken over", taken, "waiting for a restart", waiting)
}
