package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

const (
	computePath   = "/compute/v2.1"
	placementPath = "/placement"
)

// read makes a call that changes nothing.
func (n *Nova) read(ctx context.Context, path, query, instance, host string, do func() error) error {
	r := Request{Method: "GET", Path: path, Query: query, Instance: instance, Host: host}
	return n.call(ctx, opOf(r), r, false, time.Time{}, func() (time.Duration, error) { return 0, do() })
}

// opOf names a call in errors, below its service's root.
func opOf(r Request) string {
	path := strings.TrimPrefix(strings.TrimPrefix(r.Path, computePath+"/"), placementPath+"/")
	if r.Action != "" {
		path += " " + r.Action
	}
	return r.Method + " " + path
}

// Services lists all compute services, schedulers and conductors.
func (n *Nova) Services(ctx context.Context) ([]ha.Service, error) {
	var found []Service
	err := n.read(ctx, computePath+"/os-services", "", "", "", func() error {
		found = n.c.listServices("", "")
		return n.o.Caller.May("os_compute_api:os-services:list")
	})
	if err != nil {
		return nil, err
	}
	out := make([]ha.Service, len(found))
	for i, s := range found {
		out[i] = s.ha()
	}
	return out, nil
}

// HasComputeService reports whether Nova has a nova-compute of that host, whatever its state.
func (n *Nova) HasComputeService(ctx context.Context, host string) (bool, error) {
	found := false
	err := n.read(ctx, computePath+"/os-services", "binary=nova-compute&host="+host, "", host, func() error {
		found = len(n.c.listServices(ha.BinaryCompute, host)) > 0
		return n.o.Caller.May("os_compute_api:os-services:list")
	})
	return found, err
}

func (s Service) ha() ha.Service {
	return ha.Service{
		ID: s.ID, Binary: s.Binary, Host: s.Host, Enabled: !s.Disabled, Up: s.Up, ForcedDown: s.ForcedDown,
		DisabledReason: s.DisabledReason, UpdatedAt: s.UpdatedAt,
	}
}

