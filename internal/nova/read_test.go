package nova

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

// oneServer is a server as Nova 2.93 shows it in a list, cut down to what was observed around it.
func oneServer(id, host, vm, task string) string {
	if task != "null" {
		task = `"` + task + `"`
	}
	return fmt.Sprintf(`{"id": %q, "name": "vm-%s", "status": "ACTIVE", "tenant_id": "p1", "user_id": "u1", "metadata": {"HA_Enabled": "True"},
		"hostId": "x", "image": "", "flavor": {"vcpus": 1}, "created": "2026-11-29T11:00:00Z", "updated": "2026-11-29T11:00:01Z",
		"OS-EXT-SRV-ATTR:host": %q, "OS-EXT-SRV-ATTR:hypervisor_hostname": "%s.example.com", "OS-EXT-STS:vm_state": %q,
		"OS-EXT-STS:task_state": %s, "OS-EXT-STS:power_state": 1, "locked": true, "locked_reason": null, "host_status": "UP"}`,
		id, id, host, host, vm, task)
}

func TestServers(t *testing.T) {
	f := newFake(t)
	c := f.client(t)
	f.answer("GET /compute/v2.1/servers/detail", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("marker") {
		case "":
			// The link bears a host that only Nova knows; it must not be followed there.
			ok(`{"servers": [`+oneServer("a", "compute-1", "active", "null")+`,`+oneServer("b", "compute-10", "active", "null")+`],
				"servers_links": [{"rel": "next", "href": "http://inside.invalid/v2.1/servers/detail?all_tenants=True&host=compute-1&limit=2&marker=b"}]}`)(w, r)
		case "b":
			ok(`{"servers": [`+oneServer("c", "compute-1", "stopped", "powering-off")+`]}`)(w, r)
		}
	})
	f.answer("GET /compute/v2.1/os-services", ok(`{"services": [{"id": "s1", "binary": "nova-compute", "host": "compute-1", "status": "disabled", "state": "down"}]}`))
	got, err := c.Servers(ctx(t), "compute-1")
	if err != nil {
		t.Fatal(err)
	}
	want := []ha.Server{
		{ID: "a", Name: "vm-a", Host: "compute-1", Hypervisor: "compute-1.example.com", VMState: "active", Running: true, Locked: true, Metadata: map[string]string{"HA_Enabled": "True"},
			CreatedAt: time.Date(2026, 11, 29, 11, 0, 0, 0, time.UTC), Project: "p1"},
		{ID: "c", Name: "vm-c", Host: "compute-1", Hypervisor: "compute-1.example.com", VMState: "stopped", TaskState: "powering-off", Running: true, Locked: true,
			Metadata: map[string]string{"HA_Enabled": "True"}, CreatedAt: time.Date(2026, 11, 29, 11, 0, 0, 0, time.UTC), Project: "p1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	calls := f.calls("GET /compute/v2.1/servers/detail")
	if len(calls) != 2 {
		t.Fatalf("%d pages", len(calls))
	}
	for i, q := range []url.Values{{"all_tenants": {"true"}, "host": {"compute-1"}},
		{"all_tenants": {"true"}, "host": {"compute-1"}, "limit": {"2"}, "marker": {"b"}}} {
		if calls[i].query != q.Encode() {
			t.Errorf("page %d: ?%s", i, calls[i].query)
		}
	}
	if v := calls[0].header.Get("OpenStack-API-Version"); v != "compute 2.93" {
		t.Errorf("microversion %q", v)
	}
}

// TestServersIsNeverShort: whatever makes the list incomplete is an error.
func TestServersIsNeverShort(t *testing.T) {
	up := `{"services": [{"id": "s1", "binary": "nova-compute", "host": "compute-1", "status": "enabled", "state": "up"}]}`
	unreachable := `{"services": [{"binary": "nova-compute", "host": "compute-1", "status": "UNKNOWN"}, {"binary": "nova-compute", "host": "other", "status": "UNKNOWN"}]}`
	good := oneServer("a", "compute-1", "active", "null")
	tests := []struct {
		name, servers, services, want string
		status                        int
	}{
		{"a server of an unreachable cell", `{"servers": [` + good + `, {"id": "b", "status": "UNKNOWN", "tenant_id": "p", "created": "2026-11-29T11:00:00Z", "links": []}]}`,
			up, "cannot reach the cell of server b", 0},
		{"no host attribute", `{"servers": [{"id": "b", "status": "ACTIVE", "OS-EXT-STS:vm_state": "active"}]}`, up, "needs the role admin", 0},
		{"empty because the host's cell is unreachable", `{"servers": []}`, unreachable, "cannot reach the cell of host compute-1", 0},
		{"no list at all", `{}`, up, "no list of servers", 0},
		{"not JSON", `<html>`, up, "cannot be read", 0},
		{"cut off", `{"servers": [` + good, up, "cannot be read", 0},
		{"endless", `{"servers": [` + good + `], "servers_links": [{"rel": "next", "href": "/x?marker=a"}]}`, up, "does not end", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			f.answer("GET /compute/v2.1/servers/detail", ok(tt.servers))
			f.answer("GET /compute/v2.1/os-services", ok(tt.services))
			got, err := f.client(t).Servers(ctx(t), "compute-1")
			wantError(t, err, ha.ClassBroken, tt.status, tt.want)
			if got != nil {
				t.Errorf("and %d servers with the error", len(got))
			}
		})
	}
	t.Run("an empty host is empty", func(t *testing.T) {
		f := newFake(t)
		f.answer("GET /compute/v2.1/servers/detail", ok(`{"servers": []}`))
		f.answer("GET /compute/v2.1/os-services", ok(up))
		got, err := f.client(t).Servers(ctx(t), "compute-1")
		if err != nil || len(got) != 0 {
			t.Error(got, err)
		}
	})
}

