package cli

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/client"
)

// paging are the flags of a list.
type paging struct {
	limit  int
	all    bool
	marker string
	sort   []string
}

// addPaging gives a list its bounds; ordered lists are one on the wire, so that they have an order and a place in it.
func addPaging(cmd *cobra.Command, ordered bool) *paging {
	p := &paging{}
	f := cmd.Flags()
	f.IntVar(&p.limit, "limit", 100, "how many at most")
	f.BoolVar(&p.all, "all", false, "all of them, however many; they are printed as they come")
	if ordered {
		f.StringVar(&p.marker, "marker", "", "begin behind this one (its uuid, or the id that Masakari's clients use)")
		f.StringSliceVar(&p.sort, "sort", nil, "by KEY, KEY:asc or KEY:desc, given again or with commas (default: the newest first)")
	}
	return p
}

func (p *paging) query(filters url.Values) (client.Query, error) {
	q := client.Query{Filters: filters, Sort: p.sort, Marker: p.marker, Limit: p.limit}
	switch {
	case p.all:
		q.Limit = 0
	case p.limit < 1:
		return q, usagef("--limit %d: expected 1 or more; --all gives all", p.limit)
	}
	for _, s := range p.sort {
		if _, dir, given := strings.Cut(s, ":"); given && dir != "asc" && dir != "desc" {
			return q, usagef("--sort %q: expected KEY, KEY:asc or KEY:desc", s)
		}
	}
	return q, nil
}

// tellMore says on standard error that a list goes on.
func (p *paging) tellMore(cmd *cobra.Command, more bool, last string) {
	switch {
	case !more:
	case cmd.Flags().Lookup("marker") != nil && last != "":
		fmt.Fprintf(cmd.ErrOrStderr(), "more follow: --marker %s, a greater --limit, or --all\n", last)
	default:
		fmt.Fprintln(cmd.ErrOrStderr(), "more follow: a greater --limit, or --all")
	}
}

// filter adds a text filter when its flag was given.
func filter(cmd *cobra.Command, into url.Values, flag, key string) {
	if f := cmd.Flags().Lookup(flag); f.Changed {
		into.Set(key, f.Value.String())
	}
}

// changed collects the flags that were given as changes of an object: flag names have dashes where the wire has underscores.
func changed(cmd *cobra.Command, flags map[string]string) (client.Changes, error) {
	changes := client.Changes{}
	for flag, key := range flags {
		f := cmd.Flags().Lookup(flag)
		if !f.Changed {
			continue
		}
		if f.Value.Type() != "bool" {
			changes[key] = f.Value.String()
			continue
		}
		on, err := strconv.ParseBool(f.Value.String())
		if err != nil {
			return nil, &usageError{err}
		}
		changes[key] = on
	}
	if len(changes) == 0 {
		return nil, usagef("nothing to change: give at least one option")
	}
	return changes, nil
}

// oneOf refuses a flag's text when it was given and is none of the words.
func oneOf(cmd *cobra.Command, flag string, words ...string) error {
	f := cmd.Flags().Lookup(flag)
	if !f.Changed || slices.Contains(words, f.Value.String()) {
		return nil
	}
	return usagef("--%s %q: expected %s", flag, f.Value, strings.Join(words, ", "))
}

// words offers fixed words for a flag.
func words(cmd *cobra.Command, flag string, words ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}
