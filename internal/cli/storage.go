package cli

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/wire"
)

// storageOfHost are the commands of `salvor host` about its storage.
func storageOfHost(conn *connection) []*cobra.Command {
	named := conn.completeNames(namesOfHosts, 1)
	health := &cobra.Command{
		Use: "health HOST", Args: cobra.ExactArgs(1), Short: "Show the host's storage: checks, open episode, agent", ValidArgsFunction: named,
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			h, err := api.HostHealth(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return conn.print(cmd, h, func() string { return describeHealth(h) })
		}),
	}
	var clear client.Clear
	cleared := &cobra.Command{
		Use: "clear HOST", Args: cobra.ExactArgs(1), Short: "Say that the host's storage is good again: clear its episode", ValidArgsFunction: named,
		Long: `Clears the host's open episode. Its compute service is enabled again if the episode had disabled it and nobody has touched
it since; suspect copies of blobs are verified. Instances that it set to error stay so, and are listed by salvor episode show,
unless --reset-instances. Refused while the agent still reports failure, unless --force.`,
		Example: `  salvor host clear cmp-01 --reason "disk replaced" --reset-instances`,
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			e, err := api.ClearHost(cmd.Context(), args[0], clear)
			if err != nil {
				return err
			}
			return conn.print(cmd, e, func() string { return describeClear(e, clear.ResetInstances) })
		}),
	}
	f := cleared.Flags()
	f.StringVar(&clear.Reason, "reason", "", "what was done; kept with the episode")
	f.BoolVar(&clear.ResetInstances, "reset-instances", false, "reset instances that it set to error, and that still are, to active")
	f.BoolVar(&clear.Force, "force", false, "although the agent still reports failure")
	return append([]*cobra.Command{health, cleared, failHost(conn), previewHost(conn)}, bindHost(conn)...)
}

func failHost(conn *connection) *cobra.Command {
	var radius []string
	var reason string
	cmd := &cobra.Command{
		Use: "fail HOST", Args: cobra.ExactArgs(1), Short: "Say that the host's storage is broken, or how far", ValidArgsFunction: conn.completeNames(namesOfHosts, 1),
		Long: `Opens an episode for the host, or adds to the radius of the open one: the kinds of objects that need what is broken. Its
compute service is disabled, its instances are set to error, its copies of blobs are set aside, as far as the radius says.
See before: salvor host cascade-preview HOST --radius KINDS`,
		Example: `  salvor host fail cmp-01 --radius instance,blob --reason "controller reports a dead array"`,
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			if reason == "" {
				return usagef("--reason is missing: who finds the instances in error must know why")
			}
			e, err := api.FailHost(cmd.Context(), args[0], radius, reason)
			if err != nil {
				return err
			}
			return conn.print(cmd, e, func() string {
				return fmt.Sprintf("episode %s of %s, radius %s; watch it: salvor episode show %[1]s\n", e.UUID, printable(e.Host), kindsText(e.Radius))
			})
		}),
	}
	cmd.Flags().StringSliceVar(&radius, "radius", nil, "what needs the broken storage: instance, blob, upload")
	cmd.Flags().StringVar(&reason, "reason", "", "what is broken; kept with the episode")
	return cmd
}

func previewHost(conn *connection) *cobra.Command {
	radius := []string{"instance", "blob"}
	cmd := &cobra.Command{
		Use: "cascade-preview HOST", Args: cobra.ExactArgs(1), Short: "Show what a failure of the host's storage would do now; nothing is changed",
		ValidArgsFunction: conn.completeNames(namesOfHosts, 1),
		Example:           `  salvor host cascade-preview cmp-01 --radius instance`,
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			p, err := api.CascadePreview(cmd.Context(), args[0], radius)
			if err != nil {
				return err
			}
			return conn.print(cmd, p, func() string { return describePreview(p) })
		}),
	}
	cmd.Flags().StringSliceVar(&radius, "radius", radius, "what needs the storage that would fail")
	return cmd
}

