package demo

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/wire"
)

// stage lets things happen in a world, as operators, monitors and fate do, and looks at what came of it.
type stage struct {
	w     *world
	began time.Time

	mu      sync.Mutex
	scene   Scene // as of the latest look
	calls   int64 // of the cloud, digested
	segment string
}

// Scene is all that can be shown at one moment. What it points to is not changed any more.
type Scene struct {
	At        time.Time
	Began     time.Time
	URL       string // of salvor's API
	Hosts     []Host
	Incidents []Incident // in order of their deaths
	Said      []Line     // what happened outside of incidents, such as a return
	Trouble   string     // the latest look failed so
	Double    int        // instances that ran twice or were ordered twice: never
}

// Host is a host as it is, and as Nova has it.
type Host struct {
	Name       string
	Powered    bool
	Up         bool // for Nova
	ForcedDown bool
	Disabled   bool
	Instances  []Instance
}

// Instance is an instance on the host that it has in Nova.
type Instance struct {
	ID, Name string
	State    state
}

type state int

const (
	untouched state = iota
	lost            // on a host without power, nothing ordered yet
	moving          // ordered
	back            // runs elsewhere
)

// Incident is a host's death and what became of its instances.
type Incident struct {
	Host         string
	DiedAt       time.Time
	ReportedAt   time.Time // zero: the monitor has not reported yet
	Refused      string    // why the report was not taken
	Notification string
	Recovery     wire.Recovery
	Victims      []Victim // in order of their names

	settled bool // ended, and looked at once more
}

// Victim is an instance that was on the host when it died.
type Victim struct {
	ID, Name  string
	To        string // where it runs again, "" before
	BackAt    time.Time
	OrderedAt time.Time // first evacuate order
	Orders    int       // evacuate orders that Nova took since the death
	Locked    bool

	before int // orders that it had taken before
}

// Ended reports that salvor is done with the incident.
func (i Incident) Ended() bool {
	switch i.Recovery.Status {
	case "finished", "failed", "ignored":
		return true
	}
	return i.Refused != ""
}

// Back counts the victims that run again.
func (i Incident) Back() int {
	n := 0
	for _, v := range i.Victims {
		if !v.BackAt.IsZero() {
			n++
		}
	}
	return n
}

// setUp registers all hosts through the API, as an operator does.
func setUp(ctx context.Context, w *world) (*stage, error) {
	s := &stage{w: w, began: time.Now()}
	seg, err := w.api.CreateSegment(ctx, client.NewSegment{Name: "demo", ServiceType: "COMPUTE", RecoveryMethod: "auto"})
	if err != nil {
		return nil, err
	}
	s.segment = seg.UUID
	t, err := w.cloud.state(ctx)
	if err != nil {
		return nil, err
	}
	for _, h := range t.Hosts {
		if _, err := w.api.CreateHost(ctx, seg.UUID, client.NewHost{Name: h.Name, Type: "COMPUTE", ControlAttributes: "demo"}); err != nil {
			return nil, err
		}
	}
	s.began = time.Now()
	s.scene = Scene{Began: s.began, URL: w.url}
	err = s.look(ctx)
	return s, err
}

// current returns the latest scene.
func (s *stage) current() Scene {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scene
}

// kill takes a host's power away.
func (s *stage) kill(ctx context.Context, host string) error {
	before, err := s.w.cloud.state(ctx)
	if err != nil {
		return err
	}
	i := Incident{Host: host}
	for _, ins := range before.Instances {
		if ins.Host == host && ins.VMState == "active" {
			i.Victims = append(i.Victims, Victim{ID: ins.ID, Name: ins.Name, before: ins.Evacuations})
		}
	}
	sortVictims(i.Victims)
	i.DiedAt = time.Now()
	if err := s.w.cloud.kill(ctx, host); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scene.Incidents = append(slices.Clone(s.scene.Incidents), i)
	return nil
}

// report is the monitor's: the host is dead.
func (s *stage) report(ctx context.Context, host string) error {
	at := time.Now()
	n, err := s.w.api.Report(ctx, client.Report{Type: "COMPUTE_HOST", Hostname: host, GeneratedTime: at,
		Payload: map[string]string{"event": "STOPPED", "host_status": "NORMAL", "cluster_status": "OFFLINE"}})
	var refused *wire.Fault
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scene.Incidents = slices.Clone(s.scene.Incidents)
	for k := range slices.Backward(s.scene.Incidents) {
		i := &s.scene.Incidents[k]
		if i.Host != host {
			continue
		}
		i.ReportedAt, i.Notification = at, n.NotificationUUID
		if refused != nil {
			i.Refused = refused.Message
		}
		break
	}
	return nil
}

