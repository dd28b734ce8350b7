package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/app"
	"github.com/salvor-ha/salvor/internal/config"
)

// examineSeconds is how long `salvor doctor` takes at most unless it is told.
const examineSeconds = 30

func doctorCommand(env Env) *cobra.Command {
	format, seconds := "", 0
	cmd := &cobra.Command{
		Use: "doctor", GroupID: groupOperate, Args: cobra.NoArgs, Short: "Try every call that a recovery will make, and say what would fail",
		Long: `Makes every call that a recovery will make, with the service's own account: Keystone, its catalog and region, Nova's
versions and what Nova lets the account do, Placement; compares the hosts' names and states with Nova's, looks at reserved hosts,
fencing, clocks, the database and its rights, RabbitMQ, webhooks, certificates and the api. Run it where an engine runs.

Nothing is changed: what changes something is tried on things that do not exist, or on no row. Secrets are not shown. One line for
each: what was seen and, where something is wrong, how to mend it. No check takes longer than 10 s, all together --timeout.
The exit status is 0 when all is well, 1 when something should be looked at, 2 when a recovery would fail.`,
		Example: `  salvor doctor --config-file /etc/masakari/masakari.conf
  salvor doctor --timeout 10 -o json`,
	}
	s := addSettings(cmd, env)
	f := cmd.Flags()
	f.StringVarP(&format, "output", "o", "table", "table, json or yaml")
	f.StringVarP(&format, "format", "f", "table", "the same as -o")
	f.IntVar(&seconds, "timeout", examineSeconds, "how many seconds all of it may take")
	words(cmd, "output", formats...)
	words(cmd, "format", formats...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkFormat(format); err != nil {
			return err
		}
		if seconds <= 0 {
			return usagef("--timeout %d: expected a number of seconds above 0", seconds)
		}
		c, warnings, err := config.Load(s.sources())
		found := examinedText(warnings, err)
		if err == nil {
			found = append(found, app.Examine(cmd.Context(), c, env.Environ, time.Duration(seconds)*time.Second)...)
		}
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		return tellExamined(cmd, format, found)
	}
	return cmd
}

// examinedText are the findings about the configuration's text. Without a configuration nothing else can be tried.
func examinedText(warnings []config.Warning, err error) []app.Examined {
	var out []app.Examined
	for _, f := range written(warnings, err) {
		e := app.Examined{Name: "options", State: app.ExaminedOK, Text: f.Text, Do: f.Do}
		switch {
		case err != nil && !f.OK:
			e.State = app.ExaminedFail
		case !f.OK:
			e.State = app.ExaminedWarn
		}
		out = append(out, e)
	}
	return out
}

// examined is a finding as JSON and YAML have it.
type examined struct {
	Check   string  `json:"check"`
	Subject *string `json:"subject"`
	State   string  `json:"state"` // ok, warn, fail
	Text    string  `json:"text"`
	Do      *string `json:"do"` // null: nothing is to be done
}

func tellExamined(cmd *cobra.Command, format string, found []app.Examined) error {
	lines := make([]examined, len(found))
	for i, f := range found {
		lines[i] = examined{Check: f.Name, State: string(f.State), Text: f.Text}
		if f.Subject != "" {
			lines[i].Subject = &f.Subject
		}
		if f.Do != "" {
			lines[i].Do = &f.Do
		}
	}
	err := printAs(cmd.OutOrStdout(), format, lines, func() string { return examinedTable(found) })
	if err != nil {
		return err
	}
	switch app.WorstOf(found) {
	case app.ExaminedFail:
		return &statusError{2}
	case app.ExaminedWarn:
		return &statusError{1}
	}
	return nil
}

func examinedTable(found []app.Examined) string {
	var b strings.Builder
	count := map[string]int{}
	for _, f := range found {
		count[string(f.State)]++
		what := f.Text
		if f.Subject != "" && !strings.Contains(f.Text, f.Subject) {
			what = f.Subject + ": " + f.Text
		}
		fmt.Fprintf(&b, "%-4s  %-11s  %s\n", strings.ToUpper(string(f.State)), f.Name, printable(what))
		if f.Do != "" {
			fmt.Fprintf(&b, "%19s%s\n", "do: ", printable(f.Do))
		}
	}
	fmt.Fprintf(&b, "\n%d ok, %d to be looked at, %d would fail\n", count["ok"], count["warn"], count["fail"])
	return b.String()
}
