package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// write puts files into a new directory and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// loadText reads one file.
func loadText(t *testing.T, text string, env ...string) (*Config, []Warning, error) {
	t.Helper()
	dir := write(t, map[string]string{"masakari.conf": text})
	return Load(Sources{Files: []string{filepath.Join(dir, "masakari.conf")}, SearchDirs: []string{}, Env: env})
}

func mustLoad(t *testing.T, text string, env ...string) *Config {
	t.Helper()
	c, _, err := loadText(t, text, env...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefaultsWithoutAnyFile(t *testing.T) {
	c, warnings, err := Load(Sources{SearchDirs: []string{}, Env: []string{"HOME=/home/op", "XDG_STATE_HOME="}})
	if err != nil || len(warnings) != 0 {
		t.Fatal(warnings, err)
	}
	wantState := "/home/op/.local/state/salvor"
	if os.Geteuid() == 0 {
		wantState = "/var/lib/salvor"
	}
	db, err := ParseDatabaseURL(c.Database.Connection)
	if err != nil {
		t.Fatal(err)
	}
	if db.Dialect != "sqlite" || db.Path != wantState+"/masakari.sqlite" || c.Engine.StatePath != wantState {
		t.Errorf("database %+v under %s", db, c.Engine.StatePath)
	}
	name, _ := os.Hostname()
	if c.Engine.Host != name || c.API.Listen != "0.0.0.0" || c.API.Port != 15868 || c.API.MaxLimit != 1000 {
		t.Errorf("%+v %+v", c.Engine, c.API)
	}
	if c.Engine.EvacuationsPerHost != 0 {
		t.Errorf("unset host_failure_recovery_threads is a limit of %d", c.Engine.EvacuationsPerHost)
	}
	want := Salvor{ForceDown: true, NovaReportInterval: 10 * time.Second, ProofMaxAge: time.Minute, OrderInDoubt: time.Minute,
		BrakePercent: 50, HostRecoveryRate: 10, MaxRecoveryAttempts: 3, NovaConcurrencyMax: 32, NovaTimeout: 30 * time.Second,
		HealthyDelay: 5 * time.Minute, AutoReturnLimit: 3, AutoReturnWindow: 24 * time.Hour, InstanceRestartLimit: 5,
		RestartWindow: time.Hour, LocalDisk: "evacuate", StorageFailureAction: "error",
		BlobTransfers: 1024, BlobTransfersPerSource: 100, BlobTransfersPerTarget: 100, BlobReservedMB: 1024, BlobSilenceGrace: time.Hour,
		BlobVerifyInterval: 720 * time.Hour, LeaseTTL: 5 * time.Second,
		LeaseTick: time.Second, DrainTimeout: 5 * time.Second, PollInterval: 500 * time.Millisecond,
		FencingRehearsalInterval: time.Hour, DoctorInterval: time.Hour, WebhookTimeout: 10 * time.Second, WebhookGiveUp: 24 * time.Hour, OutboxMaxRows: 100000}
	if diff := cmp.Diff(want, c.Salvor); diff != "" {
		t.Errorf("RECOVERY section 8 (-want +got)\n%s", diff)
	}
	wantFlow := Flow{Pre: []string{"disable_compute_service_task"}, Main: []string{"prepare_HA_enabled_instances_task"},
		Post: []string{"evacuate_instances_task"}}
	if diff := cmp.Diff(wantFlow, c.Flows.HostAuto); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"policy.d"}, c.Policy.Dirs); diff != "" {
		t.Error(diff)
	}
}

func TestOrderOfSources(t *testing.T) {
	dir := write(t, map[string]string{
		"etc/masakari/masakari.conf":              "[DEFAULT]\nosapi_max_limit = 1\nverify_interval = 2\nwait_period_after_power_on = 3\n",
		"etc/masakari.conf":                       "[DEFAULT]\nosapi_max_limit = 77\n",
		"etc/masakari/masakari.conf.d/20.conf":    "[DEFAULT]\nverify_interval = 20\n",
		"etc/masakari/masakari.conf.d/30.conf":    "[DEFAULT]\nverify_interval = 30\n",
		"etc/masakari/masakari.conf.d/40.conf.no": "[DEFAULT]\nverify_interval = 40\n",
		"a.conf": "[DEFAULT]\nosapi_max_limit = 5\n[oslo_messaging_notifications]\ndriver = log\n",
		"b.conf": "[DEFAULT]\nosapi_max_limit = 6\n[oslo_messaging_notifications]\ndriver = messagingv2\n",
	})
	search := []string{filepath.Join(dir, "home/.masakari"), filepath.Join(dir, "etc/masakari"), filepath.Join(dir, "etc")}
	read := func(s Sources) *Config {
		t.Helper()
		s.SearchDirs = search
		c, _, err := Load(s)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := read(Sources{})
	if c.API.MaxLimit != 1 || c.Engine.VerifyInterval != 30*time.Second || c.Engine.WaitAfterPowerOn != 3*time.Second {
		t.Errorf("first file found, then its directory: %d %v", c.API.MaxLimit, c.Engine.VerifyInterval)
	}
	a, b := filepath.Join(dir, "a.conf"), filepath.Join(dir, "b.conf")
	c = read(Sources{Files: []string{a, b}, Env: []string{"OS_DEFAULT__WAIT_PERIOD_AFTER_POWER_ON=9"}})
	if c.API.MaxLimit != 6 || c.Engine.WaitAfterPowerOn != 9*time.Second {
		t.Errorf("the last file, the environment before all: %d %v", c.API.MaxLimit, c.Engine.WaitAfterPowerOn)
	}
	if diff := cmp.Diff([]string{"log", "messagingv2"}, c.Notifications.Drivers); diff != "" {
		t.Error("repeated values of all files", diff)
	}
	c = read(Sources{Env: []string{"OS_MASAKARI_CONFIG_DIR=" + filepath.Join(dir, "etc")}})
	if c.API.MaxLimit != 77 {
		t.Errorf("OS_MASAKARI_CONFIG_DIR: %d", c.API.MaxLimit)
	}
	for _, s := range []Sources{{Files: []string{filepath.Join(dir, "no.conf")}}, {Dirs: []string{filepath.Join(dir, "no.d")}}} {
		if _, _, err := Load(s); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "no.")) {
			t.Errorf("a missing named source: %v", err)
		}
	}
}

// TestOrderOfTheCommandLine: files and directories count in the order in which they are given, hidden files not at all, and of an
// option that is given twice in one file the last.
func TestOrderOfTheCommandLine(t *testing.T) {
	dir := write(t, map[string]string{
		"a.conf": "[DEFAULT]\nos_region_name = $nothing\nos_region_name = a\nhost = a\n", "b.conf": "[DEFAULT]\nos_region_name = b\n",
		"d/1.conf": "[DEFAULT]\nos_region_name = d\n", "d/.2.conf": "[DEFAULT]\nos_region_name = hidden\n", "d/3.conf~": "[DEFAULT]\nos_region_name = old\n",
	})
	a, b, d := filepath.Join(dir, "a.conf"), filepath.Join(dir, "b.conf"), filepath.Join(dir, "d")
	for _, tt := range []struct {
		s    Sources
		want string
	}{
		{Sources{Files: []string{a}}, "a"},
		{Sources{Files: []string{a, b}, Dirs: []string{d}}, "d"},
		{Sources{Files: []string{a, b}, Dirs: []string{d}, After: []int{0}}, "b"},
		{Sources{Files: []string{a, b}, Dirs: []string{d}, After: []int{2}}, "d"},
		{Sources{Files: []string{b, a}, Dirs: []string{d, d}, After: []int{0, 1}}, "a"},
	} {
		tt.s.SearchDirs = []string{}
		c, _, err := Load(tt.s)
		if err != nil {
			t.Fatal(err)
		}
		if c.Nova.Region != tt.want || c.Engine.Host != "a" {
			t.Errorf("%v %v %v: region %q of host %q, want %s", tt.s.Files, tt.s.Dirs, tt.s.After, c.Nova.Region, c.Engine.Host, tt.want)
		}
		for _, set := range c.Effective() {
			if set.Option == "os_region_name" && (set.Value != tt.want || len(set.Lines()) != 1) {
				t.Errorf("shown as %q", set.Lines())
			}
		}
	}
}

