package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/app"
)

func importCommand(env Env, with runner) *cobra.Command {
	var what app.Import
	cmd := &cobra.Command{
		Use: "import-masakari", Args: cobra.NoArgs, Short: "Take the rows of a Masakari's database over",
		Long: `Takes segments, hosts, notifications, vmoves and the details of recoveries over from a Masakari's database
(any release since Zed; MySQL, MariaDB, PostgreSQL or SQLite), which is only read. Ids, uuids and times stay.
What is there already stays as it is: it can be run again, also after it was cut short.

Stop Masakari first, and salvor's engines: while one runs this is refused. See docs/moving-from-masakari.md.
What cannot be taken is said, row by row, with the reason; the exit status is 0 all the same. The URL may stand
in the variable SALVOR_IMPORT_FROM, where no list of processes shows its password.`,
		Example: `  salvor db import-masakari --from mysql+pymysql://masakari:…@db-1.example.com/masakari --dry-run
  salvor db import-masakari --from sqlite:////var/lib/masakari/masakari.sqlite --deleted`,
	}
	f := cmd.Flags()
	f.StringVar(&what.From, "from", "", "SQLAlchemy URL of Masakari's database: [database] connection of its masakari.conf")
	f.StringVar(&what.TaskFlow, "taskflow", "", "SQLAlchemy URL of TaskFlow's tables, if they are elsewhere: [taskflow] connection of its masakari.conf")
	f.BoolVar(&what.Deleted, "deleted", false, "also what was deleted in Masakari")
	f.BoolVar(&what.DryRun, "dry-run", false, "say what would be taken, left out and changed; write nothing")
	run := with(app.OpenDBAsItIs, func(cmd *cobra.Command, db *app.DB) error {
		out := cmd.OutOrStdout()
		what.Say = func(line string) { fmt.Fprintln(out, line) }
		r, err := db.ImportMasakari(cmd.Context(), what)
		if err != nil {
			if len(r.Tables) > 0 {
				fmt.Fprintf(out, "%sNot finished: what was taken is whole; run this again to go on.\n", r)
			}
			return err
		}
		fmt.Fprint(out, r)
		if what.DryRun {
			fmt.Fprintln(out, "Dry run: nothing was written.")
		}
		return nil
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if what.From == "" {
			what.From = lookup(env.Environ, "SALVOR_IMPORT_FROM")
		}
		if what.From == "" {
			return usagef("--from is missing: the URL of Masakari's database")
		}
		return run(cmd, args)
	}
	return cmd
}
