package gauge

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// Server is a MariaDB server of the benchmark's own: what it counts and spends is the benchmark's alone.
type Server struct {
	Address string // host:port; root has no password
	PID     int    // also of its process group
	DB      *sql.DB
}

// MariaDB starts a server with the options beside its defaults; it ends, with all data, with the benchmark. It skips where
// none is installed.
func MariaDB(tb testing.TB, options ...string) *Server {
	tb.Helper()
	for _, program := range []string{"mariadbd", "mariadb-install-db"} {
		if _, err := exec.LookPath(program); err != nil {
			tb.Skipf("SKIPPED: MariaDB is not installed (mariadb-server): %v", err)
		}
	}
	dir := tb.TempDir()
	args := []string{"--no-defaults", "--datadir=" + filepath.Join(dir, "data")}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root") // else it refuses to run as root
	}
	install := append(slices.Clone(args), "--auth-root-authentication-method=normal", "--skip-test-db")
	if out, err := exec.CommandContext(tb.Context(), "mariadb-install-db", install...).CombinedOutput(); err != nil {
		tb.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	port := FreePort(tb)
	args = append(args, "--bind-address=127.0.0.1", "--port="+port, "--socket="+filepath.Join(dir, "socket"),
		"--pid-file="+filepath.Join(dir, "pid"), "--log-error="+filepath.Join(dir, "log"))
	cmd := exec.CommandContext(context.WithoutCancel(tb.Context()), "mariadbd", append(args, options...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill() // nothing of it is kept
		_ = cmd.Wait()
	})
	s := &Server{Address: net.JoinHostPort("127.0.0.1", port), PID: cmd.Process.Pid}
	s.DB = Open(tb, "mysql", "root@tcp("+s.Address+")/")
	testkit.Eventually(tb, time.Minute, func() (bool, string) {
		err := s.DB.PingContext(tb.Context())
		return err == nil, fmt.Sprint("MariaDB: ", err)
	})
	return s
}

// Create makes a database and returns its SQLAlchemy URL.
func (s *Server) Create(tb testing.TB, name string) string {
	tb.Helper()
	if _, err := s.DB.ExecContext(tb.Context(), "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		tb.Fatal(err)
	}
	return fmt.Sprintf("mysql+pymysql://root@%s/%s?charset=utf8mb4", s.Address, name)
}

// Open is sql.Open for the benchmark's time.
func Open(tb testing.TB, driver, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// FreePort is a port of loopback on which nobody listens.
func FreePort(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
