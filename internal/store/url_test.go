package store

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

func TestParseURL(t *testing.T) {
	for raw, want := range map[string]target{
		"mysql+pymysql://masakari:s3cret@db:3307/masakari?charset=utf8": {database: mysql, user: "masakari", password: "s3cret", hosts: []string{"db:3307"}, name: "masakari"},
		"mysql://u:p%40ss%2F%25w@db/x":                                  {database: mysql, user: "u", password: "p@ss/%w", hosts: []string{"db:3306"}, name: "x"},
		"mariadb+mariadbconnector://u:a:b/c+d#e@db/x":                   {database: mysql, user: "u", password: "a:b/c+d#e", hosts: []string{"db:3306"}, name: "x"},
		"mysql+pymysql://u:p@h1:3306,h2,[fd00::1]:3308/x":               {database: mysql, user: "u", password: "p", hosts: []string{"h1:3306", "h2:3306", "[fd00::1]:3308"}, name: "x"},
		"mysql+pymysql://root@/x?unix_socket=/run/m.sock":               {database: mysql, user: "root", name: "x"},
		"mysql://u@[::1]/x":                                             {database: mysql, user: "u", hosts: []string{"[::1]:3306"}, name: "x"},
		"postgresql://u:p@pg/x":                                         {database: postgres, user: "u", password: "p", hosts: []string{"pg:5432"}, name: "x"},
		"postgresql+psycopg2://u:p@a:1,b:2/x?sslmode=require":           {database: postgres, user: "u", password: "p", hosts: []string{"a:1", "b:2"}, name: "x"},
		"sqlite://":                {database: sqlite},
		"sqlite:///:memory:":       {database: sqlite},
		"sqlite:///rel/a.db":       {database: sqlite, name: "rel/a.db"},
		"sqlite:////var/lib/a.db":  {database: sqlite, name: "/var/lib/a.db"},
		" mysql://u:p@db:3306/x  ": {database: mysql, user: "u", password: "p", hosts: []string{"db:3306"}, name: "x"},
	} {
		got, err := parseURL(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		got.query = nil
		if d := cmp.Diff(want, got, cmp.AllowUnexported(target{})); d != "" {
			t.Errorf("%s:\n%s", raw, d)
		}
	}
}

// No error shows the password, whatever is wrong with the URL or behind it.
func TestErrorsKeepThePassword(t *testing.T) {
	for _, raw := range []string{
		"", "hunter2", "mysql:u:hunter2@db/x", "oracle://u:hunter2@db/x", "mysql://u:hunter2%zz@db/x", "mysql://u%zz:hunter2@db/x", "mysql://u:hunter2@db",
		"mysql://u:hunter2@db/x?a=%zz", "sqlite://u:hunter2@host/x", "mysql://u:hunter2@,/x", "postgresql://u:hunter2@db:port/x",
		"postgresql://u:hunter2@db/x?sslmode=bogus", "mysql://u:hunter2@db/x?ssl_ca=/nonexistent",
		"mysql://u:hunter2@127.0.0.1:1/x", "postgresql://u:hunter2@127.0.0.1:1/x", "postgresql://u:hunter2@127.0.0.1:1,127.0.0.1:2/x",
		"mysql://u:hunter2@127.0.0.1:3306/x", "postgresql://nobody:hunter2@127.0.0.1:5432/no_such_database?sslmode=disable",
		"sqlite:////nonexistent/directory/hunter3.db",
	} {
		s, err := Open(t.Context(), Config{URL: raw})
		if err == nil {
			s.Close()
			t.Errorf("%s was opened", raw)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows the password: %v", raw, err)
		}
	}
}

// What does not answer is temporary trouble: the caller may try again.
func TestOpenUnreachable(t *testing.T) {
	for _, raw := range []string{"mysql://u:p@127.0.0.1:1/x", "postgresql://u:p@127.0.0.1:1/x"} {
		_, err := Open(t.Context(), Config{URL: raw})
		var away *ha.UnavailableError
		if !errors.As(err, &away) || !strings.Contains(err.Error(), "127.0.0.1:1") {
			t.Errorf("%s: %v, want an UnavailableError that names the host", raw, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, Config{URL: "postgresql://u:p@127.0.0.1:1/x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}
