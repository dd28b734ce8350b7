package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/salvor-ha/salvor/internal/ha"
)

// nova is a scripted cloud: it behaves as NOVA-OBSERVATIONS tells, unless a test's script answers instead.
type nova struct {
	t          rapid.TB
	w          *world // for its clock and agenda
	services   []ha.Service
	beating    map[string]bool // hosts whose nova-compute lives
	lives      time.Time       // when the failed host came back last
	servers    []*ha.Server
	migrations []ha.Migration
	actions    map[string][]ha.ServerAction
	providers  map[string][]string
	aggregates []ha.Aggregate
	takes      time.Duration // an evacuation
	dark       string        // why no power controller answers
	away       error         // what every look answers while it is set
	denies     bool          // every look at one instance is answered 404 while it is set
	lists      error         // what the lists of servers and migrations answer while it is set
	script     func(ha.Act) *reply
	sent       []string    // every act, as text
	sentAt     []time.Time // when
	looked     map[string]int
}

// reply is what a script has an act do. Nil: as Nova does.
type reply struct {
	err    error
	takes  bool          // it has its effect, whatever is answered
	effect time.Duration // how late
	answer time.Duration // how late the answer is; 0: at once
}

func (n *nova) service(host string) *ha.Service {
	for i := range n.services {
		if n.services[i].Host == host && n.services[i].Binary == ha.BinaryCompute {
			return &n.services[i]
		}
	}
	n.t.Fatalf("no compute service on %s", host)
	return nil
}

func (n *nova) server(id string) *ha.Server {
	if i := slices.IndexFunc(n.servers, func(s *ha.Server) bool { return s.ID == id }); i >= 0 {
		return n.servers[i]
	}
	return nil
}

func (n *nova) on(host string) (list []ha.Server) {
	for _, s := range n.servers {
		if s.Host == host {
			list = append(list, *s)
		}
	}
	return list
}

// touch moves updated_at, as heartbeats and PUTs do.
func (n *nova) touch(host string) { n.service(host).UpdatedAt = n.w.now }

// beat sends a heartbeat of the host every ten seconds while it lives.
func (n *nova) beat(host string) {
	n.w.at(10*time.Second, func() {
		if n.beating[host] {
			n.touch(host)
		}
		n.beat(host)
	})
}

// die stops a host. Nova does not notice it.
func (n *nova) die(host string) { n.beating[host] = false }

// notice makes Nova call a host down.
func (n *nova) notice(host string) {
	s := n.service(host)
	s.Up = false
	if heard := n.w.now.Add(-time.Minute); s.UpdatedAt.After(heard) { // it is a minute without a heartbeat that Nova calls down
		s.UpdatedAt = heard
	}
}

// live brings a host back: it beats at once, and is up unless it is forced down.
func (n *nova) live(host string) {
	if !n.beating[host] {
		n.lives = n.w.now
	}
	n.beating[host] = true
	n.touch(host)
	n.service(host).Up = !n.service(host).ForcedDown
}

func refused(status int, text string) error {
	return &ha.CloudError{Class: ha.ClassRefused, Status: status, Op: "act", Text: text}
}

func gone(text string) error {
	return &ha.CloudError{Class: ha.ClassGone, Status: 404, Op: "act", Text: text}
}

func busy() error {
	return &ha.CloudError{Class: ha.ClassBusy, Status: 429, Op: "act", Text: "slow down"}
}

func inDoubt() error {
	return &ha.CloudError{Class: ha.ClassInDoubt, Status: 504, Op: "act", Text: "gateway timeout"}
}

func broken() error {
	return &ha.CloudError{Class: ha.ClassBroken, Op: "GET", Text: "no route to host"}
}