// Servers lists all servers of the host, newest first.
func (n *Nova) Servers(ctx context.Context, host string) ([]ha.Server, error) {
	var out []ha.Server
	err := n.read(ctx, computePath+"/servers/detail", "all_tenants=True&host="+host, "", host, func() error {
		h := n.c.hosts[host]
		if h == nil {
			return nil
		}
		out = make([]ha.Server, 0, len(h.instances))
		for _, ins := range slices.Backward(h.instances) {
			if ins.vm != ha.VMSoftDeleted {
				out = append(out, n.c.server(ins))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Server reads one; ha.ClassGone when it does not exist.
func (n *Nova) Server(ctx context.Context, id string) (ha.Server, error) {
	var out ha.Server
	err := n.read(ctx, computePath+"/servers/"+id, "", id, "", func() error {
		ins, err := n.c.find(n.o.Caller, id)
		if err == nil {
			out = n.c.server(ins)
		}
		return err
	})
	if err != nil {
		return ha.Server{}, err
	}
	return out, nil
}

func (c *Cloud) server(ins *instance) ha.Server {
	out := ha.Server{
		ID: ins.id, Name: ins.name, VMState: ins.vm, TaskState: ins.task, Running: ins.power == powerRunning,
		Locked: ins.locked, Metadata: maps.Clone(ins.metadata), CreatedAt: c.stamp(ins.created), Project: ins.project,
		ImageBooted: !ins.volume, Flavor: ins.flavor.Name, ExtraSpecs: maps.Clone(ins.flavor.ExtraSpecs),
	}
	if ins.host != nil {
		out.Host = ins.host.name
	}
	if ins.fault != nil && statusOf(ins.vm, ins.task) == "ERROR" {
		out.Fault = ins.fault.Message
	}
	return out
}

// Migrations lists the records whose source is host, newest first.
func (n *Nova) Migrations(ctx context.Context, host string) ([]ha.Migration, error) {
	var found []Migration
	err := n.read(ctx, computePath+"/os-migrations", "source_compute="+host, "", host, func() (err error) {
		found, _, err = n.c.listMigrations(MigrationQuery{Source: host})
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]ha.Migration, len(found))
	for i, m := range found {
		out[i] = ha.Migration{ID: m.ID, InstanceID: m.InstanceID, Type: m.Type, Status: m.Status, Source: m.Source,
			Dest: m.Dest, CreatedAt: m.CreatedAt}
	}
	return out, nil
}

// Actions lists what was asked of an instance, newest first.
func (n *Nova) Actions(ctx context.Context, instance string) ([]ha.ServerAction, error) {
	var out []ha.ServerAction
	err := n.read(ctx, computePath+"/servers/"+instance+"/os-instance-actions", "", instance, "", func() error {
		ins, err := n.c.find(n.o.Caller, instance)
		if err != nil {
			return err
		}
		for _, a := range slices.Backward(ins.actions) {
			out = append(out, ha.ServerAction{Action: a.name, UserID: a.user, StartedAt: n.c.stamp(a.started), Message: a.message})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Providers names the hosts in whose resource providers Placement holds allocations for the instance, sorted.
func (n *Nova) Providers(ctx context.Context, instance string) ([]string, error) {
	var out []string
	err := n.read(ctx, placementPath+"/allocations/"+instance, "", instance, "", func() error {
		if ins := n.c.instances[instance]; ins != nil {
			for _, h := range ins.allocs {
				out = append(out, h.name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(out)
	return out, nil
}

// Aggregates lists all host aggregates.
func (n *Nova) Aggregates(ctx context.Context) ([]ha.Aggregate, error) {
	var out []ha.Aggregate
	err := n.read(ctx, computePath+"/os-aggregates", "", "", "", func() error {
		out = make([]ha.Aggregate, len(n.c.aggregates))
		for i, a := range n.c.aggregates {
			out[i] = ha.Aggregate{ID: strconv.Itoa(a.id), Name: a.name, Hosts: slices.Clone(a.hosts)}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Do carries out one act, sent at most once. The error is the outcome's.
func (n *Nova) Do(ctx context.Context, act ha.Act) (ha.Outcome, error) {
	out := ha.Outcome{Act: act}
	var put Service
	r, do := n.plan(act, &put)
	if do == nil {
		out.Err = &ha.CloudError{Class: ha.ClassNotSent, Op: string(act.Kind), Text: fmt.Sprintf("no such act: %q", act.Kind)}
	} else {
		out.Err = n.call(ctx, opOf(r), r, true, act.SendBy, do)
	}
	out.At = time.Now()
	if out.Err == nil && act.Kind == ha.ActService {
		service := put.ha()
		out.Service = &service
	}
	return out, out.Err
}

var actionOf = map[ha.ActKind]string{
	ha.ActLock: "lock", ha.ActUnlock: "unlock", ha.ActEvacuate: "evacuate", ha.ActResetState: "os-resetState",
	ha.ActStop: "os-stop", ha.ActStart: "os-start",
}

// plan makes the request of an act and what carries it out; nil for an unknown kind.
func (n *Nova) plan(act ha.Act, put *Service) (Request, handler) {
	if name := actionOf[act.Kind]; name != "" {
		r := Request{Method: "POST", Path: computePath + "/servers/" + act.Instance + "/action", Action: name, Instance: act.Instance, Body: act.State}
		a := ServerAction{Name: name, Host: act.Target, State: act.State, Reason: act.Reason}
		return r, func() (time.Duration, error) { return 0, n.c.perform(n.o.Caller, act.Instance, a) }
	}
	switch act.Kind {
	case ha.ActService:
		r := Request{Method: "PUT", Path: computePath + "/os-services/" + act.ServiceID, Host: act.Host}
		return r, func() (late time.Duration, err error) {
			*put, late, err = n.c.updateService(n.o.Caller, act.ServiceID, patchOf(act))
			return late, err
		}
	case ha.ActAggregateAdd, ha.ActAggregateRemove:
		add := act.Kind == ha.ActAggregateAdd
		name := "remove_host"
		if add {
			name = "add_host"
		}
		r := Request{Method: "POST", Path: computePath + "/os-aggregates/" + act.Aggregate + "/action", Action: name, Host: act.Host}
		return r, func() (time.Duration, error) {
			_, err := n.c.changeAggregate(n.o.Caller, act.Aggregate, act.Host, add)
			return 0, err
		}
	}
	return Request{}, nil
}

func patchOf(act ha.Act) ServicePatch {
	p := ServicePatch{ForcedDown: act.ForcedDown}
	if act.Enable != nil {
		disabled := !*act.Enable
		p.Disabled = &disabled
		if disabled && act.Reason != "" {
			p.Reason = &act.Reason
		}
	}
	return p
}
