package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/wire"
)

var (
	durabilities   = []string{"ok", "under", "at_risk", "lost"}
	transferStates = []string{"running", "done", "failed", "cancelled"}
)

func blobCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "blob", GroupID: groupOperate, Short: "Look at blobs and their copies, add and rescue them",
		Long: `Looks at blobs: immutable files that salvor keeps in want_copies places, copied by the agents of the hosts. A blob
is named by its uuid. docs/storage.md says how it works.`,
		Example: `  salvor blob list --durability at_risk
  salvor blob add /srv/blobs/3f/3f0c7a52-6a43-4c0e-9a55-0e4f2a7d9b11 --host cmp-01
  salvor blob show BLOB
  salvor blob rescue BLOB
  salvor blob drop BLOB cmp-07 --reason "the host is scrapped"`,
	}
	conn := addConnection(cmd, env)
	show := &cobra.Command{
		Use: "show BLOB", Args: cobra.ExactArgs(1), Short: "Show one with its copies and its latest transfers",
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			b, err := api.Blob(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return conn.tellBlob(cmd, b)
		}),
	}
	cmd.AddCommand(addBlob(conn), listBlobs(conn), show, dropBlob(conn),
		orderBlob(conn, "rescue BLOB", "Try again at once whatever may still give the blob", `Has the replicator try again at once whatever may still give the blob: suspect copies are read, what was set aside as
corrupt is hashed once more, failures of the past make nothing wait. A blob that was given up is wanted again.`,
			func(cmd *cobra.Command, api *client.Client, id string, w client.Words) (wire.BlobDetails, error) {
				return api.RescueBlob(cmd.Context(), id, w)
			}),
		orderBlob(conn, "lost BLOB", "Give a blob up: it is wanted no more", `Gives a blob up, which nobody but you does: it counts as lost, is not copied, and raises no alert. It is refused while a
copy is good. salvor blob rescue takes it back.`,
			func(cmd *cobra.Command, api *client.Client, id string, w client.Words) (wire.BlobDetails, error) {
				return api.LoseBlob(cmd.Context(), id, w)
			}))
	return cmd
}

func addBlob(conn *connection) *cobra.Command {
	var b client.NewBlob
	cmd := &cobra.Command{
		Use: "add [FILE]", Args: cobra.MaximumNArgs(1), Short: "Put a blob into the catalogue",
		Long: `Puts a blob into the catalogue: a file that is here, which is read for its size and sha256, or one that is elsewhere, by
--size and --sha256. A file whose name is a uuid keeps it. --host says where it lies already, in the blob directory of that host's
agent, as XX/UUID with the uuid's first two digits: the agent is asked to hash it, and until it has, no copy counts.
Added again it gets the new --want-copies and --in-use.`,
		Example: `  salvor blob add /srv/blobs/3f/3f0c7a52-6a43-4c0e-9a55-0e4f2a7d9b11 --host cmp-01
  salvor blob add --uuid UUID --size 1048576 --sha256 SUM --host cmp-01 --host cmp-02 --want-copies 3`,
	}
	cmd.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveDefault)
	f := cmd.Flags()
	f.StringVar(&b.UUID, "uuid", "", "its uuid (default: the file's name, or a new one)")
	f.Int64Var(&b.Size, "size", -1, "its size in bytes")
	f.StringVar(&b.SHA256, "sha256", "", "its sha256, in hex")
	f.IntVar(&b.WantCopies, "want-copies", 2, "in how many places it is wanted")
	f.BoolVar(&b.InUse, "in-use", false, "somebody works on it: it is copied before others")
	f.StringArrayVar(&b.Hosts, "host", nil, "a host that has it already; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("host", conn.completeNames(namesOfHosts, 0)) // the flag is there
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
		switch {
		case len(args) == 1 && (b.Size >= 0 || b.SHA256 != ""):
			return usagef("--size and --sha256 are read from the file: leave them out, or the file")
		case len(args) == 1:
			if err := readBlob(args[0], &b); err != nil {
				return err
			}
		case b.Size < 0 || b.SHA256 == "":
			return usagef("name a file, or give --size and --sha256")
		}
		added, err := api.AddBlob(cmd.Context(), b)
		if err != nil {
			return err
		}
		if hint := whereItBelongs(args, b, added); hint != "" {
			fmt.Fprintln(cmd.ErrOrStderr(), hint)
		}
		return conn.tellBlob(cmd, added)
	})
	return cmd
}

