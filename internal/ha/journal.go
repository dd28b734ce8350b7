package ha

import "time"

// EntryKind is a kind of journal entry.
type EntryKind string

const (
	EntryIntent   EntryKind = "intent"   // an external act is about to be sent
	EntryOutcome  EntryKind = "outcome"  // how it ended
	EntryGate     EntryKind = "gate"     // a gate's question, its numbers and its answer
	EntryProgress EntryKind = "progress" // a line of recovery_workflow_details
	EntryTask     EntryKind = "task"     // a task of recovery_workflow_details changed state
	EntryNote     EntryKind = "note"     // anything else worth reading at 3 a.m.
	EntryAlarm    EntryKind = "alarm"    // somebody must look
	EntryOperator EntryKind = "operator" // an operator's act, with its name
)

// Task names are Masakari's (contract section 9).
const (
	TaskDisableService = "DisableComputeServiceTask"
	TaskPrepare        = "PrepareHAEnabledInstancesTask"
	TaskEvacuate       = "EvacuateInstancesTask"
	TaskStop           = "StopInstanceTask"
	TaskStart          = "StartInstanceTask"
	TaskConfirmActive  = "ConfirmInstanceActiveTask"
	TaskDisableNode    = "DisableComputeNodeTask"
	TaskConfirmNode    = "ConfirmComputeNodeDisabledTask"
)

// Task states are TaskFlow's.
const (
	TaskRunning  = "RUNNING"
	TaskSuccess  = "SUCCESS"
	TaskFailure  = "FAILURE"
	TaskReverted = "REVERTED"
)

// TaskTakeover marks the note that another engine goes on with a unit of work.
const TaskTakeover = "takeover"

// Entry is one line of the journal: append-only but for Open. (WorkID, Epoch, Seq) is unique, so that a commit whose
// answer was lost cannot be written twice.
type Entry struct {
	ID               int64
	WorkID           int64
	Epoch            int64
	Seq              int64
	At               time.Time // the database's clock
	NotificationUUID string
	HostUUID         string
	InstanceUUID     string // "" when it concerns the host
	Kind             EntryKind
	Key              string // act key of an intent and its outcome
	Act              ActKind
	Task             string  // progress and task entries; TaskTakeover of a note
	State            string  // task entries: the new state
	Progress         float64 // progress entries, 0 to 1
	Text             string
	Open             bool // an intent without an outcome
}
