package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Power states as Nova numbers them.
const (
	powerNone      = 0
	powerRunning   = 1
	powerPaused    = 3
	powerShutdown  = 4
	powerSuspended = 7
)

// Task states that the simulator sets.
const (
	taskRebuilding   = "rebuilding"
	taskBlockDevices = "rebuild_block_device_mapping"
	taskSpawning     = "rebuild_spawning"
	taskPoweringOff  = "powering-off"
	taskPoweringOn   = "powering-on"
	taskRebooting    = "rebooting"
	taskRebootHard   = "rebooting_hard"
	taskDeleting     = "deleting"
)

type instance struct {
	n       int // order of birth
	id      string
	name    string
	project string
	user    string

	host     *host // in Nova's database; nil when shelved offloaded
	statusOf *host // whose status host_status shows, when that is not host's
	vm       string
	task     string
	power    int
	locked   bool
	lockedBy string // reason
	metadata map[string]string
	volume   bool // boots from a volume
	flavor   Flavor
	created  time.Time
	updated  time.Time
	fault    *Fault
	gone     bool

	copies  []domain
	allocs  []*host // in whose resource providers Placement holds allocations
	actions []*action
	records []*migration
	rebuild *order // the one that a nova-compute works at
	orders  []*order
	sent    []*sending // evacuate orders, in the order in which they left
	wrecks  int
}

// domain is what a hypervisor holds of an instance.
type domain struct {
	on      *host
	running bool
}

// Fault is what Nova shows of an instance's last failure.
type Fault struct {
	Code    int
	Message string
	At      time.Time
}

// Instance is a snapshot of an instance: what Nova shows of it, and what is true.
type Instance struct {
	ID           string
	Name         string
	ProjectID    string
	UserID       string
	Host         string // "" when it has none
	Hypervisor   string
	HostStatus   string // UP, UNKNOWN, DOWN, MAINTENANCE; "" without a host
	Status       string
	VMState      string
	TaskState    string
	PowerState   int
	Locked       bool
	LockedReason string
	Metadata     map[string]string
	FromVolume   bool
	Flavor       Flavor
	CreatedAt    time.Time
	UpdatedAt    time.Time
	Fault        *Fault

	Evacuations int       // orders that Nova took
	OrderedAt   time.Time // when Nova took the last one; zero without one
	ArrivedAt   time.Time // when that one had brought it to its destination; zero before
	Wrecks      int       // orders that damaged it
	Running     []string  // hosts where it really runs
}

// InstanceSpec describes new instances. Empty fields: active, of project demo, named after their number.
type InstanceSpec struct {
	Name      string
	Metadata  map[string]string
	VMState   string
	TaskState string
	Project   string
	User      string
	// FromVolume makes them boot from a volume, not from an image.
	FromVolume bool
	Flavor     Flavor
}

// Flavor is a flavor's name, "" for tiny, and its extra specs.
type Flavor struct {
	Name       string
	ExtraSpecs map[string]string
}

// AddInstances puts count instances on a host and returns their ids, oldest first.
func (c *Cloud) AddInstances(hostName string, count int, spec InstanceSpec) ([]string, error) {
	c.lock()
	defer c.unlock()
	h := c.hosts[hostName]
	if h == nil {
		return nil, fmt.Errorf("no host %s", hostName)
	}
	if spec.VMState != "" && !slices.Contains(vmStates, spec.VMState) {
		return nil, fmt.Errorf("no vm_state %s: one of %v", spec.VMState, vmStates)
	}
	ids := make([]string, count)
	for i := range ids {
		ids[i] = c.addInstance(h, spec).id
	}
	return ids, nil
}

var vmStates = []string{ha.VMActive, ha.VMStopped, ha.VMError, ha.VMPaused, ha.VMSuspended, ha.VMRescued, ha.VMResized,
	ha.VMBuilding, ha.VMShelved, ha.VMShelvedOffloaded, ha.VMSoftDeleted}

