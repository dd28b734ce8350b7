package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// StorageWindow is how near to each other episodes were opened that may have one cause (STORAGE-HEALTH, "Brakes").
const StorageWindow = 10 * time.Minute

// settlingReports is how many reports of a new start of an agent may lack a resource that has failed: its probe is under way.
const settlingReports = 5

// Bounds of what a storage unit is loaded with, far beyond what one hypervisor has.
const (
	SharersLimit  = 100
	ItemsLimit    = 20000
	EpisodesLimit = 1000
)

// Reported is what a report comes to: the health as it then is, the episode that it opens or grows (nil: none), and its new runs.
type Reported struct {
	Health  ha.HostHealth
	Ignored bool
	Episode *ha.Episode
	Runs    []ha.Run
}

// Report decides about an agent's report (STORAGE-HEALTH, "The engine" 1): was is what is stored, open the open episode of the host or
// nil. A resource that failed before and still does opens nothing: an operator who has cleared by force is not overruled by what he knew.
func Report(was ha.HostHealth, open *ha.Episode, r ha.AgentReport, h ha.Host, now time.Time) (Reported, error) {
	switch {
	case r.Epoch < was.Epoch:
		return Reported{}, &ha.StaleEpochError{Host: h.Name, Epoch: r.Epoch, Stored: was.Epoch}
	case r.Epoch == was.Epoch && r.Seq <= was.Seq:
		return Reported{Health: was, Ignored: true}, nil
	}
	next := was
	next.HostUUID, next.Epoch, next.Seq, next.ReportedAt, next.Silent = h.UUID, r.Epoch, r.Seq, now, false
	next.AgentURL, next.TotalBytes, next.FreeBytes = Text(r.URL, MaxName), r.TotalBytes, r.FreeBytes
	next.Checks = nil
	known := make(map[string]ha.Check, len(was.Checks))
	for _, c := range was.Checks {
		known[c.Resource] = c
	}
	var fresh []string // what has begun to fail
	for _, c := range r.Checks {
		c.Resource, c.Path, c.Detail, c.FilesystemID = Name(c.Resource), Text(c.Path, MaxText), Text(c.Detail, MaxText), Name(c.FilesystemID)
		c.Kinds = ha.SortKinds(c.Kinds)
		if !c.CheckedAt.IsZero() {
			c.CheckedAt = Micro(c.CheckedAt)
		}
		old, had := known[c.Resource]
		if old.FilesystemID != "" && (c.Status.Failed() || c.FilesystemID == "") { // what is mounted there now may be another one
			c.FilesystemID = old.FilesystemID
		}
		if c.Status.Failed() && !(had && old.Status.Failed()) {
			fresh = append(fresh, failure(c))
		}
		next.Checks = append(next.Checks, c)
	}
	for _, c := range was.Checks { // an agent that has just begun does not know all of its resources yet
		if c.Status.Failed() && r.Seq <= settlingReports && !slices.ContainsFunc(next.Checks, func(n ha.Check) bool { return n.Resource == c.Resource }) {
			next.Checks = append(next.Checks, c)
		}
	}
	slices.SortFunc(next.Checks, func(a, b ha.Check) int { return strings.Compare(a.Resource, b.Resource) })
	done := Reported{Health: next}
	radius, failed := next.Failing()
	switch {
	case open != nil:
		done.grow(*open, radius)
	case failed && len(fresh) > 0:
		done.open(ha.Episode{UUID: r.EpisodeUUID, HostUUID: h.UUID, SegmentUUID: h.SegmentUUID, Radius: radius, OpenedBy: "agent",
			Why: Text(strings.Join(fresh, "; "), MaxText)}, was.Held, now)
	}
	done.Health.State = StateOf(done.Health, open != nil || done.Episode != nil)
	return done, nil
}

func failure(c ha.Check) string {
	text := fmt.Sprintf("%s (%s): %s", c.Resource, c.Path, c.Status)
	if c.Detail != "" {
		text += ", " + c.Detail
	}
	return text
}

// Fail decides about an operator's word that a host's storage is broken.
func Fail(was ha.HostHealth, open *ha.Episode, f ha.Fail, h ha.Host, now time.Time) Reported {
	done := Reported{Health: was}
	done.Health.HostUUID = h.UUID
	if open != nil {
		done.grow(*open, f.Radius)
	} else {
		done.open(ha.Episode{UUID: f.EpisodeUUID, HostUUID: h.UUID, SegmentUUID: h.SegmentUUID, Radius: ha.SortKinds(f.Radius), OpenedBy: Name(f.By),
			Why: Text(f.Reason, MaxText)}, was.Held, now)
	}
	done.Health.State = ha.HealthError
	return done
}

