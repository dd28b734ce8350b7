package app

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/salvor-ha/salvor/internal/config"
)

// load reads a masakari.conf, and nothing else.
func load(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := tried(t, text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func tried(t *testing.T, text string) (*config.Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "masakari.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := config.Load(config.Sources{Files: []string{file}, SearchDirs: []string{}})
	return c, err
}

// everything sets what is empty, false or none by default.
const everything = `[DEFAULT]
host_failure_recovery_threads = 3
periodic_enable = false
os_privileged_user_auth_url = http://keystone.example.com/v3
os_privileged_user_name = salvor
os_privileged_user_password = p
os_privileged_user_tenant = service
os_system_scope = all
os_region_name = one
nova_ca_certificates_file = /ca.pem
nova_api_insecure = true
osapi_masakari_link_prefix = https://ha.example.com
[host_failure]
ignore_instances_in_error_state = true
add_reserved_host_to_aggregate = true
[instance_failure]
process_all_instances = true
[salvor]
trust_reports = true
local_disk = leave
auto_return = true
instance_class = db: metadata.tier=db, action=evacuate
[oslo_middleware]
enable_proxy_headers_parsing = true
[osapi_v1]
project_id_regex = [0-9a-f]+
[cors]
allowed_origin = https://console.example.com
[keystone_authtoken]
auth_url = http://keystone.example.com/v3
delay_auth_decision = true
username = u
user_id = ui
password = p
user_domain_name = ud
user_domain_id = udi
project_name = pn
project_id = pi
project_domain_name = pd
project_domain_id = pdi
domain_name = d
domain_id = di
system_scope = all
trust_id = t
application_credential_id = ai
application_credential_name = an
application_credential_secret = as
default_domain_name = dd
default_domain_id = ddi
interface = public
region_name = r
cafile = /ca
certfile = /cert
keyfile = /key
insecure = true
service_token_roles_required = true
service_type = instance-ha
[database]
connection = mysql+pymysql://u:p@db.example.com/masakari
`

// TestEveryOptionArrives: a field that somebody adds to a room's Config, and that masakari.conf decides, must be filled here.
func TestEveryOptionArrives(t *testing.T) {
	c := load(t, everything)
	rooms := []struct {
		name string
		got  any
		not  []string // set elsewhere, or of no option
	}{
		{"plan.Rules", rules(c), nil},
		{"nova.Config", novaConfig(c), []string{"Observe", "Trace"}},
		{"keystone.Config", keystoneConfig(c), []string{"CacheSize"}},
		{"api.Config", apiConfig(c), []string{"Log", "HealthDisabled", "RequestTimeout", "SilentClient"}},
		{"api.CORS", apiConfig(c).CORS, nil},
		{"store.Config", storeConfig(c, syncReads), []string{"LockWait", "CallFor", "RetryFor", "SyncFor", "Wrap", "Announce"}},
	}
	for _, room := range rooms {
		v := reflect.ValueOf(room.got)
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; v.Field(i).IsZero() && !slices.Contains(room.not, name) {
				t.Errorf("%s.%s: nothing of masakari.conf arrives there", room.name, name)
			}
		}
	}
}

func TestMeaningsThatDiffer(t *testing.T) {
	c := load(t, "[keystone_authtoken]\ntoken_cache_time = 0\n[database]\nmax_pool_size = 0\n[wsgi]\nclient_socket_timeout = 0\n")
	if got := keystoneConfig(c).CacheTime; got >= 0 {
		t.Errorf("token_cache_time = 0 is no cache; it became %s, and 0 would be the default", got)
	}
	if got := storeConfig(c, 0); got.MaxOpen < 100 {
		t.Errorf("max_pool_size = 0 is no limit; it became %d", got.MaxOpen)
	}
	if got := apiConfig(c).IdleTimeout; got.Hours() < 1 {
		t.Errorf("client_socket_timeout = 0 is none; it became %s", got)
	}
	if got := rules(load(t, "")).Threads; got != 0 {
		t.Errorf("host_failure_recovery_threads limits only when it is set; it is %d", got)
	}
}
