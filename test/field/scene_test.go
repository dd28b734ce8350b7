package field

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/engine"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
	"github.com/salvor-ha/salvor/internal/service"
	"github.com/salvor-ha/salvor/internal/sim"
	"github.com/salvor-ha/salvor/internal/store/memstore"
)

// cast is what a scene begins with. The zero value: four hosts, method auto, one engine, salvor's defaults.
type cast struct {
	cloud   sim.Options
	method  ha.Method
	spares  []string // reserved, and disabled in Nova, as Masakari's users keep them
	engines int
	idle    bool // no engine runs yet
	alone   bool // each engine believes that it is the only one: all claim at once
	rules   func(*plan.Rules)
}

// scene is salvor and a cloud, in virtual time.
type scene struct {
	*testing.T
	cast    cast
	ctx     context.Context
	start   time.Time
	cloud   *sim.Cloud
	rows    *memstore.Store
	salvor  *service.Service // what the api calls
	segment string
	hosts   map[string]string // name -> uuid
	real    bool              // time is real, not virtual

	mu     sync.Mutex
	procs  []*process
	alarms []string
	log    []string
	claims map[string]bool
}

// process is one engine with its ways to the database and to Nova.
type process struct {
	name   string
	engine *engine.Engine
	db     *link
	nova   *sim.Nova
	stop   context.CancelFunc
	done   chan struct{}
}

// play runs a scene in a bubble of virtual time.
func play(t *testing.T, c cast, act func(*scene)) {
	t.Helper()
	outer := t // what act calls t is this one
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &scene{T: t, cast: c, ctx: ctx, start: time.Now(), rows: memstore.New(memstore.Config{}), cloud: sim.New(c.cloud),
			hosts: map[string]string{}, claims: map[string]bool{}}
		defer func() {
			if t.Failed() || outer.Failed() {
				t.Logf("%s", s.story())
			}
			s.curtain()
			cancel()
		}()
		s.serve(s.cloud.Nova(sim.ClientOptions{Name: "api"}))
		if !c.idle {
			for range max(1, c.engines) {
				s.engine()
			}
		}
		act(s)
	})
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// serve opens the use cases, and registers the cloud's hosts.
func (s *scene) serve(compute service.ComputeServices) {
	s.Helper()
	s.salvor = service.New(s.rows, compute, service.Config{DuplicateInterval: 180 * time.Second})
	method := s.cast.method
	if method == "" {
		method = ha.MethodAuto
	}
	seg, err := s.salvor.CreateSegment(s.ctx, ha.Segment{Name: "rack", ServiceType: "COMPUTE", RecoveryMethod: method, Enabled: true})
	s.must(err)
	s.segment = seg.UUID
	for _, h := range s.cloud.Hosts() {
		s.host(h.Name, slices.Contains(s.cast.spares, h.Name))
		if slices.Contains(s.cast.spares, h.Name) {
			s.disable(h.Name, "spare")
		}
	}
}

// host registers a host of the segment.
func (s *scene) host(name string, reserved bool) {
	s.Helper()
	h, _, err := s.salvor.CreateHost(s.ctx, s.segment, ha.Host{Name: name, Type: "COMPUTE", ControlAttributes: "SSH", Reserved: reserved})
	s.must(err)
	s.hosts[name] = h.UUID
}

func (s *scene) rules() plan.Rules {
	r := plan.Rules{
		MetadataKey: "HA_Enabled", EvacuateAll: true, DisableReason: "salvor: host failed", ProcessReason: "salvor: process failed",
		VMMetadataKey: "HA_Enabled", WaitService: 180 * time.Second, WaitEvacuation: 90 * time.Second, WaitPowerOff: 180 * time.Second,
		WaitPowerOn: 60 * time.Second, RetryInterval: 120 * time.Second, Expiry: 24 * time.Hour, ForceDown: true,
		ReportInterval: 2 * time.Second, ProofMaxAge: 60 * time.Second, OrderInDoubt: 60 * time.Second, NovaTimeout: 30 * time.Second,
		BrakePercent: 50, RecoveryRate: 10, MaxAttempts: 3, HealthyDelay: 5 * time.Minute, VerifyInterval: time.Second,
		ProcessesOfNova: []string{ha.ProcessNovaCompute},
	}
	if s.cast.rules != nil {
		s.cast.rules(&r)
	}
	return r
}