// do carries an act out and returns the answer and how late it comes.
func (n *nova) do(a ha.Act) (ha.Outcome, time.Duration) {
	n.sent = append(n.sent, actText(a))
	n.sentAt = append(n.sentAt, n.w.now)
	if a.Kind == ha.ActFence {
		return n.fence(a)
	}
	late := 50 * time.Millisecond
	if n.script != nil {
		if r := n.script(a); r != nil {
			if r.takes && r.effect > 0 {
				n.w.at(r.effect, func() { _, _ = n.take(a) })
			} else if r.takes {
				s, err := n.take(a)
				if r.err == nil {
					return ha.Outcome{Act: a, Err: err, Service: s}, max(late, r.answer)
				}
			}
			return ha.Outcome{Act: a, Err: r.err}, max(late, r.answer)
		}
	}
	s, err := n.take(a)
	return ha.Outcome{Act: a, Err: err, Service: s}, late
}

// fence powers the host off within four seconds, or cannot while dark says why.
func (n *nova) fence(a ha.Act) (ha.Outcome, time.Duration) {
	if n.dark != "" {
		seen := ha.FenceResult{Text: n.dark, Sights: []ha.PowerSight{{Method: "bmc", Power: ha.PowerUnknown, Text: n.dark}}}
		return ha.Outcome{Act: a, Fence: &seen, Err: refused(0, n.dark)}, 5 * time.Second
	}
	n.die(a.Host)
	off := ha.PowerSight{Method: "bmc", Power: ha.PowerOff, Text: "PowerState Off"}
	return ha.Outcome{Act: a, Fence: &ha.FenceResult{Off: true, Text: "bmc saw it off twice", Sights: []ha.PowerSight{off, off}}}, 4 * time.Second
}

func (n *nova) take(a ha.Act) (*ha.Service, error) {
	switch a.Kind {
	case ha.ActService:
		return n.putService(a)
	case ha.ActAggregateAdd, ha.ActAggregateRemove:
		return nil, n.aggregate(a)
	}
	s := n.server(a.Instance)
	if s == nil {
		return nil, gone("Instance " + a.Instance + " could not be found.")
	}
	switch a.Kind {
	case ha.ActLock:
		s.Locked = true
	case ha.ActUnlock:
		s.Locked = false
	case ha.ActResetState:
		s.VMState, s.TaskState = a.State, ""
	case ha.ActStop:
		return nil, n.power(s, "stop", ha.VMActive, ha.VMStopped)
	case ha.ActStart:
		return nil, n.power(s, "start", ha.VMStopped, ha.VMActive)
	case ha.ActEvacuate:
		return nil, n.evacuate(s, a)
	}
	return nil, nil
}

func (n *nova) putService(a ha.Act) (*ha.Service, error) {
	s := n.service(a.Host)
	if a.ForcedDown != nil {
		s.ForcedDown = *a.ForcedDown
		s.Up = !*a.ForcedDown && n.beating[a.Host]
	}
	if a.Enable != nil {
		s.Enabled, s.DisabledReason = *a.Enable, ""
		if !*a.Enable {
			s.DisabledReason = a.Reason
		}
	}
	n.touch(a.Host)
	c := *s
	return &c, nil
}

func (n *nova) aggregate(a ha.Act) error {
	i := slices.IndexFunc(n.aggregates, func(g ha.Aggregate) bool { return g.ID == a.Aggregate })
	if i < 0 {
		return gone("no such aggregate")
	}
	g := &n.aggregates[i]
	in := slices.Contains(g.Hosts, a.Host)
	switch {
	case a.Kind == ha.ActAggregateAdd && in:
		return refused(409, "already there")
	case a.Kind == ha.ActAggregateAdd:
		g.Hosts = append(slices.Clone(g.Hosts), a.Host)
	case in:
		g.Hosts = slices.DeleteFunc(slices.Clone(g.Hosts), func(h string) bool { return h == a.Host })
	default:
		return gone("not there")
	}
	return nil
}

// power stops or starts: a task for half a second, then the new state.
func (n *nova) power(s *ha.Server, what, from, to string) error {
	if s.VMState != from || s.TaskState != "" {
		return refused(409, fmt.Sprintf("Cannot '%s' instance %s while it is in vm_state %s", what, s.ID, s.VMState))
	}
	n.act(s.ID, what, "salvor")
	s.TaskState = what
	n.w.at(500*time.Millisecond, func() { s.VMState, s.TaskState, s.Running = to, "", to == ha.VMActive })
	return nil
}

