package conformance

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// Configuration C: the true program, api and engine in one process, on the stub, with all waits at a second.
func TestEngine(t *testing.T) {
	forEachDatabase(t, func(t *testing.T, url string) {
		stub := &Stub{}
		cloud := httptest.NewServer(stub)
		t.Cleanup(cloud.Close)
		stub.URL = cloud.URL
		file := filepath.Join(t.TempDir(), "masakari.conf")
		conf := fmt.Sprintf(`[DEFAULT]
auth_strategy = noauth2
os_region_name = RegionOne
os_privileged_user_name = masakari
os_privileged_user_password = secret
os_privileged_user_tenant = service
os_privileged_user_auth_url = %s/v3
wait_period_after_service_update = 1
wait_period_after_evacuation = 1
wait_period_after_power_off = 1
wait_period_after_power_on = 1
process_unfinished_notifications_interval = 1

[database]
connection = %s

[salvor]
nova_report_interval = 1
`, cloud.URL, url)
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), testkit.Binary(t), "db", "sync", "--config-file", file).CombinedOutput(); err != nil {
			t.Fatalf("salvor db sync: %v\n%s", err, out)
		}
		p := testkit.Start(t, "salvor", "serve", "--config-file", file, "--listen", "127.0.0.1:0")
		r := NewRunner(p.URL(t), "nova", "noauth", "engine_on")
		r.Groups = []string{"engine"}
		run(t, r)
	})
}
