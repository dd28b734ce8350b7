package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// bigCloud has so many hosts, of which every other one is registered, with one instance on each. It writes down what is asked of it.
type bigCloud struct {
	Store
	hosts     int
	noEngine  bool
	away      string // the host whose servers cannot be listed
	mu        sync.Mutex
	asked     []string
	now, most int // lists under way, and the most at a time
}

func (c *bigCloud) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, fmt.Sprintf(format, args...))
}

func (c *bigCloud) count(prefix string) (n int) {
	for _, a := range c.asked {
		if strings.HasPrefix(a, prefix) {
			n++
		}
	}
	return n
}

func hostName(i int) string { return fmt.Sprintf("host-%03d", i) }

func (c *bigCloud) Services(context.Context) ([]ha.Service, error) {
	c.note("services")
	all := []ha.Service{{Binary: "nova-scheduler", Up: true}, {Binary: "nova-conductor", Up: true}}
	for i := range c.hosts {
		all = append(all, ha.Service{Binary: ha.BinaryCompute, Host: hostName(i), Up: true, Enabled: true})
	}
	return all, nil
}

func (c *bigCloud) Servers(_ context.Context, host string) ([]ha.Server, error) {
	c.note("servers %s", host)
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	defer func() { c.mu.Lock(); c.now--; c.mu.Unlock() }()
	if host == c.away {
		return nil, &ha.CloudError{Class: ha.ClassBroken, Op: "servers", Text: "the cell is away"}
	}
	return []ha.Server{{ID: "of-" + host, Name: "of-" + host, Host: host, VMState: ha.VMActive, Needs: ha.NeedsOf(map[string]int64{"VCPU": 1}, nil)}}, nil
}

func (c *bigCloud) Server(_ context.Context, id string) (ha.Server, error) {
	return ha.Server{ID: id, VMState: ha.VMShelvedOffloaded}, nil
}

func (c *bigCloud) Migrations(context.Context, string) ([]ha.Migration, error) { return nil, nil }

func (c *bigCloud) Aggregates(context.Context) ([]ha.Aggregate, error) {
	c.note("aggregates")
	return nil, nil
}

func (c *bigCloud) Room(_ context.Context, n ha.Needs) ([]ha.Room, error) {
	c.note("room %s", n.Resources)
	return []ha.Room{{Host: hostName(1), Free: map[string]int64{"VCPU": 9}}, {Host: hostName(2), Free: map[string]int64{"VCPU": 9}}}, nil
}

func (c *bigCloud) HasComputeService(context.Context, string) (bool, error) { return false, nil }

func (c *bigCloud) registered() (hosts []ha.Host) {
	for i := 0; i < c.hosts; i += 2 {
		hosts = append(hosts, ha.Host{ID: int64(i + 1), UUID: "uuid-" + hostName(i), Name: hostName(i), SegmentUUID: "rack"})
	}
	return hosts
}

func (c *bigCloud) Hosts(_ context.Context, _ ha.HostFilter, p ha.Page) ([]ha.Host, error) {
	if p.Limit <= 0 {
		return nil, errors.New("an unbounded look")
	}
	hosts := c.registered()
	from := slices.IndexFunc(hosts, func(h ha.Host) bool { return h.UUID == p.Marker }) + 1
	return hosts[from:min(len(hosts), from+p.Limit)], nil
}

func (c *bigCloud) Outlook(_ context.Context, segment string) (ha.Outlook, error) {
	c.note("outlook %s", segment)
	o := ha.Outlook{Segment: ha.Segment{UUID: segment, Name: segment, Enabled: true, RecoveryMethod: ha.MethodAuto}, Now: time.Now()}
	for _, h := range c.registered() {
		o.Peers = append(o.Peers, ha.Peer{Host: h})
	}
	return o, nil
}

func (c *bigCloud) EngineStates(context.Context) ([]ha.EngineState, error) {
	if c.noEngine {
		return []ha.EngineState{{Engine: ha.Engine{Name: "dead"}, Idle: time.Minute}}, nil
	}
	return []ha.EngineState{{Engine: ha.Engine{Name: "e"}, Idle: time.Second}}, nil
}

