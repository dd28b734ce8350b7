package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/wire"
)

var (
	reportTypes = []string{"COMPUTE_HOST", "VM", "PROCESS"}
	statuses    = []string{"new", "running", "error", "failed", "ignored", "finished"}
)

func notificationCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "notification", GroupID: groupOperate, Short: "Look at what monitors reported, or report yourself",
		Long: `Looks at notifications, which are what monitors reported, and files them. One is named by its uuid or, where that
is unambiguous, by its host: the one that is not done with, else the latest that reported a failure.`,
		Example: `  salvor notification list --status running
  salvor notification list --host cmp-01 --since 24h
  salvor notification watch cmp-01
  salvor notification create COMPUTE_HOST cmp-01 event=STOPPED host_status=NORMAL cluster_status=OFFLINE`,
	}
	conn := addConnection(cmd, env)
	show := &cobra.Command{
		Use: "show NOTIFICATION", Args: cobra.ExactArgs(1), Short: "Show one with all its properties",
		ValidArgsFunction: conn.completeNames(notificationNames, 1),
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			id, err := notificationOf(cmd.Context(), api, args[0])
			if err != nil {
				return err
			}
			n, err := api.Notification(cmd.Context(), id)
			if err != nil {
				return err
			}
			return showNotification(cmd, conn, n)
		}),
	}
	conn.addColumns(show)
	cmd.AddCommand(listNotifications(conn), show, createNotification(conn), watchCommand(conn))
	return cmd
}

// showNotification shows the workflow, which is long, in lines below the rest.
func showNotification(cmd *cobra.Command, conn *connection, n wire.Notification) error {
	if conn.format != "table" || len(conn.columns) > 0 || n.Details == nil {
		return conn.show(cmd, n)
	}
	tasks := *n.Details
	n.Details = nil
	if err := conn.show(cmd, n); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("recovery_workflow_details\n")
	for _, t := range tasks {
		fmt.Fprintf(&b, "  %s  %s\n", printable(t.Name), printable(t.State))
		for _, p := range t.ProgressDetails {
			fmt.Fprintf(&b, "    %s  %s\n", printable(p.Timestamp), printable(p.Message))
		}
	}
	_, err := fmt.Fprint(cmd.OutOrStdout(), b.String())
	return err
}

func listNotifications(conn *connection) *cobra.Command {
	host, since := "", ""
	cmd := &cobra.Command{
		Use: "list", Args: cobra.NoArgs, Short: "List notifications, the newest first",
		Example: `  salvor notification list --status failed --since 24h
  salvor notification list --host cmp-01 --all -o json`,
	}
	f := cmd.Flags()
	f.String("type", "", "only those of it: COMPUTE_HOST, VM or PROCESS")
	f.String("status", "", "only those in it: new, running, error, failed, ignored or finished")
	f.StringVar(&host, "host", "", "only those about it, by name or uuid")
	f.StringVar(&since, "since", "", "only those of events since then: a time such as 2026-11-29T11:00, in UTC, or a span such as 24h or 3d")
	words(cmd, "type", reportTypes...)
	words(cmd, "status", statuses...)
	_ = cmd.RegisterFlagCompletionFunc("host", conn.completeNames(namesOfHosts, 0)) // the flag is there
	conn.addColumns(cmd)
	p := addPaging(cmd, true)
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, _ []string) error {
		if err := errors.Join(oneOf(cmd, "type", reportTypes...), oneOf(cmd, "status", statuses...)); err != nil {
			return err
		}
		filters := url.Values{}
		filter(cmd, filters, "type", "type")
		filter(cmd, filters, "status", "status")
		if since != "" {
			filters.Set("generated-since", sinceTime(since, time.Now()))
			if _, _, err := (wire.Query{Values: filters}).NotificationList(); err != nil { // as the api reads it
				return usagef("--since %q: expected a time such as 2026-11-29T11:00, in UTC, or a span such as 24h or 3d", since)
			}
		}
		q, err := p.query(filters)
		if err != nil {
			return err
		}
		names, err := namedHosts(cmd.Context(), api, conn, host, filters)
		if err != nil {
			return err
		}
		l, last := conn.list(cmd, "notification_uuid", "type", "source_host_uuid=host", "status", "generated_time", "message"), ""
		more, err := api.EachNotification(cmd.Context(), q, func(page []wire.Notification) error {
			last = page[len(page)-1].NotificationUUID
			return l.add(aboutHosts(page, names))
		})
		if err != nil {
			return err
		}
		p.tellMore(cmd, more, last)
		return l.end()
	})
	return cmd
}

