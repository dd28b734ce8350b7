package simhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/salvor-ha/salvor/internal/sim"
)

// control is the interface by which tests drive the cloud. It needs no token, no fault hits it, and it is not noted.
func (s *Server) control(r *request) reply {
	switch {
	case r.is(1, "POST", "hosts/*/bmc"):
		return s.setBMC(r)
	case r.is(1, "POST", "hosts/*/*"):
		return s.controlHost(r.path[2], r.path[3])
	case r.is(1, "POST", "services/*/*"):
		return s.controlService(r.path[2], r.path[3])
	case r.is(1, "GET", "state"):
		return ok(s.state(r))
	case r.is(1, "GET", "calls"):
		return s.listCalls(r)
	case r.is(1, "POST", "faults"):
		return s.addFault(r)
	case r.is(1, "DELETE", "faults"):
		s.cloud.ClearFaults()
		return reply{status: http.StatusNoContent}
	case r.is(1, "POST", "instances"):
		return s.addInstances(r)
	case r.is(1, "POST", "aggregates"):
		return s.addAggregate(r)
	}
	return controlError(http.StatusNotFound, errors.New("no such resource"))
}

func controlError(status int, err error) reply {
	return reply{status: status, body: object{"error": err.Error()}}
}

func (s *Server) controlHost(name, verb string) reply {
	verbs := map[string]func(string) error{
		"kill": s.cloud.Kill, "revive": s.cloud.Revive,
		"kill-compute": s.cloud.KillCompute, "hang": s.cloud.Hang, "resume": s.cloud.Resume,
	}
	do := verbs[verb]
	if do == nil {
		return controlError(http.StatusNotFound, fmt.Errorf("no such thing to do with a host: %s", verb))
	}
	if err := do(name); err != nil {
		return controlError(http.StatusNotFound, err)
	}
	for _, h := range s.cloud.Hosts() {
		if h.Name == name {
			return ok(object{"host": showHost(h)})
		}
	}
	return reply{status: http.StatusNoContent}
}

func (s *Server) controlService(binary, verb string) reply {
	do := map[string]func(string) error{"stop": s.cloud.StopControl, "start": s.cloud.StartControl}[verb]
	if do == nil {
		return controlError(http.StatusNotFound, fmt.Errorf("no such thing to do with a service: %s", verb))
	}
	if err := do(binary); err != nil {
		return controlError(http.StatusNotFound, err)
	}
	return reply{status: http.StatusNoContent}
}

func showHost(h sim.Host) object {
	return object{"name": h.Name, "powered": h.Powered, "compute": h.Compute, "instances": h.Instances}
}

func (s *Server) state(r *request) object {
	hosts, services, instances := []object{}, []object{}, []object{}
	for _, h := range s.cloud.Hosts() {
		hosts = append(hosts, showHost(h))
	}
	r.minor = maxMinor
	for _, service := range s.cloud.Services("", "") {
		services = append(services, showService(r, service))
	}
	found, _, _ := s.cloud.Instances(sim.InstanceQuery{Deleted: true}) // without a marker it cannot fail
	for _, ins := range found {
		instances = append(instances, showInstance(ins))
	}
	runs, orders := []object{}, []object{}
	for _, d := range s.cloud.DoubleRuns() {
		runs = append(runs, object{"instance": d.Instance, "hosts": d.Hosts, "time": precise(d.At)})
	}
	for _, d := range s.cloud.DoubleOrders() {
		orders = append(orders, object{"instance": d.Instance, "earlier": d.Earlier, "later": d.Later, "time": precise(d.At)})
	}
	return object{"now": precise(s.cloud.Now()), "hosts": hosts, "services": services, "instances": instances,
		"double_runs": runs, "double_orders": orders}
}

func showInstance(ins sim.Instance) object {
	metadata, running := ins.Metadata, ins.Running
	if metadata == nil {
		metadata = map[string]string{}
	}
	if running == nil {
		running = []string{}
	}
	return object{
		"id": ins.ID, "name": ins.Name, "host": null(ins.Host), "status": ins.Status, "vm_state": ins.VMState,
		"task_state": null(ins.TaskState), "power_state": ins.PowerState, "locked": ins.Locked,
		"locked_reason": null(ins.LockedReason), "metadata": metadata, "evacuations": ins.Evacuations, "wrecks": ins.Wrecks,
		"ordered_at": instant(ins.OrderedAt), "arrived_at": instant(ins.ArrivedAt), "running_on": running,
	}
}