// engine starts an engine under a name never used before.
func (s *scene) engine() *process {
	s.mu.Lock()
	p := &process{name: fmt.Sprintf("engine-%d", len(s.procs)+1), done: make(chan struct{})}
	s.procs = append(s.procs, p)
	s.mu.Unlock()
	p.db = newLink(s)
	p.nova = s.cloud.Nova(sim.ClientOptions{Name: p.name, MinLatency: 5 * time.Millisecond, MaxLatency: 30 * time.Millisecond})
	p.engine = engine.New(engine.Config{
		Name: p.name, Host: "ctl", TTL: 5 * time.Second, Tick: time.Second, Poll: 500 * time.Millisecond, DrainTimeout: 5 * time.Second,
		CallTimeout: 30 * time.Second, Concurrency: 32, Rules: s.rules(), Log: slog.New(&diary{s: s}),
	}, p.db, p.nova, nil)
	ctx, cancel := context.WithCancel(s.ctx)
	p.stop = cancel
	go func() {
		defer close(p.done)
		p.engine.Run(ctx)
	}()
	return p
}

// crash ends an engine as kill -9 does: whatever it was about to do, it does not.
func (p *process) crash() {
	p.db.freeze()
	p.nova.Freeze()
}

// quit stops an engine in good order.
func (p *process) quit() {
	p.stop()
	<-p.done
}

// curtain ends all engines, also those that crashed.
func (s *scene) curtain() {
	for _, p := range s.procs {
		p.nova.Partition()
		p.nova.Thaw()
		p.db.end()
		p.stop()
	}
	for _, p := range s.procs {
		<-p.done
	}
	s.cloud.Close()
}

// pass lets time go by, and what is due then be done: nobody looks between a commit and what its engine makes of it.
func (s *scene) pass(d time.Duration) {
	time.Sleep(d)
	if !s.real {
		synctest.Wait()
	}
}

// until lets time go by until something is so.
func (s *scene) until(what string, within time.Duration, is func() bool) {
	s.Helper()
	for end := time.Now().Add(within); !is(); s.pass(50 * time.Millisecond) {
		if !time.Now().Before(end) {
			s.Fatalf("not so within %s: %s", within, what)
		}
	}
}

func (s *scene) instances(host string, n int, spec sim.InstanceSpec) []string {
	s.Helper()
	ids, err := s.cloud.AddInstances(host, n, spec)
	s.must(err)
	return ids
}

// ofHA are the metadata of an instance that is to be recovered.
func ofHA() sim.InstanceSpec {
	return sim.InstanceSpec{Metadata: map[string]string{"HA_Enabled": "True"}}
}

// dies takes a host's power and waits until Nova has noticed.
func (s *scene) dies(host string) {
	s.Helper()
	s.must(s.cloud.Kill(host))
	s.until("Nova sees "+host+" down", time.Minute, func() bool { return !s.service(host).Up })
}

func (s *scene) returns(host string) { s.Helper(); s.must(s.cloud.Revive(host)) }

// posts files a report as a monitor does; the error is what the monitor would be told.
func (s *scene) posts(host string, typ ha.Type, at time.Time, p ha.Payload) (string, error) {
	n, err := s.salvor.Report(s.ctx, ha.Report{Type: typ, Hostname: host, GeneratedTime: at.UTC(), Payload: p})
	return n.UUID, err
}

