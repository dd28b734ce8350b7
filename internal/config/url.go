package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// DatabaseURL is [database] connection, taken apart.
type DatabaseURL struct {
	Dialect  string   // sqlite, mysql or postgresql; mariadb is mysql
	Path     string   // sqlite: the file, "" for one in memory
	Hosts    []string // host:port, the first to be tried first; empty with Socket
	Socket   string   // unix_socket of mysql
	User     string
	Password Secret
	Name     string // of the database
	Query    url.Values
}

var defaultPorts = map[string]string{"mysql": "3306", "postgresql": "5432"}

// ParseDatabaseURL takes a SQLAlchemy URL apart. Drivers behind a + do not matter here. An error says nothing of the
// password.
func ParseDatabaseURL(s Secret) (DatabaseURL, error) {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(s.Reveal()), "://")
	if !ok {
		return DatabaseURL{}, errors.New("[database] connection is no URL: expected DIALECT://USER:PASSWORD@HOST/DATABASE")
	}
	var d DatabaseURL
	dialect, _, _ := strings.Cut(strings.ToLower(scheme), "+")
	switch dialect {
	case "sqlite":
		d.Dialect = "sqlite"
	case "mysql", "mariadb":
		d.Dialect = "mysql"
	case "postgresql", "postgres":
		d.Dialect = "postgresql"
	default:
		return DatabaseURL{}, fmt.Errorf("[database] connection: no dialect %q: expected mysql, postgresql or sqlite", dialect)
	}
	if d.Dialect == "sqlite" {
		// sqlite:///relative, sqlite:////absolute, sqlite:// in memory.
		path, query, _ := strings.Cut(rest, "?")
		d.Path = strings.TrimPrefix(path, "/")
		if d.Path == ":memory:" {
			d.Path = ""
		}
		err := d.readQuery(query)
		return d, err
	}
	err := d.readServer(rest)
	return d, err
}

func (d *DatabaseURL) readQuery(query string) error {
	var err error
	if d.Query, err = url.ParseQuery(query); err != nil {
		return errors.New("[database] connection: what stands behind the ? cannot be read")
	}
	return nil
}

// account is SQLAlchemy's own pattern: a password may hold anything but @.
var account = regexp.MustCompile(`^([^:/]*)(?::([^@]*))?@(.*)$`)

func (d *DatabaseURL) readServer(rest string) error {
	if m := account.FindStringSubmatch(rest); m != nil {
		d.User, d.Password, rest = percentDecode(m[1]), NewSecret(percentDecode(m[2])), m[3]
	}
	rest, query, _ := strings.Cut(rest, "?")
	if err := d.readQuery(query); err != nil {
		return err
	}
	hosts, name, _ := strings.Cut(rest, "/")
	if d.Name = percentDecode(name); d.Name == "" {
		return errors.New("[database] connection names no database: expected …@HOST/DATABASE")
	}
	if d.Socket = d.Query.Get("unix_socket"); d.Socket != "" {
		return nil
	}
	var err error
	if d.Hosts, err = hostList(hosts, defaultPorts[d.Dialect]); err != nil {
		return fmt.Errorf("[database] connection: %w", err)
	}
	return nil
}