// act records what was asked of an instance, newest first.
func (n *nova) act(id, what, user string) {
	n.actions[id] = append([]ha.ServerAction{{Action: what, UserID: user, StartedAt: n.w.now}}, n.actions[id]...)
}

// evacuate takes an order: its record at once, its end after takes.
func (n *nova) evacuate(s *ha.Server, a ha.Act) error {
	switch s.VMState {
	case ha.VMActive, ha.VMStopped, ha.VMError:
	default:
		return refused(409, fmt.Sprintf("Cannot 'evacuate' instance %s while it is in vm_state %s", s.ID, s.VMState))
	}
	if a.Target != "" && !slices.ContainsFunc(n.services, func(v ha.Service) bool { return v.Host == a.Target }) {
		return gone("Compute host " + a.Target + " not found.")
	}
	if n.service(s.Host).Up {
		return refused(400, "Compute service of "+s.Host+" is still in use.")
	}
	for _, m := range n.migrations {
		if m.InstanceID == s.ID && m.Type == ha.MigrationEvacuation && m.UnderWay() {
			n.t.Errorf("I4: %s was ordered while record %d of it is %s: Nova wrecks it", s.ID, m.ID, m.Status)
		}
	}
	id := n.record(s.ID, ha.MigrationEvacuation, "accepted", s.Host, a.Target)
	n.act(s.ID, "evacuate", "salvor")
	s.TaskState = "rebuilding"
	n.w.at(n.takes, func() { n.arrive(s, id, a.Target) })
	return nil
}

func (n *nova) record(instance, kind, status, from, to string) int64 {
	id := int64(100 + len(n.migrations))
	n.migrations = append(n.migrations, ha.Migration{ID: id, InstanceID: instance, Type: kind, Status: status, Source: from, Dest: to, CreatedAt: n.w.now})
	return id
}

func (n *nova) setRecord(id int64, status, dest string) {
	for i := range n.migrations {
		if n.migrations[i].ID == id {
			n.migrations[i].Status, n.migrations[i].Dest = status, dest
		}
	}
}

// arrive ends an order: on its target or on the first host that is up and enabled, else NoValidHost.
func (n *nova) arrive(s *ha.Server, id int64, target string) {
	for _, v := range n.services {
		if v.Binary == ha.BinaryCompute && v.Up && v.Enabled && v.Host != s.Host && (target == "" || target == v.Host) {
			n.setRecord(id, "done", v.Host)
			s.Host, s.TaskState, s.Fault = v.Host, "", ""
			if s.VMState == ha.VMError {
				s.VMState = ha.VMActive
			}
			return
		}
	}
	n.setRecord(id, "error", target)
	s.VMState, s.TaskState = ha.VMError, ""
	s.Fault = "No valid host was found. There are not enough hosts available."
}

func actText(a ha.Act) string {
	switch a.Kind {
	case ha.ActService:
		s := "service " + a.Host
		if a.ForcedDown != nil {
			s += map[bool]string{true: " down", false: " up"}[*a.ForcedDown]
		}
		if a.Enable != nil {
			s += map[bool]string{true: " enable", false: " disable"}[*a.Enable]
		}
		return s
	case ha.ActEvacuate:
		if a.Target != "" {
			return "evacuate " + a.Instance + " > " + a.Target
		}
		return "evacuate " + a.Instance
	case ha.ActResetState:
		return "reset " + a.Instance + " " + a.State
	case ha.ActAggregateAdd, ha.ActAggregateRemove:
		return strings.Join([]string{string(a.Kind), a.Aggregate, a.Host}, " ")
	}
	if a.Kind == ha.ActFence {
		return "fence " + a.Host
	}
	return string(a.Kind) + " " + a.Instance
}