// An answer without end is refused, and says why; it fills no memory.
func TestAnswerWithoutEnd(t *testing.T) {
	f := newFake(t)
	f.answer("GET /compute/v2.1/os-services", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"services": [`)
		for line := strings.Repeat(" ", 1<<20); r.Context().Err() == nil; {
			if _, err := io.WriteString(w, line); err != nil {
				return
			}
		}
	})
	_, err := f.client(t, func(c *Config) { c.Timeout = 5 * time.Minute }).Services(ctx(t)) // so much takes a busy machine its time
	wantError(t, err, ha.ClassBroken, 0, "longer than 64 MiB")
}

func TestServer(t *testing.T) {
	f := newFake(t)
	c := f.client(t)
	f.answer("GET /compute/v2.1/servers/a", ok(`{"server": {"id": "a", "status": "ERROR", "OS-EXT-SRV-ATTR:host": "compute-1", "OS-EXT-STS:vm_state": "error",
		"OS-EXT-STS:task_state": null, "OS-EXT-STS:power_state": 0, "locked": false,
		"fault": {"message": "No valid host was found. There are not enough hosts available."}}}`))
	f.answer("GET /compute/v2.1/servers/off", ok(`{"server": {"id": "off", "status": "SHELVED_OFFLOADED", "OS-EXT-SRV-ATTR:host": null, "OS-EXT-STS:vm_state": "shelved_offloaded"}}`))
	f.answer("GET /compute/v2.1/servers/lost", fault(404, "<html>no backend</html>"))
	s, err := c.Server(ctx(t), "a")
	if err != nil || s.VMState != "error" || s.Running || s.Fault != "No valid host was found. There are not enough hosts available." {
		t.Errorf("%+v %v", s, err)
	}
	if s, err = c.Server(ctx(t), "off"); err != nil || s.Host != "" {
		t.Errorf("%+v %v", s, err)
	}
	_, err = c.Server(ctx(t), "none")
	wantError(t, err, ha.ClassGone, 404, "no such thing")
	_, err = c.Server(ctx(t), "lost")
	wantError(t, err, ha.ClassBroken, 404, "no backend") // a proxy's 404 does not say that the instance is gone
}

func TestServices(t *testing.T) {
	f := newFake(t)
	c := f.client(t)
	f.answer("GET /compute/v2.1/os-services", ok(`{"services": [
		{"binary": "nova-compute", "host": "compute-1", "id": "4adee813-1", "zone": "nova", "status": "enabled", "state": "up",
		 "updated_at": "2026-11-29T11:27:57.000000", "disabled_reason": null, "forced_down": false},
		{"binary": "nova-compute", "host": "compute-2", "id": "4adee813-2", "zone": "nova", "status": "disabled", "state": "down",
		 "updated_at": null, "disabled_reason": "test", "forced_down": true},
		{"binary": "nova-scheduler", "host": "ctl", "id": "4adee813-3", "zone": "internal", "status": "enabled", "state": "up", "updated_at": "2026-11-29T11:27:57"},
		{"binary": "nova-consoleauth", "host": "ctl", "id": "4adee813-4", "status": "enabled", "state": "up"},
		{"binary": "nova-compute", "host": "compute-9", "status": "UNKNOWN"}]}`))
	at := time.Date(2026, 11, 29, 11, 27, 57, 0, time.UTC)
	got, err := c.Services(ctx(t))
	want := []ha.Service{
		{ID: "4adee813-1", Binary: "nova-compute", Host: "compute-1", Enabled: true, Up: true, UpdatedAt: at},
		{ID: "4adee813-2", Binary: "nova-compute", Host: "compute-2", ForcedDown: true, DisabledReason: "test"},
		{ID: "4adee813-3", Binary: "nova-scheduler", Host: "ctl", Enabled: true, Up: true, UpdatedAt: at},
		{Host: "compute-9", CellAway: true},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for host, want := range map[string]bool{"compute-2": true, "compute-9": true, "compute-3": false, "ctl": false} {
		if got, err := c.HasComputeService(ctx(t), host); err != nil || got != want {
			t.Errorf("%s: %v %v", host, got, err)
		}
	}
	if q := f.calls("GET /compute/v2.1/os-services")[1].query; !strings.Contains(q, "binary=nova-compute") || !strings.Contains(q, "host=") {
		t.Errorf("?%s", q)
	}
}

func TestMigrations(t *testing.T) {
	f := newFake(t)
	record := func(id int, kind, status, source, dest, at string) string {
		return fmt.Sprintf(`{"id": %d, "uuid": "u%d", "instance_uuid": "i%d", "migration_type": %q, "status": %q, "source_compute": %q, "dest_compute": %s, "created_at": "2026-11-29T11:00:%s.000000"}`,
			id, id, id, kind, status, source, dest, at)
	}
	f.answer("GET /compute/v2.1/os-migrations", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("marker") == "" {
			ok(`{"migrations": [`+record(7, "evacuation", "done", "compute-1", `"compute-2"`, "01")+`,`+record(9, "evacuation", "accepted", "compute-1", "null", "03")+`],
				"migrations_links": [{"rel": "next", "href": "http://x/os-migrations?marker=u7"}]}`)(w, r)
			return
		}
		ok(`{"migrations": [`+record(8, "live-migration", "running", "compute-1", `"compute-3"`, "03")+`,`+record(6, "resize", "finished", "compute-1", `"compute-3"`, "00")+`,`+
			record(5, "evacuation", "done", "compute-5", `"compute-1"`, "00")+`]}`)(w, r)
	})
	got, err := f.client(t).Migrations(ctx(t), "compute-1")
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for _, m := range got {
		ids = append(ids, m.ID)
	}
	if diff := cmp.Diff([]int64{9, 8, 7}, ids); diff != "" {
		t.Error("newest first, only what left this host", diff)
	}
	want := ha.Migration{ID: 9, InstanceID: "i9", Type: "evacuation", Status: "accepted", Source: "compute-1",
		CreatedAt: time.Date(2026, 11, 29, 11, 0, 3, 0, time.UTC)}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Error(diff)
	}
	if q := f.calls("GET /compute/v2.1/os-migrations")[0].query; q != "source_compute=compute-1" {
		t.Errorf("?%s", q)
	}
}

// A host that was balanced for years has had many thousands of migrations, of which a look needs few: the evacuations, and what may be
// under way.
func TestMigrationsOfAnOldHost(t *testing.T) {
	f := newFake(t)
	const records, page = 20_000, 400
	f.answer("GET /compute/v2.1/os-migrations", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		last := records + 1
		if m := q.Get("marker"); m != "" {
			last, _ = strconv.Atoi(m)
		}
		var list []string
		id := last - 1
		for ; id > 0 && len(list) < page; id-- {
			kind, status := "live-migration", "completed"
			switch {
			case id%5000 == 0 && id < records || id == 1:
				kind, status = "evacuation", "done"
			case id == records-900:
				status = "running"
			}
			if want := q.Get("migration_type"); want == "" || want == kind {
				list = append(list, fmt.Sprintf(`{"id": %d, "instance_uuid": "i%d", "migration_type": %q, "status": %q, "source_compute": "compute-1", "dest_compute": "compute-2", "created_at": %q}`,
					id, id, kind, status, time.Unix(int64(id), 0).UTC().Format("2006-01-02T15:04:05.000000")))
			}
		}
		links := ""
		if len(list) == page {
			links = fmt.Sprintf(`, "migrations_links": [{"rel": "next", "href": "http://x/os-migrations?marker=%d"}]`, id+1)
		}
		ok(`{"migrations": [`+strings.Join(list, ",")+`]`+links+`}`)(w, r)
	})
	got, err := f.client(t).Migrations(ctx(t), "compute-1")
	if err != nil {
		t.Fatal(err)
	}
	var evacuations []int64
	running := 0
	for i, m := range got {
		if i > 0 && m.ID >= got[i-1].ID {
			t.Fatalf("not newest first, or twice: %d after %d", m.ID, got[i-1].ID)
		}
		if m.Type == ha.MigrationEvacuation {
			evacuations = append(evacuations, m.ID)
		}
		if m.UnderWay() {
			running++
		}
	}
	if diff := cmp.Diff([]int64{15000, 10000, 5000, 1}, evacuations); diff != "" || running != 1 {
		t.Errorf("%d under way, evacuations (-want +got)\n%s", running, diff)
	}
	if n := len(f.calls("GET /compute/v2.1/os-migrations")); n > 4 || len(got) > 1300 {
		t.Errorf("%d pages, %d records", n, len(got))
	}
}

func TestActionsAggregatesProviders(t *testing.T) {
	f := newFake(t)
	c := f.client(t)
	f.answer("GET /compute/v2.1/servers/a/os-instance-actions", ok(`{"instanceActions": [
		{"action": "create", "user_id": "u1", "start_time": "2026-11-29T10:00:00.000000", "message": null},
		{"action": "evacuate", "user_id": "u2", "start_time": "2026-11-29T11:00:00.000000", "message": "Error"}]}`))
	actions, err := c.Actions(ctx(t), "a")
	if err != nil || len(actions) != 2 || actions[0].Action != "evacuate" || actions[0].Message != "Error" || actions[1].UserID != "u1" {
		t.Errorf("%+v %v", actions, err)
	}
	f.answer("GET /compute/v2.1/os-aggregates", ok(`{"aggregates": [{"id": 3, "name": "ssd", "hosts": ["compute-1"], "availability_zone": null}]}`))
	aggregates, err := c.Aggregates(ctx(t))
	if diff := cmp.Diff([]ha.Aggregate{{ID: "3", Name: "ssd", Hosts: []string{"compute-1"}}}, aggregates); err != nil || diff != "" {
		t.Error(err, diff)
	}

	f.answer("GET /placement/allocations/a", ok(`{"allocations": {"rp1": {"generation": 1, "resources": {"VCPU": 1}}, "rp2": {}, "rp2-child": {}}}`))
	f.answer("GET /placement/resource_providers/rp1", ok(`{"uuid": "rp1", "name": "compute-1.example.com", "root_provider_uuid": "rp1"}`))
	f.answer("GET /placement/resource_providers/rp2", ok(`{"uuid": "rp2", "name": "compute-2", "root_provider_uuid": "rp2"}`))
	f.answer("GET /placement/resource_providers/rp2-child", ok(`{"uuid": "rp2-child", "name": "compute-2_pci_0000", "root_provider_uuid": "rp2"}`))
	f.answer("GET /compute/v2.1/os-hypervisors/rp1", ok(`{"hypervisor": {"id": "rp1", "hypervisor_hostname": "compute-1.example.com", "service": {"host": "compute-1"}}}`))
	f.answer("GET /compute/v2.1/os-hypervisors/rp2", ok(`{"hypervisor": {"id": "rp2", "hypervisor_hostname": "compute-2", "service": {"host": "compute-2"}}}`))
	for range 2 {
		hosts, err := c.Providers(ctx(t), "a")
		if diff := cmp.Diff([]string{"compute-1", "compute-2"}, hosts); err != nil || diff != "" {
			t.Error("names of services, not of hypervisors; each once", err, diff)
		}
	}
	if n := len(f.calls("GET /placement/resource_providers/rp1")); n != 1 {
		t.Errorf("a provider's name was asked for %d times", n)
	}
	if v := f.calls("GET /placement/allocations/a")[0].header.Get("OpenStack-API-Version"); v != "placement 1.14" {
		t.Errorf("%q", v)
	}
}

func TestClassesOfReads(t *testing.T) {
	badRequest := `{"badRequest": {"code": 400, "message": "bad  \n filter"}}`
	tests := []struct {
		name    string
		answer  http.HandlerFunc
		class   ha.Class
		status  int
		want    string
		timeout time.Duration
	}{
		{"400", fault(400, badRequest), ha.ClassRefused, 400, "bad filter", 0},
		{"403", fault(403, `{"forbidden": {"code": 403, "message": "Policy doesn't allow it"}}`), ha.ClassRefused, 403, "Policy", 0},
		{"429", fault(429, `{"overLimit": {"code": 429, "message": "slow"}}`), ha.ClassBusy, 429, "slow", 0},
		{"503", fault(503, "no server"), ha.ClassBusy, 503, "no server", 0},
		{"500", fault(500, `{"computeFault": {"code": 500, "message": "DB"}}`), ha.ClassBroken, 500, "DB", 0},
		{"302", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "http://elsewhere.invalid/", 302) }, ha.ClassBroken, 302, "not followed", 0},
		{"cut at once", cutAfter(""), ha.ClassBroken, 0, "", 0},
		{"cut in the head", cutAfter("HTTP/1.1 200 OK\r\nContent-"), ha.ClassBroken, 0, "", 0},
		{"cut in the body", cutAfter("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"serv"), ha.ClassBroken, 0, "cannot be read", 0},
		{"silence", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, ha.ClassBroken, 0, "no answer in time", 50 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			var seen []string
			c := f.client(t, func(cfg *Config) {
				cfg.Timeout = tt.timeout
				cfg.Observe = func(op string, class ha.Class, took time.Duration) {
					seen = append(seen, fmt.Sprint(op, " ", class, " ", took > 0))
				}
			})
			f.answer("GET /compute/v2.1/os-services", tt.answer)
			_, err := c.Services(ctx(t))
			wantError(t, err, tt.class, tt.status, tt.want)
			if !strings.Contains(err.Error(), "GET os-services") {
				t.Errorf("what was called is not in %v", err)
			}
			if want := []string{"services " + string(tt.class) + " true"}; !cmp.Equal(want, seen) {
				t.Errorf("observed %v", seen)
			}
		})
	}
	t.Run("called off", func(t *testing.T) {
		f := newFake(t)
		gone, cancel := context.WithCancel(ctx(t))
		cancel()
		_, err := f.client(t).Services(gone)
		wantError(t, err, ha.ClassBroken, 0, "called off")
	})
}

// An empty string stands for the image of a server that boots from a volume.
func TestImageBooted(t *testing.T) {
	f := newFake(t)
	c := f.client(t)
	f.answer("GET /compute/v2.1/servers/image", ok(`{"server": {"id": "image", "image": {"id": "i", "links": []}, "OS-EXT-SRV-ATTR:host": "compute-1", "OS-EXT-STS:vm_state": "active"}}`))
	f.answer("GET /compute/v2.1/servers/volume", ok(`{"server": {"id": "volume", "image": "", "OS-EXT-SRV-ATTR:host": "compute-1", "OS-EXT-STS:vm_state": "active"}}`))
	for id, want := range map[string]bool{"image": true, "volume": false} {
		s, err := c.Server(t.Context(), id)
		if err != nil || s.ImageBooted != want {
			t.Errorf("%s: booted from an image %v, %v", id, s.ImageBooted, err)
		}
	}
}
