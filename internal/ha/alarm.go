package ha

// Alarm is a kind of finding that a person must look at: an entry of the journal (its Task), a line of the log, a count of the metric
// alarms_total, and a section of docs/alerts.md.
type Alarm string

const (
	AlarmAggregate        Alarm = "aggregate"          // a reserved host is not in an aggregate of the dead one
	AlarmBrake            Alarm = "brake"              // too many hosts of a segment are down
	AlarmCrashLoop        Alarm = "crash_loop"         // an instance was restarted too often, and is left as it is
	AlarmFalseReport      Alarm = "false_report"       // a monitor reported a host that lives
	AlarmFencingFailed    Alarm = "fencing_failed"     // no method saw the host off
	AlarmFlapping         Alarm = "flapping"           // a host fails again and again, and is not given back any more
	AlarmForceDownRefused Alarm = "force_down_refused" // Nova does not take forced_down
	AlarmHeardInRecovery  Alarm = "heard_in_recovery"  // the host is heard while it is recovered
	AlarmLeftInNova       Alarm = "left_in_nova"       // a host was deleted from salvor, and is left disabled in Nova
	AlarmLiveMigration    Alarm = "live_migration"     // an instance may run on the target of a live migration
	AlarmNotStarted       Alarm = "not_started"        // an instance was left stopped on a host that returned
	AlarmOldCopies        Alarm = "old_copies"         // a returned host stays forced down: old copies may run
	AlarmStaleOrder       Alarm = "stale_order"        // an order lies in the queue of a host that died after it
	AlarmReservedHostLeft Alarm = "reserved_host_left" // a reserved host keeps what was changed on it
	AlarmStateNotRestored Alarm = "state_not_restored" // a moved instance is not in the state it was in
	AlarmStillLocked      Alarm = "still_locked"       // Nova refuses to unlock an instance that salvor has locked
	AlarmInternal         Alarm = "internal"           // a recovery could not be planned or written, and was failed
)

// Alarms are all of them.
var Alarms = []Alarm{
	AlarmAgentSilent, AlarmAggregate, AlarmBrake, AlarmCrashLoop, AlarmFalseReport, AlarmFencingFailed, AlarmFlapping, AlarmForceDownRefused, AlarmHeardInRecovery, AlarmLeftInNova, AlarmLiveMigration, AlarmNotStarted, AlarmOldCopies, AlarmReservedHostLeft, AlarmStaleOrder, AlarmStateNotRestored, AlarmStillLocked, AlarmStorage, AlarmStorageBrake, AlarmStorageStuck, AlarmStorageUnknown, AlarmInternal,
}
