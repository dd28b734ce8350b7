package rules

import (
	"fmt"
	"strings"
)

// Purged counts what a purge removed.
type Purged struct {
	Notifications, VMoves, Hosts, Segments int
	Entries                                int // lines of histories
	Units                                  int // units of work
	Claims                                 int
	Episodes, Runs, Items                  int // of storage health; runs and items go along with their episode
	Transfers                              int // of blobs
	Messages                               int // to others, that nobody shipped
	Copies                                 int // of blobs on deleted hosts
	Kept                                   int // deleted hosts that may have the last copy of a blob
	// Bounded is what counts towards max_rows: not what goes along with a notification, a host or an episode.
	Bounded int
}

// Add counts what one more transaction removed.
func (p *Purged) Add(q Purged) {
	p.Notifications, p.VMoves, p.Hosts, p.Segments = p.Notifications+q.Notifications, p.VMoves+q.VMoves, p.Hosts+q.Hosts, p.Segments+q.Segments
	p.Entries, p.Units, p.Claims, p.Messages = p.Entries+q.Entries, p.Units+q.Units, p.Claims+q.Claims, p.Messages+q.Messages
	p.Episodes, p.Runs, p.Items, p.Transfers = p.Episodes+q.Episodes, p.Runs+q.Runs, p.Items+q.Items, p.Transfers+q.Transfers
	p.Copies, p.Kept = p.Copies+q.Copies, p.Kept+q.Kept
	p.Bounded += q.Bounded
}

// String names what was removed.
func (p Purged) String() string {
	var parts []string
	for _, c := range []struct {
		n    int
		name string
	}{
		{p.Notifications, "notifications"}, {p.VMoves, "vmoves"}, {p.Hosts, "hosts"}, {p.Segments, "segments"},
		{p.Entries, "lines of history"}, {p.Units, "units of work"}, {p.Claims, "claims"},
		{p.Episodes, "storage episodes"}, {p.Runs, "runs of episodes"}, {p.Items, "items of episodes"}, {p.Transfers, "transfers"}, {p.Copies, "copies of blobs on deleted hosts"}, {p.Messages, "unshipped messages"},
	} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.name))
		}
	}
	text := "nothing was old enough to be removed"
	if len(parts) > 0 {
		text = "removed " + strings.Join(parts, ", ")
	}
	if p.Kept > 0 {
		text += fmt.Sprintf("; kept %d deleted hosts that may have the last copy of a blob (salvor blob list --durability at_risk)", p.Kept)
	}
	return text
}
