package cli

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/demo"
)

func demoCommand(env Env) *cobra.Command {
	var o demo.Options
	var once, asJSON bool
	var logFile string
	cmd := &cobra.Command{
		Use:     "demo",
		GroupID: groupTry,
		Args:    cobra.NoArgs,
		Short:   "Watch a host die, and its instances come back",
		Long: `Starts a simulated cloud and a whole salvor beside it, on free ports of loopback and with a database
in a temporary directory; registers the hosts; then a host loses power, a monitor reports it, and
salvor brings the instances back. Nothing needs to be installed or configured, and nothing is left.

In a terminal it stays for looking around: k kills another host, r revives one, q quits; kill most
of them, and the brake holds (l is an operator who lets one pass). Elsewhere, and with --once, it
prints timed lines and ends when all is done.

The exit status of --once is 0 only if every instance of the dead host runs on another host and Nova
was given exactly one evacuate order for each. The times at the left count from the beginning, the
seconds of the summary from the monitor's report.`,
		Example: `  salvor demo
  salvor demo --hosts 12 --instances 60
  salvor demo --once
  salvor demo --once --json`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Hosts < 2 || o.Instances < 1 {
				return usagef("a demonstration needs at least 2 hosts and 1 instance")
			}
			if logFile != "" {
				f, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
				if err != nil {
					return fmt.Errorf("--log: %w", err)
				}
				defer func() { err = errors.Join(err, f.Close()) }()
				o.Log = f
			}
			ctx, restore := signal.NotifyContext(cmd.Context(), syscall.SIGHUP) // the terminal is closed: clean up
			defer restore()
			if !once && !asJSON && demo.Interactive(env.Stdin, env.Stdout) {
				return demo.Show(ctx, o, env.Stdin, env.Stdout, env.Environ)
			}
			err = demo.Once(ctx, o, cmd.OutOrStdout(), asJSON)
			if errors.Is(err, demo.ErrNotBack) {
				return errSilent
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&once, "once", false, "print what happens, end when it is over, and say by the exit status how it went")
	f.BoolVar(&asJSON, "json", false, "with --once: print only a summary, as JSON")
	f.IntVar(&o.Hosts, "hosts", 6, "hypervisors")
	f.IntVar(&o.Instances, "instances", 24, "instances, spread over the hosts")
	f.Uint64Var(&o.Seed, "seed", 1, "of everything that is random in the cloud")
	f.StringVar(&logFile, "log", "", "append salvor's own log to this file")
	return cmd
}
