package cli

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/testkit"
)

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConfigCheck (F155, F133, F135): what would not work is named before anything is started, each with what to do, and
// nothing is changed by it.
func TestConfigCheck(t *testing.T) {
	sim := start(t, "sim", "--listen", "127.0.0.1:0", "--hosts", "2", "--instances", "0")
	cloud := sim.out.await(t, `listening on (http://\S+)`)
	l, err := net.Listen("tcp", "127.0.0.1:0") // a RabbitMQ, as far as the check looks
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nova := strings.Split(sim.out.String(), "[keystone_authtoken]")[0]
	good := sim.out.String() + "[DEFAULT]\ntransport_url = rabbit://u:topsecret@" + l.Addr().String() + "/\n[oslo_messaging_notifications]\ndriver = messagingv2\n"
	mariadb := func(t *testing.T) string { return "[database]\nconnection = " + testkit.MariaDB(t) + "\n" }
	tests := []struct {
		name  string
		conf  func(t *testing.T) string
		code  int
		words []string
	}{
		{"all is well", func(*testing.T) string { return good }, 0, []string{"ok    options", "ok    database  sqlite", "ok    keystone", "ok    listen", "2 compute services",
			l.Addr().String() + " listens", "ok    policy"}},
		{"typos", func(*testing.T) string { return good + "[salvor]\nbrake_prcent = 4\n[salvr]\na = 1\n" }, 1,
			[]string{"did you mean brake_percent?", "did you mean salvor?", "do: mend the name", "ok    nova"}},
		{"an older name works", func(*testing.T) string { return good + "[DEFAULT]\nlogdir = x\n" }, 0, []string{"older name: write [DEFAULT] log_dir"}},
		{"values", func(*testing.T) string {
			return "[DEFAULT]\nosapi_max_limit = many\nuse_ssl = perhaps\n[database]\nconnection = topsecret\n"
		}, 1,
			[]string{":2: [DEFAULT] osapi_max_limit", ":3: [DEFAULT] use_ssl", "not tried"}},
		{"nothing is set", func(*testing.T) string { return "" }, 1,
			[]string{"[DEFAULT] os_privileged_user_name", "[keystone_authtoken] auth_url", "no engine starts", "auth_strategy = noauth2"}},
		{"nothing answers", func(*testing.T) string {
			return strings.ReplaceAll(good, strings.TrimPrefix(cloud, "http://"), "127.0.0.1:1") +
				"[database]\nconnection = mysql+pymysql://salvor:topsecret@127.0.0.1:1/salvor\n[DEFAULT]\ntransport_url = rabbit://u:topsecret@127.0.0.1:1/\n"
		}, 1, []string{"BAD   database", "BAD   keystone", "BAD   nova", "BAD   rabbitmq", "connection refused", "do: check host"}},
		{"accounts", func(*testing.T) string { return strings.ReplaceAll(good, "password = secret", "password = topsecret") }, 1,
			[]string{"BAD   keystone  Keystone answered POST ", "with 401: The request", "BAD   nova", "os_privileged_user_*"}},
		{"files", func(t *testing.T) string {
			return good + "[DEFAULT]\nuse_ssl = true\n[wsgi]\nssl_cert_file = /nowhere.pem\nssl_key_file = /nowhere.pem\n[oslo_policy]\npolicy_file = " +
				file(t, "policy.json", `{"a": "!"}`) + "\n"
		}, 1, []string{"BAD   tls       [wsgi] ssl_cert_file", "BAD   policy", "oslopolicy-convert-json-to-yaml"}},
		{"open to everybody", func(*testing.T) string {
			return good + "[DEFAULT]\nauth_strategy = noauth2\nmasakari_api_listen = 0.0.0.0\n"
		}, 1,
			[]string{"BAD   listen    without authentication", "0.0.0.0", "neither salvor serve nor salvor api starts"}},
		{"a driver that is none", func(*testing.T) string {
			return strings.Replace(good, "driver = messagingv2", "driver = mesagingv2", 1)
		}, 1,
			[]string{"BAD   drivers   driver = mesagingv2 is unknown", "name messagingv2"}},
		{"another bus", func(*testing.T) string { return good + "[DEFAULT]\ntransport_url = kafka://u:topsecret@mq:9092/\n" }, 1,
			[]string{"BAD   rabbitmq  transport_url: salvor speaks to RabbitMQ only", "kafka"}},
		{"a policy file that is not there", func(*testing.T) string { return good + "[oslo_policy]\npolicy_file = nix.yaml\n" }, 1,
			[]string{"BAD   policy    [oslo_policy] policy_file = nix.yaml is not found", "the default rules hold"}},
		{"a rule's name", func(t *testing.T) string {
			return good + "[oslo_policy]\npolicy_file = " + file(t, "policy.yaml", "os_masakari_api:segmets:index: '@'\n") + "\n"
		}, 1, []string{"policy.yaml:1: nobody asks for rule os_masakari_api:segmets:index"}},
		{"fencing", func(t *testing.T) string {
			return good + "[salvor]\nfencing_file = " + file(t, "fencing.yaml", "hosts: [") + "\n"
		}, 1, []string{"BAD   fencing   ", "fencing.yaml", "neither engine nor api starts"}},
		{"without tables", func(t *testing.T) string { return good + mariadb(t) }, 1, []string{"no tables", "do: salvor db sync"}},
		{"no role", func(*testing.T) string {
			return strings.Replace(good, nova, strings.ReplaceAll(nova, "= masakari", "= demo"), 1)
		}, 1, []string{"BAD   nova", "its role admin"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := conf(t, tt.conf(t))
			code, stdout, stderr := command(t, nil, "config", "check", "--config-file", c)
			if code != tt.code {
				t.Errorf("exit %d, want %d\n%s%s", code, tt.code, stdout, stderr)
			}
			for _, w := range tt.words {
				if !strings.Contains(stdout, w) {
					t.Errorf("no %q in\n%s", w, stdout)
				}
			}
			if strings.Contains(stdout+stderr, "topsecret") {
				t.Errorf("a secret is shown:\n%s%s", stdout, stderr)
			}
			if left, _ := os.ReadDir(filepath.Dir(c)); len(left) != 1 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	code, stdout, _ := command(t, nil, "config", "check", "-o", "json", "--config-file", conf(t, good))
	var found []struct {
		What, Text, Do string
		OK             bool
	}
	if err := json.Unmarshal([]byte(stdout), &found); err != nil || code != 0 || len(found) != 8 || !found[0].OK {
		t.Errorf("%d %v\n%s", code, err, stdout)
	}
}

// TestConfigCheckOfOldTables: those of an embedded database, too, which salvor api refuses.
func TestConfigCheckOfOldTables(t *testing.T) {
	file := conf(t, "")
	if code, _, stderr := command(t, nil, "db", "sync", "--config-file", file); code != 0 {
		t.Fatal(stderr)
	}
	_, stdout, _ := command(t, nil, "config", "check", "-f", "json", "--config-file", file)
	if !strings.Contains(stdout, "tables of version 0") || !strings.HasPrefix(stdout, "[") {
		t.Errorf("tables of this version:\n%s", stdout)
	}
	execute(t, file, "DELETE FROM salvor_migrations WHERE name > '0001'")
	_, stdout, _ = command(t, nil, "config", "check", "--config-file", file)
	if !strings.Contains(stdout, "BAD   database  the tables of sqlite") || !strings.Contains(stdout, "are of version 0001") || !strings.Contains(stdout, "do: salvor db sync") {
		t.Errorf("old tables:\n%s", stdout)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(file), "state", "masakari.sqlite-wal")); err == nil {
		t.Error("the check left the database open")
	}
}

// TestConfigShowsWhatItCan: one wrong value hides nothing else.
func TestConfigShowsWhatItCan(t *testing.T) {
	c := conf(t, "[DEFAULT]\nosapi_max_limit = many\ndebug = true\n[salvor]\nbrake_percent = 200\n")
	code, stdout, stderr := command(t, nil, "config", "show", "--config-file", c)
	if code != 1 || !strings.Contains(stdout, "debug = true") || strings.Contains(stdout, "osapi_max_limit") ||
		!strings.Contains(stderr, c+":2: [DEFAULT] osapi_max_limit") || !strings.Contains(stderr, c+":5: [salvor] brake_percent") {
		t.Errorf("%d\n%s%s", code, stdout, stderr)
	}
}

// TestPolicyCheck: a table of all rules, by the files that the configuration names.
func TestPolicyCheck(t *testing.T) {
	rules := file(t, "policy.yaml", "\"os_masakari_api:segments:index\": \"rule:admin_api or role:reader\"\nos_masakari_api:vmoves:index: project_id:7\nunheardof: '@'\n")
	c := conf(t, "[oslo_policy]\npolicy_file = "+rules+"\n")
	tests := []struct {
		args  string
		code  int
		words []string // fields of a line, one blank apart
	}{
		{"--role reader", 0, []string{"os_masakari_api:segments:index yes rule:admin_api or role:reader " + rules + ":1",
			"os_masakari_api:segments:create no rule:admin_api default", "salvor_api:recoveries:cancel no", "nobody asks for rule unheardof"}},
		{"--role ADMIN", 0, []string{"os_masakari_api:segments:create yes", "salvor_api:hosts:confirm-off yes", "os_masakari_api:vmoves:index no"}},
		{"--role x --role reader --project 7", 0, []string{"os_masakari_api:vmoves:index yes project_id:7 " + rules + ":2"}},
		{"", 2, []string{"--role is missing"}},
		{"--role x -o xml", 2, []string{"expected table, json, yaml"}},
	}
	for _, tt := range tests {
		code, stdout, stderr := command(t, nil, append([]string{"policy", "check", "--config-file", c}, strings.Fields(tt.args)...)...)
		plain := ""
		for line := range strings.Lines(stdout + stderr) {
			plain += strings.Join(strings.Fields(line), " ") + "\n"
		}
		for _, w := range tt.words {
			if !strings.Contains(plain, w) || code != tt.code {
				t.Errorf("%s: exit %d, no %q in\n%s", tt.args, code, w, plain)
			}
		}
	}
	code, stdout, _ := command(t, nil, "policy", "check", "--role", "reader", "-o", "json", "--config-file", c)
	var answers []struct {
		Rule, Text, Source string
		Allowed            bool
	}
	if err := json.Unmarshal([]byte(stdout), &answers); err != nil || code != 0 || len(answers) < 30 {
		t.Errorf("%d %v\n%s", code, err, stdout)
	}
	old := conf(t, "[oslo_policy]\npolicy_file = "+file(t, "policy.json", `{"a": "!"}`)+"\n")
	if code, _, stderr := command(t, nil, "policy", "check", "--role", "x", "--config-file", old); code != 1 || !strings.Contains(stderr, "oslopolicy-convert-json-to-yaml") {
		t.Errorf("JSON: %d %s", code, stderr)
	}
}

// TestFilesAndDirectoriesAsGiven: of two that say something different the later one on the command line wins.
func TestFilesAndDirectoriesAsGiven(t *testing.T) {
	f := conf(t, "[DEFAULT]\nos_region_name = of-the-file\n")
	d := filepath.Dir(file(t, "10.conf", "[DEFAULT]\nos_region_name = of-the-directory\n"))
	for want, args := range map[string][]string{"of-the-directory": {"--config-file", f, "--config-dir", d}, "of-the-file": {"--config-dir", d, "--config-file", f}} {
		code, stdout, stderr := command(t, nil, append([]string{"config", "show"}, args...)...)
		if code != 0 || !strings.Contains(stdout, "os_region_name = "+want+"\n") {
			t.Errorf("%v: exit %d\n%s%s", args, code, stdout, stderr)
		}
	}
}
