package coverage

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/nova"
	"github.com/salvor-ha/salvor/internal/testkit"
	"github.com/salvor-ha/salvor/internal/wire"
)

// TestCoverage: each thing that leaves an instance without protection is named with its mend, and is gone when mended (field finding
// F171). Nothing is changed by looking: neither a row nor anything in the cloud.
func TestCoverage(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.add("host-1", "on-volume", map[string]any{"from_volume": true})
	w.add("host-1", "on-disk", nil)
	w.add("host-2", "opted-out", map[string]any{"metadata": map[string]any{"HA_Enabled": "false"}})
	w.add("host-2", "silent", map[string]any{"metadata": map[string]any{}})
	w.add("host-5", "left-out", map[string]any{"metadata": map[string]any{}})

	// expect looks, compares the lines of a host, and whether the exit status says that something is not protected.
	expect := func(what, host string, exit int, want ...string) []wire.HostCoverage {
		t.Helper()
		rows, state := w.dump(), w.cloud()
		_, since := w.changes(0)
		code, hosts := w.coverage()
		if got := told(hosts, host); code != exit || !cmp.Equal(got, want) {
			t.Errorf("%s: exit status %d, want %d\n%s", what, code, exit, cmp.Diff(want, got))
		}
		if p, err := w.Plan(t.Context(), host); err != nil || !cmp.Equal(told([]wire.HostCoverage{p.HostCoverage}, host), want) {
			t.Errorf("%s: the plan says otherwise: %v\n%+v", what, err, p)
		}
		if _, err := w.CoverageOf(t.Context(), "host", host); err != nil { // and its answer is as openapi.yaml has it
			t.Errorf("%s: %v", what, err)
		}
		if diff := cmp.Diff(rows, w.dump()); diff != "" {
			t.Errorf("%s: rows were changed by looking:\n%s", what, diff)
		}
		if diff := cmp.Diff(state, w.cloud()); diff != "" {
			t.Errorf("%s: the cloud was changed by looking:\n%s", what, diff)
		}
		if found, _ := w.changes(since); len(found) > 0 {
			t.Errorf("%s: calls that change something: %v", what, found)
		}
		return hosts
	}
	mended := func(hosts []wire.HostCoverage, host, rule, fix string) {
		t.Helper()
		for _, h := range hosts {
			found := slices.Clone(h.Blocks)
			for _, i := range h.Instances {
				if i.Reason != nil {
					found = append(found, *i.Reason)
				}
			}
			for _, f := range found {
				if h.Name == host && f.Rule == rule && f.Fix != nil && strings.Contains(*f.Fix, fix) {
					return
				}
			}
		}
		t.Errorf("%s of %s does not say how to mend it: %s", rule, host, fix)
	}

	hosts := expect("all are protected", "host-1", 0, "protected", "on-disk by auto", "on-volume by auto")
	if disk, volume := instance(t, hosts, "on-disk"), instance(t, hosts, "on-volume"); !disk.DataLost || volume.DataLost || !disk.Asked {
		t.Errorf("whose data is lost? %+v\n%+v", disk, volume)
	}
	if _, out := w.run("plan", "--host", "host-1"); !strings.Contains(out, "Data on the local disk is lost, unless the hosts share their instance store:\n  "+instance(t, hosts, "on-disk").UUID) {
		t.Errorf("the plan does not name the lost disk:\n%s", out)
	}
	expect("opted out, and never asked for", "host-2", 0, "protected", "opted-out opted_out, wanted false", "silent not_ha_enabled, wanted false")
	expect("in no segment", "host-5", 0, "unprotected", "no_segment", "left-out not_ha_enabled, wanted false")
	if len(hosts) != 5 {
		t.Errorf("%d hosts", len(hosts))
	}

	w.mustRun("host", "update", "host-1", "--on-maintenance=true")
	hosts = expect("operator maintenance", "host-1", 1, "unprotected", "maintenance", "on-disk maintenance, wanted true", "on-volume maintenance, wanted true")
	mended(hosts, "host-1", "maintenance", "salvor host update host-1 --on-maintenance=false")
	w.mustRun("host", "update", "host-1", "--on-maintenance=false")

	w.mustRun("segment", "update", "rack", "--enabled=false")
	hosts = expect("disabled segment", "host-1", 1, "unprotected", "segment_disabled", "on-disk segment_disabled, wanted true", "on-volume segment_disabled, wanted true")
	mended(hosts, "host-1", "segment_disabled", "salvor segment update rack --enabled=true")
	w.mustRun("segment", "update", "rack", "--enabled=true")

	w.mustRun("pause", "rack", "--reason", "rack moves")
	expect("paused", "host-1", 1, "unprotected", "paused", "on-disk paused, wanted true", "on-volume paused, wanted true")
	w.mustRun("resume", "rack")

	w.mustRun("segment", "update", "rack", "--recovery-method", "reserved_host")
	hosts = expect("no reserved host", "host-1", 1, "unprotected", "on-disk no_reserved_host, wanted true", "on-volume no_reserved_host, wanted true")
	mended(hosts, "host-1", "no_reserved_host", "salvor host create NAME --segment rack --reserved")
	w.mustRun("host", "update", "host-4", "--reserved=true")
	disable(w, "host-4")
	expect("a disabled reserved host is enabled when it is needed", "host-1", 0, "protected", "on-disk by reserved", "on-volume by reserved")
	w.mustRun("host", "update", "host-4", "--on-maintenance=true")
	hosts = expect("the reserved host is on maintenance", "host-1", 1, "unprotected", "on-disk no_reserved_host, wanted true", "on-volume no_reserved_host, wanted true")
	mended(hosts, "host-1", "no_reserved_host", "salvor host update host-4 --on-maintenance=false")
	w.mustRun("host", "update", "host-4", "--on-maintenance=false")
	w.mustRun("segment", "update", "rack", "--recovery-method", "auto")

	for host, n := range map[string]int{"host-2": 1, "host-3": 2, "host-5": 2} { // each holds three
		w.add(host, "filler", map[string]any{"count": n, "metadata": map[string]any{}})
	}
	hosts = expect("full cloud: there is room for one of two", "host-1", 1, "unprotected", "on-disk no_valid_host, wanted true", "on-volume by auto")
	mended(hosts, "host-1", "no_valid_host", "enable host-4")
	if volume := instance(t, hosts, "on-volume"); *volume.Target != "host-3" || volume.Choices != 1 {
		t.Errorf("on-volume goes to %s of %d", *volume.Target, volume.Choices)
	}

	testkit.Must(t, 204, "POST", w.sim+"/sim/faults", map[string]any{"method": "GET", "path": "/placement/allocation_candidates", "status": 503})
	code, of := w.coverage("--host", "host-1")
	if code != 0 || !slices.ContainsFunc(of[0].Notes, func(f wire.Finding) bool { return f.Rule == "placement_unknown" }) || instance(t, of, "on-disk").Asked {
		t.Errorf("Placement is away: exit status %d, %+v", code, of)
	}
	testkit.Must(t, 204, "DELETE", w.sim+"/sim/faults", nil)

	id := instance(t, hosts, "on-disk").UUID
	if code, of := w.coverage("--instance", id); code != 1 || len(of) != 1 || len(of[0].Instances) != 1 || of[0].Instances[0].UUID != id {
		t.Errorf("of one instance: exit status %d, %+v", code, of)
	}
	for _, tt := range []struct {
		args []string
		exit int
		says string
	}{
		{[]string{"coverage", "--host", "host-9"}, 3, "Host with name host-9 could not be found."},
		{[]string{"coverage", "--instance", w.rack}, 3, "Instance " + w.rack + " could not be found in Nova."},
		{[]string{"plan", "--host", "host-9"}, 3, "Host with name host-9 could not be found."},
		{[]string{"plan"}, 2, "say which host"},
	} {
		if code, out := w.run(tt.args...); code != tt.exit || !strings.Contains(out, tt.says) {
			t.Errorf("salvor %v: exit code %d, want %d with %q\n%s", tt.args, code, tt.exit, tt.says, out)
		}
	}

	// Nobody can register such a name; an import can bring it.
	w.sql("UPDATE hosts SET name = 'host-1.example.org', name_key = 'HOST-1.EXAMPLE.ORG' WHERE name = 'host-1'")
	hosts = expect("unknown to Nova", "host-1.example.org", 1, "unprotected", "unknown_to_nova")
	mended(hosts, "host-1.example.org", "unknown_to_nova", "salvor host update host-1.example.org --name host-1")
	for _, args := range [][]string{{"coverage", "--host", "host-1.example.org"}, {"plan", "--host", "host-1.example.org"}} { // with no instance there
		if code, out := w.run(args...); code != 1 || !strings.Contains(out, "Nova has no compute service named host-1.example.org") {
			t.Errorf("salvor %v: exit code %d, want 1\n%s", args, code, out)
		}
	}
	if code, of := w.coverage("--host", "host-1"); code != 1 || !cmp.Equal(told(of, "host-1"), []string{"unprotected", "no_segment", "on-disk no_valid_host, wanted true", "on-volume no_segment, wanted true"}) {
		t.Errorf("by Nova's name: exit status %d, %v", code, told(of, "host-1"))
	}
}

// disable takes a host's compute service out of the scheduler's hands, as its operator would.
func disable(w *world, host string) {
	w.t.Helper()
	c, err := nova.New(nova.Config{AuthURL: w.sim, User: "masakari", Password: config.NewSecret("secret"), Project: "service"})
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	services, err := c.Services(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	no := false
	for _, s := range services {
		if s.Host == host && s.Binary == ha.BinaryCompute {
			if _, err := c.Do(w.t.Context(), ha.Act{Kind: ha.ActService, ServiceID: s.ID, Enable: &no}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// TestPlanIsWhatHappens: what a plan says before a host's death is what its recovery then does: who is moved, in which order, and who
// is left and why. Afterwards the rows tell how long the next one takes.
func TestPlanIsWhatHappens(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.add("host-1", "plain", nil)
	w.add("host-1", "first", map[string]any{"metadata": map[string]any{"HA_Enabled": "True", "HA_Priority": "10"}})
	w.add("host-1", "out", map[string]any{"metadata": map[string]any{"HA_Enabled": "False"}})
	w.add("host-2", "next", nil)

	before, err := w.Plan(t.Context(), "host-1")
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, i := range before.Instances {
		if i.Order != nil {
			order = append(order, i.UUID)
		}
	}
	if before.Wanted != 2 || before.Protected != 2 || len(order) != 2 || before.Instances[0].Name != "first" || before.Expected.MovesSeconds != nil {
		t.Fatalf("%+v", before)
	}
	testkit.Must(t, 200, "POST", w.sim+"/sim/hosts/host-1/kill", nil)
	n, err := w.Report(t.Context(), client.Report{Type: "COMPUTE_HOST", Hostname: "host-1", GeneratedTime: time.Now(),
		Payload: map[string]string{"event": "STOPPED", "cluster_status": "OFFLINE", "host_status": "NORMAL"}})
	if err != nil {
		t.Fatal(err)
	}
	var r wire.Recovery
	testkit.Eventually(t, patience, func() (bool, string) {
		if r, err = w.Recovery(t.Context(), n.NotificationUUID); err != nil {
			return false, err.Error()
		}
		return r.Status == "finished", r.Status
	})
	var did []string
	for _, e := range r.Timeline {
		if e.Kind == "intent" && e.Act != nil && *e.Act == "lock" { // how each begins; after that they are on their way at once
			did = append(did, *e.InstanceUUID)
		}
	}
	if diff := cmp.Diff(order, did); diff != "" {
		t.Errorf("planned and done differ:\n%s", diff)
	}
	gates := map[string]string{}
	for _, e := range r.Timeline {
		if e.Kind == "gate" && e.Task != nil {
			gates[*e.Task] = e.Text
		}
	}
	for _, g := range before.Gates {
		if g.Gate != "proof" && gates[g.Gate] != g.Text {
			t.Errorf("gate %s said %q in the plan, and then %q", g.Gate, g.Text, gates[g.Gate])
		}
	}
	err = func() error {
		_, err := w.EachVMove(t.Context(), n.NotificationUUID, client.Query{}, func(moves []wire.VMove) error {
			for _, m := range moves {
				p := instance(t, []wire.HostCoverage{before.HostCoverage}, m.InstanceName)
				if (m.Status == "succeeded") != p.Protected || m.Status == "ignored" && *m.Message != p.Reason.Text {
					t.Errorf("%s was %s, and was said to be %+v", m.InstanceName, m.Status, p)
				}
			}
			return nil
		})
		return err
	}()
	if err != nil {
		t.Fatal(err)
	}

	next, err := w.Plan(t.Context(), "host-2")
	if err != nil {
		t.Fatal(err)
	}
	if s := next.Expected.MovesSeconds; s == nil || *s <= 0 || !strings.Contains(next.Expected.Text, "from the last 1 host recoveries that moved instances: 2 in ") {
		t.Errorf("expected time after a recovery: %+v", next.Expected)
	}
	again, err := w.CoverageOf(t.Context(), "host", "host-1")
	if err != nil || !slices.ContainsFunc(again[0].Notes, func(f wire.Finding) bool { return f.Rule == "not_returned" }) {
		t.Errorf("of the dead host: %+v, %v", again, err)
	}
}

// TestCoverageWithoutNova: a salvor that knows no cloud says what to set.
func TestCoverageWithoutNova(t *testing.T) {
	t.Parallel()
	w := &world{t: t}
	dir := t.TempDir()
	conf := filepath.Join(dir, "masakari.conf")
	text := "[DEFAULT]\nauth_strategy = noauth2\n[database]\nconnection = sqlite:///" + filepath.Join(dir, "salvor.sqlite") + "\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	api := testkit.Start(t, "salvor", "serve", "--config-file", conf, "--listen", "127.0.0.1:0").URL(t)
	w.environ = []string{"SALVOR_URL=" + api}
	if code, out := w.run("coverage"); code != 5 || !strings.Contains(out, "Nova cannot be asked now: no Nova is configured: set ") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
