package differential

import (
	"database/sql"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
	"github.com/salvor-ha/salvor/test/conformance"
)

// python is Debian's own, which has Debian's Masakari.
const python = "/usr/bin/python3"

// maxLimit is both servers' osapi_max_limit: so small that sequences reach it.
const maxLimit = 7

// server is one of the two, with its database.
type server struct {
	name string
	url  string
	db   *sql.DB
	log  string
}

// configuration is of both servers; only the database and the log differ.
const configuration = `[DEFAULT]
auth_strategy = noauth2
osapi_max_limit = LIMIT
log_file = LOG
state_path = STATE
transport_url = fake://
os_privileged_user_auth_url = CLOUD/v3
os_privileged_user_name = masakari
os_privileged_user_password = secret
os_privileged_user_tenant = service
os_region_name = RegionOne
[database]
connection = DATABASE
[keystone_authtoken]
auth_type = password
auth_url = CLOUD/v3
username = masakari
password = secret
project_name = service
user_domain_name = Default
project_domain_name = Default
`

// start starts both servers, each over a database of its own, before the same small Nova.
func start(t *testing.T) (masakari, salvor server) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import masakari.api.openstack.ha, masakari.cmd.api, eventlet, pymysql").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: Debian's Masakari is not installed (masakari-api): %v\n%.300s", err, out)
	}
	paste := "/etc/masakari/api-paste.ini"
	if _, err := os.Stat(paste); err != nil {
		t.Skipf("SKIPPED: Debian's masakari-api is not installed: %v", err)
	}
	stub := &conformance.Stub{}
	cloud := httptest.NewServer(stub)
	t.Cleanup(cloud.Close)
	stub.URL = cloud.URL

	configure := func(name string) (server, string) {
		dir := t.TempDir()
		database := testkit.MariaDB(t)
		s := server{name: name, db: open(t, database), log: filepath.Join(dir, name+".log")}
		conf := filepath.Join(dir, "masakari.conf")
		text := strings.NewReplacer("CLOUD", cloud.URL, "DATABASE", database, "LOG", s.log, "STATE", dir, "LIMIT", fmt.Sprint(maxLimit)).Replace(configuration)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return s, conf
	}
	testkit.Binary(t) // built before anything is waited for
	masakari, conf := configure("masakari")
	process := testkit.StartProgram(t, python, "masakari", "masakari_api.py", conf, paste)
	salvor, own := configure("salvor")
	if code, said := testkit.Run(t, time.Minute, os.Environ(), "db", "sync", "--config-file", own); code != 0 {
		t.Fatalf("salvor db sync: exit code %d\n%s", code, said)
	}
	salvor.url = testkit.Start(t, "salvor", "api", "--config-file", own, "--listen", "127.0.0.1:0").URL(t)
	masakari.url = process.URL(t)
	t.Cleanup(func() {
		for _, s := range []server{masakari, salvor} {
			if text, _ := os.ReadFile(s.log); t.Failed() {
				t.Logf("last of %s's log:\n%s", s.name, text[max(0, len(text)-3000):])
			}
		}
	})
	return masakari, salvor
}

// open connects to the database of a SQLAlchemy URL.
func open(t *testing.T, raw string) *sql.DB {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", fmt.Sprintf("root@tcp(%s)%s?multiStatements=true&interpolateParams=true", u.Host, u.Path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
