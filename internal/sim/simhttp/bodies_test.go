package simhttp

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/sim"
)

// The bodies that NOVA-OBSERVATIONS quotes, byte for byte but for names, ids and times.
func TestObservedBodies(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 3}, Options{})
	admin, demo := l.token("admin", "admin"), l.token("demo", "demo")
	add := func(body string) string {
		var made struct{ IDs []string }
		l.control("POST", "/sim/instances", body, &made)
		return made.IDs[0]
	}
	id := add(`{"host": "host-1"}`)
	paused := add(`{"host": "host-1", "vm_state": "paused"}`)
	foreign := add(`{"host": "host-1", "project": "` + sim.ProjectService + `"}`)
	offloaded := add(`{"host": "host-1", "vm_state": "shelved_offloaded"}`)
	const none = "11111111-2222-3333-4444-555555555555"

	check := func(what, token, version, method, path, body string, status int, want string) {
		t.Helper()
		gotStatus, got := l.call(token, version, method, path, body)
		if gotStatus != status {
			t.Errorf("%s: %d, want %d: %s", what, gotStatus, status, got)
			return
		}
		if want == "" {
			if got != "" {
				t.Errorf("%s: body %q, want none", what, got)
			}
			return
		}
		same(t, what, got, want)
	}
	evacuate := func(what, token, version, id, args string, status int, want string) {
		t.Helper()
		check(what, token, version, "POST", "/compute/v2.1/servers/"+id+"/action", `{"evacuate": `+args+`}`, status, want)
	}
	evacuate("host is up", admin, "2.93", id, `{}`, 400,
		`{"badRequest": {"code": 400, "message": "Compute service of host-1 is still in use."}}`)
	l.down("host-1")
	evacuate("paused", admin, "2.93", paused, `{}`, 409,
		`{"conflictingRequest": {"code": 409, "message": "Cannot 'evacuate' instance `+paused+` while it is in vm_state paused"}}`)
	evacuate("offloaded", admin, "2.93", offloaded, `{}`, 400,
		`{"badRequest": {"code": 400, "message": "The target host can't be the same one."}}`)
	evacuate("own, as a member", demo, "2.93", id, `{}`, 403,
		`{"forbidden": {"code": 403, "message": "Policy doesn't allow os_compute_api:os-evacuate to be performed."}}`)
	evacuate("foreign, as a member", demo, "2.93", foreign, `{}`, 404,
		`{"itemNotFound": {"code": 404, "message": "Instance `+foreign+` could not be found."}}`)
	evacuate("no such server", admin, "2.93", none, `{}`, 404,
		`{"itemNotFound": {"code": 404, "message": "Instance `+none+` could not be found."}}`)
	evacuate("same host", admin, "2.93", id, `{"host": "host-1"}`, 400,
		`{"badRequest": {"code": 400, "message": "The target host can't be the same one."}}`)
	evacuate("unknown host", admin, "2.93", id, `{"host": "nowhere"}`, 404,
		`{"itemNotFound": {"code": 404, "message": "Compute host nowhere not found."}}`)
	evacuate("onSharedStorage", admin, "2.93", id, `{"onSharedStorage": false}`, 400,
		`{"badRequest": {"code": 400, "message": "Invalid input for field/attribute evacuate. Value: {'onSharedStorage': False}. Additional properties are not allowed ('onSharedStorage' was unexpected)"}}`)
	evacuate("force at 2.93", admin, "2.93", id, `{"host": "host-2", "force": true}`, 400,
		`{"badRequest": {"code": 400, "message": "Invalid input for field/attribute evacuate. Value: {'force': True, 'host': 'host-2'}. Additional properties are not allowed ('force' was unexpected)"}}`)
	evacuate("taken", admin, "2.93", id, `{}`, 200, "")
	evacuate("force at 2.29", admin, "2.29", foreign, `{"host": "host-2", "force": true}`, 200, "")

	check("services as a member", demo, "2.93", "GET", "/compute/v2.1/os-services", "", 403,
		`{"forbidden": {"code": 403, "message": "Policy doesn't allow os_compute_api:os-services:list to be performed."}}`)
	check("bad token", "bad", "2.93", "GET", "/compute/v2.1/servers", "", 401,
		`{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}`)
	check("no token", "", "2.93", "GET", "/compute/v2.1/servers", "", 401,
		`{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}`)
	for _, state := range []string{"error", "active"} {
		check("reset", admin, "2.93", "POST", "/compute/v2.1/servers/"+paused+"/action", `{"os-resetState": {"state": "`+state+`"}}`, 202, "")
	}
	l.eventually("evacuated", func() bool {
		ins, _ := l.cloud.Instance(id)
		return ins.Host != "host-1" && ins.TaskState == ""
	})
	check("force up too early", admin, "2.93", "PUT", "/compute/v2.1/os-services/"+l.serviceID("host-1"), `{"forced_down": false}`, 400,
		"{\"badRequest\": {\"code\": 400, \"message\": \"Unable to force up host host-1 as `done` evacuation migration records remain associated with the host. Ensure the compute service has been restarted, allowing these records to move to `completed` before retrying this request.\"}}")
}

