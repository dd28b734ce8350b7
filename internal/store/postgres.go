package store

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// postgresNodes returns a connector for each host of t.
func postgresNodes(t target, c Config) (*nodes, error) {
	hosts := t.hosts
	if len(hosts) == 0 { // …/db?host=/var/run/postgresql
		hosts = []string{net.JoinHostPort(t.query.Get("host"), "5432")}
	}
	n := &nodes{}
	for _, hp := range hosts {
		cfg, err := postgresConfig(t, hp, c)
		if err != nil {
			return nil, err
		}
		if len(hosts) > 1 { // of several, only the one that takes writes will do
			cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
		}
		n.all = append(n.all, pgConnector{cfg})
		n.names = append(n.names, hp)
	}
	return n, nil
}

func postgresConfig(t target, hostport string, c Config) (*pgconn.Config, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, errURL
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("database %s: its port is no number", t.where())
	}
	// Everything is spelled out, so that neither PG* variables nor ~/.pgpass decide; the password is set apart, so that
	// no error of the parser can show it.
	dsn := []string{"host=" + quoteDSN(host), "port=" + port, "user=" + quoteDSN(t.user), "dbname=" + quoteDSN(t.name), "password=x"}
	for _, k := range []string{"sslmode", "sslrootcert", "sslcert", "sslkey"} {
		if v := t.query.Get(k); v != "" {
			dsn = append(dsn, k+"="+quoteDSN(v))
		}
	}
	cfg, err := pgconn.ParseConfig(strings.Join(dsn, " "))
	if err != nil {
		return nil, fmt.Errorf("database %s: its parameters cannot be used (sslmode, sslrootcert, sslcert, sslkey): %w", t.where(), err)
	}
	cfg.Host, cfg.Port, cfg.Password = host, uint16(number), t.password
	for _, f := range cfg.Fallbacks {
		f.Host, f.Port = host, uint16(number)
	}
	cfg.ConnectTimeout = dialTimeout
	for k, v := range map[string]string{
		"application_name":              "salvor",
		"standard_conforming_strings":   "on", // how bun quotes
		"client_encoding":               "UTF8",
		"timezone":                      "UTC",
		"datestyle":                     "ISO",
		"lock_timeout":                  strconv.FormatInt(max(c.LockWait, time.Second).Milliseconds(), 10),
		"default_transaction_isolation": "read committed",

		"idle_in_transaction_session_timeout": strconv.FormatInt(idleInTransaction.Milliseconds(), 10),
	} {
		cfg.RuntimeParams[k] = v
	}
	if options := t.query.Get("options"); options != "" { // as psycopg2 takes it: -csearch_path=…
		cfg.RuntimeParams["options"] = options
	}
	return cfg, nil
}

func quoteDSN(v string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v) + "'"
}
