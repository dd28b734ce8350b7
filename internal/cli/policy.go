package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/app"
	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/policy"
)

func policyCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "policy", GroupID: groupOperate, Short: "Who may do what",
		Example: `  salvor policy check --role reader
  salvor policy check --role member --role monitor --project 0a1b2c --config-file /etc/masakari/masakari.conf`,
	}
	cmd.AddCommand(checkPolicyCommand(env))
	return cmd
}

// who is the identity that a policy is asked about.
type who struct {
	policy.Identity
	format string
}

func checkPolicyCommand(env Env) *cobra.Command {
	w := who{}
	cmd := &cobra.Command{
		Use: "check", Args: cobra.NoArgs, Short: "Ask every rule of the api about somebody with these roles",
		Long: `Reads the policy files that the configuration names, as the api does, and prints for every rule whether somebody
with these roles may do it, the rule's text, and where it stands. Likely mistakes, such as rules that nobody asks for, go to
standard error. It asks nobody and changes nothing; the api reads changed policy files by itself, within a second.`,
		Example: `  salvor policy check --role reader
  salvor policy check --role admin -o json`,
	}
	s := addSettings(cmd, env)
	f := cmd.Flags()
	f.StringArrayVar(&w.Roles, "role", nil, "a role that they have; given again for several")
	f.StringVar(&w.ProjectID, "project", "", "the id of the project of their token")
	f.StringVar(&w.UserID, "user", "", "their own id")
	f.StringVar(&w.SystemScope, "system-scope", "", "all: their token is for the whole system")
	f.StringVarP(&w.format, "output", "o", "table", "table, json or yaml")
	f.StringVarP(&w.format, "format", "f", "table", "the same as -o")
	words(cmd, "output", formats...)
	words(cmd, "format", formats...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(w.Roles) == 0 {
			return usagef("--role is missing: whose rights are to be checked?")
		}
		if err := checkFormat(w.format); err != nil {
			return err
		}
		return w.check(cmd, s)
	}
	return cmd
}

func (w *who) check(cmd *cobra.Command, s *settings) error {
	c, _, err := config.Load(s.sources())
	if err != nil {
		return err
	}
	answers, findings, err := app.ExplainPolicy(c, w.Identity)
	if err != nil {
		return err
	}
	for _, f := range findings {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", f)
	}
	l := &listing{out: cmd.OutOrStdout(), format: w.format, columns: []string{"rule", "allowed=may", "text", "source"}}
	rows := rowsOf(answers)
	for i, a := range answers {
		rows[i].extra = map[string]string{"may": yesNo(a.Allowed)}
	}
	if err := l.add(rows); err != nil {
		return err
	}
	return l.end()
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
