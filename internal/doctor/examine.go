package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/salvor-ha/salvor/internal/ha"
)

// answer is what a question came to.
type answer[T any] struct {
	asked bool
	value T
	err   error
}

func (a answer[T]) good() bool { return a.asked && a.err == nil }

// facts are all answers.
type facts struct {
	now time.Time

	login      answer[ha.Login]
	versions   answer[ha.NovaVersions]
	services   answer[[]ha.Service]
	sample     answer[[]ha.Server]
	aggregates answer[[]ha.Aggregate]
	probe      ha.Server // the server that the next ones were asked about; zero: there is none
	server     answer[ha.Server]
	migrations answer[[]ha.Migration]
	actions    answer[[]ha.ServerAction]
	providers  answer[[]string]
	update     answer[ha.Outcome] // PUT of a service that does not exist
	evacuate   answer[ha.Outcome] // of the probe to a host that does not exist
	addHost    answer[ha.Outcome] // to an aggregate that does not exist

	store    answer[Store]
	database answer[ha.DatabaseState]
	segments answer[[]ha.Segment]
	hosts    answer[[]ha.Host]
	engines  answer[[]ha.EngineState]
	pauses   answer[[]ha.Pause]
	outlooks map[string]answer[ha.Outlook] // by the uuid of an enabled segment

	fencing      map[string]answer[[]Method] // by host
	apis         map[string]answer[bool]     // by URL
	certificates map[string]answer[time.Time]
	more         []Check
}

// Nobody has these: what is asked of them changes nothing.
const (
	noService   = "00000000-0000-4000-8000-5a1f05000000"
	noHost      = "salvor-doctor-no-such-host"
	noAggregate = "2147483647"
)

const (
	hostsAtOnce = 8
	page        = 1000
	maxHosts    = 20_000
)

// errHangs is a question that did not even end when its time was over.
var errHangs = errors.New("no answer in time, and it does not end")

// Examine asks all questions, each for at most `each`, and judges the answers. It ends soon after ctx at the latest: what has not
// been answered by then is a finding.
func Examine(ctx context.Context, p Patient, each time.Duration) []Check {
	f := &facts{now: time.Now()}
	var all sync.WaitGroup
	hosts := make(chan struct{}) // closed when they are listed, or cannot be
	all.Go(func() {
		f.askCloud(ctx, p, each)
		f.askWeb(ctx, p, each)
	})
	all.Go(func() {
		defer close(hosts)
		f.askStore(ctx, p, each)
	})
	all.Go(func() {
		<-hosts
		f.askFencing(ctx, p, each)
	})
	more := make([][]Check, len(p.More))
	for i, try := range p.More {
		all.Go(func() {
			a := ask(ctx, each, func(ctx context.Context) ([]Check, error) { return try(ctx), nil })
			if more[i] = a.value; a.err != nil {
				more[i] = []Check{subject{fmt.Sprintf("check %d", i+1), ""}.fail("", "%s", textOf(a.err))}
			}
		})
	}
	all.Wait()
	f.more = slices.Concat(more...)
	return f.judge(p)
}

// ask gives a question its time. One that does not end with it is left behind.
func ask[T any](ctx context.Context, each time.Duration, question func(context.Context) (T, error)) answer[T] {
	ctx, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	ended := make(chan answer[T], 1)
	go func() {
		value, err := question(ctx)
		ended <- answer[T]{asked: true, value: value, err: err}
	}()
	select {
	case a := <-ended:
		return a
	case <-ctx.Done():
	}
	grace := time.NewTimer(time.Second) // most end with their context, and say more than it does
	defer grace.Stop()
	select {
	case a := <-ended:
		return a
	case <-grace.C:
		return answer[T]{asked: true, err: errHangs}
	}
}

func (f *facts) askCloud(ctx context.Context, p Patient, each time.Duration) {
	if p.Cloud == nil {
		return
	}
	if f.login = ask(ctx, each, p.Cloud.Login); !f.login.good() || f.login.value.Compute.URL == "" {
		return
	}
	f.versions = ask(ctx, each, func(ctx context.Context) (ha.NovaVersions, error) {
		return p.Cloud.Versions(ctx, f.login.value.Compute.URL)
	})
	if !f.versions.good() || f.versions.value.Used == 0 {
		return
	}
	do := func(act ha.Act) answer[ha.Outcome] {
		return ask(ctx, each, func(ctx context.Context) (ha.Outcome, error) { return p.Cloud.Do(ctx, act) })
	}
	yes := true
	var first sync.WaitGroup
	first.Go(func() { f.services = ask(ctx, each, p.Cloud.Services) })
	first.Go(func() {
		f.sample = ask(ctx, each, func(ctx context.Context) ([]ha.Server, error) { return p.Cloud.Sample(ctx, "") })
	})
	first.Go(func() { f.update = do(ha.Act{Kind: ha.ActService, ServiceID: noService, ForcedDown: &yes}) })
	if p.Rules.AddToAggregate {
		first.Go(func() { f.aggregates = ask(ctx, each, p.Cloud.Aggregates) })
		first.Go(func() { f.addHost = do(ha.Act{Kind: ha.ActAggregateAdd, Aggregate: noAggregate, Host: noHost}) })
	}
	first.Wait()
	host := noHost
	if f.probe = harmless(f.sample.value, f.services.value); f.probe.ID != "" {
		host = f.probe.Host
	}
	var second sync.WaitGroup
	second.Go(func() {
		f.migrations = ask(ctx, each, func(ctx context.Context) ([]ha.Migration, error) { return p.Cloud.Migrations(ctx, host) })
	})
	if id := f.probe.ID; id != "" {
		second.Go(func() {
			f.server = ask(ctx, each, func(ctx context.Context) (ha.Server, error) { return p.Cloud.Server(ctx, id) })
		})
		second.Go(func() {
			f.actions = ask(ctx, each, func(ctx context.Context) ([]ha.ServerAction, error) { return p.Cloud.Actions(ctx, id) })
		})
		second.Go(func() {
			f.providers = ask(ctx, each, func(ctx context.Context) ([]string, error) { return p.Cloud.Providers(ctx, id) })
		})
		second.Go(func() { f.evacuate = do(ha.Act{Kind: ha.ActEvacuate, Instance: id, Target: noHost}) })
	} else {
		second.Go(func() {
			f.providers = ask(ctx, each, func(ctx context.Context) ([]string, error) { return p.Cloud.Providers(ctx, noService) })
		})
	}
	second.Wait()
}

