package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The tokens and the project that the stub knows.
const (
	AdminToken  = "admintok"
	MemberToken = "membertok"
	ReaderToken = "readertok"
	Project     = "0123456789abcdef0123456789abcdef"
)

// Stub is the small Keystone v3 and Nova 2.53 that the cases assume (contract section 13): a nova-compute for every host,
// except for those whose name begins with "missing"; a name that begins with novaNNN makes os-services answer NNN; a
// host compute-vms-* has two HA instances; evacuations are done at once. The zero value is ready once URL is set.
type Stub struct {
	URL string

	mu         sync.Mutex
	services   map[string]object
	servers    map[string]object
	placed     map[string][]string // host: its two instances
	migrations []object
	lastHost   string // an instance first asked about lives on the host last looked up
}

type object = map[string]any

const novaStamp = "2026-01-01T00:00:00.000000"

// ServeHTTP answers for both services.
func (s *Stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.services == nil {
		s.services, s.servers, s.placed, s.lastHost = map[string]object{}, map[string]object{}, map[string][]string{}, "compute-x"
	}
	path := strings.TrimRight(r.URL.Path, "/")
	var body object
	_ = json.NewDecoder(r.Body).Decode(&body) // none is fine
	switch {
	case path == "" || path == "/v3":
		s.versions(w, path)
	case path == "/v3/auth/tokens":
		s.tokens(w, r, body)
	case path == "/compute/v2.1":
		out(w, http.StatusOK, object{"version": object{
			"id": "v2.1", "status": "CURRENT", "version": "2.90", "min_version": "2.1", "updated": "2013-07-23T11:33:21Z",
			"links": []any{object{"rel": "self", "href": s.URL + "/compute/v2.1/"}},
		}})
	case strings.HasPrefix(path, "/compute/v2.1/"):
		s.compute(w, r, strings.Split(strings.TrimPrefix(path, "/compute/v2.1/"), "/"), body)
	default:
		notFound(w, r.URL.Path)
	}
}

func out(w http.ResponseWriter, status int, body object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if body != nil {
		_ = json.NewEncoder(w).Encode(body)
	}
}

func notFound(w http.ResponseWriter, what string) {
	out(w, http.StatusNotFound, object{"itemNotFound": object{"code": http.StatusNotFound, "message": "stub: " + what}})
}

func (s *Stub) versions(w http.ResponseWriter, path string) {
	v := object{
		"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z", "media-types": []any{},
		"links": []any{object{"rel": "self", "href": s.URL + "/v3/"}},
	}
	if path == "" {
		out(w, http.StatusOK, object{"versions": object{"values": []any{v}}})
		return
	}
	out(w, http.StatusOK, object{"version": v})
}

func (s *Stub) tokens(w http.ResponseWriter, r *http.Request, _ object) {
	token := AdminToken
	status := http.StatusCreated
	if r.Method != http.MethodPost {
		token, status = r.Header.Get("X-Subject-Token"), http.StatusOK
	}
	role := map[string]string{AdminToken: "admin", MemberToken: "member", ReaderToken: "reader"}[token]
	if role == "" {
		out(w, http.StatusNotFound, object{"error": object{"code": http.StatusNotFound, "message": "Could not recognize token", "title": "Not Found"}})
		return
	}
	endpoints := func(url string) []any {
		var list []any
		for _, i := range []string{"public", "internal", "admin"} {
			list = append(list, object{"id": i, "interface": i, "region": "RegionOne", "region_id": "RegionOne", "url": url})
		}
		return list
	}
	domain := object{"id": "default", "name": "Default"}
	w.Header().Set("X-Subject-Token", token)
	out(w, status, object{"token": object{
		"methods": []any{"password"}, "user": object{"id": role + "-id", "name": role, "domain": domain},
		"expires_at": time.Now().UTC().Add(time.Hour).Format("2006-01-02T15:04:05.000000Z"), "issued_at": "2026-01-01T00:00:00.000000Z",
		"project": object{"id": Project, "name": "service", "domain": domain}, "is_domain": false,
		"roles": []any{object{"id": role, "name": role}}, "audit_ids": []any{"x"},
		"catalog": []any{
			object{"type": "identity", "name": "keystone", "id": "k", "endpoints": endpoints(s.URL + "/v3")},
			object{"type": "compute", "name": "nova", "id": "n", "endpoints": endpoints(s.URL + "/compute/v2.1")},
		},
	}})
}

func (s *Stub) compute(w http.ResponseWriter, r *http.Request, path []string, body object) {
	q := r.URL.Query()
	switch {
	case path[0] == "os-services" && len(path) == 1:
		s.listServices(w, q.Get("host"), q.Get("binary"))
	case path[0] == "os-services" && r.Method == http.MethodPut:
		s.changeService(w, path[1], body)
	case path[0] == "os-migrations":
		list := []any{}
		for _, m := range s.migrations {
			if i := q.Get("instance_uuid"); q.Get("marker") == "" && (i == "" || m["instance_uuid"] == i) {
				list = append(list, m)
			}
		}
		out(w, http.StatusOK, object{"migrations": list})
	case path[0] == "os-hypervisors":
		out(w, http.StatusOK, object{"hypervisors": []any{}})
	case path[0] == "os-aggregates":
		out(w, http.StatusOK, object{"aggregates": []any{}})
	case path[0] == "servers" && len(path) == 2 && path[1] == "detail":
		s.listServers(w, q.Get("host"), q.Get("marker"))
	case path[0] == "servers" && len(path) == 2:
		out(w, http.StatusOK, object{"server": s.server(path[1])})
	case path[0] == "servers" && len(path) == 3 && path[2] == "action":
		s.act(w, s.server(path[1]), body)
	case path[0] == "servers" && len(path) == 3 && path[2] == "os-instance-actions":
		out(w, http.StatusOK, object{"instanceActions": []any{}})
	default:
		notFound(w, r.URL.Path)
	}
}

