package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/demo"
	"github.com/salvor-ha/salvor/internal/wire"
)

var recoveryMethods = []string{"auto", "reserved_host", "auto_priority", "rh_priority"}

func segmentCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "segment", GroupID: groupOperate, Short: "Look at segments, make and change them",
		Long: `Looks at failover segments, makes and changes them: hosts whose instances may go to each other. A segment
is named by its name or its uuid.`,
		Example: `  salvor segment list
  salvor segment create rack-4 --recovery-method auto
  salvor segment update rack-4 --enabled=false
  salvor segment update rack-4 --storage-failure-action evacuate
  salvor segment show rack-4 -o json`,
	}
	conn := addConnection(cmd, env)
	show := &cobra.Command{
		Use: "show SEGMENT", Args: cobra.ExactArgs(1), Short: "Show one with all its properties", ValidArgsFunction: conn.completeNames(segmentNames, 1),
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			s, err := segmentOf(cmd.Context(), api, args[0])
			if err != nil {
				return err
			}
			return conn.showSegment(cmd, api, s)
		}),
	}
	conn.addColumns(show)
	cmd.AddCommand(listSegments(conn), show, createSegment(conn), updateSegment(conn), deleteSegment(conn))
	return cmd
}

func listSegments(conn *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Args: cobra.NoArgs, Short: "List segments",
		Example: `  salvor segment list --enabled=false --sort name:asc`,
	}
	f := cmd.Flags()
	f.String("recovery-method", "", "only those with it: auto, reserved_host, auto_priority or rh_priority")
	f.String("service-type", "", "only those of it")
	f.Bool("enabled", true, "only those that are, or with =false are not, enabled")
	words(cmd, "recovery-method", recoveryMethods...)
	conn.addColumns(cmd)
	p := addPaging(cmd, true)
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, _ []string) error {
		filters := url.Values{}
		filter(cmd, filters, "recovery-method", "recovery_method")
		filter(cmd, filters, "service-type", "service_type")
		filter(cmd, filters, "enabled", "enabled")
		q, err := p.query(filters)
		if err != nil {
			return err
		}
		actions, err := actionsOf(cmd.Context(), api, "")
		if err != nil {
			return err
		}
		l, last := conn.list(cmd, "uuid", "name", "recovery_method", "service_type", "enabled", actionKey, "description"), ""
		more, err := api.EachSegment(cmd.Context(), q, func(page []wire.Segment) error {
			last = page[len(page)-1].UUID
			rows := make([]row, len(page))
			for i, s := range page {
				rows[i].v = segmentView{s, actions.of(s, conn.format)}
			}
			return l.add(rows)
		})
		if err != nil {
			return err
		}
		p.tellMore(cmd, more, last)
		return l.end()
	})
	return cmd
}

// rowsOf are elements without anything beside their own keys.
func rowsOf[T any](page []T) []row {
	rows := make([]row, len(page))
	for i, v := range page {
		rows[i].v = v
	}
	return rows
}

func createSegment(conn *connection) *cobra.Command {
	s := client.NewSegment{}
	enabled := true
	cmd := &cobra.Command{
		Use: "create NAME", Args: cobra.ExactArgs(1), Short: "Make a segment", ValidArgsFunction: cobra.NoFileCompletions,
		Example: `  salvor segment create rack-4
  salvor segment create rack-5 --recovery-method rh_priority --description "spares first"
  salvor segment create rack-6 --storage-failure-action evacuate
  uuid=$(salvor segment create rack-7 -o value -c uuid)`,
	}
	f := cmd.Flags()
	action := addAction(cmd, actionDefault)
	f.StringVar(&s.RecoveryMethod, "recovery-method", "auto", "auto: Nova chooses where to, never a reserved host; reserved_host: to a reserved host; "+
		"auto_priority, rh_priority: one, then the other")
	f.StringVar(&s.ServiceType, "service-type", "COMPUTE", "free text")
	f.StringVar(&s.Description, "description", "", "free text")
	f.BoolVar(&enabled, "enabled", true, "with =false its reports are ignored")
	words(cmd, "recovery-method", recoveryMethods...)
	conn.addColumns(cmd)
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
		s.Name = args[0]
		if !enabled {
			s.Enabled = &enabled
		}
		if err := errors.Join(checkAction(cmd, *action), conn.checkColumns(segmentView{})); err != nil {
			return err
		}
		made, err := api.CreateSegment(cmd.Context(), s)
		if err != nil {
			return err
		}
		if err := setAction(cmd, api, made, *action); err != nil {
			return fmt.Errorf("segment %s is made, but its %s is not set (salvor segment update sets it): %w", made.Name, actionKey, err)
		}
		return conn.showSegment(cmd, api, made)
	})
	return cmd
}

