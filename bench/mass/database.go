package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
)

// database is a MariaDB server of the run's own, with its defaults: what it counts and spends is the run's alone.
type database struct {
	url string // as masakari.conf's [database] connection
	pid int
	db  *sql.DB
}

func startDatabase(tb testing.TB) *database {
	tb.Helper()
	for _, program := range []string{"mariadbd", "mariadb-install-db"} {
		if _, err := exec.LookPath(program); err != nil {
			tb.Skipf("SKIPPED: MariaDB is not installed (mariadb-server): %v", err)
		}
	}
	dir := tb.TempDir()
	data, socket := filepath.Join(dir, "data"), filepath.Join(dir, "socket")
	args := []string{"--no-defaults", "--datadir=" + data}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	install := append(slices.Clone(args), "--auth-root-authentication-method=normal", "--skip-test-db")
	if out, err := exec.CommandContext(tb.Context(), "mariadb-install-db", install...).CombinedOutput(); err != nil {
		tb.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	port := freePort(tb)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close()
	cmd := exec.CommandContext(context.Background(), "mariadbd", append(args, "--bind-address=127.0.0.1", "--socket="+socket,
		fmt.Sprintf("--port=%d", port), "--pid-file="+filepath.Join(dir, "pid"))...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill() // nothing of it is kept
		_ = cmd.Wait()
	})
	d := &database{pid: cmd.Process.Pid, url: fmt.Sprintf("mysql+pymysql://root@127.0.0.1:%d/salvor?charset=utf8mb4", port)}
	if d.db, err = sql.Open("mysql", fmt.Sprintf("root@tcp(127.0.0.1:%d)/", port)); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = d.db.Close() })
	d.db.SetMaxOpenConns(1)
	until(tb, time.Minute, "MariaDB answers", func() bool { return d.db.PingContext(tb.Context()) == nil })
	if _, err := d.db.ExecContext(tb.Context(), "CREATE DATABASE salvor CHARACTER SET utf8mb4"); err != nil {
		tb.Fatal(err)
	}
	return d
}

// questions is how many statements the server was sent.
func (d *database) questions(tb testing.TB) int64 {
	tb.Helper()
	var name string
	var n int64
	if err := d.db.QueryRowContext(tb.Context(), "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n); err != nil {
		tb.Fatal(err)
	}
	return n
}
