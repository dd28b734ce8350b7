package lab

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql"
)

// admin opens the lab's MariaDB as its root.
func (l *Lab) admin(schema string) (*sql.DB, error) {
	socket, err := os.ReadFile(filepath.Join(l.State, "mysql.socket"))
	if err != nil {
		return nil, err
	}
	return sql.Open("mysql", fmt.Sprintf("root@unix(%s)/%s", strings.TrimSpace(string(socket)), schema))
}

// Database is an empty MariaDB database with an account of its own.
type Database struct {
	URL string // as masakari.conf's [database] connection

	name  string
	admin *sql.DB
}

// NewDatabase makes a database with a random name.
func (l *Lab) NewDatabase(ctx context.Context) (*Database, error) {
	db, err := l.admin("")
	if err != nil {
		return nil, err
	}
	var port int
	if err := db.QueryRowContext(ctx, "SELECT @@port").Scan(&port); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	d := &Database{name: "salvor_" + strings.ToLower(rand.Text()[:12]), admin: db}
	password := rand.Text()
	for _, statement := range []string{
		"CREATE DATABASE %[1]s CHARACTER SET utf8mb3",
		"CREATE USER %[1]s@'127.0.0.1' IDENTIFIED BY '%[2]s'",
		"CREATE USER %[1]s@'localhost' IDENTIFIED BY '%[2]s'",
		"GRANT ALL ON %[1]s.* TO %[1]s@'127.0.0.1'",
		"GRANT ALL ON %[1]s.* TO %[1]s@'localhost'",
	} {
		statement = strings.ReplaceAll(strings.ReplaceAll(statement, "%[1]s", d.name), "%[2]s", password)
		if _, err := db.ExecContext(ctx, statement); err != nil {
			d.Drop(ctx)
			return nil, fmt.Errorf("making the database %s: %w", d.name, err)
		}
	}
	d.URL = fmt.Sprintf("mysql+pymysql://%s:%s@127.0.0.1:%d/%s?charset=utf8", d.name, password, port, d.name)
	return d, nil
}

// Exec runs a statement in the database as the server's root: for what no API lets one do.
func (d *Database) Exec(ctx context.Context, statement string, args ...any) error {
	conn, err := d.admin.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "USE "+d.name); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, statement, args...)
	return err
}

// Drop removes the database and its account.
func (d *Database) Drop(ctx context.Context) error {
	defer d.admin.Close()
	_, err := d.admin.ExecContext(ctx, "DROP DATABASE IF EXISTS "+d.name)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		if _, e := d.admin.ExecContext(ctx, fmt.Sprintf("DROP USER IF EXISTS %s@'%s'", d.name, host)); err == nil {
			err = e
		}
	}
	return err
}

// Rows reads Nova's own rows of servers, without a request to its API: an observer that may look often.
type Rows struct{ db *sql.DB }

// Rows opens the observer.
func (l *Lab) Rows() (*Rows, error) {
	db, err := l.admin("nova")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &Rows{db}, nil
}

func (r *Rows) Close() { r.db.Close() }

// Away counts the servers of a name that are active, without a task, on another host.
func (r *Rows) Away(ctx context.Context, name, host string) (int, error) {
	var n int
	err := r.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM instances WHERE deleted = 0 AND display_name LIKE ? AND
		vm_state = 'active' AND task_state IS NULL AND host <> ?`, name+"%", host).Scan(&n)
	return n, err
}

// Crash makes a server's row what nova-compute leaves of an instance whose process died: stopped by nobody.
func (r *Rows) Crash(ctx context.Context, id string) error {
	_, err := r.db.ExecContext(ctx, `UPDATE instances SET vm_state = 'stopped', power_state = 4, updated_at = ?
		WHERE uuid = ? AND vm_state = 'active'`, time.Now().UTC(), id)
	return err
}