func hostPayload(event, status string) ha.Payload {
	return ha.Payload{ha.KeyEvent: event, ha.KeyClusterStatus: map[string]string{ha.EventStopped: "OFFLINE", ha.EventStarted: "ONLINE"}[event], ha.KeyHostStatus: status}
}

func crashPayload(instance string) ha.Payload {
	return ha.Payload{ha.KeyEvent: "LIFECYCLE", ha.KeyVirDomainEvent: "STOPPED_FAILED", ha.KeyInstanceUUID: instance}
}

func processPayload(event, name string) ha.Payload {
	return ha.Payload{ha.KeyEvent: event, ha.KeyProcessName: name}
}

// reports files one that must be admitted.
func (s *scene) reports(host string, typ ha.Type, p ha.Payload) string {
	s.Helper()
	id, err := s.posts(host, typ, time.Now(), p)
	s.must(err)
	return id
}

func (s *scene) down(host string) string {
	s.Helper()
	return s.reports(host, ha.TypeComputeHost, hostPayload(ha.EventStopped, ha.HostStatusNormal))
}

func (s *scene) up(host string) string {
	s.Helper()
	return s.reports(host, ha.TypeComputeHost, hostPayload(ha.EventStarted, ha.HostStatusNormal))
}

// fault arms a fault of Nova.
func (s *scene) fault(f sim.FaultRule) { s.Helper(); s.must(s.cloud.AddFault(f)) }

// disable is an operator's disabling of a compute service.
func (s *scene) disable(host, reason string) {
	s.Helper()
	yes := true
	_, _, err := s.cloud.UpdateService(admin, s.service(host).ID, sim.ServicePatch{Disabled: &yes, Reason: &reason})
	s.must(err)
}

var (
	admin  = sim.Caller{UserID: sim.UserAdmin, ProjectID: sim.ProjectAdmin, Admin: true}
	tenant = sim.Caller{UserID: sim.UserDemo, ProjectID: sim.ProjectDemo}
)

func (s *scene) service(host string) sim.Service {
	s.Helper()
	list := s.cloud.Services(ha.BinaryCompute, host)
	if len(list) != 1 {
		s.Fatalf("%d compute services of %s", len(list), host)
	}
	return list[0]
}

func (s *scene) instance(id string) sim.Instance {
	s.Helper()
	i, ok := s.cloud.Instance(id)
	if !ok {
		s.Fatalf("no instance %s", id)
	}
	return i
}

// registered is a host as salvor's API shows it.
func (s *scene) registered(host string) ha.Host {
	s.Helper()
	h, _, err := s.salvor.Host(s.ctx, s.segment, s.hosts[host])
	s.must(err)
	return h
}

func (s *scene) note(id string) (ha.Status, string) {
	s.Helper()
	n, err := s.salvor.Notification(s.ctx, id)
	s.must(err)
	return n.Status, text(n.Message)
}

// becomes waits until a notification has a status and a message that contains part.
func (s *scene) becomes(id string, want ha.Status, part string, within time.Duration) {
	s.Helper()
	var status ha.Status
	var message string
	for end := time.Now().Add(within); ; s.pass(50 * time.Millisecond) {
		if status, message = s.note(id); status == want && strings.Contains(message, part) {
			return
		}
		if !status.Open() && status != want || !time.Now().Before(end) {
			s.Fatalf("notification is %s %q after %s, want %s %q", status, message, time.Since(s.start), want, part)
		}
	}
}

func (s *scene) moves(id string) map[string]ha.VMove {
	s.Helper()
	list, err := s.rows.VMoves(s.ctx, ha.VMoveFilter{NotificationUUID: id}, ha.Page{Limit: 1000, Sort: []ha.Sort{{Field: ha.FieldID}}})
	s.must(err)
	moves := map[string]ha.VMove{}
	for _, m := range list {
		if _, twice := moves[m.InstanceUUID]; twice {
			s.Errorf("two rows for instance %s", m.InstanceUUID)
		}
		moves[m.InstanceUUID] = m
	}
	return moves
}

