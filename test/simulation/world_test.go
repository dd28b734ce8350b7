package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/blob"
	"github.com/salvor-ha/salvor/internal/engine"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
	"github.com/salvor-ha/salvor/internal/service"
	"github.com/salvor-ha/salvor/internal/sim"
	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/store/memstore"
)

// Sizes and times of a world.
const (
	hosts     = 6
	engines   = 3
	leaseTTL  = 5 * time.Second
	takeover  = 8 * time.Second // invariant I10
	chaosTime = 3 * time.Minute
	horizon   = 20 * time.Minute
)

// rows is a store as engines and use cases see it.
type rows interface {
	engine.Store
	service.Store
}

// world is everything of one seed.
type world struct {
	t          *testing.T
	seed       uint64
	rng        *rand.Rand
	plant      plant
	ctx        context.Context
	cloud      *sim.Cloud
	store      rows
	start      time.Time
	chaosTime  time.Duration // how long things go wrong
	slow       int           // milliseconds that a statement takes at most
	closeStore func()
	sqlite     bool // the real store instead of the one in memory
	fencing    bool // every host can be fenced

	segment string
	hostID  map[string]string // name -> uuid
	hostOf  map[string]string // uuid -> name

	mu      sync.Mutex
	procs   []*process
	born    int
	story   []string
	broken  []string
	owners  map[int64]ha.Lease // by work id, the latest claim
	moved   map[int64]time.Time
	keys    map[int64]string
	ended   map[int64]bool
	claims  map[string]ha.Claim
	spares  map[string]int64 // reserved host -> work
	dead    map[string]time.Time
	alive   map[string]time.Time // host -> since when it is up
	before  map[string]sim.Instance
	deleted map[string]bool
	told    map[string]bool // notifications admitted
	calls   int64
	reports map[string]time.Time // host -> when its death was admitted, until it returns
	revived bool
	strikes int
	quiet   bool // the chaos is over
	orders  atomic.Int32
	back    *wayBack // nil: what is left in the end is not looked at
	disks   *disks   // nil: the hosts have no agents
}

// process is one engine.
type process struct {
	name   string
	e      *engine.Engine
	db     *link
	nova   *sim.Nova
	cancel context.CancelFunc
	done   chan struct{}
	gone   time.Time // when it crashed
	paused bool
	held   []string
	well   time.Time // since when nothing was wrong with it
}

func newWorld(t *testing.T, seed uint64, p plant) *world {
	w := &world{
		t: t, seed: seed, plant: p, rng: rand.New(rand.NewPCG(seed, 1)), start: time.Now(), chaosTime: chaosTime,
		hostID: map[string]string{}, hostOf: map[string]string{}, owners: map[int64]ha.Lease{}, moved: map[int64]time.Time{},
		keys: map[int64]string{}, ended: map[int64]bool{}, claims: map[string]ha.Claim{}, spares: map[string]int64{},
		dead: map[string]time.Time{}, alive: map[string]time.Time{}, before: map[string]sim.Instance{},
		deleted: map[string]bool{}, told: map[string]bool{}, reports: map[string]time.Time{},
	}
	return w
}

func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, fmt.Sprintf("%9.3f  %s", time.Since(w.start).Seconds(), fmt.Sprintf(format, args...)))
}

// violated records that an invariant does not hold.
func (w *world) violated(invariant, format string, args ...any) {
	text := invariant + ": " + fmt.Sprintf(format, args...)
	w.mu.Lock()
	known := slices.Contains(w.broken, text)
	if !known {
		w.broken = append(w.broken, text)
	}
	w.mu.Unlock()
	if !known {
		w.tell("VIOLATED %s", text)
	}
}