// Ids of users: what Keystone takes for one, and what it makes itself.
var (
	keystoneID = regexp.MustCompile(`^[a-zA-Z0-9-]{1,64}$`)
	usualID    = regexp.MustCompile(`^([0-9a-fA-F]{32}|[0-9a-fA-F]{64}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$`)
)

func bindHost(conn *connection) []*cobra.Command {
	named := conn.completeNames(namesOfHosts, 1)
	key := &cobra.Command{
		Use: "agent-key HOST", Args: cobra.ExactArgs(1), Short: "Make the key by which the host's agent speaks for it; a former one is void", ValidArgsFunction: named,
		Long: `Makes a key for the host's agent and prints it, this once: salvor keeps only its hash. With it an agent may report for this
host, and for no other. It belongs into the agent's key_file, which is read for each request: a running agent takes it over by itself.`,
		Example: `  umask 077; salvor host agent-key cmp-01 > agent.key`,
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			k, err := api.NewAgentKey(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return conn.print(cmd, k, func() string { return k.Key + "\n" })
		}),
	}
	none := false
	user := &cobra.Command{
		Use: "agent-user HOST {USER_ID | --none}", Args: cobra.RangeArgs(1, 2), Short: "Let a Keystone user speak for the host, or none", ValidArgsFunction: named,
		Long: `Binds a Keystone user to a host: with that account an agent may report for this host, and for no other. A user bound
before is not any more. The user is named by its id: the api does not look names up.`,
		Example: `  salvor host agent-user cmp-01 $(openstack user show agent-cmp-01 -f value -c id)
  salvor host agent-user cmp-01 --none`,
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			if none == (len(args) == 2) {
				return usagef("give USER_ID, a user's id in Keystone, or --none")
			}
			id := strings.Join(args[1:], "")
			if !none && !keystoneID.MatchString(id) {
				return usagef("USER_ID %q: expected a user's id in Keystone, at most 64 letters, digits and dashes; of a name: openstack user show NAME -f value -c id", id)
			}
			h, err := api.BindAgentUser(cmd.Context(), args[0], id)
			if err != nil {
				return err
			}
			if !none && !usualID.MatchString(id) {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s looks like a name; ids are 32 or 64 hexadecimal digits, unless LDAP gives them out. See: openstack user show %[1]s -f value -c id\n", id)
			}
			return conn.print(cmd, h, func() string { return describeHealth(h) })
		}),
	}
	user.Flags().BoolVar(&none, "none", false, "no user may speak for it any more; its key may")
	var reason string
	hold := &cobra.Command{
		Use: "hold HOST", Args: cobra.ExactArgs(1), Short: "Hold the cascades of the host's storage, also those to come", ValidArgsFunction: named,
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			if reason == "" {
				return usagef("--reason is missing: who finds the host held must know why")
			}
			h, err := api.HoldHost(cmd.Context(), args[0], false, reason)
			if err != nil {
				return err
			}
			return conn.print(cmd, h, func() string { return describeHealth(h) })
		}),
	}
	hold.Flags().StringVar(&reason, "reason", "", "why; kept with each episode that is held by it")
	resume := &cobra.Command{
		Use: "resume HOST", Args: cobra.ExactArgs(1), Short: "Let the cascades of the host's storage go on", ValidArgsFunction: named,
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			h, err := api.HoldHost(cmd.Context(), args[0], true, "")
			if err != nil {
				return err
			}
			return conn.print(cmd, h, func() string { return describeHealth(h) })
		}),
	}
	return []*cobra.Command{key, user, hold, resume}
}

func kindsText(kinds []string) string {
	if len(kinds) == 0 {
		return "unknown"
	}
	return strings.Join(kinds, ", ")
}