// revive gives a host power again; the monitor reports that it is back.
func (s *stage) revive(ctx context.Context, host string) error {
	at := time.Now()
	if err := s.w.cloud.revive(ctx, host); err != nil {
		return err
	}
	text := host + " has power again; the monitor reports it STARTED"
	if _, err := s.w.api.Report(ctx, client.Report{Type: "COMPUTE_HOST", Hostname: host, GeneratedTime: at,
		Payload: map[string]string{"event": "STARTED", "host_status": "NORMAL", "cluster_status": "ONLINE"}}); err != nil {
		text = host + " has power again; the report was refused: " + err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scene.Said = append(slices.Clone(s.scene.Said), Line{At: at, Text: text, Tone: good})
	return nil
}

// release is an operator's order to let the host's recovery pass the gate that it waits at.
func (s *stage) release(ctx context.Context, host string) error {
	for _, i := range s.current().Incidents {
		if i.Host == host && !i.Ended() {
			_, err := s.w.api.Order(ctx, i.Notification, client.Release, client.Words{Reason: "released in the demonstration"})
			var refused *wire.Fault
			if errors.As(err, &refused) { // it has gone on meanwhile
				return nil
			}
			return err
		}
	}
	return nil
}

// look sees how everything stands now. Its error is also kept as the scene's trouble.
func (s *stage) look(ctx context.Context) error {
	s.mu.Lock()
	incidents, calls := s.scene.Incidents, s.calls
	s.mu.Unlock()
	t, err := s.w.cloud.state(ctx)
	at := time.Now()
	var orders []order
	if err == nil {
		orders, calls, err = s.w.cloud.orders(ctx, calls)
	}
	recoveries := map[string]wire.Recovery{}
	for _, i := range incidents {
		if err == nil && i.Notification != "" && !i.Ended() {
			recoveries[i.Notification], err = s.w.api.Recovery(ctx, i.Notification)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scene.At = at
	if err != nil {
		s.scene.Trouble = err.Error()
		return err
	}
	s.scene.Trouble, s.calls = "", calls
	s.scene.Double = len(t.Runs) + len(t.Orders)
	s.scene.Incidents = slices.Clone(s.scene.Incidents)
	for k := range s.scene.Incidents {
		i := &s.scene.Incidents[k]
		if r, ok := recoveries[i.Notification]; ok {
			i.Recovery = r
		}
		i.follow(t, orders, at)
	}
	s.scene.Hosts = hostsOf(t, s.scene.Incidents)
	return nil
}

// follow brings the victims up to date, until salvor is done with the incident.
func (i *Incident) follow(t truth, orders []order, at time.Time) {
	if i.settled {
		return
	}
	i.settled = i.Ended()
	i.Victims = slices.Clone(i.Victims)
	byID := map[string]*Victim{}
	for k := range i.Victims {
		byID[i.Victims[k].ID] = &i.Victims[k]
	}
	for _, o := range orders {
		if v := byID[o.instance]; v != nil && v.OrderedAt.IsZero() && o.at.After(i.DiedAt) {
			v.OrderedAt = o.at
		}
	}
	for _, ins := range t.Instances {
		v := byID[ins.ID]
		if v == nil {
			continue
		}
		v.Locked, v.Orders = ins.Locked, ins.Evacuations-v.before
		if v.BackAt.IsZero() && ins.up() && ins.Host != i.Host {
			v.To, v.BackAt = ins.Host, at
		}
	}
}

func hostsOf(t truth, incidents []Incident) []Host {
	victims := map[string]state{}
	for _, i := range incidents {
		for _, v := range i.Victims {
			delete(victims, v.ID) // of an earlier death
			switch {
			case !v.BackAt.IsZero():
				victims[v.ID] = back
			case !v.OrderedAt.IsZero() && !i.Ended():
				victims[v.ID] = moving
			}
		}
	}
	services := map[string]serviceTruth{}
	for _, s := range t.Services {
		if s.Binary == "nova-compute" {
			services[s.Host] = s
		}
	}
	hosts := make([]Host, len(t.Hosts))
	at := map[string]int{}
	for k, h := range t.Hosts {
		s := services[h.Name]
		hosts[k] = Host{Name: h.Name, Powered: h.Powered, Up: s.State == "up", ForcedDown: s.ForcedDown, Disabled: s.Status == "disabled"}
		at[h.Name] = k
	}
	for _, ins := range t.Instances {
		k, ok := at[ins.Host]
		if !ok {
			continue
		}
		shown := Instance{ID: ins.ID, Name: ins.Name, State: victims[ins.ID]}
		if shown.State != moving && !hosts[k].Powered {
			shown.State = lost
		}
		hosts[k].Instances = append(hosts[k].Instances, shown)
	}
	for _, h := range hosts {
		slices.SortFunc(h.Instances, func(a, b Instance) int {
			if (a.State == back) != (b.State == back) { // who came is last
				if a.State == back {
					return 1
				}
				return -1
			}
			return byName(a.Name, b.Name)
		})
	}
	return hosts
}

// next is the host that dies next: of those with power that are not dying already, the one with the most instances. "" when only one is left.
func (s Scene) next(dying map[string]bool) string {
	most, alive, name := -1, 0, ""
	for _, h := range s.Hosts {
		if !h.Powered || dying[h.Name] {
			continue
		}
		alive++
		if len(h.Instances) > most {
			most, name = len(h.Instances), h.Name
		}
	}
	if alive < 2 {
		return ""
	}
	return name
}

// dead is the host that has been without power the longest, of those that are not being revived already; "" for none.
func (s Scene) dead(reviving map[string]bool) string {
	for _, i := range s.Incidents {
		for _, h := range s.Hosts {
			if h.Name == i.Host && !h.Powered && !reviving[h.Name] {
				return h.Name
			}
		}
	}
	return ""
}

// held is the first host whose recovery is held by the brake, "" for none.
func (s Scene) held() string {
	for _, i := range s.Incidents {
		if u := i.Recovery.Unit; !i.Ended() && u != nil && u.Held != nil && u.Held.Gate == "brake" {
			return i.Host
		}
	}
	return ""
}

func sortVictims(vs []Victim) {
	slices.SortFunc(vs, func(a, b Victim) int { return byName(a.Name, b.Name) })
}

// byName puts vm-2 before vm-10.
func byName(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }
