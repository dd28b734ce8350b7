// Package openstack tests salvor end to end against a real Keystone and a real Nova: the lab of the folder beside, which it
// brings up itself. The built binary serves under a masakari.conf on MariaDB, operators and monitors are the real openstack
// command, and hypervisors die by SIGKILL.
package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/testkit"
	"github.com/salvor-ha/salvor/test/openstack/lab"
)

// servers begin with this name; whatever does is the suite's own and deleted.
const prefix = "salvor-e2e-"

// Bounds of waiting. They are far more than a quiet machine needs.
const (
	soon    = 2 * time.Minute
	patient = 5 * time.Minute
)

func TestOpenStack(t *testing.T) {
	s := newSuite(t)
	t.Run("a host dies and comes back", s.hostFailure)
	t.Run("monitors are not sure that hosts are dead", s.fencing)
	t.Run("meanwhile", func(t *testing.T) { // what stays off each other's hosts
		t.Run("the fenced hosts come back", s.fencedComeBack)
		t.Run("an instance fails", s.instanceFailure)
		t.Run("nova-compute fails and comes back", s.processFailure)
	})
	t.Run("a host's storage fails and is repaired", s.storageFailure)
	t.Run("what would fail is named beforehand", s.faults)
}

// suite is the lab with a salvor that guards its hosts.
type suite struct {
	lab      *lab.Lab
	rows     *lab.Rows
	image    lab.Image
	masakari lab.Token // the account that salvor works with
	bmcs     *lab.BMCs
	db       *lab.Database // salvor's
	conf     string        // masakari.conf
	salvor   *testkit.Process
	api      *client.Client // an administrator's
	segment  string
	hosts    map[string]string   // uuid by name
	of       map[string][]string // servers by the host that was fenced
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	ctx := t.Context()
	l, err := lab.Up(ctx)
	var unavailable *lab.UnavailableError
	if errors.As(err, &unavailable) {
		t.Skipf("SKIPPED: %v", err)
	}
	must(t, err)
	s := &suite{lab: l, hosts: map[string]string{}, of: map[string][]string{}}
	t.Cleanup(func() {
		if err := l.Clean(context.Background(), prefix); err != nil {
			t.Errorf("leaving the lab clean: %v", err)
		}
		l.Close()
	})
	must(t, l.Clean(ctx, prefix))
	s.image, err = l.Image(ctx)
	must(t, err)
	s.rows, err = l.Rows()
	must(t, err)
	t.Cleanup(s.rows.Close)
	s.masakari, err = lab.Login(ctx, lab.AuthURL, lab.Account{Name: "masakari", Project: "service"})
	must(t, err)
	s.bmcs, err = l.BMCs()
	must(t, err)
	t.Cleanup(s.bmcs.Close)
	s.serve(t)
	s.makeSegment(t)
	return s
}

// bmcFile has the fencing of the hosts that are to be fenced. The others have none, as it is with most.
const bmcFile = `
defaults: {user: admin, password: PASSWORD, pause: 0.2s, insecure: true}
hosts:
  compute-2: [{kind: redfish, address: "BMCS", system: "{host}", deadline: 30s}]
  compute-3: [{kind: redfish, address: "BMCS", system: "{host}", deadline: 3s}] # given up after a third of it without an answer
`

// serve starts salvor with a database of its own, on the port that the catalog names.
func (s *suite) serve(t *testing.T) {
	t.Helper()
	db, err := s.lab.NewDatabase(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, db.Drop(context.Background())) })
	s.db = db
	dir := t.TempDir()
	s.conf = filepath.Join(dir, "masakari.conf")
	fencing := filepath.Join(dir, "fencing.yaml")
	must(t, os.WriteFile(fencing, []byte(strings.NewReplacer("BMCS", s.bmcs.URL, "PASSWORD", lab.Password).Replace(bmcFile)), 0o600))
	conf := fmt.Sprintf(`[DEFAULT]
masakari_api_listen = 127.0.0.1
masakari_api_listen_port = %d
os_region_name = %s
os_privileged_user_name = masakari
os_privileged_user_password = %s
os_privileged_user_tenant = service
os_privileged_user_auth_url = %s

[keystone_authtoken]
auth_type = password
auth_url = %[4]s
username = masakari
password = %[3]s
project_name = service
user_domain_name = Default
project_domain_name = Default

[database]
connection = %[5]s

[salvor]
nova_report_interval = 2
healthy_delay = 4
fencing_file = %[6]s
`, s.lab.HAPort, lab.Region, lab.Password, lab.AuthURL, db.URL, fencing)
	must(t, os.WriteFile(s.conf, []byte(conf), 0o600))
	s.mustRun(t, "db", "sync", "--config-file", s.conf)
	s.salvor = testkit.Start(t, "salvor", "serve", "--config-file", s.conf)
	url := s.salvor.URL(t)
	login, _ := client.LoginFrom(lab.Environment(lab.Account{Name: "admin", Project: "admin"}))
	s.api, err = client.New(client.Config{URL: url, Auth: client.NewKeystone(login)})
	must(t, err)
}

