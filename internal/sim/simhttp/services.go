package simhttp

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/salvor-ha/salvor/internal/sim"
)

func (s *Server) listServices(r *request) reply {
	if err := r.who().May("os_compute_api:os-services:list"); err != nil {
		return failed(err)
	}
	list := []object{}
	for _, service := range s.cloud.Services(r.query.Get("binary"), r.query.Get("host")) {
		list = append(list, showService(r, service))
	}
	return ok(object{"services": list})
}

func showService(r *request, s sim.Service) object {
	status, state := "enabled", "up"
	if s.Disabled {
		status = "disabled"
	}
	if !s.Up {
		state = "down"
	}
	out := object{
		"id": s.ID, "binary": s.Binary, "host": s.Host, "zone": s.Zone, "status": status, "state": state,
		"updated_at": stamp(s.UpdatedAt), "disabled_reason": null(s.DisabledReason),
	}
	if r.minor < 53 {
		out["id"] = s.Number
	}
	if r.minor >= 11 {
		out["forced_down"] = s.ForcedDown
	}
	return out
}

// putService is PUT os-services/{id} of 2.53 and up.
func (s *Server) putService(r *request, id string) reply {
	if refused := onlyKeys("body", r.body, []string{"status", "disabled_reason", "forced_down"}); refused != nil {
		return *refused
	}
	var in struct {
		Status     *string `json:"status"`
		Reason     *string `json:"disabled_reason"`
		ForcedDown *bool   `json:"forced_down"`
	}
	if err := json.Unmarshal(r.body, &in); err != nil {
		return invalid("body", r.body, err.Error())
	}
	if in.Status == nil && in.ForcedDown == nil {
		return refusal(http.StatusBadRequest, "badRequest",
			"No updates were requested. Fields 'status' or 'forced_down' should be specified.")
	}
	patch := sim.ServicePatch{ForcedDown: in.ForcedDown, Reason: in.Reason}
	if in.Status != nil {
		disabled := *in.Status == "disabled"
		if !disabled && *in.Status != "enabled" {
			return refusal(http.StatusBadRequest, "badRequest",
				fmt.Sprintf("Invalid input for field/attribute status. Value: %s. '%s' is not one of ['enabled', 'disabled']", *in.Status, *in.Status))
		}
		patch.Disabled = &disabled
	}
	if in.Reason != nil && (patch.Disabled == nil || !*patch.Disabled) {
		return refusal(http.StatusBadRequest, "badRequest", "Specifying disabled_reason requires that status is disabled.")
	}
	service, late, err := s.cloud.UpdateService(r.who(), id, patch)
	if err != nil {
		return failed(err)
	}
	body := showService(r, service)
	body["updated_at"] = stamp(service.Answered)
	out := ok(object{"service": body})
	out.late = late
	return out
}