func (c *Cloud) addInstance(h *host, spec InstanceSpec) *instance {
	c.born++
	ins := &instance{
		n:        c.born,
		id:       c.uuid("instance", c.born),
		name:     spec.Name,
		project:  cmp.Or(spec.Project, ProjectDemo),
		user:     cmp.Or(spec.User, UserDemo),
		vm:       cmp.Or(spec.VMState, ha.VMActive),
		task:     spec.TaskState,
		metadata: maps.Clone(spec.Metadata),
		volume:   spec.FromVolume,
		flavor:   Flavor{Name: cmp.Or(spec.Flavor.Name, "tiny"), ExtraSpecs: maps.Clone(spec.Flavor.ExtraSpecs)},
		created:  c.now.Add(-time.Hour + time.Duration(c.born)*time.Millisecond),
		updated:  c.now,
	}
	if ins.name == "" {
		ins.name = fmt.Sprintf("vm-%d", ins.n)
	}
	ins.power = powerOf(ins.vm)
	if ins.vm == ha.VMError {
		ins.power, ins.fault = powerRunning, &Fault{Code: 500, Message: "Simulated error", At: c.now}
	}
	c.instances[ins.id] = ins
	c.ordered = append(c.ordered, ins)
	if ins.vm != ha.VMShelvedOffloaded {
		c.setHost(ins, h)
		c.allocate(ins, h)
		c.hold(ins, h)
		if ins.power == powerRunning && h.powered {
			c.runs(ins, h)
		}
	}
	return ins
}

// powerOf is the power state that goes with a vm_state.
func powerOf(vm string) int {
	switch vm {
	case ha.VMActive, ha.VMRescued:
		return powerRunning
	case ha.VMPaused:
		return powerPaused
	case ha.VMSuspended:
		return powerSuspended
	case ha.VMBuilding:
		return powerNone
	default:
		return powerShutdown
	}
}

// show takes the instance's snapshot.
func (c *Cloud) show(ins *instance) Instance {
	out := Instance{
		ID: ins.id, Name: ins.name, ProjectID: ins.project, UserID: ins.user,
		Status: statusOf(ins.vm, ins.task), VMState: ins.vm, TaskState: ins.task, PowerState: ins.power,
		Locked: ins.locked, LockedReason: ins.lockedBy, Metadata: maps.Clone(ins.metadata), FromVolume: ins.volume, Flavor: ins.flavor,
		CreatedAt: c.stamp(ins.created), UpdatedAt: c.stamp(ins.updated),
		Evacuations: len(ins.orders), Wrecks: ins.wrecks, Running: ins.runningOn(),
	}
	if n := len(ins.orders); n > 0 {
		out.OrderedAt, out.ArrivedAt = ins.orders[n-1].begun, ins.orders[n-1].done
	}
	if ins.fault != nil && out.Status == "ERROR" {
		f := *ins.fault
		f.At = c.stamp(f.At)
		out.Fault = &f
	}
	if ins.host != nil {
		out.Host, out.Hypervisor = ins.host.name, ins.host.hypervisor
		out.HostStatus = c.hostStatus(cmp.Or(ins.statusOf, ins.host).service)
	}
	return out
}

func (c *Cloud) hostStatus(s *service) string {
	switch {
	case s.disabled:
		return "MAINTENANCE"
	case s.forcedDown:
		return "DOWN"
	case !c.isUp(s):
		return "UNKNOWN"
	default:
		return "UP"
	}
}

// set writes the instance's states.
func (c *Cloud) set(ins *instance, vm, task string, power int) {
	ins.vm, ins.task, ins.power, ins.updated = vm, task, power, c.now
}

func (c *Cloud) setTask(ins *instance, task string) { c.set(ins, ins.vm, task, ins.power) }

