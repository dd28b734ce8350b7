package simhttp

import (
	"fmt"
	"net/http"

	"github.com/salvor-ha/salvor/internal/sim"
)

// placement is the part of Placement that tells where an instance has allocations.
func (s *Server) placement(r *request) reply {
	if r.is(1, "GET", "") {
		return ok(object{"versions": []object{{"id": "v1.0", "status": "CURRENT", "min_version": "1.0", "max_version": "1.39",
			"links": []object{{"rel": "self", "href": r.base + "/placement/"}}}}})
	}
	switch {
	case r.token == nil:
		return unauthorized()
	case !r.token.admin():
		return placementError(http.StatusForbidden, "Access was denied to this resource.")
	case r.is(1, "GET", "allocations/*"):
		return s.allocations(r.path[2])
	case r.is(1, "GET", "resource_providers"):
		list := []object{}
		for _, p := range s.cloud.Providers() {
			if is := r.query.Get("uuid"); is != "" && is != p.UUID {
				continue
			}
			if is := r.query.Get("name"); is != "" && is != p.Name {
				continue
			}
			list = append(list, showProvider(p))
		}
		return ok(object{"resource_providers": list})
	case r.is(1, "GET", "allocation_candidates"):
		return s.candidates(r)
	case r.is(1, "GET", "resource_providers/*"):
		for _, p := range s.cloud.Providers() {
			if p.UUID == r.path[2] {
				return ok(showProvider(p))
			}
		}
		return placementError(http.StatusNotFound, fmt.Sprintf("No resource provider with uuid %s found", r.path[2]))
	}
	return placementError(http.StatusNotFound, "The resource could not be found.")
}

func (s *Server) allocations(consumer string) reply {
	a := s.cloud.Allocations(consumer)
	by := object{}
	for _, provider := range a.Providers {
		by[provider] = object{"generation": 1, "resources": object{"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}}
	}
	body := object{"allocations": by}
	if len(by) > 0 {
		body["project_id"], body["user_id"], body["consumer_generation"] = a.Project, a.User, 1
	}
	return ok(body)
}

func showProvider(p sim.Provider) object {
	return object{"uuid": p.UUID, "name": p.Name, "generation": 1, "parent_provider_uuid": nil, "root_provider_uuid": p.UUID,
		"links": []object{{"rel": "self", "href": "/placement/resource_providers/" + p.UUID}}}
}

func placementError(status int, detail string) reply {
	return reply{status: status, body: object{"errors": []object{{"status": status, "title": http.StatusText(status), "detail": detail}}}}
}
