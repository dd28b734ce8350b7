package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/app"
	"github.com/salvor-ha/salvor/internal/config"
)

// checkLimit is how long each try may take.
const checkLimit = 10 * time.Second

func checkConfigCommand(env Env) *cobra.Command {
	format := ""
	cmd := &cobra.Command{
		Use: "check", Args: cobra.NoArgs, Short: "Try what the configuration names, and say what to mend",
		Long: `Reads the configuration and says what would not work: misspelled options, values that cannot be, and what does not
answer or is not taken: database, Keystone, the api's address, Nova by its catalog, RabbitMQ, certificates, policy files.
Nothing is changed, each try ends within 10 s, secrets are not shown. The exit status is 0 when nothing is to be mended, else 1.`,
		Example: `  salvor config check --config-file /etc/masakari/masakari.conf
  salvor config check -o json`,
	}
	s := addSettings(cmd, env)
	cmd.Flags().StringVarP(&format, "output", "o", "table", "table, json or yaml")
	cmd.Flags().StringVarP(&format, "format", "f", "table", "the same as -o")
	words(cmd, "output", formats...)
	words(cmd, "format", formats...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkFormat(format); err != nil {
			return err
		}
		c, warnings, err := config.Load(s.sources())
		found := written(warnings, err)
		if err == nil {
			found = append(found, app.Check(cmd.Context(), c, checkLimit)...)
		} else {
			found = append(found, app.Finding{What: "the rest", Text: "not tried", Do: "mend the options first"})
		}
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		return tellFindings(cmd, format, found)
	}
	return cmd
}

// written are the findings about the text itself.
func written(warnings []config.Warning, err error) []app.Finding {
	var found []app.Finding
	for _, w := range warnings {
		do := "mend the name, or remove the line: it has no effect"
		if w.Older || w.Do != "" {
			do = w.Do
		}
		found = append(found, app.Finding{What: "options", OK: w.Older, Text: w.String(), Do: do})
	}
	for _, e := range parts(err) {
		found = append(found, app.Finding{What: "options", Text: e.Error(), Do: "mend it: nothing starts with it"})
	}
	if found == nil {
		found = append(found, app.Finding{What: "options", OK: true, Text: "every name and value can be taken"})
	}
	return found
}

// parts takes a joined error apart.
func parts(err error) []error {
	var joined interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &joined):
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, parts(e)...)
		}
		return all
	default:
		return []error{err}
	}
}

func tellFindings(cmd *cobra.Command, format string, found []app.Finding) error {
	wrong := 0
	for _, f := range found {
		if !f.OK {
			wrong++
		}
	}
	err := printAs(cmd.OutOrStdout(), format, found, func() string {
		text := ""
		for _, f := range found {
			state := "ok  "
			if !f.OK {
				state = "BAD "
			}
			text += fmt.Sprintf("%s  %-8s  %s\n", state, f.What, printable(f.Text))
			if f.Do != "" {
				text += fmt.Sprintf("%16s%s\n", "do: ", f.Do)
			}
		}
		return text
	})
	if err == nil && wrong > 0 {
		return errSilent
	}
	return err
}