// TestFilesOfMasakarisPrograms: what masakari-api would read and salvor does not is said.
func TestFilesOfMasakarisPrograms(t *testing.T) {
	dir := write(t, map[string]string{"masakari.conf": "", "masakari-api.conf": "[DEFAULT]\ndebug = true\n"})
	_, warnings, err := Load(Sources{SearchDirs: []string{dir}})
	if err != nil || len(warnings) != 1 || warnings[0].File != filepath.Join(dir, "masakari-api.conf") || !strings.Contains(warnings[0].Do, "--config-file") {
		t.Errorf("%v %v", warnings, err)
	}
	if _, warnings, _ = Load(Sources{SearchDirs: []string{dir}, Files: []string{filepath.Join(dir, "masakari.conf")}}); warnings != nil {
		t.Errorf("with named files: %v", warnings)
	}
}

func TestErrorsNameEverything(t *testing.T) {
	tests := []struct{ text, want string }{
		{"[DEFAULT]\n\nosapi_max_limit = many\n", `masakari.conf:3: [DEFAULT] osapi_max_limit = "many": expected an integer ≥ 1`},
		{"[DEFAULT]\nmasakari_api_listen_port = 70000\n", `:2: [DEFAULT] masakari_api_listen_port = "70000": expected an integer from 1 to 65535`},
		{"[DEFAULT]\nuse_ssl = maybe\n", `[DEFAULT] use_ssl = "maybe": expected true or false`},
		{"[DEFAULT]\nwait_period_after_evacuation = 90s\n", `expected a whole number of seconds ≥ 1`},
		{"[DEFAULT]\nauth_strategy = none\n", `expected keystone or noauth2`},
		{"[DEFAULT]\nmasakari_api_listen = a b\n", `expected a host name or an IP address`},
		{"[DEFAULT]\nnova_catalog_admin_info = nova\n", `such as compute:nova:publicURL`},
		{"[DEFAULT]\nos_privileged_user_auth_url = keystone:5000\n", `expected an http:// or https:// URL`},
		{"[DEFAULT]\nnotification_driver = mine\n", `expected taskflow_driver`},
		{"[keystone_authtoken]\nauth_type = v3token\n", `salvor logs in by password, v3password, v3applicationcredential only`},
		{"[salvor]\nbrake_percent = 101\n", `[salvor] brake_percent = "101": expected an integer from 0 to 100`},
		{"[salvor]\npoll_interval = 0\n", `expected a number of seconds from 0.05 to 60`},
		{"[salvor]\npoll_interval = NaN\n", `expected a number of seconds`},
		{"[salvor]\nlease_tick = 2\n", `[salvor] lease_tick = "2": expected at most a third of lease_ttl (5)`},
		{"[salvor]\nmetrics_listen = 9105\n", `expected HOST:PORT`},
		{"[osapi_v1]\nproject_id_regex = [\n", `expected a regular expression`},
		{"[taskflow_driver_recovery_flows]\nhost_auto_failure_recovery_tasks = main:['evacuate_instance_task']\n",
			`unknown task "evacuate_instance_task" (did you mean evacuate_instances_task?)`},
		{"[DEFAULT]\nlog_dir = $log_file\nlog_file = $log_dir\n", `leads back to itself`},
		{"[DEFAULT]\nlog_dir = /var/$log\n", `$log: refers to no option; write $$ for a dollar sign`},
		{"[DEFAULT]\nlog_dir\n", `masakari.conf:2: no ':' or '=' found`},
		{"[DEFAULT]\nlog_dir = \xff\n", `masakari.conf:2: not UTF-8 text`},
	}
	for _, tt := range tests {
		_, _, err := loadText(t, tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q\n got %v\nwant …%s", tt.text, err, tt.want)
		}
	}
	_, _, err := loadText(t, "[DEFAULT]\nuse_ssl = 2\n", "OS_DEFAULT__OSAPI_MAX_LIMIT=0")
	for _, want := range []string{"use_ssl", "environment OS_DEFAULT__OSAPI_MAX_LIMIT"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("all errors at once, %s among them: %v", want, err)
		}
	}
}