// retries is an operator's retry of a recovery that has ended; it waits until an engine has begun it.
func (s *scene) retries(id string) {
	s.Helper()
	before, _ := s.note(id)
	s.must(s.salvor.Wish(s.ctx, id, ha.Wish{Kind: ha.WishRetry, By: "op"}))
	s.until("the retry begins", 10*time.Second, func() bool { now, _ := s.note(id); return now != before })
}

// moved wants a vmove of the notification to have ended so.
func (s *scene) moved(id, instance string, want ha.MoveStatus, part string) {
	s.Helper()
	if m := s.moves(id)[instance]; m.Status != want || !strings.Contains(text(m.Message), part) {
		s.Errorf("vmove of %s is %q %q, want %s %q", instance, m.Status, text(m.Message), want, part)
	}
}

// arrived wants an instance to be away from the dead host, in that state, unlocked, ordered once and unharmed.
func (s *scene) arrived(instance, from, state string) {
	s.Helper()
	i := s.instance(instance)
	if i.Host == from || i.VMState != state || i.TaskState != "" || i.Locked || i.Evacuations != 1 || i.Wrecks != 0 {
		s.Errorf("instance %s: on %s, %s %s, locked %v, %d orders, want %s away from %s by one order", i.Name, i.Host, i.VMState, i.TaskState, i.Locked, i.Evacuations, state, from)
	}
}

// calls are the engines' calls to Nova that match, oldest first.
func (s *scene) calls(match func(sim.Call) bool) (list []sim.Call) {
	for _, c := range s.cloud.Calls(0) {
		if strings.HasPrefix(c.Client, "engine") && match(c) {
			list = append(list, c)
		}
	}
	return list
}

// writes are the engines' calls that change something.
func (s *scene) writes() []sim.Call {
	return s.calls(func(c sim.Call) bool { return c.Method != "GET" })
}

func (s *scene) acts(action, instance string) []sim.Call {
	return s.calls(func(c sim.Call) bool { return c.Action == action && (instance == "" || c.Instance == instance) })
}

func (s *scene) puts(host string) []sim.Call {
	return s.calls(func(c sim.Call) bool { return c.Method == "PUT" && c.Host == host })
}

// untouched wants that Nova was asked to change nothing.
func (s *scene) untouched() {
	s.Helper()
	for _, c := range s.writes() {
		s.Errorf("Nova was asked to change something: %s %s %s %s", c.Method, c.Path, c.Action, c.Host)
	}
}

// harmless wants that no instance ran twice, and none was ordered twice.
func (s *scene) harmless() {
	s.Helper()
	for _, d := range s.cloud.DoubleRuns() {
		s.Errorf("instance %s ran on %v", d.Instance, d.Hosts)
	}
	for _, d := range s.cloud.DoubleOrders() {
		s.Errorf("instance %s was ordered (record %d) while order %d was under way", d.Instance, d.Later, d.Earlier)
	}
}

func (s *scene) journal(id string) []ha.Entry {
	s.Helper()
	entries, err := s.rows.Journal(s.ctx, id, 0, 10000)
	s.must(err)
	return entries
}

// alarmed reports whether an alarm with that part was written, by any unit.
func (s *scene) alarmed(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.alarms, func(a string) bool { return strings.Contains(a, part) })
}

// claimed lists salvor's claims on a host, as "what detail".
func (s *scene) claimed(host string) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.claims {
		if rest, is := strings.CutPrefix(c, s.hosts[host]+" "); is {
			list = append(list, strings.TrimSpace(rest))
		}
	}
	slices.Sort(list)
	return list
}

func text(t *string) string {
	if t == nil {
		return ""
	}
	return *t
}

// as returns err as an E.
func as[E error](s *scene, err error) (e E) {
	s.Helper()
	if !errors.As(err, &e) {
		s.Fatalf("error is %v, want %T", err, e)
	}
	return e
}
