package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestDatabaseURLs(t *testing.T) {
	tests := map[string]DatabaseURL{
		"sqlite:////var/lib/salvor/masakari.sqlite": {Dialect: "sqlite", Path: "/var/lib/salvor/masakari.sqlite"},
		"sqlite:///masakari.sqlite":                 {Dialect: "sqlite", Path: "masakari.sqlite"},
		"sqlite://":                                 {Dialect: "sqlite"},
		"sqlite:///:memory:":                        {Dialect: "sqlite"},
		"mysql+pymysql://masakari:p%40ss/w?rd@db:3307/masakari?charset=utf8": {Dialect: "mysql", User: "masakari",
			Password: NewSecret("p@ss/w?rd"), Hosts: []string{"db:3307"}, Name: "masakari", Query: map[string][]string{"charset": {"utf8"}}},
		"mariadb://u:100%@[::1]/d": {Dialect: "mysql", User: "u", Password: NewSecret("100%"), Hosts: []string{"[::1]:3306"}, Name: "d"},
		"mysql://u@/d?unix_socket=/run/mysqld/mysqld.sock": {Dialect: "mysql", User: "u", Name: "d", Socket: "/run/mysqld/mysqld.sock",
			Query: map[string][]string{"unix_socket": {"/run/mysqld/mysqld.sock"}}},
		"mysql://u:p@h:/d":                  {Dialect: "mysql", User: "u", Password: NewSecret("p"), Hosts: []string{"h:3306"}, Name: "d"},
		"mysql://u:p@a,b:3310,c/d":          {Dialect: "mysql", User: "u", Password: NewSecret("p"), Hosts: []string{"a:3306", "b:3310", "c:3306"}, Name: "d"},
		"postgresql+psycopg2://u:p@h/d":     {Dialect: "postgresql", User: "u", Password: NewSecret("p"), Hosts: []string{"h:5432"}, Name: "d"},
		"postgres://h/d?options=user@realm": {Dialect: "postgresql", Hosts: []string{"h:5432"}, Name: "d", Query: map[string][]string{"options": {"user@realm"}}},
	}
	for text, want := range tests {
		got, err := ParseDatabaseURL(NewSecret(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", text, diff)
		}
	}
}

func TestTransportURLs(t *testing.T) {
	tests := map[string]TransportURL{
		"rabbit://": {VHost: "/", Nodes: []TransportNode{{Address: "localhost:5672", User: "guest", Password: NewSecret("guest")}}},
		"rabbit://u:p%23@a:5671,v:q@b/os%2Fha?ssl=1": {VHost: "os/ha", Query: map[string][]string{"ssl": {"1"}}, Nodes: []TransportNode{
			{Address: "a:5671", User: "u", Password: NewSecret("p#")}, {Address: "b:5672", User: "v", Password: NewSecret("q")}}},
		"rabbit://u:p@h1:1,,u:p@h2:,": {VHost: "/", Nodes: []TransportNode{
			{Address: "h1:1", User: "u", Password: NewSecret("p")}, {Address: "h2:5672", User: "u", Password: NewSecret("p")}}},
		"rabbit://,": {VHost: "/", Nodes: []TransportNode{{Address: "localhost:5672", User: "guest", Password: NewSecret("guest")}}},
		"kombu+rabbit://u:p#q@h?ssl&rabbit_ha_queues=1#x": {VHost: "/", Query: map[string][]string{"rabbit_ha_queues": {"1"}},
			Nodes: []TransportNode{{Address: "h:5672", User: "u", Password: NewSecret("p#q")}}},
		"rabbit://h/vhost#frag?ssl=1":   {VHost: "vhost", Nodes: []TransportNode{{Address: "h:5672", User: "guest", Password: NewSecret("guest")}}},
		"rabbit://u:p@[fd00::1]:5673//": {VHost: "/", Nodes: []TransportNode{{Address: "[fd00::1]:5673", User: "u", Password: NewSecret("p")}}},
	}
	for text, want := range tests {
		want.Scheme = "rabbit"
		got, err := ParseTransportURL(NewSecret(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", text, diff)
		}
	}
}
