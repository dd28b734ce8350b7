package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/demo"
	"github.com/salvor-ha/salvor/internal/wire"
)

func hostCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "host", GroupID: groupOperate, Short: "Look at hosts, register and change them",
		Long: `Looks at the hosts of segments, registers and changes them. A host is named by its name or its uuid;
--segment is needed only to register one.`,
		Example: `  salvor host list
  salvor host create cmp-01 --segment rack-4
  salvor host update cmp-01 --on-maintenance=false
  salvor host confirm-off cmp-01 --reason "pulled the power cord, rack 4"`,
	}
	conn := addConnection(cmd, env)
	segment := ""
	cmd.PersistentFlags().StringVar(&segment, "segment", "", "its segment, by name or uuid (default: any)")
	_ = cmd.RegisterFlagCompletionFunc("segment", conn.completeNames(segmentNames, 0)) // the flag is there
	show := &cobra.Command{
		Use: "show HOST", Args: cobra.ExactArgs(1), Short: "Show one with all its properties", ValidArgsFunction: conn.completeNames(namesOfHosts, 1),
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			h, err := hostOf(cmd.Context(), api, segment, args[0])
			if err != nil {
				return err
			}
			return conn.show(cmd, h)
		}),
	}
	conn.addColumns(show)
	cmd.AddCommand(listHosts(conn, &segment), show, createHost(conn, &segment), updateHost(conn, &segment), deleteHost(conn, &segment), confirmOff(conn))
	cmd.AddCommand(storageOfHost(conn)...)
	return cmd
}

func listHosts(conn *connection, segment *string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Args: cobra.NoArgs, Short: "List the hosts of one segment, or of all",
		Example: `  salvor host list --on-maintenance
  salvor host list --segment rack-4 --reserved --sort name:asc
  salvor host list --all -o value -c uuid,name | while IFS=$'\t' read -r uuid name; do echo "$name is $uuid"; done`,
	}
	f := cmd.Flags()
	f.String("type", "", "only those of it")
	f.Bool("reserved", true, "only those that are, or with =false are not, reserved")
	f.Bool("on-maintenance", true, "only those that are, or with =false are not, on maintenance")
	conn.addColumns(cmd)
	p := addPaging(cmd, true)
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, _ []string) error {
		filters := url.Values{}
		filter(cmd, filters, "type", "type")
		filter(cmd, filters, "reserved", "reserved")
		filter(cmd, filters, "on-maintenance", "on_maintenance")
		q, err := p.query(filters)
		if err != nil {
			return err
		}
		if q.Marker != "" && *segment == "" {
			return usagef("--marker needs --segment: only the hosts of one segment have an order")
		}
		l, last := conn.list(cmd, "uuid", "name", "failover_segment.name=segment", "type", "reserved", "on_maintenance", "control_attributes"), ""
		more, err := eachHost(cmd.Context(), api, *segment, q, func(page []wire.Host) error {
			last = page[len(page)-1].UUID
			return l.add(rowsOf(page))
		})
		if err != nil {
			return err
		}
		if *segment == "" {
			last = ""
		}
		p.tellMore(cmd, more, last)
		return l.end()
	})
	return cmd
}

func createHost(conn *connection, segment *string) *cobra.Command {
	h := client.NewHost{}
	cmd := &cobra.Command{
		Use: "create HOST --segment SEGMENT", Args: cobra.ExactArgs(1), Short: "Register a host in a segment", ValidArgsFunction: cobra.NoFileCompletions,
		Long: `Registers a host. Its name must be that of its compute service in Nova (openstack compute service list).
A reserved host is kept free only while its compute service is disabled in Nova, and used only where the segment's recovery method
is another than auto.`,
		Example: `  salvor host create cmp-01 --segment rack-4
  salvor host create spare-01 --segment rack-4 --reserved`,
	}
	f := cmd.Flags()
	f.StringVar(&h.Type, "type", "COMPUTE", "free text, of letters and digits")
	f.StringVar(&h.ControlAttributes, "control-attributes", "SSH", "free text")
	f.BoolVar(&h.Reserved, "reserved", false, "keep it free for the instances of a dead host")
	f.BoolVar(&h.OnMaintenance, "on-maintenance", false, "do not recover it yet")
	conn.addColumns(cmd)
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
		if *segment == "" {
			return usagef("--segment is missing: where does %s belong?", args[0])
		}
		if err := conn.checkColumns(wire.Host{}); err != nil {
			return err
		}
		s, err := segmentOf(cmd.Context(), api, *segment)
		if err != nil {
			return err
		}
		h.Name = args[0]
		made, err := api.CreateHost(cmd.Context(), s.UUID, h)
		if err != nil {
			return err
		}
		return conn.show(cmd, made)
	})
	return cmd
}