func describeHealth(h wire.HostHealth) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", printable(h.Host), h.State)
	switch {
	case h.ReportedAt == nil:
		fmt.Fprintf(&b, "no agent has reported\n")
	case h.Silent:
		fmt.Fprintf(&b, "the agent is silent since %s\n", h.ReportedAt.Format(time.DateTime))
	default:
		fmt.Fprintf(&b, "last report: %s\n", h.ReportedAt.Format(time.DateTime))
	}
	if h.AgentURL != nil {
		fmt.Fprintf(&b, "the agent that is heard: %s\n", printable(*h.AgentURL))
	}
	b.WriteString("who may report for it: " + speakers(h) + "\n")
	if h.Held != nil {
		fmt.Fprintf(&b, "cascades are held by %s since %s: %s\n", printable(h.Held.By), h.Held.Since.Format(time.DateTime), printable(h.Held.Reason))
	}
	for _, c := range h.Checks {
		fmt.Fprintf(&b, "  %s %s (%s): %s", printable(c.Resource), printable(c.Path), kindsText(c.Kinds), c.Status)
		if c.Detail != "" {
			fmt.Fprintf(&b, ", %s", printable(c.Detail))
		}
		b.WriteString("\n")
	}
	if h.Episode != nil {
		b.WriteString(describeEpisode(*h.Episode))
	}
	return b.String()
}

func speakers(h wire.HostHealth) string {
	var who []string
	if h.Agent.KeyBy != nil {
		key := "its key, made by " + printable(*h.Agent.KeyBy)
		if h.Agent.KeyAt != nil {
			key += " at " + h.Agent.KeyAt.Format(time.DateTime)
		}
		who = append(who, key)
	}
	if h.Agent.UserID != nil {
		who = append(who, "the Keystone user "+printable(*h.Agent.UserID))
	}
	if who == nil {
		return "nobody is bound to it (salvor host agent-key " + printable(h.Host) + ")"
	}
	return strings.Join(who, "; ")
}

func describeEpisode(e wire.Episode) string {
	var b strings.Builder
	fmt.Fprintf(&b, "episode %s of %s: %s, radius %s, version %d\n", e.UUID, printable(e.Host), e.State, kindsText(e.Radius), e.Version)
	fmt.Fprintf(&b, "opened by %s at %s: %s\n", printable(e.OpenedBy), e.OpenedAt.Format(time.DateTime), printable(e.Why))
	if e.Held != nil {
		fmt.Fprintf(&b, "held by %s: %s\n", printable(e.Held.By), printable(e.Held.Reason))
	}
	if e.Waiting != nil {
		fmt.Fprintf(&b, "waiting: %s\n", printable(*e.Waiting))
	}
	if e.ClearedAt != nil && e.ClearedBy != nil {
		fmt.Fprintf(&b, "cleared by %s at %s\n", printable(*e.ClearedBy), e.ClearedAt.Format(time.DateTime))
	}
	return b.String()
}

func describeDetails(e wire.EpisodeDetails) string {
	var b strings.Builder
	b.WriteString(describeEpisode(e.Episode))
	for _, r := range e.Runs {
		fmt.Fprintf(&b, "run over %ss (version %d): %s, %d done, %d skipped, %d failed", r.Kind, r.Version, r.State, r.Done, r.Skipped, r.Failed)
		if r.Why != nil {
			fmt.Fprintf(&b, "; %s", printable(*r.Why))
		}
		b.WriteString("\n")
	}
	for _, i := range e.Items {
		fmt.Fprintf(&b, "  %s %s: %s, %s\n", i.Kind, i.ID, i.State, printable(i.Text))
	}
	return b.String()
}

// describeClear says what a clear leaves to be looked at. An engine resets instances after it.
func describeClear(e wire.EpisodeDetails, reset bool) string {
	inError, working := 0, false
	for _, i := range e.Items {
		if i.Kind == string(ha.ObjectInstance) && i.State == string(ha.ItemDone) {
			inError++
		}
	}
	for _, r := range e.Runs {
		working = working || r.Kind == string(ha.ObjectInstance) && (r.State == string(ha.RunOpen) || r.State == string(ha.RunHeld))
	}
	what := "none of its instances was set to error"
	switch {
	case inError > 0 && reset:
		what = fmt.Sprintf("instances that it set to error: %d, reset to active within seconds if they still are; what came of it: salvor episode show %s", inError, e.UUID)
	case inError > 0:
		what = fmt.Sprintf("instances that it set to error: %d, which stay so; which: salvor episode show %s", inError, e.UUID)
	case working:
		what = "what it was doing ends within seconds; what came of it: salvor episode show " + e.UUID
	}
	return fmt.Sprintf("episode %s of %s is cleared; %s\n", e.UUID, printable(e.Host), what)
}