// harmless picks a server to ask about: on a host that is up, so that Nova would take no evacuation of it in any case.
func harmless(servers []ha.Server, services []ha.Service) ha.Server {
	for _, s := range servers {
		if slices.ContainsFunc(services, func(c ha.Service) bool {
			return c.Binary == ha.BinaryCompute && c.Host == s.Host && c.Up && !c.ForcedDown
		}) {
			return s
		}
	}
	return ha.Server{}
}

func (f *facts) askStore(ctx context.Context, p Patient, each time.Duration) {
	if f.store = ask(ctx, each, p.Store); !f.store.good() {
		return
	}
	s := f.store.value
	if f.database = ask(ctx, each, s.Checkup); !f.database.good() || f.database.value.Version == "" || len(f.database.value.Missing) > 0 {
		return
	}
	all := ha.Page{Limit: page, Sort: []ha.Sort{{Field: ha.FieldID}}}
	f.segments = ask(ctx, each, func(ctx context.Context) ([]ha.Segment, error) { return s.Segments(ctx, ha.SegmentFilter{}, all) })
	f.hosts = ask(ctx, each, func(ctx context.Context) (hosts []ha.Host, err error) {
		for from := all; len(hosts) < maxHosts; {
			some, err := s.Hosts(ctx, ha.HostFilter{}, from)
			if hosts = append(hosts, some...); err != nil || len(some) < page {
				return hosts, err
			}
			from.Marker = some[len(some)-1].UUID
		}
		return hosts, nil
	})
	f.engines = ask(ctx, each, s.EngineStates)
	f.pauses = ask(ctx, each, s.Pauses)
	f.outlooks = map[string]answer[ha.Outlook]{}
	for _, seg := range f.segments.value {
		if seg.Enabled {
			f.outlooks[seg.UUID] = ask(ctx, each, func(ctx context.Context) (ha.Outlook, error) { return s.Outlook(ctx, seg.UUID) })
		}
	}
}

func (f *facts) askFencing(ctx context.Context, p Patient, each time.Duration) {
	f.fencing = map[string]answer[[]Method]{}
	if p.Fencing == nil {
		return
	}
	var mu sync.Mutex
	var some errgroup.Group
	some.SetLimit(hostsAtOnce)
	for _, h := range f.hosts.value {
		some.Go(func() error {
			a := ask(ctx, each, func(ctx context.Context) ([]Method, error) { return p.Fencing.Methods(ctx, h.Name) })
			mu.Lock()
			defer mu.Unlock()
			f.fencing[h.Name] = a
			return nil
		})
	}
	_ = some.Wait() // none fails
}

// askWeb looks at what the catalog names, once each.
func (f *facts) askWeb(ctx context.Context, p Patient, each time.Duration) {
	f.apis, f.certificates = map[string]answer[bool]{}, map[string]answer[time.Time]{}
	if p.Web == nil || !f.login.good() {
		return
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, u := range f.tlsURLs() {
		all.Go(func() {
			a := ask(ctx, each, func(ctx context.Context) (time.Time, error) { return p.Web.Certificate(ctx, u) })
			mu.Lock()
			defer mu.Unlock()
			f.certificates[u] = a
		})
	}
	for _, e := range f.apiEndpoints() {
		all.Go(func() {
			a := ask(ctx, each, func(ctx context.Context) (bool, error) { return true, p.Web.API(ctx, e.URL) })
			mu.Lock()
			defer mu.Unlock()
			f.apis[e.URL] = a
		})
	}
	all.Wait()
}

// textOf is why a question got no answer.
func textOf(err error) string {
	if errors.Is(err, context.DeadlineExceeded) && ha.ClassOf(err) == ha.ClassBroken && ha.StatusOf(err) == 0 {
		return "no answer in time: " + ha.TextOf(err)
	}
	return ha.TextOf(err)
}
