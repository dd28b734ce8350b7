package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/wire"
)

func recoveryCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "recovery",
		GroupID: groupOperate,
		Short:   "Look at recoveries, and give orders to them",
		Long: `Looks at the recovery of a notification, and gives orders to it. Who works on it acts on an order
within seconds. Every order is kept in the recovery's history with the name of who gave it.

NOTIFICATION is a notification's uuid or, where that is unambiguous, its host: the one that is not done with, else the
latest that reported a failure. The api is found, and the account taken, as
OpenStack's own clients do: by clouds.yaml (--os-cloud, OS_CLOUD), or by the variables OS_*.`,
		Example: `  salvor recovery list
  salvor recovery watch cmp-01
  salvor recovery explain cmp-01
  salvor recovery hold cmp-01 --reason "switch is being replaced" --for 2h
  salvor recovery release cmp-01
  salvor recovery retry NOTIFICATION --move VMOVE
  salvor recovery cancel NOTIFICATION --reason "host is back"`,
	}
	conn := addConnection(cmd, env)
	cmd.AddCommand(
		listRecoveries(conn),
		&cobra.Command{
			Use: "show NOTIFICATION", Args: cobra.ExactArgs(1), Short: "Where it stands, what it waits for, and all that happened",
			ValidArgsFunction: conn.completeNames(notificationNames, 1),
			RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
				id, err := notificationOf(cmd.Context(), api, args[0])
				if err != nil {
					return err
				}
				r, err := api.Recovery(cmd.Context(), id)
				if err != nil {
					return err
				}
				if conn.format != "table" {
					return conn.print(cmd, r, nil)
				}
				n, host, err := about(cmd.Context(), api, id)
				if err != nil {
					return err
				}
				if !ended(r) {
					warnWithoutEngine(cmd, api)
				}
				return conn.print(cmd, r, func() string { return describe(r, n, host) })
			}),
		},
		explainRecovery(conn),
		watchCommand(conn),
		orderCommand(conn, client.Cancel, "Order nothing more, let orders in flight end, and fail it"),
		orderCommand(conn, client.Hold, "Order nothing more until it is released"),
		orderCommand(conn, client.Release, "Let it pass the gate that it waits at, or end a hold"),
		orderCommand(conn, client.Retry, "Try again what did not succeed, now"),
	)
	return cmd
}

func listRecoveries(conn *connection) *cobra.Command {
	host, wanted := "", openStatuses
	cmd := &cobra.Command{
		Use: "list", Args: cobra.NoArgs, Short: "List what is not done with, and what it waits for",
		Example: `  salvor recovery list
  salvor recovery list --status failed --host cmp-01`,
	}
	f := cmd.Flags()
	f.StringSliceVar(&wanted, "status", openStatuses, "only those in it; given again or with commas: new, running, error, failed, ignored, finished")
	f.String("type", "", "only those of it: COMPUTE_HOST, VM or PROCESS")
	f.StringVar(&host, "host", "", "only those of it, by name or uuid")
	words(cmd, "status", statuses...)
	words(cmd, "type", reportTypes...)
	_ = cmd.RegisterFlagCompletionFunc("host", conn.completeNames(namesOfHosts, 0)) // the flag is there
	conn.addColumns(cmd)
	p := addPaging(cmd, false)
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, _ []string) error {
		for _, s := range wanted {
			if !slices.Contains(statuses, s) {
				return usagef("--status %q: expected %s", s, strings.Join(statuses, ", "))
			}
		}
		if err := oneOf(cmd, "type", reportTypes...); err != nil {
			return err
		}
		filters := url.Values{}
		filter(cmd, filters, "type", "type")
		q, err := p.query(filters)
		if err != nil {
			return err
		}
		names, err := namedHosts(cmd.Context(), api, conn, host, filters)
		if err != nil {
			return err
		}
		l := conn.list(cmd, "notification_uuid", "type", "source_host_uuid=host", "status", "created_at=since", "message")
		more, open, seen := false, false, map[string]bool{} // one that changes meanwhile is shown once
		for _, s := range wanted {
			filters.Set("status", s)
			if p.limit > 0 && !p.all {
				if q.Limit = p.limit - l.rows; q.Limit == 0 {
					more = true
					break
				}
			}
			further, err := api.EachNotification(cmd.Context(), q, func(page []wire.Notification) error {
				fresh := make([]wire.Notification, 0, len(page))
				for _, n := range page {
					if seen[n.NotificationUUID] {
						continue
					}
					fresh = append(fresh, n)
					if slices.Contains(openStatuses, s) { // few; those that ended do not change
						seen[n.NotificationUUID], open = true, true
					}
				}
				return l.add(aboutHosts(fresh, names))
			})
			if err != nil {
				return err
			}
			more = more || further
		}
		p.tellMore(cmd, more, "")
		if open {
			warnWithoutEngine(cmd, api)
		}
		return l.end()
	})
	return cmd
}

