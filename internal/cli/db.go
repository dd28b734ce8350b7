package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/salvor-ha/salvor/internal/app"
	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
)

// opener connects to a configured database; runner makes a command of what is done with it.
type (
	opener func(context.Context, *config.Config, *slog.Logger) (*app.DB, error)
	runner func(opener, func(*cobra.Command, *app.DB) error) func(*cobra.Command, []string) error
)

func dbCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "db",
		GroupID: groupOperate,
		Short:   "Look after the database",
		Long:    "Looks after the database that [database] connection names.",
		Example: `  salvor db sync --config-file /etc/masakari/masakari.conf
  salvor db version
  salvor db purge --age-in-days 90
  salvor db import-masakari --from mysql+pymysql://masakari:…@db-1.example.com/masakari --dry-run`,
	}
	s := addSettings(cmd, env)
	with := func(open opener, use func(cmd *cobra.Command, db *app.DB) error) func(*cobra.Command, []string) error {
		return func(cmd *cobra.Command, _ []string) (err error) {
			c, log, err := s.load("db")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, log.Close()) }()
			db, err := open(cmd.Context(), c, log.Logger)
			if err != nil {
				return err
			}
			return errors.Join(use(cmd, db), db.Close())
		}
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "sync", Args: cobra.NoArgs, Short: "Make the tables, or bring them to this version",
			Long: "Makes the tables, or brings them to this version. Run again, it changes nothing. Run it before the processes of a new version start.",
			RunE: with(app.OpenDB, func(cmd *cobra.Command, db *app.DB) error {
				if err := db.Sync(cmd.Context()); err != nil {
					return err
				}
				return printVersion(cmd, db)
			}),
		},
		&cobra.Command{
			Use: "version", Args: cobra.NoArgs, Short: "Show the version of the tables",
			RunE: with(app.OpenDBAsItIs, printVersion),
		},
		purgeCommand(with),
		importCommand(env, with),
		&cobra.Command{
			Use: "unlock", Args: cobra.NoArgs, Short: "Remove the lock that a killed sync left behind",
			RunE: with(app.OpenDBAsItIs, func(cmd *cobra.Command, db *app.DB) error { return db.Unlock(cmd.Context()) }),
		},
	)
	cmd.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-")) // masakari-manage has --age_in_days
	})
	return cmd
}

func printVersion(cmd *cobra.Command, db *app.DB) error {
	have, want, err := db.Version(cmd.Context())
	if err != nil {
		return err
	}
	switch {
	case have == "":
		fmt.Fprintf(cmd.OutOrStdout(), "%s: no tables; this salvor makes version %s (salvor db sync)\n", db, want)
	case have < want:
		fmt.Fprintf(cmd.OutOrStdout(), "%s: version %s; this salvor needs %s (salvor db sync)\n", db, have, want)
	case have > want:
		fmt.Fprintf(cmd.OutOrStdout(), "%s: version %s; newer than this salvor's %s\n", db, have, want)
	default:
		fmt.Fprintf(cmd.OutOrStdout(), "%s: version %s\n", db, have)
	}
	return nil
}

func purgeCommand(with runner) *cobra.Command {
	var age, most int
	cmd := &cobra.Command{
		Use: "purge", Args: cobra.NoArgs, Short: "Remove old rows for good",
		Long: `Removes for good: notifications that ended (finished, failed, ignored) more than so many days ago, with
their moves, their history and their units of work; hosts and segments that were deleted before then, with
what salvor had claimed of them, what their agents had said, their keys, and where they had copies of blobs
(a host that may have the last copy of one is kept, until the blob has another or is given up); single moves
that were deleted; storage episodes that were cleared and done with before then, with their runs and items;
transfers of blobs that ended before then, but for the last one of each blob; units of work without a
notification that ended before then (such as take-backs of hosts), with their history; and messages that
nobody has shipped since, as of a webhook that is no longer configured. The last two do not count towards
--max-rows.`,
		Example: `  salvor db purge
  salvor db purge --age-in-days 90 --max-rows 10000`,
	}
	cmd.Flags().IntVar(&age, "age-in-days", 30, "what is older goes")
	cmd.Flags().IntVar(&most, "max-rows", -1, "at most so many rows; -1: all")
	cmd.RunE = with(app.OpenDBAsItIs, func(cmd *cobra.Command, db *app.DB) error {
		purged, err := db.Purge(cmd.Context(), age, most)
		if purged != (app.Purged{}) || err == nil {
			fmt.Fprintln(cmd.OutOrStdout(), purged)
		}
		var bounds *ha.InvalidError
		if errors.As(err, &bounds) {
			return &usageError{err}
		}
		return err
	})
	return cmd
}
