package disks

import (
	"fmt"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Verdict is what is held of a resource. It outlives the API's absence, and a restart of the agent.
type Verdict struct {
	Status     ha.CheckStatus `json:"status"` // "" before the first
	Detail     string         `json:"detail"`
	Filesystem string         `json:"filesystem"`
	CheckedAt  time.Time      `json:"checked_at"` // when it was last seen to hold
	Since      time.Time      `json:"since"`      // of the status
	// Pending is a failure that was seen once, and would be a blip if it was not seen again.
	Pending ha.CheckStatus `json:"pending"`
	Why     string         `json:"why"` // of Pending
	Total   int64          `json:"total"`
	Free    int64          `json:"free"`
	// Adopted: the resource has had a marker of this host. Before that it has never been well, and nothing that it needs can have been lost:
	// a wrong path in a configuration file is no failed disk.
	Adopted bool `json:"adopted"`
}

// Told reports whether the verdict is one that others should act on.
func (v Verdict) Told() bool { return v.Status != "" && (v.Adopted || !v.Status.Failed()) }

// NeedsWrite reports whether the next probe has to write, due or not: a failure is confirmed, and ended, by a write only.
func (v Verdict) NeedsWrite() bool { return v.Status == "" || v.Status.Failed() || v.Pending != "" }

// certain are failures that are no blips: one is enough. Of the others it takes two in a row.
func certain(s ha.CheckStatus) bool {
	return s == ha.CheckIOError || s == ha.CheckReadOnly || s == ha.CheckTimeout
}

// judge is the verdict after a finding at a time. pinned: the resource had a pin before.
func judge(v Verdict, f Finding, pinned bool, at time.Time) Verdict {
	v.Adopted = v.Adopted || pinned
	if f.Total > 0 {
		v.Total, v.Free = f.Total, f.Free
	}
	if f.Pin.Value != "" && !f.Status.Failed() {
		v.Adopted, v.Filesystem = true, f.Pin.Filesystem
	}
	switch {
	case f.Status.Failed() && !certain(f.Status) && !v.Status.Failed() && v.Pending == "":
		v.Pending, v.Why = f.Status, f.Detail // the verdict stands until it is seen again
		return v
	case f.Status.Failed():
		v.Pending, v.Why = "", ""
		return v.turn(f.Status, f.Detail, at)
	case v.Status.Failed() && !f.Wrote:
		return v // that it can be looked at does not mean that it can be written
	default:
		v.Pending, v.Why = "", ""
		return v.turn(f.Status, f.Detail, at)
	}
}

func (v Verdict) turn(s ha.CheckStatus, detail string, at time.Time) Verdict {
	if v.Status != s {
		v.Since = at
	}
	v.Status, v.Detail, v.CheckedAt = s, detail, at
	return v
}

// hanging is the finding of a probe that does not end.
func hanging(err error, deadline time.Duration) Finding {
	return Finding{Status: ha.CheckTimeout, Detail: fmt.Sprintf("%v (deadline %s)", err, deadline)}
}