func orderCommand(conn *connection, order client.Order, short string) *cobra.Command {
	var words client.Words
	var lasts span
	var move string
	cmd := &cobra.Command{
		Use: string(order) + " NOTIFICATION", Args: cobra.ExactArgs(1), Short: short, ValidArgsFunction: conn.completeNames(notificationNames, 1),
	}
	cmd.Flags().StringVar(&words.Reason, "reason", "", "why; kept with the recovery")
	switch order {
	case client.Hold:
		cmd.Flags().Var(&lasts, "for", "how long, such as 30m or 2h (default: until released)")
	case client.Retry:
		cmd.Flags().StringVar(&move, "move", "", "one move, by its uuid or its instance's uuid or name: only that instance is tried again")
		_ = cmd.RegisterFlagCompletionFunc("move", func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) { // the flag is there
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return conn.completeNames(movesOf(args[0]), 0)(cmd, args, begin)
		})
	}
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
		if order == client.Hold && words.Reason == "" {
			return usagef("--reason is missing: who finds it held must know why")
		}
		id, err := notificationOf(cmd.Context(), api, args[0])
		if err != nil {
			return err
		}
		if move != "" {
			m, err := moveOf(cmd.Context(), api, id, move)
			if err != nil {
				return err
			}
			move = m.UUID
		}
		if lasts != 0 {
			words.Until = time.Now().Add(time.Duration(lasts))
		}
		before, err := api.Recovery(cmd.Context(), id)
		if err != nil {
			return err
		}
		var after wire.Recovery
		if move != "" {
			after, err = api.RetryMove(cmd.Context(), id, move, words)
		} else {
			after, err = api.Order(cmd.Context(), id, order, words)
		}
		if err != nil {
			return err
		}
		return conn.print(cmd, newAsked(order, move, words, after), func() string { return ordered(order, before, after) })
	})
	return cmd
}

// asked is what an order answers in JSON and YAML. The recovery's state is left out: it is that of before, until an engine has acted.
type asked struct {
	NotificationUUID string  `json:"notification_uuid"`
	Asked            string  `json:"asked"`  // cancel, hold, release, retry
	Move             *string `json:"vmove"`  // null: the whole recovery
	Engine           *string `json:"engine"` // who acts on it; null: the next that takes it up
	Reason           *string `json:"reason"`
	Until            *string `json:"until"` // of a hold; null: until released
}

func newAsked(order client.Order, move string, w client.Words, r wire.Recovery) asked {
	given := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	a := asked{NotificationUUID: r.NotificationUUID, Asked: string(order), Move: given(move), Reason: given(w.Reason)}
	if r.Unit != nil {
		a.Engine = r.Unit.Engine
	}
	if !w.Until.IsZero() {
		a.Until = given(w.Until.UTC().Format(time.RFC3339))
	}
	return a
}

// ordered says what an order has set going: who works on the recovery has yet to act on it.
func ordered(order client.Order, before, after wire.Recovery) string {
	var b strings.Builder
	who := "the next engine that takes it up"
	if after.Unit != nil && after.Unit.Engine != nil {
		who = "engine " + *after.Unit.Engine
	}
	fmt.Fprintf(&b, "%s is asked for; %s acts on it within seconds\n", order, who)
	if before.Unit != nil {
		if h := before.Unit.Hold; h != nil && (after.Unit == nil || after.Unit.Hold == nil) {
			fmt.Fprintf(&b, "this ends the hold by %s: %s\n", h.By, h.Reason)
		}
		if g := before.Unit.Held; g != nil && order == client.Release {
			fmt.Fprintf(&b, "it waited at gate %s: %s\n", g.Gate, g.Reason)
		}
	}
	if after.Unit != nil && after.Unit.Hold != nil && order == client.Retry {
		fmt.Fprintf(&b, "it stays held by %s: salvor recovery release %s\n", after.Unit.Hold.By, after.NotificationUUID)
	}
	fmt.Fprintf(&b, "follow it: salvor recovery watch %s\n", after.NotificationUUID)
	return b.String()
}

