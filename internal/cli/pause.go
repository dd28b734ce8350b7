package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/wire"
)

func pauseCommand(env Env) *cobra.Command {
	var words client.Words
	var lasts span
	var list bool
	cmd := &cobra.Command{
		Use: "pause [SEGMENT]", GroupID: groupOperate, Args: cobra.MaximumNArgs(1), Short: "Let recoveries begin nothing new, in a segment or everywhere",
		Long: `Lets recoveries begin nothing new, in one segment or, without a name, everywhere. Reports are still taken,
orders under way end, and each recovery says that it is paused, by whom and why. One of them may pass by
itself: salvor recovery release. --list shows what is paused.`,
		Example: `  salvor pause rack-4 --reason "power work" --for 2h
  salvor pause --reason "storage is slow, looking"
  salvor pause --list
  salvor resume rack-4`,
	}
	conn := addConnection(cmd, env)
	cmd.ValidArgsFunction = conn.completeNames(segmentNames, 1)
	f := cmd.Flags()
	f.StringVar(&words.Reason, "reason", "", "why: it stands in every recovery that waits for it")
	f.Var(&lasts, "for", "how long, such as 30m or 2h (default: until resumed)")
	f.BoolVar(&list, "list", false, "change nothing, show what is paused")
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
		if list {
			pauses, err := api.Pauses(cmd.Context())
			if err != nil {
				return err
			}
			return conn.tellPauses(cmd, api, pauses)
		}
		if words.Reason == "" {
			return usagef("--reason is missing: who finds a recovery waiting must know why")
		}
		if lasts > 0 {
			words.Until = time.Now().Add(time.Duration(lasts))
		}
		segment, err := segmentArgument(cmd, api, args)
		if err != nil {
			return err
		}
		pauses, err := api.Pause(cmd.Context(), segment, words)
		if err != nil {
			return err
		}
		return conn.tellPauses(cmd, api, pauses)
	})
	return cmd
}

func resumeCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "resume [SEGMENT]", GroupID: groupOperate, Args: cobra.MaximumNArgs(1), Short: "End a pause: what waited goes on at once",
		Example: `  salvor resume rack-4
  salvor resume`,
	}
	conn := addConnection(cmd, env)
	cmd.ValidArgsFunction = conn.completeNames(segmentNames, 1)
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
		segment, err := segmentArgument(cmd, api, args)
		if err != nil {
			return err
		}
		pauses, err := api.Resume(cmd.Context(), segment)
		if err != nil {
			return err
		}
		return conn.tellPauses(cmd, api, pauses)
	})
	return cmd
}

// segmentArgument is the uuid of the segment that is named, "" when none is.
func segmentArgument(cmd *cobra.Command, api *client.Client, args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	s, err := segmentOf(cmd.Context(), api, args[0])
	return s.UUID, err
}

// tellPauses shows segments by their names; where they may not be listed, or one is gone, by their uuids.
func (c *connection) tellPauses(cmd *cobra.Command, api *client.Client, pauses []wire.Pause) error {
	names := map[string]string{}
	if c.format == "table" && slices.ContainsFunc(pauses, func(p wire.Pause) bool { return p.SegmentUUID != nil }) {
		_, _ = api.EachSegment(cmd.Context(), client.Query{}, func(page []wire.Segment) error { // the pauses are what was asked for
			for _, s := range page {
				names[s.UUID] = s.Name
			}
			return nil
		})
	}
	return c.print(cmd, pauses, func() string { return describePauses(pauses, names) })
}

func describePauses(pauses []wire.Pause, names map[string]string) string {
	if len(pauses) == 0 {
		return "nothing is paused\n"
	}
	var b strings.Builder
	for _, p := range pauses {
		what, until := "everything", "until resumed"
		if p.SegmentUUID != nil {
			what = "segment " + *p.SegmentUUID
			if name := names[*p.SegmentUUID]; name != "" {
				what = fmt.Sprintf("segment %s (%s)", printable(name), *p.SegmentUUID)
			}
		}
		if p.Until != nil {
			until = "until " + p.Until.Format(time.DateTime)
		}
		fmt.Fprintf(&b, "%s is paused by %s since %s, %s: %s\n", what, p.By, p.Since.Format(time.DateTime), until, p.Reason)
	}
	return b.String()
}

// listEngines is `salvor engine list`.
func listEngines(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Args: cobra.NoArgs, Short: "List the engines, and what each of them holds",
		Long: `Lists the engine processes that were seen within the last hour. One that is silent has not written for 15 s:
it was killed, is cut off, or stands still; others go on with what it held. One that was stopped is not listed.`,
		Example: `  salvor engine list
  salvor engine list -o json`,
	}
	conn := addConnection(cmd, env)
	conn.addColumns(cmd)
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, _ []string) error {
		engines, err := api.Engines(cmd.Context())
		if err != nil {
			return err
		}
		l := conn.list(cmd, "name", "host", "version", "state", "started_at", "last_beat_ms_ago", "units=units")
		rows := rowsOf(engines)
		for i, e := range engines {
			rows[i].extra = map[string]string{"units": fmt.Sprint(len(e.Units))}
		}
		if err := l.add(rows); err != nil {
			return err
		}
		return l.end()
	})
	return cmd
}
