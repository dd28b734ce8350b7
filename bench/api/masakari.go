package main

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/bench/internal/gauge"
)

//go:embed masakari_wsgi.py
var masakariWSGI []byte

// packages hold Debian's Masakari and what it runs in.
const packages = "masakari-api uwsgi-plugin-python3"

// startMasakari starts Debian's API under uWSGI, as Debian does, over a database of its own with the hosts in one segment. Its orders
// to the engine go to RabbitMQ, where nobody takes them. What is not there skips. Debian installs 8 processes of 32 threads; but
// Masakari's locks fail across threads (greenlet.error: cannot switch to a different thread), and reports then wait for ever.
func startMasakari(tb testing.TB, database *gauge.Server, hosts []string, processes, threads string) server {
	tb.Helper()
	for _, program := range []string{"uwsgi_python3", "masakari-manage", "rabbitmqctl"} {
		if _, err := exec.LookPath(program); err != nil {
			tb.Skipf("SKIPPED: %s is not installed (apt-get install %s rabbitmq-server)", program, packages)
		}
	}
	name := "masakari_" + processes + "_" + threads
	dir := tb.TempDir()
	conf := filepath.Join(dir, "masakari.conf")
	write(tb, conf, []byte(fmt.Sprintf(`[DEFAULT]
auth_strategy = noauth2
transport_url = rabbit://guest:guest@127.0.0.1:5672/%s
os_region_name = RegionOne

[database]
connection = %s
`, vhost(tb), database.Create(tb, name))))
	paste, err := os.ReadFile("/etc/masakari/api-paste.ini")
	if err != nil {
		tb.Skipf("SKIPPED: Debian's masakari-api is not installed: %v", err)
	}
	write(tb, filepath.Join(dir, "api-paste.ini"), paste)
	write(tb, filepath.Join(dir, "masakari_wsgi.py"), masakariWSGI)
	run(tb, "masakari-manage", "--config-file", conf, "db", "sync")
	register(tb, gauge.Open(tb, "mysql", "root@tcp("+database.Address+")/"+name), hosts)

	port := gauge.FreePort(tb)
	cmd := exec.CommandContext(tb.Context(), "uwsgi_python3", "--http-socket", "127.0.0.1:"+port, "--processes", processes, "--threads", threads,
		"--wsgi-file", filepath.Join(dir, "masakari_wsgi.py"), "--master", "--lazy-apps", "--enable-threads", "--thunder-lock", "--die-on-term",
		"--no-orphans", "--buffer-size", "65535", "--post-buffering", "65535", "--listen", "100", "--add-header", "Connection: close",
		"--disable-logging", "--pyargv", "--config-file "+conf)
	cmd.Env = append(os.Environ(), "OS_MASAKARI_CONFIG_DIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with its workers
		_ = cmd.Wait()
	})
	s := server{name: "Masakari " + processes + " × " + threads, url: "http://127.0.0.1:" + port, group: cmd.Process.Pid, hosts: hosts}
	s.await(tb)
	return s
}

// register writes a segment and its hosts, which Masakari itself would only do with a Nova.
func register(tb testing.TB, db *sql.DB, hosts []string) {
	tb.Helper()
	segment := uuid.NewString()
	insert := func(statement string, args ...any) {
		tb.Helper()
		if _, err := db.ExecContext(tb.Context(), statement, args...); err != nil {
			tb.Fatal(err)
		}
	}
	insert("INSERT INTO failover_segments (created_at, deleted, uuid, name, service_type, recovery_method, enabled) VALUES (NOW(), 0, ?, 'bench', 'COMPUTE', 'auto', 1)", segment)
	for _, h := range hosts {
		insert("INSERT INTO hosts (created_at, deleted, uuid, name, reserved, type, control_attributes, failover_segment_id, on_maintenance) "+
			"VALUES (NOW(), 0, ?, ?, 0, 'COMPUTE', 'SSH', ?, 0)", uuid.NewString(), h, segment)
	}
}

// vhost makes a virtual host of RabbitMQ for this run, so that nobody else gets the orders.
func vhost(tb testing.TB) string {
	tb.Helper()
	name := "salvor_bench_" + uuid.NewString()[:8]
	run(tb, "rabbitmqctl", "add_vhost", name)
	tb.Cleanup(func() { run(tb, "rabbitmqctl", "delete_vhost", name) })
	run(tb, "rabbitmqctl", "set_permissions", "-p", name, "guest", ".*", ".*", ".*")
	return name
}

func run(tb testing.TB, program string, args ...string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		tb.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}

func write(tb testing.TB, path string, text []byte) {
	tb.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		tb.Fatal(err)
	}
}
