// Api measures how many requests a second salvor's api answers, beside Debian's Masakari API on the same machine and database
// server, in turn. See bench/README.md.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/salvor-ha/salvor/internal/testkit"
)

type options struct {
	rounds  int
	clients int
	round   time.Duration
}

// listed are the notifications that a list shows.
const listed = 100

func main() {
	var o options
	f := flag.NewFlagSet("api", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 5, "rounds of each contestant and request")
	f.IntVar(&o.clients, "clients", 8, "clients at a time")
	f.DurationVar(&o.round, "round", 3*time.Second, "how long each round takes")
	if err := f.Parse(os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			os.Exit(0)
		}
		os.Exit(2)
	}
	var verbs []verb
	skipped, ok := testkit.Alone("api", func(tb testing.TB) { verbs = measure(tb, o) })
	switch {
	case skipped != "":
		fmt.Println(skipped)
	case !ok || !report(os.Stdout, verbs):
		os.Exit(1)
	}
}

// server is one contestant.
type server struct {
	name, url string
	one       string // the path of a notification
	hosts     []string
}

// verb is a kind of request, with what was measured of it.
type verb struct {
	name         string
	ask          func(s server, c *testkit.Caller, client int) error
	salvor, them []sample
}

// sample is one round.
type sample struct {
	rate float64 // a second
	took []time.Duration
}

func measure(tb testing.TB, o options) []verb {
	hosts := make([]string, o.clients)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("host-%d", i+1)
	}
	them := server{name: "masakari", url: masakari(tb, hosts), hosts: hosts}
	cluster := testkit.NewCluster(tb, testkit.MariaDB(tb), o.clients)
	_, api := cluster.API("api")
	testkit.Register(tb, api, "auto", hosts...)
	salvor := server{name: "salvor", url: api, hosts: hosts}
	for _, s := range []*server{&salvor, &them} {
		s.prepare(tb)
	}
	verbs := []verb{
		{name: "list of one segment", ask: get(func(server) string { return "/v1/segments" })},
		{name: "list of 100 notifications", ask: get(func(server) string { return "/v1/notifications?limit=100" })},
		{name: "show a notification", ask: get(func(s server) string { return s.one })},
		{name: "create a notification", ask: func(s server, c *testkit.Caller, client int) error { return create(c, s.hosts[client]) }},
	}
	for round := range o.rounds + 1 { // the first one warms up
		for i := range verbs {
			v := &verbs[i]
			ours, theirs := rate(tb, o, salvor, v.ask), rate(tb, o, them, v.ask)
			if round == 0 {
				continue
			}
			v.salvor, v.them = append(v.salvor, ours), append(v.them, theirs)
			fmt.Fprintf(os.Stderr, "%s round %d, %s: salvor %.0f/s, Masakari %.0f/s\n", time.Now().Format(time.TimeOnly), round, v.name, ours.rate, theirs.rate)
		}
	}
	return verbs
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

func get(path func(server) string) func(server, *testkit.Caller, int) error {
	return func(s server, c *testkit.Caller, _ int) error {
		status, err := c.Do("GET", path(s), "")
		if err == nil && status != 200 {
			err = fmt.Errorf("GET %s: %d %s", path(s), status, c.Body)
		}
		return err
	}
}

// create reports about an instance that nothing was reported about.
func create(c *testkit.Caller, host string) error {
	body := fmt.Sprintf(`{"notification": {"type": "VM", "hostname": %q, "generated_time": %q, "payload": `+
		`{"event": "QEMU_GUEST_AGENT_ERROR", "vir_domain_event": "STOPPED_FAILED", "instance_uuid": %q}}}`,
		host, time.Now().UTC().Format("2006-01-02T15:04:05.000000"), uuid.NewString())
	status, err := c.Do("POST", "/v1/notifications", body)
	if err == nil && status != 202 {
		err = fmt.Errorf("POST /v1/notifications: %d %s", status, c.Body)
	}
	return err
}

// rate has each client ask again and again.
func rate(tb testing.TB, o options, s server, ask func(server, *testkit.Caller, int) error) sample {
	tb.Helper()
	group, ctx := errgroup.WithContext(tb.Context())
	var all sample
	var mu sync.Mutex
	began := time.Now()
	for client := range o.clients {
		group.Go(func() error {
			c := testkit.NewCaller(s.url)
			defer c.Close()
			var took []time.Duration
			for time.Since(began) < o.round && ctx.Err() == nil {
				asked := time.Now()
				if err := ask(s, c, client); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				took = append(took, time.Since(asked))
			}
			mu.Lock()
			defer mu.Unlock()
			all.took = append(all.took, took...)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		tb.Fatal(err)
	}
	all.rate = float64(len(all.took)) / time.Since(began).Seconds()
	return all
}
