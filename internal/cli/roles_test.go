package cli

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// TestDemoForAScript is the whole of salvor: over HTTP, a host dies, and every instance comes back, each ordered once.
func TestDemoForAScript(t *testing.T) {
	tmp := t.TempDir() // its own: other packages' tests run demos at the same time
	t.Setenv("TMPDIR", tmp)
	code, stdout, stderr := command(t, nil, "demo", "--once", "--json", "--hosts", "3", "--instances", "9", "--seed", "7")
	var got struct {
		OK         bool
		Host       string
		Status     string
		FirstOrder float64 `json:"seconds_report_to_first_order"`
		Total      float64 `json:"seconds_total"`
		Instances  []struct {
			ID, Name, From, To string
			Seconds            float64
			Evacuations        int
		}
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v\n%s%s", err, stdout, stderr)
	}
	if code != 0 || !got.OK || got.Status != "finished" || got.Host == "" || len(got.Instances) != 3 {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	for _, i := range got.Instances {
		if i.From != got.Host || i.To == got.Host || i.To == "" || i.Evacuations != 1 || i.Seconds <= 0 || i.Seconds > got.Total || i.ID == "" || i.Name == "" {
			t.Errorf("%+v", i)
		}
	}
	// Nova's silence of 3 s is the proof; the order follows at once.
	if got.FirstOrder < 1 || got.FirstOrder > got.Total || got.Total > 60 {
		t.Errorf("first order %.3f s, all %.3f s", got.FirstOrder, got.Total)
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestOperator follows the README: a simulated cloud, a serve, a report, and the commands of an operator.
func TestOperator(t *testing.T) {
	cloud, environ := cloudOf(t)
	run := func(want int, words string, args ...string) string {
		t.Helper()
		code, stdout, stderr := command(t, environ, args...)
		if code != want || !strings.Contains(stdout+stderr, words) {
			t.Fatalf("salvor %s: exit %d, want %d with %q\n%s%s", strings.Join(args, " "), code, want, words, stdout, stderr)
		}
		return stdout
	}
	run(0, "", "segment", "create", "s")
	for _, h := range []string{"host-1", "host-2", "host-3"} {
		run(0, h, "host", "create", h, "--segment", "s")
	}

	// A host that is reported dead and lives: its recovery waits, and takes orders.
	run(0, "salvor notification watch", "notification", "create", "COMPUTE_HOST", "host-3", "event=STOPPED", "host_status=NORMAL", "cluster_status=OFFLINE")
	deadline := time.Now().Add(30 * time.Second)
	for out := ""; !strings.Contains(out, "waits at      gate proof"); out = run(0, "COMPUTE_HOST STOPPED of host-3", "recovery", "show", "host-3") {
		if time.Now().After(deadline) {
			t.Fatal(out)
		}
		<-time.After(20 * time.Millisecond)
	}
	run(0, "hold is asked for; engine ", "recovery", "hold", "host-3", "--reason", "looking", "--for", "1d")
	run(0, "held by       admin, until 20", "recovery", "show", "host-3")
	if out := run(0, "UNITS", "engine", "list"); !strings.HasSuffix(strings.TrimSpace(out), "  1") {
		t.Errorf("the engine that holds the recovery shows no unit:\n%s", out)
	}
	run(0, "it stays held by admin: salvor recovery release", "recovery", "retry", "host-3")
	run(0, "this ends the hold by admin: looking", "recovery", "release", "host-3")
	run(0, "host-3", "recovery", "list")
	run(0, "cancel is asked for", "recovery", "cancel", "host-3", "--reason", "it lives")
	run(1, "failed: cancelled by admin: it lives", "recovery", "watch", "host-3")
	run(0, "failed", "notification", "list", "--host", "host-3", "--since", "1h", "--status", "failed")

	// One that is dead.
	resp, err := http.Post(cloud+"/sim/hosts/host-2/kill", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	host := strings.TrimSpace(run(0, "-", "host", "show", "host-2", "-o", "value", "-c", "uuid"))
	id := strings.Fields(run(0, "your word that host-2 is off", "host", "confirm-off", host, "--reason", "pulled the plug"))[1]
	run(0, "finished: 1 of 1 instances moved", "recovery", "watch", "host-2")
	shown := run(0, "status        finished", "recovery", "show", id)
	for _, want := range []string{"reported      COMPUTE_HOST STOPPED of host-2", "1 of 1 instances moved", `proof         confirmed: admin confirmed that host-2 is off ("pulled the plug")`,
		"gate      brake: 1 of 3", "evacuate"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in:\n%s", want, shown)
		}
	}
	moves := run(0, "succeeded", "vmove", "list", "host-2")
	run(0, "If host-2 (segment s, method auto) were reported", "plan", host)
	run(2, "say which host, once", "plan", "host-2", "--host", host)
	run(0, "host-2", "coverage", "--host", host)
	move := strings.Fields(strings.Split(moves, "\n")[1])
	run(0, "host-2", "vmove", "show", id, move[0], "-c", "source_host,status")
	run(0, move[0], "vmove", "show", id, move[1], "-c", "uuid") // by its instance's name
	instance := strings.TrimSpace(run(0, "-", "vmove", "show", id, move[1], "-o", "value", "-c", "instance_uuid"))
	run(0, move[0], "vmove", "show", "host-2", instance, "-c", "uuid")
	run(exitRefused, "has ended", "recovery", "retry", id, "--move", move[1])
	run(4, "409", "recovery", "cancel", id)
	if out := run(0, "", "recovery", "show", id, "--json"); !json.Valid([]byte(out)) {
		t.Errorf("show --json: %s", out)
	}
	environ = environ[1:]
	run(4, "401", "recovery", "show", id)
}

// TestDatabase runs the commands of `salvor db` on every database.
func TestDatabase(t *testing.T) {
	for name, connection := range map[string]func(testing.TB) string{
		"sqlite": func(tb testing.TB) string { return "sqlite:///" + tb.TempDir() + "/x.sqlite" }, "mariadb": testkit.MariaDB, "postgres": testkit.Postgres,
	} {
		t.Run(name, func(t *testing.T) {
			file := conf(t, "[DEFAULT]\nauth_strategy = noauth2\n[database]\nconnection = "+connection(t)+"\n")
			run := func(want int, words string, args ...string) {
				t.Helper()
				code, stdout, stderr := command(t, nil, append(args, "--config-file", file)...)
				if code != want || !strings.Contains(stdout+stderr, words) {
					t.Errorf("salvor %s: %d, want %d with %q\n%s%s", args, code, want, words, stdout, stderr)
				}
			}
			if name == "sqlite" {
				run(1, "no database yet", "db", "version") // and none is made by asking
			} else {
				run(0, "no tables", "db", "version")
			}
			run(1, "salvor db sync", "api", "--listen", "127.0.0.1:0")
			run(0, "version 0", "db", "sync")
			run(0, "version 0", "db", "sync")
			run(0, "version 0", "db", "version")
			run(0, "", "db", "unlock")
			run(0, "nothing was old enough", "db", "purge", "--age_in_days", "1")
			run(2, "max_rows", "db", "purge", "--max-rows", "0")
			api := start(t, "api", "--config-file", file, "--listen", "127.0.0.1:0")
			resp, err := http.Get(api.out.await(t, `listening on (http://\S+)`) + "/v1/segments")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("segments: %s", resp.Status)
			}
		})
	}
}
