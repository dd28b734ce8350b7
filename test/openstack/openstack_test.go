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
	t.Run("an instance fails", s.instanceFailure)
	t.Run("nova-compute fails and comes back", s.processFailure)
}

// suite is the lab with a salvor that guards its hosts.
type suite struct {
	lab      *lab.Lab
	rows     *lab.Rows
	image    lab.Image
	masakari lab.Token // the account that salvor works with
	segment  string
	hosts    map[string]string // uuid by name
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
	s := &suite{lab: l, hosts: map[string]string{}}
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
	s.serve(t)
	s.makeSegment(t)
	return s
}

// serve starts salvor with a database of its own, on the port that the catalog names.
func (s *suite) serve(t *testing.T) {
	t.Helper()
	db, err := s.lab.NewDatabase(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, db.Drop(context.Background())) })
	file := filepath.Join(t.TempDir(), "masakari.conf")
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
`, lab.HAPort, lab.Region, lab.Password, lab.AuthURL, db.URL)
	must(t, os.WriteFile(file, []byte(conf), 0o600))
	if out, err := exec.CommandContext(t.Context(), testkit.Binary(t), "db", "sync", "--config-file", file).CombinedOutput(); err != nil {
		t.Fatalf("salvor db sync: %v\n%s", err, out)
	}
	testkit.Start(t, "salvor", "serve", "--config-file", file).URL(t)
}

// makeSegment guards all hosts.
func (s *suite) makeSegment(t *testing.T) {
	t.Helper()
	var segment struct{ UUID string }
	s.openstack(t, &segment, "segment", "create", "e2e", "auto", "COMPUTE")
	s.segment = segment.UUID
	for _, name := range lab.Hosts {
		var host struct{ UUID string }
		s.openstack(t, &host, "segment", "host", "create", name, "COMPUTE", "SSH", s.segment)
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

// awaitNotification waits until the real client shows the notification ended, and fails unless as wanted.
func (s *suite) awaitNotification(t *testing.T, uuid, want string) {
	t.Helper()
	var n notification
	err := lab.Until(t.Context(), "notification "+uuid+" to end", patient, func() (bool, error) {
		err := s.lab.OpenStack(t.Context(), &n, "notification", "show", uuid)
		return slices.Contains([]string{"finished", "ignored", "failed", "error"}, n.Status), err
	})
	if err != nil || n.Status != want {
		t.Fatalf("notification %s is %q, want %q (%v)\n%s", uuid, n.Status, want, err, s.explain(t, uuid))
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
