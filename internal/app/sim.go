package app

import (
	"context"
	"log/slog"
	"strings"

	"github.com/salvor-ha/salvor/internal/sim"
	"github.com/salvor-ha/salvor/internal/sim/simhttp"
)

// SimOptions shape a simulated cloud. Zero values mean the simulator's defaults, but Hosts and Instances are taken as they are.
type SimOptions struct {
	Listen    string // HOST:PORT; port 0 takes a free one
	API       string // salvor's URL, as Keystone's catalog is to have it; "": it does not
	Hosts     int    // host-1 … host-N
	Instances int    // spread over the hosts in turn
	Seed      uint64
	PageLimit int     // longest page of a list
	Scale     float64 // of every duration: 0.1 is ten times as fast
	Capacity  int     // instances that a host can hold
	Rate      float64 // evacuations a second that the whole cloud carries out; 0: no limit
	Log       *slog.Logger
}

// Sim is a simulated cloud that listens: Keystone, Nova, Placement and BMCs, and /sim to kill hosts with.
func Sim(ctx context.Context, o SimOptions) (*App, error) {
	hosts := o.Hosts
	if hosts == 0 {
		hosts = -1 // there, 0 is the default number
	}
	l, err := openListener(ctx, o.Listen)
	if err != nil {
		return nil, err
	}
	cloud := sim.New(sim.Options{
		Seed: o.Seed, Hosts: hosts, Instances: o.Instances, Scale: o.Scale, Capacity: o.Capacity, Rate: o.Rate,
	})
	server := simhttp.New(cloud, simhttp.Options{PageLimit: o.PageLimit, HA: o.API})
	a := &App{log: o.Log, url: "http://" + l.Addr().String()}
	a.closing(func() error { return closeListener(l) })
	a.closing(func() error { server.Close(); cloud.Close(); return nil })
	a.parts = []part{{"simulated cloud", func(ctx context.Context) error { return server.Serve(ctx, l) }}}
	return a, nil
}

// SimConfig is the part of masakari.conf that points salvor at a simulated cloud. nova_report_interval is the simulator's.
func SimConfig(url string) string {
	return strings.ReplaceAll(simConfig, "URL", url)
}

const simConfig = `[DEFAULT]
masakari_api_listen = 127.0.0.1
os_privileged_user_auth_url = URL/v3
os_privileged_user_name = masakari
os_privileged_user_password = secret
os_privileged_user_tenant = service
os_user_domain_name = Default
os_project_domain_name = Default

[keystone_authtoken]
auth_url = URL/v3
username = masakari
password = secret
project_name = service
user_domain_name = Default
project_domain_name = Default

[salvor]
nova_report_interval = 2
`