func (c *bigCloud) service() *Service {
	return New(c, c, Config{Cloud: c, Rules: plan.Rules{MetadataKey: "HA_Enabled", EvacuateAll: true, ReportInterval: time.Second}})
}

// TestCoverageIsBounded: a big cloud comes page by page; one answer lists each host's servers once, few at a time, reads a segment once,
// and asks Placement once about each kind of instance.
func TestCoverageIsBounded(t *testing.T) {
	c := &bigCloud{hosts: 60, away: hostName(30)}
	s := c.service()
	var names []string
	marker, pages := "", 0
	for {
		c.asked = nil
		hosts, next, err := s.Coverage(t.Context(), marker, 1000)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, h := range hosts {
			names = append(names, h.Name)
			switch {
			case h.Name == c.away:
				if !strings.Contains(h.Err, "the cell is away") || len(h.Moves) > 0 {
					t.Errorf("%s: %+v", h.Name, h)
				}
			case (h.Host == nil) != (h.Segment == nil) || h.Service == nil || len(h.Moves) != 1 || h.Moves[0].Protected != (h.Host != nil):
				t.Errorf("%s: %+v", h.Name, h)
			}
		}
		if len(hosts) > coverageHosts || c.count("servers") != len(hosts) || c.count("room") != 1 || c.count("outlook") != 1 || c.count("services") != 1 || c.count("aggregates") != 0 {
			t.Errorf("%d hosts for %v", len(hosts), c.asked)
		}
		if marker = next; next == "" {
			break
		}
	}
	if len(names) != 60 || !slices.IsSorted(names) || pages != 3 || c.most > coverageAtOnce {
		t.Errorf("%d pages of %v, %d at a time", pages, names, c.most)
	}
	hosts, next, err := s.Coverage(t.Context(), hostName(10), 2)
	if err != nil || len(hosts) != 2 || hosts[0].Name != hostName(11) || next != hostName(12) {
		t.Errorf("two behind a marker: %v %q %v", hosts, next, err)
	}
	if hosts, next, err := s.Coverage(t.Context(), "", 0); err != nil || len(hosts) != 0 || next != "" {
		t.Errorf("none: %v %q %v", hosts, next, err)
	}
}

// TestCoverageWithoutEngine: when no engine beats, nobody is protected, however green the rest.
func TestCoverageWithoutEngine(t *testing.T) {
	c := &bigCloud{hosts: 4, noEngine: true}
	hosts, _, err := c.service().Coverage(t.Context(), "", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hosts {
		if h.Blocks[0].Rule != ha.FindingNoEngine || h.Moves[0].Protected {
			t.Errorf("%+v", h)
		}
	}
}

// TestCoverageOfWhatIsNotThere: errors that name what was asked for.
func TestCoverageOfWhatIsNotThere(t *testing.T) {
	const id = "00000000-0000-4000-8000-00000000000a"
	c := &bigCloud{hosts: 4}
	var conflict *ha.ConflictError
	if _, err := c.service().CoverageOfInstance(t.Context(), id); !errors.As(err, &conflict) || !strings.Contains(conflict.Text, id+" is on no host (shelved_offloaded)") {
		t.Errorf("an instance on no host: %v", err)
	}
	var none *ha.NotFoundError
	if _, err := c.service().CoverageOfInstance(t.Context(), "no uuid"); !errors.As(err, &none) || none.Kind != ha.KindInstance {
		t.Errorf("no uuid: %v", err)
	}
	var away *ha.CloudError
	if _, _, err := New(c, c, Config{}).Coverage(t.Context(), "", 10); !errors.As(err, &away) {
		t.Errorf("without a cloud: %v", err)
	}
	if diff := cmp.Diff([]string{"services"}, c.asked); diff != "" {
		t.Errorf("asked: %s", diff)
	}
}
