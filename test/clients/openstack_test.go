package clients

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// shell is the real openstack command with Masakari's plugin, in a process that runs it again and again.
type shell struct {
	*lab
	in  io.Writer
	out *bufio.Scanner
}

//go:embed testdata/shell.py
var shellScript string

// startShell starts it with a Python that has the command.
func startShell(l *lab, python string) shell {
	l.t.Helper()
	cmd := exec.CommandContext(l.t.Context(), python, "-c", shellScript)
	cmd.Env = l.environment("admin", "admin")
	in, err := cmd.StdinPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<22)
	return shell{l, in, lines}
}

// call runs one command.
func (s shell) call(args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	line, err := json.Marshal(args)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		s.t.Fatal(err)
	}
	var got struct {
		Out, Err string
		Code     int
	}
	if !s.out.Scan() {
		s.t.Fatalf("openstack %v: the process ended", args)
	}
	if err := json.Unmarshal(s.out.Bytes(), &got); err != nil {
		s.t.Fatalf("openstack %v: %s: %v", args, s.out.Bytes(), err)
	}
	return got.Out, got.Err, got.Code
}

// list runs a command and returns its rows.
func (s shell) list(args ...string) []map[string]any {
	s.t.Helper()
	var rows []map[string]any
	s.json(&rows, args...)
	return rows
}

// show runs a command and returns its object.
func (s shell) show(args ...string) map[string]any {
	s.t.Helper()
	var object map[string]any
	s.json(&object, args...)
	return object
}

func (s shell) json(into any, args ...string) {
	s.t.Helper()
	out, errs, code := s.call(append(slices.Clone(args), "-f", "json")...)
	if code != 0 {
		s.t.Fatalf("openstack %v: exit code %d\n%s%s", args, code, out, errs)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		s.t.Fatalf("openstack %v: %v\n%s", args, err, out)
	}
}

// refused wants a command to fail, or at least to print the text: delete says what was wrong and goes on.
func (s shell) refused(text string, args ...string) {
	s.t.Helper()
	out, errs, code := s.call(args...)
	if !strings.Contains(out+errs, text) || code == 0 && !strings.Contains(strings.Join(args, " "), "delete") {
		s.t.Errorf("openstack %v: exit code %d, want %q\n%s%s", args, code, text, out, errs)
	}
}

func (s shell) does(text string, args ...string) {
	s.t.Helper()
	if out, errs, code := s.call(args...); code != 0 || !strings.Contains(out, text) {
		s.t.Errorf("openstack %v: exit code %d, want %q\n%s%s", args, code, text, out, errs)
	}
}

