package simhttp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/sim"
)

func (s *Server) listServers(r *request, detail bool) reply {
	limit, marker, refused := s.page(r)
	if refused != nil {
		return *refused
	}
	who := r.who()
	q := sim.InstanceQuery{Project: who.ProjectID, Name: r.query.Get("name"), Marker: marker, Limit: limit}
	if r.query.Has("all_tenants") && isTrue(r.query.Get("all_tenants")) {
		policy := "os_compute_api:servers:index:get_all_tenants"
		if detail {
			policy = "os_compute_api:servers:detail:get_all_tenants"
		}
		if err := who.May(policy); err != nil {
			return failed(err)
		}
		q.Project = r.query.Get("project_id")
		if q.Project == "" {
			q.Project = r.query.Get("tenant_id")
		}
	}
	if who.Admin { // Nova ignores a plain member's filters of this kind
		q.Host = r.query.Get("host")
		q.Deleted = isTrue(r.query.Get("deleted")) && r.query.Has("deleted")
	}
	found, _, err := s.cloud.Instances(q)
	if err != nil {
		return failed(err)
	}
	list := make([]record, 0, len(found))
	for _, ins := range found {
		if detail {
			list = append(list, s.showServer(r, ins))
		} else {
			list = append(list, record{{"id", ins.ID}, {"name", ins.Name}, {"links", serverLinks(r, ins.ID)}})
		}
	}
	body := object{"servers": list}
	if len(found) > 0 {
		if links := next(r, limit, len(found), found[len(found)-1].ID); links != nil {
			body["servers_links"] = links
		}
	}
	return ok(body)
}

// isTrue reads a boolean of a query as Nova does: present without a value counts as true.
func isTrue(text string) bool {
	switch strings.ToLower(text) {
	case "", "1", "t", "true", "on", "y", "yes":
		return true
	}
	return false
}

func (s *Server) getServer(r *request, id string) reply {
	ins, err := s.cloud.Find(r.who(), id)
	if err != nil {
		return failed(err)
	}
	return ok(object{"server": s.showServer(r, ins)})
}

func serverLinks(r *request, id string) []record {
	return []record{
		{{"rel", "self"}, {"href", r.base + "/compute/v2.1/servers/" + id}},
		{{"rel", "bookmark"}, {"href", r.base + "/compute/servers/" + id}},
	}
}

var bootImage = record{{"id", "c1d2e3f4-0000-4000-8000-000000000001"}, {"links", []object{}}}

// showServer is a server as the microversion and the caller's role have it.
func (s *Server) showServer(r *request, ins sim.Instance) record {
	launched := any(nil)
	if ins.VMState != ha.VMBuilding {
		launched = stamp(ins.CreatedAt)
	}
	metadata := ins.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	image := any(bootImage)
	if ins.FromVolume {
		image = ""
	}
	out := append(make(record, 0, 48), record{
		{"id", ins.ID}, {"name", ins.Name}, {"status", ins.Status}, {"tenant_id", ins.ProjectID}, {"user_id", ins.UserID},
		{"metadata", metadata}, {"hostId", hostID(ins)}, {"created", zulu(ins.CreatedAt)}, {"updated", zulu(ins.UpdatedAt)},
		{"links", serverLinks(r, ins.ID)}, {"addresses", record{}}, {"accessIPv4", ""}, {"accessIPv6", ""},
		{"image", image}, {"flavor", flavor(r.minor, ins.Flavor)},
		{"key_name", nil}, {"config_drive", ""}, {"security_groups", []object{}},
		{"OS-DCF:diskConfig", "MANUAL"}, {"OS-EXT-AZ:availability_zone", "nova"},
		{"OS-SRV-USG:launched_at", launched}, {"OS-SRV-USG:terminated_at", nil},
		{"OS-EXT-STS:vm_state", ins.VMState}, {"OS-EXT-STS:task_state", null(ins.TaskState)}, {"OS-EXT-STS:power_state", ins.PowerState},
		{"os-extended-volumes:volumes_attached", []object{}},
	}...)
	switch ins.Status {
	case "ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE":
		out = append(out, member{"progress", 0})
	}
	if ins.Fault != nil {
		fault := object{"code": ins.Fault.Code, "message": ins.Fault.Message, "created": zulu(ins.Fault.At)}
		if r.token.admin() {
			fault["details"] = "Traceback (most recent call last):\n  simulated"
		}
		out = append(out, member{"fault", fault})
	}
	admin := r.token.admin()
	if admin {
		out = append(out, member{"OS-EXT-SRV-ATTR:host", null(ins.Host)}, member{"OS-EXT-SRV-ATTR:hypervisor_hostname", null(ins.Hypervisor)},
			member{"OS-EXT-SRV-ATTR:instance_name", "instance-" + ins.ID[:8]})
	}
	for _, added := range []struct {
		minor int
		admin bool
		key   string
		value any
	}{
		{3, true, "OS-EXT-SRV-ATTR:reservation_id", "r-" + ins.ID[:8]},
		{3, true, "OS-EXT-SRV-ATTR:launch_index", 0},
		{3, true, "OS-EXT-SRV-ATTR:hostname", strings.ToLower(ins.Name)},
		{3, true, "OS-EXT-SRV-ATTR:kernel_id", ""},
		{3, true, "OS-EXT-SRV-ATTR:ramdisk_id", ""},
		{3, true, "OS-EXT-SRV-ATTR:root_device_name", "/dev/vda"},
		{3, true, "OS-EXT-SRV-ATTR:user_data", nil},
		{9, false, "locked", ins.Locked},
		{16, true, "host_status", ins.HostStatus},
		{19, false, "description", nil},
		{26, false, "tags", []string{}},
		{63, false, "trusted_image_certificates", nil},
		{71, false, "server_groups", []string{}},
		{73, false, "locked_reason", null(ins.LockedReason)},
	} {
		if r.minor >= added.minor && (admin || !added.admin) {
			out = append(out, member{added.key, added.value})
		}
	}
	return out
}

