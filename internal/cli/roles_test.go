package cli

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/client"
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
	sim := start(t, "sim", "--listen", "127.0.0.1:0", "--hosts", "3", "--instances", "3", "--scale", "0.2")
	cloud := sim.out.await(t, `listening on (http://\S+)`)
	file := conf(t, sim.out.String())
	salvor := start(t, "serve", "--config-file", file, "--listen", "127.0.0.1:0")
	u := salvor.out.await(t, `listening on (http://\S+)`)
	environ := []string{"OS_AUTH_URL=" + cloud, "OS_USERNAME=admin", "OS_PASSWORD=secret", "OS_PROJECT_NAME=admin", "SALVOR_URL=" + u}

	login, _ := client.LoginFrom(environ)
	c, err := client.New(client.Config{URL: u, Auth: client.NewKeystone(login)})
	if err != nil {
		t.Fatal(err)
	}
	seg, err := c.CreateSegment(t.Context(), client.NewSegment{Name: "s", ServiceType: "compute", RecoveryMethod: "auto"})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []string{"host-1", "host-2", "host-3"} {
		if _, err := c.CreateHost(t.Context(), seg.UUID, client.NewHost{Name: h, Type: "x", ControlAttributes: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := http.Post(cloud+"/sim/hosts/host-2/kill", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()

	code, stdout, stderr := command(t, environ, "host", "confirm-off", "host-2", "--reason", "pulled the plug")
	if code != 0 || !strings.Contains(stdout, "salvor recovery show") {
		t.Fatalf("confirm-off: %d %s%s", code, stdout, stderr)
	}
	id := strings.Fields(stdout)[1]
	deadline := time.Now().Add(60 * time.Second)
	for !strings.Contains(stdout, "finished") && time.Now().Before(deadline) {
		<-time.After(50 * time.Millisecond)
		_, stdout, stderr = command(t, environ, "recovery", "show", id)
	}
	for _, want := range []string{"status        finished", "1 of 1 instances moved", "proof         confirmed: admin: pulled the plug confirmed", "gate      brake: 1 of 3", "evacuate"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s%s", want, stdout, stderr)
		}
	}
	if code, _, stderr = command(t, environ, "recovery", "cancel", id); code != 1 || !strings.Contains(stderr, "409") {
		t.Errorf("cancel of what has ended: %d %s", code, stderr)
	}
	if code, stdout, _ = command(t, environ, "recovery", "show", id, "--json"); code != 0 || !json.Valid([]byte(stdout)) {
		t.Errorf("show --json: %d %s", code, stdout)
	}
	if code, _, stderr = command(t, environ[1:], "recovery", "show", id); code != 1 || !strings.Contains(stderr, "401") {
		t.Errorf("without an account: %d %s", code, stderr)
	}
	salvor.stop() // in good order: the clean-up expects exit code 0
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
			run(0, "no tables", "db", "version")
			run(1, "salvor db sync", "api", "--listen", "127.0.0.1:0")
			run(0, "version 0", "db", "sync")
			run(0, "version 0", "db", "sync")
			run(0, "version 0", "db", "version")
			run(0, "", "db", "unlock")
			run(0, "0 rows removed", "db", "purge", "--age_in_days", "1")
			run(1, "max_rows", "db", "purge", "--max-rows", "0")
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