// setHost moves the instance to h in Nova's database. nil: to none.
func (c *Cloud) setHost(ins *instance, h *host) {
	byBirth := func(a *instance, n int) int { return cmp.Compare(a.n, n) }
	if old := ins.host; old != nil {
		if i, found := slices.BinarySearchFunc(old.instances, ins.n, byBirth); found {
			old.instances = slices.Delete(old.instances, i, i+1)
		}
	}
	ins.host, ins.updated = h, c.now
	if h != nil {
		i, _ := slices.BinarySearchFunc(h.instances, ins.n, byBirth)
		h.instances = slices.Insert(h.instances, i, ins)
	}
}

// Instance returns the live instance with this id.
func (c *Cloud) Instance(id string) (Instance, bool) {
	c.lock()
	defer c.unlock()
	ins := c.instances[id]
	if ins == nil {
		return Instance{}, false
	}
	return c.show(ins), true
}

// InstanceQuery selects instances. They come newest first, as Nova lists them.
type InstanceQuery struct {
	Host    string
	Project string
	Name    string // part of the name
	Marker  string // the id of the last one of the page before
	Limit   int    // 0: all
	// Deleted adds the soft deleted ones, which Nova does not list.
	Deleted bool
}

// Instances lists instances; more says that there are further ones after the limit.
func (c *Cloud) Instances(q InstanceQuery) (out []Instance, more bool, err error) {
	c.lock()
	defer c.unlock()
	from := c.ordered
	if q.Host != "" {
		from = nil
		if h := c.hosts[q.Host]; h != nil {
			from = h.instances
		}
	}
	end := len(from)
	if q.Marker != "" {
		m := c.instances[q.Marker]
		if m == nil {
			return nil, false, badRequest("marker [%s] not found", q.Marker)
		}
		end, _ = slices.BinarySearchFunc(from, m.n, func(a *instance, n int) int { return cmp.Compare(a.n, n) })
	}
	for i := end - 1; i >= 0; i-- {
		if !q.takes(from[i]) {
			continue
		}
		if q.Limit > 0 && len(out) == q.Limit {
			return out, true, nil
		}
		out = append(out, c.show(from[i]))
	}
	return out, false, nil
}

func (q InstanceQuery) takes(ins *instance) bool {
	return (q.Deleted || ins.vm != ha.VMSoftDeleted) &&
		(q.Project == "" || ins.project == q.Project) &&
		(q.Name == "" || strings.Contains(ins.name, q.Name))
}

// plainStatus is the status that a vm_state has without a task.
var plainStatus = map[string]string{
	ha.VMActive: "ACTIVE", ha.VMStopped: "SHUTOFF", ha.VMError: "ERROR", ha.VMPaused: "PAUSED",
	ha.VMSuspended: "SUSPENDED", ha.VMRescued: "RESCUE", ha.VMResized: "VERIFY_RESIZE", ha.VMBuilding: "BUILD",
	ha.VMShelved: "SHELVED", ha.VMShelvedOffloaded: "SHELVED_OFFLOADED", ha.VMSoftDeleted: "SOFT_DELETED",
}

// statusOf is Nova's mapping of vm_state and task_state to the status that users see.
func statusOf(vm, task string) string {
	rebuild := task == taskRebuilding || task == taskBlockDevices || task == taskSpawning
	switch {
	case rebuild && (vm == ha.VMActive || vm == ha.VMStopped || vm == ha.VMError):
		return "REBUILD"
	case vm == ha.VMActive && (task == taskRebooting || task == "reboot_pending" || task == "reboot_started"):
		return "REBOOT"
	case vm == ha.VMActive && (task == taskRebootHard || task == "reboot_pending_hard" || task == "reboot_started_hard"):
		return "HARD_REBOOT"
	case task == ha.TaskStateMigrating && (vm == ha.VMActive || vm == ha.VMPaused):
		return "MIGRATING"
	case vm == ha.VMActive && (task == "resize_prep" || task == "resize_migrating" || task == "resize_migrated" || task == "resize_finish"):
		return "RESIZE"
	}
	return plainStatus[vm]
}