// percentDecode decodes as Python's unquote does: what is no escape stays.
func percentDecode(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func hostList(text, port string) ([]string, error) {
	var all []string
	for h := range strings.SplitSeq(text, ",") {
		hp, err := withPort(strings.TrimSpace(h), port)
		if err != nil {
			return nil, err
		}
		all = append(all, hp)
	}
	return all, nil
}

// withPort returns host:port for host, host:port, [address] or [address]:port.
func withPort(h, port string) (string, error) {
	host := h
	if at := strings.LastIndexByte(h, ':'); at > strings.LastIndexByte(h, ']') {
		host = h[:at]
		if given := h[at+1:]; given != "" {
			port = given
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 { // not told: it may be what stands before a / in a password
			return "", errors.New("what stands for a port is no number from 1 to 65535; in a password write %2F for / and %40 for @")
		}
	}
	host = strings.Trim(host, "[]")
	if host == "" {
		host = "localhost"
	}
	return net.JoinHostPort(host, port), nil
}

// TransportURL is an oslo.messaging URL, taken apart.
type TransportURL struct {
	Scheme string // rabbit for its aliases kombu and amqp too
	Nodes  []TransportNode
	VHost  string // "/" by default
	Query  url.Values
}

// TransportNode is one RabbitMQ of a cluster.
type TransportNode struct {
	Address  string // host:port
	User     string
	Password Secret
}

// ParseTransportURL takes rabbit://USER:PASSWORD@HOST:PORT,USER:PASSWORD@HOST:PORT/VHOST apart. As in oslo.messaging, a
// node without an account has guest's, and a missing host is localhost. An error says nothing of the passwords.
func ParseTransportURL(s Secret) (TransportURL, error) {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(s.Reveal()), "://")
	if !ok {
		return TransportURL{}, errors.New("transport_url is no URL: expected rabbit://USER:PASSWORD@HOST:PORT/VHOST")
	}
	switch strings.TrimPrefix(scheme, "kombu+") {
	case "rabbit", "kombu", "amqp", "amqps":
	default:
		return TransportURL{}, fmt.Errorf("transport_url: salvor speaks to RabbitMQ only, not %q: expected rabbit://", scheme)
	}
	t := TransportURL{Scheme: "rabbit", VHost: "/"}
	nodes, rest := rest[:beforeAny(rest, "/?")], rest[beforeAny(rest, "/?"):]
	rest, _, _ = strings.Cut(rest, "#") // says nothing; in a password it may stand
	rest, query, _ := strings.Cut(rest, "?")
	var err error
	if t.Query, err = url.ParseQuery(query); err != nil {
		return TransportURL{}, errors.New("transport_url: what stands behind the ? cannot be read")
	}
	maps.DeleteFunc(t.Query, func(_ string, values []string) bool { return strings.Join(values, "") == "" }) // ?ssl alone sets nothing
	if vhost := strings.TrimPrefix(rest, "/"); vhost != "" {
		t.VHost = percentDecode(vhost)
	}
	if nodes = strings.Trim(nodes, ","); nodes == "" {
		nodes = "localhost"
	}
	for text := range strings.SplitSeq(nodes, ",") {
		if text == "" {
			continue
		}
		n, err := transportNode(text)
		if err != nil {
			return TransportURL{}, fmt.Errorf("transport_url: %w", err)
		}
		t.Nodes = append(t.Nodes, n)
	}
	return t, nil
}

// beforeAny is how much of s stands before the first of the characters.
func beforeAny(s, characters string) int {
	if at := strings.IndexAny(s, characters); at >= 0 {
		return at
	}
	return len(s)
}

// With is r with what the query of a transport_url sets, as in oslo.messaging.
func (r Rabbit) With(query url.Values) (Rabbit, error) {
	flags := map[string]*bool{"ssl": &r.SSL, "ssl_enforce_hostname_verification": &r.VerifyHostname, "amqp_durable_queues": &r.Durable,
		"amqp_auto_delete": &r.AutoDelete, "rabbit_ha_queues": &r.HAQueues, "rabbit_quorum_queue": &r.Quorum}
	files := map[string]*string{"ssl_ca_file": &r.CAFile, "ssl_cert_file": &r.CertFile, "ssl_key_file": &r.KeyFile}
	for name, values := range query {
		if file := files[name]; file != nil {
			*file = values[len(values)-1]
		}
		if flag := flags[name]; flag != nil {
			v, err := boolean().parse(values)
			if err != nil {
				return r, fmt.Errorf("transport_url: %s: %w", name, err)
			}
			*flag = v
		}
	}
	return r, nil
}

func transportNode(text string) (TransportNode, error) {
	n := TransportNode{User: "guest", Password: NewSecret("guest")}
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		user, password, _ := strings.Cut(text[:at], ":")
		n.User, n.Password = percentDecode(user), NewSecret(percentDecode(password))
		text = text[at+1:]
	}
	var err error
	n.Address, err = withPort(strings.TrimSpace(text), "5672")
	return n, err
}
