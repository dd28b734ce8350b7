package wire

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// HostHealth is what is known of a host's storage.
type HostHealth struct {
	HostUUID   string       `json:"host_uuid"`
	Host       string       `json:"host"`
	State      string       `json:"state"` // unknown, ok, error, missing
	ReportedAt *Timestamp   `json:"reported_at"`
	Silent     bool         `json:"silent"` // the agent's last report is older than three minutes
	AgentURL   *string      `json:"agent_url"`
	TotalBytes int64        `json:"total_bytes"`
	FreeBytes  int64        `json:"free_bytes"`
	Held       *Halt        `json:"held"` // the host's switch
	Checks     []Check      `json:"checks"`
	Episode    *Episode     `json:"episode"` // the open one
	Agent      AgentBinding `json:"agent"`
}

// Halt says who holds cascades, why, and since when.
type Halt struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	Since  Timestamp `json:"since"`
}

// Check is an agent's last verdict about one resource.
type Check struct {
	Resource     string     `json:"resource"`
	Path         string     `json:"path"`
	Kinds        []string   `json:"kinds"`
	Status       string     `json:"status"`
	Detail       string     `json:"detail"`
	FilesystemID string     `json:"filesystem_id"`
	CheckedAt    *Timestamp `json:"checked_at"` // the agent's clock
}

// AgentBinding is who may speak for a host.
type AgentBinding struct {
	KeyBy  *string    `json:"key_by"` // who made its key, null when it has none
	KeyAt  *Timestamp `json:"key_at"`
	UserID *string    `json:"user_id"` // the Keystone user that is bound to it
}

// Episode is one error period of one host's storage.
type Episode struct {
	UUID           string     `json:"uuid"`
	HostUUID       string     `json:"host_uuid"`
	Host           string     `json:"host"`
	SegmentUUID    string     `json:"failover_segment_uuid"`
	State          string     `json:"state"`  // open, held, braked, clearing, ended
	Radius         []string   `json:"radius"` // empty: unknown
	Version        int        `json:"version"`
	Why            string     `json:"why"`
	OpenedAt       Timestamp  `json:"opened_at"`
	OpenedBy       string     `json:"opened_by"`
	Held           *Halt      `json:"held"`
	Braked         *string    `json:"braked"`
	WaivedBy       *string    `json:"waived_by"` // who has let it pass the brakes
	Waiting        *string    `json:"waiting"`
	Service        string     `json:"service"` // of the compute service: "", disabled, theirs, given_back
	ClearedAt      *Timestamp `json:"cleared_at"`
	ClearedBy      *string    `json:"cleared_by"`
	ClearReason    *string    `json:"clear_reason"`
	ResetInstances bool       `json:"reset_instances"`
	EndedAt        *Timestamp `json:"ended_at"`
}

// EpisodeRun is the cascade over one kind.
type EpisodeRun struct {
	Version   int        `json:"version"`
	Kind      string     `json:"kind"`
	State     string     `json:"state"`
	Done      int        `json:"done"`
	Skipped   int        `json:"skipped"`
	Failed    int        `json:"failed"`
	Cursor    *string    `json:"cursor"`
	Why       *string    `json:"why"`
	UpdatedAt *Timestamp `json:"updated_at"`
}

// EpisodeItem is what a run did with one object.
type EpisodeItem struct {
	Kind    string    `json:"kind"`
	ID      string    `json:"id"`
	Version int       `json:"version"`
	State   string    `json:"state"` // done, skipped, failed, left, reset, moved
	Text    string    `json:"text"`
	At      Timestamp `json:"at"`
}

// EpisodeDetails are an episode with what its cascade has done; Items are at most a thousand.
type EpisodeDetails struct {
	Episode
	Runs  []EpisodeRun  `json:"runs"`
	Items []EpisodeItem `json:"items"`
}