func precise(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// instant is a time that may not have come.
func instant(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return precise(t)
}

func (s *Server) listCalls(r *request) reply {
	var since int64
	if text := r.query.Get("since"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return controlError(http.StatusBadRequest, fmt.Errorf("since: %s is not a number", text))
		}
		since = n
	}
	list, last := []object{}, since
	for _, call := range s.cloud.Calls(since) {
		last = call.N
		list = append(list, object{
			"n": call.N, "time": precise(call.At), "client": call.Client, "method": call.Method, "path": call.Path, "query": call.Query,
			"action": null(call.Action), "host": null(call.Host), "instance": null(call.Instance), "body": null(call.Body),
			"fault": null(call.Fault), "status": call.Status,
		})
	}
	return ok(object{"calls": list, "last": last})
}

// strict reads a body whose fields are all known.
func strict(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("body: more than one value")
	}
	return nil
}

func (s *Server) addFault(r *request) reply {
	var in struct {
		Method     string `json:"method"`
		Path       string `json:"path"`
		Action     string `json:"action"`
		Host       string `json:"host"`
		Instance   string `json:"instance"`
		Client     string `json:"client"`
		Times      int    `json:"times"`
		Status     int    `json:"status"`
		DelayMS    int64  `json:"delay_ms"`
		ActAfterMS int64  `json:"act_after_ms"`
		Drop       bool   `json:"drop"`
	}
	if err := strict(r.body, &in); err != nil {
		return controlError(http.StatusBadRequest, err)
	}
	err := s.cloud.AddFault(sim.FaultRule{
		Method: in.Method, Path: in.Path, Action: in.Action, Host: in.Host, Instance: in.Instance, Client: in.Client, Times: in.Times,
		Status: in.Status, Delay: time.Duration(in.DelayMS) * time.Millisecond,
		ActAfter: time.Duration(in.ActAfterMS) * time.Millisecond, Drop: in.Drop,
	})
	if err != nil {
		return controlError(http.StatusBadRequest, err)
	}
	return reply{status: http.StatusNoContent}
}

const maxNewInstances = 100_000

func (s *Server) addInstances(r *request) reply {
	var in struct {
		Host      string            `json:"host"`
		Count     *int              `json:"count"`
		Name      string            `json:"name"`
		Metadata  map[string]string `json:"metadata"`
		VMState   string            `json:"vm_state"`
		TaskState string            `json:"task_state"`
		Project   string            `json:"project"`
		Volume    bool              `json:"from_volume"` // they boot from a volume
		Flavor    string            `json:"flavor"`
		Specs     map[string]string `json:"extra_specs"` // of the flavor
	}
	if err := strict(r.body, &in); err != nil {
		return controlError(http.StatusBadRequest, err)
	}
	count := 1
	if in.Count != nil {
		count = *in.Count
	}
	if count < 0 || count > maxNewInstances {
		return controlError(http.StatusBadRequest, fmt.Errorf("count %d: 0 to %d", count, maxNewInstances))
	}
	ids, err := s.cloud.AddInstances(in.Host, count, sim.InstanceSpec{
		Name: in.Name, Metadata: in.Metadata, VMState: in.VMState, TaskState: in.TaskState, Project: in.Project,
		FromVolume: in.Volume, Flavor: sim.Flavor{Name: in.Flavor, ExtraSpecs: in.Specs},
	})
	if err != nil {
		return controlError(http.StatusBadRequest, err)
	}
	list := make([]object, 0, len(ids))
	for _, id := range ids {
		if ins, live := s.cloud.Instance(id); live {
			list = append(list, showInstance(ins))
		}
	}
	return ok(object{"ids": ids, "instances": list})
}

func (s *Server) addAggregate(r *request) reply {
	var in struct {
		Name  string   `json:"name"`
		Hosts []string `json:"hosts"`
	}
	if err := strict(r.body, &in); err != nil {
		return controlError(http.StatusBadRequest, err)
	}
	return ok(object{"id": s.cloud.AddAggregate(in.Name, in.Hosts...)})
}
