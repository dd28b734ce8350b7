package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/wire"
)

func coverageCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "coverage", GroupID: groupOperate, Args: cobra.NoArgs, Short: "Show who is protected, and why not",
		Long: `Shows for every host, registered or known to Nova, whether its instances would be recovered if it died now: by live
facts of the rows, Nova and Placement. Nothing is changed. What is to be protected and is not is named, with the rule or
the lack that says so, and what would end it; --instances names all instances, --host and --instance do so for one.

The exit status is 0 when every instance that is to be protected is, and 1 when one is not, when the instances of a
host could not be listed, or when a host is registered under a name that Nova does not have. To be protected are those that their
metadata (HA_Enabled), their class or evacuate_all_instances says; on a host in no segment, evacuate_all_instances does not count.`,
		Example: `  salvor coverage
  salvor coverage --host cmp-01
  salvor coverage --instance 6ba7b810-9dad-11d1-80b4-00c04fd430c8
  salvor coverage -o json | jq '.[] | select(.state != "protected")'`,
	}
	conn := addConnection(cmd, env)
	var host, instance string
	var all bool
	f := cmd.Flags()
	f.StringVar(&host, "host", "", "only this host, by name or uuid, with all its instances")
	f.StringVar(&instance, "instance", "", "only the instance with this id")
	f.BoolVar(&all, "instances", false, "all instances, not only those that are to be protected and are not")
	_ = cmd.RegisterFlagCompletionFunc("host", conn.completeNames(namesOfHosts, 0)) // the flag is there
	cmd.MarkFlagsMutuallyExclusive("host", "instance")
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, _ []string) error {
		l := conn.list(cmd, "x=host", "x=instance", "x=state", "x=how", "x=why", "x=mend")
		wanted, protected, unknown, nameless := 0, 0, 0, 0
		use := func(page []wire.HostCoverage) error {
			var rows []row
			for _, h := range page {
				wanted, protected = wanted+h.Wanted, protected+h.Protected
				if h.Error != nil {
					unknown++
				}
				if unknownToNova(h) {
					nameless++
				}
				rows = append(rows, coverageRows(h, conn.format, all || host != "" || instance != "")...)
			}
			return l.add(rows)
		}
		var err error
		switch {
		case host != "":
			if host, err = nameOfHost(cmd.Context(), api, host); err == nil {
				err = once(use)(api.CoverageOf(cmd.Context(), "host", host))
			}
		case instance != "":
			err = once(use)(api.CoverageOf(cmd.Context(), "instance", instance))
		default:
			err = api.EachCoverage(cmd.Context(), "", use)
		}
		if err != nil {
			return err
		}
		if err := l.end(); err != nil {
			return err
		}
		if conn.format == "table" {
			fmt.Fprintf(cmd.OutOrStdout(), "\n%d of %d instances that are to be protected are protected\n", protected, wanted)
			if nameless > 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "%d registered under names that Nova does not have: what runs there is not counted, and is not protected\n", nameless)
			}
		}
		if protected < wanted || unknown > 0 || nameless > 0 {
			return errSilent
		}
		return nil
	})
	return cmd
}

// unknownToNova: whatever runs on the host that is meant, Nova lists it under another name, so that it counts as in no segment.
func unknownToNova(h wire.HostCoverage) bool {
	return slices.ContainsFunc(h.Blocks, func(f wire.Finding) bool { return f.Rule == ha.FindingUnknownToNova })
}

func once(use func([]wire.HostCoverage) error) func([]wire.HostCoverage, error) error {
	return func(page []wire.HostCoverage, err error) error {
		if err != nil {
			return err
		}
		return use(page)
	}
}