// CascadePreview is what a cascade with that radius would do now.
type CascadePreview struct {
	Host      string            `json:"host"`
	Radius    []string          `json:"radius"`
	Action    string            `json:"action"` // what happens to instances: error or evacuate
	Held      *string           `json:"held"`   // what would hold it
	Instances []PreviewInstance `json:"instances"`
	Blobs     int               `json:"blobs"` // copies that would turn suspect
	BlobsMore bool              `json:"blobs_more"`
}

// PreviewInstance is one instance of the host.
type PreviewInstance struct {
	UUID    string `json:"uuid"`
	Name    string `json:"name"`
	VMState string `json:"vm_state"`
	What    string `json:"what"` // error, evacuate, skip, wait
	Why     string `json:"why"`
}

// Response bodies.
type (
	HealthBody struct {
		Health HostHealth `json:"health"`
	}
	EpisodeBody struct {
		Episode EpisodeDetails `json:"episode"`
	}
	EpisodesBody struct {
		Episodes []Episode `json:"episodes"`
	}
	PreviewBody struct {
		Preview CascadePreview `json:"preview"`
	}
	// AgentKeyBody shows a host's new key, this once.
	AgentKeyBody struct {
		AgentKey AgentKey `json:"agent_key"`
	}
	AgentKey struct {
		Host string `json:"host"`
		Key  string `json:"key"`
	}
)

func kindsOf(kinds []ha.ObjectKind) []string {
	texts := make([]string, len(kinds))
	for i, k := range kinds {
		texts[i] = string(k)
	}
	return texts
}

func instant(t time.Time) *Timestamp {
	if t.IsZero() {
		return nil
	}
	return &Timestamp{t.UTC()}
}

func halt(h ha.Held) *Halt {
	if h.By == "" {
		return nil
	}
	return &Halt{By: h.By, Reason: h.Why, Since: Timestamp{h.Since.UTC()}}
}

// NewHealth renders a host's health.
func NewHealth(host ha.Host, h ha.HostHealth, open *ha.Episode, a ha.Agent) HealthBody {
	out := HostHealth{HostUUID: host.UUID, Host: host.Name, State: string(h.State), ReportedAt: instant(h.ReportedAt), Silent: h.Silent,
		AgentURL: present(h.AgentURL), TotalBytes: h.TotalBytes, FreeBytes: h.FreeBytes, Held: halt(h.Held), Checks: make([]Check, len(h.Checks)),
		Agent: AgentBinding{KeyBy: present(a.KeyBy), KeyAt: instant(a.KeyAt), UserID: present(a.UserID)}}
	for i, c := range h.Checks {
		out.Checks[i] = Check{Resource: c.Resource, Path: c.Path, Kinds: kindsOf(c.Kinds), Status: string(c.Status), Detail: c.Detail,
			FilesystemID: c.FilesystemID, CheckedAt: instant(c.CheckedAt)}
	}
	if open != nil {
		open.HostName = host.Name
		e := newEpisode(*open)
		out.Episode = &e
	}
	return HealthBody{out}
}

func newEpisode(e ha.Episode) Episode {
	state := "open"
	switch {
	case e.EndedAt != nil:
		state = "ended"
	case !e.Open():
		state = "clearing"
	case e.Held.By != "":
		state = "held"
	case e.Braked != "":
		state = "braked"
	}
	return Episode{UUID: e.UUID, HostUUID: e.HostUUID, Host: e.HostName, SegmentUUID: e.SegmentUUID, State: state, Radius: kindsOf(e.Radius),
		Version: e.Version, Why: e.Why, OpenedAt: Timestamp{e.OpenedAt.UTC()}, OpenedBy: e.OpenedBy, Held: halt(e.Held), Braked: present(e.Braked),
		WaivedBy: present(e.WaivedBy), Waiting: present(e.Waiting), Service: string(e.Service), ClearedAt: timestamp(e.ClearedAt),
		ClearedBy: present(e.ClearedBy), ClearReason: present(e.ClearReason), ResetInstances: e.ResetInstances, EndedAt: timestamp(e.EndedAt)}
}

