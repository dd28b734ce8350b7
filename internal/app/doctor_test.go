package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/doctor"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/service"
	"github.com/salvor-ha/salvor/internal/sim"
	"github.com/salvor-ha/salvor/internal/sim/simhttp"
	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/telemetry"
)

// clinic is a simulated cloud of four hosts with instances, and a database where they are registered.
type clinic struct {
	*testing.T
	cloud *sim.Cloud
	url   string
	conf  string
	rows  *store.Store
	hosts map[string]ha.Host
}

func newClinic(t *testing.T) *clinic {
	t.Helper()
	cloud := sim.New(sim.Options{Hosts: 4, Instances: 6, Scale: 0.1})
	face := simhttp.New(cloud, simhttp.Options{})
	server := httptest.NewServer(face)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		face.Close()
		cloud.Close()
	})
	c := &clinic{T: t, cloud: cloud, url: server.URL, hosts: map[string]ha.Host{}}
	c.conf = SimConfig(server.URL) + "[database]\nconnection = sqlite:///" + filepath.Join(t.TempDir(), "salvor.sqlite") + "\n"
	rows, err := store.Open(t.Context(), storeConfig(load(t, c.conf), syncReads))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rows.Close() })
	if err := rows.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	seg, err := rows.CreateSegment(t.Context(), ha.Segment{UUID: uuid.NewString(), Name: "rack", ServiceType: "COMPUTE", RecoveryMethod: ha.MethodRHPriority, Enabled: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"host-1", "host-2", "host-3", "host-4"} {
		h, err := rows.CreateHost(t.Context(), ha.Host{UUID: uuid.NewString(), Name: name, SegmentUUID: seg.UUID, Type: "x", ControlAttributes: "x", Reserved: name == "host-4"})
		if err != nil {
			t.Fatal(err)
		}
		c.hosts[name] = h
	}
	c.rows = rows
	c.disable("host-4", "")
	return c
}

func (c *clinic) disable(host, reason string) {
	c.Helper()
	yes := true
	for _, s := range c.cloud.Services(ha.BinaryCompute, host) {
		if _, _, err := c.cloud.UpdateService(sim.Caller{Admin: true}, s.ID, sim.ServicePatch{Disabled: &yes, Reason: &reason}); err != nil {
			c.Fatal(err)
		}
	}
}

// noauth is the configuration of an api that anybody may ask.
func (c *clinic) noauth() string {
	return strings.Replace(c.conf, "[DEFAULT]\n", "[DEFAULT]\nauth_strategy = noauth2\n", 1)
}

// examine replaces pairs of texts in the configuration.
func (c *clinic) examine(limit time.Duration, replace ...string) []Examined {
	c.Helper()
	return Examine(c.Context(), load(c.T, strings.NewReplacer(replace...).Replace(c.conf)), nil, limit)
}

// state is the cloud without what moves by itself.
func (c *clinic) state() any {
	c.Helper()
	resp, err := http.Get(c.url + "/sim/state")
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	var state map[string]any
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err != nil {
		c.Fatal(err)
	}
	delete(state, "now")
	for _, s := range state["services"].([]any) {
		delete(s.(map[string]any), "updated_at")
	}
	return state
}

func (c *clinic) rowsText() string {
	c.Helper()
	text := ""
	for _, name := range []string{"host-1", "host-2", "host-3", "host-4"} {
		h := c.hosts[name]
		now, err := c.rows.Host(c.Context(), h.SegmentUUID, h.UUID)
		if err != nil {
			c.Fatal(err)
		}
		text += fmt.Sprintf("%+v\n", now)
	}
	return text
}