func flavor(minor int, f sim.Flavor) record {
	if minor < 47 {
		return oldFlavor
	}
	if f.Name == "tiny" && len(f.ExtraSpecs) == 0 {
		return newFlavor
	}
	own := append(record{{"original_name", f.Name}}, newFlavor[1:]...)
	if len(f.ExtraSpecs) > 0 {
		own[len(own)-1] = member{"extra_specs", f.ExtraSpecs}
	}
	return own
}

var (
	oldFlavor = record{{"id", "1"}, {"links", []object{}}}
	newFlavor = record{{"original_name", "tiny"}, {"vcpus", 1}, {"ram", 512}, {"disk", 1}, {"ephemeral", 0}, {"swap", 0}, {"extra_specs", object{}}}
)

// hostID hides the host from members, but tells them whether two servers share one.
func hostID(ins sim.Instance) string {
	if ins.Host == "" {
		return ""
	}
	sum := sha256.Sum224([]byte(ins.ProjectID + ins.Host))
	return hex.EncodeToString(sum[:])
}

func (s *Server) listActions(r *request, id string) reply {
	limit, marker, refused := s.page(r)
	if refused != nil {
		return *refused
	}
	found, err := s.cloud.Actions(r.who(), id)
	if err != nil {
		return failed(err)
	}
	if r.minor < 58 {
		limit, marker = len(found)+1, ""
	}
	from := 0
	if marker != "" {
		from = -1
		for i, a := range found {
			if a.RequestID == marker {
				from = i + 1
			}
		}
		if from < 0 {
			return refusal(http.StatusBadRequest, "badRequest", fmt.Sprintf("marker [%s] not found", marker))
		}
	}
	found = found[from:min(from+limit, len(found))]
	list := make([]object, 0, len(found))
	for _, a := range found {
		list = append(list, showAction(r, id, a))
	}
	body := object{"instanceActions": list}
	if len(found) > 0 {
		if links := next(r, limit, len(found), found[len(found)-1].RequestID); links != nil {
			body["links"] = links
		}
	}
	return ok(body)
}

func (s *Server) getAction(r *request, id, requestID string) reply {
	found, err := s.cloud.Actions(r.who(), id)
	if err != nil {
		return failed(err)
	}
	for _, a := range found {
		if a.RequestID != requestID {
			continue
		}
		out := showAction(r, id, a)
		events := []object{}
		for i := len(a.Events) - 1; i >= 0; i-- {
			e := a.Events[i]
			event := object{"event": e.Event, "result": null(e.Result), "start_time": stamp(e.StartAt), "finish_time": stamp(e.FinishAt)}
			if r.token.admin() {
				event["traceback"] = nil
				if r.minor >= 62 {
					event["host"] = null(e.Host)
				}
			}
			events = append(events, event)
		}
		out["events"] = events
		return ok(object{"instanceAction": out})
	}
	return refusal(http.StatusNotFound, "itemNotFound", fmt.Sprintf("Action for request_id %s on instance %s not found", requestID, id))
}

func showAction(r *request, id string, a sim.Action) object {
	out := object{
		"action": a.Name, "instance_uuid": id, "message": null(a.Message), "request_id": a.RequestID,
		"start_time": stamp(a.StartedAt), "user_id": null(a.UserID), "project_id": null(a.ProjectID),
	}
	if r.minor >= 58 {
		out["updated_at"] = stamp(a.UpdatedAt)
	}
	return out
}
