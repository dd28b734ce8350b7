package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// Bounds of one answer, whatever the size of the cloud.
const (
	coverageHosts  = 25 // hosts, with one list of servers each
	coverageNeeds  = 64 // different needs that Placement is asked about
	coverageAtOnce = 4  // questions to Nova at a time
	pastRecoveries = 5  // that an estimate rests on
)

// Coverage says of each host, registered or known to Nova, and of its instances: would they be recovered now, how and to where, and if
// not, why not and what would change that. Hosts come by name, at most limit of them after marker; next is the marker of the next page,
// "" when there is none. It looks at rows and at Nova, and changes neither. CloudError when Nova cannot be asked.
func (s *Service) Coverage(ctx context.Context, marker string, limit int) (hosts []ha.HostProspect, next string, err error) {
	l, err := s.look(ctx)
	if err != nil {
		return nil, "", err
	}
	registered, err := s.registered(ctx)
	if err != nil {
		return nil, "", err
	}
	var names []string
	for name := range registered {
		names = append(names, name)
	}
	for _, svc := range l.services {
		if svc.Binary == ha.BinaryCompute && registered[svc.Host] == nil {
			names = append(names, svc.Host)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	from, found := slices.BinarySearch(names, marker)
	if found {
		from++
	}
	names = names[from:]
	if n := min(limit, coverageHosts); len(names) > n {
		if names = names[:n]; n > 0 {
			next = names[n-1]
		}
	}
	hosts, err = l.hosts(ctx, names, registered, false)
	return hosts, next, err
}

// CoverageOfHost is that of one host, by its name. NotFoundError when neither the rows nor Nova know it.
func (s *Service) CoverageOfHost(ctx context.Context, name string) (ha.HostProspect, error) {
	l, err := s.look(ctx)
	if err != nil {
		return ha.HostProspect{}, err
	}
	return l.host(ctx, name, false)
}

// CoverageOfInstance is that of the instance's host, with the instance alone. NotFoundError when Nova has no such instance,
// ConflictError when it is on no host.
func (s *Service) CoverageOfInstance(ctx context.Context, id string) (ha.HostProspect, error) {
	uuid, err := canonical(ha.KindInstance, id)
	if err != nil {
		return ha.HostProspect{}, err
	}
	l, err := s.look(ctx)
	if err != nil {
		return ha.HostProspect{}, err
	}
	server, err := s.cfg.Cloud.Server(ctx, uuid)
	switch {
	case ha.ClassOf(err) == ha.ClassGone:
		return ha.HostProspect{}, &ha.NotFoundError{Kind: ha.KindInstance, ID: uuid}
	case err != nil:
		return ha.HostProspect{}, err
	case server.Host == "":
		return ha.HostProspect{}, &ha.ConflictError{Text: fmt.Sprintf("Instance %s is on no host (%s): no host's death touches it.", uuid, server.VMState)}
	}
	h, err := l.host(ctx, server.Host, false)
	h.Moves = slices.DeleteFunc(h.Moves, func(p ha.Prospect) bool { return p.Server.ID != uuid })
	return h, err
}

// Plan is what a report of the host's death would come to now, and how long it would take, by what past recoveries took. Errors as of
// CoverageOfHost.
func (s *Service) Plan(ctx context.Context, name string) (ha.HostProspect, ha.Estimate, error) {
	l, err := s.look(ctx)
	if err != nil {
		return ha.HostProspect{}, ha.Estimate{}, err
	}
	h, err := l.host(ctx, name, true)
	if err != nil {
		return ha.HostProspect{}, ha.Estimate{}, err
	}
	past, err := s.past(ctx)
	moves := 0
	for _, p := range h.Moves {
		if p.Protected {
			moves++
		}
	}
	return h, plan.Estimate(moves, past), err
}

// past are the moves of the last host recoveries that moved something.
func (s *Service) past(ctx context.Context) ([][]ha.VMove, error) {
	kind, finished, succeeded := string(ha.TypeComputeHost), string(ha.StatusFinished), string(ha.MoveSucceeded)
	newest := []ha.Sort{{Field: ha.FieldCreatedAt, Desc: true}, {Field: ha.FieldID, Desc: true}}
	notes, err := s.store.Notifications(ctx, ha.NotificationFilter{Type: &kind, Status: &finished}, ha.Page{Limit: 4 * pastRecoveries, Sort: newest})
	if err != nil {
		return nil, err
	}
	var past [][]ha.VMove
	for _, n := range notes {
		moves, err := s.store.VMoves(ctx, ha.VMoveFilter{NotificationUUID: n.UUID, Status: &succeeded}, ha.Page{Limit: 1000, Sort: newest})
		if err != nil {
			return nil, err
		}
		if len(moves) > 0 {
			past = append(past, moves)
		}
		if len(past) == pastRecoveries {
			break
		}
	}
	return past, nil
}

// registered are all hosts by name.
func (s *Service) registered(ctx context.Context) (map[string]*ha.Host, error) {
	const page = 1000
	all, marker := map[string]*ha.Host{}, ""
	for {
		hosts, err := s.store.Hosts(ctx, ha.HostFilter{}, ha.Page{Limit: page, Marker: marker, Sort: []ha.Sort{{Field: ha.FieldID}}})
		if err != nil {
			return nil, err
		}
		for i := range hosts {
			all[hosts[i].Name] = &hosts[i]
		}
		if len(hosts) < page {
			return all, nil
		}
		marker = hosts[page-1].UUID
	}
}

// looking is what one answer has seen so far.
type looking struct {
	*Service
	services   []ha.Service
	aggregates []ha.Aggregate
	blocks     []ha.Finding // that keep anything from being recovered
	outlooks   map[string]ha.Outlook
	at         time.Time
}

func (s *Service) look(ctx context.Context) (*looking, error) {
	if s.cfg.Cloud == nil {
		return nil, &ha.CloudError{Class: ha.ClassNotSent, Op: "os-services", Text: "no Nova is configured"}
	}
	l := &looking{Service: s, outlooks: map[string]ha.Outlook{}, at: time.Now().UTC()}
	var err error
	if l.services, err = s.cfg.Cloud.Services(ctx); err != nil {
		return nil, err
	}
	if ha.NeedsAggregates(s.cfg.Rules.Classes) {
		if l.aggregates, err = s.cfg.Cloud.Aggregates(ctx); err != nil {
			return nil, err
		}
	}
	engines, err := s.store.EngineStates(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(engines, func(e ha.EngineState) bool { return !e.Silent() }) {
		l.blocks = append(l.blocks, ha.Finding{Rule: ha.FindingNoEngine, Text: "no engine is running: nothing is recovered", Fix: "start salvor engine, or salvor serve"})
	}
	return l, nil
}

func (l *looking) host(ctx context.Context, name string, whole bool) (ha.HostProspect, error) {
	registered := map[string]*ha.Host{}
	h, err := l.store.HostByName(ctx, name)
	var none *ha.NotFoundError
	switch {
	case err == nil:
		name = h.Name
		registered[name] = &h
	case !errors.As(err, &none):
		return ha.HostProspect{}, err
	case l.service(name) == nil:
		return ha.HostProspect{}, &ha.NotFoundError{Kind: ha.KindHost, ID: name}
	}
	hosts, err := l.hosts(ctx, []string{name}, registered, whole)
	if err != nil {
		return ha.HostProspect{}, err
	}
	if hosts[0].Err != "" {
		return ha.HostProspect{}, &ha.CloudError{Class: ha.ClassBroken, Op: "servers", Text: hosts[0].Err}
	}
	return hosts[0], nil
}

func (l *looking) service(host string) *ha.Service {
	for i := range l.services {
		if l.services[i].Binary == ha.BinaryCompute && l.services[i].Host == host {
			return &l.services[i]
		}
	}
	return nil
}

// hosts looks at each host's instances, then asks Placement about what they need, and rehearses each host's death. whole looks at
// migrations, too.
func (l *looking) hosts(ctx context.Context, names []string, registered map[string]*ha.Host, whole bool) ([]ha.HostProspect, error) {
	out, views := make([]ha.HostProspect, len(names)), make([]plan.View, len(names))
	for i, name := range names {
		out[i] = ha.HostProspect{Name: name, Host: registered[name], Service: l.service(name)}
		unit, err := l.unit(ctx, &out[i])
		if err != nil {
			return nil, err
		}
		views[i] = l.view(unit)
	}
	var group errgroup.Group
	group.SetLimit(coverageAtOnce)
	for i := range views {
		if out[i].Service == nil {
			continue
		}
		group.Go(func() error {
			f, at := &views[i].Facts, views[i].Now
			servers, err := l.cfg.Cloud.Servers(ctx, names[i])
			if err == nil && whole {
				f.Migrations.Value, err = l.cfg.Cloud.Migrations(ctx, names[i])
				f.Migrations.At = at
			}
			if err != nil {
				out[i].Err = err.Error()
			}
			f.Servers = plan.Seen[[]ha.Server]{Value: servers, At: at}
			return nil
		})
	}
	_ = group.Wait() // none fails
	rooms := l.rooms(ctx, views)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i, v := range views {
		out[i].Rehearsal = plan.Rehearse(v, rooms, l.blocks...)
	}
	return out, nil
}

// unit is the work that a report of the host's death would begin.
func (l *looking) unit(ctx context.Context, h *ha.HostProspect) (ha.Unit, error) {
	report := ha.Payload{ha.KeyEvent: ha.EventStopped, ha.KeyHostStatus: ha.HostStatusNormal}
	if h.Host == nil {
		return ha.Unit{Work: ha.Work{ID: -1, Kind: ha.UnitHost}, Host: ha.Host{Name: h.Name}, Now: l.at,
			Notification: ha.Notification{Type: ha.TypeComputeHost, Payload: report}}, nil
	}
	o, seen := l.outlooks[h.Host.SegmentUUID]
	if !seen {
		var err error
		if o, err = l.store.Outlook(ctx, h.Host.SegmentUUID); err != nil {
			return ha.Unit{}, err
		}
		l.outlooks[h.Host.SegmentUUID] = o
	}
	h.Segment = &o.Segment
	for _, p := range o.Peers {
		if p.UUID == h.Host.UUID {
			return o.Unit(p, report), nil
		}
	}
	return o.Unit(ha.Peer{Host: *h.Host}, report), nil // registered meanwhile
}

func (l *looking) view(unit ha.Unit) plan.View {
	v := plan.View{Unit: unit, Now: unit.Now, Rules: l.cfg.Rules}
	can, known := l.fenced(unit.Host.Name)
	v.Fencing, v.FencingUnknown = can, !known
	v.Facts.Services = plan.Seen[[]ha.Service]{Value: l.services, At: unit.Now, Tried: unit.Now}
	v.Facts.Aggregates = plan.Seen[[]ha.Aggregate]{Value: l.aggregates, At: unit.Now}
	return v
}

// rooms asks Placement about each of the different needs.
func (l *looking) rooms(ctx context.Context, views []plan.View) map[ha.Needs]plan.Room {
	var all []ha.Needs
	for _, v := range views {
		for _, n := range v.Needs() {
			if !slices.Contains(all, n) && len(all) < coverageNeeds {
				all = append(all, n)
			}
		}
	}
	slices.SortFunc(all, func(a, b ha.Needs) int { return strings.Compare(a.Resources+a.Traits, b.Resources+b.Traits) })
	rooms := make(map[ha.Needs]plan.Room, len(all))
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(coverageAtOnce)
	for _, n := range all {
		group.Go(func() error {
			room := plan.Room{}
			hosts, err := l.cfg.Cloud.Room(ctx, n)
			if room.Hosts = hosts; err != nil {
				room.Err = ha.TextOf(err)
			}
			mu.Lock()
			defer mu.Unlock()
			rooms[n] = room
			return nil
		})
	}
	_ = group.Wait() // none fails
	return rooms
}
