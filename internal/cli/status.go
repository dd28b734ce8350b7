package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/app"
	"github.com/salvor-ha/salvor/internal/config"
)

// exitUnexpected is an upgrade check that could not be carried out, as with OpenStack's own.
const exitUnexpected = 255

// statusError is an end whose exit code says how it went; everything was said.
type statusError struct{ code int }

func (e *statusError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func statusCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", GroupID: groupOperate, Short: "Say whether an upgrade may go on",
		Example: "  salvor status upgrade check --config-file /etc/masakari/masakari.conf",
	}
	upgrade := &cobra.Command{Use: "upgrade", Short: "Checks before the processes of a new version start"}
	asJSON := false
	check := &cobra.Command{
		Use: "check", Args: cobra.NoArgs, Short: "Check policy, tables, options and engines",
		Long: `Checks what must be in order before the processes of a new version start: the policy files, the version of the
tables, the options, the versions of running engines. While the database does not answer it is tried again, as often
as [database] max_retries says: each time is told on standard error. What could not be looked at is no success. As with
OpenStack's commands of this kind the exit status is 0 for success, 1 when something should be looked at, 2 when the
upgrade must not go on, and 255 when the check itself failed.`,
	}
	s := addSettings(cmd, env)
	check.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	check.RunE = func(cmd *cobra.Command, _ []string) error {
		c, warnings, err := config.Load(s.sources())
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "salvor: %v\n", err)
			return &statusError{exitUnexpected}
		}
		checks := upgradeChecks(cmd.Context(), c, warnings, cmd.ErrOrStderr())
		print := printTable
		if asJSON {
			print = printChecks
		}
		if err := print(cmd.OutOrStdout(), checks); err != nil {
			return err
		}
		if worst := worstOf(checks); worst > 0 {
			return &statusError{worst}
		}
		return nil
	}
	upgrade.AddCommand(check)
	cmd.AddCommand(upgrade)
	return cmd
}

// upgradeCheck is one result; its JSON is that of oslo.upgradecheck.
type upgradeCheck struct {
	Name    string  `json:"check"`
	Result  int     `json:"result"` // 0 success, 1 warning, 2 failure
	Details *string `json:"details"`
}

func worstOf(checks []upgradeCheck) (worst int) {
	for _, c := range checks {
		worst = max(worst, c.Result)
	}
	return worst
}

func upgradeChecks(ctx context.Context, c *config.Config, warnings []config.Warning, told io.Writer) []upgradeCheck {
	result := func(name string, code int, details string) upgradeCheck {
		u := upgradeCheck{Name: name}
		if details != "" {
			u.Result, u.Details = code, &details
		}
		return u
	}
	wrong, newer, engines := databaseChecks(ctx, c, slog.New(slog.NewTextHandler(told, nil)))
	tables := result("Database Tables", 2, wrong)
	if wrong == "" {
		tables = result("Database Tables", 1, newer)
	}
	broken, doubtful := app.PolicyFaults(c)
	rules := result("Policy Rules", 2, broken)
	if broken == "" {
		rules = result("Policy Rules", 1, strings.Join(doubtful, "; "))
	}
	var options []string
	for _, w := range warnings {
		options = append(options, w.String())
	}
	return []upgradeCheck{
		result("Policy File JSON to YAML Migration", 2, app.PolicyIsJSON(c)),
		rules,
		tables,
		result("Configuration Options", 1, strings.Join(options, "; ")),
		result("Engine Versions", 1, engines),
	}
}

// databaseChecks say what is wrong with the tables, or that they are newer than this program, and which engines are of another
// version, or why that is not known; "" for nothing.
func databaseChecks(ctx context.Context, c *config.Config, log *slog.Logger) (tables, newer, engines string) {
	const unseen = "Not looked at: the tables must be in order first."
	db, err := app.OpenDBAsItIs(ctx, c, log)
	if err != nil {
		return err.Error(), "", unseen
	}
	defer func() { _ = db.Close() }() // nothing was written
	have, want, err := db.Version(ctx)
	switch {
	case err != nil:
		return err.Error(), "", unseen
	case have == "":
		return fmt.Sprintf("%s has no tables of salvor's: run salvor db sync.", db), "", unseen
	case have < want:
		return fmt.Sprintf("%s: version %s; this salvor needs %s: run salvor db sync.", db, have, want), "", unseen
	case have > want:
		newer = fmt.Sprintf("%s: version %s is newer than this salvor, which knows %s: finish the upgrade of this machine.", db, have, want)
	}
	others, err := db.OtherEngines(ctx)
	switch {
	case err != nil:
		return "", newer, err.Error()
	case len(others) > 0:
		return "", newer, "Restart, one by one: " + strings.Join(others, ", ") + "."
	}
	return "", newer, ""
}

func printChecks(out io.Writer, checks []upgradeCheck) error {
	return json.NewEncoder(out).Encode(struct {
		Name   string         `json:"name"`
		Checks []upgradeCheck `json:"checks"`
	}{checksTitle, checks})
}

const (
	checksTitle  = "Upgrade Check Results"
	detailsWidth = 60
)

// printTable prints checks as oslo.upgradecheck does.
func printTable(out io.Writer, checks []upgradeCheck) error {
	cells := [][]string{{checksTitle}}
	for _, c := range checks {
		details := "None"
		if c.Details != nil {
			details = wrap(*c.Details, detailsWidth)
		}
		cell := fmt.Sprintf("Check: %s\nResult: %s\nDetails: %s", c.Name, [...]string{"Success", "Warning", "Failure"}[c.Result], details)
		cells = append(cells, strings.Split(cell, "\n"))
	}
	width := 0
	for _, cell := range cells {
		for _, line := range cell {
			width = max(width, utf8.RuneCountInString(line))
		}
	}
	rule := "+" + strings.Repeat("-", width+2) + "+\n"
	var b strings.Builder
	b.WriteString(rule)
	for _, cell := range cells {
		for _, line := range cell {
			fmt.Fprintf(&b, "| %-*s |\n", width, line)
		}
		b.WriteString(rule)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// wrap breaks text into lines of at most width characters, those after the first indented by two; a longer word is broken.
func wrap(text string, width int) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		for {
			joined := line + word
			if strings.TrimSpace(line) != "" {
				joined = line + " " + word
			}
			if utf8.RuneCountInString(joined) <= width {
				line = joined
				break
			}
			if strings.TrimSpace(line) != "" {
				lines, line = append(lines, line), "  "
				continue
			}
			runes := []rune(joined)
			lines, line, word = append(lines, string(runes[:width])), "  ", string(runes[width:])
		}
	}
	return strings.Join(append(lines, line), "\n")
}
