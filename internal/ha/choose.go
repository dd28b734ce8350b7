package ha

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
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

// Choice are the options of RECOVERY section 2 step 4.
type Choice struct {
	Key         string // metadata key
	All         bool   // evacuate_all_instances
	IgnoreError bool   // ignore_instances_in_error_state
	LeaveLocal  bool   // local_disk = leave
}

// Chosen reports whether the server on a failed host is to be moved, and if not, why.
func (c Choice) Chosen(s Server) (bool, string) {
	opt := OptOf(s, c.Key)
	switch {
	case opt == OptOut:
		return false, "opted out by metadata " + c.Key
	case opt == OptSilent && !c.All:
		return false, "not HA-enabled by metadata " + c.Key
	case s.VMState == VMError && c.IgnoreError:
		return false, "in error state"
	case s.ImageBooted && c.LeaveLocal:
		return false, "its disk is on the dead host, and local_disk is leave"
	case s.VMState == VMShelvedOffloaded:
		return false, "shelved offloaded: on no host"
	default:
		return true, ""
	}
}

// Order sorts moves as they are ordered: HA-enabled first, then by priority, then the oldest instance
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
