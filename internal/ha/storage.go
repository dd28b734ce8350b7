package ha

import (
	"slices"
	"strings"
	"time"
)

// ObjectKind is a kind of object that needs a host's storage (STORAGE-HEALTH, "Words").
type ObjectKind string

const (
	ObjectInstance ObjectKind = "instance"
	ObjectBlob     ObjectKind = "blob"
	ObjectUpload   ObjectKind = "upload"
)

// ObjectKinds are all of them.
var ObjectKinds = []ObjectKind{ObjectInstance, ObjectBlob, ObjectUpload}

// CheckStatus is an agent's verdict about one resource.
type CheckStatus string

const (
	CheckOK              CheckStatus = "ok"
	CheckFull            CheckStatus = "full" // not failed: no cascade
	CheckMissing         CheckStatus = "missing"
	CheckReadOnly        CheckStatus = "read_only"
	CheckIOError         CheckStatus = "io_error"
	CheckTimeout         CheckStatus = "timeout"
	CheckWrongFilesystem CheckStatus = "wrong_filesystem"
	CheckWriteFailed     CheckStatus = "write_failed"
)

// CheckStatuses are all of them.
var CheckStatuses = []CheckStatus{CheckOK, CheckFull, CheckMissing, CheckReadOnly, CheckIOError, CheckTimeout, CheckWrongFilesystem, CheckWriteFailed}

// Failed reports whether the verdict is a failure: all but ok and full are.
func (s CheckStatus) Failed() bool { return s != CheckOK && s != CheckFull }

// Check is what an agent said last about one resource: a named directory and the kinds of objects that need it.
type Check struct {
	Resource string
	Path     string
	Kinds    []ObjectKind
	Status   CheckStatus
	Detail   string
	// FilesystemID is the last one known: a failed probe may not be able to tell it.
	FilesystemID string
	CheckedAt    time.Time // the agent's clock, for people
}

// HealthState is a host's storage as a whole.
type HealthState string

const (
	HealthUnknown HealthState = "unknown" // no agent has ever reported
	HealthOK      HealthState = "ok"
	HealthError   HealthState = "error"   // an episode is open
	HealthMissing HealthState = "missing" // no episode, and its agent is silent
)

// AgentSilence is how old an agent's last report may be: it is due each 60 s.
const AgentSilence = 3 * time.Minute

// HostHealth is what is known of a host's storage. ReportedAt is the database's clock; zero: never.
type HostHealth struct {
	HostUUID   string
	State      HealthState
	Epoch, Seq int64
	ReportedAt time.Time
	Checks     []Check
	AgentURL   string // where the agent serves blobs, "" when it has none
	TotalBytes int64
	FreeBytes  int64
	Held       Held // the host's switch: episodes that open while it is on begin held
	Silent     bool // the last report is older than AgentSilence, by the database's clock
}

// Failing are the kinds that need at least one failed resource: the radius. A failed resource whose kinds nobody has said adds none.
func (h HostHealth) Failing() (radius []ObjectKind, failed bool) {
	for _, c := range h.Checks {
		if c.Status.Failed() {
			failed = true
			radius = append(radius, c.Kinds...)
		}
	}
	return SortKinds(radius), failed
}

// SortKinds returns the kinds in their order, each once.
func SortKinds(kinds []ObjectKind) []ObjectKind {
	var sorted []ObjectKind
	for _, k := range ObjectKinds {
		if slices.Contains(kinds, k) {
			sorted = append(sorted, k)
		}
	}
	return sorted
}

// JoinKinds writes kinds as text for people, "unknown" for none.
func JoinKinds(kinds []ObjectKind) string {
	if len(kinds) == 0 {
		return "unknown"
	}
	texts := make([]string, len(kinds))
	for i, k := range kinds {
		texts[i] = string(k)
	}
	return strings.Join(texts, ", ")
}

// Held says who stopped something, why, and since when. By is "" when nobody did.
type Held struct {
	By, Why string
	Since   time.Time
}

// ServiceClaim says what an episode has done about the host's compute service.
type ServiceClaim string