func (d *Reported) open(e ha.Episode, held ha.Held, now time.Time) {
	e.Version, e.OpenedAt = 1, now
	if held.By != "" {
		e.Held = ha.Held{By: held.By, Why: Text("the host's cascades are held: "+held.Why, MaxText), Since: now}
	}
	d.Episode = &e
	d.run(e, e.Radius)
}

// grow adds the kinds that are new to the radius: a version more, and a run of them alone.
func (d *Reported) grow(e ha.Episode, radius []ha.ObjectKind) {
	var fresh []ha.ObjectKind
	for _, k := range radius {
		if !e.Has(k) {
			fresh = append(fresh, k)
		}
	}
	if len(fresh) == 0 {
		return
	}
	e.Radius = ha.SortKinds(append(slices.Clone(e.Radius), fresh...))
	e.Version++
	d.Episode = &e
	d.run(e, ha.SortKinds(fresh))
}

// run begins the cascades of the kinds that have one: uploads have none.
func (d *Reported) run(e ha.Episode, kinds []ha.ObjectKind) {
	for _, k := range kinds {
		if k != ha.ObjectUpload {
			d.Runs = append(d.Runs, ha.Run{EpisodeUUID: e.UUID, Version: e.Version, Kind: k, State: ha.RunOpen, UpdatedAt: e.OpenedAt})
		}
	}
}

// StateOf is a host's state as it is stored: missing is a matter of time, and told when it is read.
func StateOf(h ha.HostHealth, open bool) ha.HealthState {
	if _, failed := h.Failing(); open || failed {
		return ha.HealthError
	}
	if h.ReportedAt.IsZero() {
		return ha.HealthUnknown
	}
	return ha.HealthOK
}

// Aged is h as it is shown at now: a silent agent's host is missing, never in error for that.
func Aged(h ha.HostHealth, now time.Time) ha.HostHealth {
	h.Silent = !h.ReportedAt.IsZero() && now.Sub(h.ReportedAt) > ha.AgentSilence
	switch {
	case h.State == "":
		h.State = ha.HealthUnknown
	case h.Silent && h.State == ha.HealthOK:
		h.State = ha.HealthMissing
	}
	return h
}

// ClearRefused says why an episode cannot be cleared: there is none, or the agent still reports failure.
func ClearRefused(h ha.HostHealth, open *ha.Episode, c ha.Clear, host string) error {
	if open == nil {
		return &ha.ConflictError{Text: fmt.Sprintf("Host %s has no open episode: there is nothing to clear.", host)}
	}
	if c.Force {
		return nil
	}
	var failing []string
	for _, check := range h.Checks {
		if check.Status.Failed() {
			failing = append(failing, failure(check))
		}
	}
	if len(failing) == 0 {
		return nil
	}
	return &ha.ConflictError{Text: fmt.Sprintf("The agent of %s still reports failure: %s. Repair it and wait for its next report, or, "+
		"if you know better, clear it with --force (\"force\": true).", host, strings.Join(failing, "; "))}
}

// HoldRefused says why a hold does not fit.
func HoldRefused(e ha.Episode, h ha.Hold) error {
	switch {
	case !e.Open():
		return &ha.ConflictError{Text: fmt.Sprintf("Episode %s was cleared by %s: there is nothing to hold or to let go on.", e.UUID, e.ClearedBy)}
	case h.Off && e.Held.By == "" && e.Braked == "" && e.Waiting == "":
		return &ha.ConflictError{Text: fmt.Sprintf("Episode %s is not held.", e.UUID)}
	}
	return nil
}

// ApplyHold makes of an episode what the operator wants.
func ApplyHold(e *ha.Episode, h ha.Hold, now time.Time) {
	if !h.Off {
		e.Held = ha.Held{By: Name(h.By), Why: Text(h.Reason, MaxText), Since: now}
		return
	}
	if e.Held.By == "" || e.Braked != "" { // what it waits for, or is held by, is no concern any more
		e.Braked, e.WaivedBy = "", Name(h.By)
	}
	e.Held = ha.Held{}
}