// whereItBelongs says where a host's agent looks for a copy, when the file was read elsewhere or nobody is said to have it. The api does not know
// where blob directories are.
func whereItBelongs(files []string, b client.NewBlob, added wire.BlobDetails) string {
	at := filepath.Join(added.UUID[:min(2, len(added.UUID))], added.UUID)
	switch {
	case len(added.Locations) == 0:
		return "no host is said to have it: put it at " + at + " in the blob directory of a host's agent, and add it again with --host"
	case len(files) == 1 && len(b.Hosts) > 0 && !strings.HasSuffix(filepath.Clean(files[0]), string(filepath.Separator)+at):
		return fmt.Sprintf("%s is not where an agent looks: on %s the copy has to be %s in [agent] blob_directory", files[0], strings.Join(b.Hosts, " and "), at)
	}
	return ""
}

// readBlob reads a file's size and sum, and its uuid if its name is one.
func readBlob(path string, b *client.NewBlob) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	sum := sha256.New()
	if b.Size, err = io.Copy(sum, f); err != nil {
		return err
	}
	b.SHA256 = hex.EncodeToString(sum.Sum(nil))
	if name := filepath.Base(path); b.UUID == "" && len(name) == 36 && strings.Count(name, "-") == 4 {
		b.UUID = name
	}
	return nil
}

func listBlobs(conn *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Args: cobra.NoArgs, Short: "List blobs, the oldest first",
		Example: `  salvor blob list --durability at_risk
  salvor blob list --host cmp-01 --all -o json`,
	}
	f := cmd.Flags()
	f.String("durability", "", "only those with it: ok, under, at_risk or lost")
	words(cmd, "durability", durabilities...)
	f.String("host", "", "only those with a copy on it")
	_ = cmd.RegisterFlagCompletionFunc("host", conn.completeNames(namesOfHosts, 0)) // the flag is there
	conn.addColumns(cmd)
	p := addMarkedPaging(cmd)
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, _ []string) error {
		if err := oneOf(cmd, "durability", durabilities...); err != nil {
			return err
		}
		filters := url.Values{}
		filter(cmd, filters, "durability", "durability")
		filter(cmd, filters, "host", "host")
		q, err := p.query(filters)
		if err != nil {
			return err
		}
		l, last := conn.list(cmd, "uuid", "size", "durability", "copies", "want_copies", "in_use", "why"), ""
		more, err := api.EachBlob(cmd.Context(), q, func(page []wire.Blob) error {
			last = page[len(page)-1].UUID
			return l.add(rowsOf(page))
		})
		if err != nil {
			return err
		}
		p.tellMore(cmd, more, last)
		return l.end()
	})
	return cmd
}

// addMarkedPaging is for lists that have one order.
func addMarkedPaging(cmd *cobra.Command) *paging {
	p := addPaging(cmd, false)
	cmd.Flags().StringVar(&p.marker, "marker", "", "begin behind this one (its uuid)")
	return p
}

func dropBlob(conn *connection) *cobra.Command {
	reason, force := "", false
	cmd := &cobra.Command{
		Use: "drop BLOB HOST", Args: cobra.ExactArgs(2), Short: "Drop the copy of a blob on a host",
		Long: `Has the agent of a host unlink its copy of a blob. It is refused while fewer than want_copies others are known to be
good; with --force one is enough, but the last good copy is never dropped. Of a host whose agent is silent the copy is only taken
off the catalogue: its bytes stay where they are.`,
		Example: `  salvor blob drop BLOB cmp-07 --reason "the host is scrapped"`,
	}
	f := cmd.Flags()
	f.StringVar(&reason, "reason", "", "why")
	f.BoolVar(&force, "force", false, "although fewer others are good than are wanted; one must be")
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
		if reason == "" {
			return usagef("--reason is missing")
		}
		b, err := api.DropLocation(cmd.Context(), args[0], args[1], reason, force)
		if err != nil {
			return err
		}
		return conn.tellBlob(cmd, b)
	})
	return cmd
}

