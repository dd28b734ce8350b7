package cli

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/app"
)

func simCommand(env Env) *cobra.Command {
	o := app.SimOptions{}
	cmd := &cobra.Command{
		Use:     "sim",
		GroupID: groupTry,
		Args:    cobra.NoArgs,
		Short:   "Run a simulated cloud",
		Long: `Runs a cloud in memory that behaves as a real Nova was observed to: Keystone, Nova, Placement and
BMCs over HTTP. It prints the masakari.conf that points salvor at it, with a database of its own, and how
to go on. Hosts are killed, and faults injected, below /sim: docs/guide.md, Rehearse in a simulated cloud, has every kind, and a
fencing_file for its BMCs (Redfish at the same address, the system's id is the host's name, account admin, password secret).`,
		Example: `  salvor sim --hosts 6 --instances 24 > sim.conf &
  salvor serve --config-file sim.conf
  curl -X POST http://127.0.0.1:18774/sim/hosts/host-1/kill     the host loses power
  curl -X POST http://127.0.0.1:18774/sim/hosts/host-1/revive
  curl -X POST http://127.0.0.1:18774/sim/faults -d '{"method": "POST", "action": "evacuate", "status": 503, "times": 2}'
  curl -X POST http://127.0.0.1:18774/sim/hosts/host-1/bmc -d '{"dark": true}'
  curl -s http://127.0.0.1:18774/sim/state                      what is true, not what Nova believes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Log = plainLog(env.Stderr)
			if o.Hosts < 0 || o.Instances < 0 || o.PageLimit < 0 || o.Capacity < 0 {
				return usagef("--hosts, --instances, --page-limit and --capacity are not negative")
			}
			if !(o.Scale >= 0.001 && o.Scale <= 1000) { // also not NaN
				return usagef("--scale %v: expected a number from 0.001 to 1000", o.Scale)
			}
			if o.Rate != 0 && !(o.Rate >= 0.001 && o.Rate <= 1e6) {
				return usagef("--rate %v: expected evacuations a second, from 0.001 to 1000000, or 0 for any number", o.Rate)
			}
			if u, err := url.Parse(o.API); o.API != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
				return usagef("--api %q: expected the URL of salvor's api, such as %s/v1", o.API, defaultURL)
			}
			if o.Hosts == 0 && o.Instances > 0 {
				return usagef("--instances needs --hosts")
			}
			a, err := app.Sim(cmd.Context(), o)
			if err != nil {
				return err
			}
			fmt.Fprint(cmd.OutOrStdout(), simText(o, a.URL(), time.Now()))
			return run(cmd, a)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", "127.0.0.1:18774", "HOST:PORT to listen on; port 0 is any free one")
	f.StringVar(&o.API, "api", defaultURL+"/v1", "salvor's URL in Keystone's catalog, where clients look for it")
	f.IntVar(&o.Hosts, "hosts", 6, "hypervisors, host-1 and so on")
	f.IntVar(&o.Instances, "instances", 24, "instances, spread over the hosts")
	f.Uint64Var(&o.Seed, "seed", 1, "of everything that is random")
	f.IntVar(&o.PageLimit, "page-limit", 0, "longest page of a list (default 1000, as Nova's max_limit)")
	f.Float64Var(&o.Scale, "scale", 1, "of every duration: 0.1 makes the cloud ten times as fast")
	f.IntVar(&o.Capacity, "capacity", 0, "instances that a host can hold (default: any number)")
	f.Float64Var(&o.Rate, "rate", 0, "evacuations a second that the whole cloud carries out (default: any number)")
	return cmd
}

// simText is a masakari.conf for the simulated cloud, and in comments what to paste into a shell. The database is a new one
// at each start: rows of an earlier cloud would not fit this one.
func simText(o app.SimOptions, cloud string, now time.Time) string {
	conf := app.SimConfig(cloud)
	if u, err := url.Parse(o.API); err == nil && u.Port() != "" { // salvor listens where the catalog says that it does
		conf = "[DEFAULT]\nmasakari_api_listen_port = " + u.Port() + "\n" + strings.TrimPrefix(conf, "[DEFAULT]\n")
	}
	database := filepath.Join(os.TempDir(), fmt.Sprintf("salvor-sim-%d.sqlite", now.UnixMilli()))
	return fmt.Sprintf(`# a simulated cloud: %d hosts, %d instances
%s
[database]
connection = sqlite:///%s

# With this text in sim.conf, in a second terminal:
#   salvor serve --config-file sim.conf
# In a third:
#   export OS_AUTH_URL=%[5]s/v3 OS_USERNAME=admin OS_PASSWORD=secret OS_PROJECT_NAME=admin
#   export OS_USER_DOMAIN_NAME=Default OS_PROJECT_DOMAIN_NAME=Default
#   # clients, openstack's too, find the api in Keystone's catalog: instance-ha at %[6]s (salvor sim --api URL)
#   salvor segment create rack
#   for i in $(seq %[1]d); do salvor host create host-$i --segment rack >/dev/null; done
#   curl -s -X POST %[5]s/sim/hosts/host-1/kill
#   salvor notification create COMPUTE_HOST host-1 event=STOPPED host_status=NORMAL cluster_status=OFFLINE
#   salvor recovery watch host-1
# `, o.Hosts, o.Instances, conf, database, cloud, o.API)
}
