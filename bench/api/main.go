// Api measures how many requests a second salvor's api answers, beside Debian's Masakari API on the same machine and database
// server, in turn. See bench/README.md.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/bench/internal/gauge"
	"github.com/salvor-ha/salvor/internal/testkit"
)

type options struct {
	rounds  int
	clients int
	round   time.Duration
	only    string
	against string
	beside  string
	godebug string
}

// listed are the notifications that a list shows.
const listed = 100

func main() {
	var o options
	f := flag.NewFlagSet("api", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 5, "rounds of each contestant and request")
	f.IntVar(&o.clients, "clients", 8, "clients at a time")
	f.DurationVar(&o.round, "round", 3*time.Second, "how long each round takes")
	f.StringVar(&o.only, "request", "", "only those with this in their name")
	f.StringVar(&o.against, "against", "4x1,8x1", "the processes and threads of each Masakari; \"\": none, and no verdict")
	f.StringVar(&o.beside, "beside", "", "another binary of salvor, measured in turn with this source's, and no verdict: what a change did")
	f.StringVar(&o.godebug, "godebug", "", "GODEBUG of salvor's api: what the guide advises for a busy one is schedtrace=2147483647")
	gauge.Parse(f)
	_ = os.Setenv("GODEBUG", o.godebug) // this process has read its own
	runtime.GOMAXPROCS(1)               // a second thread of the clients would have little to do but to wake and be woken
	var results []result
	skipped, ok := testkit.Alone("api", func(tb testing.TB) { results = measure(tb, o) })
	switch {
	case skipped != "":
		fmt.Println(skipped)
	case !ok || !report(os.Stdout, results, o.beside == ""):
		os.Exit(1)
	}
}

// server is one contestant.
type server struct {
	name  string
	url   string
	group int    // of its processes
	one   string // the path of a notification
	hosts []string
}

// request is a kind of request.
type request struct {
	name string
	ask  func(s server, c *testkit.Caller, client int) error
}

// result is what was measured of a request: a sample of each contestant in each round, salvor's first.
type result struct {
	request string
	names   []string // of the contestants
	rounds  [][]sample
}

// sample is one contestant's round.
type sample struct {
	gauge.Pace
	cpu [3]time.Duration // for one request: of the api, the database server and the client
}

func measure(tb testing.TB, o options) []result {
	database := gauge.MariaDB(tb)
	hosts := make([]string, o.clients)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("host-%d", i+1)
	}
	servers := []server{startSalvor(tb, "", database.Create(tb, "salvor"), hosts)}
	if o.beside != "" {
		servers = append(servers, startSalvor(tb, o.beside, database.Create(tb, "beside"), hosts))
	}
	for size := range strings.SplitSeq(o.against, ",") {
		if processes, threads, ok := strings.Cut(size, "x"); ok {
			servers = append(servers, startMasakari(tb, database, hosts, processes, threads))
		}
	}
	for i := range servers {
		servers[i].prepare(tb)
	}
	requests := []request{
		{"list of one segment", get(func(server) string { return "/v1/segments" })},
		{"list of 100 notifications", get(func(server) string { return "/v1/notifications?limit=100" })},
		{"show a notification", get(func(s server) string { return s.one })},
		{"create a notification", func(s server, c *testkit.Caller, client int) error { return create(c, s.hosts[client]) }},
	}
	var results []result
	for _, r := range requests {
		if !strings.Contains(r.name, o.only) {
			continue
		}
		result := result{request: r.name}
		for _, s := range servers {
			result.names = append(result.names, s.name)
		}
		for round := range o.rounds + 1 { // the first one warms up
			var samples []sample
			said := ""
			for _, s := range servers {
				p := s.round(tb, o, database.PID, r)
				samples = append(samples, p)
				said += fmt.Sprintf(", %s %.0f/s", s.name, p.Rate)
			}
			if round > 0 {
				result.rounds = append(result.rounds, samples)
				gauge.Say("round %d, %s%s", round, r.name, said)
			}
		}
		results = append(results, result)
	}
	return results
}