func describePreview(p wire.CascadePreview) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, radius %s, instances: %s\n", printable(p.Host), kindsText(p.Radius), p.Action)
	if p.Held != nil {
		fmt.Fprintf(&b, "it would be held: %s\n", printable(*p.Held))
	}
	for _, i := range p.Instances {
		fmt.Fprintf(&b, "  %s %s (%s): %s", i.UUID, printable(i.Name), i.VMState, i.What)
		if i.Why != "" {
			fmt.Fprintf(&b, ", %s", printable(i.Why))
		}
		b.WriteString("\n")
	}
	more := ""
	if p.BlobsMore {
		more = "more than "
	}
	fmt.Fprintf(&b, "copies of blobs that would turn suspect: %s%d\n", more, p.Blobs)
	return b.String()
}

func episodeCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "episode", GroupID: groupOperate, Short: "Look at episodes of failed storage, hold them and let them go on",
		Example: `  salvor episode list --open
  salvor episode show 6ba7b810-9dad-11d1-80b4-00c04fd430c8
  salvor episode hold 6ba7b810-9dad-11d1-80b4-00c04fd430c8 --reason "looking at the array"`,
	}
	conn := addConnection(cmd, env)
	var host, reason string
	var open bool
	var limit int
	list := &cobra.Command{Use: "list", Args: cobra.NoArgs, Short: "List episodes, the newest first"}
	conn.addColumns(list)
	list.Flags().StringVar(&host, "host", "", "only those of the host")
	list.Flags().BoolVar(&open, "open", false, "only those that nobody has cleared")
	list.Flags().IntVar(&limit, "limit", 0, "at most so many (default: all)")
	_ = list.RegisterFlagCompletionFunc("host", conn.completeNames(namesOfHosts, 0)) // the flag is there
	list.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, _ []string) error {
		l := conn.list(cmd, "uuid", "host", "state", "radius", "version", "opened_at", "why", "waiting")
		if err := api.Episodes(cmd.Context(), host, open, limit, func(page []wire.Episode) error { return l.add(rowsOf(page)) }); err != nil {
			return err
		}
		return l.end()
	})
	show := &cobra.Command{
		Use: "show EPISODE", Args: cobra.ExactArgs(1), Short: "Show one: its runs, and what they did with each object",
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			e, err := api.Episode(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return conn.print(cmd, e, func() string { return describeDetails(e) })
		}),
	}
	order := func(off bool) func(cmd *cobra.Command, api *client.Client, args []string) error {
		return func(cmd *cobra.Command, api *client.Client, args []string) error {
			if !off && reason == "" {
				return usagef("--reason is missing: who finds the episode held must know why")
			}
			e, err := api.HoldEpisode(cmd.Context(), args[0], off, reason)
			if err != nil {
				return err
			}
			return conn.print(cmd, e, func() string { return describeEpisode(e.Episode) })
		}
	}
	hold := &cobra.Command{Use: "hold EPISODE", Args: cobra.ExactArgs(1), Short: "Begin nothing more of its cascade", RunE: conn.with(order(false))}
	hold.Flags().StringVar(&reason, "reason", "", "why; kept with the episode")
	resume := &cobra.Command{
		Use: "resume EPISODE", Args: cobra.ExactArgs(1), Short: "Let its cascade go on, also past the brakes", RunE: conn.with(order(true)),
		Long: `Ends a hold. An episode that a brake holds, or that waits for other hosts' reports, goes on too: say it only of a failure that is
this host's own.`,
	}
	cmd.AddCommand(list, show, hold, resume)
	return cmd
}
