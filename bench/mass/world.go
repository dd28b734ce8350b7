package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/bench/internal/gauge"
	"github.com/salvor-ha/salvor/internal/testkit"
)

// world is a simulated cloud, a database, apis and engines, each a process of its own.
type world struct {
	tb      testing.TB
	o       options
	db      *gauge.Server
	sim     string
	simPID  int
	apis    []*testkit.Process
	urls    []string // of the apis
	engines []engine
	victims []string // in the order in which they die
}

type engine struct {
	process *testkit.Process
	metrics string // URL
}

func newWorld(tb testing.TB, o options, brake bool) *world {
	tb.Helper()
	w := &world{tb: tb, o: o, db: gauge.MariaDB(tb)}
	sim := testkit.Start(tb, "sim", "sim", "--listen", "127.0.0.1:0", "--hosts", fmt.Sprint(2*o.hosts), "--instances", "0", "--rate", fmt.Sprint(o.rate))
	w.sim, w.simPID = sim.URL(tb), sim.PID()
	percent := 0
	if brake {
		percent = brakePercent
	}
	conf := w.write("masakari.conf", fmt.Sprintf(`[DEFAULT]
auth_strategy = noauth2
state_path = %[1]s
os_privileged_user_auth_url = %[2]s/v3
os_privileged_user_name = masakari
os_privileged_user_password = secret
os_privileged_user_tenant = service

[database]
connection = %[3]s

[salvor]
nova_report_interval = 2
brake_percent = %[4]d
host_recovery_rate = 0
`, tb.TempDir(), w.sim, w.db.Create(tb, "salvor"), percent))
	if code := testkit.Start(tb, "db sync", "db", "sync", "--config-file", conf).Ended(tb, patience); code != 0 {
		tb.Fatalf("salvor db sync: exit status %d", code)
	}
	for i := range o.apis {
		p := testkit.Start(tb, fmt.Sprintf("api-%d", i+1), "api", "--config-file", conf, "--listen", "127.0.0.1:0")
		w.apis, w.urls = append(w.apis, p), append(w.urls, p.URL(tb))
	}
	w.register()
	for i := range o.engines {
		name := fmt.Sprintf("engine-%d", i+1)
		address := "127.0.0.1:" + gauge.FreePort(tb)
		own := w.write(name+".conf", "[salvor]\nmetrics_listen = "+address+"\n")
		p := testkit.Start(tb, name, "engine", "--config-file", conf, "--config-file", own)
		p.Await(tb, `engine (\S+) is running`, patience)
		w.engines = append(w.engines, engine{p, "http://" + address + "/metrics"})
	}
	return w
}

func (w *world) write(name, text string) string {
	file := filepath.Join(w.tb.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.tb.Fatal(err)
	}
	return file
}

// register makes the segments, puts instances on the hosts and chooses who will die: in the first half of the segments four
// hosts of five, so that the brake has something to hold, in the other half one of five.
func (w *world) register() {
	var bySegment [][]string
	total := 2 * w.o.hosts
	segments := max(2, total/w.o.segmentOf)
	for s := range segments {
		var hosts []string
		for i := s * total / segments; i < (s+1)*total/segments; i++ {
			hosts = append(hosts, fmt.Sprintf("host-%d", i+1))
		}
		testkit.Register(w.tb, w.urls[0], "auto", hosts...)
		share := 4
		if s >= (segments+1)/2 {
			share = 1
		}
		bySegment = append(bySegment, hosts[:len(hosts)*share/5])
	}
	// Segments take turns, each as often as its share asks for.
	for i := 0; len(w.victims) < w.o.hosts; i++ {
		before := len(w.victims)
		for s, hosts := range bySegment {
			every := 1
			if s >= (segments+1)/2 {
				every = 4
			}
			if i%every == 0 && i/every < len(hosts) && len(w.victims) < w.o.hosts {
				w.victims = append(w.victims, hosts[i/every])
			}
		}
		if len(w.victims) == before && i > total {
			break
		}
	}
	for _, host := range w.victims {
		testkit.Must(w.tb, 200, "POST", w.sim+"/sim/instances", map[string]any{"host": host, "count": w.o.instances, "name": "mass"})
	}
}

// list fetches the notifications' status and message.
func (w *world) list() []notification {
	answer := testkit.Must(w.tb, 200, "GET", w.urls[0]+"/v1/notifications?limit=1000", nil)
	var out []notification
	for _, x := range answer["notifications"].([]any) {
		n := x.(map[string]any)
		message, _ := n["message"].(string)
		out = append(out, notification{n["notification_uuid"].(string), n["status"].(string), message})
	}
	return out
}

type notification struct{ uuid, status, message string }

func (n notification) ended() bool {
	return n.status == "finished" || n.status == "failed" || n.status == "ignored"
}

func (n notification) braked() bool { return strings.HasPrefix(n.message, "waiting at gate brake: ") }

// questions is how many statements the database server was sent.
func (w *world) questions() (n int64) {
	var name string
	if err := w.db.DB.QueryRowContext(w.tb.Context(), "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n); err != nil {
		w.tb.Fatal(err)
	}
	return n
}