// namedHosts puts a host into the filters, if one is given, and has the names that the table needs.
func namedHosts(ctx context.Context, api *client.Client, conn *connection, host string, filters url.Values) (map[string]string, error) {
	switch {
	case host != "":
		h, err := hostOf(ctx, api, "", host)
		filters.Set("source_host_uuid", h.UUID)
		return map[string]string{h.UUID: h.Name}, err
	case conn.document() || len(conn.columns) > 0:
		return nil, nil
	default:
		return hostNames(ctx, api)
	}
}

// aboutHosts gives notifications the name of their host, where it is known: one that was removed shows its uuid.
func aboutHosts(page []wire.Notification, names map[string]string) []row {
	rows := rowsOf(page)
	for i, n := range page {
		if name := names[n.SourceHostUUID]; name != "" {
			rows[i].extra = map[string]string{"host": name}
		}
	}
	return rows
}

// sinceTime reads a span as the time so long ago; what is none stays as it is.
func sinceTime(text string, now time.Time) string {
	var s span
	if s.Set(text) == nil {
		return now.Add(-time.Duration(s)).UTC().Format("2006-01-02T15:04:05")
	}
	return text
}

func createNotification(conn *connection) *cobra.Command {
	at := ""
	cmd := &cobra.Command{
		Use: "create TYPE HOST KEY=VALUE...", Args: cobra.MinimumNArgs(3), Short: "Report a failure, as a monitor does",
		Long: `Reports what monitors report. TYPE is COMPUTE_HOST, VM or PROCESS; KEY=VALUE are the payload's. salvor acts upon it as
upon a monitor's report: a host that is reported STOPPED is recovered once its death is proven.`,
		Example: `  salvor notification create COMPUTE_HOST cmp-01 event=STOPPED host_status=NORMAL cluster_status=OFFLINE
  salvor notification create COMPUTE_HOST cmp-01 event=STARTED host_status=NORMAL cluster_status=ONLINE
  salvor notification create PROCESS cmp-01 event=STOPPED process_name=nova-compute
  salvor notification create VM cmp-01 event=LIFECYCLE vir_domain_event=STOPPED_FAILED instance_uuid=UUID`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return reportTypes, cobra.ShellCompDirectiveNoFileComp
			case 1:
				return conn.completeNames(namesOfHosts, 0)(cmd, args, begin)
			default:
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
		},
	}
	cmd.Flags().StringVar(&at, "time", "", "when it happened, such as 2026-11-29T11:14:52, in UTC (default: now)")
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
		report := client.Report{Type: args[0], Hostname: args[1], GeneratedTime: time.Now(), Payload: map[string]string{}}
		for _, pair := range args[2:] {
			key, value, ok := strings.Cut(pair, "=")
			if !ok || key == "" {
				return usagef("%q: expected KEY=VALUE of the payload, such as event=STOPPED", pair)
			}
			report.Payload[key] = value
		}
		if at != "" {
			var err error
			if report.GeneratedTime, err = time.Parse("2006-01-02T15:04:05", at); err != nil {
				return usagef("--time %q: expected a time in UTC, such as 2026-11-29T11:14:52", at)
			}
		}
		n, err := api.Report(cmd.Context(), report)
		if err != nil {
			return err
		}
		return conn.print(cmd, n, func() string {
			return fmt.Sprintf("notification %s is %s; watch it: salvor notification watch %[1]s\n", n.NotificationUUID, n.Status)
		})
	})
	return cmd
}