// found returns the finding of that name whose text has part; it must have the state, and a mend unless it is ok.
func found(t *testing.T, all []Examined, state doctor.State, name, part string) Examined {
	t.Helper()
	for _, c := range all {
		if c.Name == name && strings.Contains(c.Subject+": "+c.Text, part) {
			if c.State != state || state != doctor.OK && c.Do == "" {
				t.Errorf("%s %q: %+v, want %s", name, part, c, state)
			}
			return c
		}
	}
	t.Errorf("nothing of %s says %q:\n%s", name, part, dump(all))
	return Examined{}
}

func dump(all []Examined) string {
	text := ""
	for _, c := range all {
		text += fmt.Sprintf("%-4s %-10s %s: %s  [%s]\n", c.State, c.Name, c.Subject, c.Text, c.Do)
	}
	return text
}

// TestDoctorOfAHealthyCloud: everything is tried, nothing is wrong but what this test has not started, and nothing is changed.
func TestDoctorOfAHealthyCloud(t *testing.T) {
	c := newClinic(t)
	before, rows := c.state(), c.rowsText()
	all := c.examine(20 * time.Second)
	if diff := cmp.Diff(before, c.state()); diff != "" {
		t.Errorf("the cloud was changed:\n%s", diff)
	}
	if after := c.rowsText(); after != rows {
		t.Errorf("rows were changed:\n%s\n%s", rows, after)
	}
	for _, e := range all {
		if e.State != doctor.OK && e.Name != doctor.CheckEngines && e.Name != doctor.CheckAPI {
			t.Errorf("%+v", e)
		}
	}
	for _, right := range []string{"list services", "list all instances", "list migrations", "force down, disable: allowed", "evacuate: allowed", "read an instance"} {
		found(t, all, doctor.OK, doctor.CheckRights, right)
	}
	found(t, all, doctor.OK, doctor.CheckReserved, "host-4 is up and disabled")
	found(t, all, doctor.Warn, doctor.CheckEngines, "no engine beats")
	found(t, all, doctor.Warn, doctor.CheckAPI, "no service instance-ha")
	tried := map[string]bool{}
	for _, call := range c.cloud.Calls(0) {
		tried[call.Method+" "+call.Action+" "+fmt.Sprint(call.Status)] = true
		if call.Method != http.MethodGet && call.Status < 400 && !strings.Contains(call.Path, "auth/tokens") {
			t.Errorf("%s %s %s was taken: %d", call.Method, call.Path, call.Body, call.Status)
		}
	}
	if !tried["POST evacuate 404"] || !tried["PUT  404"] {
		t.Errorf("acts were not tried: %v", tried)
	}
}

// TestDoctorNamesPlantedFaults: each with its mend, and without the password.
func TestDoctorNamesPlantedFaults(t *testing.T) {
	c := newClinic(t)
	const demo = "os_privileged_user_name = demo\nos_privileged_user_password = secret\nos_privileged_user_tenant = demo"
	account := "os_privileged_user_name = masakari\nos_privileged_user_password = secret\nos_privileged_user_tenant = service"
	for _, tt := range []struct {
		name, check, part, do string
		replace               []string
	}{
		{"member", doctor.CheckRights, "os_compute_api:os-services:update", "role admin", []string{account, demo}},
		{"member, instances", doctor.CheckRights, "list all instances", "get_all_tenants", []string{account, demo}},
		{"member, placement", doctor.CheckPlacement, "refused", "placement:allocations:list", []string{account, demo}},
		{"region", doctor.CheckCatalog, "no region RegionTwo; there is RegionOne", "os_region_name", []string{"[keystone_authtoken]", "os_region_name = RegionTwo\n[keystone_authtoken]"}},
		{"service's name", doctor.CheckCatalog, "is not called novae in Keystone's catalog, but nova", "nova_catalog_admin_info",
			[]string{"[keystone_authtoken]", "nova_catalog_admin_info = compute:novae:publicURL\n[keystone_authtoken]"}},
		{"password", doctor.CheckKeystone, "refuses the account", "os_privileged_user_name", []string{"os_privileged_user_password = secret", "os_privileged_user_password = wrongSecret"}},
		{"keystone away", doctor.CheckKeystone, "no connection", "os_privileged_user_auth_url", []string{"os_privileged_user_auth_url = " + c.url, "os_privileged_user_auth_url = http://127.0.0.1:1"}},
		{"account of the api", "auth", "401", "keystone_authtoken", []string{"\npassword = secret", "\npassword = wrongSecret"}},
		{"fencing file", doctor.CheckFencing, "no such file", "fencing_file", []string{"[salvor]", "[salvor]\nfencing_file = /no/such/fencing.yaml"}},
		{"no database", doctor.CheckDatabase, "no database yet", "[database] connection", []string{"salvor.sqlite", "other.sqlite"}},
	} {
		all := c.examine(20*time.Second, tt.replace...)
		if f := found(t, all, doctor.Fail, tt.check, tt.part); !strings.Contains(f.Do, tt.do) {
			t.Errorf("%s: the mend %q does not say %q", tt.name, f.Do, tt.do)
		}
		if strings.Contains(dump(all), "wrongSecret") {
			t.Errorf("%s: the password is told:\n%s", tt.name, dump(all))
		}
	}
}

