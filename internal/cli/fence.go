package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/salvor-ha/salvor/internal/app"
	"github.com/salvor-ha/salvor/internal/ha"
)

func fenceCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "fence",
		GroupID: groupOperate,
		Short:   "Look at the hosts' power, and rehearse their fencing",
		Long: `Looks at the hosts' power, and rehearses their fencing, by the file that [salvor] fencing_file names. No host is powered
off or on by it. It acts from this machine: run it where an engine runs, so that it goes the way that the engine would go.`,
		Example: `  salvor fence test --all --config-file /etc/masakari/masakari.conf
  salvor fence status --host cmp-01
  salvor fence test --host cmp-01 --host cmp-02 -o json`,
	}
	s := addSettings(cmd, env)
	cmd.AddCommand(
		fenceVerb(s, "status", "Show the hosts' power, as their controllers see it",
			`Shows the power of each host: by its first method that shows it on, or that shows it off twice. The exit status is 1 when
a host's power cannot be seen.`, fenceStatus),
		fenceVerb(s, "test", "Rehearse the fencing of hosts: everything but the order",
			`Tries each method of each host as far as that harms nobody: login, a look at the power state, and for Redfish whether
ForceOff is allowed. The exit status is 1 when a method would fail, or a host has none.`, fenceTest),
	)
	return cmd
}

// fenced is a line of what the commands show.
type fenced struct {
	Host   string `json:"host"`
	Method string `json:"method,omitempty"`
	OK     bool   `json:"ok"`
	Power  string `json:"power"` // on, off, unknown
	Text   string `json:"text"`
}

func fenceVerb(s *settings, name, short, long string, try func(context.Context, *app.Fencing, string) ([]fenced, error)) *cobra.Command {
	var hosts []string
	var all bool
	format := ""
	cmd := &cobra.Command{Use: name, Args: cobra.NoArgs, Short: short, Long: long}
	f := cmd.Flags()
	f.StringArrayVar(&hosts, "host", nil, "a host's name; given again, more hosts")
	f.BoolVar(&all, "all", false, "all registered hosts, and all that the file names")
	f.StringVarP(&format, "output", "o", "table", "table, json or yaml")
	f.StringVarP(&format, "format", "f", "table", "the same as -o")
	words(cmd, "output", formats...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if err := checkFormat(format); err != nil {
			return err
		}
		if all == (len(hosts) > 0) {
			return usagef("say which hosts: --host NAME, or --all")
		}
		c, log, err := s.load("fence")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, log.Close()) }()
		fencing, err := app.OpenFencing(c, s.env.Environ)
		if err != nil {
			return err
		}
		if fencing == nil {
			return errors.New("no host is fenced: set [salvor] fencing_file")
		}
		if all {
			hosts = fencing.Named()
			within, cancel := context.WithTimeout(cmd.Context(), checkLimit)
			defer cancel()
			db, err := app.OpenDBAsItIs(within, c, log.Logger)
			if err == nil {
				var registered []string
				registered, err = db.RegisteredHosts(within)
				hosts = append(hosts, registered...)
				err = errors.Join(err, db.Close())
			}
			switch {
			case err != nil && len(hosts) == 0:
				return fmt.Errorf("no host was tried: the fencing file names none but by patterns, and those that are registered cannot be listed: %w", err)
			case err == nil && len(hosts) == 0:
				return errors.New("no host was tried: none is registered, and the fencing file names none but by patterns")
			case err != nil:
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: only the hosts that the file names: those that are registered cannot be listed: %v\n", err)
			}
			slices.Sort(hosts)
			hosts = slices.Compact(hosts)
		}
		lines, err := fenceEach(cmd.Context(), fencing, hosts, try)
		if err != nil {
			return err
		}
		return tellFenced(cmd, format, lines)
	}
	return cmd
}

// fencedAtOnce bounds how many hosts are tried at a time.
const fencedAtOnce = 8

func fenceEach(ctx context.Context, f *app.Fencing, hosts []string, try func(context.Context, *app.Fencing, string) ([]fenced, error)) ([]fenced, error) {
	results := make([][]fenced, len(hosts))
	var each errgroup.Group
	each.SetLimit(fencedAtOnce)
	for i, host := range hosts {
		each.Go(func() error {
			lines, err := try(ctx, f, host)
			if err != nil {
				lines = append(lines, fenced{Host: host, Power: string(ha.PowerUnknown), Text: err.Error()})
			}
			results[i] = lines
			return nil
		})
	}
	_ = each.Wait() // none fails
	return slices.Concat(results...), ctx.Err()
}

func fenceStatus(ctx context.Context, f *app.Fencing, host string) ([]fenced, error) {
	r, err := f.Power(ctx, host)
	if err != nil {
		return nil, err
	}
	last := r.Sights[len(r.Sights)-1]
	power := last.Power
	if power == ha.PowerOff && !r.Off {
		power = ha.PowerUnknown // seen off only once
	}
	return []fenced{{Host: host, Method: last.Method, OK: power != ha.PowerUnknown, Power: string(power), Text: r.Text}}, nil
}

func fenceTest(ctx context.Context, f *app.Fencing, host string) ([]fenced, error) {
	checks, err := f.Rehearse(ctx, host)
	lines := make([]fenced, 0, len(checks))
	for _, c := range checks {
		lines = append(lines, fenced{Host: host, Method: c.Method, OK: c.OK, Power: string(c.Power),
			Text: fmt.Sprintf("%s (%s)", c.Text, c.Took.Round(time.Millisecond))})
	}
	return lines, err
}

func tellFenced(cmd *cobra.Command, format string, lines []fenced) error {
	bad := slices.ContainsFunc(lines, func(l fenced) bool { return !l.OK })
	err := printAs(cmd.OutOrStdout(), format, lines, func() string {
		host, method := len("HOST"), len("METHOD")
		for _, l := range lines {
			host, method = max(host, len(l.Host)), max(method, len(l.Method))
		}
		var b strings.Builder
		fmt.Fprintf(&b, "      %-*s  %-*s  %-7s  %s\n", host, "HOST", method, "METHOD", "POWER", "SEEN")
		for _, l := range lines {
			state := "ok"
			if !l.OK {
				state = "BAD"
			}
			fmt.Fprintf(&b, "%-4s  %-*s  %-*s  %-7s  %s\n", state, host, l.Host, method, l.Method, l.Power, printable(l.Text))
		}
		return b.String()
	})
	if err == nil && bad {
		return errSilent
	}
	return err
}
