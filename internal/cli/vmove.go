package cli

import (
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/wire"
)

var moveStatuses = []string{"pending", "ongoing", "succeeded", "failed", "ignored"}

func vmoveCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "vmove", GroupID: groupOperate, Short: "Look at what became of each instance of a dead host",
		Long: `Looks at the moves of a host's notification: one for each instance. The notification is named by its uuid or, where
that is unambiguous, by its host: then it is the one that is not done with, else the latest that reported it dead.`,
		Example: `  salvor vmove list cmp-01
  salvor vmove list NOTIFICATION --status failed
  salvor vmove show cmp-01 INSTANCE`,
	}
	conn := addConnection(cmd, env)
	show := &cobra.Command{
		Use: "show NOTIFICATION VMOVE", Args: cobra.ExactArgs(2), Short: "Show one with all its properties",
		Long: "Shows one with all its properties. VMOVE is its uuid, or its instance's uuid or name.",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return conn.completeNames(movesOf(args[0]), 2)(cmd, args, begin)
			}
			return conn.completeNames(notificationNames, 1)(cmd, args, begin)
		},
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			id, err := withMovesOf(cmd.Context(), api, args[0])
			if err != nil {
				return err
			}
			m, err := moveOf(cmd.Context(), api, id, args[1])
			if err != nil {
				return err
			}
			return conn.show(cmd, m)
		}),
	}
	conn.addColumns(show)
	cmd.AddCommand(listVMoves(conn), show)
	return cmd
}

func listVMoves(conn *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list NOTIFICATION", Args: cobra.ExactArgs(1), Short: "List the moves of a host's notification",
		ValidArgsFunction: conn.completeNames(notificationNames, 1),
		Example:           `  salvor vmove list cmp-01 --status failed`,
	}
	f := cmd.Flags()
	f.String("type", "", "only those of it: evacuation")
	f.String("status", "", "only those in it: pending, ongoing, succeeded, failed or ignored")
	words(cmd, "status", moveStatuses...)
	conn.addColumns(cmd)
	p := addPaging(cmd, true)
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
		if err := oneOf(cmd, "status", moveStatuses...); err != nil {
			return err
		}
		filters := url.Values{}
		filter(cmd, filters, "type", "type")
		filter(cmd, filters, "status", "status")
		q, err := p.query(filters)
		if err != nil {
			return err
		}
		id, err := withMovesOf(cmd.Context(), api, args[0])
		if err != nil {
			return err
		}
		l, last, open := conn.list(cmd, "uuid", "instance_name=instance", "source_host", "dest_host", "status", "start_time", "end_time", "message"), "", false
		more, err := api.EachVMove(cmd.Context(), id, q, func(page []wire.VMove) error {
			last = page[len(page)-1].UUID
			open = open || slices.ContainsFunc(page, stillOpen)
			return l.add(rowsOf(page))
		})
		if err != nil {
			return err
		}
		p.tellMore(cmd, more, last)
		if open {
			warnWithoutEngine(cmd, api)
		}
		return l.end()
	})
	return cmd
}