func novaService(id, binary, host string) object {
	return object{
		"id": id, "binary": binary, "host": host, "zone": "nova", "status": "enabled", "state": "up",
		"updated_at": novaStamp, "disabled_reason": nil, "forced_down": false,
	}
}

func (s *Stub) listServices(w http.ResponseWriter, host, binary string) {
	if len(host) >= 7 && strings.HasPrefix(host, "nova") {
		if code, err := strconv.Atoi(host[4:7]); err == nil {
			out(w, code, object{"fault": object{"code": code, "message": fmt.Sprintf("stub says %d", code)}})
			return
		}
	}
	all := []object{}
	switch {
	case strings.HasPrefix(host, "missing"):
	case host != "":
		s.lastHost = host
		if s.services[host] == nil {
			s.services[host] = novaService(fmt.Sprintf("%08d-0000-4000-8000-000000000000", len(s.services)+1), "nova-compute", host)
		}
		all = append(all, s.services[host])
	default:
		for _, x := range s.services {
			all = append(all, x)
		}
		for i, b := range []string{"nova-scheduler", "nova-conductor"} {
			all = append(all, novaService(fmt.Sprintf("90000000-0000-4000-8000-00000000000%d", i), b, "controller"))
		}
	}
	list := []any{}
	for _, x := range all {
		if binary == "" || x["binary"] == binary {
			list = append(list, x)
		}
	}
	out(w, http.StatusOK, object{"services": list})
}

func (s *Stub) changeService(w http.ResponseWriter, id string, change object) {
	for _, x := range s.services {
		if x["id"] != id {
			continue
		}
		for k, v := range change {
			x[k] = v
		}
		x["state"] = "up"
		if x["forced_down"] == true {
			x["state"] = "down"
		}
		out(w, http.StatusOK, object{"service": x})
		return
	}
	notFound(w, "service "+id)
}

func (s *Stub) server(id string) object {
	if s.servers[id] == nil {
		s.servers[id] = object{
			"id": id, "name": "vm-" + id[:min(4, len(id))], "metadata": object{"HA_Enabled": "True"}, "status": "ACTIVE", "locked": false,
			"OS-EXT-STS:vm_state": "active", "OS-EXT-STS:task_state": nil, "OS-EXT-STS:power_state": 1,
			"OS-EXT-SRV-ATTR:hypervisor_hostname": s.lastHost, "OS-EXT-SRV-ATTR:host": s.lastHost,
			"created": "2026-01-01T00:00:00Z", "tenant_id": Project, "flavor": object{}, "image": "", "links": []any{},
		}
	}
	return s.servers[id]
}

func (s *Stub) listServers(w http.ResponseWriter, host, marker string) {
	list := []any{}
	if strings.HasPrefix(host, "compute-vms") && marker == "" {
		if s.placed[host] == nil {
			s.lastHost = host
			for i := range 2 {
				id := fmt.Sprintf("%08x-0000-4000-8000-00000000000%d", 0xa0000000+len(s.placed), i)
				s.server(id)
				s.placed[host] = append(s.placed[host], id)
			}
		}
		for _, id := range s.placed[host] {
			if x := s.servers[id]; x["OS-EXT-SRV-ATTR:host"] == host {
				list = append(list, x)
			}
		}
	}
	out(w, http.StatusOK, object{"servers": list})
}

func (s *Stub) act(w http.ResponseWriter, server, body object) {
	for action, args := range body {
		switch action {
		case "os-stop":
			server["OS-EXT-STS:vm_state"], server["OS-EXT-STS:power_state"] = "stopped", 4
		case "os-start":
			server["OS-EXT-STS:vm_state"], server["OS-EXT-STS:power_state"] = "active", 1
		case "os-resetState":
			server["OS-EXT-STS:vm_state"] = args.(object)["state"]
		case "lock", "unlock":
			server["locked"] = action == "lock"
		case "evacuate":
			s.evacuate(server, args.(object))
			out(w, http.StatusOK, nil)
			return
		}
	}
	out(w, http.StatusAccepted, nil)
}

func (s *Stub) evacuate(server, args object) {
	source, dest := server["OS-EXT-SRV-ATTR:host"], any("compute-dest")
	if host, ok := args["host"]; ok {
		dest = host
	}
	server["OS-EXT-SRV-ATTR:host"], server["OS-EXT-SRV-ATTR:hypervisor_hostname"] = dest, dest
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000000")
	s.migrations = append(s.migrations, object{
		"id": len(s.migrations) + 1, "uuid": fmt.Sprintf("70000000-0000-4000-8000-%012d", len(s.migrations)),
		"instance_uuid": server["id"], "migration_type": "evacuation", "status": "done",
		"source_compute": source, "dest_compute": dest, "source_node": source, "dest_node": dest,
		"created_at": now, "updated_at": now,
	})
}