// NewEpisodes renders a page of episodes.
func NewEpisodes(episodes []ha.Episode) EpisodesBody {
	list := make([]Episode, len(episodes))
	for i, e := range episodes {
		list[i] = newEpisode(e)
	}
	return EpisodesBody{list}
}

// StorageActions is what happens to the instances of hosts whose storage fails: what the option of the api's configuration says, and the
// segments that are treated otherwise.
type StorageActions struct {
	Default  string          `json:"default"`
	Segments []StorageAction `json:"segments"`
}

// StorageAction is a segment's own.
type StorageAction struct {
	UUID   string `json:"uuid"`
	Action string `json:"storage_failure_action"`
}

// NewStorageActions renders what the option says, and the segments with an action of their own.
func NewStorageActions(option string, own []ha.StorageAction) StorageActions {
	list := make([]StorageAction, len(own))
	for i, a := range own {
		list[i] = StorageAction{UUID: a.SegmentUUID, Action: a.Action}
	}
	return StorageActions{Default: option, Segments: list}
}

// StorageActionList reads the query of GET ext/segments; segment is "" when none is named.
func (q Query) StorageActionList() (segment string, limit int, marker string, err error) {
	r := reader{q: q}
	if s := r.text("segment"); s != nil {
		segment = *s
	}
	limit, marker = r.limit(), r.marker()
	return segment, limit, marker, r.err
}

// NewEpisode renders one episode.
func NewEpisode(d ha.EpisodeDetails) EpisodeBody {
	out := EpisodeDetails{Episode: newEpisode(d.Episode), Runs: make([]EpisodeRun, len(d.Runs)), Items: make([]EpisodeItem, len(d.Items))}
	for i, r := range d.Runs {
		out.Runs[i] = EpisodeRun{Version: r.Version, Kind: string(r.Kind), State: string(r.State), Done: r.Done, Skipped: r.Skipped, Failed: r.Failed,
			Cursor: present(r.Cursor), Why: present(r.Why), UpdatedAt: instant(r.UpdatedAt)}
	}
	for i, it := range d.Items {
		out.Items[i] = EpisodeItem{Kind: string(it.Kind), ID: it.ID, Version: it.Version, State: string(it.State), Text: it.Text, At: Timestamp{it.At.UTC()}}
	}
	return EpisodeBody{out}
}

// NewAgentAnswer answers a report. hostUUID is what tickets name the host by.
func NewAgentAnswer(hostUUID string, health ha.HealthState, ticketKey string, orders []ha.AgentOrder) AgentAnswerBody {
	word := "ok"
	if health == ha.HealthError {
		word = "error"
	}
	open := NewOrders(AgentOrdersOf(orders))
	return AgentAnswerBody{AgentAnswer{Host: hostUUID, Health: word, TicketKey: ticketKey, Orders: open.Orders, Version: open.Version}}
}

// NewAgentOrders renders what is open for a host.
func NewAgentOrders(orders []ha.AgentOrder) OrdersBody { return NewOrders(AgentOrdersOf(orders)) }

// HA is the report in salvor's language.
func (r AgentReport) HA(host string) ha.AgentReport {
	out := ha.AgentReport{HostUUID: host, Epoch: r.Epoch, Seq: r.Seq, URL: r.URL, Domain: r.Domain, TotalBytes: r.TotalBytes, FreeBytes: r.FreeBytes}
	for _, c := range r.Resources {
		kinds := make([]ha.ObjectKind, len(c.Kinds))
		for i, k := range c.Kinds {
			kinds[i] = ha.ObjectKind(k)
		}
		out.Checks = append(out.Checks, ha.Check{Resource: c.Name, Path: c.Path, Kinds: kinds, Status: ha.CheckStatus(c.Status), Detail: c.Detail,
			FilesystemID: c.FilesystemID, CheckedAt: c.CheckedAt.UTC()})
	}
	for _, c := range r.Copies {
		out.Copies = append(out.Copies, ha.CopyReport{BlobUUID: c.Blob, State: ha.CopyState(c.State), Size: c.Size, SHA256: c.SHA256})
	}
	for _, t := range r.Transfers {
		out.Transfers = append(out.Transfers, ha.TransferReport{UUID: t.ID, State: ha.TransferState(t.State), Bytes: t.Bytes, Error: t.Error})
	}
	return out
}

