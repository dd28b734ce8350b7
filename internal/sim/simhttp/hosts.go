package simhttp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/sim"
)

func (s *Server) listMigrations(r *request) reply {
	if err := r.who().May("os_compute_api:os-migrations:index"); err != nil {
		return failed(err)
	}
	limit, marker, refused := s.page(r)
	if refused != nil {
		return *refused
	}
	q := sim.MigrationQuery{
		Instance: r.query.Get("instance_uuid"), Source: r.query.Get("source_compute"), Host: r.query.Get("host"),
		Type: r.query.Get("migration_type"), Status: r.query.Get("status"),
	}
	if r.minor >= 59 { // no pages before
		q.Limit, q.Marker = limit, marker
	}
	found, _, err := s.cloud.Migrations(q)
	if err != nil {
		return failed(err)
	}
	list := make([]record, 0, len(found))
	for _, m := range found {
		list = append(list, showMigration(r, m))
	}
	body := object{"migrations": list}
	if len(found) > 0 && q.Limit > 0 {
		if links := next(r, limit, len(found), found[len(found)-1].UUID); links != nil {
			body["migrations_links"] = links
		}
	}
	return ok(body)
}

func showMigration(r *request, m sim.Migration) record {
	out := append(make(record, 0, 16), record{
		{"id", m.ID}, {"instance_uuid", m.InstanceID}, {"status", m.Status},
		{"source_compute", m.Source}, {"source_node", m.SourceNode},
		{"dest_compute", null(m.Dest)}, {"dest_node", null(m.DestNode)}, {"dest_host", nil},
		{"old_instance_type_id", 1}, {"new_instance_type_id", 1},
		{"created_at", stamp(m.CreatedAt)}, {"updated_at", stamp(m.UpdatedAt)},
	}...)
	if r.minor >= 23 {
		out = append(out, member{"migration_type", m.Type})
		if m.Type == ha.MigrationLiveMigration && m.Status == "running" {
			out = append(out, member{"links", []object{{"rel": "self",
				"href": fmt.Sprintf("%s/compute/v2.1/servers/%s/migrations/%d", r.base, m.InstanceID, m.ID)}}})
		}
	}
	if r.minor >= 59 {
		out = append(out, member{"uuid", m.UUID})
	}
	if r.minor >= 80 {
		out = append(out, member{"user_id", null(m.UserID)}, member{"project_id", null(m.ProjectID)})
	}
	return out
}

func (s *Server) listAggregates(r *request) reply {
	found, err := s.cloud.Aggregates(r.who())
	if err != nil {
		return failed(err)
	}
	list := make([]object, 0, len(found))
	for _, a := range found {
		list = append(list, showAggregate(r, a))
	}
	return ok(object{"aggregates": list})
}

func (s *Server) getAggregate(r *request, id string) reply {
	found, err := s.cloud.Aggregates(r.who())
	if err != nil {
		return failed(err)
	}
	for _, a := range found {
		if strconv.Itoa(a.ID) == id {
			return ok(object{"aggregate": showAggregate(r, a)})
		}
	}
	return refusal(http.StatusNotFound, "itemNotFound", "Aggregate "+id+" could not be found.")
}

func (s *Server) aggregateAction(r *request, id string) reply {
	name, raw := onlyKey(r.body)
	var args struct {
		Host string `json:"host"`
	}
	if name == "" || json.Unmarshal(raw, &args) != nil || args.Host == "" {
		return refusal(http.StatusBadRequest, "badRequest", "Malformed request body")
	}
	change := s.cloud.AddToAggregate
	switch name {
	case "add_host":
	case "remove_host":
		change = s.cloud.RemoveFromAggregate
	default:
		return refusal(http.StatusBadRequest, "badRequest", "There is no such action: "+name)
	}
	a, err := change(r.who(), id, args.Host)
	if err != nil {
		return failed(err)
	}
	return ok(object{"aggregate": showAggregate(r, a)})
}

