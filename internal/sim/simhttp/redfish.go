package simhttp

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/internal/sim"
)

const (
	redfishSystems  = "/redfish/v1/Systems"
	redfishSessions = "/redfish/v1/SessionService/Sessions"
)

// redfish is the BMCs of all hosts behind one address: the way to a system, its power state and its ComputerSystem.Reset, and
// sessions.
func (s *Server) redfish(r *request) reply {
	switch {
	case r.is(1, "GET", "v1"):
		return ok(object{"@odata.id": "/redfish/v1/", "RedfishVersion": "1.18.0", "Systems": link(redfishSystems),
			"Links": object{"Sessions": link(redfishSessions)}})
	case r.is(1, "POST", "v1/SessionService/Sessions"):
		return s.login(r)
	case !s.loggedIn(r):
		return redfishError(http.StatusUnauthorized, "The authentication credentials included with this request are missing or invalid.")
	case r.is(1, "DELETE", "v1/SessionService/Sessions/*"):
		s.logins.end(r.path[4])
		return reply{status: http.StatusNoContent}
	case r.is(1, "GET", "v1/Systems"):
		members := []object{}
		for _, h := range s.cloud.Hosts() {
			members = append(members, link(redfishSystems+"/"+h.Name))
		}
		return ok(object{"@odata.id": redfishSystems, "Members": members, "Members@odata.count": len(members)})
	case r.is(1, "GET", "v1/Systems/*"), r.is(1, "POST", "v1/Systems/*/Actions/ComputerSystem.Reset"):
		return s.system(r, r.path[3])
	}
	return redfishError(http.StatusNotFound, "no such resource")
}

func link(path string) object { return object{"@odata.id": path} }

func (s *Server) system(r *request, name string) reply {
	fault, err := s.cloud.BMCOf(name)
	if err != nil {
		return redfishError(http.StatusNotFound, "no system "+name)
	}
	if fault.Dark {
		return reply{never: true}
	}
	if r.method == http.MethodPost {
		var in struct{ ResetType string }
		if err := json.Unmarshal(r.body, &in); err != nil {
			return redfishError(http.StatusBadRequest, "malformed body")
		}
		if err := s.cloud.BMCReset(name, in.ResetType); err != nil {
			return redfishRefusal(err)
		}
		return reply{status: http.StatusNoContent}
	}
	on, err := s.cloud.BMCPower(name)
	if err != nil {
		return redfishRefusal(err)
	}
	power, resets := "Off", []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart"}
	if on {
		power = "On"
	}
	if fault.NoForceOff {
		resets = []string{"On", "GracefulShutdown"}
	}
	return ok(object{"@odata.id": redfishSystems + "/" + name, "Id": name, "Name": name, "PowerState": power,
		"Actions": object{"#ComputerSystem.Reset": object{
			"target":                            redfishSystems + "/" + name + "/Actions/ComputerSystem.Reset",
			"ResetType@Redfish.AllowableValues": resets,
		}}})
}

func redfishRefusal(err error) reply {
	var refused *sim.Refusal
	if errors.As(err, &refused) {
		return redfishError(refused.Status, refused.Text)
	}
	return redfishError(http.StatusInternalServerError, err.Error())
}

func redfishError(status int, text string) reply {
	return reply{status: status, body: object{"error": object{"code": "Base.1.0.GeneralError", "message": text,
		"@Message.ExtendedInfo": []object{{"MessageId": "Base.1.0.GeneralError", "Message": text}}}}}
}

// maxSessions is how many sessions there may be; BMCs have few.
const maxSessions = 16

// sessions are logins at the BMCs, by the token that proves them.
type sessions struct {
	mu   sync.Mutex
	made int
	byID map[string]string
}

func (s *Server) login(r *request) reply {
	var in struct{ UserName, Password string }
	if err := json.Unmarshal(r.body, &in); err != nil {
		return redfishError(http.StatusBadRequest, "malformed body")
	}
	if !account(in.UserName, in.Password) {
		return redfishError(http.StatusUnauthorized, "invalid user name or password")
	}
	l := &s.logins
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.byID) >= maxSessions {
		return redfishError(http.StatusServiceUnavailable, "the maximum number of sessions is reached")
	}
	if l.byID == nil {
		l.byID = map[string]string{}
	}
	l.made++
	id, token := fmt.Sprint(l.made), rand.Text()
	l.byID[id] = token
	return reply{status: http.StatusCreated, body: object{"@odata.id": redfishSessions + "/" + id, "Id": id, "UserName": in.UserName},
		header: map[string]string{"X-Auth-Token": token, "Location": redfishSessions + "/" + id}}
}

func (l *sessions) end(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byID, id)
}

func (l *sessions) has(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.byID {
		if t == token {
			return true
		}
	}
	return false
}

// loggedIn refuses who shows an account or a token that is none.
func (s *Server) loggedIn(r *request) bool {
	if token := r.header.Get("X-Auth-Token"); token != "" {
		return s.logins.has(token)
	}
	basic, is := strings.CutPrefix(r.header.Get("Authorization"), "Basic ")
	if !is {
		return true
	}
	plain, err := base64.StdEncoding.DecodeString(basic)
	name, pass, _ := strings.Cut(string(plain), ":")
	return err == nil && account(name, pass)
}

func account(name, pass string) bool {
	for _, u := range users {
		if u.name == name {
			return pass == password
		}
	}
	return false
}

// setBMC makes a host's BMC misbehave; {} makes it well again.
func (s *Server) setBMC(r *request) reply {
	var in struct {
		OffAfterMS int64 `json:"off_after_ms"`
		RefuseOff  int   `json:"refuse_off"`
		Lies       int   `json:"lies"`
		Stuck      bool  `json:"stuck"`
		Deaf       bool  `json:"deaf"`
		Denied     bool  `json:"denied"`
		Dark       bool  `json:"dark"`
		NoForceOff bool  `json:"no_force_off"`
	}
	if err := strict(r.body, &in); err != nil {
		return controlError(http.StatusBadRequest, err)
	}
	if _, err := s.cloud.BMCOf(r.path[2]); err != nil {
		return controlError(http.StatusNotFound, err)
	}
	err := s.cloud.SetBMC(r.path[2], sim.BMCFault{
		OffAfter: time.Duration(in.OffAfterMS) * time.Millisecond, RefuseOff: in.RefuseOff, Lies: in.Lies, Stuck: in.Stuck,
		Deaf: in.Deaf, Denied: in.Denied, Dark: in.Dark, NoForceOff: in.NoForceOff,
	})
	if err != nil {
		return controlError(http.StatusBadRequest, err)
	}
	return reply{status: http.StatusNoContent}
}