// about finds what a notification reported, and of which host: its name or, where it has been removed, its uuid.
func about(ctx context.Context, api *client.Client, id string) (wire.Notification, string, error) {
	n, err := api.Notification(ctx, id)
	if err != nil {
		return n, "", err
	}
	names, err := hostNames(ctx, api)
	if name := names[n.SourceHostUUID]; name != "" {
		return n, name, err
	}
	return n, n.SourceHostUUID, err
}

func describe(r wire.Recovery, n wire.Notification, host string) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-13s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("notification", "%s", r.NotificationUUID)
	line("reported", "%s %s of %s", n.Type, n.Payload[ha.KeyEvent], host)
	line("status", "%s", r.Status)
	if text := outcome(r, n.Payload); text != "" {
		line("message", "%s", text)
	}
	if u := r.Unit; u != nil {
		line("step", "%s, attempt %d", orNone(u.Step), u.Attempt)
		if u.Engine != nil {
			line("engine", "%s", *u.Engine)
		}
		if h := u.Held; h != nil {
			line("waits at", "gate %s: %s", h.Gate, h.Reason)
		}
		if h := u.Hold; h != nil {
			until := "until released"
			if h.Until != nil {
				until = "until " + h.Until.Format(time.DateTime) + " UTC"
			}
			line("held by", "%s, %s: %s", h.By, until, h.Reason)
		}
		if u.CancelledBy != nil {
			line("cancelled by", "%s", *u.CancelledBy)
		}
		if p := u.Proof; p != nil {
			line("proof", "%s: %s", p.Kind, p.Text)
		}
		if u.NextAttempt != nil {
			line("next attempt", "%s UTC", u.NextAttempt.Format(time.DateTime))
		}
		if len(u.WaivedGates) > 0 {
			line("waived", "gates %s", strings.Join(u.WaivedGates, ", "))
		}
		if u.HostReturned {
			line("host", "returned in the middle: nothing new is ordered")
		}
	}
	for i, e := range r.Timeline {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString(timelineLine(r.Timeline[0], e))
	}
	return b.String()
}

// outcome is the message or, of what has ended without one, what came of it.
func outcome(r wire.Recovery, payload map[string]string) string {
	if r.Message != nil && *r.Message != "" {
		return *r.Message
	}
	switch {
	case !ended(r):
		return ""
	case payload[ha.KeyEvent] == ha.EventStarted:
		return "noted: it is back. What salvor changed of it is taken back, as soon as that is safe"
	}
	for _, kind := range []ha.EntryKind{ha.EntryNote, ha.EntryOutcome} {
		for _, e := range slices.Backward(r.Timeline) {
			if e.Kind == string(kind) && (e.Task == nil || *e.Task != ha.TaskTakeover) { // who did it is not what came of it
				return what(e)
			}
		}
	}
	if r.Unit == nil {
		return "what was done is not known: nothing is kept of its recovery, as of one that was imported"
	}
	return "there was nothing to do"
}

// timelineLine is one entry, with the seconds since the first. An act's text names the act; a gate's does not name the gate.
func timelineLine(first, e wire.TimelineEntry) string {
	text := what(e)
	if e.Open {
		text += "  (no answer yet)"
	}
	return fmt.Sprintf("%s  %8.3f s  %-8s  %s\n", e.At.Format(time.DateTime), e.At.Sub(first.At.Time).Seconds(), e.Kind, printable(text))
}

// what an entry of the history tells.
func what(e wire.TimelineEntry) string {
	switch {
	case e.Kind == "gate" && e.Task != nil:
		return *e.Task + ": " + e.Text
	case e.Kind == "task" && e.Task != nil && e.State != nil:
		return *e.Task + " " + *e.State
	default:
		return e.Text
	}
}

func orNone(s string) string {
	if s == "" {
		return "not begun"
	}
	return s
}