// StorageOrder is what an operator says about a host's storage.
type StorageOrder struct {
	Reason         string
	Radius         []ha.ObjectKind
	ResetInstances bool
	Force          bool
	UserID         string
	Action         string
}

var (
	flagRule   = typed("boolean")
	radiusRule = items(maxNames, word("instance", "blob", "upload"))
	reasonOf   = property{"reason", reasonRule}

	storageRules = map[string]rule{
		"clear":      shape{properties: []property{{"reset_instances", flagRule}, {"force", flagRule}, reasonOf}}.rule(),
		"fail":       shape{properties: []property{{"radius", radiusRule}, reasonOf}, required: []string{"radius", "reason"}}.rule(),
		"hold":       confirmRule,
		"resume":     orderRule,
		"agent-key":  orderRule,
		"agent-user": shape{properties: []property{{"user_id", userRule}}, required: []string{"user_id"}}.rule(),
		"storage-failure-action": shape{properties: []property{{"action", all(typed("string"), word("error", "evacuate", ""))}},
			required: []string{"action"}}.rule(),
	}
)

var userID = regexp.MustCompile(`^[a-zA-Z0-9-]{0,64}$`)

// userRule is Keystone's own for ids, and lets none be named.
var userRule = all(typed("string"), func(field string, v any) *violation {
	if userID.MatchString(v.(string)) {
		return nil
	}
	return &violation{field: field, value: v, bare: true, text: "Invalid input for field/attribute user_id: expected the id of a Keystone user, " +
		"at most 64 letters, digits and dashes (openstack user show NAME -f value -c id), not a name; empty for none."}
})

// StorageOrderOf reads the body of an order about a host's storage or an episode.
func (b Body) StorageOrderOf(action string) (StorageOrder, error) {
	v := b.value
	if v == nil {
		v = &object{}
	}
	if bad := storageRules[action]("", v); bad != nil {
		return StorageOrder{}, bad.error()
	}
	o := v.(*object)
	flag := func(name string) bool {
		v, _ := o.get(name)
		on, _ := v.(bool)
		return on
	}
	order := StorageOrder{Reason: o.word("reason"), ResetInstances: flag("reset_instances"), Force: flag("force"), UserID: o.word("user_id"), Action: o.word("action")}
	for _, k := range o.words("radius") {
		order.Radius = append(order.Radius, ha.ObjectKind(k))
	}
	return order, nil
}

// EpisodeList reads the query of GET ext/episodes; host is a name, "" when none is given.
func (q Query) EpisodeList() (f ha.EpisodeFilter, host string, limit int, marker string, err error) {
	r := reader{q: q}
	if h := r.text("host"); h != nil {
		host = *h
	}
	f.Open = r.flag("open")
	limit, marker = r.limit(), r.marker()
	return f, host, limit, marker, r.err
}

// Radius reads the query of GET ext/hosts/{host}/cascade-preview: kinds, each as a parameter or joined by commas.
func (q Query) Radius() ([]ha.ObjectKind, error) {
	r := reader{q: q}
	text, _ := r.last("radius")
	var kinds []ha.ObjectKind
	for k := range strings.SplitSeq(text, ",") {
		switch kind := ha.ObjectKind(strings.TrimSpace(k)); {
		case kind == "":
		case slices.Contains(ha.ObjectKinds, kind):
			kinds = append(kinds, kind)
		default:
			r.fail("Invalid value for radius: %s is none of instance, blob, upload", repr(k))
		}
	}
	return ha.SortKinds(kinds), r.err
}