func rules() plan.Rules {
	return plan.Rules{
		MetadataKey: "HA_Enabled", EvacuateAll: true, DisableReason: "salvor: host failed", ProcessReason: "salvor: process failed",
		VMMetadataKey: "HA_Enabled", WaitService: 180 * time.Second, WaitEvacuation: 90 * time.Second, WaitPowerOff: 180 * time.Second,
		WaitPowerOn: 60 * time.Second, RetryInterval: 120 * time.Second, Expiry: 12 * time.Minute, ForceDown: true,
		ReportInterval: 2 * time.Second, ProofMaxAge: 60 * time.Second, OrderInDoubt: 60 * time.Second, NovaTimeout: 30 * time.Second,
		BrakePercent: 50, RecoveryRate: 10, MaxAttempts: 3, HealthyDelay: 5 * time.Minute, VerifyInterval: time.Second,
		ProcessesOfNova: []string{ha.ProcessNovaCompute},
	}
}

// build makes the cloud, its instances, the segment and its hosts.
func (w *world) build() {
	w.store, w.closeStore = memstore.New(memstore.Config{}), func() {}
	if w.sqlite {
		s, err := store.Open(w.ctx, store.Config{URL: "sqlite://"})
		if err == nil {
			err = s.Sync(w.ctx)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		w.store, w.closeStore = s, func() { _ = s.Close() }
	}
	capacity := 0
	if w.rng.IntN(4) == 0 {
		capacity = 6 + w.rng.IntN(4)
	}
	w.slow = []int{8, 8, 250}[w.rng.IntN(3)]
	w.fencing = w.rng.IntN(3) == 0
	rate := 0.0
	if w.rng.IntN(2) == 0 { // a slow cloud: orders are under way for long
		rate = 0.15 + w.rng.Float64()/2
	}
	w.cloud = sim.New(sim.Options{Seed: w.seed, Hosts: hosts, Capacity: capacity, Rate: rate, ResumeGuests: w.rng.IntN(2) == 0})
	states := []string{"", "", "", "", ha.VMStopped, ha.VMError, ha.VMPaused, ha.VMResized, ha.VMSuspended, ha.VMBuilding}
	for h := range hosts {
		for range w.rng.IntN(8) {
			spec := sim.InstanceSpec{VMState: states[w.rng.IntN(len(states))], Metadata: map[string]string{}}
			if w.rng.IntN(2) == 0 {
				spec.Metadata["HA_Enabled"] = []string{"True", "true", "False"}[w.rng.IntN(3)]
			}
			ids, err := w.cloud.AddInstances(hostName(h), 1, spec)
			if err != nil {
				w.t.Fatal(err)
			}
			if w.rng.IntN(6) == 0 {
				_ = w.cloud.Act(sim.Masakari(), ids[0], sim.ServerAction{Name: "lock"})
			}
		}
	}
	for _, i := range w.instances() {
		w.before[i.ID] = i
	}
	method := ha.Methods[w.rng.IntN(len(ha.Methods))]
	seg, err := w.store.CreateSegment(w.ctx, ha.Segment{UUID: uuid.NewString(), Name: "rack", ServiceType: "COMPUTE", RecoveryMethod: method, Enabled: true})
	if err != nil {
		w.t.Fatal(err)
	}
	w.segment = seg.UUID
	spares := 0
	if method != ha.MethodAuto {
		spares = 1 + w.rng.IntN(2)
	}
	for h := range hosts {
		host, err := w.store.CreateHost(w.ctx, ha.Host{UUID: uuid.NewString(), Name: hostName(h), SegmentUUID: seg.UUID, Type: "COMPUTE",
			ControlAttributes: "SSH", Reserved: h >= hosts-spares})
		if err != nil {
			w.t.Fatal(err)
		}
		w.hostID[host.Name], w.hostOf[host.UUID] = host.UUID, host.Name
		w.alive[host.Name] = w.start.Add(-time.Hour)
	}
	w.tell("world: method %s, %d spares, capacity %d, rate %.1f, statements of up to %d ms, fencing %v, %d instances", method, spares, capacity, rate, w.slow, w.fencing, len(w.before))
}

func hostName(i int) string { return fmt.Sprintf("host-%d", i+1) }

func (w *world) instances() []sim.Instance {
	list, _, err := w.cloud.Instances(sim.InstanceQuery{})
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// startEngine starts a process under a name never used before.
func (w *world) startEngine() {
	w.mu.Lock()
	w.born++
	name := fmt.Sprintf("engine-%d", w.born)
	w.mu.Unlock()
	p := &process{name: name, db: newLink(w, name, w.seed*31+uint64(w.born)), done: make(chan struct{})}
	p.nova = w.cloud.Nova(sim.ClientOptions{Name: name, MinLatency: 5 * time.Millisecond, MaxLatency: 120 * time.Millisecond})
	p.e = engine.New(engine.Config{
		Name: name, Host: "ctl", TTL: leaseTTL, Tick: time.Second, Poll: 500 * time.Millisecond, DrainTimeout: 5 * time.Second,
		CallTimeout: 30 * time.Second, Concurrency: 32, Rules: w.rules(), Blobs: blob.Rules{Total: 12, PerSource: 6, PerTarget: 4, Grace: 20 * time.Minute}, Log: slog.New(&storyHandler{w: w}),
	}, p.db, spoiled{p.nova, w.plant, &w.orders}, &fencer{w: w, p: p, rng: rand.New(rand.NewPCG(w.seed*31+uint64(w.born), 9))})
	ctx, cancel := context.WithCancel(w.ctx)
	p.cancel = cancel
	go func() {
		defer close(p.done)
		p.e.Run(ctx)
	}()
	w.mu.Lock()
	p.well = time.Now()
	w.procs = append(w.procs, p)
	w.mu.Unlock()
	w.tell("%s starts", name)
}

func (w *world) rules() plan.Rules {
	r := rules()
	if w.back != nil {
		r = w.back.rules(r)
	}
	if w.plant == plantNoBrake {
		r.BrakePercent = 0
	}
	return r
}

// up lists the engines that run.
func (w *world) up() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.procs), func(p *process) bool { return !p.gone.IsZero() })
}

