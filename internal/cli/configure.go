package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/config"
)

func configCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		GroupID: groupOperate,
		Short:   "Show options, and what is set",
		Example: `  salvor config show --config-file /etc/masakari/masakari.conf
  salvor config check --config-file /etc/masakari/masakari.conf
  salvor config sample > masakari.conf`,
	}
	print := func(text func() string) func(*cobra.Command, []string) {
		return func(cmd *cobra.Command, _ []string) { fmt.Fprint(cmd.OutOrStdout(), text()) }
	}
	cmd.AddCommand(
		showConfigCommand(env), checkConfigCommand(env),
		&cobra.Command{Use: "sample", Args: cobra.NoArgs, Short: "Print a masakari.conf with every option at its default", Run: print(config.Sample)},
		&cobra.Command{Use: "reference", Args: cobra.NoArgs, Short: "Print the reference of all options, as Markdown", Run: print(config.Reference)},
	)
	return cmd
}

func showConfigCommand(env Env) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use: "show", Args: cobra.NoArgs, Short: "Print what is set, and where; warn of what has no effect",
		Long: `Prints every option that is set, below a comment with the file and line that set it, as a masakari.conf that may
be used as it is; only secrets are masked, in lines that are comments. References ($option) are filled in. Warnings,
such as for a misspelled option, and errors go to standard error; with an error the exit status is 1.`,
	}
	s := addSettings(cmd, env)
	cmd.Flags().BoolVar(&all, "all", false, "options at their default too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, warnings, err := config.Load(s.sources())
		for _, w := range warnings {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", w)
		}
		if c == nil {
			return err
		}
		settings, place := c.Effective(), map[string]int{}
		for _, set := range settings {
			if _, known := place[set.Group]; !known {
				place[set.Group] = len(place)
			}
		}
		slices.SortStableFunc(settings, func(a, b config.Setting) int { return place[a.Group] - place[b.Group] })
		group, source := "", ""
		for _, set := range settings {
			if !set.Set && !all || set.Ignored && !set.Set {
				continue
			}
			if set.Group != group {
				if group != "" {
					fmt.Fprintln(cmd.OutOrStdout())
				}
				group, source = set.Group, ""
				fmt.Fprintf(cmd.OutOrStdout(), "[%s]\n", group)
			}
			note := set.Source
			if set.Ignored {
				note += ", without effect"
			}
			if set.Masked() {
				note += "; a secret is not shown: put it in before you use the line"
			}
			if note != source {
				source = note
				fmt.Fprintf(cmd.OutOrStdout(), "# %s\n", source)
			}
			for _, line := range set.Lines() {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
		}
		if err != nil {
			return fmt.Errorf("%w\nNothing starts with it, and what is wrong is not shown above", err)
		}
		return nil
	}
	return cmd
}