// TestDoctorLooksAtHosts: names as Nova has them, hosts that are down, on maintenance or disabled, spares with a reason.
func TestDoctorLooksAtHosts(t *testing.T) {
	c := newClinic(t)
	rename := func(host, name string) {
		if _, err := c.rows.UpdateHost(t.Context(), c.hosts[host].SegmentUUID, c.hosts[host].UUID, ha.HostPatch{Name: &name}); err != nil {
			t.Fatal(err)
		}
	}
	rename("host-1", "host-1.example.com")
	rename("host-2", "elsewhere")
	c.disable("host-4", "broken disk")
	if err := c.cloud.Kill("host-3"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "fencing.yaml")
	if err := os.WriteFile(file, []byte("hosts: {host-3: [{kind: command, command: /bin/false}], host-4: []}\n"), 0o604); err != nil {
		t.Fatal(err)
	}
	fencing := []string{"[salvor]", "[salvor]\nfencing_file = " + file}
	if f := found(t, c.examine(20*time.Second, fencing...), doctor.Fail, doctor.CheckFencing, "open to everybody"); !strings.Contains(f.Do, "neither engine nor api starts") {
		t.Errorf("%+v", f)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for c.cloud.Services(ha.BinaryCompute, "host-3")[0].Up && time.Now().Before(deadline) {
		if err := pause(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	all := c.examine(20*time.Second, fencing...)
	if f := found(t, all, doctor.Fail, doctor.CheckHosts, "host-1.example.com of segment rack is not known to Nova; Nova has host-1:"); !strings.Contains(f.Do, "salvor host update host-1.example.com --name host-1") {
		t.Errorf("%+v", f)
	}
	found(t, all, doctor.Fail, doctor.CheckHosts, "host elsewhere of segment rack is not known to Nova")
	found(t, all, doctor.Warn, doctor.CheckHosts, "down in Nova")
	found(t, all, doctor.Warn, doctor.CheckReserved, `host-4 is disabled in Nova, with the reason "broken disk"`)
	found(t, all, doctor.Fail, doctor.CheckFencing, "host-3 could not be fenced")
	found(t, all, doctor.Warn, doctor.CheckFencing, "host-4")
}

// TestDoctorIsBounded: a Nova that hangs, and a database server that says nothing, are findings; the others are made all the same.
func TestDoctorIsBounded(t *testing.T) {
	c := newClinic(t)
	if err := c.cloud.AddFault(sim.FaultRule{Path: "servers/detail", Delay: time.Minute}); err != nil {
		t.Fatal(err)
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	conf := strings.ReplaceAll(c.conf, "sqlite:///", "mysql+pymysql://u:mySecret@"+mute.Addr().String()+"/x#")
	began := time.Now()
	all := Examine(t.Context(), load(t, conf), nil, 5*time.Second) // in which a busy machine gets the others' answers
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
	found(t, all, doctor.Fail, doctor.CheckRights, "list all instances")
	found(t, all, doctor.Fail, doctor.CheckDatabase, "")
	found(t, all, doctor.OK, doctor.CheckRights, "list services")
	found(t, all, doctor.OK, doctor.CheckNova, "microversions")
	if strings.Contains(dump(all), "mySecret") {
		t.Errorf("the password is told:\n%s", dump(all))
	}
}

// TestEngineExamines: what changes is in the log once, what is found in the metrics.
func TestEngineExamines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := telemetry.NewMetrics("x")
		well := doctor.Check{Name: "nova", State: doctor.OK}
		bad := doctor.Check{Name: "hosts", Subject: "cmp-01", State: doctor.Fail, Text: "not known", Do: "rename it"}
		finds := make(chan []doctor.Check, 1)
		var burning atomic.Bool
		burning.Store(true)
		e := &examinations{every: time.Hour, log: slog.New(slog.NewTextHandler(&log, nil)), metric: m.Doctor(), states: map[string]doctor.State{},
			engines: func(context.Context) ([]ha.EngineState, error) {
				if burning.Load() {
					return []ha.EngineState{{}, {Units: []string{"takeback:h1", "host:h2"}}}, nil
				}
				return []ha.EngineState{{Units: []string{"takeback:h1"}}}, nil
			},
			examine: func(context.Context) []doctor.Check { return <-finds }}
		go e.run(t.Context())
		metric := func() string {
			w := httptest.NewRecorder()
			m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			return w.Body.String()
		}
		finds <- []doctor.Check{well, bad}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(finds) == 0 {
			t.Error("examined while a host is recovered")
		}
		burning.Store(false)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if got := log.String(); !strings.Contains(got, "a recovery would fail") || !strings.Contains(got, "rename it") {
			t.Errorf("%s", got)
		}
		if got := metric(); !strings.Contains(got, `salvor_doctor_checks{check="hosts",state="fail"} 1`) || !strings.Contains(got, `salvor_doctor_checks{check="nova",state="ok"} 1`) {
			t.Errorf("%s", got)
		}
		log.Reset()
		finds <- []doctor.Check{well, bad}
		time.Sleep(time.Hour)
		synctest.Wait()
		if log.Len() > 0 {
			t.Errorf("nothing has changed, but the log says %s", &log)
		}
		finds <- []doctor.Check{well}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := log.String(); !strings.Contains(got, "no longer found") {
			t.Errorf("%s", got)
		}
		if got := metric(); !strings.Contains(got, `salvor_doctor_checks{check="hosts",state="fail"} 0`) {
			t.Errorf("%s", got)
		}
	})
}

// TestDoctorCountsAsTheBrakeDoes: with a recovery open of two of four hosts, which Nova hears, the doctor says that the brake holds the next
// death, and so does the plan of that host.
func TestDoctorCountsAsTheBrakeDoes(t *testing.T) {
	c := newClinic(t)
	s := service.New(c.rows, knowsAll{}, service.Config{})
	for _, host := range []string{"host-1", "host-2"} {
		if _, err := s.ConfirmOff(t.Context(), host, "ann", "test"); err != nil {
			t.Fatal(err)
		}
	}
	found(t, c.examine(20*time.Second), doctor.Warn, doctor.CheckSegments, "2 of 4 hosts are down (host-1, host-2): the next death is held by the brake (more than 50 %)")
	if body := askedAPI(t, c.noauth(), "/v1/ext/hosts/host-3/plan"); !strings.Contains(body, "the brake would hold it: 3 of 4 hosts of the segment are down, brake at more than 50 %") {
		t.Error(body)
	}
}

type knowsAll struct{}

func (knowsAll) HasComputeService(context.Context, string) (bool, error) { return true, nil }