func updateSegment(conn *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use: "update SEGMENT", Args: cobra.ExactArgs(1), Short: "Change a segment", ValidArgsFunction: conn.completeNames(segmentNames, 1),
		Long: `Changes what is given, and nothing else. A segment with a notification that is not done with is refused;
its --storage-failure-action may be changed all the same.`,
		Example: `  salvor segment update rack-4 --name rack-4a
  salvor segment update rack-4 --enabled=false
  salvor segment update rack-4 --storage-failure-action evacuate`,
	}
	f := cmd.Flags()
	action := addAction(cmd, "")
	f.String("name", "", "its new name")
	f.String("recovery-method", "", "auto, reserved_host, auto_priority or rh_priority")
	f.String("service-type", "", "free text")
	f.String("description", "", "free text")
	f.Bool("enabled", true, "with =false its reports are ignored")
	words(cmd, "recovery-method", recoveryMethods...)
	conn.addColumns(cmd)
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
		if err := errors.Join(checkAction(cmd, *action), conn.checkColumns(segmentView{})); err != nil {
			return err
		}
		changes, err := changed(cmd, map[string]string{
			"name": "name", "recovery-method": "recovery_method", "service-type": "service_type", "description": "description", "enabled": "enabled",
		})
		if err != nil && !cmd.Flags().Changed(actionFlag) { // it is no key of Masakari's segments
			return err
		}
		s, err := segmentOf(cmd.Context(), api, args[0])
		if err == nil && len(changes) > 0 {
			s, err = api.UpdateSegment(cmd.Context(), s.UUID, changes)
		}
		if err == nil {
			err = setAction(cmd, api, s, *action)
		}
		if err != nil {
			return err
		}
		return conn.showSegment(cmd, api, s)
	})
	return cmd
}

func deleteSegment(conn *connection) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use: "delete SEGMENT...", Args: cobra.MinimumNArgs(1), Short: "Remove segments, with their hosts", ValidArgsFunction: conn.completeNames(segmentNames, 0),
		Long: `Removes segments and the hosts in them: nothing recovers these any more. One with a notification that is
not done with is refused. The others are removed all the same. On a terminal you are asked once more for each that
has hosts; a script is not.`,
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			return eachArgument(cmd, args, func(arg string) error {
				s, err := segmentOf(cmd.Context(), api, arg)
				if err != nil {
					return err
				}
				hosts, err := hostsIn(cmd.Context(), api, s)
				if err != nil {
					return err
				}
				if hosts != "" && !yes && demo.Interactive(conn.env.Stdin, conn.env.Stdout) {
					text := fmt.Sprintf("Segment %s goes with %s: nothing recovers these any more.", printable(s.Name), hosts)
					if err := askName(cmd.Context(), conn.env.Stdin, cmd.OutOrStdout(), text, s.Name); err != nil {
						return err
					}
				}
				if err := api.DeleteSegment(cmd.Context(), s.UUID); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "segment %s (%s) is removed\n", printable(s.Name), s.UUID)
				if hosts != "" {
					fmt.Fprintf(cmd.OutOrStdout(), "with %s: nothing recovers these any more\n", hosts)
				}
				return nil
			})
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask, also on a terminal")
	return cmd
}

// hostsNamed bounds how many hosts a sentence names.
const hostsNamed = 20

// hostsIn says how many hosts a segment has, and which; "" for none.
func hostsIn(ctx context.Context, api *client.Client, s wire.Segment) (string, error) {
	var names []string
	count := 0
	_, err := api.EachHost(ctx, s.UUID, client.Query{Sort: []string{"name:asc"}}, func(hosts []wire.Host) error {
		for _, h := range hosts {
			if count++; count <= hostsNamed {
				names = append(names, printable(h.Name))
			}
		}
		return nil
	})
	switch {
	case err != nil || count == 0:
		return "", err
	case count == 1:
		return "its host " + names[0], nil
	case count > hostsNamed:
		names = append(names, "…")
	}
	return fmt.Sprintf("its %d hosts %s", count, strings.Join(names, ", ")), nil
}

// eachArgument does something with every argument, also behind a failure. The last failure decides the exit status; the
// others are told.
func eachArgument(cmd *cobra.Command, args []string, do func(arg string) error) error {
	var last error
	for _, arg := range args {
		err := do(arg)
		if err == nil {
			continue
		}
		if last != nil {
			text, _ := explain(last)
			fmt.Fprintf(cmd.ErrOrStderr(), "salvor: %s\n", text)
		}
		if last = err; errors.Is(err, cmd.Context().Err()) {
			break
		}
	}
	return last
}
