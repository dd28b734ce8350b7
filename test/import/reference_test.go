package imports

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// patience is how long Masakari, or salvor, may take for something on a busy machine.
const patience = 4 * time.Minute

// python is Debian's own, which has Debian's Masakari.
const python = "/usr/bin/python3"

// startReference runs Debian's Masakari over a database, against the simulator, and returns its URL and how it is stopped.
func startReference(t *testing.T, sim, database string) (url string, stop func()) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import masakari.cmd.engine, eventlet, pymysql").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: Debian's Masakari is not installed (masakari-api, masakari-engine): %v\n%.300s", err, out)
	}
	dir := t.TempDir()
	conf, log := filepath.Join(dir, "masakari.conf"), filepath.Join(dir, "masakari.log")
	text := strings.NewReplacer("SIM", sim, "DATABASE", database, "LOG", log).Replace(`[DEFAULT]
log_file = LOG
transport_url = fake://
auth_strategy = noauth2
host = ctl-1
os_privileged_user_auth_url = SIM/v3
os_privileged_user_name = masakari
os_privileged_user_password = secret
os_privileged_user_tenant = service
os_region_name = RegionOne
wait_period_after_service_update = 1
wait_period_after_evacuation = 10
verify_interval = 1
[database]
connection = DATABASE
[taskflow]
connection = DATABASE
[keystone_authtoken]
auth_type = password
auth_url = SIM/v3
username = masakari
password = secret
project_name = service
user_domain_name = Default
project_domain_name = Default
`)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), python, "reference.py", conf, "/etc/masakari/api-paste.ini")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Kill() // it keeps nothing but rows
			_ = cmd.Wait()
		}
	}
	t.Cleanup(func() {
		stop()
		if text, _ := os.ReadFile(log); t.Failed() {
			t.Logf("last of Masakari's log:\n%s", text[max(0, len(text)-4000):])
		}
	})
	late := time.AfterFunc(patience, stop) // ends the loop below
	defer late.Stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if m := regexp.MustCompile(`listening on (http://\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			return m[1], stop
		}
	}
	t.Fatal("Masakari ended before it listened, or did not listen in time")
	return "", nil
}

// call is a request at 1.2, Debian's newest microversion.
func call(t *testing.T, want int, method, url string, body any) map[string]any {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("OpenStack-API-Version", "instance-ha 1.2")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer := map[string]any{}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil && resp.StatusCode != http.StatusNoContent {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	if resp.StatusCode != want {
		t.Fatalf("%s %s: %d, want %d: %v", method, url, resp.StatusCode, want, answer)
	}
	return answer
}

// fill has Masakari's api and engine make rows of every kind, and waits until the engine has ended its work.
func fill(t *testing.T, url, sim string) {
	t.Helper()
	segment := func(body map[string]any) string {
		return call(t, 201, "POST", url+"/v1/segments", map[string]any{"segment": body})["segment"].(map[string]any)["uuid"].(string)
	}
	host := func(segment string, body map[string]any) string {
		body["type"], body["control_attributes"] = "COMPUTE", "SSH"
		return call(t, 201, "POST", url+"/v1/segments/"+segment+"/hosts", map[string]any{"host": body})["host"].(map[string]any)["uuid"].(string)
	}
	rack := segment(map[string]any{"name": "rack-1", "recovery_method": "auto", "service_type": "COMPUTE", "description": "Gestell Nr. 1, grün"})
	spare := segment(map[string]any{"name": "rack-2", "recovery_method": "reserved_host", "service_type": "COMPUTE", "enabled": false})
	gone := segment(map[string]any{"name": "gone", "recovery_method": "rh_priority", "service_type": "COMPUTE"})
	for _, name := range []string{"host-1", "host-2", "host-3"} {
		host(rack, map[string]any{"name": name})
	}
	host(spare, map[string]any{"name": "host-4", "reserved": true})
	planned := host(spare, map[string]any{"name": "host-5"})
	host(gone, map[string]any{"name": "host-6"})
	call(t, 200, "PUT", url+"/v1/segments/"+spare+"/hosts/"+planned, map[string]any{"host": map[string]any{"on_maintenance": true}})
	call(t, 204, "DELETE", url+"/v1/segments/"+gone, nil)

	var instance string
	state := map[string]any{}
	testkit.Eventually(t, patience, func() (bool, string) {
		_, state, _ = testkit.TryCall("GET", sim+"/sim/state", nil)
		instances, _ := state["instances"].([]any)
		for _, i := range instances {
			if i := i.(map[string]any); i["host"] == "host-3" {
				instance = i["id"].(string)
			}
		}
		return instance != "", fmt.Sprint(state)
	})
	report := func(kind, host string, payload map[string]any) {
		call(t, 202, "POST", url+"/v1/notifications", map[string]any{"notification": map[string]any{"type": kind, "hostname": host,
			"generated_time": time.Now().UTC().Format("2006-01-02T15:04:05.000000"), "payload": payload}})
	}
	if code, _, err := testkit.TryCall("POST", sim+"/sim/hosts/host-1/kill", nil); err != nil || code >= 300 {
		t.Fatalf("killing host-1: %d, %v", code, err)
	}
	report("PROCESS", "host-2", map[string]any{"event": "STOPPED", "process_name": "nova-compute"})
	report("COMPUTE_HOST", "host-3", map[string]any{"event": "STOPPED", "host_status": "UNKNOWN", "cluster_status": "OFFLINE"})
	report("VM", "host-3", map[string]any{"event": "LIFECYCLE", "vir_domain_event": "STOPPED_FAILED", "instance_uuid": instance})
	report("COMPUTE_HOST", "host-1", map[string]any{"event": "STOPPED", "host_status": "NORMAL", "cluster_status": "OFFLINE"})
	testkit.Eventually(t, patience, func() (bool, string) {
		all := call(t, 200, "GET", url+"/v1/notifications", nil)["notifications"].([]any)
		for _, n := range all {
			if s := n.(map[string]any)["status"]; s != "finished" && s != "ignored" && s != "failed" {
				return false, fmt.Sprint(all)
			}
		}
		return true, ""
	})
}

// answers are what an api says to every list and show, by path.
func answers(t *testing.T, url string) map[string]any {
	t.Helper()
	all := map[string]any{}
	get := func(path string) map[string]any {
		a := call(t, 200, "GET", url+path, nil)
		all[path] = a
		return a
	}
	ids := func(list any, key string) (found []string) {
		for _, o := range list.([]any) {
			found = append(found, o.(map[string]any)[key].(string))
		}
		return found
	}
	for _, s := range ids(get("/v1/segments")["segments"], "uuid") {
		get("/v1/segments/" + s)
		for _, h := range ids(get("/v1/segments/" + s + "/hosts")["hosts"], "uuid") {
			get("/v1/segments/" + s + "/hosts/" + h)
		}
	}
	for _, n := range ids(get("/v1/notifications")["notifications"], "notification_uuid") {
		get("/v1/notifications/" + n)
	}
	return plain(all).(map[string]any)
}

// plain takes away what Debian's 14.0.2 does not have, and the fraction of generated_time, which it shows or not (contract 1.9).
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		_, notification := v["notification_uuid"]
		for k, e := range v {
			switch {
			case notification && (k == "message" || k == "failover_segment_uuid"):
				delete(v, k)
			case k == "generated_time":
				v[k] = e.(string)[:len("2006-01-02T15:04:05")]
			default:
				v[k] = plain(e)
			}
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	}
	return v
}

// TestTheRealMasakari: what Debian's Masakari made, api and engine, salvor shows as Masakari does: every list, every object, the
// details of every recovery. A dry run writes nothing, and a second run changes nothing.
func TestTheRealMasakari(t *testing.T) {
	for _, kind := range []string{"sqlite", "mariadb"} {
		t.Run(kind, func(t *testing.T) {
			sim := testkit.Start(t, "sim", "sim", "--listen", "127.0.0.1:0", "--hosts", "6", "--instances", "0", "--scale", "0.1").URL(t)
			addInstances(t, sim)
			from := databases[kind](t)
			url, stop := startReference(t, sim, from)
			fill(t, url, sim)
			want := answers(t, url)
			stop()
			for _, task := range []string{"DisableComputeServiceTask", "EvacuateInstancesTask", "StartInstanceTask", "ConfirmComputeNodeDisabledTask"} {
				if !strings.Contains(fmt.Sprint(want), task) {
					t.Errorf("Masakari's engine left no %s to compare: %v", task, want)
				}
			}

			to := databases[kind](t)
			conf := configure(t, to)
			command(t, conf, "db", "sync")
			empty := dump(t, to)
			command(t, conf, "db", "import-masakari", "--from", from, "--dry-run")
			if diff := cmp.Diff(empty, dump(t, to)); diff != "" {
				t.Errorf("a dry run wrote:\n%s", diff)
			}
			command(t, conf, "db", "import-masakari", "--from", from)
			first := dump(t, to)
			command(t, conf, "db", "import-masakari", "--from", from)
			if diff := cmp.Diff(first, dump(t, to)); diff != "" {
				t.Errorf("a second run changed:\n%s", diff)
			}
			salvor := testkit.Start(t, "api", "api", "--config-file", conf, "--listen", "127.0.0.1:0").URL(t)
			if diff := cmp.Diff(want, answers(t, salvor)); diff != "" {
				t.Errorf("Masakari's answers (-) and salvor's (+):\n%s", diff)
			}
		})
	}
}

// configure writes a masakari.conf of salvor's.
func configure(t *testing.T, database string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "masakari.conf")
	text := "[DEFAULT]\nauth_strategy = noauth2\nmasakari_api_listen = 127.0.0.1\nstate_path = " + t.TempDir() + "\n[database]\nconnection = " + database + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// command runs a command of the binary to its end, which must be a good one, and returns what it said.
func command(t *testing.T, conf string, args ...string) string {
	t.Helper()
	p := testkit.Start(t, strings.Join(args, " "), append(args, "--config-file", conf)...)
	code := p.Ended(t, patience)
	said := strings.Join(p.Last(1000), "\n")
	if code != 0 {
		t.Fatalf("salvor %v: exit code %d\n%s", args, code, said)
	}
	return said
}

// addInstances gives each of the six hosts an instance.
func addInstances(t *testing.T, sim string) {
	t.Helper()
	for i := range 6 {
		code, answer, err := testkit.TryCall("POST", sim+"/sim/instances", map[string]any{
			"host": fmt.Sprintf("host-%d", i+1), "count": 1, "metadata": map[string]string{"HA_Enabled": "True"}})
		if err != nil || code >= 300 {
			t.Fatalf("adding instances: %d, %v, %v", code, answer, err)
		}
	}
}
