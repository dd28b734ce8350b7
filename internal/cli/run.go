package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/app"
	"github.com/salvor-ha/salvor/internal/config"
)

type maker func(context.Context, app.Options) (*app.App, error)

func serveCommand(env Env) *cobra.Command {
	return roleCommand(env, app.Serve, true, &cobra.Command{
		Use:   "serve",
		Short: "Run api and engine in one process",
		Long: `Runs the api and an engine in one process. Without any configuration the rows are kept in an
embedded database, whose tables are made and updated by themselves, and the api listens on
loopback without authentication. With a masakari.conf it is a whole salvor of one process; more of
them over one MariaDB or PostgreSQL share the work.

SIGTERM or SIGINT stops it in good order: requests end, calls to Nova that are in flight end, and
other engines take over at once. A second signal ends it on the spot; nothing is lost by that either.`,
		Example: `  salvor serve
  salvor serve --config-file /etc/masakari/masakari.conf
  salvor serve --listen 127.0.0.1:0             on a free port, which is printed`,
	})
}

func apiCommand(env Env) *cobra.Command {
	return roleCommand(env, app.API, true, &cobra.Command{
		Use:   "api",
		Short: "Run the api alone",
		Long: `Runs the api alone: it admits reports and answers questions; engines elsewhere do the work.
As many as wanted, behind any load balancer. The tables must be there: salvor db sync.`,
		Example: `  salvor api
  salvor api --config-file /etc/masakari/masakari.conf --listen 0.0.0.0:15868`,
	})
}

func engineCommand(env Env) *cobra.Command {
	cmd := roleCommand(env, app.Engine, false, &cobra.Command{
		Use:   "engine",
		Short: "Run an engine alone",
		Long: `Runs an engine alone: it claims recoveries and carries them out. As many as wanted, on any hosts,
over one database: each recovery has one engine at a time, and when that dies another goes on within
seconds. The tables must be there: salvor db sync.`,
		Example: `  salvor engine
  salvor engine --config-file /etc/masakari/masakari.conf
  salvor engine list`,
	})
	cmd.AddCommand(listEngines(env))
	return cmd
}

func roleCommand(env Env, mk maker, listens bool, cmd *cobra.Command) *cobra.Command {
	cmd.GroupID, cmd.Args = groupRun, cobra.NoArgs
	s := addSettings(cmd, env)
	listen := ""
	if listens {
		cmd.Flags().StringVar(&listen, "listen", "", "HOST:PORT to listen on, instead of masakari_api_listen and "+
			"masakari_api_listen_port; port 0 is any free one")
	}
	role := cmd.Name()
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		c, log, err := s.load(role)
		if err != nil {
			return err
		}
		defer func() {
			if err != nil && (c.Log.File != "" || c.Log.Dir != "") { // standard error gets it anyway
				log.Error("ended", "error", err)
			}
			err = errors.Join(err, log.Close())
		}()
		log.Info("configuration", "from", sourcesOf(c)) // which files were found, where none is named
		ctx, stop := context.WithCancel(cmd.Context())
		defer stop()
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP) // one that comes before the process is ready is heeded then
		defer signal.Stop(hangups)
		a, err := mk(ctx, app.Options{Config: c, Log: log.Logger, Listen: listen})
		switch {
		case err != nil && ctx.Err() != nil:
			return nil // stopped before it was ready
		case err != nil:
			return err
		}
		var reread sync.WaitGroup
		r := rereader{settings: s, log: log, app: a, began: c, current: c}
		reread.Go(func() { r.run(ctx, hangups) })
		defer reread.Wait()
		defer stop()
		return run(cmd, a)
	}
	return cmd
}

// sourcesOf are the files, and the environment, that set something.
func sourcesOf(c *config.Config) string {
	var from []string
	for _, set := range c.Effective() {
		file, _, _ := strings.Cut(set.Source, ":")
		if set.Set && !slices.Contains(from, file) {
			from = append(from, file)
		}
	}
	if len(from) == 0 {
		return "no file: everything is at its default"
	}
	return strings.Join(from, ", ")
}

// run says that the process is ready, runs it until a signal, and closes it.
func run(cmd *cobra.Command, a *app.App) error {
	switch {
	case a.URL() != "":
		fmt.Fprintf(cmd.OutOrStdout(), "listening on %s\n", a.URL())
	default:
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s is running\n", cmd.Name(), a.Name())
	}
	return errors.Join(a.Run(cmd.Context()), a.Close())
}
