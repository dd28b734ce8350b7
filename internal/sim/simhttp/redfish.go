package simhttp

import (
	"encoding/json"
	"net/http"

	"github.com/salvor-ha/salvor/internal/sim"
)

// redfish is the power of a host: /redfish/v1/Systems/{host}, and its ComputerSystem.Reset.
func (s *Server) redfish(r *request) reply {
	if !r.is(1, "GET", "v1/Systems/*") && !r.is(1, "POST", "v1/Systems/*/Actions/ComputerSystem.Reset") {
		return redfishError(http.StatusNotFound, "no such resource")
	}
	name := r.path[3]
	var host *sim.Host
	for _, h := range s.cloud.Hosts() {
		if h.Name == name {
			host = &h
		}
	}
	if host == nil {
		return redfishError(http.StatusNotFound, "no system "+name)
	}
	if r.method != http.MethodPost {
		power := "Off"
		if host.Powered {
			power = "On"
		}
		return ok(object{"@odata.id": "/redfish/v1/Systems/" + name, "Id": name, "Name": name, "PowerState": power,
			"Actions": object{"#ComputerSystem.Reset": object{
				"target":                            "/redfish/v1/Systems/" + name + "/Actions/ComputerSystem.Reset",
				"ResetType@Redfish.AllowableValues": []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart"},
			}}})
	}
	var in struct{ ResetType string }
	if err := json.Unmarshal(r.body, &in); err != nil {
		return redfishError(http.StatusBadRequest, "malformed body")
	}
	var steps []func(string) error
	switch in.ResetType {
	case "On", "ForceOn":
		steps = append(steps, s.cloud.Revive)
	case "ForceOff", "GracefulShutdown":
		steps = append(steps, s.cloud.Kill)
	case "ForceRestart", "GracefulRestart", "PowerCycle":
		steps = append(steps, s.cloud.Kill, s.cloud.Revive)
	default:
		return redfishError(http.StatusBadRequest, "no such ResetType: "+in.ResetType)
	}
	for _, step := range steps {
		if err := step(name); err != nil {
			return redfishError(http.StatusNotFound, err.Error())
		}
	}
	return reply{status: http.StatusNoContent}
}

func redfishError(status int, text string) reply {
	return reply{status: status, body: object{"error": object{"code": "Base.1.0.GeneralError", "message": text}}}
}