// coverageRows is a host's line, then those of its instances: for a table; else the host is one element.
func coverageRows(h wire.HostCoverage, format string, all bool) []row {
	if format != "table" {
		return []row{{v: h}}
	}
	line := func(host, instance, state, how, why, mend string) row {
		return row{v: struct{}{}, extra: map[string]string{"host": host, "instance": instance, "state": state, "how": how, "why": why, "mend": mend}}
	}
	how := dash(h.RecoveryMethod)
	if h.SegmentName != nil {
		how += " (" + *h.SegmentName + ")"
	}
	why, mend := fmt.Sprintf("%d of %d", h.Protected, h.Wanted), "-"
	switch {
	case h.Error != nil:
		why = *h.Error
	case len(h.Blocks) > 0:
		why, mend = h.Blocks[0].Text, dash(h.Blocks[0].Fix)
	}
	rows := []row{line(h.Name, "-", h.State, how, why, mend)}
	for _, b := range h.Blocks[min(1, len(h.Blocks)):] {
		rows = append(rows, line(h.Name, "-", h.State, how, b.Text, dash(b.Fix)))
	}
	for _, n := range h.Notes {
		if all || n.Rule != "no_fencing" && n.Rule != "fencing_unknown" { // it would stand at each host
			rows = append(rows, line(h.Name, "-", "note", "-", n.Text, dash(n.Fix)))
		}
	}
	for _, i := range h.Instances {
		if !all && (i.Protected || !i.Wanted) {
			continue
		}
		why, mend := whyOf(i), mendOf(i)
		if i.Reason != nil && len(h.Blocks) > 0 && same(*i.Reason, h.Blocks[0]) {
			why, mend = "as its host", "-"
		}
		rows = append(rows, line(h.Name, i.Name+" "+i.UUID, stateOf(i), way(i), why, mend))
	}
	return rows
}

func same(a, b wire.Finding) bool { return a.Rule == b.Rule && a.Text == b.Text }

func stateOf(i wire.InstanceCoverage) string {
	switch {
	case i.Protected:
		return "protected"
	case i.Wanted:
		return "unprotected"
	default:
		return "not wanted"
	}
}

func way(i wire.InstanceCoverage) string {
	switch {
	case !i.Protected || i.Method == nil:
		return "-"
	case i.Target == nil:
		return fmt.Sprintf("%s: one of %d", *i.Method, i.Choices)
	default:
		return *i.Method + " to " + *i.Target
	}
}

func whyOf(i wire.InstanceCoverage) string {
	switch {
	case i.Reason != nil:
		return i.Reason.Text
	case i.DataLost:
		return "data on the local disk is lost, unless the hosts share it"
	default:
		return "-"
	}
}

func mendOf(i wire.InstanceCoverage) string {
	if i.Reason == nil {
		return "-"
	}
	return dash(i.Reason.Fix)
}

func dash(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func planCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "plan [HOST]", GroupID: groupOperate, Args: cobra.MaximumNArgs(1), Short: "Rehearse a host's death: what would happen, in which order, and what would fail",
		Long: `Rehearses a host's death, as if it were reported now by a monitor that is sure: the gates with their numbers, the
instances in the order in which they would be moved, with their targets, what would not be moved and why, whose data on
the host's own disk would be lost, and the expected time. Nothing is changed.

Targets are Placement's answer for the flavor's resources and traits, dealt out in the order of the moves. Where Nova
chooses, its scheduler has the last word: it also heeds groups, zones and other filters that nobody can ask.

The exit status is 0 when every instance that is to be protected would be moved, and 1 when one would not, or when Nova does
not have the host's name.`,
		Example: `  salvor plan --host cmp-01
  salvor plan cmp-01 -o yaml`,
	}
	conn := addConnection(cmd, env)
	host := ""
	cmd.Flags().StringVar(&host, "host", "", "the host, by name or uuid; the same as HOST")
	cmd.ValidArgsFunction = conn.completeNames(namesOfHosts, 1)
	_ = cmd.RegisterFlagCompletionFunc("host", conn.completeNames(namesOfHosts, 0)) // the flag is there
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
		if len(args) > 0 && host != "" || len(args) == 0 && host == "" {
			return usagef("say which host, once: HOST, or --host HOST")
		}
		host, err := nameOfHost(cmd.Context(), api, cmp.Or(host, strings.Join(args, "")))
		if err != nil {
			return err
		}
		p, err := api.Plan(cmd.Context(), host)
		if err != nil {
			return err
		}
		if err := conn.print(cmd, p, func() string { return describePlan(p) }); err != nil {
			return err
		}
		if p.Protected < p.Wanted || unknownToNova(p.HostCoverage) {
			return errSilent
		}
		return nil
	})
	return cmd
}