// startSalvor starts an api with its defaults, which writes its log to a file, as Masakari does. The program is a binary, "" for the
// one of this source.
func startSalvor(tb testing.TB, program, url string, hosts []string) server {
	tb.Helper()
	cluster := testkit.NewClusterOf(tb, program, url, len(hosts), "[DEFAULT]", "log_file = "+tb.TempDir()+"/salvor.log", "use_stderr = false")
	address := "127.0.0.1:" + gauge.FreePort(tb)
	process := testkit.StartProgram(tb, cluster.Program, "api", "api", "--config-file", cluster.Conf, "--listen", address)
	name := "salvor"
	if program != "" {
		name = filepath.Base(program)
	}
	s := server{name: name, url: "http://" + address, group: process.PID(), hosts: hosts}
	s.await(tb)
	testkit.Register(tb, s.url, "auto", hosts...)
	return s
}

// await waits until the server answers.
func (s *server) await(tb testing.TB) {
	tb.Helper()
	c := testkit.NewCaller(s.url)
	defer c.Close()
	testkit.Eventually(tb, 10*time.Minute, func() (bool, string) {
		status, err := c.Do("GET", "/v1/segments", "")
		return err == nil && status == 200, fmt.Sprintf("%s: %d %v", s.name, status, err)
	})
}

// prepare makes the notifications that are listed.
func (s *server) prepare(tb testing.TB) {
	tb.Helper()
	c := testkit.NewCaller(s.url)
	defer c.Close()
	for i := range listed {
		if err := create(c, s.hosts[i%len(s.hosts)]); err != nil {
			tb.Fatalf("%s: %v", s.name, err)
		}
	}
	var made struct {
		Notification struct {
			UUID string `json:"notification_uuid"`
		} `json:"notification"`
	}
	if err := json.Unmarshal(c.Body, &made); err != nil {
		tb.Fatal(err)
	}
	s.one = "/v1/notifications/" + made.Notification.UUID
}

// round has each client ask again and again, over a connection of its own.
func (s *server) round(tb testing.TB, o options, database int, r request) sample {
	tb.Helper()
	callers := make([]*testkit.Caller, o.clients)
	for i := range callers {
		callers[i] = testkit.NewCaller(s.url)
		defer callers[i].Close()
	}
	used := func() [3]time.Duration {
		return [3]time.Duration{gauge.CPU(tb, s.group), gauge.CPU(tb, database), gauge.OwnCPU(tb)}
	}
	before := used()
	pace := gauge.Run(tb, o.clients, o.round, func(client int) error {
		if err := r.ask(*s, callers[client], client); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		return nil
	})
	sum := sample{Pace: pace}
	for i, u := range used() {
		sum.cpu[i] = (u - before[i]) / time.Duration(len(pace.Took))
	}
	return sum
}

func get(path func(server) string) func(server, *testkit.Caller, int) error {
	return func(s server, c *testkit.Caller, _ int) error {
		status, err := c.Do("GET", path(s), "")
		if err == nil && (status != 200 || len(c.Body) == 0 || c.Body[len(c.Body)-1] != '}') {
			err = fmt.Errorf("GET %s: %d %s", path(s), status, c.Body)
		}
		return err
	}
}

// create reports about an instance that nothing was reported about.
func create(c *testkit.Caller, host string) error {
	body := `{"notification": {"type": "VM", "hostname": "` + host + `", "generated_time": "` + time.Now().UTC().Format("2006-01-02T15:04:05.000000") +
		`", "payload": {"event": "QEMU_GUEST_AGENT_ERROR", "vir_domain_event": "STOPPED_FAILED", "instance_uuid": "` + uuid.NewString() + `"}}}`
	status, err := c.Do("POST", "/v1/notifications", body)
	if err == nil && status != 202 {
		err = fmt.Errorf("POST /v1/notifications: %d %s", status, c.Body)
	}
	return err
}
