package ha

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// KeyPriority is the metadata key of an instance's recovery priority.
const KeyPriority = "HA_Priority"

// Opt is what an instance's metadata says about HA.
type Opt int

const (
	OptSilent Opt = iota // no key: the host's rule decides
	OptIn
	OptOut // spelled out: never recovered
)

// OptOf reads the metadata key (host_failure.ha_enabled_instance_metadata_key). Any case of true and false counts, as
// Masakari's users write it; another value counts as no key.
func OptOf(s Server, key string) Opt {
	v, ok := s.Metadata[key]
	if !ok {
		return OptSilent
	}
	switch strings.ToLower(strings.TrimSpace(v)) {
	case "true", "1", "yes", "on", "y", "t":
		return OptIn
	case "false", "0", "no", "off", "n", "f":
		return OptOut
	default:
		return OptSilent
	}
}

// PriorityOf reads HA_Priority: an integer, higher first, 0 when absent or unreadable.
func PriorityOf(s Server) int {
	n, err := strconv.Atoi(strings.TrimSpace(s.Metadata[KeyPriority]))
	if err != nil {
		return 0
	}
	return n
}

// Choice are the options of RECOVERY section 2 step 4, and the classes of section 6.
type Choice struct {
	Key         string // metadata key
	All         bool   // evacuate_all_instances
	IgnoreError bool   // ignore_instances_in_error_state
	LeaveLocal  bool   // local_disk = leave
	Classes     []InstanceClass
}

// Rule names what decides that an instance is not moved.
type Rule string

const (
	RuleOptOut     Rule = "opted_out"      // spelled out by its metadata
	RuleNotEnabled Rule = "not_ha_enabled" // nothing says that it is to be recovered
	RuleClass      Rule = "class"          // its instance class
	RuleError      Rule = "error_state"    // ignore_instances_in_error_state
	RuleLocalDisk  Rule = "local_disk"     // local_disk = leave
	RuleState      Rule = "state"          // a state that no evacuation fits
)

// Fate is what a failed host's instance comes to, and why.
type Fate struct {
	Move     bool   // it is ordered away
	SetError bool   // it is not moved, but set to error where it is
	Rule     Rule   // what decided that it is not moved, "" when it is
	Why      string // the same, as its vmove says it
	Fix      string // what would have it moved
	Class    string // the class that it is of, "" for none
	HA       bool   // HA-enabled, by its metadata or by its class: ordered before those that are not
	Priority int    // higher first
}

// Wanted reports whether somebody asked for the instance to be moved, by its metadata or its class, and it is not.
func (f Fate) Wanted() bool { return !f.Move && f.HA }

func (f Fate) left(r Rule, why, fix string) Fate {
	f.Rule, f.Why, f.Fix = r, why, fix
	return f
}

// Decide says what the server comes to when its host fails. on are the aggregates that the host is in; they count only for classes
// that ask for them (NeedsAggregates). An owner's no that is spelled out in the metadata goes before every class.
func (c Choice) Decide(s Server, on []Aggregate) Fate {
	opt := OptOf(s, c.Key)
	f := Fate{HA: opt == OptIn, Priority: PriorityOf(s)}
	class, action := ClassOfServer(c.Classes, s, on), ClassAction("")
	if class != nil {
		f.Class, action = class.Name, class.Action
		if class.Priority != nil {
			f.Priority = *class.Priority
		}
		f.HA = f.HA || action == ClassEvacuate && opt != OptOut
	}
	switch {
	case opt == OptOut:
		return f.left(RuleOptOut, "opted out by metadata "+c.Key, "remove the metadata "+c.Key+" of the instance, or set it to True")
	case action == ClassLeave:
		return f.left(RuleClass, fmt.Sprintf("left where it is by instance class %s: %s", class.Name, class), "action of instance_class "+class.Name)
	case class == nil && opt == OptSilent && !c.All:
		return f.left(RuleNotEnabled, "not HA-enabled by metadata "+c.Key, "set the metadata "+c.Key+" of the instance to True")
	case s.VMState == VMError && (c.IgnoreError || action == ClassError):
		return f.left(RuleError, "in error state", "bring the instance out of error, or set ignore_instances_in_error_state to false")
	case s.VMState == VMShelvedOffloaded:
		return f.left(RuleState, "shelved offloaded: on no host", "")
	case s.VMState == VMBuilding:
		return f.left(RuleState, "left as it is: "+s.VMState, "wait until it is built")
	case s.VMState == VMShelved:
		return f.left(RuleState, "left as it is: "+s.VMState, "unshelve it, or wait until it is offloaded")
	case s.VMState == VMDeleted || s.VMState == VMSoftDeleted:
		return f.left(RuleState, "left as it is: "+s.VMState, "")
	case action == ClassError:
		f.SetError = true
		return f.left(RuleClass, fmt.Sprintf("not moved, but set to error, by instance class %s: %s", class.Name, class), "action of instance_class "+class.Name)
	case s.ImageBooted && c.LeaveLocal:
		return f.left(RuleLocalDisk, "its disk is on the dead host, and local_disk is leave", "boot it from a volume, or set local_disk to evacuate, by which its data is lost")
	}
	f.Move = true
	return f
}

// PriorityStage is a priority whose instances are waited for before those of a lower one are begun.
type PriorityStage struct {
	Priority  int
	Classes   []string // that have it
	Wait, Cap time.Duration
}

// Stages are the priorities that others wait for, the highest first: of several classes with one priority the longest times count.
func (c Choice) Stages() (all []PriorityStage) {
	for _, class := range c.Classes {
		if !class.Waits || class.Priority == nil || class.Action != ClassEvacuate {
			continue
		}
		i := slices.IndexFunc(all, func(s PriorityStage) bool { return s.Priority == *class.Priority })
		if i < 0 {
			i = len(all)
			all = append(all, PriorityStage{Priority: *class.Priority})
		}
		s := &all[i]
		s.Classes, s.Wait, s.Cap = append(s.Classes, class.Name), max(s.Wait, class.Wait), max(s.Cap, class.Cap)
	}
	slices.SortFunc(all, func(a, b PriorityStage) int { return cmp.Compare(b.Priority, a.Priority) })
	return all
}

// Restarts says whether a VM report restarts the server, and if not, why. An owner's no goes before every class, and a class before
// process_all_instances.
func (c Choice) Restarts(s Server, on []Aggregate) (bool, string) {
	opt := OptOf(s, c.Key)
	class := ClassOfServer(c.Classes, s, on)
	switch {
	case opt == OptOut:
		return false, "not HA-enabled"
	case class != nil && class.Restart != nil && !*class.Restart:
		return false, fmt.Sprintf("of instance class %s (%s), which is not restarted", class.Name, class)
	case class != nil && class.Restart != nil, opt == OptIn, c.All:
		return true, ""
	}
	return false, "not HA-enabled"
}

// SortMoves sorts moves as they are ordered: HA-enabled first, then by priority, then the oldest instance
// (RECOVERY section 2 step 5); the uuid makes it total.
func SortMoves(moves []VMove) {
	slices.SortStableFunc(moves, func(a, b VMove) int {
		if a.HA != b.HA {
			if a.HA {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Born.Compare(b.Born), cmp.Compare(a.InstanceUUID, b.InstanceUUID))
	})
}