// A few lines of references, each several times the one before, or one many times, do not fill the memory.
func TestReferencesThatGrow(t *testing.T) {
	chain := "[DEFAULT]\nos_user_domain_name = " + strings.Repeat("x", 1000) + "\n"
	last := "os_user_domain_name"
	for _, name := range []string{"log_dir", "log_file", "os_project_domain_name", "os_privileged_user_name", "os_privileged_user_tenant", "state_path"} {
		chain += name + " = " + strings.Repeat("$"+last, 8) + "\n"
		last = name
	}
	many := "[DEFAULT]\nos_user_domain_name = " + strings.Repeat("x", 100000) + "\n[oslo_policy]\n" + strings.Repeat("policy_dirs = $os_user_domain_name\n", 1000)
	for name, text := range map[string]string{"chain": chain, "many": many} {
		if _, _, err := loadText(t, text); err == nil || !strings.Contains(err.Error(), "longer than 1048576 bytes") {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	if _, _, err := loadText(t, "[DEFAULT]\nhost = "+strings.Repeat("x", 10000)+"\n"); err == nil || len(err.Error()) > 1000 {
		t.Errorf("a long value that is wrong: %.300v", err)
	}
	if c := mustLoad(t, "[DEFAULT]\nos_region_name = "+strings.Repeat("x", 200000)+"\nlog_dir = /$os_region_name$os_region_name\n"); len(c.Log.Dir) != 400001 {
		t.Errorf("%d bytes", len(c.Log.Dir))
	}
}

func TestWarnings(t *testing.T) {
	_, warnings, err := loadText(t, `[DEFAULT]
osapi_max_limits = 5
evacuate_all_instances = false
logfile = x.log
masakari_topic = t
[hostfailure]
a = 1
b = 2
[salvor]
brake_precent = 10
[oslo_messaging_kafka]
anything = 1
[my_plugin]
x = 1
[keystone_authtoken]
auth_section = service_account
[service_account]
username = salvor
usrname = x
`, "OS_SALVOR__FORCED_DOWN=1", "OS_USERNAME=x", "OS_UNKNOWN__X=1")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range warnings {
		got = append(got, strings.TrimPrefix(w.String(), filepath.Dir(w.File)+"/"))
	}
	want := []string{
		"masakari.conf:4: logfile is an older name: write [DEFAULT] log_file",
		"masakari.conf:2: option osapi_max_limits in group [DEFAULT] is unknown and has no effect (did you mean osapi_max_limit?)",
		"masakari.conf:3: option evacuate_all_instances in group [DEFAULT] is unknown and has no effect (it belongs into [host_failure])",
		"masakari.conf:7: group [hostfailure] is unknown and has no effect (did you mean host_failure?)",
		"masakari.conf:10: option brake_precent in group [salvor] is unknown and has no effect (did you mean brake_percent?)",
		"masakari.conf:14: group [my_plugin] is unknown and has no effect",
		"masakari.conf:19: option usrname in group [service_account] is unknown and has no effect (did you mean username?)",
		"environment: variable OS_SALVOR__FORCED_DOWN names no option of group [salvor] (did you mean force_down?)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOlderNamesAndPluginSection(t *testing.T) {
	c := mustLoad(t, `[DEFAULT]
sql_connection = mysql://u:p@h/db
notification_transport_url = rabbit://n/
[keystone_authtoken]
auth_uri = http://k:5000
auth_section = account
username = wrong
cafile = /ca.pem
[account]
auth_url = http://k:5000/v3
user_name = right
tenant-name = service
password = s3
`)
	k := c.Keystone
	if k.Username != "right" || k.ProjectName != "service" || k.Password.Reveal() != "s3" || k.AuthURL != "http://k:5000/v3" ||
		k.CAFile != "/ca.pem" || k.WWWAuthenticateURI != "http://k:5000" {
		t.Errorf("%+v", k)
	}
	if ssl := mustLoad(t, "[DEFAULT]\nssl_cert_file = /c\nssl_key_file = /k\nsql_max_retries = 3\n"); ssl.WSGI.CertFile != "/c" || ssl.WSGI.KeyFile != "/k" || ssl.Database.MaxRetries != 3 {
		t.Errorf("%+v %+v", ssl.WSGI, ssl.Database)
	}
	if c.Database.Connection.Reveal() != "mysql://u:p@h/db" || c.Notifications.TransportURL.Reveal() != "rabbit://n/" {
		t.Error("older names of other groups are not read")
	}
	if missing := c.MissingKeystone(); missing != nil {
		t.Errorf("nothing is missing: %v", missing)
	}
	c = mustLoad(t, "[DEFAULT]\nos_privileged_user_name = salvor\nos_system_scope = all\n")
	wantNova := []string{"[DEFAULT] os_privileged_user_auth_url", "[DEFAULT] os_privileged_user_password"}
	if diff := cmp.Diff(wantNova, c.MissingNova()); diff != "" {
		t.Error(diff)
	}
	wantKeystone := []string{"[keystone_authtoken] auth_url", "[keystone_authtoken] username", "[keystone_authtoken] password"}
	if diff := cmp.Diff(wantKeystone, c.MissingKeystone()); diff != "" {
		t.Error(diff)
	}
}

func TestNumbersLeftEmptyAreUnset(t *testing.T) {
	c := mustLoad(t, "[DEFAULT]\nosapi_max_limit =\nhost_failure_recovery_threads =\n[database]\nmax_pool_size =\n")
	if c.API.MaxLimit != 1000 || c.Engine.EvacuationsPerHost != 0 || c.Database.MaxPoolSize != 5 {
		t.Errorf("%d %d %d", c.API.MaxLimit, c.Engine.EvacuationsPerHost, c.Database.MaxPoolSize)
	}
}

func TestPlaces(t *testing.T) {
	dir := write(t, map[string]string{"first/a.conf": "", "second/b.conf": "", "etc/x": ""})
	places := func(text, name string) string {
		t.Helper()
		file := filepath.Join(dir, "second/b.conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _, err := Load(Sources{SearchDirs: []string{filepath.Join(dir, "etc")}, Files: []string{filepath.Join(dir, "first/a.conf"), file}})
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(strings.Join(c.Places(name), " "), dir+"/", "")
	}
	const yaml = "second/policy.yaml first/policy.yaml etc/policy.yaml"
	for _, tt := range []struct{ text, name, want string }{
		{"", "policy.d", "second/policy.d first/policy.d etc/policy.d"},
		{"", "/a/policy.yaml", "/a/policy.yaml"},
		{"", "policy.yaml", yaml + " second/policy.json first/policy.json etc/policy.json"},
		{"[oslo_policy]\npolicy_file = policy.yaml\n", "policy.yaml", yaml},
	} {
		if got := places(tt.text, tt.name); got != tt.want {
			t.Errorf("%q %s: %s, want %s", tt.text, tt.name, got, tt.want)
		}
	}
}

// TestCommentBehindAValue: oslo.config takes it as a part of the value, and so does salvor; the error says what was probably meant.
func TestCommentBehindAValue(t *testing.T) {
	const hint = "a comment must stand on its own line"
	for text, hinted := range map[string]bool{
		"[salvor]\nnova_report_interval = 10   # as in nova.conf\n":    true,
		"[DEFAULT]\nos_privileged_user_auth_url = https://k/v3 # us\n": true,
		"[salvor]   # ours\nnova_report_interval = 10\n":               true,
		"[salvor]\nnova_report_interval = ten#\n":                      false,
		"[salvor\nnova_report_interval = 10\n":                         false,
	} {
		_, _, err := loadText(t, text)
		if err == nil || strings.Contains(err.Error(), hint) != hinted {
			t.Errorf("%q: %v, hinted %v", text, err, hinted)
		}
	}
	if c := mustLoad(t, "[DEFAULT]\nos_privileged_user_password = a #b\n"); c.Nova.Password.Reveal() != "a #b" {
		t.Errorf("a value that may have it lost it: %q", c.Nova.Password.Reveal())
	}
}

// TestHiddenFilesAndCase: as with oslo.config, a file whose name begins with a dot is not read, and a choice has no case.
func TestHiddenFilesAndCase(t *testing.T) {
	dir := write(t, map[string]string{"a.conf": "[salvor]\nlocal_disk = Leave\n", ".b.conf": "[DEFAULT]\ndebug = true\n"})
	c, _, err := Load(Sources{Dirs: []string{dir}, SearchDirs: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Salvor.LocalDisk != "leave" || c.Log.Debug {
		t.Errorf("local_disk is %q, debug %v", c.Salvor.LocalDisk, c.Log.Debug)
	}
}