func showAggregate(r *request, a sim.Aggregate) object {
	hosts := a.Hosts
	if hosts == nil {
		hosts = []string{}
	}
	out := object{
		"id": a.ID, "name": a.Name, "hosts": hosts, "metadata": a.Metadata, "availability_zone": nil,
		"created_at": stamp(a.CreatedAt), "updated_at": stamp(a.UpdatedAt), "deleted": false, "deleted_at": nil,
	}
	if r.minor >= 41 {
		out["uuid"] = a.UUID
	}
	return out
}

func (s *Server) listHypervisors(r *request, detail bool) reply {
	policy := "os_compute_api:os-hypervisors:list"
	if detail {
		policy = "os_compute_api:os-hypervisors:list-detail"
	}
	if err := r.who().May(policy); err != nil {
		return failed(err)
	}
	limit, marker, refused := s.page(r)
	if refused != nil {
		return *refused
	}
	pattern := r.query.Get("hypervisor_hostname_pattern")
	list, started, last := []object{}, marker == "", ""
	for i, p := range s.cloud.Providers() {
		if !started {
			started = p.UUID == marker
			continue
		}
		if !strings.Contains(p.Name, pattern) {
			continue
		}
		if len(list) == limit && pattern == "" {
			break
		}
		list, last = append(list, showHypervisor(r, i, p, detail)), p.UUID
	}
	switch {
	case !started:
		return refusal(http.StatusBadRequest, "badRequest", fmt.Sprintf("marker [%s] not found", marker))
	case pattern != "" && len(list) == 0:
		return refusal(http.StatusNotFound, "itemNotFound", fmt.Sprintf("No hypervisor matching '%s' could be found.", pattern))
	}
	body := object{"hypervisors": list}
	if pattern == "" && len(list) > 0 {
		if links := next(r, limit, len(list), last); links != nil {
			body["hypervisors_links"] = links
		}
	}
	return ok(body)
}

func (s *Server) getHypervisor(r *request, id string) reply {
	if err := r.who().May("os_compute_api:os-hypervisors:show"); err != nil {
		return failed(err)
	}
	for i, p := range s.cloud.Providers() {
		if p.UUID == id || strconv.Itoa(i+1) == id && r.minor < 53 {
			return ok(object{"hypervisor": showHypervisor(r, i, p, true)})
		}
	}
	return refusal(http.StatusNotFound, "itemNotFound", fmt.Sprintf("Compute host %s could not be found.", id))
}

func showHypervisor(r *request, i int, p sim.Provider, detail bool) object {
	service := showService(r, p.Service)
	out := object{"id": p.UUID, "hypervisor_hostname": p.Name, "state": service["state"], "status": service["status"]}
	if r.minor < 53 {
		out["id"] = i + 1
	}
	if r.minor >= 53 && r.query.Has("with_servers") && isTrue(r.query.Get("with_servers")) {
		servers := []object{}
		for _, id := range p.Instances {
			servers = append(servers, object{"uuid": id, "name": "instance-" + id[:8]})
		}
		out["servers"] = servers
	}
	if !detail {
		return out
	}
	out["service"] = object{"id": service["id"], "host": p.Host, "disabled_reason": service["disabled_reason"]}
	out["host_ip"], out["hypervisor_type"], out["hypervisor_version"] = "127.0.0.1", "fake", 1000
	if r.minor < 88 {
		out["running_vms"], out["vcpus"], out["vcpus_used"] = p.Allocated, 64, p.Allocated
		out["memory_mb"], out["memory_mb_used"], out["free_ram_mb"] = 131072, 512*p.Allocated, 131072-512*p.Allocated
		out["local_gb"], out["local_gb_used"], out["free_disk_gb"] = 1000, p.Allocated, 1000-p.Allocated
		out["current_workload"], out["disk_available_least"], out["cpu_info"] = 0, 0, object{}
	}
	return out
}