// column is one column of the rows, blank-separated.
func column(rows []map[string]any, name string) string {
	values := make([]string, len(rows))
	for i, r := range rows {
		values[i] = fmt.Sprint(r[name])
	}
	return strings.Join(values, " ")
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

const pluginMissing = "python3-masakariclient (or python3-openstackclient): the openstack command knows no segments"

// The openstack command of Debian's python3-masakariclient: each verb, pages, filters, and each kind of error.
func TestOpenStackCommand(t *testing.T) {
	needs(t, "masakariclient.plugin, openstackclient.shell", pluginMissing)
	s := startShell(open(t, "sqlite:///"+filepath.Join(t.TempDir(), "salvor.sqlite")), interpreter)
	segmentCommands(t, s)
	hostCommands(t, s)
	notificationCommands(t, s)
	refusedCommands(t, s)
	s.does("Host deleted: host-2", "segment", "host", "delete", "rack-1", "host-2")
	s.does("Segment deleted: rack-2", "segment", "delete", "rack-2", "rack-3")
	out, errs, code := s.run("admin", "", interpreter, "/usr/bin/openstack", "segment", "list", "-c", "name", "-f", "value")
	expect(t, "segments left", fmt.Sprint(out, errs, code), "rack-1\n0")
}

func segmentCommands(t *testing.T, s shell) {
	t.Helper()
	made := s.show("segment", "create", "rack-1", "auto", "COMPUTE", "--description", "two\nlines, é", "--is_enabled", "True")
	expect(t, "created", fmt.Sprint(made["name"], made["recovery_method"], made["is_enabled"], made["description"]), "rack-1autotruetwo\nlines, é")
	s.show("segment", "create", "rack-2", "reserved_host", "COMPUTE")
	s.show("segment", "create", "rack-3", "rh_priority", "other")
	s.door.since("")
	expect(t, "pages of one", column(s.list("segment", "list", "--limit", "1"), "name"), "rack-3 rack-2 rack-1")
	if pages := s.door.since("limit=1"); len(pages) != 4 || !strings.Contains(pages[3], "marker=1") {
		t.Errorf("pages were asked for as %q", pages)
	}
	expect(t, "sorted", column(s.list("segment", "list", "--sort", "name:asc"), "name"), "rack-1 rack-2 rack-3")
	expect(t, "sorted by two", column(s.list("segment", "list", "--sort", "service_type:desc,name:asc"), "name"), "rack-3 rack-1 rack-2")
	expect(t, "after a marker", column(s.list("segment", "list", "--marker", "2"), "name"), "rack-1")
	expect(t, "after a uuid", column(s.list("segment", "list", "--marker", fmt.Sprint(s.show("segment", "show", "rack-3")["uuid"])), "name"), "rack-2 rack-1")
	expect(t, "filtered", column(s.list("segment", "list", "--filters", "recovery_method=auto;service_type=COMPUTE"), "name"), "rack-1")
	changed := s.show("segment", "update", "rack-2", "--description", "spare", "--recovery_method", "auto_priority", "--is_enabled", "False")
	expect(t, "changed", fmt.Sprint(changed["description"], changed["recovery_method"], changed["is_enabled"]), "spareauto_priorityfalse")
	s.refused("Failover segment with name rack-1 already exists.", "segment", "create", "rack-1", "auto", "COMPUTE")
	s.refused("already exists", "segment", "update", "rack-2", "--name", "rack-1")
	s.refused("not found", "segment", "show", "00000000-0000-4000-8000-00000000dead")
	s.refused("No failover segment with id nothing.", "segment", "delete", "nothing")
	s.refused("Marker 999 could not be found.", "segment", "list", "--marker", "999")
	s.refused("Sort key supplied is invalid: bogus", "segment", "list", "--sort", "bogus:asc")
}

func hostCommands(t *testing.T, s shell) {
	t.Helper()
	made := s.show("segment", "host", "create", "host-1", "COMPUTE", "SSH", "rack-1")
	expect(t, "created", fmt.Sprint(made["name"], made["type"], made["reserved"], made["on_maintenance"]), "host-1COMPUTEfalse false")
	s.show("segment", "host", "create", "host-2", "COMPUTE", "SSH", "rack-1", "--reserved", "True", "--on_maintenance", "False")
	expect(t, "pages of one", column(s.list("segment", "host", "list", "rack-1", "--limit", "1", "--sort", "name:asc"), "name"), "host-1 host-2")
	expect(t, "reserved ones", column(s.list("segment", "host", "list", "rack-1", "--filters", "reserved=True"), "name"), "host-2")
	expect(t, "shown", fmt.Sprint(s.show("segment", "host", "show", "rack-1", "host-2")["reserved"]), "true")
	changed := s.show("segment", "host", "update", "rack-1", "host-2", "--on_maintenance", "True", "--control_attributes", "IPMI")
	expect(t, "changed", fmt.Sprint(changed["on_maintenance"], changed["control_attributes"]), "trueIPMI")
	s.refused("Host with name host-1 already exists.", "segment", "host", "create", "host-1", "COMPUTE", "SSH", "rack-3")
	s.refused("Compute service with name host-99 could not be found.", "segment", "host", "create", "host-99", "COMPUTE", "SSH", "rack-1")
	s.refused("does not match", "segment", "host", "create", "host-3", "not a type", "SSH", "rack-1")
	s.refused("Segment host is not found: nothing", "segment", "host", "show", "rack-1", "nothing")
}

func notificationCommands(t *testing.T, s shell) {
	t.Helper()
	at := time.Now().UTC().Format("2006-01-02T15:04:05.000000")
	const quiet = `{"event": "LIFECYCLE", "instance_uuid": "11111111-2222-4333-8444-555555555555", "vir_domain_event": "SHUTDOWN_FINISHED"}`
	made := s.show("notification", "create", "VM", "host-1", at, quiet)
	expect(t, "created", fmt.Sprint(made["type"], made["status"] == "new" || made["status"] == "ignored", made["recovery_workflow_details"] != nil), "VMtrue true")
	id := fmt.Sprint(made["notification_uuid"])
	s.refused("Notification received from host host-1 of type VM is duplicate.", "notification", "create", "VM", "host-1", at, quiet)
	s.refused("is ignored as the host is already under maintenance", "notification", "create", "VM", "host-2", at, quiet)
	s.refused("Host with name host-4 could not be found.", "notification", "create", "VM", "host-4", at, quiet)
	s.refused("'event' is a required property", "notification", "create", "COMPUTE_HOST", "host-1", at, `{"host_status": "NORMAL"}`)
	testkit.Eventually(t, time.Minute, func() (bool, string) {
		shown := s.show("notification", "show", id)
		return shown["status"] == "ignored", fmt.Sprint(shown)
	})
	s.show("notification", "create", "PROCESS", "host-1", at, `{"event": "STARTED", "process_name": "nova-compute"}`)
	expect(t, "pages of one", column(s.list("notification", "list", "--limit", "1", "--sort", "id:asc"), "type"), "VM PROCESS")
	expect(t, "filtered", column(s.list("notification", "list", "--filters", "type=VM;status=ignored"), "notification_uuid"), id)
	s.refused("not found", "notification", "show", "00000000-0000-4000-8000-00000000dead")
}

// Who may not, who is not known, and what is temporary: the command tells each.
func refusedCommands(t *testing.T, s shell) {
	t.Helper()
	out, errs, code := s.run("demo", "", interpreter, "/usr/bin/openstack", "segment", "list")
	if text := out + errs; code == 0 || !strings.Contains(text, "Policy doesn't allow os_masakari_api:segments:index to be performed.") {
		t.Errorf("a member lists segments: exit code %d\n%s", code, text)
	}
	s.cloud.leave("/compute")
	s.refused("Nova cannot be asked now", "segment", "host", "create", "host-3", "COMPUTE", "SSH", "rack-1")
	s.cloud.leave("")
}

// newestClients is where the newest clients are, in a virtual environment: Debian's do not know the moves yet.
const newestClients = "SALVOR_TEST_CLIENTS"

// The moves of a recovered host, as the newest plugin shows them.
func TestOpenStackVMoves(t *testing.T) {
	python := filepath.Join(os.Getenv(newestClients), "bin", "python3")
	if _, err := os.Stat(python); os.Getenv(newestClients) == "" || err != nil {
		t.Skipf("SKIPPED: no openstack command that knows vmoves: %s names no virtual environment with python-masakariclient and python-openstackclient", newestClients)
	}
	s := startShell(open(t, "sqlite:///"+filepath.Join(t.TempDir(), "salvor.sqlite")), python)
	s.show("segment", "create", "rack-1", "auto", "COMPUTE")
	s.show("segment", "host", "create", "host-1", "COMPUTE", "SSH", "rack-1")
	s.lose("host-1")
	made := s.show("notification", "create", "COMPUTE_HOST", "host-1", time.Now().UTC().Format(time.RFC3339), `{"event": "STOPPED", "host_status": "NORMAL", "cluster_status": "OFFLINE"}`)
	id := fmt.Sprint(made["notification_uuid"])
	testkit.Eventually(t, 3*time.Minute, func() (bool, string) {
		shown := s.show("notification", "show", id)
		return shown["status"] == "finished", fmt.Sprint(shown)
	})
	moves := s.list("notification", "vmove", "list", id, "--limit", "1", "--sort", "id:asc")
	expect(t, "moves", column(moves, "status"), "succeeded succeeded")
	expect(t, "moves from", column(moves, "source_host"), "host-1 host-1")
	one := s.show("notification", "vmove", "show", id, fmt.Sprint(moves[0]["uuid"]))
	expect(t, "the move", fmt.Sprint(one["type"], one["server_id"] == moves[0]["server_id"]), "evacuationtrue")
	expect(t, "failed ones", column(s.list("notification", "vmove", "list", id, "--filters", "status=failed"), "uuid"), "")
	s.refused("is not found", "notification", "vmove", "show", id, "00000000-0000-4000-8000-00000000dead")
}