const (
	ServiceUntouched ServiceClaim = ""         // not looked at yet
	ServiceDisabled  ServiceClaim = "disabled" // by this episode: given back when it is cleared
	ServiceTheirs    ServiceClaim = "theirs"   // disabled by others before, or enabled by others since: left as it is
	ServiceGivenBack ServiceClaim = "given_back"
)

// Episode is one error period of one host: opened by the first failed check, closed by an operator only.
type Episode struct {
	ID          int64
	UUID        string
	HostUUID    string
	HostName    string
	SegmentUUID string
	Radius      []ObjectKind // empty: unknown, nothing is touched
	Version     int          // 1, and one more for each growth of the radius
	OpenedAt    time.Time
	OpenedBy    string // "agent", or the operator
	Why         string

	// The api's: Hold, WaivedBy (an operator let it pass the brakes), and the clear.
	Held           Held
	WaivedBy       string
	ClearedAt      *time.Time
	ClearedBy      string
	ClearReason    string
	ResetInstances bool

	// The owner's.
	Braked  string // why the brakes hold it; stays until an operator resumes it
	Waiting string // what it waits for, for people
	Service ServiceClaim
	EndedAt *time.Time // nothing is left to do after the clear
}

// Open reports whether no operator has cleared it.
func (e Episode) Open() bool { return e.ClearedAt == nil }

// Has reports whether the kind is in the radius.
func (e Episode) Has(k ObjectKind) bool { return slices.Contains(e.Radius, k) }

// RunState is where a cascade's run over one kind stands.
type RunState string

const (
	RunOpen    RunState = "open"
	RunHeld    RunState = "held"
	RunDone    RunState = "done"
	RunStopped RunState = "stopped" // the episode was cleared
)

// Run is the cascade over one kind of one version of an episode. Cursor is the last item done, so that a new owner goes on.
type Run struct {
	EpisodeUUID string
	Version     int
	Kind        ObjectKind
	State       RunState
	Cursor      string
	Done        int
	Skipped     int
	Failed      int
	Why         string // held: at what; open: what it waits for
	UpdatedAt   time.Time
}

// ItemState is what a run did with one object.
type ItemState string

const (
	ItemDone    ItemState = "done"
	ItemSkipped ItemState = "skipped"
	ItemFailed  ItemState = "failed"
	ItemLeft    ItemState = "left"  // after the clear: still in error by this episode, the operator's to repair
	ItemReset   ItemState = "reset" // after the clear: active again
	ItemMoved   ItemState = "moved" // after the clear: no longer in error, no longer there, or deleted
)

// Item is one object of a run: once per run. Unique by (episode, version, kind, id).
type Item struct {
	EpisodeUUID string
	Kind        ObjectKind
	ID          string
	Version     int
	State       ItemState
	Text        string
	At          time.Time
}

// StorageUnit are the rows that the plan of a UnitStorage needs, as of one transaction.
type StorageUnit struct {
	Episodes []Episode // of the host, not ended, oldest first: at most one of them is open
	Runs     []Run     // of those
	Items    []Item    // of those, of kind instance only: a host's blobs are too many to load
	Health   HostHealth
	Sharers  []Sharer // other hosts that have reported a filesystem of this host's failed resources
	// Hosts counts the hosts with a resource of each kind; Failing those of them with an episode that is open and was opened within
	// ten minutes of this host's (this host counted in both).
	Hosts   map[ObjectKind]int
	Failing map[ObjectKind]int
	Action  string // storage_failure_action of the segment, "" when the option decides
}

// StorageAction is a segment's own storage_failure_action.
type StorageAction struct {
	SegmentUUID string
	Action      string // error or evacuate
}

// Sharer is another host that has reported the same filesystem.
type Sharer struct {
	HostUUID   string
	HostName   string
	Resource   string
	Status     CheckStatus
	ReportedAt time.Time // of its last report, the database's clock
}

// SetEpisode writes what the owner keeps of an episode. Braked is not written once an operator has waived the brakes.
type SetEpisode struct {
	UUID    string
	Braked  string
	Waiting string
	Service ServiceClaim
	Ended   bool
	// ClearedBy also clears an open episode, in that name: of a host that no operator can name any more. "": it stays as it is.
	ClearedBy string
}

// PutRun writes a run. One that was stopped by a clear meanwhile makes the commit fail with ErrStale.
type PutRun struct{ Run Run }