// run runs a salvor command as the administrator at a shell does: its exit code, and what it printed.
func (s *suite) run(t *testing.T, args ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testkit.Binary(t), args...)
	cmd.Env = lab.Environment(lab.Account{Name: "admin", Project: "admin"})
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatalf("salvor %v: %v", args, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// mustRun is run of a command that must do well.
func (s *suite) mustRun(t *testing.T, args ...string) string {
	t.Helper()
	code, out := s.run(t, args...)
	if code != 0 {
		t.Fatalf("salvor %v: exit code %d\n%s", args, code, out)
	}
	return out
}

// makeSegment guards all hosts.
func (s *suite) makeSegment(t *testing.T) {
	t.Helper()
	var segment struct{ UUID string }
	s.openstack(t, &segment, "segment", "create", "e2e", "auto", "COMPUTE")
	s.segment = segment.UUID
	var first struct{ UUID string }
	s.openstack(t, &first, "segment", "host", "create", lab.Hosts[0], "COMPUTE", "SSH", s.segment)
	s.hosts[lab.Hosts[0]] = first.UUID
	for _, name := range lab.Hosts[1:] {
		host, err := s.api.CreateHost(t.Context(), s.segment, client.NewHost{Name: name, Type: "COMPUTE", ControlAttributes: "SSH"})
		must(t, err)
		s.hosts[name] = host.UUID
	}
}

// openstack runs the real openstack command.
func (s *suite) openstack(t *testing.T, out any, args ...string) {
	t.Helper()
	must(t, s.lab.OpenStack(t.Context(), out, args...))
}

type notification struct {
	UUID   string `json:"notification_uuid"`
	Status string
}

// report sends a notification as a monitor does, and returns its uuid.
func (s *suite) report(t *testing.T, kind, host string, payload map[string]string) string {
	t.Helper()
	text, err := json.Marshal(payload)
	must(t, err)
	var n notification
	s.openstack(t, &n, "notification", "create", kind, host, time.Now().UTC().Format("2006-01-02T15:04:05"), string(text))
	t.Logf("reported %s of %s: %s", kind, host, text)
	return n.UUID
}

// tell is report by salvor's own client, where the real one has been tried already: it is two seconds faster.
func (s *suite) tell(t *testing.T, kind, host string, payload map[string]string) string {
	t.Helper()
	n, err := s.api.Report(t.Context(), client.Report{Type: kind, Hostname: host, GeneratedTime: time.Now(), Payload: payload})
	must(t, err)
	t.Logf("reported %s of %s: %s", kind, host, payload)
	return n.NotificationUUID
}

// awaitNotification waits until a notification has ended, and fails unless as wanted, and as the real client shows it.
func (s *suite) awaitNotification(t *testing.T, uuid, want string) {
	t.Helper()
	s.awaitEnd(t, uuid, want)
	var n notification
	if s.openstack(t, &n, "notification", "show", uuid); n.Status != want {
		t.Fatalf("openstack notification show %s: %q, want %q", uuid, n.Status, want)
	}
}

// awaitEnd is awaitNotification without the real client.
func (s *suite) awaitEnd(t *testing.T, uuid, want string) {
	t.Helper()
	status := ""
	err := lab.Until(t.Context(), "notification "+uuid+" to end", patient, func() (bool, error) {
		n, err := s.api.Notification(t.Context(), uuid)
		status = n.Status
		return slices.Contains([]string{"finished", "ignored", "failed", "error"}, status), err
	})
	if err != nil || status != want {
		t.Fatalf("notification %s is %q, want %q (%v)\n%s", uuid, status, want, err, s.explain(t, uuid))
	}
}

// explain is what salvor says of a notification beyond what the openstack command shows.
func (s *suite) explain(t *testing.T, uuid string) string {
	t.Helper()
	var all []string
	for _, path := range []string{"", "/vmoves"} {
		var out any
		if err := s.lab.SDKGet(t.Context(), &out, "/notifications/"+uuid+path, "1.3"); err != nil {
			continue // only a host's has vmoves
		}
		text, err := json.MarshalIndent(out, "", " ")
		must(t, err)
		all = append(all, string(text))
	}
	return strings.Join(all, "\n")
}

// onMaintenance is what the real client shows of a host.
func (s *suite) onMaintenance(t *testing.T, host string) bool {
	t.Helper()
	var out struct {
		OnMaintenance bool `json:"on_maintenance"`
	}
	s.openstack(t, &out, "segment", "host", "show", s.segment, s.hosts[host])
	return out.OnMaintenance
}

// boot boots one server on a host; its id.
func (s *suite) boot(ctx context.Context, host, name string, metadata map[string]string) (string, error) {
	ids, err := s.lab.Boot(ctx, s.image, 1, host, prefix+name, metadata)
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

func (s *suite) service(t *testing.T, host string) lab.Service {
	t.Helper()
	service, err := s.lab.Service(t.Context(), host)
	must(t, err)
	return service
}

// each does something for all names at once.
func each[T any](t *testing.T, all []T, do func(ctx context.Context, one T) error) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	for _, one := range all {
		group.Go(func() error { return do(ctx, one) })
	}
	must(t, group.Wait())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// actionsBy are the names of what one user asked of a server, oldest first.
func (s *suite) actionsBy(t *testing.T, id, user string) []string {
	t.Helper()
	actions, err := s.lab.Actions(t.Context(), id)
	must(t, err)
	var names []string
	for _, a := range slices.Backward(actions) {
		if a.User == user {
			names = append(names, strings.ToLower(a.Action))
		}
	}
	return names
}
