package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/wire"
)

func recoveryCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "recovery",
		GroupID: groupOperate,
		Short:   "Look at a recovery, and give orders to it",
		Long: `Looks at the recovery of a notification, and gives orders to it. Who works on it acts on an order
within seconds. Every order is kept in the recovery's history with the name of who gave it.

The api is found, and the account taken, as OpenStack's own clients do: by the variables OS_*.`,
		Example: `  salvor recovery show NOTIFICATION
  salvor recovery hold NOTIFICATION --reason "switch is being replaced" --for 2h
  salvor recovery release NOTIFICATION
  salvor recovery retry NOTIFICATION --move VMOVE
  salvor recovery cancel NOTIFICATION --reason "host is back"`,
	}
	conn := addConnection(cmd, env)
	cmd.AddCommand(
		&cobra.Command{
			Use: "show NOTIFICATION", Args: cobra.ExactArgs(1), Short: "Where it stands, what it waits for, and all that happened",
			RunE: func(cmd *cobra.Command, args []string) error {
				c, err := conn.open()
				if err != nil {
					return err
				}
				r, err := c.Recovery(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return conn.print(cmd, r, func() string { return describe(r) })
			},
		},
		orderCommand(conn, client.Cancel, "Order nothing more, let orders in flight end, and fail it"),
		orderCommand(conn, client.Hold, "Order nothing more until it is released"),
		orderCommand(conn, client.Release, "Let it pass the gate that it waits at, or end a hold"),
		orderCommand(conn, client.Retry, "Try again what did not succeed, now"),
	)
	return cmd
}

func orderCommand(conn *connection, order client.Order, short string) *cobra.Command {
	var words client.Words
	var lasts time.Duration
	var move string
	cmd := &cobra.Command{Use: string(order) + " NOTIFICATION", Args: cobra.ExactArgs(1), Short: short}
	cmd.Flags().StringVar(&words.Reason, "reason", "", "why; kept with the recovery")
	switch order {
	case client.Hold:
		_ = cmd.MarkFlagRequired("reason") // the flag is there
		cmd.Flags().DurationVar(&lasts, "for", 0, "how long, such as 30m or 2h (default: until released)")
	case client.Retry:
		cmd.Flags().StringVar(&move, "move", "", "the uuid of one move: only that instance is tried again")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if lasts != 0 {
			words.Until = time.Now().Add(lasts)
		}
		c, err := conn.open()
		if err != nil {
			return err
		}
		var r wire.Recovery
		if move != "" {
			r, err = c.RetryMove(cmd.Context(), args[0], move, words)
		} else {
			r, err = c.Order(cmd.Context(), args[0], order, words)
		}
		if err != nil {
			return err
		}
		return conn.print(cmd, r, func() string { return describe(r) })
	}
	return cmd
}

func hostCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "host", GroupID: groupOperate, Short: "Say what you know of a host",
		Example: `  salvor host confirm-off cmp-01 --reason "pulled the power cord, rack 4"`,
	}
	conn := addConnection(cmd, env)
	reason := ""
	confirm := &cobra.Command{
		Use: "confirm-off HOST", Args: cobra.ExactArgs(1), Short: "Give your word that a host is off: it is then recovered",
		Long: `Gives your word that a host is off. It is the proof of death that salvor lacks when a monitor was not
certain and nothing can fence the host. Be sure: if the host still runs, its instances run twice.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := conn.open()
			if err != nil {
				return err
			}
			n, err := c.ConfirmOff(cmd.Context(), args[0], reason)
			if err != nil {
				return err
			}
			return conn.print(cmd, n, func() string {
				return fmt.Sprintf("notification %s is %s; watch it: salvor recovery show %[1]s\n", n.NotificationUUID, n.Status)
			})
		},
	}
	confirm.Flags().StringVar(&reason, "reason", "", "how you know; kept with the recovery")
	_ = confirm.MarkFlagRequired("reason") // the flag is there
	cmd.AddCommand(confirm)
	return cmd
}

// describe renders a recovery for people.
func describe(r wire.Recovery) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-13s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("notification", "%s", r.NotificationUUID)
	line("status", "%s", r.Status)
	if r.Message != nil && *r.Message != "" {
		line("message", "%s", *r.Message)
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

// timelineLine is one entry, with the seconds since the first. An act's text names the act; a gate's does not name the gate.
func timelineLine(first, e wire.TimelineEntry) string {
	what := e.Text
	switch {
	case e.Kind == "gate" && e.Task != nil:
		what = *e.Task + ": " + what
	case e.Kind == "task" && e.Task != nil && e.State != nil:
		what = *e.Task + " " + *e.State
	}
	if e.Open {
		what += "  (no answer yet)"
	}
	return fmt.Sprintf("%s  %8.3f s  %-8s  %s\n", e.At.Format(time.DateTime), e.At.Sub(first.At.Time).Seconds(), e.Kind, what)
}

func orNone(s string) string {
	if s == "" {
		return "not begun"
	}
	return s
}