// PutItem inserts an item, or writes state and text of the one with its key.
type PutItem struct{ Item Item }

// WhileOpen guards a commit that begins something for an episode: still open, not held, and of this version, else ErrStale.
type WhileOpen struct {
	EpisodeUUID string
	Version     int
}

// FileDeath files the COMPUTE_HOST report of a host that was fenced for its storage, unless one is open. The proof is ours: payload
// key confirmed.
type FileDeath struct {
	NotificationUUID string
	HostUUID         string
	Text             string
}

func (SetEpisode) change() {}
func (PutRun) change()     {}
func (PutItem) change()    {}
func (WhileOpen) change()  {}
func (FileDeath) change()  {}

// The kinds of alarm of storage health.
const (
	AlarmStorage        Alarm = "storage"         // a host's storage failed: an episode is open
	AlarmStorageBrake   Alarm = "storage_brake"   // several hosts' storage failed: nothing is touched
	AlarmStorageUnknown Alarm = "storage_unknown" // nobody has said what needs the storage that failed: nothing is touched
	AlarmAgentSilent    Alarm = "agent_silent"    // the agent of a host has not reported for three minutes
	AlarmStorageStuck   Alarm = "storage_stuck"   // an instance could not be set to error, or the host not be fenced or disabled
)

// AgentReport is what an agent says of its own host (STORAGE-HEALTH, "The agent"). (Epoch, Seq) orders reports: epoch is new at each
// start of the agent, seq counts within it.
type AgentReport struct {
	HostUUID string
	// EpisodeUUID and TicketKey are fixed by the caller, for the episode that the report may open and for a host that has no key yet.
	EpisodeUUID string
	TicketKey   []byte
	Epoch, Seq  int64
	URL         string
	Domain      string // failure domain, "" when it names none
	TotalBytes  int64
	FreeBytes   int64
	Checks      []Check
	Copies      []CopyReport
	Transfers   []TransferReport
}

// Accepted is what an agent's report came to. TicketKey is the host's, for checking tickets: a secret of that host and salvor.
type Accepted struct {
	Health    HostHealth
	TicketKey []byte
	Ignored   bool   // not newer than the stored one
	Opened    string // the episode that it opened or grew, "" when none
}

// StaleEpochError: the report is of a former start of the agent.
type StaleEpochError struct {
	Host          string
	Epoch, Stored int64
}

func (e *StaleEpochError) Error() string {
	return "the report is of a former start of the agent of " + e.Host + ": it is ignored"
}

// Agent is who may speak for a host: by a key, of which only a hash is kept, or as a Keystone user.
type Agent struct {
	HostUUID string
	KeyHash  string // sha256 in hex, "" when it has none
	KeyBy    string
	KeyAt    time.Time
	UserID   string // "" when none is bound
	UserBy   string
}

// EpisodeFilter is equality on the fields that are not nil.
type EpisodeFilter struct {
	HostUUID *string
	Open     *bool
}

// Fail is an operator's word that a host's storage is broken: it opens an episode, or grows the radius of the open one.
type Fail struct {
	HostUUID    string
	EpisodeUUID string // fixed by the caller
	Radius      []ObjectKind
	By, Reason  string
}

// Hold stops the cascade of an episode, or with HostUUID alone those of a host, also those to come; or lets them go on. To let an episode go on
// is also to let it pass the brakes.
type Hold struct {
	EpisodeUUID string
	HostUUID    string
	Off         bool
	By, Reason  string
}

// EpisodeDetails are an episode with what its cascade has done.
type EpisodeDetails struct {
	Episode
	Runs  []Run
	Items []Item // the newest, instances before blobs, at most ItemsShown
}

// ItemsShown bounds the items that an episode is shown with.
const ItemsShown = 1000

// StorageCounts are for metrics: hosts by state, open episodes, and those of them that are held and braked.
type StorageCounts struct {
	Hosts              map[HealthState]int
	Open, Held, Braked int
}

// Clear is an operator's word that a host's storage is good again. Force: although its agent still reports failure.
type Clear struct {
	HostUUID       string
	By, Reason     string
	ResetInstances bool
	Force          bool
}
