package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/app"
)

func agentCommand(env Env) *cobra.Command {
	cmd := roleCommand(env, app.Agent, false, &cobra.Command{
		Use:   "agent",
		Short: "Run the agent of a hypervisor",
		Long: `Runs on a hypervisor: it watches the directories that [agent] resource names and tells salvor's
api when one of them can no longer be worked with; it keeps the host's copies of blobs, fetches what
it is told to, and serves them to other hosts. It needs no database and no Nova, only the api, and
keeps its verdict while that is away. See docs/storage.md.`,
		Example: `  salvor agent --config-file /etc/salvor/agent.conf
  salvor agent adopt instances --config-file /etc/salvor/agent.conf`,
	})
	cmd.AddCommand(adoptCommand(env), probeCommand(env))
	return cmd
}

func adoptCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "adopt RESOURCE",
		Args:  cobra.ExactArgs(1),
		Short: "Take what is mounted now for a resource's filesystem",
		Long: `An agent takes the first filesystem that it sees in a resource's directory for the right one, leaves
a marker there, and says wrong_filesystem when it is gone. After a disk was replaced on purpose, this
lets it take the new one; an agent that runs does so at its next look.`,
		Example: `  salvor agent adopt instances --config-file /etc/salvor/agent.conf`,
	}
	s := addSettings(cmd, env)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		c, log, err := s.load("agent")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, log.Close()) }()
		had, err := app.AdoptResource(c, args[0])
		if err != nil {
			return err
		}
		if !had {
			fmt.Fprintf(cmd.OutOrStdout(), "%s has no filesystem yet: the agent takes the one that it sees next\n", args[0])
			return nil
		}
		fmt.Fprintf(cmd.OutOrStdout(), "the filesystem of %s is forgotten: the agent takes the one that it sees next\n", args[0])
		return nil
	}
	return cmd
}

// probeCommand is what the agent starts for each look at a directory; it is nothing for people.
func probeCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use: app.ProbeWords[1], Hidden: true, Args: cobra.NoArgs, Short: "Answer one question of the agent about a directory",
		RunE: func(*cobra.Command, []string) error { return app.ProbeDisk(env.Stdin, env.Stdout) },
	}
}
