package store

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
)

// Databases that a URL can name.
const (
	sqlite   = "sqlite"
	mysql    = "mysql"
	postgres = "postgresql"
)

// target is a SQLAlchemy URL, taken apart.
type target struct {
	database string // sqlite, mysql or postgresql
	user     string
	password string
	hosts    []string // host:port, tried in this order; empty for a socket or a file
	name     string   // the database's name; SQLite: the file, "" in memory
	query    url.Values
}

// sqlalchemyURL follows SQLAlchemy's own pattern: a password may hold anything but "@", percent-encoded or not, which
// net/url would refuse. Several hosts are ours.
var sqlalchemyURL = regexp.MustCompile(
	`^([\w.+-]+)://(?:([^:/@]*)(?::([^@]*))?@)?([^/?]*)(?:/([^?]*))?(?:\?(.*))?$`)

var errURL = errors.New("the database URL cannot be read: it looks like mysql+pymysql://user:password@host/database, " +
	"postgresql://user:password@host/database or sqlite:////path/to/file ([database] connection)")

// parseURL reads a SQLAlchemy URL. Its errors never show the URL, which holds a password.
func parseURL(raw string) (target, error) {
	m := sqlalchemyURL.FindStringSubmatch(strings.TrimSpace(raw))
	if m == nil {
		return target{}, errURL
	}
	var t target
	var err error
	scheme, _, _ := strings.Cut(strings.ToLower(m[1]), "+")
	switch scheme {
	case "sqlite":
		t.database = sqlite
	case "mysql", "mariadb":
		t.database = mysql
	case "postgresql", "postgres":
		t.database = postgres
	default:
		return target{}, fmt.Errorf("database %q is not supported: use mysql, mariadb, postgresql or sqlite ([database] connection)", scheme)
	}
	if t.user, err = url.PathUnescape(m[2]); err != nil {
		return target{}, errors.New("the user in the database URL is not percent-encoded rightly ([database] connection)")
	}
	if t.password, err = url.PathUnescape(m[3]); err != nil {
		return target{}, errors.New("the password in the database URL is not percent-encoded rightly: write % as %25 ([database] connection)")
	}
	if t.query, err = url.ParseQuery(m[6]); err != nil {
		return target{}, errors.New("the parameters of the database URL cannot be read ([database] connection)")
	}
	if t.database == sqlite {
		if m[4] != "" {
			return target{}, errors.New("a sqlite URL names no host: sqlite:///relative/path or sqlite:////absolute/path ([database] connection)")
		}
		if t.name = m[5]; t.name == ":memory:" {
			t.name = ""
		}
		return t, nil
	}
	if t.name, err = url.PathUnescape(m[5]); err != nil || t.name == "" {
		return target{}, errors.New("the database URL names no database: …@host/salvor ([database] connection)")
	}
	if err := t.readHosts(m[4]); err != nil {
		return target{}, err
	}
	return t, nil
}

func (t *target) readHosts(list string) error {
	port := "3306"
	if t.database == postgres {
		port = "5432"
	}
	if list == "" {
		if t.query.Get("unix_socket") == "" && t.query.Get("host") == "" {
			t.hosts = []string{net.JoinHostPort("localhost", port)}
		}
		return nil
	}
	for h := range strings.SplitSeq(list, ",") {
		host, p, err := net.SplitHostPort(h)
		if err != nil {
			host, p = strings.Trim(h, "[]"), ""
		}
		if p == "" {
			p = port
		}
		if host == "" {
			return errors.New("a host in the database URL has no name ([database] connection)")
		}
		t.hosts = append(t.hosts, net.JoinHostPort(host, p))
	}
	return nil
}

// where names the database for people: no user, no password.
func (t target) where() string {
	switch {
	case t.database == sqlite && t.name == "":
		return "sqlite in memory"
	case t.database == sqlite:
		return "sqlite " + t.name
	case len(t.hosts) == 0:
		return t.database + " " + t.name + " over a socket"
	default:
		return t.database + " " + t.name + " at " + strings.Join(t.hosts, ",")
	}
}