func updateHost(conn *connection, segment *string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "update HOST", Args: cobra.ExactArgs(1), Short: "Change a host", ValidArgsFunction: conn.completeNames(namesOfHosts, 1),
		Long: `Changes what is given, and nothing else. A host with a notification that is not done with is refused.
--on-maintenance=false says that you have looked at a host that died: it is recovered again when it dies again.`,
		Example: `  salvor host update cmp-01 --on-maintenance
  salvor host update cmp-01 --on-maintenance=false
  salvor host update spare-01 --reserved`,
	}
	f := cmd.Flags()
	f.String("name", "", "its new name, that of its compute service in Nova")
	f.String("type", "", "free text, of letters and digits")
	f.String("control-attributes", "", "free text")
	f.Bool("reserved", true, "keep it free for the instances of a dead host; =false: no longer")
	f.Bool("on-maintenance", true, "do not recover it; =false: recover it again")
	conn.addColumns(cmd)
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
		changes, err := changed(cmd, map[string]string{
			"name": "name", "type": "type", "control-attributes": "control_attributes", "reserved": "reserved", "on-maintenance": "on_maintenance",
		})
		if err == nil {
			err = conn.checkColumns(wire.Host{})
		}
		if err != nil {
			return err
		}
		h, err := hostOf(cmd.Context(), api, *segment, args[0])
		if err == nil {
			h, err = api.UpdateHost(cmd.Context(), h.FailoverSegmentID, h.UUID, changes)
		}
		if err != nil {
			return err
		}
		return conn.show(cmd, h)
	})
	return cmd
}

func deleteHost(conn *connection, segment *string) *cobra.Command {
	return &cobra.Command{
		Use: "delete HOST...", Args: cobra.MinimumNArgs(1), Short: "Take hosts out of their segments", ValidArgsFunction: conn.completeNames(namesOfHosts, 0),
		Long: `Takes hosts out of their segments: nothing recovers them any more. One with a notification that is not
done with is refused. The others are taken out all the same.`,
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			return eachArgument(cmd, args, func(arg string) error {
				h, err := hostOf(cmd.Context(), api, *segment, arg)
				if err == nil {
					err = api.DeleteHost(cmd.Context(), h.FailoverSegmentID, h.UUID)
				}
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "host %s (%s) is taken out of segment %s\n", h.Name, h.UUID, h.FailoverSegment.Name)
				}
				return err
			})
		}),
	}
}

func confirmOff(conn *connection) *cobra.Command {
	reason, yes := "", false
	cmd := &cobra.Command{
		Use: "confirm-off HOST", Args: cobra.ExactArgs(1), Short: "Give your word that a host is off: it is then recovered",
		ValidArgsFunction: conn.completeNames(namesOfHosts, 1),
		Long: `Gives your word that a host is off. It is the proof of death that salvor lacks when a monitor was not
certain and nothing can fence the host. Be sure: if the host still runs, its instances run twice.
While Nova still hears the host the recovery waits; salvor recovery explain HOST says at what.
On a terminal you are asked once more; a script is not.`,
		Example: `  salvor host confirm-off cmp-01 --reason "pulled the power cord, rack 4"`,
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			if reason == "" {
				return usagef("--reason is missing: how do you know that %s is off?", args[0])
			}
			host, err := nameOfHost(cmd.Context(), api, args[0])
			if err != nil {
				return err
			}
			if !yes && demo.Interactive(conn.env.Stdin, conn.env.Stdout) {
				if err := askOff(cmd.Context(), conn.env.Stdin, cmd.OutOrStdout(), host); err != nil {
					return err
				}
			}
			n, err := api.ConfirmOff(cmd.Context(), host, reason)
			if err != nil {
				return err
			}
			return conn.print(cmd, n, func() string {
				return fmt.Sprintf(`notification %s is %s; watch it: salvor recovery watch %[1]s
You have given your word that %[3]s is off: its instances are started elsewhere as soon as Nova hears it no more and no other gate holds it.
If it still runs then, every one of them runs twice, on the same volumes. Power it off, or: salvor recovery cancel %[1]s
`, n.NotificationUUID, n.Status, printable(host))
			})
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask, also on a terminal")
	cmd.Flags().StringVar(&reason, "reason", "", "how you know; kept with the recovery")
	return cmd
}

// askOff wants the host's name typed before a word is given that starts its instances elsewhere.
func askOff(ctx context.Context, in io.Reader, out io.Writer, host string) error {
	return askName(ctx, in, out, fmt.Sprintf("Is %s certainly off? If it still runs, every one of its instances will run twice, on the same volumes.", printable(host)), host)
}

// askName wants a name typed before what cannot be undone.
func askName(ctx context.Context, in io.Reader, out io.Writer, text, name string) error {
	fmt.Fprintf(out, "%s\nType its name to go on: ", text)
	typed := make(chan string, 1)
	go func() { // a terminal's read cannot be called off: it ends with the process
		line, _ := bufio.NewReader(in).ReadString('\n')
		typed <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case line := <-typed:
		if line != name {
			return errors.New("nothing was done: what was typed is not " + printable(name))
		}
		return nil
	}
}