func describePlan(p wire.Plan) string {
	var b strings.Builder
	where := "in no segment"
	if p.SegmentName != nil {
		where = fmt.Sprintf("segment %s, method %s", *p.SegmentName, dash(p.RecoveryMethod))
	}
	fmt.Fprintf(&b, "If %s (%s) were reported dead now. Nothing was changed.\n", printable(p.Name), printable(where))
	table := func(title string, lines [][]string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s\n", title)
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, l := range lines {
			for i := range l {
				l[i] = printable(l[i])
			}
			fmt.Fprintf(w, "  %s\n", strings.Join(l, "\t"))
		}
		_ = w.Flush() // a strings.Builder takes everything
	}
	var gates, blocks, notes, moves, left, lost [][]string
	for _, g := range p.Gates {
		gates = append(gates, []string{g.Answer, g.Gate, g.Text})
	}
	mended := func(f wire.Finding) []string {
		if f.Fix == nil {
			return []string{f.Text}
		}
		return []string{f.Text, "mend: " + *f.Fix}
	}
	for _, f := range p.Blocks {
		blocks = append(blocks, mended(f))
	}
	for _, f := range p.Notes {
		notes = append(notes, mended(f))
	}
	instances := slices.Clone(p.Instances)
	slices.SortStableFunc(instances, func(a, b wire.InstanceCoverage) int { return cmp.Compare(place(a), place(b)) })
	for _, i := range instances {
		if !i.Protected {
			line := []string{i.UUID, i.Name, stateOf(i), "what is in the way of all"}
			if i.Reason == nil || len(p.Blocks) == 0 || !same(*i.Reason, p.Blocks[0]) {
				line = append(line[:3], whyOf(i), "mend: "+mendOf(i))
			}
			left = append(left, line)
			continue
		}
		arrives := dash(i.Arrives)
		if i.Reset {
			arrives += ", after a reset to error"
		}
		moves = append(moves, []string{fmt.Sprint(*i.Order), i.UUID, i.Name, fmt.Sprintf("priority %d", i.Priority), way(i), arrives})
		if i.DataLost {
			lost = append(lost, []string{i.UUID, i.Name})
		}
	}
	table("Gates:", gates)
	table("In the way:", blocks)
	table("To know:", notes)
	table(fmt.Sprintf("Moved, in this order (%d):", len(moves)), moves)
	table(fmt.Sprintf("Not moved (%d):", len(left)), left)
	table("Data on the local disk is lost, unless the hosts share their instance store:", lost)
	expected := p.Expected.Text
	if p.Expected.MovesSeconds != nil && *p.Expected.MovesSeconds > 0 {
		took := time.Duration(*p.Expected.MovesSeconds * float64(time.Second)).Round(100 * time.Millisecond)
		expected = fmt.Sprintf("%s for the moves, %s", took, expected)
	}
	proof := time.Duration(p.Expected.ProofSeconds * float64(time.Second))
	fmt.Fprintf(&b, "\nExpected time: %s; before that, %s until the death counts as proven.\n", expected, proof)
	return b.String()
}

// place puts those that would not be ordered behind the others.
func place(i wire.InstanceCoverage) int {
	if i.Order == nil {
		return 1 << 30
	}
	return *i.Order
}
