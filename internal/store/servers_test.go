package store_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/store/storetest"
)

// A server makes databases for tests; each has a random name and is dropped at the end.
type server struct {
	name string
	// run carries out statements as the server's administrator.
	run func(ctx context.Context, statements ...string) error
	url func(database string) string
}

// mariadbSocket is where Debian's MariaDB listens for root; SALVOR_TEST_MARIADB is the address of another one.
const mariadbSocket = "/run/mysqld/mysqld.sock"

// Where the servers listen, as scripts/servers says.
var (
	mariadbAddress  = cmp.Or(os.Getenv("SALVOR_TEST_MARIADB"), "127.0.0.1:3306")
	postgresAddress = cmp.Or(os.Getenv("SALVOR_TEST_POSTGRES"), "127.0.0.1:5432")
)

// databaseOf is the name of the database that a URL of mariadb's leads to.
func databaseOf(url string) string {
	url, _, _ = strings.Cut(url, "?")
	return url[strings.LastIndexByte(url, '/')+1:]
}

var mariadb = server{
	name: "MariaDB",
	run: func(ctx context.Context, statements ...string) error {
		cfg := mysql.NewConfig()
		cfg.User, cfg.Net, cfg.Addr = "root", "unix", mariadbSocket
		if other := os.Getenv("SALVOR_TEST_MARIADB"); other != "" {
			cfg.Net, cfg.Addr = "tcp", other
		}
		c, err := mysql.NewConnector(cfg)
		if err != nil {
			return err
		}
		db := sql.OpenDB(c)
		defer db.Close()
		for _, s := range statements {
			if _, err := db.ExecContext(ctx, s); err != nil {
				return err
			}
		}
		return nil
	},
	url: func(database string) string {
		if other := os.Getenv("SALVOR_TEST_MARIADB"); other != "" {
			return "mysql+pymysql://root@" + other + "/" + database + "?charset=utf8"
		}
		return "mysql+pymysql://root@/" + database + "?charset=utf8&unix_socket=" + url.QueryEscape(mariadbSocket)
	},
}

var postgres = server{
	name: "PostgreSQL",
	run: func(ctx context.Context, statements ...string) error {
		return postgresRun(ctx, "postgres", statements...)
	},
	url: func(database string) string {
		return "postgresql+psycopg2://postgres:ignored@" + postgresAddress + "/" + database + "?sslmode=disable"
	},
}

func postgresRun(ctx context.Context, database string, statements ...string) error {
	c, err := pgconn.Connect(ctx, "postgres://postgres@"+postgresAddress+"/"+database+"?sslmode=disable")
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	for _, s := range statements {
		if _, err := c.Exec(ctx, s).ReadAll(); err != nil {
			return err
		}
	}
	return nil
}

func randomName() string { return fmt.Sprintf("salvor_test_%d_%08x", os.Getpid(), rand.Uint32()) }

// database makes an empty database and returns its URL. Without the server the test is skipped, loudly; with
// SALVOR_TEST_ALL set, it fails.
func (s server) database(t testing.TB) string {
	t.Helper()
	name := randomName()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.run(ctx, "CREATE DATABASE "+name); err != nil {
		if os.Getenv("SALVOR_TEST_ALL") != "" {
			t.Fatalf("no %s: %v", s.name, err)
		}
		t.Skipf("SKIPPED: no %s server on this machine: %v", s.name, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := s.run(ctx, "DROP DATABASE "+name); err != nil {
			t.Errorf("database %s is left behind: %v", name, err)
		}
	})
	return s.url(name)
}

func TestMariaDB(t *testing.T) {
	t.Parallel()
	mariadb.database(t) // skips the whole suite, by its name
	storetest.Run(t, func(t *testing.T) storetest.Open { return opener(t, mariadb.database(t)) })
}

// TestPostgreSQL gives each test a schema of its own in one database: to make a database takes PostgreSQL a second.
func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	url := postgres.database(t)
	database := strings.TrimSuffix(url[strings.LastIndexByte(url, '/')+1:], "?sslmode=disable")
	storetest.Run(t, func(t *testing.T) storetest.Open {
		schema := randomName()
		if err := postgresRun(t.Context(), database, "CREATE SCHEMA "+schema); err != nil {
			t.Fatal(err)
		}
		return opener(t, url+"&options=-csearch_path%3D"+schema)
	})
}

// servers runs a test on each database that this machine has.
func servers(t *testing.T, run func(t *testing.T, url string, open func(*testing.T, store.Config) *store.Store)) {
	t.Helper()
	for name, url := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:///" + t.TempDir() + "/salvor.sqlite" },
		"MariaDB":    func(t *testing.T) string { return mariadb.database(t) },
		"PostgreSQL": func(t *testing.T) string { return postgres.database(t) },
	} {
		t.Run(name, func(t *testing.T) { run(t, url(t), open) })
	}
}