// SetEpisode makes of an episode what its owner wants; an operator's word about the brakes stands.
func SetEpisode(e *ha.Episode, c ha.SetEpisode, now time.Time) {
	if e.WaivedBy == "" {
		e.Braked = Text(c.Braked, MaxText)
	}
	e.Waiting, e.Service = Text(c.Waiting, MaxText), c.Service
	if c.Ended && e.EndedAt == nil {
		e.EndedAt = &now
	}
	if c.ClearedBy != "" && e.ClearedAt == nil {
		e.ClearedAt, e.ClearedBy = &now, Name(c.ClearedBy)
	}
}

// JoinKinds and SplitKinds are how kinds are stored.
func JoinKinds(kinds []ha.ObjectKind) string {
	texts := make([]string, len(kinds))
	for i, k := range kinds {
		texts[i] = string(k)
	}
	return strings.Join(texts, ",")
}

func SplitKinds(text string) []ha.ObjectKind {
	var kinds []ha.ObjectKind
	for k := range strings.SplitSeq(text, ",") {
		kinds = append(kinds, ha.ObjectKind(k))
	}
	return ha.SortKinds(kinds)
}

// Near reports whether two episodes were opened within StorageWindow of each other.
func Near(a, b time.Time) bool { return a.Sub(b).Abs() <= StorageWindow }

// Tally counts hosts by kind of resource, and those that failed near the time of an opening. open are the open episodes by host; now
// is the opening where the host has none.
func Tally(checks map[string][]ha.Check, open map[string]time.Time, at time.Time) (hosts, failing map[ha.ObjectKind]int) {
	hosts, failing = map[ha.ObjectKind]int{}, map[ha.ObjectKind]int{}
	for host, list := range checks {
		var kinds []ha.ObjectKind
		for _, c := range list {
			kinds = append(kinds, c.Kinds...)
		}
		opened, is := open[host]
		for _, k := range ha.SortKinds(kinds) {
			hosts[k]++
			if is && Near(opened, at) {
				failing[k]++
			}
		}
	}
	return hosts, failing
}

// EpisodeEntry is the health event: the journal's word that an episode was opened or has grown, written with it.
func EpisodeEntry(e ha.Episode, opened bool, work int64, now time.Time) ha.Entry {
	text := fmt.Sprintf("episode %s opened by %s: %s; radius: %s", e.UUID, e.OpenedBy, e.Why, ha.JoinKinds(e.Radius))
	if !opened {
		text = fmt.Sprintf("episode %s has grown to version %d; radius: %s", e.UUID, e.Version, ha.JoinKinds(e.Radius))
	}
	// Epoch 0 is no owner's, and no two episodes have a nanosecond in common.
	return ha.Entry{WorkID: work, Seq: e.OpenedAt.UnixMicro()*100 + int64(e.Version), At: now, HostUUID: e.HostUUID, Kind: ha.EntryNote, Text: Text(text, MaxText)}
}

// HostHold is the host's switch after an operator's word.
func HostHold(was ha.Held, h ha.Hold, now time.Time) ha.Held {
	switch {
	case h.Off:
		return ha.Held{}
	case was.By != "":
		return was
	default:
		return ha.Held{By: Name(h.By), Why: Text(h.Reason, MaxText), Since: now}
	}
}

// Cursor is a blob run's cursor as text.
func Cursor(id int64) string {
	if id == 0 {
		return ""
	}
	return strconv.FormatInt(id, 10)
}

// AfterBatch is the blob run after a batch: done when fewer were found than asked for.
func AfterBatch(r ha.Run, turned []ha.Location, ch ha.SuspectLocations) ha.Run {
	r.Done += len(turned)
	for _, l := range turned {
		r.Cursor = Cursor(l.ID)
	}
	if len(turned) < ch.Limit {
		r.State, r.Why = ha.RunDone, ""
	}
	return r
}

// SuspectItem is the item of a copy that turned suspect.
func SuspectItem(r ha.Run, l ha.Location) ha.Item {
	return ha.Item{EpisodeUUID: r.EpisodeUUID, Kind: ha.ObjectBlob, ID: l.BlobUUID, Version: r.Version, State: ha.ItemDone, Text: "its copy on the host is suspect"}
}

// StorageDeath is the report of a host that was fenced for its storage: it carries its proof, as an operator's confirm-off does.
func StorageDeath(ch ha.FileDeath, h ha.Host, now time.Time) ha.Report {
	return ha.Report{
		UUID: ch.NotificationUUID, Type: ha.TypeComputeHost, Hostname: h.Name, GeneratedTime: now,
		Payload: ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyHostStatus: ha.HostStatusNormal, ha.KeyConfirmedBy: Name(ch.Text)},
	}
}
