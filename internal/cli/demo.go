package cli

import "github.com/spf13/cobra"

func demoCommand(env Env) *cobra.Command {
	return &cobra.Command{Use: "demo", GroupID: groupTry, Run: func(*cobra.Command, []string) {}}
}