// report posts a death or a return, n times at once, and checks that at most one is admitted (invariant I7).
func (w *world) report(host, event, status string, n int) {
	payload := ha.Payload{ha.KeyEvent: event, ha.KeyHostStatus: status, ha.KeyClusterStatus: "OFFLINE"}
	generated := time.Now().UTC()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var admitted []string
	for range n {
		wg.Go(func() {
			note, err := w.store.Admit(w.ctx, ha.Report{UUID: uuid.NewString(), Type: ha.TypeComputeHost, Hostname: host, GeneratedTime: generated, Payload: payload}, 180*time.Second)
			if err == nil {
				mu.Lock()
				admitted = append(admitted, note.UUID)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	w.tell("report: %s %s %s, %d times, admitted %d", host, event, status, n, len(admitted))
	if len(admitted) > 1 {
		w.violated("I7", "%d of %d identical reports of %s admitted", len(admitted), n, host)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range admitted {
		w.told[id] = true
		if event == ha.EventStopped {
			w.reports[host] = time.Now()
		}
	}
}

func (w *world) timeline() string {
	w.mu.Lock()
	story := slices.Clone(w.story)
	w.mu.Unlock()
	for _, c := range w.cloud.Calls(0) {
		if c.Method == "GET" {
			continue
		}
		story = append(story, fmt.Sprintf("%9.3f  nova <- %s %s %s %s %s %s -> %d", c.At.Sub(w.start).Seconds(), c.Client, c.Method, c.Path, c.Action, c.Host, c.Fault, c.Status))
	}
	slices.SortStableFunc(story, func(a, b string) int { return strings.Compare(a[:9], b[:9]) })
	return strings.Join(story, "\n")
}

// storyHandler puts the engines' logs into the timeline.
type storyHandler struct {
	w     *world
	attrs string
}

func (h *storyHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h *storyHandler) Handle(_ context.Context, r slog.Record) error {
	text := r.Message + h.attrs
	r.Attrs(func(a slog.Attr) bool { text += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true })
	if !strings.Contains(text, "simulated: away") {
		h.w.tell("%s", text)
	}
	return nil
}
func (h *storyHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	for _, a := range attrs {
		c.attrs += fmt.Sprintf(" %s=%v", a.Key, a.Value)
	}
	return &c
}
func (h *storyHandler) WithGroup(string) slog.Handler { return h }