func orderBlob(conn *connection, use, short, long string, order func(*cobra.Command, *client.Client, string, client.Words) (wire.BlobDetails, error)) *cobra.Command {
	var w client.Words
	cmd := &cobra.Command{Use: use, Args: cobra.ExactArgs(1), Short: short, Long: long}
	cmd.Flags().StringVar(&w.Reason, "reason", "", "why")
	cmd.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
		b, err := order(cmd, api, args[0], w)
		if err != nil {
			return err
		}
		return conn.tellBlob(cmd, b)
	})
	return cmd
}

// tellBlob shows a blob, and its copies and transfers in lines below.
func (c *connection) tellBlob(cmd *cobra.Command, d wire.BlobDetails) error {
	if c.format != "table" {
		return c.print(cmd, d, nil)
	}
	if err := c.show(cmd, d.Blob); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("locations\n")
	for _, l := range d.Locations {
		fmt.Fprintf(&b, "  %s  %s since %s%s\n", hostOr(l.Host, l.HostUUID), l.State, l.Since.Format(time.DateTime), because(l.Why))
	}
	if len(d.Transfers) > 0 {
		b.WriteString("transfers\n")
	}
	for _, t := range d.Transfers {
		fmt.Fprintf(&b, "  %s  %s -> %s  %s, %d of %d bytes%s\n", t.StartedAt.Format(time.DateTime), hostOr(t.Source, t.SourceUUID), hostOr(t.Target, t.TargetUUID),
			t.State, t.Bytes, t.Size, because(t.Why))
	}
	_, err := io.WriteString(cmd.OutOrStdout(), b.String())
	return err
}

func hostOr(name *string, uuid string) string {
	if name == nil {
		return uuid
	}
	return printable(*name)
}

func because(why *string) string {
	if why == nil {
		return ""
	}
	return ": " + printable(*why)
}

func transferCommand(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "transfer", GroupID: groupOperate, Short: "Look at copies of blobs on their way",
		Example: `  salvor transfer list --state running
  salvor transfer list --blob BLOB`,
	}
	conn := addConnection(cmd, env)
	list := &cobra.Command{Use: "list", Args: cobra.NoArgs, Short: "List transfers, the newest first"}
	f := list.Flags()
	f.String("state", "", "only those in it: running, done, failed or cancelled")
	words(list, "state", transferStates...)
	f.String("blob", "", "only those of this blob, by its uuid")
	f.String("host", "", "only those to it")
	_ = list.RegisterFlagCompletionFunc("host", conn.completeNames(namesOfHosts, 0)) // the flag is there
	conn.addColumns(list)
	p := addMarkedPaging(list)
	list.RunE = conn.with(func(cmd *cobra.Command, api *client.Client, _ []string) error {
		if err := oneOf(cmd, "state", transferStates...); err != nil {
			return err
		}
		filters := url.Values{}
		filter(cmd, filters, "state", "state")
		filter(cmd, filters, "blob", "blob")
		filter(cmd, filters, "host", "host")
		q, err := p.query(filters)
		if err != nil {
			return err
		}
		l, last := conn.list(cmd, "uuid", "blob_uuid=blob", "source", "target", "state", "bytes", "size", "started_at", "ended_at", "why"), ""
		more, err := api.EachTransfer(cmd.Context(), q, func(page []wire.BlobTransfer) error {
			last = page[len(page)-1].UUID
			return l.add(rowsOf(page))
		})
		if err != nil {
			return err
		}
		p.tellMore(cmd, more, last)
		return l.end()
	})
	cmd.AddCommand(list)
	return cmd
}