// "2.1 with {"onSharedStorage": false}: 200 {"adminPass": "U7n3QXZ8ciP2"}".
func TestEvacuateAtTheOldestMicroversion(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 2, Instances: 1}, Options{})
	all, _, _ := l.cloud.Instances(sim.InstanceQuery{})
	l.down("host-1")
	for _, version := range []string{"2.1", ""} {
		status, body := l.call(l.token("admin", "admin"), version, "POST", "/compute/v2.1/servers/"+all[0].ID+"/action", `{"evacuate": {}}`)
		if status != 400 || !strings.Contains(body, "'onSharedStorage' is a required property") {
			t.Errorf("%d %s", status, body)
		}
	}
	status, body := l.call(l.token("admin", "admin"), "2.1", "POST", "/compute/v2.1/servers/"+all[0].ID+"/action", `{"evacuate": {"onSharedStorage": false}}`)
	var out struct{ AdminPass string }
	if err := json.Unmarshal([]byte(body), &out); status != 200 || err != nil || len(out.AdminPass) != 12 {
		t.Errorf("%d %s", status, body)
	}
}

func TestServiceBody(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 1}, Options{})
	admin := l.token("admin", "admin")
	_, body := l.call(admin, "2.93", "GET", "/compute/v2.1/os-services?binary=nova-compute&host=host-1", "")
	var got struct{ Services []map[string]any }
	l.must(json.Unmarshal([]byte(body), &got))
	updated, _ := got.Services[0]["updated_at"].(string)
	if len(updated) != len("2026-11-29T11:27:57.000000") || strings.HasSuffix(updated, "Z") {
		t.Errorf("updated_at %q", updated)
	}
	same(t, "service", body, `{"services": [{"binary": "nova-compute", "host": "host-1", "id": "`+l.serviceID("host-1")+`", "zone": "nova",
		"status": "enabled", "state": "up", "updated_at": "`+updated+`", "disabled_reason": null, "forced_down": false}]}`)

	_, body = l.call(admin, "2.93", "GET", "/compute/v2.1/os-services", "")
	l.must(json.Unmarshal([]byte(body), &got))
	var binaries []string
	for _, s := range got.Services {
		binaries = append(binaries, s["binary"].(string))
	}
	if !slices.Equal(binaries, []string{"nova-scheduler", "nova-conductor", "nova-compute"}) {
		t.Errorf("%v", binaries)
	}
	for body, want := range map[string]string{
		`{}`:                         "No updates were requested",
		`{"status": "off"}`:          "is not one of ['enabled', 'disabled']",
		`{"disabled_reason": "x"}`:   "No updates were requested",
		`{"forced_down": "perhaps"}`: "Invalid input",
		`{"state": "up"}`:            "'state' was unexpected",
	} {
		if status, text := l.call(admin, "2.93", "PUT", "/compute/v2.1/os-services/"+l.serviceID("host-1"), body); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	for _, forced := range []string{"true", "false"} {
		_, body = l.call(admin, "2.93", "PUT", "/compute/v2.1/os-services/"+l.serviceID("host-1"), `{"forced_down": `+forced+`}`)
		var put struct {
			Service struct {
				State   string
				Updated string `json:"updated_at"`
			}
		}
		l.must(json.Unmarshal([]byte(body), &put))
		if down := put.Service.State == "down"; down != (forced == "true") || len(put.Service.Updated) != len(updated) {
			t.Errorf("%s", body)
		}
	}
	if status, _ := l.call(admin, "2.93", "PUT", "/compute/v2.1/os-services/11111111-2222-3333-4444-555555555555", `{"forced_down": true}`); status != 404 {
		t.Errorf("unknown service: %d", status)
	}
}

