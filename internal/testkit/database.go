package testkit

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the servers' drivers
	_ "github.com/jackc/pgx/v5/stdlib"
)

// Where the test servers are, unless the environment says otherwise.
const (
	mariadbAddress  = "127.0.0.1:3306"
	postgresAddress = "127.0.0.1:5432"
)

// MariaDB makes a database of the test's own and returns its SQLAlchemy URL; the test is skipped, by name, where there is no
// server (SALVOR_TEST_MARIADB: another address).
func MariaDB(tb testing.TB) string {
	tb.Helper()
	address := env("SALVOR_TEST_MARIADB", mariadbAddress)
	name := create(tb, "MariaDB", "mysql", "root@tcp("+address+")/", func(name string) (string, string) {
		return "CREATE DATABASE " + name + " CHARACTER SET utf8mb4", "DROP DATABASE " + name
	})
	return fmt.Sprintf("mysql+pymysql://root@%s/%s?charset=utf8mb4", address, name)
}

// Postgres makes a database of the test's own and returns its SQLAlchemy URL; the test is skipped, by name, where there is no
// server (SALVOR_TEST_POSTGRES: another address).
func Postgres(tb testing.TB) string {
	tb.Helper()
	address := env("SALVOR_TEST_POSTGRES", postgresAddress)
	name := create(tb, "PostgreSQL", "pgx", "postgres://postgres@"+address+"/postgres?sslmode=disable", func(name string) (string, string) {
		return "CREATE DATABASE " + name, "DROP DATABASE " + name + " WITH (FORCE)"
	})
	return fmt.Sprintf("postgresql://postgres@%s/%s", address, name)
}

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

func create(tb testing.TB, server, driver, dsn string, statements func(name string) (create, drop string)) string {
	tb.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := db.PingContext(ctx); err != nil {
		_ = db.Close()
		if ctx.Err() != nil { // it is there, so nothing may be skipped
			tb.Fatalf("%s takes more than a minute to answer: %v", server, err)
		}
		tb.Skipf("SKIPPED: no %s server answers: %v", server, err)
	}
	random := make([]byte, 6)
	_, _ = rand.Read(random)
	name := "salvor_" + hex.EncodeToString(random)
	up, down := statements(name)
	if _, err := db.ExecContext(ctx, up); err != nil {
		_ = db.Close()
		tb.Fatalf("%s: %s: %v", server, up, err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if _, err := db.ExecContext(ctx, down); err != nil {
			tb.Errorf("%s: %s: %v", server, down, err)
		}
		_ = db.Close()
	})
	return name
}