// What a server in error shows after "No valid host".
func TestNoValidHostBody(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 1, Instances: 1}, Options{})
	all, _, _ := l.cloud.Instances(sim.InstanceQuery{})
	admin, path := l.token("admin", "admin"), "/compute/v2.1/servers/"+all[0].ID
	l.down("host-1")
	if status, body := l.call(admin, "2.93", "POST", path+"/action", `{"evacuate": {}}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	var got struct{ Server map[string]any }
	l.eventually("error", func() bool {
		_, body := l.call(admin, "2.93", "GET", path, "")
		l.must(json.Unmarshal([]byte(body), &got))
		return got.Server["status"] == "ERROR"
	})
	for key, want := range map[string]any{"OS-EXT-STS:vm_state": "error", "OS-EXT-STS:task_state": nil, "OS-EXT-SRV-ATTR:host": "host-1", "host_status": "DOWN"} {
		if got.Server[key] != want {
			t.Errorf("%s = %v, want %v", key, got.Server[key], want)
		}
	}
	fault, _ := got.Server["fault"].(map[string]any)
	if fault["message"] != "No valid host was found. There are not enough hosts available." {
		t.Errorf("fault %v", fault)
	}
	_, body := l.call(admin, "2.93", "GET", "/compute/v2.1/os-migrations?instance_uuid="+all[0].ID, "")
	var ms struct{ Migrations []map[string]any }
	l.must(json.Unmarshal([]byte(body), &ms))
	if len(ms.Migrations) != 1 || ms.Migrations[0]["status"] != "error" || ms.Migrations[0]["dest_compute"] != nil ||
		ms.Migrations[0]["migration_type"] != "evacuation" || ms.Migrations[0]["source_compute"] != "host-1" {
		t.Errorf("%s", body)
	}
}

// What plain members see and may.
func TestMembers(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 1, Instances: 1}, Options{})
	all, _, _ := l.cloud.Instances(sim.InstanceQuery{})
	demo := l.token("demo", "demo")
	_, body := l.call(demo, "2.93", "GET", "/compute/v2.1/servers/"+all[0].ID, "")
	for _, hidden := range []string{"OS-EXT-SRV-ATTR:host", "host_status", "hypervisor_hostname"} {
		if strings.Contains(body, hidden) {
			t.Errorf("a member sees %s", hidden)
		}
	}
	for _, shown := range []string{`"OS-EXT-STS:vm_state":"active"`, `"locked":false`} {
		if !strings.Contains(body, shown) {
			t.Errorf("a member does not see %s in %s", shown, body)
		}
	}
	for _, path := range []string{"servers/detail?all_tenants=1", "servers?all_tenants", "os-migrations", "os-aggregates", "os-hypervisors", "os-hypervisors/detail"} {
		if status, _ := l.call(demo, "2.93", "GET", "/compute/v2.1/"+path, ""); status != 403 {
			t.Errorf("%s: %d, want 403", path, status)
		}
	}
	if status, _ := l.call(demo, "2.93", "PUT", "/compute/v2.1/os-services/"+l.serviceID("host-1"), `{"forced_down": true}`); status != 403 {
		t.Errorf("PUT: %d", status)
	}
	if status, _ := l.call(demo, "", "GET", "/placement/allocations/"+all[0].ID, ""); status != 403 {
		t.Errorf("placement: %d", status)
	}
	var list struct{ Servers []map[string]any }
	_, body = l.call(demo, "2.93", "GET", "/compute/v2.1/servers/detail", "")
	l.must(json.Unmarshal([]byte(body), &list))
	if len(list.Servers) != 1 {
		t.Errorf("own servers: %s", body)
	}
	_, body = l.call(l.token("admin", "admin"), "2.93", "GET", "/compute/v2.1/servers/detail", "")
	l.must(json.Unmarshal([]byte(body), &list))
	if len(list.Servers) != 0 {
		t.Errorf("without all_tenants an admin sees his own project's, but %s", body)
	}
}

func TestVersions(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 1, Instances: 1}, Options{})
	admin := l.token("admin", "admin")
	status, body := l.call("", "", "GET", "/compute/v2.1/", "")
	if status != 200 || !strings.Contains(body, `"version":"2.93"`) || !strings.Contains(body, `"min_version":"2.1"`) {
		t.Errorf("%d %s", status, body)
	}
	for path, want := range map[string]int{"/": 300, "/v3": 200, "/compute": 300, "/compute/v2.1": 200, "/placement": 200, "/elsewhere": 404, "/compute/v3": 404} {
		if status, body := l.call("", "", "GET", path, ""); status != want || !json.Valid([]byte(body)) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for version, want := range map[string]int{"2.1": 200, "2.93": 200, "latest": 200, "2.94": 406, "3.0": 406, "two": 400} {
		if status, body := l.call(admin, version, "GET", "/compute/v2.1/servers", ""); status != want {
			t.Errorf("%s: %d %s", version, status, body)
		}
	}
	all, _, _ := l.cloud.Instances(sim.InstanceQuery{})
	for version, keys := range map[string][]string{"2.8": {}, "2.9": {"locked"}, "2.16": {"locked", "host_status"}, "2.73": {"locked", "host_status", "locked_reason"}} {
		_, body := l.call(admin, version, "GET", "/compute/v2.1/servers/"+all[0].ID, "")
		for _, key := range []string{"locked", "host_status", "locked_reason"} {
			if has := strings.Contains(body, `"`+key+`":`); has != slices.Contains(keys, key) {
				t.Errorf("%s at %s: %v", key, version, has)
			}
		}
	}
	if status, _ := l.call(admin, "2.53", "GET", "/compute/v2.1/"+sim.ProjectAdmin+"/os-services", ""); status != 200 {
		t.Errorf("with the project in the path: %d", status)
	}
}

// Pages: none is longer than the server's limit, a full one has a link, and a link's page may be empty.
func TestPages(t *testing.T) {
	l := newLab(t, sim.Options{Hosts: 2, Instances: 12}, Options{PageLimit: 3})
	admin := l.token("admin", "admin")
	path, pages, seen := "/compute/v2.1/servers/detail?all_tenants=True&host=host-1", 0, map[string]bool{}
	for path != "" {
		var got struct {
			Servers []struct{ ID string }
			Links   []struct{ Rel, Href string } `json:"servers_links"`
		}
		_, body := l.call(admin, "2.93", "GET", path, "")
		l.must(json.Unmarshal([]byte(body), &got))
		pages++
		if len(got.Servers) > 3 {
			t.Errorf("a page of %d", len(got.Servers))
		}
		for _, s := range got.Servers {
			seen[s.ID] = true
		}
		path = ""
		if len(got.Links) > 0 {
			path = strings.TrimPrefix(got.Links[0].Href, l.url)
		}
	}
	if pages != 3 || len(seen) != 6 { // two full ones, and an empty one
		t.Errorf("%d servers on %d pages", len(seen), pages)
	}
	for query, want := range map[string]int{"limit=2": 200, "limit=-1": 400, "limit=x": 400, "marker=" + sim.ProjectAdmin: 400} {
		if status, body := l.call(admin, "2.93", "GET", "/compute/v2.1/servers?all_tenants=1&"+query, ""); status != want {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
}
